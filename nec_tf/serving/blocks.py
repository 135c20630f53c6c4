"""Lists and blocks of an inverted file: keys are clustered into lists and these cut into blocks.

Blocks of one size can be gathered and compared by dense operations, the only ones in a graph
without custom operations. Lists come from k-means. A list is halved along the direction of largest
variance until its parts fit into blocks. Halving alone, without k-means, has to search three times
as many keys for the same recall (measured, docs/algorithm.md).
"""

import itertools

import numpy as np

_DIRECTION_SAMPLE = 2_000  # keys from which the direction of a cut is estimated
_POWER_ITERATIONS = 4  # of that estimate
_MEANS_SAMPLE = 30_000  # keys for k-means
_ITERATIONS = 6  # of k-means
LONGEST = 16  # most blocks of a list
_CHUNK = 20_000  # keys compared with all means at once


def lists_of_blocks(keys: np.ndarray, size: int) -> list[list[np.ndarray]]:
    """Cuts keys into lists of blocks.

    Args:
        keys: [n, key_size].
        size: Largest number of keys of a block.

    Returns:
        Lists of blocks of places of keys; every key is in one block. There are about 2 sqrt(n)
        lists: comparing a query with their means then costs as much as searching a few lists.
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
    """Cuts the keys at the places `own` of [n, key_size] into nearly full blocks."""
    blocks, parts = [], [own]
    while parts:
        part = parts.pop()
        if len(part) <= size:
            blocks.append(part)
            continue
        along = keys[part] @ _direction(keys[part[:: -(-len(part) // _DIRECTION_SAMPLE)]])
        # A multiple of the block size on one side, so that few blocks are partly empty.
        half = -(-len(part) // size) // 2 * size
        order = np.argpartition(along, half)
        parts += [part[order[:half]], part[order[half:]]]
    return blocks


def _parts(blocks: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Splits a long list; consecutive blocks of a cut are near each other."""
    count = -(-len(blocks) // LONGEST)
    ends = [len(blocks) * part // count for part in range(count + 1)]
    return [blocks[start:end] for start, end in itertools.pairwise(ends)]


def _k_means(keys: np.ndarray, count: int) -> np.ndarray:
    """Returns the nearest of `count` means for each key, int64 [n]; deterministic."""
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
    """Returns approximately the direction of largest variance of keys [n, key_size]."""
    centred = keys - keys.mean(axis=0)
    direction = centred[np.argmax(np.square(centred).sum(axis=1))]
    for _ in range(_POWER_ITERATIONS):
        direction = centred.T @ (centred @ direction)
        direction = direction / max(np.linalg.norm(direction), np.finfo(keys.dtype).tiny)
    return direction
