"""Runs an export with TensorFlow's C library, without Python; see run_export.c."""

import io
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

_SOURCE = Path(__file__).with_name("run_export.c")


class Decisions(NamedTuple):
    """Results of the C program.

    Attributes:
        actions: int64 [n].
        q_values: float32 [n, A].
        milliseconds: Duration of each call, float64 [calls], by batch size.
    """

    actions: np.ndarray
    q_values: np.ndarray
    milliseconds: dict[int, np.ndarray]


def build(folder: Path) -> Path:
    """Compiles the C program against the library in TensorFlow's wheel; returns its path."""
    library = tf.sysconfig.get_lib()
    program = folder / "run_export"
    command = ["gcc", "-O2", "-Wall", str(_SOURCE), "-o", str(program)]
    command += [f"-I{tf.sysconfig.get_include()}", f"-L{library}", f"-Wl,-rpath,{library}"]
    command += ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"]
    subprocess.run(command, check=True)
    return program


def decide(
    program: Path, model: Path, states: np.ndarray, batches: Sequence[int], rounds: int = 1
) -> Decisions:
    """Computes actions and Q-values of states with a SavedModel.

    Args:
        program: Result of `build`.
        model: Folder of the SavedModel.
        states: [n, ...].
        batches: Batch sizes, run in turn; the results are those of the last.
        rounds: Number of times that all batch sizes are run.
    """
    signature = read_signature(model, "serving_default")
    given = signature.inputs["observation"]
    states = np.ascontiguousarray(states)
    files = program.parent / "states.bin", program.parent / "decisions.bin"
    states.tofile(files[0])
    shape = ",".join(map(str, states.shape[1:]))
    command = [str(program), str(model), given.name]
    command += [signature.outputs[name].name for name in ("action", "q_values")]
    command += [str(given.dtype), shape, str(files[0])]
    command += [",".join(map(str, batches)), str(rounds), str(files[1])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"run_export failed: {done.stderr.strip().splitlines()[-1]}")
    content = files[1].read_bytes()
    actions = np.frombuffer(content[: 8 * len(states)], np.int64)
    q_values = np.frombuffer(content[8 * len(states) :], np.float32).reshape(len(states), -1)
    calls = np.loadtxt(io.StringIO(done.stdout), ndmin=2)
    milliseconds = {batch: calls[calls[:, 0] == batch, 1] for batch in batches}
    return Decisions(actions, q_values, milliseconds)


def read_signature(model: Path, name: str):
    """Returns a signature of a SavedModel, a `SignatureDef`."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((model / "saved_model.pb").read_bytes())
    return saved.meta_graphs[0].signature_def[name]
