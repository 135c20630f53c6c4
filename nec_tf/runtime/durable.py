"""Files and folders that survive a power cut: written aside, synced to disk, then renamed.

A rename alone is not enough. After a power cut a file system may have the new name and none of the
content: a run that saved every 2 s was left with four empty files (docs/reliability.md). So content
is synced before the rename, and the folder that holds the name after it.
"""

import os
import shutil
from pathlib import Path

_DISCARDED = "discarded-"
# Of a folder in whose place another is being put. After a kill at this moment it is the only one,
# and `whole_folders` returns it.
_REPLACED = "replaced-"


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
    sync_folder(source)
    replaced = target.with_name(f"{_REPLACED}{target.name}")
    if target.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
    source.rename(target)
    sync(target.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Waits until a folder with all files and folders in it is on the disk."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            sync_folder(path)
        else:
            sync(path)
    sync(folder)


def whole_folders(folder: Path, pattern: str) -> list[Path]:
    """Returns folders within a folder by a pattern of their names, in the order of these.

    A folder that was being replaced when the process was killed has a longer name.
    """
    replaced = folder.glob(f"{_REPLACED}{pattern}")
    left = [path for path in replaced if not path.with_name(_name(path)).exists()]
    return sorted([*folder.glob(pattern), *left], key=_name)


def remove_folder(path: Path) -> None:
    """Removes a folder; a kill on the way leaves all of it or none of it under its name."""
    if not path.exists():
        return
    discarded = path.with_name(f"{_DISCARDED}{_name(path)}")
    shutil.rmtree(discarded, ignore_errors=True)
    path.rename(discarded)
    shutil.rmtree(discarded, ignore_errors=True)


def clear_discarded(folder: Path) -> None:
    """Removes what a kill during `remove_folder` or `replace_folder` left behind."""
    for path in folder.glob(f"{_DISCARDED}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob(f"{_REPLACED}*"):
        if path.with_name(_name(path)).exists():
            shutil.rmtree(path, ignore_errors=True)


def _name(path: Path) -> str:
    return path.name.removeprefix(_REPLACED)
