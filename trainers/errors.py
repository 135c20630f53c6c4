"""What can go wrong and is not a fault of the program; the message says what to do."""


class UserError(Exception):
    """Something that was asked for and cannot be."""


class DamagedCheckpoint(Exception):
    """A checkpoint that cannot be read or written."""
