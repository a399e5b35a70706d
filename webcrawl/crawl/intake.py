"""Intake of a running crawl: accepts pages, seeds and Requests of spiders and modules.

Everything submitted is on disk when a call returns, unless the crawl is ending: then it is
submitted again in the next run. Runs in the reactor thread.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from webcrawl.clock import now
from webcrawl.crawl.engine.micro_batch import MicroBatch
from webcrawl.crawl.job.state_directory import shard_name
from webcrawl.crawl.lease.page_builder import page_of
from webcrawl.crawl.lease.plain_requests import NotPlainError
from webcrawl.crawl.lease.stored_exchange import exchange_of, place_in
from webcrawl.crawl.links.link_counts import LinkCounts
from webcrawl.crawl.links.link_extractor import in_slices
from webcrawl.crawl.links.page_intake import PageResult, PageState
from webcrawl.crawl.shard.shards import NotHeldError
from webcrawl.errors import FatalError
from webcrawl.rights.policy import RIGHTS_REFUSED, STRICT
from webcrawl.signals import CONTENT_SEEN, SUBRESOURCE, UNCHANGED
from webcrawl.storage.record_log import DISK_ERRORS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from scrapy import Request
    from scrapy.http import Response

    from webcrawl.crawl.job.state_directory import StateDirectory
    from webcrawl.crawl.job_state import JobState
    from webcrawl.crawl.lease.fetch import Fetch
    from webcrawl.crawl.lease.leases import Leases
    from webcrawl.crawl.lease.services import ProcessServices
    from webcrawl.crawl.links.link_extractor import PageLinks
    from webcrawl.crawl.links.page_intake import PageIntake, SlowLinks
    from webcrawl.crawl.links.remote_shards import RemoteShards
    from webcrawl.crawl.rendering import RenderChoice
    from webcrawl.crawl.seeds import Seed
    from webcrawl.crawl.shard_lifecycle import ShardLifecycle
    from webcrawl.frontier import Entry
    from webcrawl.items import Page
    from webcrawl.urls import Link

logger = logging.getLogger(__name__)

_NOT_MODIFIED = 304

# URLs of a sitemap or feed that are parsed and submitted at a time, so that nothing waits long.
_LINKS_PER_BATCH = 500
_SLICE_SECS = 0.01
# How often a full crawl is checked for room for more links.
_FULL_POLL_SECS = 0.1
# How often a process checks whether it holds the shard with the cursor of the seeds.
_SEEDS_POLL_SECS = 0.1


class Intake:
    """Accepts what spiders, extensions and modules submit to one process.

    *page_links* finds the links of pages, *pages* submits them. Without *follows*, links are not
    followed, and those of a document seen before are stored with its page. *may_end* says whether
    the crawl may end when no URLs are left here. *renders* decides which pages are rendered.
    """

    def __init__(
        self,
        *,
        state: JobState,
        services: ProcessServices,
        leases: Leases,
        lifecycle: ShardLifecycle,
        pages: PageIntake,
        page_links: PageLinks,
        follows: bool,
        may_end: Callable[[], bool],
        renders: RenderChoice | None,
    ) -> None:
        self._links = state.links
        self._shards = state.shards
        self._job = state.resources.job
        self._remote = state.shards.remote
        self._key_of = state.rules.key_of
        self._renders = renders
        self._crawler = services.crawler
        self._reading = services.reading
        self._stop = services.stop
        self._leases = leases
        self._lifecycle = lifecycle
        self._pages = pages
        self._page_links = page_links
        self._follows = follows
        self._may_end = may_end
        self._score: Callable[[Page], int] | None = None
        # Pages that arrive together submit their links after the links of all of them were found.
        self._before_submitting = MicroBatch()
        # Requests that arrived before this process had a shard.
        self._early_requests: list[Request] = []
        #: Counts of the links of pages.
        self.link_counts = LinkCounts()

    @property
    def is_full(self) -> bool:
        """Return whether the crawl has so many new URLs that their sources should pause."""
        return self._shards.is_full or (self._remote is not None and self._remote.is_full)

    # --- pages

    async def accept_response(  # noqa: PLR0911  # one for each end of a page
        self, response: Response
    ) -> list[Page] | AsyncIterator[Page]:
        """Turn *response*, to a request of the frontier, into a Page and submit its links.

        Returns the Page for the processing modules. Returns no Page if its document was seen under
        another URL, is unchanged since the last visit, or is a wall. If its links take long to
        find, the Page is yielded after all of them were submitted.
        """
        fetch: Fetch = response.meta["fetch"]
        if fetch.is_walled:
            return []
        page = page_of(response, fetch, schemes=self._page_links.schemes)
        page.origin = fetch
        is_subresource = fetch.lease.entry.kind == SUBRESOURCE
        policy = self._page_links.rights
        if policy.purpose:
            page.rights = fetch.page.rights = self._page_links.rights_of(page, fetch.statements)
            if page.rights.left_out and policy.policy == STRICT and not is_subresource:
                fetch.outcome = RIGHTS_REFUSED
                # Modules may have to remove an earlier version.
                return [page] if fetch.history else []
        if not is_subresource:
            if self._awaits_rendering(page, response, fetch):
                return []
            links, slow_links = self._read(page, fetch)

        if is_subresource or fetch.page.is_same:
            why = SUBRESOURCE if is_subresource else UNCHANGED
            # Replay tools would take an archived 304 or preflight for the script.
            is_preflight = response.request is not None and response.request.method == "OPTIONS"
            is_script = page.status != _NOT_MODIFIED and not is_preflight
            if not is_subresource or is_script:
                await self._leases.items.hand_over(page, fetch, why)
            # Modules may have to remove a document that is refused now.
            return [page] if page.rights.left_out and not is_subresource else []
        if slow_links is not None:
            return self._submit_in_slices(page, fetch, slow_links)

        if fetch.page.claim:  # otherwise no links were looked for, or none were found
            await self._before_submitting.wait()
        is_accepted = self._submit(page, fetch, links)
        # In a crawl of a queue, the links of a duplicate document are stored with its page.
        if fetch.page.is_duplicate and (self._follows or not links):
            await self._leases.items.hand_over(page, fetch, CONTENT_SEEN)
            return []
        return [page] if is_accepted else []

    def _awaits_rendering(self, page: Page, response: Response, fetch: Fetch) -> bool:
        """Return whether *page* has to be rendered first. Then its exchange is in the store."""
        renders, entry = self._renders, fetch.lease.entry
        if renders is None or fetch.rendered is not None or entry.extra:
            return False
        shape = renders.shape_of(page)
        if shape is None:
            return False
        try:
            exchange = exchange_of(response, fetch)
            renders.passes.keep(entry, exchange, shape, place_in(response.meta))
        except OSError as error:
            self._leases.completion.put_back_unstored(fetch, error)
        fetch.page.awaits_rendering = True
        return True

    def _read(self, page: Page, fetch: Fetch) -> tuple[Sequence[Link], SlowLinks | None]:
        """Parse *page* as ``PageIntake.read`` does, watched in case that takes too long.

        Returns its links, and an iterator if they take long to find.
        """

        def find_links(page: Page) -> SlowLinks | None:
            with self._reading.of(page.url):
                return self._page_links.find(page)

        result = fetch.page
        links, slow_links = self._pages.read(
            page,
            find_links,
            content=fetch.lease.shard.content,
            result=result,
            history=fetch.history,
        )
        if result.claim and slow_links is None and not result.is_duplicate:
            self.link_counts.add(page.links_found, len(links))
        if self._score is not None and result.state is PageState.STORED and not result.score:
            if page.redirect_target:  # linked to by the page that linked to its source
                result.score = max(fetch.lease.entry.score, 0)
            else:
                with self._reading.of(page.url):
                    result.score = self._score(page)
        return links, slow_links

    def _submit(self, page: Page, fetch: Fetch, links: Sequence[Link]) -> bool:
        """Submit *links* of *page*; return False if the URL of the page is put back instead."""
        entry = fetch.lease.entry
        return self._pages.submit(page, links, result=fetch.page, chain=entry.chain)

    async def _submit_in_slices(
        self, page: Page, fetch: Fetch, slow_links: Iterator[Link | None]
    ) -> AsyncIterator[Page]:
        """Submit links that take long to find in batches, as fast as the eliminator accepts them.

        *slow_links* finds the links. The Page is yielded when all links are on disk, and its URL is
        finished after that. If the process crashes before, the page is fetched again and its links
        are submitted again; the eliminator then knows them.
        """
        if not self._submit(page, fetch, page.links):
            return

        slices = in_slices(slow_links, limit=_LINKS_PER_BATCH, secs=_SLICE_SECS, clock=now)
        for batch in self._reading.steps(page.url, slices):
            page.links += batch
            if not self._submit(page, fetch, batch):
                return
            await asyncio.sleep(0)
            while self.is_full and not self._stop.is_ending:  # noqa: ASYNC110  # nothing signals it
                await asyncio.sleep(_FULL_POLL_SECS)
            if self._stop.is_ending:
                fetch.page.becomes(PageState.PUT_BACK)
            if fetch.page.state >= PageState.PUT_BACK:
                return
        yield page

    def submit_found(self, page: Page, links: Sequence[Link]) -> None:
        """Submit *links*, which a processing module found in *page*."""
        if page.origin is not None:
            self._submit(page, page.origin, links)
        else:  # a Page that a module or a spider made itself
            self._pages.submit(page, links, result=PageResult(), chain=b"")

    def score_by(self, score: Callable[[Page], int]) -> None:
        """Call *score*, a method of a processing module, to score each page.

        Raises FatalError if another module scores pages already.
        """
        if self._score is not None:
            raise FatalError("Two processing modules define a score method: remove one of them.")
        self._score = score

    # --- seeds

    async def seed_states(self) -> AsyncIterator[StateDirectory]:
        """Yield the saved state that has the position in the seeds, when seeds are to be read.

        Usually that is the state of the job. A process that does not hold all shards yields the
        state of shard 0 each time it gets that shard, until the crawl may end.
        """
        if self._remote is None:
            yield self._job.own
            return
        last_state: StateDirectory | None = None
        while not (self._stop.is_ending or self._may_end()):
            if shard_name(0) in self._job.shards:
                state = self._job.shard(shard_name(0))
                if state is not last_state and self.may_read_seeds(state):
                    last_state = state
                    yield state
            await asyncio.sleep(_SEEDS_POLL_SECS)

    def may_read_seeds(self, state: StateDirectory | None = None) -> bool:
        """Return whether seeds may be read whose position is saved in *state*.

        None stands for seeds that arrive during the crawl: the process with shard 0 may read them.
        """
        if state is None:
            return not self.is_full and self.may_read_seeds(self._job.own)
        shard_0 = self._shards.held(0)
        is_leaving = self._remote is not None and (shard_0 is None or shard_0.is_leaving)
        return not (self._stop.is_ending or state.is_dropped or is_leaving)

    def submit_seeds(self, seeds: Sequence[Seed]) -> None:
        """Submit a batch of seeds; an error of the disk ends the crawl."""
        try:
            self._links.submit_seeds(seeds)
        except DISK_ERRORS as error:
            self._stop.fail(error)

    def note_all_seeds_read(self) -> None:
        """Record that all seeds were read; shards that waited for them may start."""
        if self._remote is not None:
            self._remote.note_all_seeds_read()
            return
        self._lifecycle.awaits_seeds = False
        for shard in self._shards:
            shard.note_all_seeds_known()

    # --- requests

    def enqueue(self, request: Request) -> bool:
        """Accept an ordinary Request of a spider or middleware; return False for a duplicate.

        *request* passes the eliminator like a link, unless it has ``dont_filter``. True may also
        mean that the eliminator does not know yet. The prioritizer sets its priority.
        """
        adopted, codec = self._leases.requests.adopt(request), self._leases.codec

        if not len(self._shards):
            self._early_requests.append(adopted)
            return True
        try:
            if self._remote is not None:
                return self._enqueue_in_hive(adopted, self._remote)
            shard = self._shards.of(adopted.url)
            fingerprint = None if adopted.dont_filter else codec.fingerprint(adopted)
            if fingerprint is not None and shard.eliminator.certainly_seen(fingerprint):
                self._crawler.stats.inc_value("dupefilter/filtered")
                return False
            shard.enqueue(codec.entry(adopted, self._leases.items.page), fingerprint)
        except DISK_ERRORS as error:
            # The Request is lost together with its page, which therefore is not finished: see
            # CrawlStop.
            self._stop.fail(error)
        except NotHeldError:
            pass  # another process now has the shard, and will process the page again
        return True

    def enqueue_early(self) -> None:
        """Enqueue the Requests that arrived before this process had a shard."""
        early, self._early_requests = self._early_requests, []
        for request in early:
            self.enqueue(request)

    def _enqueue_in_hive(self, request: Request, remote: RemoteShards) -> bool:
        """Send *request* through *remote*; return False if it cannot be sent.

        It is not known which page the Request came from, and the checkpoint with that page must
        not be published before the one with the Request. So *remote* also sends Requests for shards
        of this process.
        """
        codec = self._leases.codec
        try:
            entry = codec.entry(request, self._leases.items.page)
        except NotPlainError as error:
            logger.warning(
                "%s is refused, because a hive cannot send it: %s. Put plain data into its meta "
                "and cb_kwargs; see docs/howto/several-machines.md and the stat "
                "hive/requests/refused",
                request,
                error,
                extra={"spider": self._crawler.spider},
            )
            self._crawler.stats.inc_value("hive/requests/refused")
            return False

        # All processes of a hive start with the same requests.
        may_be_duplicate = not request.dont_filter or request.meta.get("is_start_request")
        remote.enqueue(entry, codec.fingerprint(request) if may_be_duplicate else None)
        return True

    def visit(self, entry: Entry) -> None:
        """Enqueue *entry* for a repeat visit of a finished URL, without asking the eliminator.

        Does nothing if a filter for seeds refuses the URL.
        """
        if self._links.refuses_seed(entry.url):
            return
        try:
            if self._remote is not None:
                self._remote.enqueue(replace(entry, host=self._key_of(entry.url)), None)
            else:
                self._shards.of(entry.url).enqueue(entry, None)
        except DISK_ERRORS as error:
            self._stop.fail(error)
        except NotHeldError:
            pass  # the process that holds the shard now gets the entry again
