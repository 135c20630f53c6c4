"""Hooks of MkDocs and mkdocstrings: the repository as a site.

Links in README.md and docs/ are those of the repository's own view. The site has pages in docs/
only, so that three kinds of pages are generated here: top-level documents (README.md is the first
page), the tutorial notebook, and one page for each source file that a document links to.
"""

import json
import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
NOTEBOOK = "docs/tutorial.ipynb"
# Documents outside docs/, and the notebook: their pages.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    NOTEBOOK: "tutorial.md",
}
EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> ).+\n?)*)+", re.MULTILINE)
CODE = re.compile(r"^(```|~~~).*?^\1[ \t]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r'(\]\(|(?:src|href)=")([^)"\s#:]+)(#[^)"\s]*)?(?=[)"])')
# Those that follow the pages of mkdocs.yml.
LAST = {"Contributing": "CONTRIBUTING.md", "Security": "SECURITY.md", "Changelog": "CHANGELOG.md"}
LANGUAGES = {".py": "python", ".c": "c", ".yaml": "yaml", ".yml": "yaml", ".md": "markdown"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Appends top-level documents to the navigation."""
    assert config.nav
    config.nav += [{title: PAGES[name]} for title, name in LAST.items() if (ROOT / name).exists()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    for origin, uri in PAGES.items():
        if (ROOT / origin).exists():
            files.append(File.generated(config, uri, content=_document(origin)))
    documents = [f"docs/{file.src_uri}" for file in files.documentation_pages() if file.src_dir]
    linked = {path for origin in [*documents, *PAGES] for path in _links(origin)}
    # MkDocs warns of links to what does not exist: no page is made for them.
    shown = {path for path in linked if not path.startswith(("/", "..")) and (ROOT / path).exists()}
    for path in sorted(path for path in shown if _page(path).startswith("source/")):
        files.append(File.generated(config, _page(path), content=_source(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points the links of a page at pages of the site."""
    uri = page.file.src_uri
    if uri.startswith("source/"):
        return markdown
    origin = next((origin for origin, made in PAGES.items() if made == uri), f"docs/{uri}")

    def rewrite(link: re.Match) -> str:
        target = _page(_path(origin, link[2]))
        relative = posixpath.relpath(target, posixpath.dirname(uri) or ".")
        return f"{link[1]}{relative}{link[3] or ''}"

    return _outside_code(markdown, rewrite)


def _links(origin: str) -> list[str]:
    """Returns the files that a document links to, as paths from the top folder."""
    found: list[str] = []
    if (ROOT / origin).exists():
        _outside_code(_document(origin), lambda link: found.append(link[2]) or link[0])
    return [_path(origin, target) for target in found]


def _outside_code(markdown: str, rewrite) -> str:
    """Replaces links, except in code."""
    parts, end = [], 0
    for code in CODE.finditer(markdown):
        parts += [LINK.sub(rewrite, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, LINK.sub(rewrite, markdown[end:])])


def _path(origin: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def _page(path: str) -> str:
    """Returns the page of a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.md"


def _source(path: str) -> str:
    """Returns a page that shows a file, or the names in a folder."""
    file = ROOT / path
    if file.is_dir():
        names = sorted(one.name for one in file.iterdir() if one.name[0] not in "._")
        text, language = "\n".join(names), "text"
    else:
        try:
            text, language = file.read_text(), LANGUAGES.get(file.suffix, "text")
        except UnicodeDecodeError:
            text, language = f"a binary file of {file.stat().st_size:,} bytes", "text"
    fence = "````" if "```" in text else "```"
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n{fence}{language}\n{text}\n{fence}\n"


def _document(origin: str) -> str:
    text = (ROOT / origin).read_text()
    return _notebook(json.loads(text)["cells"]) if origin == NOTEBOOK else text


def _notebook(cells: list[dict]) -> str:
    """Returns the cells of a notebook and what they printed."""
    blocks = []
    for cell in cells:
        source = "".join(cell["source"])
        blocks.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        printed = "".join("".join(output.get("text", "")) for output in cell.get("outputs", []))
        if printed:
            blocks.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(blocks) + "\n"


class Examples(griffe.Extension):
    """Marks the examples of docstrings as code; otherwise `>>>` would begin a quotation."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each object that was read."""
        if obj.docstring:
            text = obj.docstring.value
            obj.docstring.value = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```\n", text)
