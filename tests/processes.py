"""Processes that tests look after."""


def alive(pid: int | str) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
