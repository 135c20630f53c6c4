"""A frozen memory with keys of 8 or 4 bits, for exports that have to be small.

A key minus the mean of all keys is stored as whole numbers (codes), in units of a scale for each of
its dimensions. What rounding took from a squared distance on average is given back: the squared
error of each key, `||h_i - rounded h_i||^2`, is stored and subtracted. A state that was stored is
then at distance 0 from its own entry, as it was before.

All keys are compared. They are unpacked in each call: 18 ms for 200,000 keys (64 x 4 bits).
"""

import itertools
from typing import Any

import numpy as np
import tensorflow as tf

from nec_tf.memory import kernels
from nec_tf.memory.dnd import Neighbours
from nec_tf.memory.entries import Entries
from nec_tf.runtime.errors import UserError
from nec_tf.serving.graph_search import SPARE

#: Bits of a number of a key, and how many standard deviations from the mean the codes reach. With
#: these reaches most actions stayed the same on Hero and Ms. Pac-Man (docs/serving.md).
REACH = {8: 5.0, 4: 3.5}


class CompactMemory(tf.Module):
    """Keys, values and their lookup; `nec_tf.serving.frozen_memory.FrozenMemory` in fewer bytes.

    Rows are 1 to n, in the order of the entries; there is no row 0.

    Attributes:
        codes: uint8 [n, key_size], or [n, ceil(key_size / 2)] with 4 bits.
        scale: Length of one unit of codes, [key_size].
        centre: Key whose codes are 0, [key_size].
        errors: Squared error of each key, float16 [n].
        values: float32 [n].
        counts: Number of entries of each action, int64 [A].
    """

    def __init__(
        self,
        entries: Entries,
        num_actions: int,
        kernel: kernels.Kernel,
        num_neighbours: int,
        bits: int,
    ) -> None:
        """Rounds the keys of at least one entry to `bits` bits, 8 or 4."""
        super().__init__(name="compact_memory")
        if bits not in REACH:
            raise UserError(f"key_bits must be {' or '.join(map(str, REACH))}, not {bits}")
        self._bits = bits
        self._kernel = kernel
        self._num_neighbours = num_neighbours
        counts = entries.counts(num_actions)
        self._starts = [0, *np.cumsum(counts).tolist()]
        centre, scale, codes = _rounded(np.asarray(entries.keys, np.float32), bits)
        errors = np.square(entries.keys - centre - scale * codes).sum(axis=1)
        self.codes = _constant(_packed(codes, bits), "codes")
        self.scale = _constant(scale, "scale")
        self.centre = _constant(centre, "centre")
        self.errors = _constant(errors.astype(np.float16), "errors")
        self.values = _constant(entries.values.astype(np.float32), "values")
        self.counts = _constant(counts, "counts")

    def __call__(self, queries: tf.Tensor) -> tf.Tensor:
        """Equation 1 (see `nec_tf.memory.lookup`): from `h` [B, key_size] to Q-values [B, A]."""
        found = self.neighbours(queries)
        return tf.reduce_sum(found.weights * found.values, axis=-1)

    def neighbours(self, queries: tf.Tensor) -> Neighbours:
        """Returns the neighbours behind a lookup of `h` [B, key_size], all [B, A, p]."""
        codes, errors = self.codes.value(), self.errors.value()
        queries = queries - self.centre
        ranges = itertools.pairwise(self._starts)
        found = [
            self._nearest(codes[start:end], errors[start:end], queries, start, end - start)
            for start, end in ranges
        ]
        rows, d2 = (tf.stack(parts, axis=1) for parts in zip(*found, strict=True))
        present = rows > 0
        return Neighbours(
            rows=rows,
            distances=tf.where(present, tf.sqrt(d2), 0.0),
            weights=kernels.normalised_weights(self._kernel, d2, present),
            values=tf.where(present, tf.gather(self.values, tf.maximum(rows - 1, 0)), 0.0),
        )

    def _nearest(
        self, codes: tf.Tensor, errors: tf.Tensor, queries: tf.Tensor, start: int, count: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the nearest entries of one action, nearest first.

        Args:
            codes: Of its entries.
            errors: Of its entries, float16 [count].
            queries: Minus `centre`, [B, key_size].
            start: Number of entries of the actions before it.
            count: Number of its entries.

        Returns:
            Rows, int64 [B, p]; 0 for none. Squared distances, [B, p].
        """
        units = tf.cast(_unpacked(codes, self._bits, queries.shape[-1]), tf.float32)
        errors = tf.cast(errors, tf.float32)
        squares = tf.linalg.matvec(tf.square(units), tf.square(self.scale)) - errors
        products = tf.matmul(2.0 * self.scale * queries, units, transpose_b=True)
        rough = tf.math.top_k(products - squares, min(self._num_neighbours + SPARE, count))
        # By differences: precise where a matrix product is not.
        near = self.scale * tf.gather(units, rough.indices)
        d2 = tf.reduce_sum(tf.math.squared_difference(queries[:, None], near), axis=-1)
        d2 = tf.maximum(d2 - tf.gather(errors, rough.indices), 0.0)
        top = tf.math.top_k(-d2, min(self._num_neighbours, count))
        places = tf.gather(rough.indices, top.indices, batch_dims=1)
        missing = [[0, 0], [0, self._num_neighbours - min(self._num_neighbours, count)]]
        rows = tf.pad(tf.cast(places, tf.int64) + 1 + start, missing)
        return rows, tf.pad(-top.values, missing, constant_values=d2.dtype.max)


def read_entries(memory: Any, bits: int) -> Entries:
    """Returns the entries of the memory in a loaded SavedModel; ages and state ids are not kept.

    Args:
        memory: `network.memory` of `tf.saved_model.load`.
        bits: Of its codes.
    """
    scale, counts = memory.scale.numpy(), memory.counts.numpy()
    units = _unpacked(memory.codes.value(), bits, len(scale)).numpy()
    unknown = np.zeros(len(units), np.int64)
    return Entries(
        actions=np.repeat(np.arange(len(counts)), counts),
        keys=memory.centre.numpy() + scale * units,
        values=memory.values.numpy(),
        state_ids=unknown,
        ages=unknown,
        rows=np.arange(1, 1 + len(units)),
    )


def _rounded(keys: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns centre [key_size], scale [key_size] and codes int8 [n, key_size] of keys."""
    half = 2 ** (bits - 1)
    scale = REACH[bits] * keys.std(axis=0) / half
    # Codes are from -half to half - 1, so the mean is half a unit below code 0.
    centre = keys.mean(axis=0) + scale / 2
    scale = np.where(scale > 0.0, scale, 1.0)  # 0 where all keys are equal
    codes = np.clip(np.round((keys - centre) / scale), -half, half - 1)
    return centre.astype(np.float32), scale.astype(np.float32), codes.astype(np.int8)


def _packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Returns codes int8 [n, key_size] as bytes; with 4 bits, two in a byte."""
    if bits == 8:
        return codes.view(np.uint8)
    nibbles = (codes + 8).astype(np.uint8)
    half = -(-codes.shape[1] // 2)
    high = np.zeros((len(codes), half), np.uint8)
    high[:, : codes.shape[1] - half] = nibbles[:, half:]
    return nibbles[:, :half] | high << 4


def _unpacked(packed: tf.Tensor, bits: int, key_size: int) -> tf.Tensor:
    """Returns codes int8 [n, key_size]."""
    if bits == 8:
        return tf.bitcast(packed, tf.int8)
    low = tf.bitwise.bitwise_and(packed, tf.constant(15, tf.uint8))
    high = tf.bitwise.right_shift(packed, tf.constant(4, tf.uint8))
    return tf.cast(tf.concat([low, high], axis=1)[:, :key_size], tf.int8) - 8


def _constant(content: np.ndarray, name: str) -> tf.Variable:
    """Returns a variable that is never assigned; unlike a constant, it is not in the graph file."""
    return tf.Variable(content, trainable=False, name=name)
