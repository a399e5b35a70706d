"""A lease between dispatch and completion: the facts of its download, and the state of its page.

The dispatcher makes a ``Fetch`` for every contact and stores it in ``request.meta["fetch"]``. The
downloader records in it what happens on the wire. Anything that goes wrong with the page changes
the state of its ``PageResult``. completion.py reads both when the lease is completed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from scrapy.http import Request, Response

from webcrawl.clock import now, wall_time
from webcrawl.crawl.links.page_intake import PageResult, PageState
from webcrawl.net.outcomes import outcome_of
from webcrawl.net.walls import WALLS
from webcrawl.revisit.history import History, validators
from webcrawl.revisit.visit import Answer

if TYPE_CHECKING:
    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.crawl.task.renderer import StoredPage
    from webcrawl.crawl.task.task import Task
    from webcrawl.frontier import Lease
    from webcrawl.rights.statements import Statement


class Fetch(msgspec.Struct, eq=False):
    """The facts about the download made for one lease.

    lease: the frontier's lease of the URL and, until ``release`` is called, of its host.
    task: what the contact is for; not the lease's task if a robots.txt is fetched for its URL.
    release: ``release(fetch)`` returns the host to the frontier; called once.
    address: the only address that may be contacted, because only its clock is held; "" for any
        address.
    robots_url: the robots.txt fetched by this contact instead of the URL; "" for the URL itself.
    robots_for: the URL, or its origin, that needs this robots.txt.
    refusal: the outcome that says why nothing is sent; "" when the host may be contacted.
    robots_line: the line of robots.txt that allowed or denied the URL; "" if no rule matched.
    statements: what the owner says about the use of the URL, as far as known before the fetch.
    request_id: ``id`` of the Request that was made for this contact, see ``fetch_of``.
    sent_at: monotonic time at which the request was passed to the protocol module; None before.
    sent_wall: the same time for pages, WARC records and logs: epoch seconds, whole microseconds; 0
        before.
    took: seconds from then to the last byte, or to the failure. If a body that does not matter did
        not come in time, they end at the response's head.
    on_wire: the response of the host, or the error of the transfer, before middlewares change it;
        None again once the host is released.
    outcome: one of the names in net/outcomes.py; "" during the download.
    response: the response, once there is one.
    abort: aborts the download soon; None when that is not possible.
    expected_bytes: the expected size, see net/rates.py; None if nothing is sent.
    is_released: the host was released, or the frontier has taken URL and host back.
    page: the result of processing the page.
    is_signed: the request was sent with a signature (RFC 9421).
    history: facts about the URL's document from earlier fetches; None at the first fetch.
    stored: the page in the store that answers instead of the host; None if the host does.
    has_credentials: the request may have the header fields of a host policy, and cookies.
    """

    lease: Lease[Shard]
    task: Task
    release: Callable[[Fetch], None]
    address: str = ""
    robots_url: str = ""
    robots_for: str = ""
    refusal: str = ""
    robots_line: str = ""
    statements: Sequence[Statement] = ()
    request_id: int = 0
    sent_at: float | None = None
    sent_wall: float = 0.0
    took: float = 0.0
    on_wire: Response | Exception | None = None
    outcome: str = ""
    response: Response | None = None
    abort: Callable[[], object] | None = None
    expected_bytes: float | None = None
    is_released: bool = False
    page: PageResult = msgspec.field(default_factory=PageResult)
    is_signed: bool = False
    history: History | None = None
    stored: StoredPage | None = None
    has_credentials: bool = True

    def bind(self, request: Request) -> Request:
        """Link *request*, which will be sent for this contact, to this Fetch, and return it."""
        request.meta["fetch"] = self
        self.request_id = id(request)
        return request

    def begin_download(self) -> None:
        """Record that the request is now passed to the protocol module.

        Raises CancelledError if the host was released before, because its shard was lost.
        """
        if self.is_released:
            raise asyncio.CancelledError(f"{self.url}: the host was released")
        if self.sent_at is not None:
            raise RuntimeError(f"{self.url}: sent twice in one turn of its host")
        # In this order: if the process has to wait between the two, logs do not show a pause that
        # is shorter than it was.
        self.sent_wall = round(wall_time(), 6)
        self.sent_at = now()

    def note_transfer(self, result: Response | Exception | None) -> None:
        """Record *result*, None if the transfer was aborted, before any middleware sees it."""
        self.on_wire = result
        if self.sent_at is not None:
            self.took = now() - self.sent_at

    def end_download(self, result: Response | Request | Exception | None) -> None:
        """End the download with *result*, as the middlewares returned it, and release the host.

        A Request replaces the one that was sent. None means that the download was aborted or never
        begun.
        """
        if isinstance(result, Response):
            self.response = result
        if isinstance(result, Response | Exception):
            self.outcome = self.refusal or outcome_of(result)
        elif result is not None:
            self.outcome = "replaced"
        self.release_host()

    def release_host(self) -> None:
        """Release the host, unless it was released, because the transfer is over."""
        if not self.is_released:
            self.is_released = True
            self.release(self)
            self.on_wire = None

    def expire(self) -> None:
        """Abort the download: the frontier has taken back URL and host. Ignore later results."""
        if self.abort is not None and not self.is_released:
            self.abort()
        self.page.raise_state(PageState.EXPIRED)
        self.is_released = True

    def end(self) -> None:
        """Forget the request and the response, because the engine has finished with them.

        This frees the page without waiting for the garbage collector. And a later request may have
        the same ``id``.
        """
        self.response = None
        self.on_wire = None
        self.request_id = 0

    @property
    def url(self) -> str:
        """Return the URL that is requested: that of the robots.txt or that of the lease."""
        return self.robots_url or self.lease.entry.url

    @property
    def answer(self) -> Answer | None:
        """Return the facts of the response for the next visit; None without a response."""
        response = self.response
        page = self.page
        if response is None:
            return None

        sent_validators = validators(response.headers)
        stored_copy = None
        if page.document:  # the response has a document, which the content-seen test has checked
            stored_copy = History(
                stored_at=self.sent_wall,
                content=page.tested,
                is_duplicate=page.is_duplicate,
                etag=sent_validators.get("etag", ""),
                modified=sent_validators.get("modified", ""),
                links=page.links_fingerprint,
                text=page.text_fingerprint,
            )

        return Answer(
            response.status, page.visit, page.has_same_bytes, sent_validators, stored_copy
        )

    @property
    def holds_url(self) -> bool:
        """Return whether this contact holds the lease of the URL, not only that of the host."""
        if self.page.state is PageState.EXPIRED:
            return False
        return self.task is self.lease.task

    @property
    def is_for_page(self) -> bool:
        """Return whether a page of the crawl was requested."""
        return self.task.is_for_page and not self.refusal

    @property
    def is_contact(self) -> bool:
        """Return whether a host is contacted."""
        return not self.refusal and self.stored is None

    @property
    def is_walled(self) -> bool:
        """Return whether the host answered with a wall instead of the document."""
        return self.outcome in WALLS

    @property
    def is_last(self) -> bool:
        """Return whether no other URL of the host waits in the frontier's back end."""
        lease = self.lease
        return not (self.robots_url or lease.shard.frontier.back.table.get(lease.key))

    @property
    def received_bytes(self) -> int:
        """Return the size of the body as received, before decoding; 0 without a response."""
        if self.response is None:
            return 0
        return len(self.response.meta.get("wire_body", self.response.body))

    @property
    def reached_host(self) -> bool:
        """Return whether a request was sent to an address of the host, or the attempt was made."""
        return self.sent_at is not None and not self.outcome.startswith("dns_")


def fetch_of(request: Request) -> Fetch | None:
    """Return the Fetch that *request* was made for; None if it did not come from the frontier.

    The ``id`` is compared because a spider may copy ``response.meta`` to a request of its own.
    """
    fetch: Fetch | None = request.meta.get("fetch")
    return fetch if fetch is not None and fetch.request_id == id(request) else None
