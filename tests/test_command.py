"""The command nec-tf: from the checkout, and from the wheel in a new environment."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nec_tf.runtime import programs

ROOT = Path(__file__).parents[1]


def run(*arguments, **kwargs):
    command = [sys.executable, "-m", "nec_tf", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **kwargs)


def test_help_lists_every_program_with_its_summary():
    text = run("--help", cwd=ROOT).stdout
    for name, file in programs.commands().items():
        assert f"  {name} " in text
        assert programs.summary(file) in text
    expected = {"train", "train-gym", "evaluate", "export", "import", "sweep", "tune", "report"}
    assert expected | {"record", "client"} <= set(programs.commands())


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_import_no_tensorflow(flag):
    script = (
        f"import sys; sys.argv = ['nec-tf', '{flag}']; from nec_tf import __main__ as command;"
        " command.main(); print('numpy' in sys.modules or 'tensorflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "False", done.stderr


def test_an_unknown_command_gets_a_sentence():
    done = run("trian", cwd=ROOT)
    assert (done.returncode, done.stderr) == (
        2,
        "nec-tf: unknown command 'trian': did you mean train?\n",
    )


def test_a_missing_package_gets_the_extra_that_installs_it(tmp_path):
    (tmp_path / "rich.py").write_text("raise ModuleNotFoundError('none', name='rich')")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = run("sweep", "--list", cwd=ROOT, env={**os.environ, "PYTHONPATH": path})
    # `python -m` puts the current folder first; rich is found in PYTHONPATH before site-packages.
    assert done.returncode == 2
    assert "sweep needs rich, which is not installed: pip install 'nec_tf[sweep]'" in done.stderr


def test_a_command_is_noted_as_the_program_that_it_runs(monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(ROOT / "trainers" / "train_gym.py"), "--seed=2"])
    assert programs.called() == ["python", "trainers/train_gym.py", "--seed=2"]
    monkeypatch.setattr(programs, "_IN_WHEEL", ROOT)
    assert programs.called() == ["nec-tf", "train-gym", "--seed=2"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy, since a build leaves files behind."""
    if sys.version_info >= (3, 12):
        pytest.skip("the wheel is for CPython 3.11, as the default lane is")
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("nec_tf", "trainers", "export"):
        shutil.copytree(ROOT / name, folder / "source" / name)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / "source")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*command, "-w", folder, folder / "source"], check=True, timeout=120)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_library_programs_and_types(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {"nec_tf/py.typed", "nec_tf/_programs/trainers/train_atari.py"} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"nec_tf"}  # and its metadata


def test_the_wheel_trains_evaluates_and_exports_in_a_new_environment(wheel, tmp_path):
    """With the versions of the lock: the bounds of the wheel are checked by tests/test_build.py."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment |= {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_"))}

    def call(*command):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    call(sys.executable, "-m", "venv", "new")
    pip = ["new/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    call(*pip, "--constraint", str(ROOT / "requirements.txt"), f"{wheel}[atari]")
    nec_tf = "new/bin/nec-tf"
    assert call(nec_tf, "--version").startswith("nec_tf ")
    call(nec_tf, "train", "--game=Pong", "--frames=3000", "--eval_episodes=1", "--run_dir=run")
    (noted,) = (tmp_path / "run" / "commands.txt").read_text().splitlines()
    assert noted.startswith("version ")
    assert noted.split(": ", 1)[1].startswith("nec-tf train --game=Pong --frames=3000")
    assert "scores" in call(nec_tf, "evaluate", "--run_dir=run", "--eval_episodes=1")
    assert "entries" in call(nec_tf, "export", "--run_dir=run", "--output_dir=exported/pong")
    assert (tmp_path / "exported" / "pong" / "1" / "saved_model.pb").exists()
