"""The item of the crawl: ``Page``, which the spider yields and processing modules receive.

A ``Page`` is one fetched document with all that is known of its fetch: the exchange as it was on
the wire, the decoded document, and its links. Processing modules (item pipelines) may read all of
it and must not change it, because all of them get the same object.
"""

from __future__ import annotations

import base64
import html
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from parsel import Selector

from webcrawl.urls.extraction import charset
from webcrawl.urls.extraction.robots_meta import NO_DIRECTIVES, RobotsDirectives
from webcrawl.urls.link import Link

if TYPE_CHECKING:
    from parsel import SelectorList

__all__ = ["Headers", "Link", "Page", "RobotsDirectives", "Truncation"]

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Header fields as (name, value), in the order and spelling of the wire, repeated ones repeated."""

Truncation: TypeAlias = Literal["", "length", "time", "disconnect"]
"""Why the body is not whole, in the words of WARC-Truncated; empty when it is whole."""


def is_success(status: int) -> bool:
    """Return whether an answer with *status* has what was asked for (RFC 9110, section 15.3).

    With a body, it is a document. All code that asks whether an answer is one asks this.
    """
    return 200 <= status <= 299


# XML has no place for these, and CSV none for half a surrogate pair, which reason phrases may have.
_UNPRINTABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# XHTML is read as HTML: much of it is not well-formed.
_XML_TYPE = re.compile(r"(?:text|application)/xml|(?!application/xhtml\+xml).*\+xml")
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TITLE = re.compile(r"<title(?:\s[^<>]*+)?>([^<]*+)", re.IGNORECASE)
_MAX_TITLE = 1000


def printable(value: str) -> str:
    """*value* with U+FFFD for what XML or UTF-8 cannot hold, as feed exports write text."""
    return _UNPRINTABLE.sub("\ufffd", value)


def _strings(headers: Headers) -> list[list[str]]:
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


# How feed exports write what is neither text nor numbers.
_AS_BASE64 = {"serializer": lambda value: base64.b64encode(value).decode()}
_AS_STRINGS = {"serializer": _strings}
_AS_OBJECTS = {"serializer": msgspec.to_builtins}


@dataclass(slots=True, weakref_slot=True, kw_only=True)
class Page:
    """One fetched document. Bytes are as received, times are seconds, URLs are normalized.

    Feed exports write the fields that are text or numbers. FEED_EXPORT_FIELDS may name any of the
    others, ``text`` and ``title``: bodies are written in base64, headers as pairs, links as
    objects.

    The exchange:

    - ``url``: what was asked for; a redirect is a Page of its own with ``redirect_target``
    - ``method``, ``request_headers``: the request as sent, but for credentials: "(withheld)"
    - ``wire_request``: all bytes of it, its body included; empty if not known, or sent to a proxy
    - ``protocol``: of the response, ``HTTP/1.1`` for instance
    - ``tls``: version and cipher suite, ``TLSv1.3 TLS_AES_128_GCM_SHA256`` for instance; empty
      without TLS
    - ``status``, ``reason``: of the response; the reason phrase may be empty
    - ``headers``: of the response, as received
    - ``wire_head``: its bytes from the status line to the empty line, well-formed or not; empty if
      not known
    - ``wire_body``: the body as it came, after transfer decoding (chunks), before content decoding
      (gzip, br); the same object as ``body`` when it was not encoded
    - ``ip``: the address that was contacted, empty if not known, as through a proxy
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
    - ``links``: of the document, one for each URL, those of the response header first, then in
      document order; with those that are not to be followed (``rel=nofollow``, ``robots.nofollow``)
    - ``links_found``: number of links of an HTML document and its header, before those were dropped
      whose URL is among ``links`` already; no export has it
    - ``repeats``: the links that were dropped, of any document, if a module ``reads_repeats``
    - ``robots``: what the document asks of crawlers in ``<meta name="robots">`` and X-Robots-Tag,
      of all or of this one. A module that makes pages searchable must leave out those with
      ``robots.noindex``, one that shows them those with ``robots.noarchive``
    - ``robots_line``: the line of robots.txt that allowed the URL, empty if none was about it
    - ``redirect_target``: where a redirect points to, empty if nowhere
    - ``redirect_permanent``: whether it moved there for good (301, 308)
    - ``content_fingerprint``: XXH3-64 of ``body``, the same in all crawls; 0 if the content-seen
      test, which has its own by the job's seed, does not know it

    Its place in the crawl:

    - ``depth``: links and redirects from the seed, which has 0
    - ``via``: URL of the page that named this one, empty for a seed
    - ``kind``: how ``via`` named it (see ``urls.link.Kind``)
    - ``rank``: of the host in the seed list, from 1; 0 when unknown
    - ``visit``: what a fetch of a URL that was finished before has found (``unchanged``,
      ``changed``), empty for the first one and where there is no document
    - ``flags``: ``soft_error`` if it may be an error page with status 200, as other URLs of its
      host gave the same; empty otherwise. The text dataset and the search index leave such pages
      out, unless FLAGGED_PAGES is set
    - ``stored_at``: when the last copy of a document that is visited again was fetched, epoch
      seconds; 0 if there is none
    - ``origin``: the crawl's own, by which links of the page are submitted; no export has it
    """

    url: str
    status: int
    headers: Headers = field(metadata=_AS_STRINGS)
    body: bytes = field(metadata=_AS_BASE64)
    wire_body: bytes = field(metadata=_AS_BASE64)
    fetched_at: float
    method: str = "GET"
    request_headers: Headers = field(default_factory=list, metadata=_AS_STRINGS)
    wire_head: bytes = field(default=b"", metadata=_AS_BASE64)
    wire_request: bytes = field(default=b"", metadata=_AS_BASE64)
    protocol: str = "HTTP/1.1"
    tls: str = ""
    reason: str = field(default="", metadata={"serializer": printable})
    ip: str = ""
    download_seconds: float = 0.0
    truncated: Truncation = ""
    body_cut: bool = False
    attempts: int = 0
    content_type: str = ""
    charset: str = ""
    links: list[Link] = field(default_factory=list, metadata=_AS_OBJECTS)
    robots: RobotsDirectives = field(default=NO_DIRECTIVES, metadata=_AS_OBJECTS)
    robots_line: str = field(default="", metadata={"serializer": printable})
    redirect_target: str = ""
    redirect_permanent: bool = False
    content_fingerprint: int = 0
    depth: int = 0
    via: str = ""
    kind: str = "seed"
    rank: int = 0
    visit: str = ""
    stored_at: float = 0.0
    flags: str = ""
    origin: Any = field(default=None, init=False, repr=False, compare=False)
    links_found: int = field(default=0, init=False, repr=False, compare=False)
    repeats: list[Link] = field(default_factory=list, init=False, repr=False, compare=False)
    _selector: Selector | None = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        """Short, as Scrapy logs items that were dropped or could not be processed."""
        return f"<Page {self.status} {self.url} of {len(self.body)} bytes>"

    @property
    def is_document(self) -> bool:
        """Whether the answer is a document: a success (2xx) with a body."""
        return is_success(self.status) and bool(self.body)

    @property
    def codec(self) -> str:
        """Python codec of ``body``: byte order mark, header, declaration in the document, guess."""
        return charset.detect(self.body, declared=self.charset)

    @property
    def text(self) -> str:
        """``body`` as text. Decodes at every access; undecodable bytes become U+FFFD."""
        return charset.decode(self.body, self.codec)

    @property
    def title(self) -> str:
        """The title of an HTML document, if it stands in the first kilobytes; "" without one."""
        if self.content_type not in _HTML:
            return ""
        head = self.body[: charset.HEAD_BYTES]
        found = _TITLE.search(charset.decode(head, charset.detect(head, declared=self.charset)))
        return " ".join(html.unescape(found[1]).split())[:_MAX_TITLE] if found else ""

    @property
    def selector(self) -> Selector:
        """``text`` as a tree, parsed at the first access: HTML, or XML by the Content-Type."""
        if self._selector is None:
            kind = "xml" if _XML_TYPE.fullmatch(self.content_type) else "html"
            self._selector = Selector(text=self.text, type=kind, base_url=self.url)
        return self._selector

    def css(self, query: str) -> SelectorList[Selector]:
        """As Scrapy's ``response.css``."""
        return self.selector.css(query)

    def xpath(self, query: str, **variables: Any) -> SelectorList[Selector]:
        """As Scrapy's ``response.xpath``."""
        return self.selector.xpath(query, **variables)

    def header(self, name: str) -> str | None:
        """Value of the first response header called *name*, in any case; None without one.

        Its bytes are read as Latin-1.
        """
        wanted = name.lower().encode("latin-1", "replace")
        for key, value in self.headers:
            if key.lower() == wanted:
                return value.decode("latin-1")
        return None
