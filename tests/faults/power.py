"""Power cuts: a small ext4 image on a loop device, copied while a program writes to it.

The copy holds what had reached the disk: content that was never synced is still in the memory of
the kernel, as with a real power cut. Mounting the copy replays its journal.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_SIZE = "200M"
# Seconds between commits of the journal. As long as this, so that only `fsync` writes to the disk.
_COMMIT = 300


def available() -> bool:
    """Whether this machine can mount images: Linux, root, and loop devices."""
    tools = all(shutil.which(tool) for tool in ("mkfs.ext4", "mount", "umount"))
    return tools and os.geteuid() == 0 and Path("/dev/loop-control").exists()


class Disk:
    """A mounted image.

    Attributes:
        path: Where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        """Makes an empty file system in a new image."""
        folder.mkdir(parents=True)
        self._folder = folder
        self._image = folder / "disk.img"
        self.path = folder / "mounted"
        _run("truncate", "-s", _SIZE, self._image)
        _run("mkfs.ext4", "-q", self._image)

    @contextlib.contextmanager
    def mounted(self) -> Iterator[Path]:
        """Mounts the image as long as the context lasts."""
        with _mounted(self._image, self.path):
            yield self.path

    @contextlib.contextmanager
    def after_a_cut(self, number: int) -> Iterator[Path]:
        """Mounts a copy of what is on the disk now."""
        copy = self._folder / f"cut-{number}.img"
        _run("cp", "--sparse=always", self._image, copy)
        try:
            with _mounted(copy, self._folder / f"cut-{number}"):
                yield self._folder / f"cut-{number}"
        finally:
            copy.unlink()


@contextlib.contextmanager
def _mounted(image: Path, place: Path) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    _run("mount", "-o", f"loop,commit={_COMMIT}", image, place)
    try:
        yield
    finally:
        _run("umount", "--lazy", place)


def _run(*command: object) -> None:
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
