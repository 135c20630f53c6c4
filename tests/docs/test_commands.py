"""The commands in the documents name programs, flags and files that exist.

tests/docs/test_commands_run.py runs them.
"""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from commands import flags_of, in_documents, lines, parse, wrong
from documents import ROOT, documents, text

FOLDERS = ("benchmarks/", "deploy/", "examples/", "export/", "requirements", "tests/", "trainers/")


def test_programs_and_flags_in_documents_exist():
    found = in_documents()
    assert len(found) > 40
    with ThreadPoolExecutor(2) as threads:  # the help of each program, once
        list(threads.map(flags_of, {c.program for c in found if (ROOT / c.program).is_file()}))
    mistakes = [f"{c.document}: {c.line}: {one}" for c in found for one in wrong(c)]
    assert mistakes == []


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("make tset ARGS=-x", "make: no tset"),
        ("make train GAMES=Pong", "make: no GAMES"),
        ("nec-tf trian --frames=1", "no program nec-tf ['trian', '--frames=1']"),
        ("python trainers/train.py", "no program trainers/train.py"),
        ("cd x && .venv/bin/python trainers/report.py --frame=1", "has no flag --frame"),
        ("python -m benchmarks.nothing  # a comment", "no program benchmarks/nothing.py"),
    ],
)
def test_a_mistake_would_be_found(line, mistake):
    (command,) = parse("x.md", line)
    (found,) = wrong(command)
    assert found.endswith(mistake)


def test_files_in_documents_exist():
    missing = []
    for document in documents():
        for line in lines(text(document)):
            names = re.findall(rf"(?<![\w/.=-])((?:{'|'.join(FOLDERS)})[\w./-]*)", line)
            missing += [f"{document.name}: {name}" for name in names if not (ROOT / name).exists()]
    assert missing == []
