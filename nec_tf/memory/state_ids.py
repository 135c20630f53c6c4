"""State ids: a state is recognised by a 64-bit hash of its bytes.

The paper updates an entry if the exact same key is already present (section 3.3). Keys drift as the
network learns, so a state can also be recognised by the hash of its observation instead of its key.
docs/algorithm.md compares the two.
"""

import hashlib

import numpy as np


def hash_states(states: np.ndarray) -> np.ndarray:
    """Returns one id for each state; equal states have equal ids on every machine.

    Args:
        states: [B, ...], observations or keys.

    Returns:
        int64 [B]. The probability of a collision among 10 million states is below 1e-5.
    """
    if states.dtype.kind == "f":
        states = states + 0.0  # -0.0 equals 0.0 but has other bytes
    states = np.ascontiguousarray(states)
    digests = b"".join(hashlib.blake2b(state.data, digest_size=8).digest() for state in states)
    return np.frombuffer(digests, "<i8").astype(np.int64)
