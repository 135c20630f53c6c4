"""BUILD holds every Python file once, with the deps of its imports; pyproject.toml ships the rest.

BUILD is evaluated here in Python, and loaded by Bazel itself.
"""

import ast
import copy
import re
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from nec_tf.runtime.version import VERSION

ROOT = Path(__file__).parents[1]
GUARD = re.compile(r"^if __name__ == ['\"]__main__['\"]:", re.MULTILINE)
DOTTED = re.compile(r"[a-z]\w*(\.\w+)+(:\w+)?")  # "package.module" or "package.module:name"
LIBRARY = ":nec_tf"  # all rooms: a dependency on it is one on each of them
INIT = "nec_tf/__init__.py"  # loads what it exports on first use


def repository_files() -> list[str]:
    """Returns the files in the repository, and those that `git add` would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({file for file in listed.splitlines() if (ROOT / file).exists()})


def matches(pattern: str, file: str) -> bool:
    """Returns whether a file matches: `*` stays in a folder, `**` is any folders."""
    parts = {"**/": "(?:.+/)?", "**": ".*", "*": "[^/]*"}
    split = re.split(r"(\*\*/|\*\*|\*)", pattern)
    return (
        re.fullmatch("".join(parts.get(part, re.escape(part)) for part in split), file) is not None
    )


def evaluate(build: str, files: list[str]) -> list[dict]:
    """Returns the targets of a BUILD file: the arguments of each rule's call, and `rule`."""
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
    """Returns how often each file is a source of targets of the given rules."""
    return Counter(
        source for target in targets if target["rule"] in rules for source in target.get("srcs", [])
    )


def imports(source: str) -> Iterator[tuple[str, str]]:
    """Yields module and name of each import, in functions too, and of each "module:name" string."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and DOTTED.fullmatch(str(node.value)):
            module, _, name = str(node.value).partition(":")
            yield module, name


def imported_file(module: str, name: str, files: set[str]) -> str | None:
    """Returns the file that an import loads; None if it is not a file of the repository."""
    path = module.replace(".", "/")
    places = [f"{path}/{name}.py", f"{path}/{name}/__init__.py"] if name else []
    places += [f"{path}.py", f"{path}/__init__.py", f"tests/{path}.py"]
    return next((place for place in places if place in files), None)


def needs(targets: list[dict]) -> dict[tuple[str, str], str]:
    """Returns an example of an import for each pair of labels: importing and imported target."""
    python = [target for target in targets if target["rule"].startswith("py_")]
    owner = {file: f":{target['name']}" for target in python for file in target.get("srcs", [])}
    found: dict[tuple[str, str], str] = {}
    for file in sorted(set(owner) & set(repository_files())):
        user = LIBRARY if file == INIT else owner[file]
        if file.startswith("nec_tf/"):  # Python imports a module's packages before it
            found[user, owner[INIT]] = f"{file} imports nec_tf"
        for module, name in imports((ROOT / file).read_text()):
            imported = imported_file(module, name, set(owner))
            if imported:
                used = LIBRARY if imported == INIT else owner[imported]
                found.setdefault((user, used), f"{file} imports {module}")
    return {(user, used): example for (user, used), example in found.items() if user != used}


def dependencies(targets: list[dict]) -> dict[str, set[str]]:
    """Returns the direct dependencies of each target, by labels; those of `LIBRARY` count too."""
    direct = {f":{target['name']}": set(target.get("deps", [])) for target in targets}
    return {
        label: deps | direct[LIBRARY] if LIBRARY in deps else deps for label, deps in direct.items()
    }


def uncovered(targets: list[dict]) -> list[str]:
    """Returns a sentence for each dependency that BUILD omits."""
    deps = dependencies(targets)
    return [
        f"{example}: add {used} to the deps of {user}"
        for (user, used), example in needs(targets).items()
        if used not in deps[user]
    ]


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


def test_every_import_is_covered_by_a_dependency_of_its_target(targets):
    assert uncovered(targets) == []


@pytest.mark.parametrize(
    ("room", "dependency"), [("memory", "runtime"), ("agents", "serving"), ("trainers", "nec_tf")]
)
def test_an_omitted_dependency_would_be_found(targets, room, dependency):
    changed = copy.deepcopy(targets)
    next(target for target in changed if target["name"] == room)["deps"].remove(f":{dependency}")
    assert any(sentence.endswith(f"to the deps of :{room}") for sentence in uncovered(changed))


def test_rooms_depend_only_on_rooms_that_they_import(targets):
    used = set(needs(targets))
    deps = dependencies(targets)
    rooms = sorted(deps[LIBRARY])
    assert [(room, dep) for room in rooms for dep in deps[room] if (room, dep) not in used] == []


def test_data_files_of_the_library_are_in_a_target_and_in_the_wheel(targets):
    data = [f for f in repository_files() if f.startswith("nec_tf/") and not f.endswith(".py")]
    in_targets = {file for target in targets for file in target.get("data", [])}
    assert set(data) - in_targets == set(), "in no target of BUILD"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["nec_tf"]
    shipped = {file for file in data for p in patterns if matches(f"nec_tf/{p}", file)}
    assert set(data) - shipped == set(), "not in package-data of pyproject.toml"


def test_every_package_and_the_programs_are_in_the_wheel():
    inits = [f for f in repository_files() if f.endswith("/__init__.py")]
    packages = {f.removesuffix("/__init__.py").replace("/", ".") for f in inits}
    expected = {package for package in packages if package.split(".")[0] == "nec_tf"}
    expected |= {"nec_tf._programs.trainers", "nec_tf._programs.export"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["setuptools"]["packages"]) == expected


def test_versions_agree():
    for file, pattern in [
        ("CITATION.cff", r"^version: (\S+)$"),
        ("CHANGELOG.md", r"^## \[(\d\S*)\]"),
    ]:
        found = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE)
        assert found, file
        assert found[1] == VERSION, file


def test_bounds_of_the_wheel_contain_the_versions_of_the_lock():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"].values()
    wanted = map(
        Requirement, [*project["dependencies"], *(one for group in optional for one in group)]
    )
    locked = dict(
        re.findall(r"^([\w-]+)(?:\[.*\])?==(\S+)", (ROOT / "requirements.txt").read_text(), re.M)
    )
    locked["wandb"] = "0.19.11"  # not in the lock; the version that was tried with it
    for requirement in wanted:
        if requirement.name != "nec_tf":
            bounds = {specifier.operator for specifier in requirement.specifier}
            assert bounds == {">=", "<"}, requirement
            assert locked[requirement.name] in requirement.specifier, requirement


def test_the_readme_names_every_extra():
    section = (ROOT / "README.md").read_text().split("Extras:")[1].split("\n\n")[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*re.findall(r"`([a-z]+)`", section)} - {"tune", "screen"} == {
        *project["optional-dependencies"]
    }


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
