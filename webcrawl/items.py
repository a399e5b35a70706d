"""What the spider yields and the processing modules (item pipelines) receive.

A ``Page`` is one fetched document with everything the crawl knows about how it came: the exchange
as it was on the wire, the decoded document, and its links. Modules may read all of it and must
treat it as read-only, because they all get the same object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from webcrawl.urls import charset
from webcrawl.urls.link import Link
from webcrawl.urls.robots_meta import NO_DIRECTIVES, RobotsDirectives

__all__ = ["Headers", "Link", "Page", "RobotsDirectives", "Truncation"]

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Header fields as (name, value), in the order and spelling of the wire, repeated ones repeated."""

Truncation: TypeAlias = Literal["", "length", "time", "disconnect"]
"""Why the body is not whole, in the words of WARC-Truncated; empty when it is whole."""


@dataclass(slots=True, kw_only=True)
class Page:
    """One fetched document. Bytes are as received, times are seconds, URLs are normalized.

    The exchange:

    - ``url``: what was asked for; a redirect is a Page of its own with ``redirect_target``
    - ``method``, ``request_headers``: the request as sent
    - ``protocol``: of the response, ``HTTP/1.1`` for instance
    - ``status``, ``reason``: of the response; the reason phrase may be empty
    - ``headers``: of the response, as received
    - ``wire_body``: the body as it came, after transfer decoding (chunks), before content decoding
      (gzip, br); the same object as ``body`` when it was not encoded
    - ``ip``: the address that was contacted, empty if not known
    - ``fetched_at``: epoch seconds at which the request was sent
    - ``download_seconds``: from sending the request to the last byte
    - ``truncated``: why the body as received is not whole (``length``, ``time``, ``disconnect``),
      empty if whole
    - ``attempts``: failed attempts before this one

    The document:

    - ``body``: after content decoding; what was received of it when ``truncated``
    - ``body_cut``: whether more was received than PAGE_MAX_BYTES allowed to decode
    - ``content_type``: media type in lower case without parameters, empty if none was sent
    - ``charset``: label of the Content-Type header in lower case, empty if none; see ``codec``
    - ``links``: of the document, each once, those of the response header first, then in document
      order; with those that are not to be followed (``rel=nofollow``, ``robots.nofollow``)
    - ``robots``: what the document asks of crawlers in ``<meta name="robots">`` and X-Robots-Tag,
      of all or of this one. A module that makes pages searchable must leave out those with
      ``robots.noindex``, one that shows them those with ``robots.noarchive``
    - ``redirect_target``: where a redirect points to, empty if nowhere
    - ``redirect_permanent``: whether it moved there for good (301, 308)
    - ``content_fingerprint``: 64-bit fingerprint of ``body`` by the content-seen test, 0 if
      untested

    Its place in the crawl:

    - ``depth``: links and redirects from the seed, which has 0
    - ``via``: URL of the page that named this one, empty for a seed
    - ``kind``: how ``via`` named it (see ``urls.link.Kind``)
    - ``rank``: of the host in the seed list, from 1; 0 when unknown
    """

    url: str
    status: int
    headers: Headers
    body: bytes
    wire_body: bytes
    fetched_at: float
    method: str = "GET"
    request_headers: Headers = field(default_factory=list)
    protocol: str = "HTTP/1.1"
    reason: str = ""
    ip: str = ""
    download_seconds: float = 0.0
    truncated: Truncation = ""
    body_cut: bool = False
    attempts: int = 0
    content_type: str = ""
    charset: str = ""
    links: list[Link] = field(default_factory=list)
    robots: RobotsDirectives = NO_DIRECTIVES
    redirect_target: str = ""
    redirect_permanent: bool = False
    content_fingerprint: int = 0
    depth: int = 0
    via: str = ""
    kind: str = "seed"
    rank: int = 0

    def __repr__(self) -> str:
        """Short, as Scrapy logs items that were dropped or could not be processed."""
        return f"<Page {self.status} {self.url} of {len(self.body)} bytes>"

    @property
    def codec(self) -> str:
        """Python codec of ``body``: byte order mark, header, declaration in the document, guess."""
        return charset.detect(self.body, declared=self.charset)

    @property
    def text(self) -> str:
        """``body`` as text. Decodes at every access; undecodable bytes become U+FFFD."""
        return charset.decode(self.body, self.codec)

    def header(self, name: bytes) -> bytes | None:
        """Value of the first response header called *name*, in any case; None without one."""
        wanted = name.lower()
        for key, value in self.headers:
            if key.lower() == wanted:
                return value
        return None
