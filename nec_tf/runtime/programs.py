"""The programs as commands of `nec-tf`: which there are, and how they were called.

In a checkout the programs are in `trainers/` and `export/`. A wheel has the same files in
`nec_tf/_programs/` (pyproject.toml), so that no package of the name `export` is installed.
"""

import ast
import runpy
import sys
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_IN_WHEEL = _PACKAGE / "_programs"
_FOLDERS = ("trainers", "export")
_GUARD = 'if __name__ == "__main__":'
# Commands whose names differ from those of their files.
_SHORT = {
    "train_atari": "train",
    "export_policy": "export",
    "import_memory": "import",
    "record_result": "record",
    "serving_client": "client",
}


def root() -> Path:
    """Returns the folder that contains `trainers` and `export`."""
    return _IN_WHEEL if _IN_WHEEL.exists() else _PACKAGE.parent


def in_checkout() -> bool:
    """Returns whether this code is a checkout, which has a commit, and not an installed wheel."""
    return (_PACKAGE.parent / ".git").exists()


def commands() -> dict[str, Path]:
    """Returns the file of each command: those with a `__main__` guard."""
    files = [file for folder in _FOLDERS for file in sorted((root() / folder).glob("*.py"))]
    return {_command(file): file for file in files if _GUARD in file.read_text()}


def _command(file: Path) -> str:
    return _SHORT.get(file.stem, file.stem.replace("_", "-"))


def summary(file: Path) -> str:
    """Returns the first line of a program's docstring."""
    return (ast.get_docstring(ast.parse(file.read_text())) or "").split("\n")[0]


def run(file: Path, arguments: list[str]) -> None:
    """Runs a program in this process, as `python <file> <arguments>` would."""
    sys.path.insert(0, str(root()))  # programs of a folder share modules: `from trainers import`
    sys.argv = [str(file), *arguments]
    runpy.run_module(f"{file.parent.name}.{file.stem}", run_name="__main__", alter_sys=True)


def called() -> list[str]:
    """Returns the command that repeats this process: `python trainers/...` or `nec-tf ...`."""
    program = Path(sys.argv[0]).resolve()
    if program.is_relative_to(_IN_WHEEL):
        return ["nec-tf", _command(program), *sys.argv[1:]]
    if program.is_relative_to(root()):
        program = program.relative_to(root())
    return ["python", str(program), *sys.argv[1:]]
