"""Weighs recorded runs: one HTML page with statistics, curves and published agents beside ours.

  nec-tf report
  nec-tf report --runs_dir=runs --frames=400000 --output_dir=/tmp/report

Reads `results/<variant>/<game>/<seed>.csv`, which trainers/record_result.py writes of a run, or the
folders of runs themselves. Writes index.html, which needs no network, with CSV and PNG files beside
it. With --update_docs it also fills the places in README.md and docs/results.md that are marked
<!-- report:NAME --> ... <!-- /report -->.
"""

import shlex
from pathlib import Path

from absl import app, flags

from nec_tf.experiments import provenance
from nec_tf.experiments.report import documents, records, screenshot, sections, writing
from nec_tf.runtime import programs, startup
from nec_tf.runtime.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("results_dir", "results", "Folder of recorded results.")
flags.DEFINE_string("runs_dir", None, "Folder of runs; these are weighed instead of results.")
flags.DEFINE_list(
    "frames",
    [],
    "At how many frames variants are compared, commas between several; the main one first."
    " (default: where runs end, that of most runs first, and 400,000)",
)
flags.DEFINE_string("output_dir", "report", "Folder for index.html, CSV and PNG files.")
flags.DEFINE_string("screenshot", None, "PNG file for a picture of the page; needs chromium.")
flags.DEFINE_bool("update_docs", False, "Fill the marked places of README.md and docs/results.md.")

_DOCUMENTS = (Path("README.md"), Path("docs/results.md"))
_PICTURES = Path("docs/report")


def main() -> None:
    """Writes the report and prints where it is."""
    if FLAGS.runs_dir is not None:
        found = records.load_runs(Path(FLAGS.runs_dir))
    else:
        found = records.load_results(Path(FLAGS.results_dir))
    budgets = _budgets(found)
    report = sections.build(found, budgets, records.unit_of(found))
    command = shlex.join(programs.called())
    origin = f"Made by: {command} ({provenance.commit()})."
    written = writing.write(report, Path(FLAGS.output_dir), "nec_tf: report of runs", origin)
    size = written.page.stat().st_size / 1e6
    files = f"{len(written.tables)} CSV files, {len(written.pictures)} pictures"
    print(f"{written.page} ({size:.1f} MB, most of it Plotly), {files}")
    if FLAGS.screenshot is not None:
        screenshot.take(written.page, Path(FLAGS.screenshot))
        print(FLAGS.screenshot)
    if FLAGS.update_docs:
        present = [document for document in _DOCUMENTS if document.exists()]
        for path in documents.update(present, report.tables, written.pictures, _PICTURES):
            print(path)


def _budgets(found: list[records.RunRecord]) -> list[int]:
    try:
        asked = [int(frames) for frames in FLAGS.frames]
    except ValueError as error:
        raise UserError(f"--frames must be numbers, such as 400000,1000000: {error}") from error
    budgets = asked or records.default_budgets(found)
    if not budgets:
        raise UserError("no run has an evaluation yet: train further, or evaluate more often")
    for frames in budgets:
        if not any(record.at(frames) for record in found):
            ends = ", ".join(f"{end:,}" for end in records.default_budgets(found))
            unit = records.unit_of(found)
            raise UserError(f"no run has an evaluation at {frames:,} {unit}; runs end at {ends}")
    return budgets


if __name__ == "__main__":
    app.run(startup.guarded(main))
