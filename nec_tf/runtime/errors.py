"""Errors that programs report as one sentence instead of a traceback."""


class UserError(ValueError):
    """A request that cannot be met. The message says what was wrong and what to do about it."""


class DamagedCheckpoint(Exception):
    """A checkpoint that cannot be read or written."""
