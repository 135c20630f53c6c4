"""Writes all files of a report into a folder: the page, CSV files and pictures."""

import dataclasses
from pathlib import Path

from nec_tf.experiments.report import page, pictures
from nec_tf.experiments.report.sections import Report
from nec_tf.experiments.report.tables import Table, to_csv
from nec_tf.runtime.folders import require_local_folder


@dataclasses.dataclass(frozen=True)
class Written:
    """The files of a report: `page` (HTML), `tables` (CSV) and `pictures` (PNG)."""

    page: Path
    tables: list[Path]
    pictures: list[Path]


def write(report: Report, folder: Path, title: str, origin: str) -> Written:
    """Writes a report; files of the same names are replaced."""
    require_local_folder("output_dir", folder)
    folder.mkdir(parents=True, exist_ok=True)
    by_file: dict[str, list[Table]] = {}
    for table in report.tables:
        by_file.setdefault(table.file, []).append(table)
    written = []
    for name, tables in by_file.items():
        if any(table.csv_rows() for table in tables):
            path = folder / f"{name}.csv"
            path.write_text(to_csv(tables))
            written.append(path)
    drawn = pictures.draw(report, folder)
    path = folder / "index.html"
    path.write_text(page.render(report, title, origin, [p.name for p in (*written, *drawn)]))
    return Written(path, written, drawn)
