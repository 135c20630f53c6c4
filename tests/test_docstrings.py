"""The examples in the docstrings of the library run and print what they show."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import nec_tf

ROOT = Path(__file__).parents[1]
EXAMPLE = re.compile(r"^\s*>>> ", re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules_with_examples() -> list[str]:
    files = sorted((ROOT / "nec_tf").rglob("*.py"))
    found = [file.relative_to(ROOT) for file in files if EXAMPLE.search(file.read_text())]
    return [".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in found]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_print_what_they_show(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for examples that save files
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=FLAGS)
    assert result.failed == 0, "the report is in the captured output"
    written = len(EXAMPLE.findall(Path(module.__file__).read_text()))
    assert result.attempted == written, "doctest did not find every example"


def test_every_public_class_has_an_example():
    public = {name: getattr(nec_tf, name) for name in nec_tf.__all__}
    classes = {name: public[name] for name in public if inspect.isclass(public[name])}
    assert "NecAgent" in classes
    without = [name for name, kind in classes.items() if not EXAMPLE.search(kind.__doc__ or "")]
    assert without == []
