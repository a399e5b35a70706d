"""Completes leases: decides whether a URL is finished, retried, parked or put back.

Called by the dispatcher when nothing is sent, by the engine when it has finished with a request,
and by the background work for leases that never came back. It also records the exceptions that
callbacks and processing modules raise in between. The host is released separately: host_release.py.

The invariant: a URL is finished only when all its results (links, requests, retries) are on disk.
Once a log could not be written, that is uncertain, so no more URLs are finished.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import chain
from typing import Any

from scrapy import Request, signals
from twisted.python.failure import Failure

from webcrawl.crawl.lease.fetch import Fetch, fetch_of
from webcrawl.crawl.lease.host_release import HostRelease
from webcrawl.crawl.lease.item_limit import ItemOverdueError
from webcrawl.crawl.lease.lease_requests import LeaseRequests
from webcrawl.crawl.lease.outcome_log import DROPPED
from webcrawl.crawl.lease.services import ProcessServices
from webcrawl.crawl.links.page_intake import PageState
from webcrawl.crawl.links.reading import ReadingTooLongError
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.task.task import Finish, Task, Tasks, Way
from webcrawl.crawl.task.tries import Tries
from webcrawl.errors import is_storage_lost
from webcrawl.frontier import Entry, Lease, Result, decode
from webcrawl.hosts.retry_policy import BUG
from webcrawl.urls import host_of

logger = logging.getLogger(__name__)

# After these ways the entry of the lease is finished.
_FINAL_WAYS = frozenset({Way.FINISH, Way.RETRY, Way.DROP})


class Completion:
    """Completes the leases of URLs. When a log cannot be written the crawl is stopped."""

    def __init__(
        self,
        *,
        services: ProcessServices,
        host_release: HostRelease,
        requests: LeaseRequests,
        tasks: Tasks,
        under_way: dict[int, Fetch],
    ) -> None:
        """Create it; *under_way* is a dict that it shares.

        The dispatcher adds contacts to it, this object removes them, and ``Subresource`` reads it.
        """
        self._signals = services.crawler.signals
        self._stats = services.crawler.stats
        self._shards = services.shards
        self.host_release = host_release
        self._requests = requests
        self._tasks = tasks
        self._tries = Tries(stats=self._stats, retries=services.rules.retries)
        self._stop = services.stop
        #: Contacts in process, by the ids of their leases, also while their pages are processed.
        self.under_way = under_way
        #: Whether the crawl is ending because of bugs, set by the extension that notices them. URLs
        #: that fail because of a bug from now on are put back for the next run.
        self.is_over_for_bugs = False

    def listen(self) -> None:
        """Start recording exceptions raised by callbacks and processing modules."""
        self._signals.connect(self._spider_error, signal=signals.spider_error)
        self._signals.connect(self._item_error, signal=signals.item_error)

    # --- completing a lease

    def end_unsent(
        self,
        lease: Lease[Shard],
        way: Way,
        why: str = "",
        *,
        rest: float = 0.0,
        next_entry: Entry | None = None,
        robots_line: str = "",
    ) -> None:
        """Complete *lease*, for which nothing is sent, and release its host.

        The host pauses for *rest* seconds. The other arguments are those of ``end``.
        """
        # The dispatcher adds the contact before the task is asked for its Request. The task may
        # find only then that nothing is sent, for example to a side download that has stopped
        # waiting.
        self.under_way.pop(lease.id, None)

        self.end(lease, way, why, next_entry=next_entry, robots_line=robots_line)
        lease.shard.frontier.contacts.release(lease.key, rest=rest)

    def done(self, request: Request) -> None:
        """Complete the lease of *request*. Called once when the engine has finished with it."""
        fetch = fetch_of(request)
        if fetch is None:  # the request did not come from the frontier, so it has no lease
            return

        self._requests.done(request)
        fetch.release_host()
        self.under_way.pop(fetch.lease.id, None)
        # False if it was for a robots.txt whose URL is back in its queue, or if the lease expired.
        if fetch.holds_url:
            try:
                self._complete_url(fetch)
            except Exception as error:  # noqa: BLE001  # the URL would stay leased
                self._stop.fail(error)
        fetch.end()

    def _complete_url(self, fetch: Fetch) -> None:
        """Finish the URL of *fetch*, retry it or put it back, depending on its page's state."""
        entry = fetch.lease.entry
        state = fetch.page.state
        outcome = fetch.outcome
        met_bug = state in (PageState.FAILED, PageState.UNREAD) or outcome == BUG
        is_put_back = state is PageState.PUT_BACK or (met_bug and self.is_over_for_bugs)
        # A download without an outcome was aborted. After an error of the crawl, it is not certain
        # that the results of the URL are on disk.
        if is_put_back or not outcome or self._stop.has_begun:
            self.end(fetch.lease, Way.PUT_BACK, fetch=fetch)
            return

        if fetch.page.held_by:  # the page is stored, and waits to be rendered
            fetch.lease.shard.admission.let_out(entry)
            self.end(fetch.lease, Way.PARK, fetch.page.held_by)
            return

        if state is PageState.POISON:
            outcome = ReadingTooLongError.outcome

        # A document whose links were not found is retried as after any bug.
        retry = None
        if fetch.task.is_for_page:
            retry = self._tries.next_try(fetch, BUG if state is PageState.UNREAD else outcome)
        way = Way.FINISH if retry is None else Way.RETRY
        # Without a refusal, it is the line that allowed the URL, which is not logged.
        robots_line = fetch.robots_line if fetch.refusal else ""
        self.end(fetch.lease, way, outcome, next_entry=retry, fetch=fetch, robots_line=robots_line)

    def expire(self, older_than: float, *, spares_pages: bool) -> None:
        """Take back leases that were not completed within *older_than* seconds.

        Their downloads are aborted. Leases of links whose pages are being processed do not expire,
        because slow modules have a limit of their own. With *spares_pages*, this also holds for
        pages of ordinary Requests, whose callbacks may wait for a side download. They would
        otherwise be fetched repeatedly.
        """

        def is_spared(lease: Lease[Shard]) -> bool:
            fetch = self.under_way.get(lease.id)
            # The entry of an ordinary Request stores that Request in ``extra``.
            has_spared_kind = spares_pages or not lease.entry.extra
            is_being_processed = fetch is not None and fetch.is_released
            return has_spared_kind and is_being_processed

        busy = [shard.frontier for shard in self._shards if not shard.is_idle]
        expired = [frontier.expire(older_than, except_if=is_spared) for frontier in busy]
        for lease in chain.from_iterable(expired):
            self.host_release.expire(lease)
            fetch = self.under_way.pop(lease.id, None)
            # Without a contact there is nothing to abort: everything about the URL was done, except
            # that the log could not be written.
            if fetch is not None:
                fetch.expire()
                self._undo_page(fetch)
            self._stats.inc_value("scheduler/expired")
            logger.error("Lease of %s expired; requeued", lease.entry.url)

    def forget_shard(self, shard: Shard) -> None:
        """Forget the contacts of *shard*, which has left this process.

        Their downloads are aborted.
        """
        for fetch in [fetch for fetch in self.under_way.values() if fetch.lease.shard is shard]:
            del self.under_way[fetch.lease.id]
            fetch.expire()
        self.host_release.forget_shard(shard)

    def abort_downloads(self) -> None:
        """Abort the running downloads, and put their URLs back."""
        for fetch in [*self.under_way.values()]:
            if fetch.abort is not None:
                fetch.abort()

    def put_back_pages(self) -> None:
        """Have the pages that are being processed put back as soon as they are done.

        The next run fetches them again.
        """
        for fetch in self.under_way.values():
            fetch.page.raise_state(PageState.PUT_BACK)

    def end(
        self,
        lease: Lease[Shard],
        way: Way,
        why: str = "",
        *,
        next_entry: Entry | None = None,
        fetch: Fetch | None = None,
        robots_line: str = "",
    ) -> None:
        """Complete *lease* in the given *way*. Raises OSError when the disk is full.

        why: the outcome of a finished URL, or the reason of a parked one.
        next_entry: the entry that replaces a retried one, or goes before one that is put back.
        fetch: the contact, if there was one.
        robots_line: the line of robots.txt that denied the URL, if one did.
        """
        shard = lease.shard
        entry = lease.entry
        task: Task = lease.task
        match way:
            case Way.FINISH:
                finish = task.finish(lease, why, fetch, robots_line)
                self._finish(lease, fetch, finish)
            case Way.RETRY:
                if next_entry is None or fetch is None:
                    raise ValueError(f"{entry.url}: nothing to retry")
                # The response counts, but the URL has no outcome yet.
                result = Result("", fetch.received_bytes, fetch.page.is_duplicate)
                self._finish(lease, fetch, Finish(result, retry=next_entry))
            case Way.PUT_BACK:
                # An entry of another shard cannot go before this one: their queues are separate.
                if next_entry is not None and self._shards.find(next_entry.url) is not shard:
                    next_entry = None
                shard.frontier.leases.put_back(lease, behind=next_entry)
                if fetch is not None:
                    self._undo_page(fetch)
            case Way.PARK:
                shard.frontier.leases.park(lease, why)
            case Way.DROP:
                shard.frontier.leases.finish(lease)
        if way in _FINAL_WAYS:
            task.note_end(lease, way, why)

    def _finish(self, lease: Lease[Shard], fetch: Fetch | None, finish: Finish) -> None:
        """Finish the entry of *lease* in its shard, after the last contact *fetch*.

        The document then counts as seen, unless it could not be processed.
        """
        content = 0
        if fetch is not None:
            if fetch.page.state >= PageState.FAILED:
                self._discard_claim(fetch)  # this sets the claim to 0
            content = fetch.page.claim
        lease.shard.finish(
            lease, content=content, result=finish.result, due=finish.due, retry=finish.retry
        )

    def _undo_page(self, fetch: Fetch) -> None:
        """Undo the effects of the page of *fetch*, whose URL is fetched again later."""
        self._discard_claim(fetch)
        # Only a contact for a page uses a budget. A rendered page did that in an earlier contact.
        if fetch.is_for_page and fetch.is_contact:
            fetch.lease.shard.hosts.budgets.ledger.put_back(fetch.lease.entry)

    def _discard_claim(self, fetch: Fetch) -> None:
        """Withdraw the fingerprint that the page of *fetch* has entered as new content."""
        if fetch.page.claim:
            fetch.lease.shard.content.discard(fetch.page.claim)
            fetch.page.claim = 0

    def drop_parked(
        self, shard: Shard, reason: str, limit: int, is_covered: Callable[[str], bool]
    ) -> int:
        """Drop parked entries of *shard* whose host *is_covered* accepts; return their number.

        Checks the next *limit* entries parked for *reason*. Those that it keeps are parked again,
        behind the others. Raises OSError.
        """
        # Filled by ``drop_covered``, which is called once, with all entries to check.
        dropped: list[Entry] = []

        def drop_covered(batch: list[bytes]) -> tuple[list[bytes], dict[str, list[bytes]]]:
            """Return (entries to release, entries to park again); the others are dropped."""
            kept = []
            for data in batch:
                entry = decode(data)
                if is_covered(host_of(entry.url)):
                    self._tasks.of(entry).drop(shard, entry)
                    dropped.append(entry)
                else:
                    kept.append(data)
            shard.frontier.leases.finish_unleased(dropped, Result(DROPPED))
            return [], {reason: kept}

        shard.frontier.parked.release(reason, limit, drop_covered)
        return len(dropped)

    # --- failures of pages

    def put_back_unstored(self, fetch: Fetch, error: Exception) -> None:
        """Put back the URL of *fetch*, because its page could not be stored, and end the crawl."""
        fetch.page.raise_state(PageState.PUT_BACK)
        self._stop.fail(error)

    def _spider_error(self, response: Any, failure: Failure) -> None:
        """Record that a callback raised an exception, so its document was not processed.

        If the exception says that a page could not be stored, the crawl ends.
        """
        fetch = _contact_of(response)
        if fetch is not None and is_storage_lost(failure.value):
            self.put_back_unstored(fetch, failure.value)
        elif fetch is not None:
            is_poison = isinstance(failure.value, ReadingTooLongError)
            fetch.page.raise_state(PageState.POISON if is_poison else PageState.UNREAD)

    def _item_error(self, response: Any, failure: Failure) -> None:
        """Record that a processing module raised an exception.

        Only a failing disk ends the crawl.
        """
        error = failure.value
        fetch = _contact_of(response)
        # An item that is aborted because the crawl is ending is processed in the next run.
        is_put_back = isinstance(error, ItemOverdueError) and error.at_end
        if is_storage_lost(error):
            is_put_back = True
            self._stop.fail(error)
        if fetch is not None:
            fetch.page.raise_state(PageState.PUT_BACK if is_put_back else PageState.FAILED)


def _contact_of(response: Any) -> Fetch | None:
    """Return the contact that led to *response* (a Response or Failure); None if there is none."""
    meta = getattr(getattr(response, "request", None), "meta", {})
    fetch: Fetch | None = meta.get("fetch")
    return fetch
