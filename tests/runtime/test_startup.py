import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nec_tf.runtime import startup
from nec_tf.runtime.errors import UserError, note_environment

ROOT = Path(__file__).parents[2]
TUNABLES = "GLIBC_TUNABLES"


def environment_of(process):
    """Returns what a process was started with; starting anew keeps its number."""
    entries = Path(f"/proc/{process.pid}/environ").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


@pytest.mark.parametrize("given", [None, "glibc.malloc.check=0"])
def test_a_program_has_huge_pages_unless_something_else_was_asked_for(given, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != TUNABLES}
    if given:
        environment[TUNABLES] = given
    command = [sys.executable, ROOT / "trainers" / "train_gym.py", f"--run_dir={tmp_path}/run"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        # Once it has a folder, it has long been started anew if it ever is.
        while not (tmp_path / "run" / "config.json").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        seen = environment_of(process).get(TUNABLES)
        process.send_signal(signal.SIGKILL)
    assert seen == (given or "glibc.malloc.hugetlb=1")


def test_what_only_imports_it_is_left_alone():
    environment = {name: value for name, value in os.environ.items() if name != TUNABLES}
    script = (
        "import os; from nec_tf.runtime import startup; startup.configure(restart=False);"
        f"print(os.environ.get('{TUNABLES}'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.strip() == "None", done.stderr


def test_growing_tables_leave_little_memory_behind():
    """608 bytes a row are held; TensorFlow's allocator for oneDNN keeps 2,100."""
    script = """
from nec_tf.runtime import startup
startup.configure(restart=False)
import psutil, tensorflow as tf
from nec_tf.memory.tables import Tables
tables = Tables(64, tf.float32)
tables.add_scratch_like(tables.keys, "keys_mean_square")
tables.add_scratch_like(tables.values, "values_mean_square")
before = psutil.Process().memory_info().rss
for rows in range(1_000, 201_000, 1_000):
    tables.reserve(rows)
print((psutil.Process().memory_info().rss - before) / rows)
"""
    ours = ("TF_ENABLE_ONEDNN_OPTS", "TF_ONEDNN_USE_SYSTEM_ALLOCATOR")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert 500 < float(done.stdout) < 1_000


def noted(error, note):
    error.add_note(note)
    return error


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UserError("no such game"), 2, "no such game\n"),
        (UserError("bad\n  In call to configurable 'NecConfig'"), 2, "bad\n"),
        (noted(UserError("bad"), "It was saved."), 2, "bad. It was saved.\n"),
        (MemoryError("7 TiB"), 1, "there is not enough memory: 7 TiB\n"),
        (OSError(errno.ENOSPC, "full", "x.csv"), 1, "cannot use x.csv: full\n"),
        (OSError(errno.EISDIR, "a folder", "x.csv"), 1, "cannot use x.csv: a folder\n"),
        (
            noted(OSError(errno.EIO, "broken", "x"), "Not saved."),
            1,
            "cannot use x: broken. Not saved.\n",
        ),
    ],
)
def test_expected_failures_are_reported_as_sentences(error, code, message, capsys):
    def main():
        raise error

    with pytest.raises(SystemExit) as ended:
        startup.guarded(main)([])
    assert ended.value.code == code
    assert capsys.readouterr().err.endswith(f": {message}")


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "denied", "rom.bin"), MemoryError("much")])
def test_errors_of_an_environment_keep_their_traceback(error):
    note_environment(error, "Mine-v0 (episode 1, step 2)")

    def main():
        raise error

    with pytest.raises(type(error)):
        startup.guarded(main)([])


PRINTING = """
import sys
from nec_tf.runtime import startup
def main():
    print("said")
startup.guarded(main)([])
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("output", ["/dev/full", "closed pipe"])
def test_output_that_cannot_be_written_is_a_sentence(output, unbuffered):
    if output == "closed pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(output, os.O_WRONLY)
    done = subprocess.run(
        [sys.executable, "-c", PRINTING],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert "cannot write: " in sentence


BROKEN = """
import sys
from nec_tf.runtime import startup, streams
def main():
    print("a line", file=streams.Unbreakable(sys.stderr))
    streams.say("said")
startup.guarded(main)([])
"""


def test_broken_streams_do_not_change_the_exit_code_of_a_run():
    """It went on without its terminal."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", BROKEN],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        stdout=writing,
        stderr=writing,
    )
    os.close(writing)
    assert done.returncode == 0
