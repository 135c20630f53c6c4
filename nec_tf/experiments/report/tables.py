"""Tables as CSV, Markdown and HTML: one set of rows, three forms."""

import csv
import dataclasses
import html
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nec_tf.experiments.report.statistics import Estimate

Row = Mapping[str, Any]

_WIDE = 12  # columns from which on print is small


@dataclasses.dataclass(frozen=True)
class Column:
    """One column for readers.

    Attributes:
        label: Its heading.
        show: Returns the text of a cell.
        variant: Whose column it is; the page hides it with the variant.
        words: Whether it holds words, which are aligned to the left.
    """

    label: str
    show: Callable[[Row], str]
    variant: str | None = None
    words: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: `<file>` or `<file>-<number>`: tables of one CSV file have different numbers.
        caption: One sentence.
        columns: For readers; the first one heads the rows.
        rows: Of readers. `_variants` (names) and `_game` of a row say what it belongs to.
        data: Rows of the CSV file, by default `rows` without the keys that begin with `_`.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    data: Sequence[Row] | None = None

    @property
    def file(self) -> str:
        """Name of the CSV file, without its ending."""
        return self.name.partition("-")[0]

    def csv_rows(self) -> list[dict[str, Any]]:
        """Returns the rows of the CSV file: six digits instead of those for readers."""
        return [
            {key: _plain(value) for key, value in row.items() if not key.startswith("_")}
            for row in (self.rows if self.data is None else self.data)
        ]

    def to_markdown(self) -> str:
        """Returns the table as GitHub shows it."""
        lines = [
            [column.label for column in self.columns],
            ["---"] * len(self.columns),
            *([column.show(row) for column in self.columns] for row in self.rows),
        ]
        return "\n".join(f"| {' | '.join(_escape_bar(cells))} |" for cells in lines)

    def to_html(self) -> str:
        """Returns an element `table` with headings of columns and rows."""
        head = "".join(
            f'<th scope="col"{_marks(column)}>{html.escape(column.label)}</th>'
            for column in self.columns
        )
        body = "".join(self._html_row(row) for row in self.rows)
        wide = ' class="wide"' if len(self.columns) > _WIDE else ""
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{self.name}-caption">'
            f'<table id="table-{self.name}"{wide}>'
            f'<caption id="{self.name}-caption"><span>{html.escape(self.caption)}</span></caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _html_row(self, row: Row) -> str:
        first, *others = self.columns
        cells = "".join(
            f"<td{_marks(column)}>{html.escape(column.show(row))}</td>" for column in others
        )
        attributes = _data(row.get("_variants", ()), row.get("_game"))
        return f'<tr{attributes}><th scope="row">{html.escape(first.show(row))}</th>{cells}</tr>'


def to_csv(tables: Sequence[Table]) -> str:
    """Returns the rows of tables with the same columns as one CSV file."""
    rows = [row for table in tables for row in table.csv_rows()]
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def text(key: str, label: str | None = None) -> Column:
    """Returns a column that shows a value as it is."""
    return Column(key if label is None else label, lambda row: str(row[key]), words=True)


def number(key: str, label: str, digits: int = 1, variant: str | None = None) -> Column:
    """Returns a column of numbers; a dash where there is none."""
    return Column(
        label,
        lambda row: "-" if row.get(key) is None else f"{row[key]:,.{digits}f}",
        variant,
    )


def interval(key: str, label: str, digits: int = 1) -> Column:
    """Returns a column of a figure with its interval, from `key`, `key_low` and `key_high`."""

    def show(row: Row) -> str:
        point, low, high = row[key], row[f"{key}_low"], row[f"{key}_high"]
        bounds = "" if low is None else f" [{low:,.{digits}f}, {high:,.{digits}f}]"
        return f"{point:,.{digits}f}{bounds}"

    return Column(label, show)


def figures(key: str, estimate: Estimate, scale: float = 1.0) -> dict[str, float | None]:
    """Returns an estimate as values of a row."""
    point, low, high = (None if value is None else scale * value for value in estimate)
    return {key: point, f"{key}_low": low, f"{key}_high": high}


def score(value: float) -> str:
    """Returns a score of a game for readers: four significant digits, no exponent."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _plain(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _escape_bar(cells: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]


def _marks(column: Column) -> str:
    words = ' class="words"' if column.words else ""
    return words + _data([column.variant] if column.variant else [])


def _data(variants: Sequence[str] = (), game: str | None = None) -> str:
    """Returns attributes by which the page finds what belongs to a variant or a game."""
    marks = ""
    if variants:
        marks += f' data-variants="{html.escape("|".join(variants))}"'
    if game:
        marks += f' data-game="{html.escape(game)}"'
    return marks
