"""Screens of remembered states, compressed in files that only grow: `--keep_screens`.

  screens/about.json   format, shape and dtype of a screen
  screens/index.bin    for each screen: state id, place in data.bin, bytes there; int64 [n, 3]
  screens/data.bin     screens, each compressed by zlib

A screen is found by the id of its state. The same state has the same screen, so files that hold
more than the checkpoint that a run resumes from are right all the same. Screens of entries that
the memory has dropped stay.
"""

import json
import zlib
from pathlib import Path

import numpy as np

_FORMAT = 1
_LEVEL = 6  # of zlib: level 9 saves few bytes more and takes much longer
_RECORD = 3 * 8  # bytes of a screen in index.bin


def newest_screen(state: np.ndarray) -> np.ndarray:
    """Returns what a person would see of a state.

    Args:
        state: Images [height, width, 1 or 3] are shown whole. Of stacks [height, width, frames] the
            newest frame is the last. Vectors are returned as they are.
    """
    if state.ndim != 3 or state.shape[2] == 3:
        return state
    return state[..., -1]


class ScreenWriter:
    """Appends screens; one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Opens the files for appending, new or of an earlier session, and repairs their ends."""
        folder.mkdir(parents=True, exist_ok=True)
        self._about = folder / "about.json"
        self._index = (folder / "index.bin").open("ab", buffering=0)
        self._data = (folder / "data.bin").open("ab", buffering=0)
        known = _read_index(folder)
        # After a crash the files may end in a part of a screen.
        self._index.truncate(len(known) * _RECORD)
        self._end = int(known[-1, 1] + known[-1, 2]) if len(known) else 0
        self._data.truncate(self._end)
        self._known = set(known[:, 0].tolist())

    def add(self, state_ids: np.ndarray, states: np.ndarray) -> None:
        """Keeps the screens of states that are not kept yet.

        Args:
            state_ids: int64 [n].
            states: [n, ...].
        """
        records, screens = [], []
        for state_id, state in zip(state_ids.tolist(), states, strict=True):
            if state_id in self._known:
                continue
            screen = np.ascontiguousarray(newest_screen(state))
            if not self._known:
                self._describe(screen)
            compressed = zlib.compress(screen.tobytes(), _LEVEL)
            self._known.add(state_id)
            records.append((state_id, self._end, len(compressed)))
            screens.append(compressed)
            self._end += len(compressed)
        if records:  # the index last: it names no screen that is not there
            self._data.write(b"".join(screens))
            self._index.write(np.array(records, "<i8").tobytes())

    def close(self) -> None:
        """Closes the files."""
        self._index.close()
        self._data.close()

    def _describe(self, screen: np.ndarray) -> None:
        about = {"format": _FORMAT, "shape": list(screen.shape), "dtype": str(screen.dtype)}
        self._about.write_text(json.dumps(about) + "\n")


class KeptScreens:
    """Reads screens by the ids of their states, also while a run appends to the files."""

    def __init__(self, folder: Path) -> None:
        """Maps the files into memory as they are now."""
        about = json.loads((folder / "about.json").read_text())
        self._shape, self._dtype = about["shape"], np.dtype(about["dtype"])
        index = _read_index(folder)
        self._places = {int(state): (int(at), int(size)) for state, at, size in index}
        self._data = np.memmap(folder / "data.bin", np.uint8, "r")

    def __len__(self) -> int:
        """Returns the number of screens."""
        return len(self._places)

    @property
    def nbytes(self) -> int:
        """Bytes of all screens and of their index."""
        return len(self._data) + _RECORD * len(self)

    def find(self, state_id: int) -> np.ndarray | None:
        """Returns the screen of a state; None if it was not kept, or is damaged on the disk."""
        if state_id not in self._places:
            return None
        at, size = self._places[state_id]
        try:
            content = zlib.decompress(self._data[at : at + size].tobytes())
        except zlib.error:  # a power cut came between data.bin and the disk
            return None
        return np.frombuffer(content, self._dtype).reshape(self._shape)


def _read_index(folder: Path) -> np.ndarray:
    """Returns the whole records whose screens are in data.bin, int64 [n, 3]."""
    content = (folder / "index.bin").read_bytes()
    length = (folder / "data.bin").stat().st_size
    records = np.frombuffer(content[: len(content) // _RECORD * _RECORD], "<i8").reshape(-1, 3)
    whole = records[:, 1] + records[:, 2] <= length
    return records[: len(records) if whole.all() else int(np.argmin(whole))]
