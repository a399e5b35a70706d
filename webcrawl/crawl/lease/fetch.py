"""A lease between dispatch and completion: the facts of its download, and the state of its page.

The dispatcher makes a ``Fetch`` for every contact, which is in ``request.meta["fetch"]``; the
downloader notes what happens on the wire; all that can go wrong with a page changes the state of
its ``PageResult``; completion.py reads both when the lease comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from scrapy.http import Response

from webcrawl.clock import now, wall_time
from webcrawl.crawl.links.page_intake import PageResult, PageState
from webcrawl.frontier import NO_URLS, ROBOTS_REDIRECT
from webcrawl.net.outcomes import outcome_of
from webcrawl.net.walls import WALLS
from webcrawl.revisit.history import History, validators
from webcrawl.revisit.visit import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Request

    from webcrawl.crawl.shard.shard import Shard
    from webcrawl.frontier import Lease


class Fetch(msgspec.Struct, eq=False):
    """The facts of the download of one lease.

    lease: the frontier's lease of the URL and, until ``release`` is called, of its host.
    release: ``release(fetch)`` gives the host back to the frontier; called once.
    address: the only one that may be contacted, as its clock is held; "" for any of the host's.
    robots_url: the robots.txt fetched by this contact in place of the URL; "" for the URL itself.
    refusal: why nothing is to be sent, an outcome; "" when the host may be contacted.
    robots_line: the line of robots.txt that allowed the URL, or for which it is refused; "" if none
        is about it.
    request_id: ``id`` of the Request that was made for this contact, see ``fetch_of``.
    sent_at: when the request was handed to the protocol module, monotonic; None before.
    sent_wall: that moment as pages, WARC records and logs have it: epoch seconds, whole
        microseconds; 0 before.
    took: seconds from then to the last byte, or to the failure; to the head of an answer whose
        body decides nothing and did not come.
    on_wire: how the host answered, or what the transfer failed with, whatever middlewares make of
        it; until the host is given back.
    outcome: one of the names in net/outcomes.py; "" while the download goes on.
    response: the answer, once there is one.
    abort: breaks the download off, soon; None when it cannot be.
    expected_bytes: what it is taken to bring, see net/rates.py; None if nothing is sent.
    is_released: the host was given back, or the frontier has taken URL and host back.
    page: what became of its page.
    history: that of its URL before this fetch; None if it was not finished before.
    """

    lease: Lease[Shard]
    release: Callable[[Fetch], None]
    address: str = ""
    robots_url: str = ""
    refusal: str = ""
    robots_line: str = ""
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
    history: History | None = None

    def bind(self, request: Request) -> Request:
        """*request*, which is sent for this contact."""
        request.meta["fetch"] = self
        self.request_id = id(request)
        return request

    def begin_download(self) -> None:
        """The request goes to the protocol module now."""
        assert self.sent_at is None, self.url
        assert not self.is_released, self.url
        self.sent_at, self.sent_wall = now(), round(wall_time(), 6)

    def transferred(self, result: Response | Exception | None) -> None:
        """Note the result of the transfer before any middleware sees it; None if it was broken
        off."""
        self.on_wire = result
        if self.sent_at is not None:
            self.took = now() - self.sent_at

    def end_download(self, result: Response | Request | Exception | None) -> None:
        """The download is over, with what the middlewares made of it: a Request takes this one's
        place; None if it was broken off, or not begun."""
        if isinstance(result, Response):
            self.response = result
        if isinstance(result, Response | Exception):
            self.outcome = self.refusal or outcome_of(result)
        elif result is not None:
            self.outcome = "replaced"
        self.release_host()

    def release_host(self) -> None:
        """Nothing more goes over the wire for this request: give the host back, once."""
        if not self.is_released:
            self.is_released = True
            self.release(self)
            self.on_wire = None

    def expire(self) -> None:
        """The frontier has taken URL and host back: what still comes is too late."""
        self.page.becomes(PageState.EXPIRED)
        self.is_released = True

    def end(self) -> None:
        """The engine is through with the request. A page must not wait for the garbage collector,
        and a later request may get the id of this one."""
        self.response = self.on_wire = None
        self.request_id = 0

    @property
    def url(self) -> str:
        """The URL that is requested."""
        return self.robots_url or self.lease.entry.url

    @property
    def answer(self) -> Answer | None:
        """The facts of the answer for the next visit; None without one."""
        response, page = self.response, self.page
        if response is None:
            return None
        found = validators(response.headers)
        copy = None
        if page.document:
            copy = History(
                stored_at=self.sent_wall,
                content=page.tested,
                is_duplicate=page.is_duplicate,
                etag=found.get("etag", ""),
                modified=found.get("modified", ""),
                links=page.links,
                text=page.text,
            )
        return Answer(response.status, page.visit, page.is_same, found, copy)

    @property
    def holds_url(self) -> bool:
        """Whether the URL is leased for it, not only the host."""
        if self.page.state is PageState.EXPIRED:
            return False
        return not self.robots_url or self.lease.entry.kind == ROBOTS_REDIRECT

    @property
    def is_for_page(self) -> bool:
        """Whether a page of the crawl was asked for."""
        return not (self.robots_url or self.refusal or self.lease.entry.kind in NO_URLS)

    @property
    def is_walled(self) -> bool:
        """Whether the answer stands in the place of a document."""
        return self.outcome in WALLS

    @property
    def is_last(self) -> bool:
        """Whether no other URL of its host waits in the back end."""
        lease = self.lease
        return not self.robots_url and not lease.shard.frontier.has_more(lease.key)

    @property
    def received_bytes(self) -> int:
        """Of the answer's body as it came over the wire."""
        if self.response is None:
            return 0
        return len(self.response.meta.get("wire_body", self.response.body))

    @property
    def reached_host(self) -> bool:
        """Whether the host may have noticed: something was sent, or tried to be, to an address."""
        return self.sent_at is not None and not self.outcome.startswith("dns_")


def fetch_of(request: Request) -> Fetch | None:
    """The Fetch that *request* was made for.

    None for a request that did not come from the frontier, also when it carries the meta of one
    that did: a spider may hand ``response.meta`` on to a download of its own.
    """
    fetch: Fetch | None = request.meta.get("fetch")
    return fetch if fetch is not None and fetch.request_id == id(request) else None
