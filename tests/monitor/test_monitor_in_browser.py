"""The monitor in a browser: by keyboard, narrow and dark, alive, and without JavaScript."""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from urllib.parse import urlencode

import pytest
from browsing import Tab, chromium
from crawling import kill, wait_until
from monitored import monitored
from text_tables import each

pytestmark = pytest.mark.long

PAGES = "dl.summary dd >> nth=0"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    modules = json.dumps({"webcrawl.pipelines.search_index.SearchIndex": 1})
    settings = {"CHECKPOINT_INTERVAL_SECS": 2, "ITEM_PIPELINES": modules}
    with monitored(tmp_path_factory.mktemp("crawl"), **settings) as monitor:
        wait_until(lambda: monitor.pages() > 5)
        wait_until(lambda: "<li" in monitor.ask("GET", "/search?q=*")[2])
        yield monitor


@pytest.fixture
def browser():
    with chromium() as browser:
        yield browser


def with_token(browser, monitor, **options):
    """A tab whose user types the token where the browser asks for it, at the commands."""
    origin = monitor.url.removesuffix("/")
    given = {"username": "", "password": monitor.token, "origin": origin}
    tab = Tab(browser, http_credentials=given, **options)
    tab.page.goto(f"{monitor.url}token")
    return tab


@each("scheme", "light", "dark")
@each("width", 360, 1280)
def test_a_page_fits_its_window_and_asks_for_nothing_elsewhere(running, browser, width, scheme):
    tab = with_token(browser, running, width=width, color_scheme=scheme)
    host = "site00000.sim.test"
    queries = [{}, {"url": f"http://{host}/{'long' * 60}"}, {"host": host}]
    for page in (*(f"?{urlencode(one)}" for one in queries), "search?q=%2A"):
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
    tab = Tab(browser, http_credentials={"username": "", "password": running.token})
    tab.page.goto(running.url)
    press(tab, "Skip to the figures")
    assert tab.page.url == f"{running.url}#main"
    press(tab, "Enter the token")
    tab.page.wait_for_url("**/#commands")
    press(tab, "Exclude")
    go_to(tab, "host")
    tab.page.keyboard.type("never.test")
    with tab.page.expect_navigation():
        press(tab, "Exclude")
    assert tab.page.inner_text(".said") == "exclude never.test: in force"
    assert running.journal()[-1]["name"] == "exclude"
    assert tab.said == []


def test_a_server_at_another_port_gets_nothing_of_the_token(running, browser):
    tab = with_token(browser, running)
    tab.page.wait_for_url("**/#commands")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        heads = []
        other.finish_request = lambda request, _: heads.append(answered(request))
        threading.Thread(target=other.serve_forever, daemon=True).start()
        tab.page.goto(f"http://127.0.0.1:{other.server_port}/")
        tab.page.evaluate("fetch('/again', {credentials: 'include'})")
        wait_until(lambda: any(b"/again" in head for head in heads))
        other.shutdown()
    assert [one for one in heads if b"authorization" in one.lower()] == []
    assert [one for one in heads if b"cookie" in one.lower()] == []


def answered(request):
    """The head of a *request*, which gets an empty page."""
    head = request.recv(1 << 16)
    request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    return head


def test_what_moves_comes_without_a_reload_and_leaves_open_what_is_open(running, browser):
    tab = Tab(browser)
    tab.page.goto(running.url)
    tab.page.evaluate("window.is_same = true")
    numbers = tab.page.locator("#answers summary")
    numbers.click()
    before = int(tab.page.inner_text(PAGES).replace(",", ""))
    wait_until(lambda: int(tab.page.inner_text(PAGES).replace(",", "")) > before, every=1)
    assert tab.page.evaluate("window.is_same")
    assert tab.page.locator("#answers details[open] summary:focus").count() == 1
    assert tab.said == []


def test_a_click_selects_the_command_line_as_a_whole(running, browser):
    tab = with_token(browser, running)
    pause = tab.page.locator("details", has=tab.page.locator("[action='commands/pause']"))
    pause.locator("summary").click()
    pause.locator("code").click()
    line = tab.page.evaluate("getSelection().toString()")
    assert line == pause.locator("code").inner_text()
    assert line.startswith(f"scrapy control {running.job} pause")


def test_without_javascript_the_token_and_a_command_work(running, browser):
    tab = with_token(browser, running, java_script_enabled=False)
    for name in ("Pause", "Resume"):
        tab.page.locator("summary", has_text=name).click()
        tab.page.get_by_role("button", name=name).click()
        assert tab.page.inner_text(".said") == f"{name.lower()}: in force"
    assert tab.said == []


def test_the_page_of_a_crawl_that_was_killed_is_marked_and_says_how_old_it_is(tmp_path, browser):
    """By the server's clock, second by second: that of the browser is an hour behind."""
    with monitored(tmp_path) as monitor:
        tab = Tab(browser)
        tab.page.clock.install(time=time.time() - 3600)
        tab.page.goto(monitor.url)
        tab.page.wait_for_selector("#now > p")
        wait_until(lambda: tab.page.evaluate("!Number.isNaN(ahead)"))
        kill(monitor.crawl)
        tab.page.wait_for_selector("body.lost")
        tab.page.clock.pause_at(tab.page.evaluate("Date.now()") / 1000 + 1)
        ages = []
        for _ in range(3):
            tab.page.clock.run_for(10_000)
            said = tab.page.inner_text("#now > p")
            ages.append(int(re.search(r"\((\d+) s ago\)$", said)[1]))
        assert ages[0] < 60
        assert [after - before for before, after in pairwise(ages)] == [10, 10]
