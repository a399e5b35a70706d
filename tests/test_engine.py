"""The seams in Scrapy's private parts: these fail loudly on another Scrapy."""

from __future__ import annotations

import inspect

import pytest
import scrapy
from scrapy import Request
from scrapy.core import engine as scrapy_engine
from scrapy.core.downloader import Downloader
from scrapy.http import Response
from scrapy.statscollectors import StatsCollector
from scrapy.utils.reactor import CallLaterOnce
from scrapy.utils.test import get_crawler

from webcrawl._engine import MercatorDownloader, PlainRedirectMiddleware


def test_this_is_the_scrapy_the_seams_were_made_for():
    assert scrapy.__version__.startswith("2.19.")


def test_the_engine_s_slot_has_the_parts_that_are_used():
    slot = scrapy_engine._Slot
    assert list(inspect.signature(slot.remove_request).parameters) == ["self", "request"]
    assert "nextcall" in inspect.signature(slot.__init__).parameters
    assert callable(CallLaterOnce.schedule)
    source = inspect.getsource(scrapy_engine.ExecutionEngine)
    assert source.count("slot.remove_request(request)") == 2  # scheduled ones, and download_async
    assert "scheduler.open(self.crawler.spider)" in source
    assert source.index("self._slot = _Slot(") < source.index("scheduler.open(self.crawler.spider)")


def test_a_request_is_forgotten_only_after_its_callback_and_pipelines():
    start = inspect.getsource(scrapy_engine.ExecutionEngine._start_scheduled_request)
    assert start.index("_handle_downloader_output") < start.index("_remove_request")
    handle = inspect.getsource(scrapy_engine.ExecutionEngine._handle_downloader_output)
    assert "yield self.scraper.enqueue_scrape(result, request)" in handle


def test_the_engine_asks_for_requests_under_the_conditions_that_are_known():
    source = inspect.getsource(scrapy_engine.ExecutionEngine.needs_backout)
    assert " ".join(source.partition("return")[2].split()) == (
        "( not self.running or not self._slot or bool(self._slot.closing) "
        "or self.downloader.needs_backout() or self.scraper.slot.needs_backout() )"
    )


def test_the_downloader_has_what_the_engine_uses_of_scrapy_s_own():
    source = inspect.getsource(scrapy_engine)
    used = {"fetch", "needs_backout", "active", "close"}
    for name in used:
        assert f"downloader.{name}" in source
        assert hasattr(Downloader, name) or name == "active"
    assert {"fetch", "needs_backout", "close"} <= set(vars(MercatorDownloader))
    assert list(inspect.signature(MercatorDownloader.fetch).parameters) == ["self", "request"]


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("http://b.test:8080/x", "http://b.test:8080/x"),
        ("http://b.test:25/x", None),
        ("http://b.test/" + 2048 * "x", None),
        ("ftp://b.test/x", None),
        ("file:///etc/passwd", None),
    ],
)
def test_a_redirect_of_an_ordinary_request_leads_nowhere_that_a_link_may_not(location, target):
    crawler = get_crawler(settings_dict={"URL_MAX_LENGTH_BYTES": 2048})
    crawler.stats = StatsCollector(crawler)
    middleware = PlainRedirectMiddleware.from_crawler(crawler)
    request = Request("http://a.test/")
    response = Response(request.url, status=302, headers={"Location": location})
    answer = middleware.process_response(request, response)
    if target is None:
        assert answer is response
        by_us = "b.test" in location and not location.startswith("ftp:")
        assert crawler.stats.get_value("redirects/refused", 0) == by_us
    else:
        assert answer.url == target
