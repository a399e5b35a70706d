"""The web spider: turns seeds into Pages and batches of links.

    scrapy crawl web -a seeds=seeds/top1m.csv

It does steps 3 to 8 of Mercator's worker (figure 1). The scheduler and the downloader have fetched
the document. The crawl's intake tests it, submits its links, and returns the Page for the
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
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.utils.misc import load_object

from webcrawl.clock import wall_time
from webcrawl.configuration.scrapys import OF_OTHER_CRAWLERS
from webcrawl.configuration.values import flag, whole
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.page_builder import page_of
from webcrawl.crawl.links.link_extractor import PageLinks
from webcrawl.crawl.seeds import SeedReader, split_sources
from webcrawl.crawl.seeds.few_hosts import HAS_FEW_HOSTS
from webcrawl.crawl.seeds.segments import SegmentQueue
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry, Lease
from webcrawl.scheduler import is_mercator, process_of
from webcrawl.settings import web_spider
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from webcrawl.crawl.intake import Intake
    from webcrawl.crawl.job.state_directory import StateDirectory
    from webcrawl.crawl.process import Process
    from webcrawl.items import Page
    from webcrawl.scheduler import MercatorScheduler

logger = logging.getLogger(__name__)

# Above the project's priority: Scrapy applies the project's settings again when the crawl starts.
_WIRING = SETTINGS_PRIORITIES["project"] + 1
_SEEDS_PER_BATCH = 500
_NOTHING: tuple[Any, ...] = ()
# How often an offline crawl checks whether few hosts are left.
_HOSTS_LOOK_SECS = 0.1


class WebSpider(Spider):
    """The spider ``web``, which crawls from seed lists.

    ``-a seeds=`` names the lists, joined by commas: see seeds/README.md. With ``-a offline=1`` it
    names a queue (``scrapy queue-build``) or one segment; only what they list is fetched, and no
    links are followed. ``-a min_hosts=N``: the next segment is read when fewer hosts are left.
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
        """Set ``web_spider`` of settings.py where nothing more specific is set.

        More specific are the project, an add-on, the ``custom_settings`` of a derived spider, and
        the command line.
        """
        # Scrapy's tools need no job and no modules.
        is_tool = settings["SCHEDULER"] == default_settings.SCHEDULER
        for name, value in ({} if is_tool else web_spider).items():
            # The project's settings contain the wiring, too; what users add comes on top of it.
            settings.set(name, value, priority=_WIRING if name.endswith("_BASE") else "addon")
        super().update_settings(settings)

    @classmethod
    def handles_request(cls, request: Request) -> bool:  # noqa: ARG003  # Scrapy's interface
        """Return False, because this spider belongs to no site.

        Scrapy's commands look for the spider of a URL's site.
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
            own = Path(settings["JOBDIR"]).with_name(_job)
            settings.set("JOBDIR", str(own), priority="spider")
        # Scrapyd's other arguments also begin with an underscore.
        names = ", ".join(sorted(name for name in unknown if not name.startswith("_")))
        if names:
            here = {*filter(None, (OF_OTHER_CRAWLERS.get(one.upper()) for one in unknown))}
            raise FatalError(
                f"The web spider has no argument {names}; it takes seeds=FILE, offline=1 and "
                f"min_hosts=N{'; here: ' if here else ''}{'; '.join(sorted(here))}."
            )
        if offline not in {"", "0", "1"}:
            raise FatalError(f"offline must be 0 or 1, not {offline!r}.")
        fewest = whole(BaseSettings({"min_hosts": min_hosts}), "min_hosts", at_least=1)
        if not is_mercator(load_object(settings["SCHEDULER"])):
            # One of Scrapy's tools: it parses a page, without a crawl.
            reader = SeedReader(sources=[], spool_dir=Path(), stdin=io.BytesIO())
            return super().from_crawler(crawler, seeds=reader)
        if not crawler.settings["JOBDIR"]:
            raise FatalError("JOBDIR is empty: the web spider needs a directory for its crawl.")
        sources = split_sources(seeds)
        if not sources and not flag(settings, "LIVE_SEEDS"):
            raise FatalError(
                "No seeds: name a seed list with -a seeds=FILE, for example "
                "-a seeds=seeds/top1m.csv, or set LIVE_SEEDS=1."
            )
        queue = None
        if offline not in {"", "0"}:
            for name in ("HIVE", "OUTPUT_STORE", "LIVE_SEEDS"):
                if settings.get(name):
                    raise FatalError(
                        "offline=1 is for one process that stores its pages here and fetches only "
                        f"its queue: leave {name} empty."
                    )
            queue = SegmentQueue.of(sources, fewest)
            sources = queue.names()
            # URLs were compared when the segment was made, and the target of a redirect may be
            # equivalent to its source. All URLs of a segment are wanted, and no links are counted.
            overrides = {"URL_EQUIVALENCES": "", "REPUTATION_BASE_PAGES": 0}
            settings.setdict(overrides, priority="cmdline")
        reader = SeedReader(
            sources=sources,
            spool_dir=Path(crawler.settings["JOBDIR"]) / "seeds",
            stdin=_standard_input(),
        )
        return super().from_crawler(crawler, seeds=reader, queue=queue)

    async def start(self) -> AsyncIterator[Any]:
        """Feed the seeds to the eliminator, batch by batch, as fast as it accepts them.

        Yields nothing: a seed is a link, not a Request. The cursor is saved with every checkpoint,
        so a resumed crawl continues where it stopped reading.
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
        """Read the seeds from the cursor in *state*, and save the cursor there.

        Raises FatalError.
        """
        intake, shards, queue = process.intake, process.shards, self.segment_queue
        if not self._seeds.has_sources:
            intake.note_all_seeds_read()
            return
        # Reading standard input may block for long.
        await _in_daemon_thread(partial(self._seeds.open, state.saved("seeds")))
        state.attach("seeds", self._seeds)
        self._count_seeds()  # of earlier runs
        if queue is not None and state.resumed:  # the frontier has its URLs
            queue.remainder(state.path).unlink(missing_ok=True)
        # The engine does not stop this loop when it closes.
        while intake.may_read_seeds(state):
            if queue is not None and not queue.should_continue(self._seeds, shards):
                await asyncio.sleep(_HOSTS_LOOK_SECS)
                continue
            if self._seeds.exhausted:
                intake.note_all_seeds_read()
                if queue is not None and not shards.has_fewer_hosts_than(1):
                    process.stop.ask(HAS_FEW_HOSTS)
                return
            intake.submit_seeds(self._seeds.read(_SEEDS_PER_BATCH))
            self._count_seeds()
            await asyncio.sleep(0)
            # The crawl makes room in its background work.
            while intake.is_full and intake.may_read_seeds(state):  # noqa: ASYNC110  # as said
                await asyncio.sleep(0.1)

    def _count_seeds(self) -> None:
        self.crawler.stats.set_value("seeds/read", self._seeds.seeds_read)
        self.crawler.stats.set_value("seeds/bad", self._seeds.seeds_bad)
        if damaged := self._seeds.damaged:
            self.crawler.stats.set_value("seeds/damaged", "; ".join(damaged))

    async def parse(
        self, response: Response, **_: Any
    ) -> list[Page] | list[Page | Request] | AsyncIterator[Page]:
        """Process *response* as ``Intake.take`` does.

        In one of Scrapy's tools, return its Page, followed by Requests for its links.
        """
        assert response.request is not None
        if "fetch" in response.request.meta:
            return await self._intake.accept_response(response)
        links = PageLinks.from_settings(self.crawler.settings)
        entry = Entry(url=response.url, host=host_of(response.url), kind="seed")
        fetch: Fetch = Fetch(
            lease=Lease(entry, 0, wall_time(), cast("Any", None)), release=lambda _: None
        )
        page = page_of(response, fetch, schemes=links.schemes)
        slow = links.find(page) or ()  # it sets links, too
        page.links += filter(None, slow)
        alone: list[Page | Request] = [page]
        return [*alone, *(Request(link.url) for link in page.links if "nofollow" not in link.rel)]

    def closed(self, reason: str) -> None:  # noqa: ARG002  # Scrapy passes it
        """Close the seed reader. Scrapy calls it at the end."""
        self._seeds.close()

    def _checked_process(self) -> Process:
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
    """Await *call* in a thread that does not keep the process from exiting.

    A read from standard input cannot be interrupted, and a stopping crawl must not wait for it.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    called: concurrent.futures.Future[None] = concurrent.futures.Future()

    def run() -> None:
        try:
            call()
            called.set_result(None)
        except Exception as error:  # noqa: BLE001  # raised again by result()
            called.set_exception(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=run, name="seeds", daemon=True).start()
    await ended.wait()
    called.result()
