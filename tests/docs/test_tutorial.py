"""The tutorial's cells run in order, in a new process, and print what the notebook shows.

NEC_TF_UPDATE_TUTORIAL=1 writes what they print into the notebook.
"""

import json
import os
import subprocess
import sys

import pytest
from documents import NOTEBOOK, ROOT

# Runs the code of each cell in one namespace, and writes what each cell printed.
RUNNER = """
import contextlib, io, json, sys
cells = [cell for cell in json.load(open(sys.argv[1]))["cells"] if cell["cell_type"] == "code"]
namespace, printed = {"__name__": "__main__"}, []
for number, cell in enumerate(cells):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)
    printed.append(output.getvalue())
json.dump(printed, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each cell with code prints."""
    folder = tmp_path_factory.mktemp("tutorial")
    command = [sys.executable, "-c", RUNNER, str(NOTEBOOK), str(folder / "printed.json")]
    environment = {k: v for k, v in os.environ.items() if k != "TF_ENABLE_ONEDNN_OPTS"}
    environment |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "printed.json").read_text())


@pytest.fixture(scope="module")
def notebook():
    return json.loads(NOTEBOOK.read_text())


def with_code(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_every_cell_runs_and_the_agent_learns(notebook, printed):
    if os.environ.get("NEC_TF_UPDATE_TUTORIAL"):
        for cell, text in zip(with_code(notebook), printed, strict=True):
            lines = text.splitlines(keepends=True)
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": lines}]
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    (score,) = (text for text in printed if text.startswith("mean score after"))
    assert float(score.split()[-1]) > 60  # random play: 22


def test_the_notebook_shows_what_its_cells_print(printed):
    """To the digit before training; afterwards numbers depend on the processor."""
    cells = with_code(json.loads(NOTEBOOK.read_text()))
    shown = ["".join(cell["outputs"][0]["text"]) for cell in cells]
    assert [text.count("\n") for text in shown] == [text.count("\n") for text in printed]
    trained = next(i for i, cell in enumerate(cells) if "nec_tf.train(" in "".join(cell["source"]))
    assert shown[:trained] == printed[:trained]


def test_the_tutorial_is_a_notebook_of_format_4(notebook):
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in with_code(notebook):
        assert {"cell_type", "execution_count", "id", "metadata", "outputs", "source"} == set(cell)
