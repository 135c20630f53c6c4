"""The entries of a memory outside its layer: one type for snapshots, files, merges and exports."""

import dataclasses

import numpy as np

from nec_tf.runtime.errors import UserError

#: Squared distances between keys of numbers up to this are finite as float32.
LARGEST_KEY = 1e15
_LARGEST_VALUE = float(np.finfo(np.float32).max)
_LARGEST_AGE = 2**53  # differences of stamps stay far within int64


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

    def require_valid(self, num_actions: int, key_size: int) -> None:
        """Checks shapes, types, ranges and finiteness, before a layer takes the entries.

        Raises:
            UserError: Something is wrong; the message names the column.
        """
        count = len(self.values)
        for name, kind, shape in (
            ("actions", "iu", (count,)),
            ("keys", "f", (count, key_size)),
            ("values", "f", (count,)),
            ("state_ids", "iu", (count,)),
            ("ages", "iu", (count,)),
        ):
            column = getattr(self, name)
            if column.shape != shape or column.dtype.kind not in kind:
                raise UserError(
                    f"{name} must be {'integers' if kind == 'iu' else 'floats'} of the shape"
                    f" {list(shape)}, not {column.dtype} of the shape {list(column.shape)}"
                )
        if not count:
            return
        if self.actions.min() < 0 or self.actions.max() >= num_actions:
            raise UserError(f"actions must be from 0 to {num_actions - 1}")
        if (np.diff(self.actions) < 0).any():
            raise UserError("actions must ascend: entries are ordered by action")
        if self.ages.min() < 0 or self.ages.max() > _LARGEST_AGE:
            raise UserError("ages must not be negative, and at most 2**53")
        for name, most in (("keys", LARGEST_KEY), ("values", _LARGEST_VALUE)):
            if not (np.abs(getattr(self, name)) <= most).all():  # NaN is not, either
                raise UserError(f"{name} must be finite and at most {most:g}, but some are not")

    @classmethod
    def empty(cls, key_size: int) -> "Entries":
        """Returns no entries."""
        none = np.empty(0, np.int64)
        return cls(none, np.empty((0, key_size)), np.empty(0), none, none, none)
