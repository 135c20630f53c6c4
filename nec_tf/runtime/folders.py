"""Folders that a user names: a wrong one is refused before anything is computed."""

from pathlib import Path

from nec_tf.runtime.errors import UserError


def require_local_folder(name: str, path: str | Path) -> None:
    """Validates that `path` is a local folder, or can become one.

    Args:
        name: Of the setting, for the message.
        path: Folder that a user gave.

    Raises:
        UserError: It is empty, an address of a remote storage, below or at a file or a link to
            nothing, or no name that a file system and TensorFlow take.
    """
    if not str(path).strip():
        raise UserError(f"{name} is empty: give a folder")
    # Path("gs://x") is "gs:/x"; such a folder would be made in the current one.
    if str(path).partition("/")[0].endswith(":"):
        raise UserError(f"{name} must be a local folder, not {path}: copy it there afterwards")
    try:
        str(path).encode()  # TensorFlow and JSON take no other bytes
    except UnicodeEncodeError as error:
        raise UserError(f"{name} must be valid UTF-8, not {str(path)!r}") from error
    for place in (Path(path), *Path(path).parents):
        try:
            is_file = place.exists() and not place.is_dir()
            leads_nowhere = place.is_symlink() and not place.exists()
        except OSError as error:  # a name that is too long, or a circle of links
            raise UserError(f"{name} cannot be a folder: {error}") from error
        if is_file:
            raise UserError(f"{name} must be a folder, but {place} is a file")
        if leads_nowhere:
            raise UserError(f"{name} must be a folder, but {place} is a link to nothing")
