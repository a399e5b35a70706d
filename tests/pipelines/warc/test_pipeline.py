"""The processing module that stores every page: in an event loop, and in Scrapy."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import sys
import threading
from pathlib import Path

import pytest
import warm
from contracts.modules import ModuleContract
from disk import file_size_limit
from scrapy.utils.test import get_crawler
from text_tables import table
from warc_checks import complaints, page, records, urls

from webcrawl.errors import DiskError, FatalError
from webcrawl.pipelines.warc.pipeline import WarcPipeline
from webcrawl.pipelines.warc.writer import WarcWriteError
from webcrawl.signals import CONTENT_SEEN, ROBOTS, checkpoint, unprocessed


def crawler_with(**settings):
    crawler = get_crawler(settings_dict=settings)
    crawler._apply_settings()
    return crawler


def run(scenario, **settings):
    """Open a pipeline with *settings*, give it and its crawler to *scenario*, and close it."""

    async def crawl():
        crawler = crawler_with(**settings)
        pipeline = WarcPipeline.from_crawler(crawler)
        await pipeline.open_spider()
        result = await scenario(pipeline, crawler)
        await pipeline.close_spider()
        return result

    return asyncio.run(crawl())


def stored(directory):
    return sorted(directory.glob("*.warc.gz"))


def test_pages_given_at_once_are_all_stored_in_order(jobdir):
    async def store(pipeline, crawler):
        pages = [page(number) for number in range(50)]
        results = await asyncio.gather(*map(pipeline.process_item, pages))
        assert all(result is one for result, one in zip(results, pages, strict=True))
        return crawler.stats

    settings = {
        "USER_AGENT": "tests/1.0",
        "ROBOTSTXT_OBEY": True,
        "WARC_OPERATOR": "A library",
        "WARC_DESCRIPTION": "pages\r\nof tests",
        "CRAWLER_CONTACT": "bot@a.test",
        "DEFAULT_REQUEST_HEADERS": {"from": "bot@a.test"},
    }
    stats = run(store, JOBDIR=str(jobdir), **settings).get_stats()
    (path,) = stored(jobdir / "warc")
    assert complaints(path) == {}
    assert urls(path) == [f"http://a.test/{number}" for number in range(50)]
    assert {name: value for name, value in stats.items() if name.startswith("warc/")} == {
        "warc/records": 151,
        "warc/bytes": path.stat().st_size,
        "warc/files": 1,
        "warc/recovered": 0,
        "warc/revisits": 0,
    }
    info = records(path)[0].body.decode().splitlines()
    assert "robots: obey" in info
    assert "http-header-user-agent: tests/1.0" in info
    assert "format: WARC File Format 1.1" in info
    assert "operator: A library, bot@a.test" in info
    assert "http-header-from: bot@a.test" in info
    assert "isPartOf: job" in info
    assert "description: pages of tests" in info
    assert any(line.startswith("hostname: ") for line in info)


def test_page_is_in_the_file_when_process_item_returns(jobdir):
    async def store(pipeline, _crawler):
        for number in range(5):
            await pipeline.process_item(page(number))
            (path,) = (jobdir / "warc").glob("*.open")
            assert len(urls(path)) == number + 1

    run(store, JOBDIR=str(jobdir))


def test_other_items_pass_untouched(jobdir):
    async def store(pipeline, _crawler):
        item = {"url": "http://a.test/"}
        assert await pipeline.process_item(item) is item

    run(store, JOBDIR=str(jobdir))
    assert list((jobdir / "warc").glob("*.warc*")) == []


def test_reactor_runs_while_pages_are_written(jobdir):
    """The worker is held at a page; the loop goes on, and pages that come meanwhile wait."""

    async def store(pipeline, _crawler):
        held, go_on = threading.Event(), threading.Event()
        write = pipeline._writer.add

        def hold(*one):
            held.set()
            go_on.wait()
            write(*one)

        pipeline._writer.add = hold
        tasks = [asyncio.ensure_future(pipeline.process_item(page(0)))]
        await asyncio.to_thread(held.wait)
        pipeline._writer.add = write
        tasks += [asyncio.ensure_future(pipeline.process_item(page(n))) for n in range(1, 10)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        tasks[3].cancel()
        go_on.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(one, asyncio.CancelledError) for one in done].count(True) == 1

    run(store, JOBDIR=str(jobdir))
    assert len(urls(stored(jobdir / "warc")[0])) == 9


def test_page_that_comes_after_the_end_is_an_error(jobdir):
    async def store(pipeline, _crawler):
        await pipeline.close_spider()
        with pytest.raises(RuntimeError, match="after shutdown"):
            await pipeline.process_item(page())

    with pytest.raises(RuntimeError, match="after shutdown"):  # at the second end
        run(store, JOBDIR=str(jobdir))


def test_pages_that_no_module_gets_are_stored_too(jobdir):
    async def store(pipeline, crawler):
        for number, why in ((0, ROBOTS), (2, CONTENT_SEEN), (3, CONTENT_SEEN)):
            await pipeline.process_item(page(1, body=b"once"))
            named = {"page": page(number, body=b"once"), "why": why}
            answers = await crawler.signals.send_catch_log_async(signal=unprocessed, **named)
            assert [answer for _, answer in answers] == [None]
        return crawler.stats

    stats = run(store, JOBDIR=str(jobdir))
    (path,) = stored(jobdir / "warc")
    assert urls(path) == [f"http://a.test/{n}" for n in (1, 0, 1, 2, 1, 3)]
    kinds = [one.kind for one in records(path)[1::3]]
    assert kinds == [*["response"] * 3, "revisit", "response", "revisit"]
    assert stats.get_value("warc/revisits") == 2
    whole = jobdir.with_name("whole")
    run(store, JOBDIR=str(whole), WARC_REVISIT_MAX_BYTES=0)
    (path,) = stored(whole / "warc")
    assert {one.kind for one in records(path)[1::3]} == {"response"}


def test_bad_page_fails_alone(jobdir):
    async def store(pipeline, _crawler):
        bad = [page(2, url="http://a.test/" + "x" * 50_000), page(3, status="x")]
        pages = [page(0), page(1), *bad, page(4)]
        outcomes = await asyncio.gather(*map(pipeline.process_item, pages), return_exceptions=True)
        assert [number for number, one in enumerate(outcomes) if isinstance(one, ValueError)] == [
            *(2, 3)
        ]

    run(store, JOBDIR=str(jobdir))
    assert urls(stored(jobdir / "warc")[0]) == [f"http://a.test/{n}" for n in (0, 1, 4)]


def test_full_disk_is_the_error_of_the_item_and_the_file_stays_whole(jobdir, caplog):
    async def store(pipeline, crawler):
        await pipeline.process_item(page(0))
        (path,) = (jobdir / "warc").glob("*.open")
        with file_size_limit(path.stat().st_size + 100):
            outcomes = await asyncio.gather(
                *map(pipeline.process_item, (page(1), page(2))), return_exceptions=True
            )
            named = {"page": page(4), "why": ROBOTS}
            answers = await crawler.signals.send_catch_log_async(signal=unprocessed, **named)
        assert [type(one) for one in outcomes] == [WarcWriteError] * 2
        assert [type(one) for _, one in answers] == [WarcWriteError]
        assert "Traceback" not in caplog.text
        await pipeline.process_item(page(3))

    run(store, JOBDIR=str(jobdir))
    (path,) = stored(jobdir / "warc")
    assert complaints(path) == {}
    assert urls(path) == ["http://a.test/0", "http://a.test/3"]


def test_checkpoint_waits_until_pages_are_on_the_platter(jobdir, monkeypatch):
    synced = []

    async def crawl():
        crawler = crawler_with(JOBDIR=str(jobdir))
        pipeline = WarcPipeline.from_crawler(crawler)
        await pipeline.open_spider()
        await pipeline.process_item(page())
        monkeypatch.setattr(
            os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink())
        )
        answers = await crawler.signals.send_catch_log_async(signal=checkpoint)
        monkeypatch.undo()
        assert [answer for _, answer in answers] == [None]
        await pipeline.close_spider()
        # The last checkpoint comes after the pipelines are closed.
        await crawler.signals.send_catch_log_async(signal=checkpoint)

    asyncio.run(crawl())
    assert synced == [
        (path := stored(jobdir / "warc")[0]).with_name(path.name + ".open"),
        path.parent,
    ]


def test_file_that_cannot_be_ended_refuses_the_last_checkpoint(jobdir, monkeypatch):
    def refuse(fd):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def crawl():
        crawler = crawler_with(JOBDIR=str(jobdir))
        pipeline = WarcPipeline.from_crawler(crawler)
        await pipeline.open_spider()
        await pipeline.process_item(page())
        monkeypatch.setattr(os, "fsync", refuse)
        await pipeline.close_spider()
        monkeypatch.undo()
        return await crawler.signals.send_catch_log_async(signal=checkpoint)

    ((_, answer),) = asyncio.run(crawl())
    assert isinstance(answer, WarcWriteError)
    assert stored(jobdir / "warc") == []


@pytest.mark.parametrize(
    ("number", "refusal"),
    [(errno.ENOSPC, DiskError), (errno.EIO, DiskError), (errno.EROFS, FatalError)],
)
def test_disk_that_fails_when_it_is_opened_is_no_unusable_input(
    jobdir, monkeypatch, number, refusal
):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    async def crawl():
        pipeline = WarcPipeline.from_crawler(crawler_with(JOBDIR=str(jobdir)))
        monkeypatch.setattr(os, "mkdir", refuse)
        await pipeline.open_spider()

    with pytest.raises(FatalError, match=f"WARC_DIR {jobdir}/warc") as caught:
        asyncio.run(crawl())
    assert type(caught.value) is refusal


def test_file_that_a_killed_crawl_left_is_recovered_counted_and_logged(jobdir, caplog):
    async def crawl(*pages, killed):
        crawler = crawler_with(JOBDIR=str(jobdir))
        pipeline = WarcPipeline.from_crawler(crawler)
        with caplog.at_level(logging.INFO, "webcrawl.pipelines.warc.pipeline"):
            await pipeline.open_spider()
        for one in pages:
            await pipeline.process_item(one)
        if killed:
            os.close(pipeline._writer._fd)
            await pipeline._worker.call(pipeline._payloads.close)
            pipeline._worker.shutdown()
        else:
            await pipeline.close_spider()
        return crawler.stats.get_stats()

    asyncio.run(crawl(page(0), page(1), killed=True))
    assert stored(jobdir / "warc") == []
    stats = asyncio.run(crawl(page(2), killed=False))
    assert stats["warc/recovered"] == 1
    assert stats["warc/files"] == 1
    assert "pages recovered: 2," in caplog.text
    assert [url for path in stored(jobdir / "warc") for url in urls(path)] == [
        "http://a.test/0", "http://a.test/1", "http://a.test/2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "limit", [{"WARC_MAX_FILE_BYTES": "1"}, {"WARC_MAX_FILE_SECS": "0.000001"}]
)
def test_settings_say_where_and_how(tmp_path, jobdir, limit):
    async def store(pipeline, _crawler):
        await pipeline.process_item(page(0))
        await pipeline.process_item(page(1))

    settings = {"WARC_PREFIX": "My-crawl", **limit}
    run(store, JOBDIR=str(jobdir), WARC_DIR=str(tmp_path / "elsewhere"), **settings)
    assert [path.name[:9] for path in stored(tmp_path / "elsewhere")] == ["My-crawl-"] * 2
    assert [path.name for path in (jobdir / "warc").iterdir()] == ["payloads.sqlite"]


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    table("""
        WARC_MAX_FILE_BYTES | 0   | a whole number of at least 1, not '0'.
        WARC_MAX_FILE_BYTES | 1.5 | a whole number of at least 1, not '1.5'.
        WARC_MAX_FILE_SECS  | -1  | a number of at least 0, not '-1'.
        WARC_PREFIX         | a/b | of letters, digits, dots, dashes and underscores, not 'a/b'.
        WARC_PREFIX         |     | of letters, digits, dots, dashes and underscores, not ''.
    """),
)
def test_setting_that_cannot_be_is_one_sentence(jobdir, setting, value, sentence):
    with pytest.raises(FatalError) as caught:
        WarcPipeline.from_crawler(crawler_with(**{"JOBDIR": str(jobdir), setting: value}))
    assert str(caught.value) == f"{setting} must be {sentence}"


def test_no_directory_at_all_is_one_sentence():
    with pytest.raises(FatalError, match=r"^WARC_DIR is not set, nor JOBDIR, .*\.$"):
        WarcPipeline.from_crawler(crawler_with())


@pytest.mark.parametrize("trouble", ["a file", "no permission", "no room for it"])
def test_directory_that_cannot_be_used_is_one_sentence(jobdir, monkeypatch, trouble):
    if trouble == "a file":
        (jobdir / "warc").write_bytes(b"")
    elif trouble == "no permission":
        monkeypatch.setattr(os, "access", lambda _path, _mode: False)  # as root may everything
    else:
        jobdir.rmdir()
        jobdir.write_bytes(b"")

    async def crawl():
        await WarcPipeline.from_crawler(crawler_with(JOBDIR=str(jobdir))).open_spider()

    with pytest.raises(FatalError, match=r"^WARC_DIR .*/warc cannot be used: .*; choose another"):
        asyncio.run(crawl())


SPIDER = """
import asyncio, json, sys
from scrapy import Spider
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import AsyncCrawlerProcess
from warc_checks import page

ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 0.1  # it waits for this when all is done

class Pages(Spider):
    name = "pages"

    async def start(self):
        for number in range(30):
            yield page(number)
        yield {"url": "not a page"}

process = AsyncCrawlerProcess({
    "JOBDIR": sys.argv[1],
    "ITEM_PIPELINES": {"webcrawl.pipelines.warc.WarcPipeline": 100},
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
})
crawler = process.create_crawler(Pages)
process.crawl(crawler)
process.start()
print(json.dumps(crawler.stats.get_stats(), default=str))
"""


def test_stock_scrapy_runs_it_as_an_item_pipeline(jobdir):
    run = warm.run(
        [sys.executable, "-c", SPIDER, jobdir],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert run.stderr == ""
    stats = json.loads(run.stdout)
    assert stats["finish_reason"] == "finished"
    assert stats["item_scraped_count"] == 31
    assert stats["warc/records"] == 91
    (path,) = stored(jobdir / "warc")
    assert sorted(urls(path)) == sorted(f"http://a.test/{number}" for number in range(30))


class TestWarcPipeline(ModuleContract):
    module = WarcPipeline
