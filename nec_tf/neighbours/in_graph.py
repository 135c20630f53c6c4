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

from nec_tf import lookup
from nec_tf.neighbours import blocks

SPARE = 14  # candidates beyond p: rough distances may swap neighbours that are nearly as far
BLOCK = 32  # keys; measured, see docs/algorithm.md
_LISTS = 0.4  # of the probes: the lists that blocks are chosen from; more find nothing more
_ACTIONS = 6  # whose blocks are gathered and compared together: they stay in a core's cache
_PARALLEL = 2  # states whose blocks are compared at the same time


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
        self._list_means = _constant(list_means.reshape(-1, width).astype(keys.dtype))
        self._list_squares = _constant(np.square(self._list_means.numpy()).sum(axis=1))
        none = np.zeros((1, width), keys.dtype)
        means = np.concatenate([none, block_means.reshape(-1, width).astype(keys.dtype)])
        squares = np.square(means).sum(axis=1)
        squares[0] = np.inf
        # Means and squares of the blocks of a list side by side: one gather brings them all.
        table = self._blocks.numpy()
        self._block_means = _constant(means[table].reshape(len(table), -1))
        self._block_squares = _constant(squares[table])

    def __call__(
        self, keys: tf.Tensor, squares: tf.Tensor, queries: tf.Tensor, p: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """See `Search`."""
        in_blocks = tf.reshape(keys, [-1, BLOCK * queries.shape[-1]])
        squares = tf.reshape(squares, [-1, BLOCK])

        def search_one(given: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            query, lists = given
            found = []
            for first in range(0, lists.shape[0], _ACTIONS):
                chosen = self._choose_blocks(query, lists[first : first + _ACTIONS])
                found.append(self._search_blocks(in_blocks, squares, query, chosen, p))
            places, d2 = lookup.nearest(keys, query[None], tf.concat(found, axis=0)[None], p)
            return places[0], d2[0]

        # State by state: what is gathered for one stays in the cache until it has been compared.
        shape = [len(self._first) - 1, p]
        return tf.map_fn(
            search_one,
            (queries, self._choose_lists(queries)),
            fn_output_signature=(tf.TensorSpec(shape, tf.int32), tf.TensorSpec(shape, keys.dtype)),
            parallel_iterations=_PARALLEL,
        )

    def _choose_lists(self, queries: tf.Tensor) -> tf.Tensor:
        """Returns the lists whose means are nearest, int32 [B, A, lists]; 0 for none."""
        wanted = math.ceil(_LISTS * self.probes)
        products = tf.matmul(queries, self._list_means, transpose_b=True)
        scores = 2.0 * products - self._list_squares
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
        actions, places = lists.shape[0], lists.shape[1] * self._most
        means = tf.reshape(tf.gather(self._block_means, lists), [-1, query.shape[-1]])
        products = tf.reshape(tf.linalg.matvec(means, query), [actions, places])
        squares = tf.reshape(tf.gather(self._block_squares, lists), [actions, places])
        numbers = tf.reshape(tf.gather(self._blocks, lists), [actions, places])
        top = tf.math.top_k(2.0 * products - squares, min(self.probes, places))
        return tf.gather(numbers, top.indices, batch_dims=1)

    def _search_blocks(
        self, keys: tf.Tensor, squares: tf.Tensor, query: tf.Tensor, chosen: tf.Tensor, p: int
    ) -> tf.Tensor:
        """Returns the places of the nearest keys in blocks [A, n], int32 [A, p + SPARE]."""
        actions = chosen.shape[0]
        near = tf.reshape(tf.gather(keys, chosen), [-1, query.shape[-1]])
        products = tf.reshape(tf.linalg.matvec(near, query), [actions, -1])
        lengths = tf.reshape(tf.gather(squares, chosen), [actions, -1])
        count = min(p + SPARE, chosen.shape[1] * BLOCK)
        top = tf.math.top_k(2.0 * products - lengths, count, sorted=False)
        block = tf.gather(chosen, top.indices // BLOCK, batch_dims=1)
        place = block * BLOCK + top.indices % BLOCK
        place = tf.where(top.values > top.values.dtype.min, place, 0)
        return tf.pad(place, [[0, 0], [0, p + SPARE - count]])


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
