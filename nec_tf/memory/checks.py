"""Argument checks: errors name the argument, what it is and what it must be."""

from collections.abc import Sequence

import numpy as np


def require_shape(name: str, shape: Sequence[int | None], expected: Sequence[int | None]) -> None:
    """Raises `ValueError` if a known dimension differs from the expected one; None fits any."""
    fits = len(shape) == len(expected) and all(
        want is None or have is None or have == want
        for have, want in zip(shape, expected, strict=True)
    )
    if not fits:
        wanted = ", ".join("n" if want is None else str(want) for want in expected)
        raise ValueError(f"{name} must have the shape [{wanted}], not {list(shape)}")


def require_finite(name: str, array: np.ndarray) -> None:
    """Raises `ValueError` if the array holds NaN or infinity."""
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"{name} must be finite, but {name}{place.tolist()} is {array[*place]}")


def require_actions(actions: np.ndarray, num_actions: int) -> None:
    """Raises `ValueError` unless all actions are integers from 0 to `num_actions` - 1."""
    if actions.dtype.kind not in "iu":
        raise ValueError(f"actions must be integers, not {actions.dtype}")
    unknown = (actions < 0) | (actions >= num_actions)
    if unknown.any():
        raise ValueError(
            f"actions must be from 0 to {num_actions - 1}, but {actions[unknown][0]} is among them"
        )
