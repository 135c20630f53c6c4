"""Prints the rows and bars of a benchmark as text."""

from typing import Any


def table(rows: list[dict[str, Any]], columns: list[str], bars: list[dict[str, Any]]) -> str:
    """Returns a line for each row, with the given columns, and a line for each bar."""
    lines = ["  ".join(columns)]
    for row in rows:
        cells = [row[c] if isinstance(row[c], str) else f"{row[c]:,.4g}" for c in columns]
        lines.append("  ".join(v.rjust(len(c)) for v, c in zip(cells, columns, strict=True)))
    lines += [f"{bar['name']}: {bar['value']}" for bar in bars]
    return "\n".join(lines)
