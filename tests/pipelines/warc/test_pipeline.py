"""The processing module that stores every page: in an event loop, and in Scrapy."""

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
from contracts.modules import ModuleContract, Run
from disk import file_size_limit
from fastwarc.warc import ArchiveIterator, WarcRecordType
from text_tables import each, lines
from warc_checks import complaints, page, records, urls

from webcrawl.errors import DiskError, FatalError
from webcrawl.jobs.replay.warc_reader import stored_pages
from webcrawl.pipelines.warc.pipeline import WarcPipeline
from webcrawl.pipelines.warc.writer import WarcWriteError
from webcrawl.signals import CONTENT_SEEN, ROBOTS, unprocessed


class Warc(Run):
    """A crawl that stores its pages in *jobdir*."""

    def __init__(self, jobdir, **settings):
        super().__init__(WarcPipeline, jobdir, **settings)

    async def together(self, *pages):
        """Process *pages* concurrently; return their results or exceptions."""
        return await asyncio.gather(*map(self.process, pages), return_exceptions=True)

    async def unprocessed(self, number, why, **more):
        """Send a page that no module gets; return the answers."""
        named = {"page": page(number, **more), "why": why}
        sent = await self.crawler.signals.send_catch_log_async(signal=unprocessed, **named)
        return [answer for _, answer in sent]


def urls_in(jobdir):
    """Return the paths of the pages in the only stored file."""
    (path,) = stored(jobdir / "warc")
    return [url.removeprefix("http://a.test/") for url in urls(path)]


def stored(directory):
    return sorted(directory.glob("*.warc.gz"))


async def test_pages_given_at_once_are_all_stored_in_order(jobdir):
    settings = {
        "USER_AGENT": "tests/1.0",
        "ROBOTSTXT_OBEY": True,
        "WARC_OPERATOR": "A\nlibrary",
        "WARC_DESCRIPTION": "pages\r\nof tests",
        "CRAWLER_CONTACT": "bot@a.test",
        "DEFAULT_REQUEST_HEADERS": {"from": "bot@a.test"},
    }
    pages = [page(number) for number in range(50)]
    async with Warc(jobdir, **settings) as run:
        results = await run.together(*pages)
    assert all(result is one for result, one in zip(results, pages, strict=True))
    (path,) = stored(jobdir / "warc")
    assert complaints(path) == {}
    assert urls_in(jobdir) == [*map(str, range(50))]
    stats = run.crawler.stats.get_stats()
    assert {name: value for name, value in stats.items() if name.startswith("warc/")} == {
        "warc/records": 151,
        "warc/bytes": path.stat().st_size,
        "warc/files": 1,
        "warc/recovered": 0,
        "warc/revisits": 0,
    }
    info = records(path)[0].body.decode().splitlines()
    assert {*info} > {
        *lines("""
        robots: obey
        http-header-user-agent: tests/1.0
        format: WARC File Format 1.1
        operator: A library, bot@a.test
        http-header-from: bot@a.test
        isPartOf: job
        description: pages of tests
        """)
    }
    assert any(line.startswith("hostname: ") for line in info)


async def test_page_is_in_the_file_when_process_item_returns(jobdir):
    async with Warc(jobdir) as run:
        for number in range(5):
            await run.process(page(number))
            (path,) = (jobdir / "warc").glob("*.open")
            assert len(urls(path)) == number + 1


async def test_reactor_runs_while_pages_are_written(jobdir):
    """The worker is held at a page; the loop goes on, and pages that come meanwhile wait."""
    async with Warc(jobdir) as run:
        held, go_on = threading.Event(), threading.Event()
        writer = run.module._writer
        write = writer.add

        def hold(*one):
            held.set()
            go_on.wait()
            write(*one)

        writer.add = hold
        tasks = [asyncio.ensure_future(run.process(page(0)))]
        await asyncio.to_thread(held.wait)
        writer.add = write
        tasks += [asyncio.ensure_future(run.process(page(n))) for n in range(1, 10)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        tasks[3].cancel()
        go_on.set()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(one, asyncio.CancelledError) for one in done].count(True) == 1
    assert len(urls_in(jobdir)) == 9


async def test_page_that_comes_after_the_end_is_an_error(jobdir):
    async with Warc(jobdir) as run:
        pass
    for late in (lambda: run.process(page()), run.module.close_spider):
        with pytest.raises(RuntimeError, match="after shutdown"):
            await late()


async def test_pages_that_no_module_gets_are_stored_too(jobdir):
    async with Warc(jobdir) as run:
        for number, why in ((0, ROBOTS), (2, CONTENT_SEEN), (3, CONTENT_SEEN)):
            await run.process(page(1, body=b"once"))
            assert await run.unprocessed(number, why, body=b"once") == [None]
    (path,) = stored(jobdir / "warc")
    assert urls_in(jobdir) == ["1", "0", "1", "2", "1", "3"]
    kinds = [one.kind for one in records(path)[1::3]]
    assert kinds == [*["response"] * 3, "revisit", "response", "revisit"]
    assert run.crawler.stats.get_value("warc/revisits") == 2
    whole = jobdir.with_name("whole")
    async with Warc(whole, WARC_REVISIT_MAX_BYTES=0) as run:
        await run.process(page(1, body=b"once"))
        await run.unprocessed(2, CONTENT_SEEN, body=b"once")
    (path,) = stored(whole / "warc")
    assert {one.kind for one in records(path)[1::3]} == {"response"}


async def test_bad_page_fails_alone(jobdir):
    bad = [page(2, url="http://a.test/" + "x" * 50_000), page(3, status="x")]
    async with Warc(jobdir) as run:
        outcomes = await run.together(page(0), page(1), *bad, page(4))
    assert [isinstance(one, ValueError) for one in outcomes] == [False, False, True, True, False]
    assert urls_in(jobdir) == ["0", "1", "4"]


async def test_full_disk_is_the_error_of_the_item_and_the_file_stays_whole(jobdir, caplog):
    async with Warc(jobdir) as run:
        await run.process(page(0))
        (path,) = (jobdir / "warc").glob("*.open")
        with file_size_limit(path.stat().st_size + 100):
            outcomes = await run.together(page(1), page(2))
            outcomes += await run.unprocessed(4, ROBOTS)
        assert [type(one) for one in outcomes] == [WarcWriteError] * 3
        assert "Traceback" not in caplog.text
        await run.process(page(3))
    assert complaints(stored(jobdir / "warc")[0]) == {}
    assert urls_in(jobdir) == ["0", "3"]


async def test_checkpoint_waits_until_pages_are_on_the_platter(jobdir, monkeypatch):
    synced = []
    async with Warc(jobdir) as run:
        await run.process(page())
        monkeypatch.setattr(
            os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink())
        )
        assert await run.checkpoint() == [None]
        monkeypatch.undo()
    # The last checkpoint comes after the pipelines are closed.
    await run.checkpoint()
    (path,) = stored(jobdir / "warc")
    assert synced == [path.with_name(f"{path.name}.open"), path.parent]


async def test_file_that_cannot_be_ended_refuses_the_last_checkpoint(jobdir, monkeypatch):
    def refuse(fd):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with Warc(jobdir) as run:
        await run.process(page())
        monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.undo()
    (answer,) = await run.checkpoint()
    assert isinstance(answer, WarcWriteError)
    assert stored(jobdir / "warc") == []


@each(
    "number refusal", (errno.ENOSPC, DiskError), (errno.EIO, DiskError), (errno.EROFS, FatalError)
)
async def test_disk_that_fails_when_it_is_opened_is_no_unusable_input(
    jobdir, monkeypatch, number, refusal
):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    run = Warc(jobdir)
    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(FatalError, match=f"WARC_DIR {jobdir}/warc") as caught:
        await run.module.open_spider()
    assert type(caught.value) is refusal


async def test_file_that_a_killed_crawl_left_is_recovered_counted_and_logged(jobdir, caplog):
    caplog.set_level(logging.INFO, "webcrawl.pipelines.warc.pipeline")
    killed = Warc(jobdir)
    await killed.module.open_spider()
    await killed.together(page(0), page(1))
    os.close(killed.module._writer._fd)
    await killed.module._worker.call(killed.module._payloads.close)
    killed.module._worker.shutdown()
    assert stored(jobdir / "warc") == []
    async with Warc(jobdir) as run:
        await run.process(page(2))
    stats = run.crawler.stats.get_stats()
    assert (stats["warc/recovered"], stats["warc/files"]) == (1, 1)
    assert "pages recovered: 2," in caplog.text
    found = [url[-1] for path in stored(jobdir / "warc") for url in urls(path)]
    assert found == ["0", "1", "2"]


async def test_settings_say_where_and_how(tmp_path, jobdir):
    settings = {
        "WARC_PREFIX": "My-crawl",
        "WARC_DIR": str(tmp_path / "elsewhere"),
        "WARC_MAX_FILE_BYTES": "1",
    }
    async with Warc(jobdir, **settings) as run:
        await run.process(page(0))
        await run.process(page(1))
    assert [path.name[:9] for path in stored(tmp_path / "elsewhere")] == ["My-crawl-"] * 2
    assert [path.name for path in (jobdir / "warc").iterdir()] == ["payloads.sqlite"]


@each("prefix", "a/b", "")
def test_prefix_that_cannot_be_is_one_sentence(jobdir, prefix):
    with pytest.raises(FatalError) as caught:
        Warc(jobdir, WARC_PREFIX=prefix)
    assert str(caught.value) == (
        f"WARC_PREFIX must be letters, digits, dots, dashes or underscores, not {prefix!r}."
    )


def test_no_directory_at_all_is_one_sentence():
    with pytest.raises(FatalError, match=r"^Neither WARC_DIR nor JOBDIR is set: .*\.$"):
        Warc("")


@each("trouble", "a file", "no permission", "no room for it")
async def test_directory_that_cannot_be_used_is_one_sentence(jobdir, monkeypatch, trouble):
    if trouble == "a file":
        (jobdir / "warc").write_bytes(b"")
    elif trouble == "no permission":
        monkeypatch.setattr(os, "access", lambda _path, _mode: False)  # as root may everything
    else:
        jobdir.rmdir()
        jobdir.write_bytes(b"")

    with pytest.raises(FatalError, match=r"^WARC_DIR .*/warc cannot be used: .*; choose another"):
        await Warc(jobdir).module.open_spider()


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


async def test_main_text_is_stored_in_the_records_of_wet_files(jobdir):
    text = "All human beings are born free and equal in dignity and rights. " * 3
    pages = [
        page(1, body=f"<nav>Menu</nav><p>{text}".encode(), content_type="text/html"),
        page(2, body=b"<p>not a document", content_type="text/html", flags="soft_error"),
    ]
    async with Warc(jobdir, WARC_TEXT=True) as crawl:
        assert await crawl.together(*pages) == pages
    (path,) = stored(jobdir / "warc")
    assert complaints(path) == {}
    response, *_ = [one for one in records(path) if one.kind == "response"]
    (converted,) = [one for one in records(path) if one.kind == "conversion"]
    assert converted.body.decode().strip() == text.strip()
    assert converted.headers["Content-Type"] == "text/plain"
    assert converted.headers["WARC-Identified-Content-Language"] == "en"
    assert converted.headers["WARC-Identified-Payload-Type"] == "text/plain"
    assert converted.headers["WARC-Refers-To"] == response.headers["WARC-Record-ID"]
    assert converted.headers["WARC-Target-URI"] == pages[0].url
    with path.open("rb") as file:
        found = ArchiveIterator(file, record_types=WarcRecordType.conversion)
        assert [one.reader.read() for one in found] == [converted.body]
    replayed = [stored.page for stored in stored_pages(path, start=0, max_bytes=10_000)]
    assert [one.rendered for one in replayed] == ["", ""]
