"""How the settings of agents are declared and checked."""

import dataclasses
from typing import Any


def setting(default: Any, explanation: str) -> Any:
    """A field of a configuration; the explanation says what it is and where it is from."""
    return dataclasses.field(default=default, metadata={"help": explanation})


def require(right: bool, rule: str, value: Any) -> None:
    """Refuses a value that breaks a rule, by name."""
    if not right:
        raise ValueError(f"{rule}, not {value}")


def require_at_least_1(config: Any, *names: str) -> None:
    """Refuses settings of a configuration that are below 1."""
    for name in names:
        require(getattr(config, name) >= 1, f"{name} must be at least 1", getattr(config, name))


def require_shares(config: Any, *names: str) -> None:
    """Refuses settings of a configuration that are not between 0 and 1."""
    for name in names:
        value = getattr(config, name)
        require(0.0 <= value <= 1.0, f"{name} must be between 0 and 1", value)
