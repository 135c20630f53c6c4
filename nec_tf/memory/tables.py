"""The truth of the memory: one pool of rows for all actions, in variables that grow and checkpoint.

A row is an entry: its key, its value, when it was last a neighbour, which state it stands for and
to which action's memory it belongs. One pool makes a lookup of all actions a single gather, and a
gradient step a single scatter.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from nec_tf.memory.entries import Entries

NOBODY = 0  # the row that belongs to no memory: its key and value are 0, and stay so
_GROWTH = 1.25  # spare rows are at most a quarter; an entry is copied about four times in its life


class Tables(tf.Module):
    """Columns of equally many rows. Rows up to `size` - 1 are in use, the others are spare.

    Row 0 is nobody's: where a lookup finds fewer neighbours than asked for, it names this row, so
    that every gather is in range and its gradient, always zero, touches no entry.

    Attributes:
        keys: [rows, key_size], `K` of the paper. Trainable.
        values: [rows], `V` of the paper. Trainable.
        stamps: int64 [rows], the clock when the row was last written or last a neighbour.
        state_ids: int64 [rows], which state the row stands for.
        actions: int64 [rows], to whose memory the row belongs; -1 for row 0.
        drift: [rows], how far gradients moved the key since the index was last told, at most.
        size: int64, the rows in use, row 0 among them.
        clock: int64, counts lookups and writes.
    """

    def __init__(self, key_size: int, dtype: tf.DType) -> None:
        """Empty tables."""
        super().__init__(name="tables")
        # By name: a checkpoint finds them again whatever the order in which they were added.
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
        self.put(self.actions, np.array([NOBODY]), np.array([-1]))

    def add_scratch_like(self, column: tf.Variable, name: str) -> tf.Variable:
        """Adds a column of zeros of the shape of another, such as an optimizer's moments.

        It grows with the tables, and the rows of new entries are set back to zero.
        """
        scratch = self._add_column(name, column.shape[1:], column.dtype)
        self._scratch[name] = scratch
        self.level_scratch()
        return scratch

    def by_name(self) -> dict[str, tf.Variable]:
        """Returns all that has to be saved."""
        return {**self._columns, "size": self.size, "clock": self.clock}

    @property
    def num_rows(self) -> int:
        """Rows that there are, spare ones included."""
        return _num_rows(self.values)

    def reserve(self, rows: int) -> None:
        """Makes room for at least so many rows, keeping those in use."""
        if rows <= self.num_rows:
            return
        rows = max(rows, int(self.num_rows * _GROWTH))
        last = self.num_rows - 1
        for column in self._columns.values():
            # A gather copies once, straight into the larger tensor; what it repeats is spare.
            column.assign(tf.gather(column, tf.minimum(tf.range(rows), last)))

    def replace(self, entries: Entries) -> None:
        """Replaces all entries. What was derived from the tables is no longer valid."""
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

        A whole variable is never read: TensorFlow would copy all of it once it has been scattered
        to.
        """
        return tf.gather(column, rows).numpy()

    def put(self, column: tf.Variable, rows: np.ndarray, content: np.ndarray) -> None:
        """Writes a column at the given rows, each named once."""
        # The bare operation: `Variable.scatter_update` takes three times as long to call.
        tf.raw_ops.ResourceScatterUpdate(
            resource=column.handle,
            indices=rows,
            updates=content.astype(column.dtype.as_numpy_dtype, copy=False),
        )

    def clear_scratch(self, rows: np.ndarray) -> None:
        """Sets scratch columns back to zero at the rows of new entries."""
        for column in self._scratch.values():
            self.put(column, rows, np.zeros([len(rows), *column.shape[1:]]))

    def level_scratch(self) -> None:
        """Gives every scratch column all rows; one that a restore did not bring starts at zero."""
        for column in self._scratch.values():
            if _num_rows(column) != self.num_rows:
                column.assign(tf.zeros([self.num_rows, *column.shape[1:]], column.dtype))

    def stamp(self, rows: tf.Tensor) -> None:
        """Notes that these rows, int64 of any shape, were neighbours just now; the clock ticks."""
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
            raise ValueError(f"name must be new, but there is a column {name!r} already")
        column = tf.Variable(
            tf.zeros([1, *shape], dtype), trainable=trainable, shape=[None, *shape], name=name
        )
        self._columns[name] = column
        return column


def _num_rows(column: tf.Variable) -> int:
    """Asks the variable for its shape: `tf.shape` would copy its content first."""
    return int(tf.raw_ops.VariableShape(input=column.handle)[0])
