"""The site of `make docs` has every page and every public name, and loads nothing from elsewhere.

`make docs` itself, which CI runs, fails at every warning.
"""

import re
from pathlib import Path

import pytest
import yaml
from documents import ROOT

import nec_tf


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml without calling what it names."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)


@pytest.fixture(scope="module")
def site():
    return yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)


def pages(nav):
    for entry in nav:
        for value in entry.values():
            yield from pages(value) if isinstance(value, list) else [value]


def test_every_page_is_in_the_navigation_once(site):
    written = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    made = {"index.md", "tutorial.md"}  # by docs/hooks.py
    listed = list(pages(site["nav"]))
    assert sorted(listed) == sorted(written | made)


def test_the_reference_has_every_public_name_once():
    named = re.findall(r"^::: nec_tf\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.M)
    assert sorted(named) == sorted({*nec_tf.__all__} - {"__version__"})


def test_the_site_loads_nothing_from_elsewhere(site):
    assert site["theme"]["font"] is False
    assert not {"extra_javascript", "extra_css"} & set(site)
    assert all(Path(ROOT / hook).exists() for hook in site["hooks"])
