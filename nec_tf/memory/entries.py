"""The entries of a memory outside its layer: one type for snapshots, files, merges and exports."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Entries:
    """Entries of all actions, ordered by action.

    Attributes:
        actions: int64 [n], ascending.
        keys: `h_i`, [n, key_size].
        values: `v_i`, [n].
        state_ids: int64 [n], see `nec_tf.memory.state_ids`.
        ages: int64 [n], lookups and writes since the entry was last used. Ages, not stamps: the
            clocks of two runs cannot be compared.
        rows: int64 [n], row of each entry in the tables that it was read from.
    """

    actions: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    state_ids: np.ndarray
    ages: np.ndarray
    rows: np.ndarray

    def __len__(self) -> int:
        """Returns the number of entries of all actions."""
        return len(self.values)

    def counts(self, num_actions: int) -> np.ndarray:
        """Returns the number of entries of each action, int64 [A]."""
        return np.bincount(self.actions, minlength=num_actions)

    @classmethod
    def empty(cls, key_size: int) -> "Entries":
        """Returns no entries."""
        none = np.empty(0, np.int64)
        return cls(none, np.empty((0, key_size)), np.empty(0), none, none, none)
