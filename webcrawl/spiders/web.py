"""The web spider: seeds in, Pages and link batches out.

    scrapy crawl web -a seeds=seeds/top1m.csv

Mercator's worker, steps 3 to 8 (figure 1). The scheduler and the downloader have fetched the
document. Here it goes through the content-seen test, its links are extracted and submitted in one
batch, and the Page goes to the processing modules (item pipelines).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import io
import logging
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.utils.misc import load_object

from webcrawl.clock import now, wall_time
from webcrawl.configuration.scrapys import OF_OTHER_CRAWLERS
from webcrawl.configuration.values import flag, whole
from webcrawl.crawl.engine.micro_batch import MicroBatch
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.page_builder import page_of
from webcrawl.crawl.links.link_extractor import PageLinks, in_slices
from webcrawl.crawl.links.page_intake import PageState
from webcrawl.crawl.seeds import SeedReader, split_sources
from webcrawl.crawl.seeds.few_hosts import HAS_FEW_HOSTS
from webcrawl.crawl.seeds.segments import SegmentQueue
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry, Lease
from webcrawl.net.guard import followed_schemes
from webcrawl.scheduler import agent_of, is_mercator
from webcrawl.settings import web_spider
from webcrawl.signals import CONTENT_SEEN, UNCHANGED
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from webcrawl.crawl.agent import Agent
    from webcrawl.crawl.job.state_directory import StateDirectory
    from webcrawl.items import Page
    from webcrawl.scheduler import MercatorScheduler
    from webcrawl.urls import Link

logger = logging.getLogger(__name__)

# Above the project, which Scrapy applies once more when the crawl is begun.
_WIRING = SETTINGS_PRIORITIES["project"] + 1
_SEEDS_PER_BATCH = 500
_NOTHING: tuple[Any, ...] = ()
# So many URLs of a sitemap or feed are read and submitted at a time: nothing else is held up.
_LINKS_PER_BATCH = 500
_SLICE_SECS = 0.01
# How often an offline crawl looks whether few hosts are left.
_HOSTS_LOOK_SECS = 0.1


class WebSpider(Spider):
    """The spider ``web``, which crawls from seed lists.

    ``-a seeds=`` names the lists, joined by commas: see seeds/README.md. With ``-a offline=1`` it
    names a queue (``scrapy queue-build``), or one segment; what they list is fetched and nothing is
    followed. ``-a min_hosts=N``: with fewer hosts left the next segment is read.
    """

    name = "web"
    #: The scheduler waits for ``seeds_are_read``.
    reads_seeds = True

    def __init__(
        self,
        *,
        seeds: SeedReader,
        links: PageLinks,
        schemes: frozenset[str],
        queue: SegmentQueue | None = None,
    ) -> None:
        super().__init__()
        #: Where the segments of an offline crawl come from; None in a crawl that follows links.
        self.segment_queue = queue
        self._seeds = seeds
        self._links = links
        self._schemes = schemes
        # Links are submitted when those of all pages that came together are found.
        self._submitting = MicroBatch()

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Set ``web_spider`` of settings.py where the project, an add-on, the ``custom_settings``
        of a spider derived from this one, or the command line set nothing else."""
        # Scrapy's tools need no job, and no modules for it.
        is_tool = settings["SCHEDULER"] == default_settings.SCHEDULER
        for name, value in ({} if is_tool else web_spider).items():
            # The wiring, on top of which comes what users name, is in the project's settings too.
            settings.set(name, value, priority=_WIRING if name.endswith("_BASE") else "addon")
        super().update_settings(settings)

    @classmethod
    def handles_request(cls, request: Request) -> bool:  # noqa: ARG003  # Scrapy's interface
        """False: Scrapy's commands look for the spider of a URL's site, and this one has none."""
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
        """*_job* is scrapyd's name of the job: it names the JOBDIR, unless one is given."""
        settings = crawler.settings
        if _job and (settings.getpriority("JOBDIR") or 0) < SETTINGS_PRIORITIES["project"]:
            own = Path(settings["JOBDIR"]).with_name(_job)
            settings.set("JOBDIR", str(own), priority="spider")
        # Others of scrapyd's begin with an underscore, too.
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
            # One of Scrapy's tools: there is a page to be parsed, and no crawl.
            reader = SeedReader(sources=[], spool_dir=Path(), stdin=io.BytesIO())
            links = PageLinks.from_settings(settings)
            schemes = followed_schemes(settings)
            return super().from_crawler(crawler, seeds=reader, links=links, schemes=schemes)
        if not crawler.settings["JOBDIR"]:
            raise FatalError("JOBDIR is empty: the web spider's crawl lives in a directory.")
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
                        "offline=1 is for one process that keeps its pages here and fetches what "
                        f"its queue has: leave {name} empty."
                    )
            queue = SegmentQueue.of(sources, fewest)
            sources = queue.names()
            # It was compared when the segment was made. What redirects lead to may be of the same
            # form as what led there. All of a segment is wanted, and no links are counted.
            overrides = {"URL_EQUIVALENCES": "", "REPUTATION_BASE_PAGES": 0}
            settings.setdict(overrides, priority="cmdline")
        reader = SeedReader(
            sources=sources,
            spool_dir=Path(crawler.settings["JOBDIR"]) / "seeds",
            stdin=_standard_input(),
        )
        links = PageLinks.from_settings(
            crawler.settings,
            count=lambda name: crawler.stats.inc_value(name),  # noqa: PLW0108  # none are there yet
        )
        schemes = followed_schemes(crawler.settings)
        return super().from_crawler(
            crawler, seeds=reader, links=links, schemes=schemes, queue=queue
        )

    async def start(self) -> AsyncIterator[Any]:
        """Feed the seeds to the eliminator, batch by batch, as fast as it takes them.

        Yields nothing: a seed is a link, not a Request. The cursor is saved with every
        checkpoint, so a resumed crawl goes on where it stopped reading.
        """
        try:
            async for state in self._checked_agent().seed_states():
                await self._read_seeds(state)
        except FatalError as error:
            self.crawler.stats.set_value("finish/error", str(error))
            logger.error("%s", error)  # noqa: TRY400  # bad input needs no traceback
            raise CloseSpider("unusable_seeds") from error
        for item in _NOTHING:  # an asynchronous generator is what Scrapy wants
            yield item

    async def _read_seeds(self, state: StateDirectory) -> None:
        """Read on where the cursor in *state* is, which it saves from now on. FatalError."""
        agent, queue = self._agent, self.segment_queue
        shards = agent.shards
        if not self._seeds.has_sources:
            agent.seeds_are_read()
            return
        # Standard input may take its time.
        await _in_daemon_thread(partial(self._seeds.open, state.saved("seeds")))
        state.attach("seeds", self._seeds)
        self._count_seeds()  # of earlier runs
        if queue is not None and state.resumed:  # its URLs are in the frontier
            queue.remainder(state.path).unlink(missing_ok=True)
        # The engine leaves this running when it closes.
        while agent.may_read_seeds(state):
            if queue is not None and not queue.lets_read(self._seeds, shards):
                await asyncio.sleep(_HOSTS_LOOK_SECS)
                continue
            if self._seeds.exhausted:
                agent.seeds_are_read()
                if queue is not None and not shards.has_fewer_hosts_than(1):
                    agent.end(HAS_FEW_HOSTS)
                return
            agent.submit_seeds(self._seeds.read(_SEEDS_PER_BATCH))
            self._count_seeds()
            await asyncio.sleep(0)
            # It empties by its own slices.
            while agent.is_full and agent.may_read_seeds(state):  # noqa: ASYNC110  # as said
                await asyncio.sleep(0.1)

    def _count_seeds(self) -> None:
        self.crawler.stats.set_value("seeds/read", self._seeds.seeds_read)
        self.crawler.stats.set_value("seeds/bad", self._seeds.seeds_bad)
        if damaged := self._seeds.damaged:
            self.crawler.stats.set_value("seeds/damaged", "; ".join(damaged))

    async def parse(
        self, response: Response, **_: Any
    ) -> list[Page] | list[Page | Request] | AsyncIterator[Page]:
        """The Page of *response*, unless its document was seen under another URL, or is as it was
        at the last visit, or a wall stands in its place. In one of Scrapy's tools followed by
        Requests for its links."""
        assert response.request is not None
        if "fetch" not in response.request.meta:
            return self._alone(response)
        agent = self._agent
        fetch: Fetch = response.request.meta["fetch"]
        if fetch.is_walled:
            return []
        page = page_of(response, fetch, schemes=self._schemes)
        links, slow = agent.read_page(page, fetch, self._links.find)
        if fetch.page.is_same:
            await agent.hand_over(page, fetch, UNCHANGED)
            return []
        if slow is not None:
            return self._submit_in_slices(page, fetch, slow)
        if fetch.page.claim:  # else there was no looking for links, or to no avail
            await self._submitting.wait()
        is_taken = agent.submit_page(page, fetch, links)
        # What a queue makes of the stored page are the links of a seen document that lead on.
        if fetch.page.is_duplicate and not (links and self.segment_queue is not None):
            await agent.hand_over(page, fetch, CONTENT_SEEN)
            return []
        return [page] if is_taken else []

    def _alone(self, response: Response) -> list[Page | Request]:
        entry = Entry(url=response.url, host=host_of(response.url), kind="seed")
        fetch: Fetch = Fetch(
            lease=Lease(entry, 0, wall_time(), cast("Any", None)), release=lambda _: None
        )
        page = page_of(response, fetch, schemes=self._schemes)
        slow = self._links.find(page) or ()
        page.links += [link for link in slow if link is not None]
        return [page, *(Request(link.url) for link in page.links if "nofollow" not in link.rel)]

    async def _submit_in_slices(
        self, page: Page, fetch: Fetch, found: Iterator[Link | None]
    ) -> AsyncIterator[Page]:
        """Submit links that take long to find, batch by batch, as the eliminator takes them.

        The Page follows when all are on disk, and its URL is finished after that. After a crash
        before, it is fetched and submitted again, and the eliminator finds nothing new in it.
        """
        agent = self._agent
        if not agent.submit_page(page, fetch, page.links):
            return
        slices = in_slices(found, most=_LINKS_PER_BATCH, secs=_SLICE_SECS, clock=now)
        for batch in agent.read_steps(page.url, slices):
            page.links += batch
            if not agent.submit_page(page, fetch, batch):
                return
            await asyncio.sleep(0)
            while agent.is_full and not agent.is_ending:  # noqa: ASYNC110  # by its own slices
                await asyncio.sleep(0.1)
            if agent.is_ending:
                fetch.page.becomes(PageState.PUT_BACK)
            if fetch.page.state >= PageState.PUT_BACK:
                return
        yield page

    def closed(self, reason: str) -> None:  # noqa: ARG002  # Scrapy passes it
        """Close the seed reader. Scrapy calls it at the end."""
        self._seeds.close()

    def _checked_agent(self) -> Agent:
        agent = agent_of(self.crawler)
        if agent is None:
            raise FatalError("The web spider needs SCHEDULER=webcrawl.scheduler.MercatorScheduler.")
        return agent

    @property
    def _agent(self) -> Agent:
        return cast("MercatorScheduler", self.crawler.engine.scheduler).agent


def _standard_input() -> BinaryIO:
    """Unbuffered standard input: Python cannot end while a daemon thread holds the lock of a
    buffer."""
    if sys.stdin is None:
        return io.BytesIO()
    return cast("BinaryIO", io.FileIO(sys.stdin.fileno(), "rb", closefd=False))


async def _in_daemon_thread(call: Callable[[], None]) -> None:
    """Await *call* in a thread that does not keep the process from ending: a read from standard
    input cannot be broken off, and a crawl that is being stopped must not wait for it."""
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
