"""The web spider: reads seeds, submits the links of documents, and returns a Page for each.

    scrapy crawl web -a seeds=seeds/top1m.csv

It does steps 3 to 8 of Mercator's worker (figure 1). When the scheduler and the downloader have
fetched a document, the crawl's intake tests it, submits its links, and returns the Page for the
processing modules (item pipelines).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import io
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.utils.misc import load_object

from webcrawl.clock import wall_time
from webcrawl.configuration.scrapys import OF_OTHER_CRAWLERS
from webcrawl.configuration.values import flag, whole_number
from webcrawl.crawl.intake import Intake
from webcrawl.crawl.job.state_directory import StateDirectory
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.page_builder import page_of
from webcrawl.crawl.links.link_extractor import PageLinks
from webcrawl.crawl.process import Process
from webcrawl.crawl.seeds import SeedReader, split_sources
from webcrawl.crawl.seeds.few_hosts import HAS_FEW_HOSTS, has_fewer_hosts
from webcrawl.crawl.seeds.segments import SegmentQueue
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry, Lease
from webcrawl.items import Page
from webcrawl.scheduler import MercatorScheduler, is_mercator, process_of
from webcrawl.settings import web_spider
from webcrawl.urls import host_of

logger = logging.getLogger(__name__)

# Above the project's priority, because Scrapy applies the project's settings again when the crawl
# starts.
_ABOVE_PROJECT = SETTINGS_PRIORITIES["project"] + 1
_SEEDS_PER_BATCH = 500
_NOTHING: tuple[Any, ...] = ()
# How often an offline crawl checks whether few hosts are left.
_FEW_HOSTS_INTERVAL_SECS = 0.1


class WebSpider(Spider):
    """The spider ``web``, which crawls from seed lists.

    ``-a seeds=`` names the lists, separated by commas: see seeds/README.md. With ``-a offline=1``
    it names a queue (``scrapy queue-build``) or one of its segments; only the URLs in them are
    fetched, and no links are followed. With ``-a min_hosts=N``, the next segment is read when fewer
    than N hosts are left.
    """

    name = "web"
    #: The scheduler waits for ``note_all_seeds_read``.
    reads_seeds = True

    def __init__(self, *, seeds: SeedReader, queue: SegmentQueue | None = None) -> None:
        super().__init__()
        #: Source of the segments of an offline crawl; None in a crawl that follows links.
        self.segment_queue = queue
        self._seeds = seeds

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Apply ``web_spider`` of settings.py to *settings* that are not set more specifically.

        The settings of the project, an add-on, the ``custom_settings`` of a derived spider and the
        command line take precedence.
        """
        # Tools such as ``scrapy parse`` need neither a job nor modules. They replace the project's
        # scheduler with Scrapy's default: see commands/__init__.py.
        is_tool = settings["SCHEDULER"] == default_settings.SCHEDULER
        for name, value in ({} if is_tool else web_spider).items():
            # Settings that end with _BASE list internal components, so they override the project's.
            # Users add components with the other settings.
            is_internal = name.endswith("_BASE")
            settings.set(name, value, priority=_ABOVE_PROJECT if is_internal else "addon")
        super().update_settings(settings)

    @classmethod
    def handles_request(cls, request: Request) -> bool:  # noqa: ARG003  # Scrapy's interface
        """Return False, because this spider is not made for one site.

        Scrapy's commands call this to find the spider for a URL.
        """
        return False

    @classmethod
    def from_crawler(
        cls,
        crawler: Crawler,
        *,
        seeds: str = "",
        offline: str = "",
        min_hosts: str = "1",
        _job: str = "",
        **unknown: str,
    ) -> Self:
        """Build the spider.

        *_job* is scrapyd's job name; it names the JOBDIR unless one is given.
        """
        settings = crawler.settings
        if _job and (settings.getpriority("JOBDIR") or 0) < SETTINGS_PRIORITIES["project"]:
            jobdir = Path(settings["JOBDIR"]).with_name(_job)
            settings.set("JOBDIR", str(jobdir), priority="spider")

        # Scrapyd's other arguments also begin with an underscore.
        names = ", ".join(sorted(name for name in unknown if not name.startswith("_")))
        if names:
            hints = {*filter(None, (OF_OTHER_CRAWLERS.get(name.upper()) for name in unknown))}
            raise FatalError(
                f"The web spider has no argument {names}; it takes seeds=FILE, offline=1 and "
                f"min_hosts=N{'; here: ' if hints else ''}{'; '.join(sorted(hints))}."
            )
        if offline not in {"", "0", "1"}:
            raise FatalError(f"offline must be 0 or 1, not {offline!r}.")
        min_host_count = whole_number(
            BaseSettings({"min_hosts": min_hosts}), "min_hosts", at_least=1
        )

        if not is_mercator(load_object(settings["SCHEDULER"])):
            # Used by one of Scrapy's tools, which parses a page without a crawl.
            reader = SeedReader(sources=[], spool_dir=Path(), stdin=io.BytesIO())
            return super().from_crawler(crawler, seeds=reader)
        if not crawler.settings["JOBDIR"]:
            raise FatalError("JOBDIR is empty: the web spider needs a directory for its crawl.")

        sources = split_sources(seeds)
        if not sources and not flag(settings, "LIVE_SEEDS"):
            raise FatalError(
                "No seeds: name a seed list with -a seeds=FILE, or domains, for example "
                "-a seeds=example.org, or set LIVE_SEEDS=1."
            )

        queue = None
        if offline not in {"", "0"}:
            for name in ("HIVE", "OUTPUT_STORE", "LIVE_SEEDS"):
                if settings.get(name):
                    raise FatalError(
                        "offline=1 is for one process that stores its pages here and fetches only "
                        f"its queue: leave {name} empty."
                    )
            queue = SegmentQueue.of(sources, min_host_count)
            sources = queue.names()
            # All URLs of a segment are fetched. They were compared with each other when the segment
            # was made, and equivalences could even drop the target of a redirect. Reputation cannot
            # be computed without links.
            overrides = {"URL_EQUIVALENCES": "", "REPUTATION_BASE_PAGES": 0}
            settings.setdict(overrides, priority="cmdline")

        reader = SeedReader(
            sources=sources,
            spool_dir=Path(crawler.settings["JOBDIR"]) / "seeds",
            stdin=_standard_input(),
        )
        return super().from_crawler(crawler, seeds=reader, queue=queue)

    async def start(self) -> AsyncIterator[Any]:
        """Submit the seeds to the eliminator, batch by batch, as fast as it accepts them.

        Yields nothing, because seeds are handled like links and not as Requests. The cursor is
        saved with every checkpoint, so a resumed crawl continues reading there.
        """
        try:
            process = self._checked_process()
            async for state in process.intake.seed_states():
                await self._read_seeds(state, process)
        except FatalError as error:
            self.crawler.stats.set_value("finish/error", str(error))
            logger.error("%s", error)  # noqa: TRY400  # bad input needs no traceback
            raise CloseSpider("unusable_seeds") from error
        for item in _NOTHING:  # Scrapy expects an asynchronous generator
            yield item

    async def _read_seeds(self, state: StateDirectory, process: Process) -> None:
        """Read the seeds, starting at the cursor in *state*, and save the cursor there.

        Raises FatalError.
        """
        intake = process.intake
        shards = process.shards
        queue = self.segment_queue
        if not self._seeds.has_sources:
            intake.note_all_seeds_read()
            return

        # Reading standard input may block for long.
        await _in_daemon_thread(partial(self._seeds.open, state.saved_snapshot("seeds")))
        state.attach("seeds", self._seeds)
        self._count_seeds()  # of earlier runs
        if queue is not None and state.resumed:
            # The URLs in this file are still in the frontier.
            queue.remainder(state.path).unlink(missing_ok=True)

        # The engine does not stop this loop when it closes.
        while intake.may_read_seeds(state):
            # An offline crawl reads the next segment only when few hosts are left.
            if queue is not None and not queue.refill(self._seeds, shards):
                await asyncio.sleep(_FEW_HOSTS_INTERVAL_SECS)
                continue
            if self._seeds.exhausted:
                intake.note_all_seeds_read()
                # No segment is left: end the crawl, although some URLs are not fetched.
                if queue is not None and not has_fewer_hosts(shards, 1):
                    process.stop.ask(HAS_FEW_HOSTS)
                return
            intake.submit_seeds(self._seeds.read(_SEEDS_PER_BATCH))
            self._count_seeds()
            await asyncio.sleep(0)
            # Wait until the crawl's background work has made room for more seeds.
            while intake.is_full and intake.may_read_seeds(state):  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.1)

    def _count_seeds(self) -> None:
        """Update the stats about seeds."""
        self.crawler.stats.set_value("seeds/read", self._seeds.seeds_read)
        self.crawler.stats.set_value("seeds/bad", self._seeds.seeds_bad)
        if damaged := self._seeds.damaged:
            self.crawler.stats.set_value("seeds/damaged", "; ".join(damaged))

    async def parse(
        self, response: Response, **_: Any
    ) -> list[Page] | list[Page | Request] | AsyncIterator[Page]:
        """Process *response*, see ``Intake.accept_response``.

        In one of Scrapy's tools, return the Page, followed by Requests for its links.
        """
        assert response.request is not None
        if "fetch" in response.request.meta:
            return await self._intake.accept_response(response)

        # One of Scrapy's tools, without a crawl. The Fetch has only what ``page_of`` reads.
        links = PageLinks(self.crawler.settings)
        entry = Entry(url=response.url, host=host_of(response.url), kind="seed")
        fetch: Fetch = Fetch(
            lease=Lease(entry, 0, wall_time(), cast("Any", None)),
            task=cast("Any", None),
            release=lambda _: None,
        )
        page = page_of(response, fetch, schemes=links.schemes)
        slow_links = links.fill_in_links(page) or ()
        page.links += filter(None, slow_links)
        result: list[Page | Request] = [page]
        return [*result, *(Request(link.url) for link in page.links if "nofollow" not in link.rel)]

    def closed(self, reason: str) -> None:  # noqa: ARG002  # Scrapy passes it
        """Close the seed reader. Scrapy calls this at the end of the crawl."""
        self._seeds.close()

    def _checked_process(self) -> Process:
        """Return the crawl's process; raise FatalError if another scheduler is used."""
        process = process_of(self.crawler)
        if process is None:
            raise FatalError("The web spider needs SCHEDULER=webcrawl.scheduler.MercatorScheduler.")
        return process

    @cached_property
    def _intake(self) -> Intake:
        return cast("MercatorScheduler", self.crawler.engine.scheduler).process.intake


def _standard_input() -> BinaryIO:
    """Return unbuffered standard input.

    With a buffer, Python could not exit while a daemon thread holds the buffer's lock.
    """
    if sys.stdin is None:
        return io.BytesIO()
    return cast("BinaryIO", io.FileIO(sys.stdin.fileno(), "rb", closefd=False))


async def _in_daemon_thread(call: Callable[[], None]) -> None:
    """Run *call* in a thread that does not keep the process from exiting, and await its end.

    A read from standard input cannot be interrupted, and a stopping crawl must not wait for it.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    result: concurrent.futures.Future[None] = concurrent.futures.Future()

    def run() -> None:
        try:
            call()
            result.set_result(None)
        except Exception as error:  # noqa: BLE001  # raised again by result()
            result.set_exception(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=run, name="seeds", daemon=True).start()
    await ended.wait()
    result.result()
