"""Relative links in the documents lead to files and to headings that exist."""

import re
from collections import Counter
from pathlib import Path

import pytest
from documents import FENCE, ROOT, documents, prose, text

LINK = re.compile(r'\]\(\s*<?([^)>\s]+)>?(?:\s+"[^"]*")?\s*\)|(?:src|href)="([^"]+)"')
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")  # https:, mailto:


def anchors(markdown: str) -> set[str]:
    """Returns the anchors of headings, as repository views make them."""
    found = set(re.findall(r'\b(?:id|name)="([^"]+)"', markdown))
    count: Counter[str] = Counter()
    for heading in HEADING.findall(FENCE.sub("", markdown)):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        found.add(f"{slug}-{count[slug]}" if count[slug] else slug)
        count[slug] += 1
    return found


def broken(document: Path, markdown: str) -> list[str]:
    """Returns the links of a document that lead nowhere."""
    wrong = []
    for target in (one or other for one, other in LINK.findall(prose(markdown))):
        if ELSEWHERE.match(target):
            continue
        name, _, anchor = target.partition("#")
        file = (document.parent / name).resolve() if name else document
        if not file.is_relative_to(ROOT) or not file.exists():
            wrong.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(markdown if file == document else text(file)):
            wrong.append(f"{target}: no such heading")
    return wrong


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    assert broken(document, text(document)) == []


def test_a_broken_link_would_be_found():
    markdown = (
        "# One, two (3)\n\n[a](#one-two-3) [b](#two) [c](docs/results.md#nothing) [d](nowhere.md)\n"
        '<img src="docs/none.png"> `[e](code.md)` [f](https://example.org) [g](docs/results.md)\n'
        "```\n# Comment\n[h](block.md)\n```\n[i](#comment) [j](../outside.md)\n"
    )
    assert broken(ROOT / "README.md", markdown) == [
        "#two: no such heading",
        "docs/results.md#nothing: no such heading",
        "nowhere.md: no such file",
        "docs/none.png: no such file",
        "#comment: no such heading",
        "../outside.md: no such file",
    ]


def test_repeated_headings_get_numbers():
    assert anchors("# A\n## A\n## A\n## B") == {"a", "a-1", "a-2", "b"}
