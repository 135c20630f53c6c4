"""BUILD holds every Python file once; evaluated here in Python, and loaded by Bazel itself."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUARD = re.compile(r"^if __name__ == ['\"]__main__['\"]:", re.MULTILINE)


def repository_files() -> list[str]:
    """What is in the repository, and what would be after `git add`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({file for file in listed.splitlines() if (ROOT / file).exists()})


def matches(pattern: str, file: str) -> bool:
    """Whether a file fits a pattern of Bazel: `*` stays in a folder, `**` is any folders."""
    parts = {"**/": "(?:.+/)?", "**": ".*", "*": "[^/]*"}
    split = re.split(r"(\*\*/|\*\*|\*)", pattern)
    return (
        re.fullmatch("".join(parts.get(part, re.escape(part)) for part in split), file) is not None
    )


def evaluate(build: str, files: list[str]) -> list[dict]:
    """Returns the targets of a BUILD file: what its rules were called with, and `rule`."""
    targets: list[dict] = []

    def glob(include, exclude=()):
        return [
            file
            for file in files
            if any(matches(pattern, file) for pattern in include)
            and not any(matches(pattern, file) for pattern in exclude)
        ]

    def rule(name):
        return lambda **attributes: targets.append({"rule": name, **attributes})

    rules = ("py_library", "py_binary", "py_test", "genrule")
    namespace = {name: rule(name) for name in rules}
    exec(build, {**namespace, "glob": glob, "package": lambda **_: None})
    return targets


@pytest.fixture(scope="module")
def targets() -> list[dict]:
    return evaluate((ROOT / "BUILD").read_text(), repository_files())


def sources(targets: list[dict], *rules: str) -> Counter:
    """How often each file is a source of targets of the given rules."""
    return Counter(
        source for target in targets if target["rule"] in rules for source in target["srcs"]
    )


def test_every_python_file_belongs_to_exactly_one_target(targets):
    count = sources(targets, "py_library", "py_binary", "py_test")
    python = [file for file in repository_files() if file.endswith(".py")]
    assert [file for file in python if count[file] == 0] == [], "in no target of BUILD"
    assert [file for file in python if count[file] > 1] == [], "in more than one target of BUILD"


def test_programs_are_what_has_a_main_guard(targets):
    binaries = set(sources(targets, "py_binary"))
    python = [file for file in repository_files() if file.endswith(".py")]
    guarded = {file for file in python if GUARD.search((ROOT / file).read_text())}
    assert guarded - binaries == set(), "add it to PROGRAMS in BUILD"
    assert binaries - guarded == set(), "a program has a __main__ guard"


def test_every_test_file_is_a_test(targets):
    tests = {file for file in repository_files() if matches("tests/**/test_*.py", file)}
    assert set(sources(targets, "py_test")) & set(repository_files()) == tests


def test_names_and_dependencies_are_those_of_targets(targets):
    names = Counter(target["name"] for target in targets)
    assert [name for name, count in names.items() if count > 1] == []
    wanted = {label for target in targets for label in target.get("deps", [])}
    assert {label.removeprefix(":") for label in wanted} <= set(names)


def test_a_forgotten_and_a_doubled_file_would_be_found():
    build = 'py_library(name = "a", srcs = glob(["a/*.py"]))\n'
    build += 'py_library(name = "b", srcs = glob(["**/x.py"], exclude = ["b/*"]))'
    count = sources(evaluate(build, ["a/x.py", "a/b/y.py", "a/z.py"]), "py_library")
    assert count == {"a/x.py": 2, "a/z.py": 1}


@pytest.mark.skipif(shutil.which("bazel") is None, reason="bazel (bazel-bootstrap) is missing")
def test_bazel_loads_it(targets, tmp_path):
    # --batch: no server is left behind. A query makes no bazel-* links.
    command = ["bazel", "--batch", f"--output_user_root={tmp_path}", "query", "--noshow_progress"]
    query = subprocess.run(
        [*command, "//..."], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert query.returncode == 0, query.stderr
    assert set(query.stdout.split()) == {f"//:{target['name']}" for target in targets}
