"""docs/dependencies.md lists the lock, with licences and bounds of the installed packages."""

import importlib.metadata
import re
from pathlib import Path

from lanes import of_the_default_lock
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
UPPER = ("==", "<", "<=", "~=", "===")


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def locked():
    """Versions of the lock by name."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if re.match(r"[a-z0-9]", line)]
    return {normal(name.partition("[")[0]): version.split()[0] for name, version in pins}


def listed():
    """Rows of the last table of the document, as lists of cells."""
    table = (ROOT / "docs" / "dependencies.md").read_text().split("| --- |")[-1]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def licence(distribution):
    metadata = distribution.metadata
    if metadata.get("License-Expression"):
        return metadata["License-Expression"]
    classifiers = metadata.get_all("Classifier") or []
    named = [text.split(" :: ")[-1] for text in classifiers if text.startswith("License ::")]
    named = [text for text in named if text != "OSI Approved"]
    return ", ".join(named) or (metadata.get("License") or "").strip().partition("\n")[0]


def bounds():
    """Upper bounds by the package that they hold, as "requirer specifier"."""
    found = {}
    for name in locked():
        for text in importlib.metadata.distribution(name).requires or []:
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            upper = sorted(str(s) for s in requirement.specifier if s.operator in UPPER)
            if upper:
                held = found.setdefault(normal(requirement.name), [])
                held.append(f"{name} {','.join(upper)}")
    return found


def test_the_document_lists_the_lock():
    assert {row[0]: row[1] for row in listed()} == locked()


@of_the_default_lock
def test_licences_and_bounds_are_those_of_the_installed_packages():
    held, compared = bounds(), 0
    for name, version, stated, _, bound in listed():
        distribution = importlib.metadata.distribution(name)
        if distribution.version == version:
            assert (name, stated) == (name, licence(distribution))
            assert (name, bound) == (name, "; ".join(held.get(name, [])))
            compared += 1
    assert compared > 100  # an environment with other versions has little to compare
