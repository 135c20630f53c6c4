import os
import subprocess
import sys

import pytest
from documents import ROOT
from lanes import DEFAULT

VARIABLE = "TF_USE_LEGACY_KERAS"


def run(script, **variables):
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    command = [sys.executable, "-c", script]
    return subprocess.run(
        command, env=environment | variables, cwd=ROOT, capture_output=True, text=True
    )


def test_the_variable_is_set_only_where_keras_is_newer_than_2():
    done = run(f"import os, nec_tf; print(os.environ.get('{VARIABLE}'))")
    assert done.stdout.strip() == ("None" if DEFAULT else "1"), done.stderr


@pytest.mark.skipif(DEFAULT, reason="TensorFlow 2.15 has no Keras 3")
@pytest.mark.parametrize(
    ("script", "variables"),
    [
        ("import sys; sys.modules['tensorflow'] = sys; import nec_tf", {}),
        ("import nec_tf", {VARIABLE: "0"}),
    ],
)
def test_keras_3_is_refused_with_the_fix(script, variables):
    done = run(script, **variables)
    assert done.returncode != 0
    assert f"import nec_tf before tensorflow, or set {VARIABLE}=1" in done.stderr
