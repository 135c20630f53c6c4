import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_importing_the_library_prints_nothing():
    loud = {"TF_CPP_MIN_LOG_LEVEL", "PYGAME_HIDE_SUPPORT_PROMPT"}  # tests set them
    environment = {name: value for name, value in os.environ.items() if name not in loud}
    script = "import nec_tf; nec_tf.NecAgent; nec_tf.make_atari_environment; nec_tf.train"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr == ""
