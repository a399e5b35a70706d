"""Words of a hostile web on the monitor's page and in the report: text, and nothing else."""

import json
from urllib.parse import urlencode, urljoin

import pytest
import warm
from browsing import Tab, chromium
from crawling import RIGS, crawl_of_urls, wait_until
from hostile_words import THEIRS, WAITS, WORDS, answer, links
from http_site import HttpSite, serving
from lxml import html
from monitored import started
from redis_server import free_port

from webcrawl.wording import escape_controls


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """The monitor of a crawl that has seen it all and waits for more."""
    directory = tmp_path_factory.mktemp("crawl")
    site = HttpSite(answer, address="")
    urls = f"{site.url}/", f"http://{WAITS}:{site.server_port}/"
    settings = {
        "ITEM_PIPELINES": json.dumps(
            {"hostile_words.Quoting": 1, "webcrawl.pipelines.search_index.SearchIndex": 2}
        ),
        "POLITENESS_DELAY_FACTOR": 0,
        "FRONTIER_RETRY_TIMES": 0,
        "MONITOR_PORT": free_port(),
        "CHECKPOINT_INTERVAL_SECS": 1,
        "STATS_FILE_INTERVAL_SECS": 1,
    }
    command = crawl_of_urls(directory, *urls, dns="127.0.0.1:1", **settings)
    with serving(site), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", RIGS)
        with started(directory / "job", command) as monitor:
            log = directory / "job/logs/info.jsonl"
            ends = len(links()) + 1
            wait_until(lambda: log.exists() and log.read_bytes().count(b"\n") >= ends)
            stats = directory / "job/stats.json"
            wait_until(lambda: stats.exists() and "hostile_words.Quoting" in stats.read_text())
            monitor.site = site.url
            yield monitor


def pages(monitor):
    """Paths of the page that is asked for each URL, and for each word as one and as a host."""
    asked = [("url", monitor.site + link) for link in links()]
    asked += [(of, word) for of in ("url", "host") for word in WORDS]
    asked_search = [f"/search?{urlencode({'q': word})}" for word in ("*", *WORDS)]
    return ["/", "/?host=127.0.0.1", *asked_search, *(f"/?{urlencode([one])}" for one in asked)]


@pytest.fixture
def report(crawled, tmp_path):
    path = tmp_path / "report.html"
    done = warm.scrapy("report", crawled.job, "-o", path)
    assert (done.returncode, done.stderr) == (0, "")
    return path


@pytest.mark.long
def test_no_word_of_a_web_is_markup_on_the_page_or_in_the_report(crawled, report):
    crawled.give_token()
    texts = {path: crawled.ask("GET", path)[2] for path in pages(crawled)}
    texts["report"] = report.read_text("utf-8")
    for path, text in texts.items():
        assert html.fromstring(text).xpath(THEIRS) == [], path
        assert escape_controls(text) == text, path
    for word in WORDS[:3]:
        path = f"/?{urlencode({'url': f'{crawled.site}/denied/{word}'})}"
        (why,) = html.fromstring(texts[path]).xpath("//pre/text()")
        assert f"Disallow: /denied/{word}" in why
    assert crawled.ask("GET", "/api/state")[1]["Content-Type"] == "application/json"


@pytest.mark.long
def test_a_browser_runs_nothing_of_theirs_and_asks_for_nothing_elsewhere(crawled, report):
    with chromium() as browser:
        tab = Tab(browser)
        tab.page.goto(crawled.url)
        tab.page.evaluate("document.querySelector('#now').title = 'the first'")
        tab.page.wait_for_selector("#now:not([title])")
        for path in [*pages(crawled), report.as_uri()]:
            tab.page.goto(urljoin(crawled.url, path))
            assert tab.page.locator(f"xpath={THEIRS}").count() == 0
        assert tab.said == []
        ours = (crawled.url, report.as_uri())
        assert [url for url in tab.asked if not url.startswith(ours)] == []
