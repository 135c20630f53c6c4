"""The differentiable neural dictionary (paper, section 3.1) as a Keras layer."""

import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from nec_tf.memory import kernels, lookup, writing
from nec_tf.memory.checks import require_actions, require_finite, require_shape
from nec_tf.memory.constants import ALPHA, CAPACITY, NUM_NEIGHBOURS
from nec_tf.memory.entries import Entries
from nec_tf.memory.neighbours import NeighbourIndex, make_index
from nec_tf.memory.store import MemoryStore
from nec_tf.memory.tables import Tables
from nec_tf.runtime.errors import UserError


class Neighbours(NamedTuple):
    """What stands behind an answer; nearest first.

    Attributes:
        rows: int64 [B, A, p], the entries' rows in the tables; 0 where there is none.
        distances: [B, A, p], Euclidean; 0 where there is none.
        weights: `w_i`, [B, A, p]; 0 where there is none.
        values: `v_i`, [B, A, p]; 0 where there is none.
    """

    rows: tf.Tensor
    distances: tf.Tensor
    weights: tf.Tensor
    values: tf.Tensor


class DifferentiableNeuralDictionary(tf.keras.layers.Layer):
    """Memories of keys and values, one for each action, that are looked up and written.

    A lookup is the kernel-weighted mean of the values of the p nearest keys, with gradients to the
    query, to the keys and to the values that took part. It counts as a use of these entries, unless
    `training=False`. A write appends an entry or, where the state is known, updates its value and
    puts the new key in the place of the old one; in a full memory the entry that was least recently
    a neighbour goes.

    Defined at the edges: the lookup of an empty memory is 0 and has no gradient; with fewer than p
    entries all of them are neighbours; a query equal to a key is looked up like any other; a batch
    of writes does what its entries would do one after the other.

    Lookup and write work eagerly and inside `tf.function`. Keys and values checkpoint; the
    neighbour indices are built again after a restore.
    """

    def __init__(
        self,
        num_actions: int,
        key_size: int,
        capacity: int = CAPACITY,
        num_neighbours: int = NUM_NEIGHBOURS,
        kernel: kernels.Kernel | str | dict = "inverse_distance",
        alpha: float = ALPHA,
        keep_larger: bool = False,
        index: str = "scann",
        recognise_by_key: bool = True,
        **kwargs: Any,
    ) -> None:
        """Empty memories.

        Args:
            num_actions: How many memories, `A`.
            key_size: Length of a key.
            capacity: The most entries of one memory.
            num_neighbours: `p`.
            kernel: `k`: a kernel, its name or its configuration.
            alpha: Step of the update of a known state's value, in (0, 1].
            keep_larger: Whether a known state keeps the larger value instead, as in MFEC.
            index: Who finds neighbours: "scann" or "exact".
            recognise_by_key: Whether a state is known by its exact key, as in the paper; if not,
                each write brings ids of the states.
            **kwargs: As in every Keras layer: `name`, `dtype`.
        """
        super().__init__(**kwargs)
        for name, value in (
            ("num_actions", num_actions),
            ("key_size", key_size),
            ("capacity", capacity),
            ("num_neighbours", num_neighbours),
        ):
            if not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
        if not 0.0 < alpha <= 1.0:
            raise ValueError(f"alpha must be above 0 and at most 1, not {alpha}")
        self.num_actions = num_actions
        self.key_size = key_size
        self.capacity = capacity
        self.num_neighbours = num_neighbours
        self.kernel = kernels.get(kernel)
        self.alpha = alpha
        self.keep_larger = keep_larger
        self.index = index
        self.recognise_by_key = recognise_by_key
        dtype = tf.as_dtype(self.variable_dtype)
        self.tables = Tables(key_size, dtype)
        self._store = MemoryStore(
            self.tables,
            lambda: make_index(index, key_size, num_neighbours, dtype.as_numpy_dtype),
            num_actions,
            capacity,
            writing.keep_larger if keep_larger else writing.move_by(alpha),
            recognise_by_key,
        )
        self._restored = _RestoreWatch(self._store.invalidate)

    @property
    def sizes(self) -> np.ndarray:
        """Entries in the memory of each action, int64 [A]."""
        return self._store.sizes

    @property
    def indices(self) -> list[NeighbourIndex]:
        """The neighbour index of each action, for measurements. The layer alone changes them."""
        return self._store.indices

    def sync(self) -> None:
        """Brings the neighbour indices up to date with the tables.

        Lookups do this on their own. Call it before looking up in several threads: until the next
        change, lookups then only read.
        """
        self._store.sync()

    def begin_reading(self) -> None:
        """Forbids changes until `end_reading`: another thread is about to look up."""
        self._store.begin_reading()

    def end_reading(self) -> None:
        """Ends one `begin_reading`."""
        self._store.end_reading()

    def entries(self, action: int | None = None) -> Entries:
        """Returns a copy of the entries of one action, or of all, ordered by action and row."""
        rows = self._store.rows(action)
        tables = self.tables
        return Entries(
            actions=tables.read(tables.actions, rows),
            keys=tables.read(tables.keys, rows),
            values=tables.read(tables.values, rows),
            state_ids=tables.read(tables.state_ids, rows),
            ages=int(tables.clock) - tables.read(tables.stamps, rows),
            rows=rows,
        )

    def call(
        self, queries: tf.Tensor, actions: tf.Tensor | None = None, training: bool | None = None
    ) -> tf.Tensor:
        """Looks up values, as `lookup` does; `training=False` leaves no trace in the memory."""
        return self.lookup(queries, actions, stamp=training is not False)

    def candidates(self, queries: np.ndarray | tf.Tensor) -> np.ndarray:
        """Asks the neighbour indices of all actions, now and outside of any graph.

        Args:
            queries: `h`, [B, key_size].

        Returns:
            Candidate rows for `lookup_from_candidates` with the same queries, int64 [B, A, c].
        """
        return self._find_on_host(tf.convert_to_tensor(queries))

    def lookup(
        self,
        queries: tf.Tensor,
        actions: tf.Tensor | None = None,
        stamp: bool = True,
    ) -> tf.Tensor:
        """Equation 1: the weighted sum of the values of the p nearest neighbours.

        Args:
            queries: `h`, [B, key_size].
            actions: In whose memory to look, integers [B]; in every one where None.
            stamp: Whether it counts as a use of the neighbours, which keeps them from eviction.

        Returns:
            [B, A] for every action, [B] for given ones.
        """
        queries = self._floats(queries)
        rows = self._find(queries, actions, stamp)
        output = lookup.weighted_sum(
            self.kernel,
            queries,
            tf.gather(self.tables.keys, rows),
            tf.gather(self.tables.values, rows),
            rows > 0,
        )
        return output if actions is None else output[:, 0]

    def lookup_from_candidates(
        self, queries: tf.Tensor, candidates: tf.Tensor, stamp: bool = True
    ) -> tf.Tensor:
        """Returns `lookup` of every action without gradients: each key is measured only once.

        Args:
            queries: `h`, [B, key_size].
            candidates: What `candidates(queries)` returned.
            stamp: As in `lookup`.

        Returns:
            [B, A].
        """
        rows, d2 = lookup.nearest(self.tables.keys, queries, candidates, self.num_neighbours)
        if stamp:
            self.tables.stamp(rows)
        weights = kernels.normalised_weights(self.kernel, d2, rows > 0)
        return tf.reduce_sum(weights * tf.gather(self.tables.values, rows), axis=-1)

    def neighbours(self, queries: tf.Tensor, actions: tf.Tensor | None = None) -> Neighbours:
        """Returns the neighbours behind `lookup(queries, actions)`; leaves no trace in the memory.

        Args:
            queries: `h`, [B, key_size].
            actions: Integers [B], or None for all; then `A` below is 1.
        """
        queries = self._floats(queries)
        rows = self._find(queries, actions, stamp=False)
        present = rows > 0
        d2 = lookup.squared_distances(queries, tf.gather(self.tables.keys, rows))
        return Neighbours(
            rows=rows,
            distances=tf.where(present, tf.sqrt(d2), 0.0),
            weights=kernels.normalised_weights(self.kernel, d2, present),
            values=tf.gather(self.tables.values, rows),
        )

    def write(
        self,
        actions: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        state_ids: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Writes entries in their order: known states are updated, others appended.

        Args:
            actions: To whose memory each belongs, integers [n].
            keys: `h`, [n, key_size].
            values: `Q^(N)`, [n].
            state_ids: Which states these are, int64 [n] (see `nec_tf.recognition`); wanted exactly
                where the layer does not recognise states by their keys.

        Returns:
            How many were known states, an int64 scalar.

        Raises:
            ValueError: Where an argument cannot be right; the memory is unchanged then. Inside
                `tf.function`, what depends on content raises `tf.errors.InvalidArgumentError`.
        """
        if (state_ids is None) != self.recognise_by_key:
            raise ValueError(
                "state_ids must be left out: states are recognised by their keys"
                if self.recognise_by_key
                else "state_ids must be given: recognise_by_key is False"
            )
        inputs = [_integers("actions", actions), self._floats(keys), self._floats(values)]
        if state_ids is not None:
            inputs.append(_integers("state_ids", state_ids))
        return self._on_host(self._write_on_host, inputs, tf.int64, [])

    def clear(self) -> None:
        """Removes all entries."""
        self.load_entries(Entries.empty(self.key_size))

    def load_entries(self, entries: Entries) -> None:
        """Replaces the whole content, such as by entries from `nec_tf.serving.memory_files`.

        Raises:
            UserError: The entries are not valid, or an action has more than `capacity` of them;
                nothing is changed then.
        """
        entries.require_valid(self.num_actions, self.key_size)
        counts = entries.counts(self.num_actions)
        if counts.max() > self.capacity:
            raise UserError(
                f"actions: entries of each action are {counts.tolist()}; there are"
                f" {self.num_actions} actions with room for {self.capacity} each"
            )
        self._store.require_no_readers()
        self.tables.replace(entries)
        self._store.invalidate()

    def keys_moved(self, rows: tf.Tensor, distances: tf.Tensor) -> None:
        """Hears that an optimizer moved keys, so that the indices can follow.

        Args:
            rows: Of the tables, int64 [n], each once.
            distances: How far the key in each row moved, [n].
        """
        drift = self.tables.drift
        drift.scatter_add(tf.IndexedSlices(distances, rows))
        self._on_host(self._note_moved, [rows, tf.gather(drift, rows)], tf.int64, [])

    def get_config(self) -> dict[str, Any]:
        """Returns what the constructor takes."""
        return {
            **super().get_config(),
            "num_actions": self.num_actions,
            "key_size": self.key_size,
            "capacity": self.capacity,
            "num_neighbours": self.num_neighbours,
            "kernel": kernels.serialise(self.kernel),
            "alpha": self.alpha,
            "keep_larger": self.keep_larger,
            "index": self.index,
            "recognise_by_key": self.recognise_by_key,
        }

    def set_weights(self, weights: Sequence[np.ndarray]) -> None:
        """Takes what `get_weights` of a layer like this one returned."""
        super().set_weights(weights)
        self._store.invalidate()

    def save_own_variables(self, store: dict[str, Any]) -> None:
        """Puts the tables into Keras' own file formats."""
        for name, variable in self.tables.by_name().items():
            store[name] = variable.numpy()

    def load_own_variables(self, store: dict[str, Any]) -> None:
        """Takes the tables out of Keras' own file formats."""
        for name, variable in self.tables.by_name().items():
            if name in store:
                variable.assign(store[name])
        self._store.invalidate()

    def compute_output_shape(self, input_shape: tf.TensorShape) -> tf.TensorShape:
        """Returns the shape of a lookup of all actions."""
        return tf.TensorShape([input_shape[0], self.num_actions])

    def _floats(self, given: tf.Tensor) -> tf.Tensor:
        dtype = self.tables.keys.dtype
        return tf.cast(tf.convert_to_tensor(given, dtype_hint=dtype), dtype)

    def _find(self, queries: tf.Tensor, actions: tf.Tensor | None, stamp: bool) -> tf.Tensor:
        """Returns the rows of the neighbours, int64 [B, A, p]."""
        known = queries.shape if queries.shape.rank is not None else tf.TensorShape([None, None])
        require_shape("queries", known, [None, self.key_size])
        inputs = [queries] if actions is None else [queries, _integers("actions", actions)]
        width = self.num_actions if actions is None else 1
        shape = [known[0], width, self._store.candidates(self.num_neighbours)]
        rows = self._on_host(self._find_on_host, inputs, tf.int64, shape)
        if shape[-1] > self.num_neighbours:
            rows, _ = lookup.nearest(self.tables.keys, queries, rows, self.num_neighbours)
        if stamp:
            self.tables.stamp(rows)
        return rows

    def _find_on_host(self, queries: tf.Tensor, actions: tf.Tensor | None = None) -> np.ndarray:
        asked = queries.numpy()
        require_shape("queries", asked.shape, [None, self.key_size])
        require_finite("queries", asked)
        of = None
        if actions is not None:
            of = actions.numpy()
            require_shape("actions", of.shape, [len(asked)])
            require_actions(of, self.num_actions)
        return self._store.neighbours(asked, of, self._store.candidates(self.num_neighbours))

    def _write_on_host(
        self,
        actions: tf.Tensor,
        keys: tf.Tensor,
        values: tf.Tensor,
        state_ids: tf.Tensor | None = None,
    ) -> int:
        """Checks everything before the first change."""
        entries = {"actions": actions.numpy(), "keys": keys.numpy(), "values": values.numpy()}
        if state_ids is not None:
            entries["state_ids"] = state_ids.numpy()
        count = len(np.atleast_1d(entries["actions"]))
        for name, entry in entries.items():
            require_shape(name, entry.shape, [count, self.key_size] if name == "keys" else [count])
        require_actions(entries["actions"], self.num_actions)
        require_finite("keys", entries["keys"])
        require_finite("values", entries["values"])
        return self._store.write(**entries) if count else 0

    def _note_moved(self, rows: tf.Tensor, drift: tf.Tensor) -> int:
        self._store.moved(rows.numpy(), drift.numpy())
        return len(rows)

    def _on_host(
        self,
        function: Callable[..., Any],
        inputs: Sequence[tf.Tensor],
        dtype: tf.DType,
        shape: Sequence[int | None],
    ) -> tf.Tensor:
        """Calls a Python function, now or when the graph runs; its answer has no gradient."""
        if tf.executing_eagerly():
            return tf.convert_to_tensor(function(*inputs), dtype)
        # The handles go in so that TensorFlow keeps the order of this call and of all that reads or
        # writes the tables; it orders stateful operations by the resources they are given.
        handles = [variable.handle for variable in self.tables.variables]
        count = len(inputs)
        answer = tf.py_function(lambda *given: function(*given[:count]), [*inputs, *handles], dtype)
        answer.set_shape(shape)
        return tf.stop_gradient(answer)


class _RestoreWatch(tf.train.experimental.PythonState):
    """Part of every checkpoint, so that the layer hears when one is restored."""

    def __init__(self, heard: Callable[[], None]) -> None:
        super().__init__()
        self._heard = heard

    def serialize(self) -> str:
        return "nec_tf memory, format 1"

    def deserialize(self, string_value: str) -> None:
        del string_value
        self._heard()


def _integers(name: str, given: tf.Tensor) -> tf.Tensor:
    # A hint would round NumPy's floats; without one, an empty list would not be integers.
    hint = None if hasattr(given, "dtype") else tf.int64
    tensor = tf.convert_to_tensor(given, dtype_hint=hint)
    if not tensor.dtype.is_integer:
        raise ValueError(f"{name} must be integers, not {tensor.dtype.name}")
    return tf.cast(tensor, tf.int64)
