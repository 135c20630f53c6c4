"""Declaration and validation of the settings of agents."""

import dataclasses
import math
import numbers
from typing import Any

from nec_tf.runtime.errors import UserError

LARGEST_COUNT = 2**53  # exact as a float64, and sums of two fit in 64 bits


def setting(default: Any, explanation: str) -> Any:
    """Returns a field of a configuration; the explanation says what it is and its origin."""
    return dataclasses.field(default=default, metadata={"help": explanation})


def require(valid: bool, rule: str, value: Any) -> None:
    """Raises `UserError` with the rule and the value, unless `valid`."""
    if not valid:
        raise UserError(f"{rule}, not {value}")


def require_types(config: Any) -> None:
    """Validates that settings have the types of their fields; NumPy's numbers become Python's.

    A whole number is also taken for a float setting.
    """
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, field.type):
            valid = field.type is not int or not isinstance(value, bool)
        elif field.type is int and isinstance(value, numbers.Integral):
            valid = True
            object.__setattr__(config, field.name, int(value))  # configurations are frozen
        elif field.type is float and isinstance(value, numbers.Real):
            valid = not isinstance(value, bool)
            if not isinstance(value, int):
                object.__setattr__(config, field.name, float(value))
        else:
            valid = False
        require(valid, f"{field.name} must be of the type {field.type.__name__}", repr(value))


def require_at_least_1(config: Any, *names: str) -> None:
    """Validates that settings of a configuration are at least 1."""
    for name in names:
        require(getattr(config, name) >= 1, f"{name} must be at least 1", getattr(config, name))


def require_counts(config: Any) -> None:
    """Validates that whole numbers of a configuration are not beyond what arrays can count."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, int):
            require(value <= LARGEST_COUNT, f"{field.name} must be at most 2**53", value)


def require_shares(config: Any, *names: str) -> None:
    """Validates that settings of a configuration are between 0 and 1."""
    for name in names:
        value = getattr(config, name)
        require(0.0 <= value <= 1.0, f"{name} must be between 0 and 1", value)


def require_finite_at_least_0(config: Any, *names: str) -> None:
    """Validates that settings of a configuration are finite and not negative."""
    for name in names:
        value = getattr(config, name)
        require(0.0 <= value < math.inf, f"{name} must be finite and not negative", value)


def require_finite_above_0(config: Any, *names: str) -> None:
    """Validates that settings of a configuration are finite and positive."""
    for name in names:
        value = getattr(config, name)
        require(0.0 < value < math.inf, f"{name} must be finite and above 0", value)
