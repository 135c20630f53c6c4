"""The bars of `benchmarks.lookup`, computed from its rows, and its table."""

from typing import Any

Row = dict[str, Any]

RECALLS = ("recall_at_50", "recall_after_gradients", "recall_after_replacement")
_LARGE, _SMALL = 500_000, 50_000  # entries, compared by the bars
_COLUMNS = {  # field: heading, digits behind the point
    "recall_at_50": ("recall", 3),
    "recall_after_gradients": ("moved", 3),
    "recall_after_replacement": ("replaced", 3),
    "query_ms": ("query ms", 3),
    "numpy_query_ms": ("numpy ms", 3),
    "lookup_ms": ("lookup ms", 3),
    "write_ms": ("write ms", 4),
    "append_ms": ("append ms", 4),
    "gradient_step_ms": ("step ms", 2),
    "bytes_per_entry": ("B/entry", 0),
    "build_s": ("build s", 2),
}


def bars(rows: list[Row]) -> list[dict[str, Any]]:
    """Returns each bar with the ScaNN backend's value; None if its sizes were not measured."""
    ours = {row["entries"]: row for row in rows if row["backend"] == "scann"}
    large, small = ours.get(_LARGE), ours.get(_SMALL)
    recalls = [
        _bar(
            f"{field}, worst of all sizes",
            min((row[field] for row in ours.values()), default=None),
            at_least=0.95,
            goal=0.99,
        )
        for field in RECALLS
    ]
    speed_up = large["numpy_query_ms"] / large["query_ms"] if large else None
    return [
        *recalls,
        _bar("times faster than NumPy at 500,000", speed_up, at_least=30.0),
        _bar("query_ms, 500,000 to 50,000", _ratio(large, small, "query_ms"), at_most=3.0),
        _bar("write_ms, 500,000 to 50,000", _ratio(large, small, "write_ms"), at_most=1.5),
        _bar(
            "gradient_step_ms, 500,000 to 50,000",
            _ratio(large, small, "gradient_step_ms"),
            at_most=1.5,
        ),
    ]


def _ratio(large: Row | None, small: Row | None, field: str) -> float | None:
    return large[field] / small[field] if large and small else None


def _bar(
    name: str,
    value: float | None,
    at_least: float | None = None,
    at_most: float | None = None,
    goal: float | None = None,
) -> dict[str, Any]:
    """Returns a bar, whether it is met, and whether its stricter goal is met."""
    met = None
    if value is not None:
        met = value >= at_least if at_least is not None else value <= (at_most or 0.0)
    goal_met = None if value is None or goal is None else value >= goal
    return {
        "name": name,
        "value": value,
        "at_least": at_least,
        "at_most": at_most,
        "met": met,
        "goal": goal,
        "goal_met": goal_met,
    }


def table(report: dict[str, Any]) -> str:
    """Returns the rows, the bars and the notes as text."""
    headings = ["backend", "entries", *(heading for heading, _ in _COLUMNS.values())]
    lines = [headings, *(_cells(row) for row in report["rows"])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    parts = [_align(line, widths) for line in lines]
    parts += ["", *(_verdict(bar) for bar in report["bars"])]
    if report["decision"]:
        parts += ["", _decision(report["decision"])]
    parts += ["", *report["notes"], f"{report['seconds'] / 60:.1f} minutes"]
    return "\n".join(parts)


def _cells(row: Row) -> list[str]:
    numbers = [_number(row.get(field), digits) for field, (_, digits) in _COLUMNS.items()]
    return [row["backend"], f"{row['entries']:,}", *numbers]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _align(cells: list[str], widths: list[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)])


def _verdict(bar: dict[str, Any]) -> str:
    if bar["met"] is None:
        return f"not measured  {bar['name']}"
    limit = f"at least {bar['at_least']}" if bar["at_most"] is None else f"at most {bar['at_most']}"
    goal = ""
    if bar["goal"] is not None:
        goal = f", goal {bar['goal']} {'met' if bar['goal_met'] else 'not met'}"
    met = "met" if bar["met"] else "NOT MET"
    return f"{met:12}  {bar['name']}: {bar['value']:.3f} ({limit}{goal})"


def _decision(decision: dict[str, Any]) -> str:
    return (
        f"One decision with {decision['actions']} actions of {decision['entries']:,} entries:"
        f" {decision['decision_ms']:.2f} ms, of which the indices take"
        f" {decision['index_ms']:.2f} ms; {decision['bytes_per_entry']:,.0f} bytes an entry;"
        f" loaded from entries in {decision['load_s']:.0f} s, restored from a checkpoint in"
        f" {decision['restore_s']:.0f} s."
    )
