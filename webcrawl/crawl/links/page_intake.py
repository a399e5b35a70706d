"""Page intake: the content-seen test of a page, and the way of its links into the crawl.

Crawls and queues that are built of stored pages take pages in here. What became of one is in its
``PageResult``, whose state only rises: of two findings the more severe one counts. What comes of it
in a crawl, see ``Completion.done``::

    STORED DUPLICATE            finished, or tried again if the download failed
    FAILED                      likewise, and its document does not count as seen
    UNREAD                      likewise, but tried again as after an error of the program
    POISON                      finished, with that outcome
    PUT_BACK                    the next URL of its host
    EXPIRED                     nothing: it is another lease's
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import xxhash

from webcrawl.crawl.links.forwarding import forwarding_links, may_lead_on, place_fingerprint
from webcrawl.items import is_success
from webcrawl.revisit.history import CHANGED, links_fingerprint
from webcrawl.seen.fingerprint import document_fingerprint
from webcrawl.signals import UNCHANGED
from webcrawl.storage.record_log import DISK_ERRORS
from webcrawl.urls import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from webcrawl.crawl.links.submission import LinkSubmitter
    from webcrawl.items import Page
    from webcrawl.revisit.history import History
    from webcrawl.seen.content import ContentSeen

_NOTHING = ((), None)
_NOT_MODIFIED = 304
SlowLinks: TypeAlias = "Iterator[Link | None]"
#: As ``PageLinks.find``.
Find: TypeAlias = "Callable[[Page], SlowLinks | None]"


class PageState(enum.IntEnum):
    """State of a page; it only rises."""

    STORED = enum.auto()  # nothing went wrong, as far as is known
    DUPLICATE = enum.auto()  # another URL's document had the same bytes
    FAILED = enum.auto()  # a processing module raised
    UNREAD = enum.auto()  # the callback raised: its links were not found
    POISON = enum.auto()  # the callback took too long
    PUT_BACK = enum.auto()  # the download was broken off, or the page could not be stored
    EXPIRED = enum.auto()  # the frontier has taken its URL back


class PageResult(msgspec.Struct, gc=False):
    """Result of one page.

    document: fingerprint of its body if the content-seen test had it; 0 without.
    claim: what that test has in process until the page is finished: the document, or the place of
        a duplicate; 0 if nothing.
    redirect_target: where the answer leads; "" if nowhere.
    redirect_refused: why that is not followed: redirect_loop, too_many_redirects; "" otherwise.
    score: what a processing module's ``score`` gave it, 0 to 100; 0 without one; -1 of what may be
        a soft error.
    visit: what a visit has found if its answer was a document, or none was sent as it is unchanged.
    is_same: the document has the bytes that it had at the last visit.
    since: when the URL was visited last, epoch seconds; 0.0 if it never was.
    links, text: fingerprints of the links and the text of another one; 0 if they are not known.
    flags: as those of a Page.
    """

    state: PageState = PageState.STORED
    document: int = 0
    claim: int = 0
    redirect_target: str = ""
    redirect_refused: str = ""
    score: int = 0
    visit: str = ""
    is_same: bool = False
    since: float = 0.0
    links: int = 0
    text: int = 0
    flags: str = ""

    def becomes(self, state: PageState) -> None:
        """*state*, unless it is in one that says more."""
        self.state = max(self.state, state)

    @property
    def is_duplicate(self) -> bool:
        """Whether another URL's document had the same bytes."""
        return self.state is PageState.DUPLICATE

    @property
    def tested(self) -> int:
        """Fingerprint of the document that counts as seen from now on; 0 if none does."""
        return self.document if self.state < PageState.FAILED else 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageIntake:
    """Intake of pages, whose links go to *links*.

    When the disk fails *fail* is called with the exception, and the page's URL goes back. Of a page
    whose URL goes back nothing is taken. *text* gives the fingerprint of a page's text, by which
    visits are compared.
    """

    links: LinkSubmitter
    fail: Callable[[Exception], None]
    text: Callable[[Page], int] = lambda _: 0

    def read(
        self,
        page: Page,
        find: Find,
        *,
        content: ContentSeen,
        result: PageResult,
        history: History | None = None,
    ) -> tuple[Sequence[Link], SlowLinks | None]:
        """Test the document of *page* by *content* and look for its links by *find*. Returns those
        to submit, and those that need time, as ``PageLinks.find`` does.

        A new document is in process until the page is finished. Of one that was seen the links are
        submitted that may lead elsewhere than its first copy, if it is the first at its place. With
        the *history* of a URL that had a document before nothing is done for one that is as it
        was; another one passes the test, as the URL may have had it before, but for one that was a
        duplicate, and its links are submitted unless they lead where they led.
        """
        if result.state >= PageState.PUT_BACK:
            return _NOTHING
        if page.redirect_target:
            # A sitemap that has moved is a sitemap still.
            kind = "sitemap" if page.kind == "sitemap" else "redirect"
            page.links = [Link(url=page.redirect_target, kind=kind)]
        is_empty = is_success(page.status) and not page.body
        stays_empty = is_empty and history and not history.content
        if (page.status == _NOT_MODIFIED and history is not None) or stays_empty:
            result.is_same = True
            result.visit = page.visit = UNCHANGED
        if page.redirect_target or not page.is_document:
            # The header of an empty page may have links.
            may_have_links = is_empty and not (page.redirect_target or stays_empty)
            slow = find(page) if may_have_links else None
            return page.links, slow
        page.content_fingerprint = xxhash.xxh3_64_intdigest(page.body) or 1
        result.document = document_fingerprint(page.body)
        try:
            if history is not None:
                result.since = history.at
                result.is_same = self._is_same(content, result, history)
                result.visit = page.visit = UNCHANGED if result.is_same else CHANGED
            is_known = history is not None and (history.content or history.hinted_at)
            if history and is_known and (result.is_same or not history.is_duplicate):
                return self._found_again(page, find, result, history)
            if not content.test(result.document):
                result.claim = result.document
                slow = find(page)
                return page.links, slow
            result.becomes(PageState.DUPLICATE)
            if may_lead_on(page):
                find(page)
                links, place = forwarding_links(page), place_fingerprint(page)
                if links and content.claim(place):
                    result.claim = place
                    return links, None
        except DISK_ERRORS as error:
            self._fails(result, error)
        return _NOTHING

    def submit(
        self, page: Page, links: Sequence[Link], *, result: PageResult, chain: bytes
    ) -> bool:
        """Submit *links* of *page* as ``LinkSubmitter.submit_page``. False if its URL goes back."""
        if result.state >= PageState.PUT_BACK:
            return False
        try:
            why = self.links.submit_page(
                page, links, chain=chain, score=result.score, since=result.since
            )
        except DISK_ERRORS as error:
            self._fails(result, error)
            return False
        result.redirect_target, result.redirect_refused = page.redirect_target, why
        return True

    def _is_same(self, content: ContentSeen, result: PageResult, history: History) -> bool:
        """Whether the document is as it was. Of what is visited because of a hint it may not be
        known how it was: it is, if any URL had it."""
        if history.content or not history.hinted_at:
            return history.holds_document and result.document == history.content
        is_new = content.claim(result.document)
        if is_new:
            content.discard(result.document)
        return not is_new

    def _found_again(
        self, page: Page, find: Find, result: PageResult, history: History
    ) -> tuple[Sequence[Link], SlowLinks | None]:
        """``read`` of a document that the URL has at a visit. It does not count as seen: what does
        would grow with the visits."""
        if result.is_same:
            return _NOTHING
        slow = find(page)
        if slow is None:
            result.links = links_fingerprint(page.links)
        result.text = self.text(page)
        leads_on = not result.links or result.links != history.links
        if result.text == history.text and not leads_on:
            result.visit = page.visit = UNCHANGED
        return (page.links, slow) if leads_on else _NOTHING

    def _fails(self, result: PageResult, error: Exception) -> None:
        result.becomes(PageState.PUT_BACK)
        self.fail(error)
