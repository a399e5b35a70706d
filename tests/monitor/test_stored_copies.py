"""Stored copies of found pages in the monitor: what is shown, and that nothing in them can act."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlencode

import pytest
import warm
from aiohttp.test_utils import TestClient, TestServer
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


def copy_of(path):
    return f"copy?{urlencode({'url': f'http://a.test{path}'})}"


async def test_a_found_page_has_its_date_host_and_copy_unless_it_may_not_be_shown(job):
    settings = get_project_settings()
    settings.set("JOBDIR", str(job))
    watch = Watch(settings, [])
    site = Site(watch, Access("t" * 20, is_open=True))
    async with TestClient(TestServer(site.app())) as monitor:

        async def ask(path):
            async with monitor.get(f"/{path}") as answer:
                return answer.status, answer.headers, await answer.text()

        _, _, text = await ask("search?q=words")
        hits = html.fromstring(text).xpath("//ol/li")
        links = {hit.findtext("h2/a"): hit.xpath("p[@class='url']/a/@href") for hit in hits}
        more = "search?q=words+site%3Aa.test"
        assert links.pop("Shy words") == [more]
        assert links == {
            "Evil words": [more, copy_of("/evil")],
            "Gone words": [more, copy_of("/gone")],
        }
        status, headers, text = await ask(copy_of("/evil"))
        assert (status, text) == (200, EVIL)
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert "Set-Cookie" not in headers
        assert headers["Content-Security-Policy"] == (
            "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        )
        purge = await asyncio.to_thread(warm.scrapy, "purge", job, "--url", "http://a.test/gone")
        assert purge.returncode == 0, purge.stderr
        for path in ("/shy", "/gone", "/never"):
            status, _, _ = await ask(copy_of(path))
            assert status == 404
    watch._thread.shutdown()
