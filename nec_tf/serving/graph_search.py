"""Neighbours found with TensorFlow's own operations, for graphs that leave without Python.

A search decides in which order the entries stand (`order`) and then finds neighbours among the keys
in that order. Both searches measure roughly first, by a product of matrices: it has fewer digits
than a difference has, but reads the keys only once. The candidates are then measured again.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import tensorflow as tf

from nec_tf.memory import lookup
from nec_tf.serving import blocks

SPARE = 14  # candidates beyond p: rough distances may swap neighbours that are nearly as far
BLOCK = 32  # keys; measured, see docs/algorithm.md
_LISTS = 0.4  # of the probes: the lists that blocks are chosen from; more find nothing more


class Search(Protocol):
    """Who is near, among keys in an order of its own.

    Attributes:
        order: Which entry stands at each place, int64 [places]; -1 for nobody, as at place 0.
    """

    order: np.ndarray

    def __call__(
        self, keys: tf.Tensor, squares: tf.Tensor, queries: tf.Tensor, p: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the p nearest keys of each action, or nearly so; nearest first.

        Args:
            keys: In `order`, [places, key_size], with a mean of about 0.
            squares: Their squared lengths, [places].
            queries: [B, key_size].
            p: How many neighbours.

        Returns:
            Places, int32 [B, A, p]; 0 for none. Squared distances, [B, A, p].
        """


class ExactSearch(tf.Module):
    """Compares a query with every key of each action."""

    def __init__(self, counts: np.ndarray) -> None:
        """A search over entries that are ordered by action, `counts` [A] of them for each."""
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
    """Compares a query with the means of lists, of the blocks in near lists, then of few blocks.

    Block 0, and list 0, are nobody's; the lists of an action stand one after the other.

    Attributes:
        probes: How many blocks of each action are searched, in a part as many lists.
    """

    def __init__(self, keys: np.ndarray, counts: np.ndarray, probes: int) -> None:
        """Cuts the keys into lists of blocks.

        Args:
            keys: [n, key_size], ordered by action, with a mean of about 0.
            counts: Entries of each action, [A].
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
        # The numbers of the blocks of each list; as many places as the longest one has.
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
        # Means of the blocks of a list side by side: one gather brings them all.
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

        # State by state: what is gathered for one stays in the cache until it has been compared.
        # Half of the states in a loop of its own: each of two threads stays with what it gathered.
        lists = self._choose_lists(queries)
        half = tf.shape(queries)[0] // 2
        loops = search_some(queries[:half], lists[:half]), search_some(queries[half:], lists[half:])
        places, d2 = (tf.concat(parts, axis=0) for parts in zip(*loops, strict=True))
        return places, d2

    def _choose_lists(self, queries: tf.Tensor) -> tf.Tensor:
        """Returns the lists whose means are nearest, int32 [B, A, lists]; 0 for none."""
        wanted = math.ceil(_LISTS * self.probes)
        scores = tf.matmul(_asked(queries), self._list_means, transpose_b=True)
        chosen = []
        for first, end in itertools.pairwise(self._first):
            count = min(wanted, end - first)
            top = tf.math.top_k(scores[:, first - 1 : end - 1], count, sorted=False)
            chosen.append(tf.pad(first + top.indices, [[0, 0], [0, wanted - count]]))
        return tf.stack(chosen, axis=1)

    def _choose_blocks(self, query: tf.Tensor, lists: tf.Tensor) -> tf.Tensor:
        """Returns the blocks nearest in lists [A, lists], nearest first, int32 [A, probes or less].

        In their order, since `tf.math.top_k` is faster where the largest come first; 0 for none.
        """
        shape = [lists.shape[0], lists.shape[1] * self._most]
        asked = _asked(query)[:, None]
        means = tf.reshape(tf.gather(self._block_means, lists), [-1, asked.shape[0]])
        scores = tf.reshape(tf.matmul(means, asked), shape)
        numbers = tf.reshape(tf.gather(self._blocks, lists), shape)
        top = tf.math.top_k(scores, min(self.probes, shape[1]))
        return tf.gather(numbers, top.indices, batch_dims=1)


def _search_blocks(
    keys: tf.Tensor, squares: tf.Tensor, query: tf.Tensor, chosen: tf.Tensor, p: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the nearest keys in some blocks, nearest first.

    Args:
        keys: Of each block, [blocks, BLOCK * key_size].
        squares: Their squared lengths, [blocks, BLOCK].
        query: [key_size].
        chosen: The blocks, int32 [A, n].
        p: See `Search`.

    Returns:
        Places and squared distances, [A, p]; 0 and the largest number for none.
    """
    actions, width = chosen.shape[0], chosen.shape[1] * BLOCK
    near = tf.reshape(tf.gather(keys, chosen), [-1, query.shape[0]])
    products = tf.reshape(tf.matmul(near, 2.0 * query[:, None]), [actions, width])
    lengths = tf.reshape(tf.gather(squares, chosen), [actions, width])
    rough = tf.math.top_k(products - lengths, min(p + SPARE, width), sorted=False)
    # Measured again in what was gathered: the table of all keys is far away from the cache.
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
    """Returns means [n, key_size] with their squared lengths behind, [n, key_size + 1].

    Their product with `_asked` of a query is greater the nearer they are.
    """
    return np.column_stack([means, np.square(means).sum(axis=1)]).astype(dtype)


def _asked(queries: tf.Tensor) -> tf.Tensor:
    """Returns what `_with_squares` is multiplied with: [..., key_size + 1] of [..., key_size]."""
    return tf.concat([2.0 * queries, -tf.ones_like(queries[..., :1])], axis=-1)


def _padded(rows: Sequence[Sequence[int] | np.ndarray], width: int, nobody: int) -> np.ndarray:
    """Returns rows of different lengths as one array int64 [rows, width]."""
    padded = np.full((len(rows), width), nobody, np.int64)
    for row, content in zip(padded, rows, strict=True):
        row[: len(content)] = content
    return padded


def _mean(keys: np.ndarray, places: np.ndarray) -> np.ndarray:
    return keys[places].mean(axis=0)


def _constant(content: np.ndarray) -> tf.Variable:
    return tf.Variable(content, trainable=False)
