"""The site that `make docs` builds, in a browser: what its search finds, and how it looks."""

import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from browsing import Tab, chromium
from text_tables import each

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "docs/_build"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_): ...


@pytest.fixture(scope="module")
def site():
    """Where the site is served, as its page says."""
    subprocess.run(["make", "docs"], cwd=ROOT, check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(BUILT)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


def _found(tab, origin, words):
    """The pages that a search for *words* lists, best first."""
    tab.page.goto(f"{origin}/search.html?q={words.replace(' ', '+')}")
    tab.page.wait_for_selector("#search-results .search li")
    tab.page.wait_for_function("document.querySelector('p.search-summary').innerText !== ''")
    links = tab.page.query_selector_all("#search-results .search li > a")
    return [link.get_attribute("href").partition("#")[0].partition("?")[0] for link in links]


@each(
    "words page",
    ("revisit", "howto/keep-an-index-fresh.html"),
    ("recrawl", "howto/keep-an-index-fresh.html"),
    ("resume", "howto/run-it-for-weeks.html"),
    ("systemd", "howto/run-it-for-weeks.html"),
    ("seeds", "howto/crawl-the-web.html"),
    ("domains", "howto/crawl-a-list-of-sites.html"),
    ("user agent", "howto/tell-sites-who-you-are.html"),
    ("simulated", "howto/crawl-without-the-internet.html"),
    ("javascript", "howto/pages-that-need-javascript.html"),
    ("browser", "howto/pages-that-need-javascript.html"),
    ("warc", "howto/make-a-web-archive.html"),
    ("parquet", "howto/build-a-dataset.html"),
    ("deduplicate", "howto/build-a-dataset.html"),
    ("full-text", "howto/build-a-search-index.html"),
    ("kubernetes", "howto/several-machines.html"),
    ("scrapyd", "howto/several-machines.html"),
    ("redis", "howto/several-machines.html"),
    ("distributed", "howto/several-machines.html"),
    ("monitor", "howto/watch-a-crawl.html"),
    ("prometheus", "howto/watch-a-crawl.html"),
    ("pause", "howto/steer-a-running-crawl.html"),
    ("rate limit", "howto/agree-on-limits-with-owners.html"),
    ("proxy", "howto/agree-on-limits-with-owners.html"),
    ("complaint", "howto/answer-a-site-owner.html"),
    ("purge", "howto/answer-a-site-owner.html"),
    ("stuck", "howto/when-something-is-wrong.html"),
    ("slow", "howto/when-something-is-wrong.html"),
    ("pipeline", "howto/write-a-module.html"),
    ("filter", "howto/write-a-part.html"),
    ("migrate", "howto/upgrade.html"),
    ("json", "howto/find-links-in-other-formats.html"),
    ("segment", "howto/crawl-in-segments.html"),
)
def test_a_search_finds_the_page_for_the_task_first(site, browser, words, page):
    assert _found(Tab(browser), site, words)[0] == page


def test_what_is_found_has_excerpts_where_the_site_is_served(site, browser):
    tab = Tab(browser)
    _found(tab, site, "revisit")
    tab.page.wait_for_selector("#search-results .search li p.context")


def test_a_search_finds_pages_in_the_files_too(site, browser):
    assert "howto/keep-an-index-fresh.html" in _found(Tab(browser), BUILT.as_uri(), "revisit")


def test_the_start_says_what_webcrawl_is_with_a_picture(site, browser):
    tab = Tab(browser)
    tab.page.goto(f"{site}/")
    assert "web crawler" in tab.page.inner_text("article p >> nth=0")
    assert tab.page.evaluate("document.querySelector('article img').naturalWidth") > 400


@each("page", "index", "reference/settings", "reference/commands", "howto/watch-a-crawl")
def test_a_page_is_as_narrow_as_a_telephone(site, browser, page):
    tab = Tab(browser, width=400)
    tab.page.goto(f"{site}/{page}.html")
    assert tab.wide <= 0
    tables = tab.page.query_selector_all(".table-wrapper")
    assert not any(one.evaluate("it => it.scrollWidth > it.clientWidth") for one in tables)
