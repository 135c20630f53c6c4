"""Files and folders that survive a power cut: written aside, synced to disk, then renamed.

A rename alone is not enough. After a power cut a file system may have the new name and none of the
content: a run that saved every 2 s was left with four empty files (docs/reliability.md). So content
is synced before the rename, and the folder that holds the name after it.
"""

import os
import shutil
from pathlib import Path

_DISCARDED = "discarded-"


def sync(path: Path) -> None:
    """Waits until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Replaces a file: readers, and a disk after a power cut, have the old or the new content."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("w", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
    sync(path.parent)


def replace_folder(source: Path, target: Path) -> None:
    """Puts a finished folder of files in the place of another, which may exist."""
    for path in source.iterdir():
        sync(path)
    sync(source)
    discarded = _discard(target)
    source.rename(target)
    sync(target.parent)
    if discarded is not None:
        shutil.rmtree(discarded, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Removes a folder; a kill on the way leaves all of it or none of it under its name."""
    discarded = _discard(path)
    if discarded is not None:
        shutil.rmtree(discarded, ignore_errors=True)


def clear_discarded(folder: Path) -> None:
    """Removes what a kill during `remove_folder` or `replace_folder` left behind."""
    for path in folder.glob(f"{_DISCARDED}*"):
        shutil.rmtree(path, ignore_errors=True)


def _discard(path: Path) -> Path | None:
    """Renames a folder out of the way; returns its new name, None if there was none."""
    if not path.exists():
        return None
    discarded = path.with_name(f"{_DISCARDED}{path.name}")
    shutil.rmtree(discarded, ignore_errors=True)
    path.rename(discarded)
    return discarded
