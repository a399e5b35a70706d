"""The base class of processing modules."""

import asyncio
import itertools
import json
import textwrap
import threading
from pathlib import Path

import pytest
from contracts.modules import Run, a_page, run_module
from patience import LIMIT_SECS
from text_tables import each

from webcrawl.configuration.old_names import unknown
from webcrawl.errors import DiskError, FatalError, disk_message, is_storage_lost
from webcrawl.pipelines.module import ProcessingModule
from webcrawl.urls import Link


class Kept(ProcessingModule):
    """Keeps the URLs of what it gets, and the threads that it ran in."""

    def __init__(self):
        self.urls = []
        self.calls = []

    def _note(self, call):
        self.calls.append((call, threading.current_thread() is threading.main_thread()))

    def open(self):
        self._note("open")

    def process(self, page):
        self._note("process")
        self.urls.append(page.url)

    def sync(self):
        self._note("sync")

    def close(self):
        self._note("close")


class OffLoop(Kept):
    off_loop = True


class Texts(Kept):
    content_types = ("text/*", "image/png")


class InTheLoop(Kept):
    async def open(self):
        await asyncio.sleep(0)
        self._note("open")

    async def process(self, page):
        await asyncio.sleep(0)
        self._note("process")
        return {"title": page.url}


@each("kind", Kept, OffLoop)
def test_a_module_is_called_in_the_loop_or_in_a_thread_of_its_own(kind, jobdir):
    pages = [a_page(url=f"http://a.test/{number}") for number in range(20)]
    run = run_module(kind, pages, jobdir)
    assert run.module.urls == [page.url for page in pages]
    assert calls_of(run) == ["open", *["process"] * 20, "sync", "close"]
    assert {is_main for _, is_main in run.module.calls} == {kind is Kept}
    assert run.stats["pages"] == 20
    assert run.stats["cpu_seconds"] > 0


def calls_of(run):
    return [name for name, _ in run.module.calls]


def with_depths(*depths):
    return [a_page(depth=depth) for depth in depths]


async def outcomes(run, pages):
    """Process *pages* concurrently; return their results or exceptions."""
    return await asyncio.gather(*map(run.process, pages), return_exceptions=True)


async def test_methods_may_be_coroutines_and_process_may_make_an_item(jobdir):
    async with Run(InTheLoop, jobdir) as run:
        assert await run.process(a_page()) == {"title": "http://a.test/"}
    assert calls_of(run) == ["open", "process", "close"]


def test_pages_come_by_content_type_and_status_and_settings_go_first(jobdir):
    types = ["text/html", "text/css", "image/png", "image/gif", ""]
    pages = [a_page(url=f"http://a.test/{one}", content_type=one) for one in types]
    pages.append(a_page(url="http://a.test/gone", status=404))
    wanted = [url.url for url in pages[:3]]
    assert run_module(Texts, pages, jobdir).module.urls == wanted
    path = f"{Texts.__module__}.{Texts.__qualname__}"
    given = {"MODULE_CONTENT_TYPES": {path: ["image/*"]}}
    assert run_module(Texts, pages, jobdir, **given).module.urls == [pages[2].url, pages[3].url]
    with pytest.raises(FatalError, match="must be media types like"):
        Run(Texts, jobdir, MODULE_CONTENT_TYPES={path: "html"})


@each("kind", Kept, OffLoop)
async def test_a_page_that_fails_fails_alone(kind, jobdir):
    class Picky(kind):
        def process(self, page):
            if page.depth:
                raise ValueError(page.url)
            super().process(page)

    pages = [a_page(url=f"http://a.test/{n}", depth=n == 1) for n in range(3)]
    async with Run(Picky, jobdir) as run:
        made = await outcomes(run, pages)
    assert made[::2] == pages[::2]
    assert str(made[1]) == "http://a.test/1"
    assert run.module.urls == ["http://a.test/0", "http://a.test/2"]


class Held(OffLoop):
    """Holds each page until it may go on, and has state."""

    def __init__(self):
        super().__init__()
        self.held, self.go_on = threading.Event(), threading.Event()

    def process(self, page):
        self.held.set()
        self.go_on.wait()
        super().process(page)

    def restore(self, saved):
        self.urls = [saved.decode()]

    def state(self):
        return " ".join(self.urls).encode()


async def test_the_loop_waits_for_no_page_when_state_is_taken_and_drops_cancelled_pages(jobdir):
    async with Run(Held, jobdir) as run:
        none = {"module:held": b""}
        assert run.states.snapshot() == none
        waiting = [asyncio.ensure_future(run.process(a_page())) for _ in range(3)]
        await asyncio.to_thread(run.module.held.wait)
        in_between = run.states.snapshot()
        waiting[1].cancel()
        run.module.go_on.set()
        await asyncio.wait(waiting)
        urls = b"http://a.test/ http://a.test/"
        assert [in_between, run.states.snapshot()] == [none, {"module:held": urls}]


async def test_pages_come_back_one_by_one_from_a_slow_module_and_none_is_begun_in_vain(
    jobdir, monkeypatch
):
    time = itertools.count()
    monkeypatch.setattr("webcrawl.pipelines.module.now", time.__next__)  # each page takes a second
    begun, may_end = threading.Semaphore(0), threading.Semaphore(0)

    class Slow(OffLoop):
        def process(self, page):
            begun.release()
            may_end.acquire(timeout=LIMIT_SECS)
            super().process(page)

        def batch_done(self):
            self._note("batch_done")

    async with Run(Slow, jobdir) as run:
        pages = [asyncio.ensure_future(run.process(one)) for one in with_depths(*range(5))]
        for page in pages[:2]:
            await asyncio.to_thread(begun.acquire)
            may_end.release()
            await page
        await asyncio.to_thread(begun.acquire)
        for page in pages[2:]:
            page.cancel()
        may_end.release()
    assert calls_of(run) == ["open", *["process", "batch_done"] * 3, "close"]
    assert run.stats["pages"] == 3


async def test_state_is_taken_before_the_next_page_of_a_batch_begins(jobdir, monkeypatch):
    begun, ends = threading.Semaphore(0), [threading.Event() for _ in range(3)]

    class EndsPage:
        """60 s, asked for when the loop begins to wait."""

        def __index__(self):
            ends[1].set()
            return 60

    monkeypatch.setattr("webcrawl.pipelines.module._STATE_WAIT_SECS", EndsPage())

    class Busy(OffLoop):
        def process(self, page):
            begun.release()
            ends[page.depth].wait()
            super().process(page)

        def state(self):
            return str(len(self.urls)).encode()

    async with Run(Busy, jobdir) as run:
        pages = [asyncio.ensure_future(run.process(one)) for one in with_depths(0, 1, 2)]
        await asyncio.to_thread(begun.acquire)
        ends[0].set()
        await asyncio.to_thread(begun.acquire)
        assert run.states.snapshot() == {"module:busy": b"2"}
        ends[2].set()
        await asyncio.wait(pages)


async def test_a_state_that_cannot_be_had_is_that_of_the_run_before(jobdir):
    saved = {"module:held": b"before"}
    async with Run(Held, jobdir, saved=saved) as run:
        waiting = asyncio.ensure_future(run.process(a_page()))
        await asyncio.to_thread(run.module.held.wait)
        assert run.states.snapshot() == saved
        run.module.go_on.set()
        await waiting


@each("kind", Kept, OffLoop)
@each("failing", "close", "sync")
async def test_a_module_that_cannot_write_refuses_the_checkpoint(kind, failing, jobdir, caplog):
    def fail(self):
        raise OSError(28, "full")

    async with Run(type("Broken", (kind,), {failing: fail}), jobdir) as run:
        if failing == "sync":
            (answer,) = await run.checkpoint()
    if failing == "close":
        (answer,) = await run.checkpoint()  # the last one
        assert "could not be closed" in caplog.text
    assert isinstance(answer, OSError)
    assert "sync" not in calls_of(run)


class Storing(OffLoop):
    output = ("STORING_DIR", "stored")

    def process(self, page):
        raise OSError(page.depth, "no way")

    def sync(self):
        raise OSError(5, "broken")


async def test_what_a_module_cannot_store_ends_the_crawl_and_names_its_directory(jobdir):
    async def errors_of(kind, **settings):
        async with Run(kind, jobdir, **settings) as run:
            return [*await outcomes(run, with_depths(24, 36)), *await run.checkpoint()]

    files, name, disk = await errors_of(Storing, STORING_DIR="/elsewhere")
    assert [is_storage_lost(one) for one in (files, name, disk)] == [True, False, True]
    for error in (files, disk):
        told = disk_message(error, jobdir)
        assert told.startswith("STORING_DIR /elsewhere cannot be written (")
    files, _, disk = await errors_of(Storing)
    assert f"STORING_DIR {jobdir}/stored" in disk_message(disk, jobdir)

    class Plain(Storing):
        output = None

    files, _, disk = await errors_of(Plain)
    assert [is_storage_lost(files), is_storage_lost(disk)] == [False, True]


@each("error", StopIteration, SystemExit)
async def test_errors_that_no_coroutine_can_raise_fail_one_page(error, jobdir):
    class Odd(OffLoop):
        def process(self, page):
            if page.depth:
                raise error

    async with asyncio.timeout(LIMIT_SECS), Run(Odd, jobdir) as run:
        made = await outcomes(run, with_depths(0, 1, 0))
    assert [isinstance(one, RuntimeError) for one in made] == [False, True, False]


def test_coroutines_run_in_the_loop_whatever_off_loop_says(jobdir):
    class Loop(InTheLoop):
        off_loop = True

    run = run_module(Loop, [a_page()], jobdir)
    assert run.module.calls[:2] == [("open", True), ("process", True)]


async def test_a_batch_that_cannot_be_done_fails_as_one(jobdir):
    class Committing(OffLoop):
        def batch_done(self):
            if len(self.urls) > 1:
                raise ValueError("no commit")

    async with Run(Committing, jobdir) as run:
        await run.process(a_page())
        made = await outcomes(run, with_depths(0, 0))
    assert [str(one) for one in made] == ["no commit"] * 2


@pytest.mark.cures(
    "Two processing modules are called {}: give {} another name in its attribute name.",
)
def test_two_modules_of_one_name_are_refused(jobdir):
    run = Run(Kept, jobdir)
    with pytest.raises(FatalError, match=r"called kept: give .*Kept another name"):
        Kept.from_crawler(run.crawler)
    type("Kept", (Kept,), {"name": "other"}).from_crawler(run.crawler)


@pytest.mark.cures(
    "cannot read its saved state ({}): use the version that saved it, give this one another",
)
async def test_a_state_that_cannot_be_taken_up_ends_the_crawl_and_is_kept(jobdir):
    class Changed(Kept):
        def state(self):
            return b"new"

        def restore(self, saved):
            json.loads(saved)

    run = Run(Changed, jobdir, saved={"module:changed": b"old"})
    with pytest.raises(FatalError, match="module changed cannot read its saved state"):
        await run.module.open_spider()
    assert run.states.snapshot() == {"module:changed": b"old"}
    renamed = type("Renamed", (Changed,), {"name": "renamed"})
    async with Run(renamed, jobdir, saved={"module:changed": b"old"}):
        pass


async def test_a_module_is_not_closed_while_it_is_synced(jobdir):
    syncing = asyncio.Event()

    class Slow(InTheLoop):
        async def sync(self):
            self._note("sync")
            syncing.set()
            await asyncio.sleep(0.01)
            self._note("synced")

        def close(self):
            self._note("close")

    async with Run(Slow, jobdir) as run:
        checkpoint = asyncio.ensure_future(run.checkpoint())
        await syncing.wait()
    assert await checkpoint == [None]
    assert calls_of(run) == ["open", "sync", "synced", "close"]


@each("error kind", (28, DiskError), (13, FatalError))
def test_a_module_that_cannot_be_opened_ends_the_crawl(jobdir, error, kind):
    class Broken(OffLoop):
        def open(self):
            raise OSError(error, "no way")

    with pytest.raises(kind, match=r"disk of JOBDIR|module broken cannot be opened"):
        run_module(Broken, [], jobdir)


@pytest.mark.cures("copy the module in docs/howto/write-a-module.md")
def test_the_example_of_the_documents_counts_words_per_language(jobdir):
    page = unknown("command", "genpipeline", []).rpartition("copy the module in ")[2]
    text = Path(page).read_text(encoding="utf-8")
    example = text.partition("    # words.py, next to scrapy.cfg")[2].partition(
        "    # at the end of webcrawl/settings"
    )[0]
    names = {"__name__": "words"}
    exec(textwrap.dedent(example), names)
    pages = [
        a_page('<html lang="de"><body>drei alte <b>Hasen</b>'),
        a_page("<body>two hares", url="http://b.test/"),
    ]
    first = run_module(names["Words"], pages[:1], jobdir)
    run_module(names["Words"], pages[1:], jobdir, saved=first.states.snapshot())
    assert json.loads((jobdir / "words.json").read_text()) == {"de": 3, "none": 2}


class Scoring(Kept):
    def score(self, page):
        scores = {"good": 70, "far": 101, "odd": "7", "yes": True}
        return scores.get(page.url[-4:].strip("/")) or 1 // 0


async def test_a_score_that_cannot_be_is_logged_and_counted_and_is_0(jobdir, caplog):
    run, scores = Run(Scoring, jobdir), []
    run.states.score_by = scores.append
    names = ("good", "far", "odd", "yes", "bad")
    async with run:
        given = [scores[0](a_page(url=f"http://a.test/{name}")) for name in names]
    assert given == [70, 0, 0, 0, 0]
    assert run.stats["score_errors"] == 4
    said = [record.getMessage() for record in caplog.records]
    bad_score = "The module scoring gave http://a.test/far a score of 101, which is not between"
    assert f"{bad_score} 0 and 100" in said
    assert "The module scoring could not score http://a.test/bad" in said


class Submitting(Kept):
    def process(self, page):
        self.submit(page, "/one")
        self.submit(page, [None, 7, Link(None), Link("/", kind=3), "mailto:x@a.test", "/two"])


async def test_what_is_no_link_is_counted_and_one_url_is_one_link(jobdir):
    run, found = Run(Submitting, jobdir), []
    run.states.submit_found = lambda page, links: found.extend(link.url for link in links)
    async with run:
        await run.process(a_page())
    assert found == ["http://a.test/one", "http://a.test/two"]
    assert (run.stats["links"], run.stats["links_bad"]) == (2, 5)
