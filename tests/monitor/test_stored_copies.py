"""Stored copies of found pages in the monitor: what is shown, and that nothing in them can act."""

import asyncio
import json
import re
from contextlib import ExitStack, suppress
from urllib.parse import urlencode

import playwright.sync_api
import pytest
import warm
from aiohttp.test_utils import TestClient, TestServer
from browsing import Tab, chromium
from http_site import HttpSite, serving
from lxml import html
from scrapy.utils.project import get_project_settings
from virtual_sites import VirtualSites

from webcrawl.monitor.access import Access
from webcrawl.monitor.launch import MonitorProcess
from webcrawl.monitor.site import Site
from webcrawl.monitor.watch import Watch

EVIL = """<!doctype html><title>Evil words</title><meta http-equiv=refresh content="0;/search?q=x">
<base href=http://evil.test/><link rel=stylesheet href=/page.css><script src=/page.js></script>
<style>p { color: rgb(1, 2, 3); background: url(/search) }</style>
<script>document.title = 'run'; alert(1); fetch('/api/state')</script>
<img src=/hosts onerror=alert(2)><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
<iframe src=/></iframe><form action=/commands/pause method=post><button>go</button></form>
<p onclick=alert(3)>café</p>"""
#: A page that wants to ask a site for many things; the browser needs only to open it.
HARMFUL = """<!doctype html><base href=SITE/base/><title>Harmful words</title>
<meta http-equiv=refresh content="0;SITE/refresh">
<link rel="stylesheet icon manifest" href=SITE/style><link rel=preconnect href=SITE>
<link rel=prefetch href=SITE/prefetch><link rel=preload as=image href=SITE/preload>
<link rel=modulepreload href=SITE/module><script src=SITE/script></script>
<script type=module>import "SITE/imported"</script>
<script type=speculationrules>{"prefetch": [{"urls": ["SITE/rules"]}]}</script>
<script>document.title = "ran"; fetch("SITE/fetched"); alert("ran")</script>
<style>@import "SITE/import"; @font-face { font-family: f; src: url(SITE/font) }
body { font-family: f; background: url(SITE/background) }</style>
<body onload="location = 'SITE/loaded'"><img src=SITE/image onerror="location = 'SITE/error'">
<img src=relative><img srcset="SITE/srcset 1x"><picture><source srcset=SITE/source><img></picture>
<video poster=SITE/poster src=SITE/video autoplay></video><audio src=SITE/audio autoplay></audio>
<IFRAME src=SITE/frame></IFRAME><iframe srcdoc="<img src=SITE/srcdoc>"></iframe>
<object data=SITE/object></object><embed src=SITE/embed><input type=image src=SITE/input>
<svg onload="location = 'SITE/svg'"><image href=SITE/drawn /><use href=SITE/used#a /></svg>
<details open ontoggle="location = 'SITE/toggled'">x</details>
<input autofocus onfocus="location = 'SITE/focused'">
<form action=SITE/sent method=post target=_blank><button>send</button></form>
<a href=SITE/opened target=_blank ping=SITE/ping>open</a>
<a href="javascript:location = 'SITE/javascript'">run</a>
<p onclick="location = 'SITE/clicked'">click</p></body>"""
CLICKED = ("text=send", "text=open", "text=run", "text=click")
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
        assert (status, text) == (200, EVIL.replace("<iframe", "<x-iframe"))
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


def has_acted(tab, url):
    """Open *url*, and press what may be pressed; whether a script ran, or said something."""
    tab.page.goto(url, wait_until="load")
    for what in CLICKED:
        with suppress(playwright.sync_api.Error):  # the page is another one by now
            tab.page.click(what, timeout=5000)
    return tab.page.title() != "Harmful words" or "ran" in tab.said


@pytest.mark.long
def test_a_harmful_copy_runs_and_asks_for_nothing_in_a_browser(tmp_path):
    site = HttpSite(lambda asked: (200, {}, harmful.encode() if asked.path == "/page" else b""))
    harmful = HARMFUL.replace("SITE", site.url)
    sites = VirtualSites(tmp_path, {"a.test:80/": harmful})
    sites.crawl("http://a.test/", ITEM_PIPELINES=json.dumps(MODULES), URL_SCOPE="seeds")
    settings = get_project_settings()
    settings.set("JOBDIR", str(sites.job))
    monitor = MonitorProcess(settings)
    with serving(site), chromium() as browser, ExitStack() as ending:
        ending.callback(monitor.end)
        (address,) = re.findall(r"http://[^/]+/", monitor.start())
        tab = Tab(browser)
        assert not has_acted(tab, f"{address}copy?url=http%3A%2F%2Fa.test%2F")
        assert (site.asked, site.connections) == ([], 0)
        assert len(tab.page.context.pages) == 1
        # The same page does all this where nothing holds it.
        assert has_acted(Tab(browser), f"{site.url}/page")
        assert len(site.asked) > 10
