"""Keys cut into lists of near ones, and lists into blocks of one size: an inverted file's shape.

Blocks of one size can be gathered and compared by dense operations, which is what a graph without
custom operations has. Lists come from k-means; a list is halved along the direction in which its
keys spread most, again and again, until its parts are small enough. Cutting all keys by halves,
with no k-means before, needs three times as many keys to be searched for the same recall (measured,
see docs/algorithm.md).
"""

import itertools

import numpy as np

_DIRECTION_SAMPLE = 2_000  # keys that tell the direction of a cut
_POWER_ITERATIONS = 4  # that find it
_MEANS_SAMPLE = 30_000  # keys that k-means sees
_ITERATIONS = 6
LONGEST = 16  # blocks of a list
_CHUNK = 20_000  # keys compared with all means at once


def lists_of_blocks(keys: np.ndarray, size: int) -> list[list[np.ndarray]]:
    """Cuts keys into lists of blocks.

    Args:
        keys: [n, key_size].
        size: The most keys of a block.

    Returns:
        Lists, each of blocks, each of places of keys; every key is in one block. About
        2 sqrt(n) lists, so that comparing with their means costs as much as with a few lists.
    """
    if len(keys) == 0:
        return []
    count = max(1, min(len(keys) // size, int(2 * np.sqrt(len(keys)))))
    nearest = _k_means(keys, count)
    order = np.argsort(nearest, kind="stable")
    lists = np.split(order, np.flatnonzero(np.diff(nearest[order])) + 1)
    cuts = (cut(keys, own, size) for own in lists)
    return [part for blocks in cuts for part in _parts(blocks)]


def cut(keys: np.ndarray, own: np.ndarray, size: int) -> list[np.ndarray]:
    """Cuts some of the keys [n, key_size], those at the places `own`, into nearly full blocks."""
    blocks, parts = [], [own]
    while parts:
        part = parts.pop()
        if len(part) <= size:
            blocks.append(part)
            continue
        along = keys[part] @ _direction(keys[part[:: -(-len(part) // _DIRECTION_SAMPLE)]])
        # Whole blocks on one side, so that few are left half empty.
        half = -(-len(part) // size) // 2 * size
        order = np.argpartition(along, half)
        parts += [part[order[:half]], part[order[half:]]]
    return blocks


def _parts(blocks: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Parts a long list: blocks that follow each other in a cut are near each other."""
    count = -(-len(blocks) // LONGEST)
    ends = [len(blocks) * part // count for part in range(count + 1)]
    return [blocks[start:end] for start, end in itertools.pairwise(ends)]


def _k_means(keys: np.ndarray, count: int) -> np.ndarray:
    """Returns to which of `count` means each key belongs, int64 [n]; the same in every process."""
    rng = np.random.default_rng(0)
    sample = keys[rng.permutation(len(keys))[:_MEANS_SAMPLE]]
    means = sample[:count].copy()
    for _ in range(_ITERATIONS):
        nearest = _nearest(sample, means)
        order = np.argsort(nearest, kind="stable")
        held, first, sizes = np.unique(nearest[order], return_index=True, return_counts=True)
        means[held] = np.add.reduceat(sample[order], first) / sizes[:, None]
    return _nearest(keys, means)


def _nearest(keys: np.ndarray, means: np.ndarray) -> np.ndarray:
    squares = np.square(means).sum(axis=1)
    chunks = (keys[start : start + _CHUNK] for start in range(0, len(keys), _CHUNK))
    return np.concatenate([(squares - 2.0 * chunk @ means.T).argmin(axis=1) for chunk in chunks])


def _direction(keys: np.ndarray) -> np.ndarray:
    """Returns about the direction in which keys [n, key_size] spread most, [key_size]."""
    centred = keys - keys.mean(axis=0)
    direction = centred[np.argmax(np.square(centred).sum(axis=1))]
    for _ in range(_POWER_ITERATIONS):
        direction = centred.T @ (centred @ direction)
        direction = direction / max(np.linalg.norm(direction), np.finfo(keys.dtype).tiny)
    return direction
