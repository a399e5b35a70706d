"""The monitor in a browser: by keyboard, narrow and dark, alive, and without JavaScript."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from browsing import Tab, chromium
from crawling import kill, wait_until
from monitored import monitored

pytestmark = pytest.mark.long

PAGES = "dl.summary dd >> nth=0"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with monitored(tmp_path_factory.mktemp("crawl"), POLITENESS_MIN_DELAY=1) as monitor:
        wait_until(lambda: int(monitor.state()["summary"]["pages"]) > 5)
        yield monitor


@pytest.fixture
def browser():
    with chromium() as browser:
        yield browser


def give_token(tab, monitor):
    tab.page.goto(f"{monitor.url}token")
    tab.page.fill("#token", monitor.token)
    tab.page.click("button")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_a_page_fits_its_window_and_asks_for_nothing_elsewhere(running, browser, width, scheme):
    tab = Tab(browser, width=width, color_scheme=scheme)
    give_token(tab, running)
    host = "site00000.sim.test"
    queries = [{}, {"url": f"http://{host}/{'long' * 60}"}, {"host": host}]
    for page in ["token", *(f"?{urlencode(one)}" for one in queries)]:
        tab.page.goto(running.url + page)
        # All at once, not one after the other.
        open_it = "one.removeAttribute('name'); one.open = true"
        tab.page.evaluate(f"document.querySelectorAll('details').forEach(one => {{ {open_it} }})")
        assert tab.wide <= 0, page
        ids = tab.page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
        assert [one for one in ids if ids.count(one) > 1] == []
    assert tab.said == []
    assert [url for url in tab.asked if not url.startswith(running.url)] == []
    ground = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(244, 245, 247)", "dark": "rgb(15, 19, 25)"}[scheme]


def go_to(tab, name):
    """Press Tab until the focus is on the element called *name*, by its text or as a field."""
    for _ in range(300):
        tab.page.keyboard.press("Tab")
        at = "one => one.type === 'text' ? one.name : one.textContent.trim()"
        if tab.page.evaluate(f"({at})(document.activeElement)") == name:
            return
    raise AssertionError(f"Tab does not lead to {name}")


def press(tab, *names):
    for name in names:
        go_to(tab, name)
        tab.page.keyboard.press("Enter")


def test_the_keyboard_alone_gives_the_token_and_a_command(running, browser):
    tab = Tab(browser)
    tab.page.goto(running.url)
    press(tab, "To the figures")
    assert tab.page.url == f"{running.url}#main"
    press(tab, "Give the token")
    tab.page.wait_for_selector("#token:focus")
    tab.page.keyboard.type(running.token)
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/#commands")
    press(tab, "Exclude")
    go_to(tab, "host")
    tab.page.keyboard.type("never.test")
    with tab.page.expect_navigation():
        press(tab, "Exclude")
    assert tab.page.inner_text(".said") == "exclude never.test: in force"
    assert running.journal()[-1]["name"] == "exclude"
    assert tab.said == []


def test_what_moves_comes_without_a_reload_and_leaves_open_what_is_open(running, browser):
    tab = Tab(browser)
    tab.page.goto(running.url)
    tab.page.evaluate("window.is_same = true")
    numbers = tab.page.locator("#documents summary")
    numbers.click()
    before = int(tab.page.inner_text(PAGES))
    wait_until(lambda: int(tab.page.inner_text(PAGES)) > before, every=1)
    assert tab.page.evaluate("window.is_same")
    assert tab.page.locator("#documents details[open] summary:focus").count() == 1
    assert tab.said == []


def test_the_copy_button_copies_the_command_line(running, browser):
    tab = Tab(browser, permissions=["clipboard-read", "clipboard-write"])
    give_token(tab, running)
    pause = tab.page.locator("details", has=tab.page.locator("[action='commands/pause']"))
    pause.locator("summary").click()
    pause.locator(".copy").click()
    pause.get_by_text("Copied").wait_for()
    line = tab.page.evaluate("navigator.clipboard.readText()")
    assert line == pause.locator("code").inner_text()
    assert line.startswith(f"scrapy control {running.job} pause")


def test_without_javascript_the_token_and_a_command_work(running, browser):
    tab = Tab(browser, java_script_enabled=False)
    give_token(tab, running)
    assert tab.page.locator(".copy:visible").count() == 0
    for name in ("Pause", "Resume"):
        tab.page.locator("summary", has_text=name).click()
        tab.page.get_by_role("button", name=name).click()
        assert tab.page.inner_text(".said") == f"{name.lower()}: in force"
    assert tab.said == []


def test_the_page_of_a_crawl_that_was_killed_is_marked(tmp_path, browser):
    with monitored(tmp_path) as monitor:
        tab = Tab(browser)
        tab.page.goto(monitor.url)
        kill(monitor.crawl)
        tab.page.wait_for_selector("body.lost")
