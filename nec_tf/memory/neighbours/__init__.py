"""Neighbour search: the interface `NeighbourIndex` and its backends."""

from numpy.typing import DTypeLike

from nec_tf.memory.neighbours.base import NeighbourIndex
from nec_tf.memory.neighbours.exact import ExactIndex
from nec_tf.runtime.errors import UserError

BACKENDS = ("scann", "exact")


def make_index(backend: str, key_size: int, p: int, dtype: DTypeLike) -> NeighbourIndex:
    """Returns an empty index of the named backend.

    Args:
        backend: One of `BACKENDS`.
        key_size: Number of elements of a key.
        p: Usual number of neighbours of a search.
        dtype: Dtype of the keys; ScaNN rounds them to float32.
    """
    if backend == "scann":
        try:
            from nec_tf.memory.neighbours.scann_index import ScannIndex
        except ImportError as error:
            raise ImportError(
                f"ScaNN cannot be loaded ({error}). Install scann==1.3.0, which runs on Linux with"
                " an x86-64 CPU with AVX; or set index='exact', which is much slower above some ten"
                " thousand entries."
            ) from error
        return ScannIndex(key_size, p)
    if backend == "exact":
        return ExactIndex(key_size, dtype)
    raise UserError(f"index must be one of {', '.join(BACKENDS)}, not {backend!r}")


__all__ = ["BACKENDS", "ExactIndex", "NeighbourIndex", "make_index"]
