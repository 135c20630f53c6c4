"""The page in a real browser."""

import shutil

import pytest
from playwright import sync_api

from nec_tf.experiments.report.screenshot import CHROMIUM_FLAGS
from nec_tf.experiments.run import load_trained_run
from nec_tf.experiments.viewer import watching
from nec_tf.experiments.viewer.server import Server

from .conftest import OLD

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is missing (Debian: apt-get install chromium)"
)


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser):
    opened = []

    def open_it(watched, scheme="light", size=(1440, 900)):
        server = Server(watched.answers())
        server.start()
        page = browser.new_page(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
        opened.append((page, server))
        page.set_default_timeout(120_000)  # two cores are shared with other tests
        page.requests, page.errors = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda line: page.errors.append(line.text))
        page.goto(server.url)
        page.wait_for_selector("html[data-ready=yes]")
        page.address = server.url
        return page

    yield open_it
    for page, server in opened:
        page.close()
        server.close()


def data(page, selector):
    """Returns the data attributes of all elements that a selector finds."""
    return page.eval_on_selector_all(selector, "found => found.map(one => ({...one.dataset}))")


def step(page):
    index = int(page.inner_text("#index"))
    page.click("#step")
    page.wait_for_selector(f"html[data-index='{index + 1}']")


def test_the_page_shows_the_q_values_of_the_policy_and_the_neighbours_of_the_memory(nec, open_page):
    nec.session.restart(11)
    page = open_page(nec)
    agent = load_trained_run(OLD / "nec").learner.agent
    environment = nec.session.task.environment(1, 1, evaluation=True)
    environment.seed(11)
    time_step = environment.reset()
    for index in range(4):
        key = agent.embedding(time_step.observation, training=False)
        q = agent.dnd(key, training=False).numpy()[0]
        shown = [float(row["score"]) for row in data(page, ".score")]
        assert shown == pytest.approx(q.tolist(), rel=1e-4)
        texts = page.eval_on_selector_all(".score .number", "all => all.map(one => one.innerText)")
        assert [float(text) for text in texts] == pytest.approx(q.tolist(), rel=1e-3)
        taken = int(page.get_attribute(".score.taken", "data-action"))
        names = ["LEFT", "RIGHT"]
        assert page.inner_text("#action") == names[taken]
        assert page.inner_text("#how") == ("greedy" if q[taken] == q.max() else "random")
        found = agent.dnd.neighbours(key)
        cards = data(page, ".near")
        assert len(cards) == 12
        assert [int(card["row"]) for card in cards] == found.rows.numpy()[0, taken, :12].tolist()
        for name in ("weights", "values", "distances"):
            wanted = getattr(found, name).numpy()[0, taken, :12].tolist()
            assert [float(c[name[:-1]]) for c in cards] == pytest.approx(wanted, rel=1e-3, abs=1e-5)
        step(page)
        time_step = environment.step([taken])
        assert page.inner_text("#score") == str(index + 1)
    assert page.eval_on_selector_all(".near img", "all => all.every(one => one.naturalWidth > 0)")
    assert page.eval_on_selector("#picture", "one => one.naturalWidth") == 600
    assert all(url.startswith((page.address, "data:")) for url in page.requests)
    assert page.errors == []


def test_another_action_can_be_asked_about_and_the_past_visited(nec, open_page):
    nec.session.restart(12)
    page = open_page(nec)
    for _ in range(5):
        step(page)
    decision = nec.session.moments[5].decision
    other = 1 - decision.action
    page.click(f".score[data-action='{other}']")
    page.wait_for_selector(f".score.shown[data-action='{other}']")
    rows = [int(card["row"]) for card in data(page, ".near")]
    assert rows == decision.neighbours[other].rows[:12].tolist()
    assert ["LEFT", "RIGHT"][other] in page.inner_text("#neighbours-title")
    box = page.query_selector("#timeline").bounding_box()
    page.mouse.click(box["x"] + 57, box["y"] + 40)  # where step 0 is
    page.wait_for_selector("html[data-index='0']")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("html[data-index='1']")
    assert len(nec.session.moments) == 6, "a step from the past is not played again"
    page.click("#back")
    page.wait_for_selector("html[data-index='0']")
    assert page.errors == []


def test_it_plays_to_the_end_and_begins_the_next_episode(nec, open_page):
    nec.session.restart(13)
    page = open_page(nec)
    page.select_option("#speed", "1000")
    page.click("#play")
    page.wait_for_function("() => document.getElementById('seed').value === '14'")
    page.click("#play")
    assert nec.session.seed == 14
    page.fill("#seed", "20")
    page.keyboard.press("Enter")
    page.wait_for_function("() => watch.page.moment.seed === 20")
    assert nec.session.seed == 20
    assert page.errors == []


def test_a_point_of_the_map_shows_its_entry_and_filters_hide_others(nec, open_page, tmp_path):
    nec.session.restart(11)
    page = open_page(nec)
    entries = nec.session.decider.memory.entries
    (drawn,) = data(page, "#map")
    assert int(drawn["drawn"]) == len(entries)
    row = page.evaluate(  # the entry that is farthest to the left: none covers it
        "() => { const m = watch.map; let best = 0; for (let i = 0; i < m.count; i++)"
        " if (m.x[i] < m.x[best]) best = i; return m.row[best]; }"
    )
    place = page.evaluate(f"watch.map.placeOf({row})")
    page.mouse.click(place["x"], place["y"])
    page.wait_for_selector("#entry[data-row]")
    (shown,) = data(page, "#entry")
    (index,) = (entries.rows == int(shown["row"])).nonzero()[0]
    assert int(shown["row"]) == row
    assert float(shown["value"]) == pytest.approx(float(entries.values[index]))
    assert int(shown["action"]) == entries.actions[index]
    assert int(shown["age"]) == entries.ages[index]
    assert len(page.query_selector_all("#entry img")) == 7
    page.select_option("#only", "1")
    assert int(data(page, "#map")[0]["drawn"]) == int((entries.actions == 1).sum())
    page.fill("#low", "5")
    wanted = int(((entries.actions == 1) & (entries.values >= 5)).sum())
    assert int(data(page, "#map")[0]["drawn"]) == wanted
    for colour in ("age", "action"):
        page.select_option("#colour", colour)
        assert page.inner_text("#legend")
    page.screenshot(path=tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 50_000
    assert page.errors == []


@pytest.mark.parametrize(
    ("scheme", "size"), [("light", (1440, 900)), ("dark", (1440, 900)), ("light", (390, 844))]
)
def test_the_page_is_readable_in_light_in_dark_and_on_a_phone(nec, open_page, scheme, size):
    nec.session.restart(11)
    page = open_page(nec, scheme, size)
    scroll, width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert scroll <= width, "the page itself must not scroll sideways"
    style = "getComputedStyle(document.body)"
    back, text = page.evaluate(f"[{style}.backgroundColor, {style}.color]")
    back, text = (sum(map(int, colour[4:-1].split(","))) for colour in (back, text))
    assert (back < 150 < 500 < text) if scheme == "dark" else (back > 600 > 200 > text)
    page.click("#theme")
    toggled = page.evaluate(f"{style}.backgroundColor")
    assert (sum(map(int, toggled[4:-1].split(","))) > 600) == (scheme == "dark")


def test_an_agent_without_a_memory_shows_its_q_values(open_page):
    watched = watching.watch_run(OLD / "dqn", "newest", seed=1)
    page = open_page(watched)
    step(page)
    decision = watched.session.moments[1].decision
    shown = [float(row["score"]) for row in data(page, ".score")]
    assert shown == pytest.approx(decision.scores.tolist())
    assert not page.is_visible("#memory")
    assert not page.is_visible("#recall")
    assert page.errors == []
    watched.close()


def test_the_page_says_when_there_is_no_picture_and_when_the_server_has_ended(open_page):
    watched = watching.watch_run(OLD / "mfec", "newest", seed=1)  # has no replay
    page = open_page(watched)
    assert page.inner_text(".near .none") == "no picture kept"
    watched.session.after = None  # an error in an answer closes the connection
    page.click("#step")
    page.wait_for_selector("#problem:not([hidden])")
    assert "does not answer" in page.inner_text("#problem")
    watched.close()
