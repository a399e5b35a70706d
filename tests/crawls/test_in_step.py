"""Pages that came together go through the crawl in step: all are taken over, all are read, and the
links of all are submitted. For the workers that they leave free the scheduler is asked once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from scrapy import Request, signals
from scrapy.core.scraper import Scraper, Slot
from scrapy.http import HtmlResponse
from scrapy.utils.reactor import CallLaterOnce
from scrapy.utils.test import get_crawler

from webcrawl.crawl.engine import _fast_path, micro_batch
from webcrawl.crawl.engine._fast_path import take_fast_path
from webcrawl.crawl.intake import Intake
from webcrawl.crawl.lease.downloader import MercatorDownloader
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.links.link_extractor import PageLinks
from webcrawl.crawl.links.reading import ReadingWatch
from webcrawl.frontier import Entry, Lease
from webcrawl.spiders.web import WebSpider

URLS = [f"http://{name}.test/" for name in "abc"]


class Parts:
    """The scheduler, the links and the downloader of a crawl; each notes what it does with which
    page. All downloads end at the same moment."""

    def __init__(self, crawler, jobdir):
        self.process = self.completion = self.resources = self.rules = self  # as much as is needed
        self.job = self.key_of = self.items = self.stop = None
        self.events = []
        self.links = PageLinks.from_settings(crawler.settings)
        self.schemes = self.links.schemes
        self.crawler, self.reading = crawler, ReadingWatch(jobdir=jobdir, max_secs=5)
        self.shards = SimpleNamespace(remote=None)
        self.intake = Intake(
            state=self,
            services=self,
            leases=self,
            lifecycle=None,
            pages=self,
            page_links=self,
            follows=True,
            may_end=lambda: True,
        )
        self.waiting = list(URLS)
        self.ended = self.through = None

    def next_request(self):
        url = self.waiting.pop(0)
        shard = SimpleNamespace(content=None)
        lease = Lease(Entry(url, url[7:-1]), len(self.waiting), 0.0, shard)
        fetch = Fetch(lease=lease, release=lambda _: None)
        return Request(url, meta={"fetch": fetch})

    async def download(self, request):
        await self.ended.wait()
        return HtmlResponse(
            request.url,
            body=f"<a href=/of-{request.url[7]}>x</a>".encode(),
            headers={"Content-Type": "text/html"},
            request=request,
        )

    def come(self, response):
        self.events.append(("come", response.url))

    def read(self, page, find, *, content, result, history):
        result.claim = 1
        return page.links, find(page)

    def find(self, page):
        self.events.append(("read", page.url))
        return self.links.find(page)

    def submit(self, page, links, *, result, chain, depths):
        assert [link.url for link in page.links] == [f"{page.url}of-{page.url[7]}"]
        self.events.append(("submitted", page.url))
        return True

    def scraped(self, item):
        self.events.append(("processed", item.url))


def test_pages_that_came_together_are_taken_over_then_read_then_submitted(tmp_path, monkeypatch):
    for module in (_fast_path, micro_batch):
        monkeypatch.setattr(module, "TOGETHER_SECS", 0.1)  # so that a slow machine is in time
    asked = []
    settings = {"LINK_KINDS": "a", "CONCURRENT_ITEMS": 1, "SPIDER_MIDDLEWARES_BASE": {}}
    crawler = get_crawler(settings_dict=settings)
    parts = Parts(crawler, tmp_path)
    crawler.spider = WebSpider(seeds=None)
    crawler.spider._set_crawler(crawler)
    crawler.engine = SimpleNamespace(scheduler=parts)
    crawler.signals.connect(parts.come, signals.response_received)
    crawler.signals.connect(parts.scraped, signals.item_scraped)
    under_way = set()

    def end(request):
        under_way.remove(request)
        if not under_way:
            parts.through.set()

    downloader = MercatorDownloader(crawler)
    downloader.download = parts.download
    engine = SimpleNamespace(
        crawler=crawler,
        settings=crawler.settings,
        downloader=downloader,
        scraper=Scraper(crawler),
        signals=crawler.signals,
        logformatter=crawler.logformatter,
        _slot=SimpleNamespace(
            scheduler=parts,
            add_request=under_way.add,
            remove_request=end,
            nextcall=CallLaterOnce(lambda: asked.append(len(under_way))),
        ),
    )
    engine.scraper.slot = Slot()

    async def run():
        take_fast_path(engine)
        parts.ended, parts.through = asyncio.Event(), asyncio.Event()
        for _ in URLS:
            assert engine._start_scheduled_request()
        await asyncio.sleep(0)
        parts.ended.set()
        await asyncio.wait_for(parts.through.wait(), 10)
        await asyncio.sleep(0.2)

    asyncio.run(run())
    in_step = [(what, url) for what in ("come", "read") for url in URLS]
    assert parts.events[: len(in_step)] == in_step
    rest = parts.events[len(in_step) :]
    for what in ("submitted", "processed"):
        assert [url for done, url in rest if done == what] == URLS
    assert len(rest) == 2 * len(URLS)
    assert asked == [len(URLS), 0]  # when the workers are free, and when the pages are through
