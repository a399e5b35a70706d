"""Reads the responses of visits: makes Pages of them, and submits their links.

Everything submitted is on disk when a call returns, unless the crawl is ending: then it is
submitted again in the next run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scrapy.http import Response

from webcrawl.clock import now
from webcrawl.crawl.engine.micro_batch import MicroBatch
from webcrawl.crawl.engine.stop import CrawlStop
from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.lease.item_limit import ItemLimit
from webcrawl.crawl.lease.page_builder import page_of
from webcrawl.crawl.lease.stored_exchange import exchange_of, place_in
from webcrawl.crawl.links.link_counts import LinkCounts
from webcrawl.crawl.links.link_extractor import PageLinks, in_slices
from webcrawl.crawl.links.page_intake import PageIntake, PageResult, PageState, SlowLinks
from webcrawl.crawl.links.reading import ReadingWatch
from webcrawl.crawl.task.renderer import PageChoice
from webcrawl.errors import FatalError
from webcrawl.frontier import Lease
from webcrawl.items import Page
from webcrawl.rights.policy import RIGHTS_REFUSED, STRICT
from webcrawl.signals import CONTENT_SEEN, UNCHANGED
from webcrawl.urls import Link, host_of

# URLs of a sitemap or feed that are parsed and submitted at a time, so that nothing waits long.
_LINKS_PER_BATCH = 500
_SLICE_SECS = 0.01
# A feed may have changed again while the last push was on its way.
_PUSH_DELAY_SECS = 3600.0
# How often a full crawl is checked for room for more links.
_FULL_POLL_SECS = 0.1


@dataclass(kw_only=True, eq=False)
class PageReader:
    """Turns the responses of visits into Pages. Runs in the reactor thread.

    *page_links* finds the links of pages, *pages* submits them. *choice* decides which pages are
    rendered; None in a crawl that renders none. Without *follows*, links are not followed, and
    those of a document seen before are stored with its page. *is_full* says whether the crawl has
    so many new URLs that their sources should pause.
    """

    pages: PageIntake
    page_links: PageLinks
    reading: ReadingWatch
    items: ItemLimit
    stop: CrawlStop
    choice: PageChoice | None
    follows: bool
    is_full: Callable[[], bool]

    def __post_init__(self) -> None:
        # The ``score`` method of a processing module; None without one.
        self._score: Callable[[Page], int] | None = None
        # Pages that arrive together submit their links after the links of all of them were found.
        self._before_submitting = MicroBatch()
        #: Counts of the links of pages.
        self.link_counts = LinkCounts()

    def page_of(self, response: Response, fetch: Fetch) -> Page:
        """Return the Page of *response*, with what its owner says about its use."""
        page = page_of(response, fetch, schemes=self.page_links.schemes)
        page.origin = fetch
        if self.page_links.rights.purpose:
            page.rights = self.page_links.rights_of(page, fetch.statements)
            fetch.page.rights = page.rights
        return page

    async def read(self, response: Response, fetch: Fetch) -> list[Page] | AsyncIterator[Page]:
        """Turn *response* into a Page and submit its links.

        Returns the Page for the processing modules. Returns no Page if its document was seen under
        another URL, is unchanged since the last visit, or is a wall. If its links take long to
        find, the Page is yielded after all of them were submitted.
        """
        if fetch.is_walled:
            return []
        page = self.page_of(response, fetch)
        if page.rights.left_out and self.page_links.rights.policy == STRICT:
            fetch.outcome = RIGHTS_REFUSED
            # If the URL had a document before, modules may have to remove it.
            return [page] if fetch.history else []
        if self._keep_for_rendering(page, response, fetch):
            return []
        links, slow_links = self._find_links(page, fetch)

        if fetch.page.has_same_bytes:
            await self.items.hand_over(page, fetch, UNCHANGED)
            # Modules may have to remove a document that is refused now.
            return [page] if page.rights.left_out else []
        if slow_links is not None:
            return self._submit_in_slices(page, fetch, slow_links)
        return await self._submit_page(page, fetch, links)

    def _keep_for_rendering(self, page: Page, response: Response, fetch: Fetch) -> bool:
        """Keep the exchange of *page* if it has to be rendered first; return whether it has."""
        entry = fetch.lease.entry
        # A page that was rendered already is processed now; a Request of a spider, at once.
        if self.choice is None or fetch.stored is not None or entry.extra:
            return False
        try:
            fetch.page.held_by = self.choice.keep(
                page, entry, lambda: exchange_of(response, fetch), place_in(response.meta)
            )
        except OSError as error:
            fetch.page.raise_state(PageState.PUT_BACK)
            self.stop.fail(error)
            return True
        return bool(fetch.page.held_by)

    def _find_links(self, page: Page, fetch: Fetch) -> tuple[Sequence[Link], SlowLinks | None]:
        """Parse *page* as ``PageIntake.read`` does, watched in case that takes too long.

        Returns its links, and an iterator if they take long to find.
        """

        def find_links(page: Page) -> SlowLinks | None:
            with self.reading.of(page.url):
                return self.page_links.fill_in_links(page)

        result = fetch.page
        links, slow_links = self.pages.read(
            page,
            find_links,
            content=fetch.lease.shard.content,
            result=result,
            history=fetch.history,
        )
        aliases = fetch.lease.shard.aliases
        if aliases is not None and fetch.history is None:
            aliases.note_page(page, fetch.lease.entry, result.document)
        # Count each new document once; a claim means that its links were looked for.
        if result.claim and slow_links is None and not result.is_duplicate:
            self.link_counts.add(page.links_found, len(links))
        if self._score is not None and result.state is PageState.STORED and not result.score:
            # The target of a redirect has the score of the page with the link to its source.
            if page.redirect_target:
                result.score = max(fetch.lease.entry.score, 0)
            else:
                with self.reading.of(page.url):
                    result.score = self._score(page)
        return links, slow_links

    async def _submit_page(self, page: Page, fetch: Fetch, links: Sequence[Link]) -> list[Page]:
        """Submit *links* of *page*, and return it unless its document was seen before."""
        if fetch.page.claim:  # otherwise no links were looked for, or none were found
            await self._before_submitting.wait()
        is_accepted = self._submit(page, fetch, links)
        # In a crawl of a queue, the links of a duplicate document are stored with its page.
        if fetch.page.is_duplicate and (self.follows or not links):
            await self.items.hand_over(page, fetch, CONTENT_SEEN)
            return []
        return [page] if is_accepted else []

    def fingerprint_of(self, lease: Lease[Any]) -> int:
        """Return the fingerprint with which the link of *lease* was submitted."""
        lease.fingerprint = lease.fingerprint or self.pages.links.fingerprint_of(lease.entry)
        return lease.fingerprint

    def _submit(self, page: Page, fetch: Fetch, links: Sequence[Link]) -> bool:
        """Submit *links* of *page*; return False if the URL of the page is put back instead."""
        entry = fetch.lease.entry
        return self.pages.submit(page, links, result=fetch.page, chain=entry.chain)

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
        for batch in self.reading.steps(page.url, slices):
            page.links += batch
            if not self._submit(page, fetch, batch):
                return
            await asyncio.sleep(0)
            while self.is_full() and not self.stop.is_ending:  # noqa: ASYNC110  # nothing signals it
                await asyncio.sleep(_FULL_POLL_SECS)
            if self.stop.is_ending:
                fetch.page.raise_state(PageState.PUT_BACK)
            if fetch.page.state >= PageState.PUT_BACK:
                return
        yield page

    async def read_pushed(self, feed: Page) -> None:
        """Submit the links of *feed*, which a hub has sent.

        Those of its own host that have changed since the last push, ``stored_at``, are hints. An
        error of the disk ends the crawl.
        """
        host = host_of(feed.url)
        # What an unknown server sends is read as nothing else.
        feed.content_type = "feed"
        links = self.page_links.fill_in_links(feed) or iter(())
        slices = in_slices(links, limit=_LINKS_PER_BATCH, secs=_SLICE_SECS, clock=now)
        result = PageResult(since=feed.stored_at - _PUSH_DELAY_SECS)
        for batch in self.reading.steps(feed.url, slices):
            for link in batch:
                link.modified *= host_of(link.url) == host
            self.pages.submit(feed, batch, result=result, chain=b"")
            await asyncio.sleep(0)

    def submit_found(self, page: Page, links: Sequence[Link]) -> None:
        """Submit *links*, which a processing module found in *page*."""
        if page.origin is not None:
            self._submit(page, page.origin, links)
        else:  # a Page that a module or a spider made itself
            self.pages.submit(page, links, result=PageResult(), chain=b"")

    def score_by(self, score: Callable[[Page], int]) -> None:
        """Call *score*, a method of a processing module, to score each page.

        Raises FatalError if another module scores pages already.
        """
        if self._score is not None:
            raise FatalError("Two processing modules define a score method: remove one of them.")
        self._score = score
