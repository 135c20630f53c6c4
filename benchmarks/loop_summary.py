"""The bars of `benchmarks.loop`, computed from its rows."""

from typing import Any

TURNS = 5  # of each row: a slow minute of the machine then affects all rows
MOST_FOR_MFEC = 50_000  # entries: keys of its own network have to be computed first


def bars(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns each bar with its limit and its value; None if it was not measured.

    Of several precisions the first one counts.
    """
    by = {(row["agent"], row["num_envs"], row["entries"]): row for row in reversed(rows)}
    empty, full = by.get(("nec", 1, 0)), by.get(("nec", 1, 500_000))
    worst = [row["worst_step_s"] for row in rows if row["entries"] == 500_000]
    fps = {key: row["frames_per_s"] for key, row in by.items()}

    def ratio(one: tuple[str, int, int], other: tuple[str, int, int]) -> float | None:
        return fps[one] / fps[other] if one in fps and other in fps else None

    wanted = [
        ("efficiency at 500,000", full and full["efficiency"], "at_least", 0.7),
        ("efficiency at 0", empty and empty["efficiency"], "at_least", 0.8),
        ("frames/s, 500,000 to 0", ratio(("nec", 1, 500_000), ("nec", 1, 0)), "at_least", 0.75),
        ("worst step in s at 500,000", max(worst, default=None), "at_most", 2),
    ]
    return [{"name": name, "value": value, bound: limit} for name, value, bound, limit in wanted]


def columns(rows: list[dict[str, Any]]) -> list[str]:
    """Returns the names that all rows have."""
    return [name for name in rows[0] if all(name in row for row in rows)]
