"""Page intake: the content-seen test of a page, and the submission of its links.

Used by crawls, and to build queues from stored pages. The result of a page is in its
``PageResult``, whose state only rises: the more severe of two problems counts. In a crawl
``Completion.done`` then decides about the URL, depending on the state::

    STORED, DUPLICATE  finish it, or retry it if the download failed
    FAILED             the same, and its document does not count as seen
    UNREAD             the same as FAILED, but retry it as after a bug in the program
    POISON             finish it with the outcome "poison"
    PUT_BACK           put it back as the next URL of its host
    EXPIRED            do nothing, because the URL now has another lease
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import xxhash

from webcrawl.crawl.links.forwarding import forwarding_links, may_forward, place_fingerprint
from webcrawl.crawl.links.submission import LinkSubmitter
from webcrawl.items import Page, is_success
from webcrawl.revisit.history import CHANGED, History, links_fingerprint
from webcrawl.rights.statements import NO_RIGHTS, Rights
from webcrawl.seen.content import ContentSeen
from webcrawl.seen.fingerprint import document_fingerprint
from webcrawl.signals import UNCHANGED
from webcrawl.storage.record_log import DISK_ERRORS
from webcrawl.urls import Link

_NO_LINKS = ((), None)
_NOT_MODIFIED = 304
SlowLinks = Iterator[Link | None]
#: A function like ``PageLinks.fill_in_links``.
FillInLinks = Callable[[Page], SlowLinks | None]


class PageState(enum.IntEnum):
    """State of a page. Later members are more severe; the state only rises."""

    STORED = enum.auto()  # nothing went wrong so far
    DUPLICATE = enum.auto()  # another URL's document had the same bytes
    FAILED = enum.auto()  # a processing module raised
    UNREAD = enum.auto()  # the callback raised: its links were not found
    POISON = enum.auto()  # the callback took too long
    PUT_BACK = enum.auto()  # the download was aborted, or the page could not be stored
    EXPIRED = enum.auto()  # the frontier has taken its URL back


class PageResult(msgspec.Struct, gc=False):
    """Result of one page.

    document: fingerprint of the body if the content-seen test has checked it; 0 otherwise.
    claim: the fingerprint that this test holds as in process until the page is finished: that of
        the document, or of the place of a duplicate; 0 if none.
    redirect_target: the target of a redirect; "" if none.
    redirect_refused: why the redirect is not followed: redirect_loop, too_many_redirects; ""
        otherwise.
    score: the result of a processing module's ``score``, 0 to 100; 0 without one; -1 for a possible
        soft error.
    visit: the result of a repeat visit, if the response was a document or "not modified".
    has_same_bytes: whether the document has the same bytes as at the last visit.
    since: when the URL was last visited, epoch seconds; 0.0 if it never was.
    links_fingerprint, text_fingerprint: of the links and the text of a changed document; 0 if not
        known.
    flags, rights: those of the Page.
    held_by: the gate that holds the URL of a page that is processed later; "" for none.
    """

    state: PageState = PageState.STORED
    document: int = 0
    claim: int = 0
    redirect_target: str = ""
    redirect_refused: str = ""
    score: int = 0
    visit: str = ""
    has_same_bytes: bool = False
    since: float = 0.0
    links_fingerprint: int = 0
    text_fingerprint: int = 0
    flags: str = ""
    rights: Rights = NO_RIGHTS
    held_by: str = ""

    def raise_state(self, state: PageState) -> None:
        """Raise the state to *state*; never lower it."""
        self.state = max(self.state, state)

    @property
    def is_duplicate(self) -> bool:
        """Return whether another URL's document had the same bytes."""
        return self.state is PageState.DUPLICATE

    @property
    def tested(self) -> int:
        """Return the fingerprint of the document if it now counts as seen; 0 otherwise."""
        return self.document if self.state < PageState.FAILED else 0


@dataclass(frozen=True, kw_only=True, eq=False)
class PageIntake:
    """Tests whether the content of pages is new, and submits their links to *links*.

    When the disk fails, *fail* is called with the exception, and the page's URL goes back to the
    frontier. Nothing is kept of such a page. *text_fingerprint_of* returns the
    fingerprint of a page's text, to compare visits.
    """

    links: LinkSubmitter
    fail: Callable[[Exception], None]
    text_fingerprint_of: Callable[[Page], int] = lambda _: 0

    def read(
        self,
        page: Page,
        fill_in_links: FillInLinks,
        *,
        content: ContentSeen,
        result: PageResult,
        history: History | None = None,
    ) -> tuple[Sequence[Link], SlowLinks | None]:
        """Test whether the document of *page* is in *content*, and have its links filled in.

        Returns the links to submit, and an iterator over more links as ``PageLinks.fill_in_links``
        returns it. The fingerprint of a new document is held as in process until the page is
        finished. For a duplicate, the result has only links that may lead elsewhere than its first
        copy, and only for the first one in its host and top directory.

        *history* is given if the URL had a document before. If the document is unchanged, there are
        no links to submit. A changed document is not tested, because the URL itself may have had it
        before, unless the earlier one was a duplicate. Its links are submitted unless they are the
        same as before.
        """
        if result.state >= PageState.PUT_BACK:
            return _NO_LINKS

        if page.redirect_target:
            # The target is the only link. A sitemap that has moved is still a sitemap.
            kind = "sitemap" if page.kind == "sitemap" else "redirect"
            page.links = [Link(url=page.redirect_target, kind=kind)]

        is_empty = is_success(page.status) and not page.body
        stays_empty = is_empty and history and not history.content
        if (page.status == _NOT_MODIFIED and history is not None) or stays_empty:
            result.has_same_bytes = True
            page.visit = UNCHANGED
            result.visit = page.visit

        if page.redirect_target or not page.is_document:
            # An empty page may have links in its headers.
            may_have_links = is_empty and not (page.redirect_target or stays_empty)
            slow_links = fill_in_links(page) if may_have_links else None
            return page.links, slow_links

        page.content_fingerprint = xxhash.xxh3_64_intdigest(page.body) or 1
        shown_body, _ = page.shown
        result.document = document_fingerprint(shown_body)
        try:
            if history is not None:
                result.since = history.at
                result.has_same_bytes = self._is_unchanged(content, result, history)
                page.visit = UNCHANGED if result.has_same_bytes else CHANGED
                result.visit = page.visit

            # A changed document is tested only if the earlier one was a duplicate: see above.
            had_document = history is not None and (history.content or history.hinted_at)
            if history and had_document and (result.has_same_bytes or not history.is_duplicate):
                return self._read_revisited(page, fill_in_links, result, history)

            if not content.test(result.document):
                result.claim = result.document
                slow_links = fill_in_links(page)
                return page.links, slow_links

            result.raise_state(PageState.DUPLICATE)
            if may_forward(page):
                fill_in_links(page)
                links = forwarding_links(page)
                place = place_fingerprint(page)
                if links and content.claim(place):
                    result.claim = place
                    return links, None
        except DISK_ERRORS as error:
            self._put_back(result, error)
        return _NO_LINKS

    def submit(
        self, page: Page, links: Sequence[Link], *, result: PageResult, chain: bytes
    ) -> bool:
        """Submit *links* of *page*, see ``LinkSubmitter.submit_page``.

        Returns False if the page's URL is put back instead.
        """
        if result.state >= PageState.PUT_BACK:
            return False
        try:
            why = self.links.submit_page(
                page, links, chain=chain, score=result.score, since=result.since
            )
        except DISK_ERRORS as error:
            self._put_back(result, error)
            return False
        result.redirect_target = page.redirect_target
        result.redirect_refused = why
        return True

    def _is_unchanged(self, content: ContentSeen, result: PageResult, history: History) -> bool:
        """Return whether the document is the same as at the last visit.

        When a URL is visited because of a hint, its earlier document may be unknown. The document
        then counts as unchanged if any URL had it before.
        """
        if history.content or not history.hinted_at:
            return history.holds_document and result.document == history.content
        # The claim only shows whether the document is new, so it is withdrawn.
        is_new = content.claim(result.document)
        if is_new:
            content.discard(result.document)
        return not is_new

    def _read_revisited(
        self, page: Page, fill_in_links: FillInLinks, result: PageResult, history: History
    ) -> tuple[Sequence[Link], SlowLinks | None]:
        """Return the links to submit of a document that a repeat visit fetched; see ``read``.

        The document is not marked as seen, or the table of seen documents would grow with each
        visit.
        """
        if result.has_same_bytes:
            return _NO_LINKS
        slow_links = fill_in_links(page)
        result.text_fingerprint = self.text_fingerprint_of(page)
        # Slow links are not known yet, so they cannot be compared with those of the last visit.
        if slow_links is not None:
            return page.links, slow_links
        result.links_fingerprint = links_fingerprint(page.links)
        if result.links_fingerprint != history.links:
            return page.links, None
        # If the text is the same too, the other changes of the document do not count as one.
        if result.text_fingerprint == history.text:
            page.visit = UNCHANGED
            result.visit = page.visit
        return _NO_LINKS

    def _put_back(self, result: PageResult, error: Exception) -> None:
        """Have the URL of the page put back, because the disk failed with *error*."""
        result.raise_state(PageState.PUT_BACK)
        self.fail(error)
