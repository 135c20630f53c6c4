"""The tables of the memory: variables that grow and are saved in checkpoints.

All actions share one pool of rows, so a lookup of all actions is a single gather and a gradient
step a single scatter. A row is an entry: its key, its value, when it was last a neighbour, its
state id and its action. Everything else (indices, eviction queues, dictionaries of states) is
derived from the tables and can be rebuilt.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from nec_tf.memory.entries import Entries

EMPTY_ROW = 0  # belongs to no action; its key and value are always 0
_GROWTH = 1.25  # spare rows are at most a quarter; growing copies each entry about four times


class _GrowingShape(tf.TensorShape):
    """The shape of a column, whose number of rows is not fixed.

    Keras' optimizers make slots of the shape of each variable, which needs a fixed number of rows.
    TensorFlow then says "Cannot convert a partially known TensorShape"; this shape has a conversion
    of its own (`_no_fixed_size`), which says what to do instead.
    """


def _no_fixed_size(shape: _GrowingShape, *unused: object, **unused_too: object) -> None:
    raise ValueError(
        f"the tables of a memory grow, so a variable of their shape {shape} cannot be made. If this"
        " happens in an optimizer: Keras' optimizers cannot train a memory; compile the model with"
        " nec_tf.WithMemory('adam', nec_tf.RowRMSProp(memory, keys_learning_rate,"
        " values_learning_rate)), or set memory.trainable = False"
    )


# Before the conversion of every other `tf.TensorShape`, which has priority 100.
tf.register_tensor_conversion_function(_GrowingShape, _no_fixed_size, priority=50)


class Tables(tf.Module):
    """Columns with the same number of rows. Rows 0 to `size` - 1 are in use, the others are spare.

    Row 0, `EMPTY_ROW`, belongs to no action. A lookup that finds fewer than p neighbours fills up
    with this row: every gather is in range, and its gradient, always zero, changes no entry.

    Attributes:
        keys: [rows, key_size], `K` of the paper. Trainable.
        values: [rows], `V` of the paper. Trainable.
        stamps: int64 [rows], the clock when the row was last written or last a neighbour.
        state_ids: int64 [rows], hash of the state, see `nec_tf.memory.state_ids`.
        actions: int64 [rows], action of the entry; -1 for row 0.
        drift: [rows], upper bound of the distance between the key and what the index holds: the sum
            of all gradient steps since the index got the key.
        size: int64, number of rows in use, row 0 included.
        clock: int64, number of lookups and writes.
    """

    def __init__(self, key_size: int, dtype: tf.DType) -> None:
        """Makes empty tables."""
        super().__init__(name="tables")
        # By name, so that checkpoints do not depend on the order in which columns are added.
        self._columns: dict[str, tf.Variable] = {}
        self._scratch: dict[str, tf.Variable] = {}
        self.keys = self._add_column("keys", [key_size], dtype, trainable=True)
        self.values = self._add_column("values", [], dtype, trainable=True)
        self.stamps = self._add_column("stamps", [], tf.int64)
        self.state_ids = self._add_column("state_ids", [], tf.int64)
        self.actions = self._add_column("actions", [], tf.int64)
        self.drift = self.add_scratch_like(self.values, "drift")
        self.size = tf.Variable(1, trainable=False, dtype=tf.int64, name="size")
        self.clock = tf.Variable(0, trainable=False, dtype=tf.int64, name="clock")
        self.put(self.actions, np.array([EMPTY_ROW]), np.array([-1]))

    def add_scratch_like(self, column: tf.Variable, name: str) -> tf.Variable:
        """Adds a column of zeros with the shape of another, such as an optimizer's moments.

        The column grows with the tables. Rows that get a new entry are set to zero.
        """
        scratch = self._add_column(name, column.shape[1:], column.dtype)
        self._scratch[name] = scratch
        self.resize_scratch()
        return scratch

    def by_name(self) -> dict[str, tf.Variable]:
        """Returns all variables that have to be saved."""
        return {**self._columns, "size": self.size, "clock": self.clock}

    @property
    def num_rows(self) -> int:
        """Number of rows, spare ones included."""
        return _num_rows(self.values)

    def reserve(self, rows: int) -> None:
        """Grows to at least `rows` rows; rows in use keep their content."""
        if rows <= self.num_rows:
            return
        rows = max(rows, int(self.num_rows * _GROWTH))
        last = self.num_rows - 1
        for column in self._columns.values():
            # A gather copies once, into the larger tensor. The spare rows repeat the last row.
            column.assign(tf.gather(column, tf.minimum(tf.range(rows), last)))

    def replace(self, entries: Entries) -> None:
        """Replaces all entries; everything derived from the tables has to be rebuilt."""
        count = len(entries)
        clock = int(np.max(entries.ages, initial=0))
        rows = np.arange(1, 1 + count)
        self.reserve(1 + count)
        self.clear_scratch(rows)
        self.put(self.keys, rows, entries.keys)
        self.put(self.values, rows, entries.values)
        self.put(self.actions, rows, entries.actions)
        self.put(self.state_ids, rows, entries.state_ids)
        self.put(self.stamps, rows, clock - entries.ages)
        self.size.assign(1 + count)
        self.clock.assign(clock)

    def read(self, column: tf.Variable, rows: np.ndarray) -> np.ndarray:
        """Returns a column at the given rows.

        Reading a whole variable after a scatter would make TensorFlow copy all of it.
        """
        return tf.gather(column, rows).numpy()

    def put(self, column: tf.Variable, rows: np.ndarray, content: np.ndarray) -> None:
        """Writes a column at the given rows, which must be distinct."""
        # The raw operation: `Variable.scatter_update` takes three times as long to call.
        tf.raw_ops.ResourceScatterUpdate(
            resource=column.handle,
            indices=rows,
            updates=content.astype(column.dtype.as_numpy_dtype, copy=False),
        )

    def clear_scratch(self, rows: np.ndarray) -> None:
        """Sets scratch columns to zero at the rows of new entries."""
        for column in self._scratch.values():
            self.put(column, rows, np.zeros([len(rows), *column.shape[1:]]))

    def resize_scratch(self) -> None:
        """Gives scratch columns that a checkpoint did not hold all rows, as zeros."""
        for column in self._scratch.values():
            if _num_rows(column) != self.num_rows:
                column.assign(tf.zeros([self.num_rows, *column.shape[1:]], column.dtype))

    def stamp(self, rows: tf.Tensor) -> None:
        """Marks rows, int64 of any shape, as used now; the clock advances by one."""
        now = self.clock.read_value()
        rows = tf.reshape(rows, [-1])
        tf.raw_ops.ResourceScatterUpdate(
            resource=self.stamps.handle, indices=rows, updates=tf.fill(tf.shape(rows), now)
        )
        self.clock.assign_add(1, read_value=False)

    def _add_column(
        self, name: str, shape: Sequence[int], dtype: tf.DType, trainable: bool = False
    ) -> tf.Variable:
        if name in self._columns:
            raise ValueError(
                f"there is already a column {name!r}: a memory takes one optimizer, RowRMSProp"
            )
        column = tf.Variable(
            tf.zeros([1, *shape], dtype),
            trainable=trainable,
            shape=_GrowingShape([None, *shape]),
            name=name,
        )
        self._columns[name] = column
        return column


def _num_rows(column: tf.Variable) -> int:
    """Returns the number of rows; `tf.shape` would copy the content of the variable first."""
    return int(tf.raw_ops.VariableShape(input=column.handle)[0])
