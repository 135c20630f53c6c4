"""Neighbour search with TensorFlow's own operations, for graphs that run without Python.

A search determines an order of the entries (`order`) and finds neighbours among the keys in this
order. Both searches first compute rough distances by a matrix product: less precise than by
differences, but it reads the keys only once. The distances of the candidates are then recomputed.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import tensorflow as tf

from nec_tf.memory import lookup
from nec_tf.serving import blocks

SPARE = 14  # candidates beyond p: rough distances may swap neighbours at similar distances
BLOCK = 32  # keys; measured, docs/algorithm.md
_LISTS = 0.4  # searched lists per probe; more lists do not find more neighbours


class Search(Protocol):
    """Finds the nearest keys.

    Attributes:
        order: Entry at each place, int64 [places]; -1 for an empty place, such as place 0.
    """

    order: np.ndarray

    def __call__(
        self, keys: tf.Tensor, squares: tf.Tensor, queries: tf.Tensor, p: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns (approximately) the p nearest keys of each action, nearest first.

        Args:
            keys: Keys in `order`, [places, key_size], with a mean of about 0.
            squares: Squared lengths of the keys, [places].
            queries: [B, key_size].
            p: Number of neighbours.

        Returns:
            Places, int32 [B, A, p]; 0 for none. Squared distances, [B, A, p].
        """


class ExactSearch(tf.Module):
    """Compares a query with every key of each action."""

    def __init__(self, counts: np.ndarray) -> None:
        """Makes a search over entries ordered by action, `counts` [A] per action."""
        super().__init__(name="exact_search")
        self._starts = [1, *(1 + np.cumsum(counts)).tolist()]
        self.order = np.arange(-1, counts.sum())

    def __call__(
        self, keys: tf.Tensor, squares: tf.Tensor, queries: tf.Tensor, p: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `Search`."""
        found = []
        for start, end in itertools.pairwise(self._starts):
            products = tf.matmul(queries, keys[start:end], transpose_b=True)
            count = min(p + SPARE, end - start)
            near = tf.math.top_k(2.0 * products - squares[start:end], count, sorted=False)
            found.append(tf.pad(start + near.indices, [[0, 0], [0, p + SPARE - count]]))
        return lookup.nearest(keys, queries, tf.stack(found, axis=1), p)


class InvertedFile(tf.Module):
    """Compares a query with the means of lists, the means of blocks in near lists, and few blocks.

    Block 0 and list 0 are empty. The lists of an action are consecutive.

    Attributes:
        probes: Number of blocks searched per action, chosen from `_LISTS` times as many lists.
        num_blocks: Number of blocks of all actions.
    """

    def __init__(self, keys: np.ndarray, counts: np.ndarray, probes: int) -> None:
        """Cuts the keys into lists of blocks.

        Args:
            keys: [n, key_size], ordered by action, with a mean of about 0.
            counts: Number of entries of each action, [A].
            probes: See the class.
        """
        super().__init__(name="inverted_file")
        self.probes = probes
        starts = np.cumsum([0, *counts])
        by_action = [
            [
                [start + block for block in own]
                for own in blocks.lists_of_blocks(keys[start:end], BLOCK)
            ]
            for start, end in itertools.pairwise(starts)
        ]
        self._first = [1, *(1 + np.cumsum([len(lists) for lists in by_action])).tolist()]
        lists = list(itertools.chain.from_iterable(by_action))
        all_blocks = list(itertools.chain.from_iterable(lists))
        self.num_blocks = len(all_blocks)
        self.order = _padded([[], *all_blocks], BLOCK, -1).reshape(-1)
        # Block numbers of each list, padded to the longest list.
        numbers = np.split(
            np.arange(1, 1 + len(all_blocks)), np.cumsum([len(own) for own in lists])[:-1]
        )
        self._most = max((len(own) for own in lists), default=1)
        self._blocks = _constant(_padded([[], *numbers], self._most, 0).astype(np.int32))
        list_means = np.array([_mean(keys, np.concatenate(own)) for own in lists])
        block_means = np.array([_mean(keys, block) for block in all_blocks])
        width = keys.shape[1]
        self._list_means = _constant(_with_squares(list_means.reshape(-1, width), keys.dtype))
        none = np.append(np.zeros(width, keys.dtype), np.inf).astype(keys.dtype)
        means = _with_squares(block_means.reshape(-1, width), keys.dtype)
        # Means of the blocks of a list in one row, so that one gather reads them all.
        table = self._blocks.numpy()
        self._block_means = _constant(np.vstack([none, means])[table].reshape(len(table), -1))

    def __call__(
        self, keys: tf.Tensor, squares: tf.Tensor, queries: tf.Tensor, p: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `Search`."""
        in_blocks = tf.reshape(keys, [-1, BLOCK * queries.shape[-1]])
        squares = tf.reshape(squares, [-1, BLOCK])

        def search_one(given: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            query, lists = given
            return _search_blocks(in_blocks, squares, query, self._choose_blocks(query, lists), p)

        def search_some(queries: tf.Tensor, lists: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            spec = tf.TensorSpec([lists.shape[1], p], tf.int32)
            return tf.map_fn(
                search_one,
                (queries, lists),
                fn_output_signature=(spec, tf.TensorSpec(spec.shape, keys.dtype)),
                parallel_iterations=1,
            )

        # One state at a time: its gathered keys stay in the cache until they are compared. Two
        # loops with half of the states each, so that two threads can run them.
        lists = self._choose_lists(queries)
        half = tf.shape(queries)[0] // 2
        loops = search_some(queries[:half], lists[:half]), search_some(queries[half:], lists[half:])
        places, d2 = (tf.concat(parts, axis=0) for parts in zip(*loops, strict=True))
        return places, d2

    def _choose_lists(self, queries: tf.Tensor) -> tf.Tensor:
        """Returns the lists with the nearest means, int32 [B, A, lists]; 0 for none."""
        wanted = math.ceil(_LISTS * self.probes)
        scores = tf.matmul(_augmented(queries), self._list_means, transpose_b=True)
        chosen = []
        for first, end in itertools.pairwise(self._first):
            count = min(wanted, end - first)
            top = tf.math.top_k(scores[:, first - 1 : end - 1], count, sorted=False)
            chosen.append(tf.pad(first + top.indices, [[0, 0], [0, wanted - count]]))
        return tf.stack(chosen, axis=1)

    def _choose_blocks(self, query: tf.Tensor, lists: tf.Tensor) -> tf.Tensor:
        """Returns the nearest blocks of lists [A, lists], nearest first, int32 [A, <= probes].

        Sorted, because the following `tf.math.top_k` is faster if the largest come first; 0 for
        none.
        """
        shape = [lists.shape[0], lists.shape[1] * self._most]
        query_column = _augmented(query)[:, None]
        means = tf.reshape(tf.gather(self._block_means, lists), [-1, query_column.shape[0]])
        scores = tf.reshape(tf.matmul(means, query_column), shape)
        numbers = tf.reshape(tf.gather(self._blocks, lists), shape)
        top = tf.math.top_k(scores, min(self.probes, shape[1]))
        return tf.gather(numbers, top.indices, batch_dims=1)


def _search_blocks(
    keys: tf.Tensor, squares: tf.Tensor, query: tf.Tensor, chosen: tf.Tensor, p: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the nearest keys in some blocks, nearest first.

    Args:
        keys: Keys of each block, [blocks, BLOCK * key_size].
        squares: Squared lengths of the keys, [blocks, BLOCK].
        query: [key_size].
        chosen: Numbers of the blocks, int32 [A, n].
        p: See `Search`.

    Returns:
        Places and squared distances, [A, p]; 0 and the largest float for none.
    """
    actions, width = chosen.shape[0], chosen.shape[1] * BLOCK
    near = tf.reshape(tf.gather(keys, chosen), [-1, query.shape[0]])
    products = tf.reshape(tf.matmul(near, 2.0 * query[:, None]), [actions, width])
    lengths = tf.reshape(tf.gather(squares, chosen), [actions, width])
    rough = tf.math.top_k(products - lengths, min(p + SPARE, width), sorted=False)
    # Recomputed from the gathered keys, which are in the cache; the table of all keys is not.
    rows = rough.indices + width * np.arange(actions, dtype=np.int32)[:, None]
    difference = tf.nn.bias_add(tf.gather(near, tf.reshape(rows, [-1])), -query)
    d2 = tf.reshape(tf.matmul(tf.square(difference), tf.ones_like(query)[:, None]), rows.shape)
    d2 = tf.where(rough.values > rough.values.dtype.min, d2, d2.dtype.max)
    top = tf.math.top_k(-d2, min(p, width))
    nearest = tf.gather(rough.indices, top.indices, batch_dims=1)
    block = tf.gather(chosen, nearest // BLOCK, batch_dims=1)
    there = -top.values < d2.dtype.max
    places = tf.where(there, block * BLOCK + nearest % BLOCK, 0)
    missing = [[0, 0], [0, p - places.shape[1]]]
    return tf.pad(places, missing), tf.pad(-top.values, missing, constant_values=d2.dtype.max)


def _with_squares(means: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Returns means [n, key_size] with their squared lengths appended, [n, key_size + 1].

    The nearer a mean, the greater its product with `_augmented(query)`.
    """
    return np.column_stack([means, np.square(means).sum(axis=1)]).astype(dtype)


def _augmented(queries: tf.Tensor) -> tf.Tensor:
    """Returns queries [..., key_size] as the factor of `_with_squares`, [..., key_size + 1]."""
    return tf.concat([2.0 * queries, -tf.ones_like(queries[..., :1])], axis=-1)


def _padded(rows: Sequence[Sequence[int] | np.ndarray], width: int, padding: int) -> np.ndarray:
    """Returns rows of different lengths, padded, int64 [rows, width]."""
    padded = np.full((len(rows), width), padding, np.int64)
    for row, content in zip(padded, rows, strict=True):
        row[: len(content)] = content
    return padded


def _mean(keys: np.ndarray, places: np.ndarray) -> np.ndarray:
    return keys[places].mean(axis=0)


def _constant(content: np.ndarray) -> tf.Variable:
    return tf.Variable(content, trainable=False)
