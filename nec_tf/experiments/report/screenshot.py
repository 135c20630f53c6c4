"""A picture of the page, by Debian's Chromium without a screen."""

import shutil
from pathlib import Path

from nec_tf.runtime.errors import UserError

_WIDTH, _HEIGHT = 1280, 1900  # pixels: summary, scores of games and the first learning curves
#: Chromium runs as root in containers, where it has no sandbox and little shared memory.
CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def take(page: Path, picture: Path) -> None:
    """Writes the upper part of a page, in light colours, to a PNG file.

    Raises:
        UserError: There is no Chromium or no Playwright.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        raise UserError("--screenshot needs chromium (Debian: apt-get install chromium)")
    try:
        from playwright import sync_api
    except ImportError as error:
        raise UserError("--screenshot needs Playwright: pip install playwright") from error
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        size: sync_api.ViewportSize = {"width": _WIDTH, "height": _HEIGHT}
        tab = browser.new_page(viewport=size, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-ready=yes]")
        tab.screenshot(path=picture)
        browser.close()
