"""The seams in Scrapy's private parts: these fail loudly on another Scrapy."""

import asyncio
import inspect
from functools import partial
from types import NoneType, SimpleNamespace

import pytest
import scrapy
import xxhash
from scrapy import Request
from scrapy.core import engine as scrapy_engine
from scrapy.core import scraper as scrapy_scraper
from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.retry import RetryMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.pipelines import ItemPipelineManager
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import StatsCollector
from scrapy.utils.decorators import _warn_spider_arg
from scrapy.utils.reactor import CallLaterOnce
from scrapy.utils.test import get_crawler
from text_tables import cases, each

from webcrawl.crawl.engine._engine import (
    SCRAPY,
    PlainRedirectMiddleware,
    can_take_fast_path,
    check_engine,
)
from webcrawl.crawl.engine._fast_path import DirectSignals, _Middlewares
from webcrawl.errors import FatalError


def test_this_is_the_scrapy_the_seams_were_made_for():
    assert scrapy.__version__.startswith(f"{SCRAPY}.")


@pytest.fixture
def opening_engine():
    """The engine of a crawl whose spider is being opened."""

    async def make_slot():
        return scrapy_engine._Slot(True, CallLaterOnce(int), None)

    engine = SimpleNamespace(close_async=1, needs_backout=1, scheduler=1)
    engine._slot = asyncio.run(make_slot())
    engine.scraper = scrapy_scraper.Scraper(get_crawler())
    return engine


def test_another_scrapy_goes_its_own_ways_with_a_warning(opening_engine, monkeypatch, caplog):
    check_engine(opening_engine)
    assert can_take_fast_path(Settings())
    assert not can_take_fast_path(Settings({"FAST_PATH_ENABLED": False}))
    assert caplog.text == ""
    monkeypatch.setattr(scrapy, "__version__", "2.20.0")
    check_engine(opening_engine)
    assert not can_take_fast_path(Settings())
    assert "Scrapy is 2.20.0, not 2.19" in caplog.text


@pytest.mark.cures(
    "Scrapy {} cannot be used ({}): install scrapy=={}.*, as requirements.txt says.",
)
def test_a_scrapy_that_lacks_what_is_used_is_refused(opening_engine, monkeypatch):
    monkeypatch.setattr(scrapy, "__version__", "2.20.0")
    monkeypatch.delattr(opening_engine, "_slot")
    with pytest.raises(FatalError, match=r"Scrapy 2\.20\.0 cannot be used .*_slot.*2\.19"):
        check_engine(opening_engine)
    monkeypatch.undo()
    check_engine(opening_engine)


@cases(
    "location target",
    """
        http://b.test:8080/x | http://b.test:8080/x
        http://b.test:25/x   | None
        LONG                 | None
        ftp://b.test/x       | None
        file:///etc/passwd   | None
    """,
    {"LONG": "http://b.test/" + 2048 * "x"},
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


def test_the_code_of_scrapy_that_the_seams_replace_is_unchanged():
    """Read ``_engine`` and ``_fast_path`` again when these have changed."""
    engine, scraper = scrapy_engine.ExecutionEngine, scrapy_scraper.Scraper
    taken_over = [
        scrapy_engine._Slot,
        CallLaterOnce,
        engine.needs_backout,
        engine.open_spider_async,
        engine.download_async,
        engine._start_scheduled_request,
        engine._handle_downloader_output,
        engine._download,
        scraper.enqueue_scrape,
        scraper._scrape,
        scraper.call_spider_async,
        scraper.start_itemproc_async,
        scrapy_scraper.Slot,
        SpiderMiddlewareManager.scrape_response_async,
        SignalManager.send_catch_log,
        SignalManager.send_catch_log_async,
        DownloaderMiddlewareManager,
        DownloadHandlers.download_request_async,
        ItemPipelineManager.process_item_async,
        ItemPipelineManager._process_chain,
        DefaultHeadersMiddleware,
        UserAgentMiddleware,
        _warn_spider_arg,
    ]
    sources = "".join(inspect.getsource(part) for part in taken_over)
    assert xxhash.xxh3_64_hexdigest(sources.encode()) == "7c3118de9f7bc30b"
    assert "self._start_scheduled_request()" in inspect.getsource(engine._start_scheduled_requests)
    assert "__getattribute__" in vars(StatsCollector)


async def later(answer):
    await asyncio.sleep(0)
    return answer


class Answers:
    """A middleware whose methods return, or raise, what they are given; absent: it has none."""

    def __init__(self, answers):
        for name, answer in answers.items():
            setattr(self, f"process_{name}", partial(self.answer, answer))
            getattr(self, f"process_{name}").__qualname__ = name

    @staticmethod
    def answer(answer, request, **_):
        if isinstance(answer, Exception):
            raise answer
        return later(answer[0]) if isinstance(answer, list) else answer


_THERE, _NEW = Response("http://a.test/there"), Request("http://a.test/new")


@each(
    "answers",
    {"request": None, "response": _THERE},
    {"request": [None], "response": [_THERE]},
    {"request": _THERE, "response": _NEW},
    {"request": [_NEW], "response": ValueError()},
    {"request": ValueError(), "exception": _THERE},
    {"request": IgnoreRequest(), "exception": [_NEW]},
    {"request": KeyError(), "exception": None},
    {"response": KeyError(), "exception": _THERE},
    {"request": 7},
    {"request": [7], "exception": None},
    {"response": None},
    {"response": [7]},
)
def test_middlewares_are_called_as_by_scrapy_s_manager(answers):
    def outcome(way):
        crawler = get_crawler(settings_dict={"USER_AGENT": "me"})
        crawler.spider = SimpleNamespace(name="x", user_agent="others")
        defaults = {"Accept": "text/*", "user-agent": "default"}
        manager = DownloaderMiddlewareManager(
            DefaultHeadersMiddleware(defaults.items()),
            UserAgentMiddleware("me"),
            Answers(answers),
            RetryMiddleware.from_crawler(crawler),
            crawler=crawler,
        )
        request = Request("http://a.test/", headers={"accept": "*/*"})
        found = Response("http://a.test/", status=200)
        try:
            result = asyncio.run(way(manager)(lambda _: later(found), request))
        except Exception as error:  # noqa: BLE001  # Scrapy's is compared with ours
            result = type(error)
        return str(result), request.headers

    by_scrapy = outcome(lambda manager: manager.download_async)
    assert outcome(lambda manager: _Middlewares(manager).download) == by_scrapy
    assert by_scrapy[1] == {b"Accept": [b"*/*"], b"User-Agent": [b"default"]}


@each("manager", SignalManager, DirectSignals)
def test_receivers_get_the_arguments_they_accept_and_errors_are_logged(manager, caplog):
    heard = []
    sender, signal = object(), object()

    def some(item):
        heard.append(item)

    def everything(**facts):
        heard.append(facts["item"] + facts["response"])

    async def slow(response, sender):
        heard.append((await later(response), sender))

    def broken(item):
        raise ValueError(item)

    async def broken_later(item):
        raise KeyError(await later(item))

    signals = manager(sender)
    for receiver in (some, everything, broken):
        signals.connect(receiver, signal)
    answers = signals.send_catch_log(signal, item=1, response=2)
    assert (heard, [receiver for receiver, _ in answers]) == ([1, 3], [some, everything, broken])
    assert "Error caught on signal handler" in caplog.text
    for receiver in (slow, broken_later):
        signals.connect(receiver, signal)
    heard.clear()
    caplog.clear()
    answers = asyncio.run(signals.send_catch_log_async(signal, item=1, response=2))
    assert sorted(heard, key=str) == [(2, sender), 1, 3]
    kinds = [type(answer) for _, answer in answers]
    assert kinds == [NoneType, NoneType, ValueError, NoneType, KeyError]
    assert caplog.text.count("Error caught on signal handler") == 2


@each("manager", SignalManager, DirectSignals)
def test_a_receiver_ends_with_its_last_user(manager):
    heard = []
    signal = object()
    signals = manager(object())

    def receiver(item):
        heard.append(item)

    signals.connect(receiver, signal)
    signals.send_catch_log(signal, item=1)
    del receiver
    signals.send_catch_log(signal, item=2)
    assert heard == [1]
