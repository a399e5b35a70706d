"""Stored copies of found pages in the monitor: what is shown, and that nothing in them can act."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
import warm
from aiohttp import web
from browsing import Tab, chromium
from lxml import html
from scrapy.utils.project import get_project_settings
from virtual_sites import VirtualSites

from webcrawl.monitor.access import Access
from webcrawl.monitor.site import Site
from webcrawl.monitor.watch import Watch

EVIL = """<!doctype html><title>Evil words</title><meta http-equiv=refresh content="0;/search?q=x">
<base href=http://evil.test/><link rel=stylesheet href=/page.css><script src=/page.js></script>
<style>p { color: rgb(1, 2, 3); background: url(/search) }</style>
<script>document.title = 'run'; alert(1); fetch('/api/state')</script>
<img src=/hosts onerror=alert(2)><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
<iframe src=/></iframe><form action=/commands/pause method=post><button>go</button></form>
<p onclick=alert(3)>café</p>"""
MODULES = {
    "webcrawl.pipelines.warc.WarcPipeline": 1,
    "webcrawl.pipelines.search_index.SearchIndex": 2,
}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    pages = {
        "a.test:80/": "".join(f"<a href=/{name}>{name}</a>" for name in ("evil", "shy", "gone")),
        "a.test:80/evil": EVIL,
        "a.test:80/shy": "<title>Shy words</title><meta name=robots content=noarchive>text",
        "a.test:80/gone": "<title>Gone words</title>that are purged",
    }
    sites = VirtualSites(tmp_path_factory.mktemp("sites"), pages)
    sites.crawl("http://a.test/", ITEM_PIPELINES=json.dumps(MODULES))
    return sites.job


@contextmanager
def served(job):
    """The address of a monitor of *job*, in a thread."""
    settings = get_project_settings()
    settings.set("JOBDIR", str(job))
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(Site(Watch(settings, []), Access("t" * 20, is_open=True)).app())

    async def begin():
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()

    loop.run_until_complete(begin())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(runner.cleanup())
    loop.close()


def ask(url):
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except HTTPError as error:
        return error.code, error.headers, error.read().decode()


def copy_of(path):
    return f"copy?{urlencode({'url': f'http://a.test{path}'})}"


def test_a_found_page_has_its_date_host_and_copy_unless_it_may_not_be_shown(job):
    with served(job) as monitor:
        _, _, text = ask(f"{monitor}search?q=words")
        hits = html.fromstring(text).xpath("//ol/li")
        links = {hit.findtext("h2/a"): hit.xpath("p[@class='url']/a/@href") for hit in hits}
        more = "search?q=words+site%3Aa.test"
        assert links.pop("Shy words") == [more]
        assert links == {
            "Evil words": [more, copy_of("/evil")],
            "Gone words": [more, copy_of("/gone")],
        }
        status, headers, text = ask(monitor + copy_of("/evil"))
        assert (status, text) == (200, EVIL)
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert "Set-Cookie" not in headers
        assert headers["Content-Security-Policy"] == (
            "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        )
        purged = warm.scrapy("purge", job, "--url", "http://a.test/gone")
        assert purged.returncode == 0, purged.stderr
        for path in ("/shy", "/gone", "/never"):
            assert ask(monitor + copy_of(path))[0] == 404
        assert ask(monitor + copy_of("/evil"))[0] in {200, 404}  # the purge may have moved it


@pytest.mark.long
def test_nothing_in_a_hostile_copy_runs_or_is_loaded(job):
    with served(job) as monitor, chromium() as browser:
        tab = Tab(browser)
        answered = []
        tab.page.on("response", lambda response: answered.append(response.url))
        tab.page.goto(monitor + copy_of("/evil"))
        tab.page.click("p")
        tab.page.evaluate("document.forms[0].submit()")
        assert tab.page.title() == "Evil words"
        color = tab.page.evaluate("getComputedStyle(document.querySelector('p')).color")
        assert color == "rgb(1, 2, 3)"
        assert [url for url in answered if not url.startswith("data:")] == [
            monitor + copy_of("/evil")
        ]
        verdicts = ("Refused", "Blocked", "has been blocked", "action has been blocked")
        assert [one for one in tab.said if not any(word in one for word in verdicts)] == []
