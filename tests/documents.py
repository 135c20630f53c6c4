"""The documents of the repository, their text outside code, and their code."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
FENCE = re.compile(r"^( *)(`{3,}|~{3,})(\w*)[^\n]*\n(.*?)^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    """Returns README.md and the other top-level documents, the pages of docs/, and the notebook."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    deployed = sorted((ROOT / "deploy").rglob("*.md"))
    return [*sorted(ROOT.glob("*.md")), *pages, *deployed, NOTEBOOK]


def text(document: Path) -> str:
    """Returns a document as Markdown; of the notebook, its Markdown cells."""
    if document.suffix != ".ipynb":
        return document.read_text()
    cells = json.loads(document.read_text())["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def prose(markdown: str) -> str:
    """Returns Markdown without its code."""
    return re.sub(r"`[^`\n]+`", "`code`", FENCE.sub("", markdown))


def code(markdown: str, *languages: str) -> list[str]:
    """Returns the blocks of code in some languages; "" is a block that names none."""
    return [found[4] for found in FENCE.finditer(markdown) if found[3] in languages]
