"""Intake of a running crawl: accepts pages, seeds and Requests of spiders and modules.

Everything submitted is on disk when a call returns, unless the crawl is ending: then it is
submitted again in the next run. Runs in the reactor thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec.structs import replace
from scrapy import Request
from scrapy.http import Response

from webcrawl.crawl.engine._engine import wake
from webcrawl.crawl.job.state_directory import StateDirectory, shard_name
from webcrawl.crawl.job_state import JobState
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.plain_requests import NotPlainError
from webcrawl.crawl.lease.services import ProcessServices
from webcrawl.crawl.leases import Leases
from webcrawl.crawl.links.remote_shards import RemoteShards
from webcrawl.crawl.seeds import Seed
from webcrawl.crawl.shard.shards import NotHeldError
from webcrawl.crawl.shard_lifecycle import ShardLifecycle
from webcrawl.frontier import HUB, Entry
from webcrawl.frontier.entry import FOREIGN
from webcrawl.items import Page
from webcrawl.storage.record_log import DISK_ERRORS

logger = logging.getLogger(__name__)

# How often a process checks whether it holds the shard with the cursor of the seeds.
_SEEDS_POLL_SECS = 0.1


class Intake:
    """Accepts what spiders, extensions and modules submit to one process."""

    def __init__(
        self,
        *,
        state: JobState,
        services: ProcessServices,
        leases: Leases,
        lifecycle: ShardLifecycle,
        may_end: Callable[[], bool],
    ) -> None:
        """Create it; *may_end* says whether the crawl may end when no URLs are left here."""
        self._links = state.links
        self._shards = state.shards
        self._job = state.resources.job
        # The connection to the other processes of a hive; None without one.
        self._remote = state.shards.remote
        self._key_of = state.rules.key_of
        self._crawler = services.crawler
        self._stop = services.stop
        self._leases = leases
        self._lifecycle = lifecycle
        self._may_end = may_end
        # Requests that arrived before this process had a shard.
        self._early_requests: list[Request] = []

    @property
    def is_full(self) -> bool:
        """Return whether the crawl has so many new URLs that their sources should pause."""
        is_full = any(shard.eliminator.is_full for shard in self._shards)
        return is_full or (self._remote is not None and self._remote.is_full)

    # --- pages

    async def accept_response(self, response: Response) -> list[Page] | AsyncIterator[Page]:
        """Give *response*, to a request of the frontier, to the task of its lease.

        Returns the Pages for the processing modules.
        """
        fetch: Fetch = response.meta["fetch"]
        return await fetch.task.accept(response, fetch)

    # --- seeds

    async def seed_states(self) -> AsyncIterator[StateDirectory]:
        """Yield the saved state that has the position in the seeds, when seeds are to be read.

        Usually that is the state of the job. In a hive, the position is in the state of shard 0. A
        process yields that each time it gets the shard, until the crawl may end.
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
        # In a hive, the process that holds shard 0 reads the seeds.
        shard_0 = self._shards.find_held(0)
        is_elsewhere = self._remote is not None and (shard_0 is None or shard_0.is_leaving)
        return not (self._stop.is_ending or state.is_dropped or is_elsewhere)

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
            shard.feeder.has_all_seeds = True

    # --- requests

    def enqueue(self, request: Request) -> bool:
        """Accept an ordinary Request of a spider or middleware; return False for a duplicate.

        *request* passes the eliminator like a link, unless it has ``dont_filter``. True may also
        mean that the eliminator does not know yet, or that the crawl is ending. The prioritizer
        sets its priority.
        """
        adopted = self._leases.requests.adopt(request)
        codec = self._leases.codec

        if not len(self._shards):
            self._early_requests.append(adopted)
            return True
        try:
            if self._remote is not None:
                return self._enqueue_in_hive(adopted, self._remote)
            shard = self._shards.of(adopted.url)
            # Without a fingerprint the Request bypasses the eliminator.
            fingerprint = None if adopted.dont_filter else codec.fingerprint(adopted)
            if fingerprint is not None and shard.eliminator.certainly_seen(fingerprint):
                self._crawler.stats.inc_value("dupefilter/filtered")
                return False
            # ``items.page`` is the page that is being processed, if a module made the Request.
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
        early = self._early_requests
        self._early_requests = []
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

        # All processes of a hive submit the same start requests. So these pass the eliminator even
        # with ``dont_filter``.
        may_be_duplicate = not request.dont_filter or request.meta.get("is_start_request")
        remote.enqueue(entry, codec.fingerprint(request) if may_be_duplicate else None)
        return True

    def visit(self, entry: Entry) -> None:
        """Enqueue *entry* for a repeat visit of a finished URL, without asking the eliminator.

        Does nothing if a filter for seeds refuses the URL.
        """
        if self._links.is_seed_refused(entry.url):
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

    def ask_hub(self, url: str, subscription: str, redirects: int = 0) -> None:
        """Enqueue a request to the hub *url* for *subscription*; *redirects* led there.

        It counts as foreign, as any site may name any hub.
        """
        entry = Entry(
            url,
            self._key_of(url),
            depth=redirects,
            kind=HUB,
            via=subscription,
            foreign=FOREIGN,
        )
        try:
            self._shards.of(url).frontier.requeue(entry)
            wake(self._crawler.engine)
        except DISK_ERRORS as error:
            self._stop.fail(error)
