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
from nec_tf.memory.saved_trees import SavedTrees
from nec_tf.memory.store import MemoryStore
from nec_tf.memory.tables import Tables
from nec_tf.runtime.errors import UserError


class Neighbours(NamedTuple):
    """The neighbours behind a lookup, nearest first. Places without a neighbour are 0.

    >>> dnd = DifferentiableNeuralDictionary(1, key_size=2, num_neighbours=2, index="exact")
    >>> known = dnd.write([0, 0], [[0.0, 3.0], [0.0, 1.0]], [10.0, 20.0])
    >>> dnd.neighbours([[0.0, 0.0]]).distances.numpy()
    array([[[1., 3.]]], dtype=float32)

    Attributes:
        rows: Rows of the tables, int64 [B, A, p].
        distances: Euclidean, [B, A, p].
        weights: `w_i`, [B, A, p].
        values: `v_i`, [B, A, p].
    """

    rows: tf.Tensor
    distances: tf.Tensor
    weights: tf.Tensor
    values: tf.Tensor


@tf.keras.utils.register_keras_serializable("nec_tf")
class DifferentiableNeuralDictionary(tf.keras.layers.Layer):
    """A memory of keys and values for each action: the DND of the paper.

    A lookup returns the kernel-weighted mean of the values of the p nearest keys, with gradients to
    the query and to the keys and values of the neighbours. It marks the neighbours as used, unless
    `training=False`. A write appends an entry. If the state is known, its value is updated and its
    key replaced instead. A full memory overwrites the entry that was least recently used.

    >>> import numpy as np
    >>> from nec_tf import DifferentiableNeuralDictionary
    >>> dnd = DifferentiableNeuralDictionary(
    ...     num_actions=2, key_size=3, capacity=100, num_neighbours=5, index="exact"
    ... )
    >>> known = dnd.write(actions=[0, 1], keys=np.eye(2, 3), values=[1.0, 5.0])
    >>> dnd.sizes
    array([1, 1])
    >>> dnd(np.zeros([1, 3])).numpy()  # Q-values [B, A]
    array([[1., 5.]], dtype=float32)

    Special cases: the lookup of an empty memory is 0 and has no gradient; with fewer than p
    entries all of them are neighbours; a query equal to a key is looked up like any other; a batch
    of writes has the result of writing its entries one after the other.

    Lookup and write work eagerly and inside `tf.function`. Checkpoints, `save_weights` and
    `model.save("model.keras")` save the entries, checkpoints also the trees of the neighbour
    indices; the rest is rebuilt. Train the entries with `RowRMSProp`, in Keras' `fit` through
    `WithMemory`.

    Threads: between `begin_reading` and `end_reading` other threads may look up, and every method
    that changes the memory raises `RuntimeError`. Writes of several threads take turns. See
    `nec_tf.memory.store`.

    Attributes:
        tables: Keys, values and other columns of all entries.
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
        """Makes empty memories.

        Args:
            num_actions: Number of memories, `A`.
            key_size: Number of elements of a key.
            capacity: Largest number of entries of one memory.
            num_neighbours: `p`.
            kernel: `k`: a kernel, its name or its configuration.
            alpha: Step size of the update of a known state's value, in (0, 1].
            keep_larger: Whether a known state keeps the larger value instead, as in MFEC.
            index: Neighbour search: "scann" (approximate) or "exact".
            recognise_by_key: Whether a state is known if its exact key is stored, as in the paper;
                if not, each write gets ids of the states.
            **kwargs: Arguments of every Keras layer: `name`, `dtype`.
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
        self._restored = SavedTrees(self._store)

    @property
    def sizes(self) -> np.ndarray:
        """Number of entries of each action, int64 [A]."""
        return self._store.sizes

    @property
    def indices(self) -> list[NeighbourIndex]:
        """The neighbour index of each action, for measurements. The layer alone changes them."""
        return self._store.indices

    def sync(self) -> None:
        """Brings the neighbour indices up to date with the tables.

        Lookups and `begin_reading` do this on their own.
        """
        self._store.sync()

    def rebuild_index(self, action: int) -> None:
        """Rebuilds the neighbour index of one action from its keys."""
        self._store.rebuild_index(action)

    def begin_reading(self) -> None:
        """Forbids changes until `end_reading`; call it before another thread looks up."""
        self._store.begin_reading()

    def end_reading(self) -> None:
        """Ends one `begin_reading`."""
        self._store.end_reading()

    def require_no_readers(self) -> None:
        """Raises `RuntimeError` while a thread reads, now or when the graph runs."""
        self._on_host(self._check_readers, [], tf.int64, [])

    def entries(self, action: int | None = None) -> Entries:
        """Returns a copy of the entries of one action or of all, ordered by action and row."""
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
        """Returns `lookup`; with `training=False` the neighbours are not marked as used."""
        return self.lookup(queries, actions, stamp=training is not False)

    def candidates(self, queries: np.ndarray | tf.Tensor) -> np.ndarray:
        """Searches the neighbour indices of all actions, eagerly.

        Args:
            queries: `h`, [B, key_size].

        Returns:
            Rows for `lookup_from_candidates` with the same queries, int64 [B, A, candidates].
        """
        return self._find_on_host(tf.convert_to_tensor(queries))

    def lookup(
        self,
        queries: tf.Tensor,
        actions: tf.Tensor | None = None,
        stamp: bool = True,
        left_out: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Equation 1: the weighted sum of the values of the p nearest neighbours.

        Args:
            queries: `h`, [B, key_size].
            actions: Action whose memory each query is looked up in, integers [B]; None for all.
            stamp: Whether to mark the neighbours as used, which delays their eviction.
            left_out: Ids of states whose entries a query does not see, int64 [B, n]. A query all
                of whose candidates would be left out sees them all.

        Returns:
            [B, A] for all actions, [B] for given ones.
        """
        queries = self._floats(queries)
        rows = self._find(queries, actions, stamp, left_out)
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
        """Returns `lookup` of all actions, without gradients; distances are computed only once.

        Equation 1 again: `nec_tf.memory.lookup` says why it is not shared with `lookup`.

        Args:
            queries: `h`, [B, key_size].
            candidates: The result of `candidates(queries)`.
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
        """Returns the neighbours behind `lookup(queries, actions)`; does not mark them as used.

        Args:
            queries: `h`, [B, key_size].
            actions: Integers [B], then `A` is 1 in the result; None for all.
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
            actions: Action of each entry, integers [n].
            keys: `h`, [n, key_size].
            values: `Q^(N)`, [n].
            state_ids: Ids of the states, int64 [n] (see `nec_tf.memory.state_ids`); required if
                `recognise_by_key` is False, else not allowed.

        Returns:
            The number of known states, an int64 scalar.

        Raises:
            ValueError: An argument is invalid; the memory is unchanged. Inside `tf.function`, an
                error that depends on content is a `tf.errors.InvalidArgumentError`.
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
        """Replaces the whole content, for example by entries from `nec_tf.serving.memory_files`.

        Raises:
            UserError: The entries are not valid, or an action has more than `capacity` of them; the
                memory is unchanged.
        """
        entries.require_valid(self.num_actions, self.key_size)
        counts = entries.counts(self.num_actions)
        if counts.max() > self.capacity:
            raise UserError(
                f"actions: entries of each action are {counts.tolist()}; there are"
                f" {self.num_actions} actions with room for {self.capacity} each"
            )
        self._store.invalidate()
        self.tables.replace(entries)

    def keys_moved(self, rows: tf.Tensor, distances: tf.Tensor) -> None:
        """Registers that an optimizer moved keys, so that the indices get them.

        Call `require_no_readers` before moving keys.

        Args:
            rows: Rows of the tables, int64 [n], each once.
            distances: Distance by which the key in each row moved, [n].
        """
        drift = self.tables.drift
        drift.scatter_add(tf.IndexedSlices(distances, rows))
        self._on_host(self._note_moved, [rows, tf.gather(drift, rows)], tf.int64, [])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
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
        """Replaces the content by `get_weights()` of a layer with the same arguments."""
        self._store.invalidate()
        super().set_weights(weights)

    def save_own_variables(self, store: dict[str, Any]) -> None:
        """Saves the tables in a `.keras` or `.weights.h5` file."""
        for name, variable in self.tables.by_name().items():
            store[name] = variable.numpy()

    def load_own_variables(self, store: dict[str, Any]) -> None:
        """Loads the tables from a `.keras` or `.weights.h5` file."""
        self._store.invalidate()
        for name, variable in self.tables.by_name().items():
            if name in store:
                variable.assign(store[name])

    def compute_output_shape(self, input_shape: tf.TensorShape) -> tf.TensorShape:
        """Returns the shape of a lookup of all actions."""
        return tf.TensorShape([input_shape[0], self.num_actions])

    def _floats(self, given: tf.Tensor) -> tf.Tensor:
        dtype = self.tables.keys.dtype
        return tf.cast(tf.convert_to_tensor(given, dtype_hint=dtype), dtype)

    def _find(
        self,
        queries: tf.Tensor,
        actions: tf.Tensor | None,
        stamp: bool,
        left_out: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Returns the rows of the neighbours, int64 [B, A, p]."""
        known = queries.shape if queries.shape.rank is not None else tf.TensorShape([None, None])
        require_shape("queries", known, [None, self.key_size])
        inputs = [queries] if actions is None else [queries, _integers("actions", actions)]
        width = self.num_actions if actions is None else 1
        shape = [known[0], width, self._store.candidates(self.num_neighbours)]
        rows = self._on_host(self._find_on_host, inputs, tf.int64, shape)
        if left_out is not None:
            rows = self._without(rows, left_out)
        if shape[-1] > self.num_neighbours:
            rows, _ = lookup.nearest(self.tables.keys, queries, rows, self.num_neighbours)
        if stamp:
            self.tables.stamp(rows)
        return rows

    def _without(self, rows: tf.Tensor, left_out: tf.Tensor) -> tf.Tensor:
        """Returns rows [B, A, c] with 0 for entries of the states left out, [B, n]."""
        ids = tf.gather(self.tables.state_ids, rows)
        hidden = tf.reduce_any(ids[..., None] == left_out[:, None, None, :], axis=-1)
        remaining = tf.where(hidden, tf.zeros_like(rows), rows)
        anything = tf.reduce_any(remaining > 0, axis=-1, keepdims=True)
        return tf.where(anything, remaining, rows)

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
        """Checks all arguments before the first change."""
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

    def _check_readers(self) -> int:
        self._store.require_no_readers()
        return 0

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
        """Calls a Python function, now or when the graph runs; its result has no gradient."""
        if tf.executing_eagerly():
            return tf.convert_to_tensor(function(*inputs), dtype)
        # The handles are inputs because TensorFlow orders stateful operations by the resources they
        # take: this call then keeps its place among the reads and writes of the tables.
        handles = [variable.handle for variable in self.tables.variables]
        count = len(inputs)
        result = tf.py_function(lambda *given: function(*given[:count]), [*inputs, *handles], dtype)
        result.set_shape(shape)
        return tf.stop_gradient(result)


def _integers(name: str, given: tf.Tensor) -> tf.Tensor:
    # With a dtype hint NumPy floats would be rounded; without one an empty list would be floats.
    hint = None if hasattr(given, "dtype") else tf.int64
    tensor = tf.convert_to_tensor(given, dtype_hint=hint)
    if not tensor.dtype.is_integer:
        raise ValueError(f"{name} must be integers, not {tensor.dtype.name}")
    return tf.cast(tensor, tf.int64)
