"""What an export answered when it was written, kept beside it to compare with later.

`check.npz` of a version holds `states` [n, ...], `action` [n] and the other outputs of
`serving_default`; it is written from the policy in memory and read without pickle.
"""

import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nec_tf.runtime.errors import UserError
from nec_tf.serving.frozen_policy import FrozenPolicy

_FILE = "check.npz"
STATES = 32  # states that are kept: 0.9 MB of Atari screens before compression
_TOLERANCE = 1e-3  # of Q-values: other processors sum in another order
#: What reading a damaged file raises, in NumPy and in TensorFlow.
DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    tf.errors.OpError,
)
_REQUESTS = 50  # requests of one state of which the latency is measured


def write(folder: Path, policy: FrozenPolicy, states: np.ndarray) -> None:
    """Keeps the answers of a policy to the first of `states` [n, ...]."""
    kept = states[:STATES]
    answers = {name: np.asarray(value) for name, value in policy.answer(tf.constant(kept)).items()}
    np.savez_compressed(folder / _FILE, states=kept, **answers)


def check(folder: Path) -> str:
    """Replays the kept states through the SavedModel of a version; returns what was found.

    Raises:
        UserError: There is nothing to compare with, or answers differ.
    """
    kept = _read(folder)
    states = kept.pop("states")
    try:
        answers = load(folder)(observation=tf.constant(states))
    except DAMAGE as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise UserError(f"the SavedModel of {folder} is damaged: {reason}") from error
    if {name: _kind(value) for name, value in answers.items()} != {
        name: _kind(value) for name, value in kept.items()
    }:
        raise UserError(f"{folder / _FILE} is damaged: it is not of this SavedModel")
    same = np.asarray(answers["action"]) == kept.pop("action")
    errors = [
        float(np.max(np.abs(np.asarray(answers[name]) - value), initial=0.0))
        for name, value in kept.items()
    ]
    largest = float(np.max(errors))  # NaN if one of them is
    found = f"{same.sum()} of {len(same)} actions are the same, largest difference {largest:.2g}"
    if not (same.all() and largest <= _TOLERANCE):
        raise UserError(f"{folder} does not answer as it did when it was written: {found}")
    return f"{folder} answers as it did when it was written: {found}"


def load(folder: Path) -> Any:
    """Returns `serving_default` of a version, as a server calls it."""
    model = tf.saved_model.load(str(folder))
    serve = model.signatures["serving_default"]
    serve._model = model  # a signature does not keep its variables alive
    return serve


def latency(folder: Path, state: np.ndarray) -> dict[str, Any]:
    """Measures requests of one state [1, ...] in this process, without a network between."""
    serve, observation = load(folder), tf.constant(state)
    serve(observation=observation)  # traces
    milliseconds = []
    for _ in range(_REQUESTS):
        started = time.perf_counter()
        serve(observation=observation)["action"].numpy()
        milliseconds.append((time.perf_counter() - started) * 1e3)
    p50, p99 = np.percentile(milliseconds, [50, 99])
    return {"p50_ms": round(p50, 3), "p99_ms": round(p99, 3), "requests": _REQUESTS, "batch": 1}


def _read(folder: Path) -> dict[str, np.ndarray]:
    path = folder / _FILE
    if not path.exists():
        raise UserError(f"{path} is missing: name a version, such as exported/frostbite/1")
    try:
        with np.load(path, allow_pickle=False) as file:
            kept = {name: file[name] for name in file.files}
    except DAMAGE as error:
        raise UserError(f"{path} is damaged: {error}") from error
    if not {"states", "action"} < {*kept}:
        raise UserError(f"{path} is damaged: states or answers are missing")
    return kept


def _kind(value: Any) -> tuple[tuple[int, ...], str]:
    """Returns shape and dtype of an answer."""
    array = np.asarray(value)
    return array.shape, array.dtype.str
