"""One contact of a host: from the moment the frontier handed the host out until the end.

The scheduler makes a Fetch for every request it hands to the engine and puts it into
``request.meta["fetch"]``; the downloader notes in it what happened on the wire; when the engine
is through with the request, the scheduler reads off it what becomes of the URL.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from scrapy.http import Response

from webcrawl.net.outcomes import outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Request

    from webcrawl.frontier import Lease


@dataclasses.dataclass(slots=True)
class Fetch:
    """What is known of the contact so far.

    lease: the frontier's lease of the URL and, until ``release`` is called, of its host.
    release: ``release(fetch)`` gives the host back to the frontier; called exactly once.
    clock: seconds, monotonic.
    address: the only one that may be contacted, as its clock is held; "" for any of the host's.
    robots_url: the robots.txt fetched by this contact in place of the URL; "" for the URL itself.
    sent_at: when the request was handed to the protocol module; None while nothing was sent.
    took: seconds from then to the last byte, or to the failure.
    outcome: one of the names in net/outcomes.py; "" while the download goes on.
    response: the answer, once there is one.
    request_id: ``id`` of the Request that was made for this contact, see ``fetch_of``.
    refusal: why nothing is to be sent, an outcome; "" when the host may be contacted.
    content_fingerprint: of the page's body once the content-seen test has it in process.
    tested_content: of the page's body if the test saw it at all; 0 without.
    is_duplicate: True when it had seen a document with the same bytes.
    redirect_target: where the answer leads; "" if nowhere.
    redirect_refused: why that is not followed: redirect_loop, too_many_redirects; "" otherwise.
    unprocessed: True when a callback or a processing module raised: the document does not count as
        seen.
    raised: True when it was the callback: the page's links were not found, so the URL is tried
        again, as after any error of the program.
    abandoned: True when the download was broken off or the page could not be stored: its URL must
        go back, not be finished.
    expired: True when the frontier took the URL and its host back: what still comes is too late.
    abort: breaks the download off, soon; None when it cannot be.
    on_wire: how the host answered, or what the transfer failed with, whatever middlewares make of
        it; until the host is given back.
    """

    lease: Lease
    release: Callable[[Fetch], None]
    clock: Callable[[], float]
    address: str = ""
    robots_url: str = ""
    sent_at: float | None = None
    took: float = 0.0
    outcome: str = ""
    response: Response | None = None
    released: bool = False
    request_id: int = 0
    refusal: str = ""
    content_fingerprint: int | None = None
    tested_content: int = 0
    is_duplicate: bool = False
    redirect_target: str = ""
    redirect_refused: str = ""
    unprocessed: bool = False
    raised: bool = False
    abandoned: bool = False
    expired: bool = False
    abort: Callable[[], object] | None = None
    on_wire: Response | Exception | None = None

    def begin_download(self) -> None:
        """The request goes to the protocol module now."""
        self.sent_at = self.clock()

    def transferred(self, result: Response | Exception) -> None:
        """What came of the transfer, before any middleware sees it."""
        self.on_wire = result

    def end_transfer(self) -> None:
        """The last byte has come, or the transfer has failed."""
        if self.sent_at is not None:
            self.took = self.clock() - self.sent_at

    def answered(self, answer: Response | Request) -> None:
        """The middlewares are through: a Response, or a Request that takes this one's place."""
        if isinstance(answer, Response):
            self.response = answer
            self.outcome = outcome_of(answer)
        else:
            self.outcome = "replaced"

    def failed(self, error: Exception) -> None:
        """The download, or a middleware before or after it, raised *error*."""
        self.outcome = outcome_of(error)

    def refused(self) -> None:
        """Nothing was asked of the host, and never will be for this request."""
        self.outcome = self.refusal

    @property
    def url(self) -> str:
        """What is asked for."""
        return self.robots_url or self.lease.entry.url

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

    def end_download(self) -> None:
        """Nothing more goes over the wire for this request: give the host back, once."""
        if not self.released:
            self.released = True
            self.release(self)
            self.on_wire = None


def fetch_of(request: Request) -> Fetch | None:
    """The Fetch that *request* was made for.

    None for a request that did not come from the frontier, also when it carries the meta of one
    that did: a spider may hand ``response.meta`` on to a download of its own.
    """
    fetch: Fetch | None = request.meta.get("fetch")
    return fetch if fetch is not None and fetch.request_id == id(request) else None
