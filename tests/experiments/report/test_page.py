"""The program and its page, in a real browser."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import imageio.v2 as imageio
import plotly.graph_objects
import pytest
from playwright import sync_api

from nec_tf.experiments.report import records, screenshot, sections

ROOT = Path(__file__).parents[3]
CHROMIUM = shutil.which("chromium")
SIZES = {"light": (1280, 900), "dark": (1280, 900), "phone": (390, 844)}
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is missing (Debian: apt-get install chromium)"
)


def run(*flags, cwd=ROOT):
    return subprocess.run(
        [sys.executable, ROOT / "trainers" / "report.py", *map(str, flags)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env=None,
    )


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of everything in results/."""
    folder = tmp_path_factory.mktemp("report")
    done = run(f"--output_dir={folder}", f"--results_dir={ROOT / 'results'}")
    assert done.returncode == 0, done.stderr
    assert "index.html (" in done.stdout
    return folder


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        flags = screenshot.CHROMIUM_FLAGS
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser):
    contexts = []

    def open_it(folder, size="light", **options):
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if size == "dark" else "light",
            **options,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # two cores are shared with other tests
        page.requests, page.errors = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto((folder / "index.html").as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield open_it
    for context in contexts:
        context.close()


def visible_rows(page, table):
    """Returns the texts of the cells that are shown, row by row."""
    return page.eval_on_selector_all(
        f"#table-{table} tbody tr",
        "rows => rows.filter(r => r.offsetParent)"
        ".map(r => [...r.cells].filter(c => c.offsetParent).map(c => c.innerText))",
    )


def traces(page, figure):
    return page.eval_on_selector(
        f"#figure-{figure}", "f => f.data.map(t => ({name: t.name, x: [...t.x], y: [...t.y]}))"
    )


@needs_chromium
def test_the_page_shows_the_figures_of_its_csv_files_and_asks_the_network_nothing(
    report, open_page
):
    page = open_page(report)
    shown = {row[0]: row for row in visible_rows(page, "summary-0")}
    first = read(report / "summary.csv")[0]
    written = [r for r in read(report / "summary.csv") if r["games"] == first["games"]]
    written = {r["variant"]: r for r in written if r["frames"] == first["frames"]}
    assert shown.keys() == written.keys()
    for variant, row in written.items():
        for cell, name in zip(shown[variant][2:], ("iqm", "median", "mean"), strict=False):
            expected = f"{float(row[name]):.1f}"
            if row[f"{name}_low"]:
                low, high = float(row[f"{name}_low"]), float(row[f"{name}_high"])
                expected += f" [{low:.1f}, {high:.1f}]"
            assert cell == expected
    drawn = {trace["name"]: trace["x"][0] for trace in traces(page, "summary-0")}
    for variant, row in written.items():
        assert drawn[variant] == pytest.approx(float(row["iqm"]), rel=1e-4)
    assert page.requests == [(report / "index.html").as_uri()]
    assert page.errors == []


@needs_chromium
def test_a_variant_and_a_game_can_be_hidden_and_another_comparison_chosen(report, open_page):
    page = open_page(report)
    found = sections.build(
        records.load_results(ROOT / "results"),
        records.default_budgets(records.load_results(ROOT / "results")),
        "frames",
    )
    variant, game = found.views[0].variants[0], found.views[0].games[0]
    assert variant in {row[0] for row in visible_rows(page, "summary-0")}
    page.uncheck(f"input[name=variant][value='{variant}']")
    assert variant not in {row[0] for row in visible_rows(page, "summary-0")}
    assert variant not in {trace["name"] for trace in traces(page, "summary-0")}
    header = page.eval_on_selector_all(
        "#table-scores-0 thead th",
        "cells => cells.filter(c => c.offsetParent).map(c => c.innerText)",
    )
    assert variant not in header
    page.check(f"input[name=variant][value='{variant}']")
    assert variant in {trace["name"] for trace in traces(page, "summary-0")}
    page.click("summary")
    page.uncheck(f"input[name=game][value='{game}']")
    assert not page.is_visible(f"#figure-curve-{game}")
    assert game not in {row[0] for row in visible_rows(page, "scores-0")}
    page.select_option("#view", "1")
    assert not page.is_visible("#table-summary-0")
    assert {row[0] for row in visible_rows(page, "summary-1")} == {*found.views[1].variants}
    assert traces(page, "summary-1")
    assert page.errors == []


@needs_chromium
@pytest.mark.parametrize("size", SIZES)
def test_the_page_is_readable_in_light_in_dark_and_on_a_phone(report, open_page, tmp_path, size):
    page = open_page(report, size)
    scroll, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert scroll <= width, "the page itself must not scroll sideways"
    background, text, ticks = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,"
        " document.querySelector('.figure .xtick text').style.fill]"
    )
    numbers = [sum(map(int, c[4:-1].split(","))) for c in (background, text, ticks)]
    if size == "dark":
        assert numbers[0] < 150 < 500 < min(numbers[1:])
    else:
        assert numbers[0] > 700 > 200 > max(numbers[1:])
    page.screenshot(path=tmp_path / f"{size}.png")
    assert (tmp_path / f"{size}.png").stat().st_size > 10_000


@needs_chromium
def test_the_program_takes_a_picture_of_its_page(gymnasium_results, tmp_path):
    done = run(f"--results_dir={gymnasium_results}", "--screenshot=page.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "page.png"
    picture = imageio.imread(tmp_path / "page.png")
    assert picture.shape[:2] == (1900, 1280)
    assert picture.std() > 10, "not an empty page"


@needs_chromium
def test_print_is_dark_on_white_even_in_the_dark(report, open_page):
    page = open_page(report, "dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.wait_for_function(
        "document.querySelector('.figure .xtick text').style.fill === 'rgb(28, 37, 48)'"
    )
    assert not page.is_visible("#view")


@needs_chromium
def test_a_page_of_tasks_without_human_scores_works(gymnasium_results, tmp_path, open_page):
    done = run(f"--results_dir={gymnasium_results}", f"--output_dir={tmp_path / 'out'}")
    assert done.returncode == 0, done.stderr
    page = open_page(tmp_path / "out")
    body = page.inner_text("body")
    assert "1,000 steps" in body
    assert "nan" not in body.lower()
    assert "% of human" not in body
    assert "frames" not in page.inner_text("main")
    assert visible_rows(page, "scores-0") == [["cartpole-v1", "10 [10, 10]"]]
    assert page.errors == []


def test_figures_are_valid_for_plotly(results):
    report = sections.build(records.load_results(results), [400_000, 200_000], "frames")
    drawn = [f for s in report.sections for b in s.blocks for f in b.figures.values()]
    assert len(drawn) > 10
    for figure in drawn:
        plotly.graph_objects.Figure(figure)  # raises for an unknown property


def test_the_program_needs_no_tensorflow_and_writes_nothing_else(results, tmp_path):
    (tmp_path / "README.md").write_text("<!-- report:summary -->\n<!-- /report -->\n")
    script = (
        "import runpy, sys; sys.argv = ['report.py', *sys.argv[1:]]\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "try:\n"
        f"    runpy.run_path({str(ROOT / 'trainers' / 'report.py')!r}, run_name='__main__')\n"
        "finally:\n"
        "    print('tensorflow' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "results", "report"}
    names = {path.name for path in (tmp_path / "report").iterdir()}
    assert names >= {"index.html", "summary.csv", "scores.csv", "learning_curves.png"}
    assert "nec" not in (tmp_path / "README.md").read_text()
    done = run("--update_docs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "| nec | 1 to 2 |" in (tmp_path / "README.md").read_text()


def test_the_same_results_give_the_same_files(results, tmp_path):
    for _ in range(2):
        done = run("--output_dir=out", f"--results_dir={results}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        (tmp_path / "out").rename(tmp_path / f"out{len(list(tmp_path.glob('out*')))}")
    first, second = sorted(tmp_path.glob("out*"))
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--frames=many", "--frames must be numbers"),
        ("--frames=300000", "no run has an evaluation at 300,000 frames; runs end at 400,000"),
        ("--results_dir=none", "holds no results"),
    ],
)
def test_requests_that_cannot_be_met_are_refused_in_a_sentence(results, tmp_path, flag, message):
    done = run(f"--results_dir={results}", flag, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
