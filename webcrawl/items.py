"""The item of the crawl: ``Page``, which the spider yields and processing modules receive.

A ``Page`` is one fetched document with everything known about its fetch: the exchange as it was on
the wire, the decoded document, and its links. Processing modules (item pipelines) may read all of
it. They must not change it, because all of them get the same object.
"""

from __future__ import annotations

import base64
import html
import re
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
from parsel import Selector, SelectorList

from webcrawl.rights.statements import NO_RIGHTS, Rights
from webcrawl.urls.extraction import charset
from webcrawl.urls.extraction.robots_meta import NO_DIRECTIVES, RobotsDirectives
from webcrawl.urls.extraction.visible_words import count_words
from webcrawl.urls.link import Link

__all__ = ["Headers", "Link", "Page", "RobotsDirectives", "Truncation"]

#: Header fields as (name, value), in the order and spelling of the wire, with repetitions.
Headers = list[tuple[bytes, bytes]]

#: Why the body is incomplete, in the words of WARC-Truncated; empty when it is complete.
Truncation = Literal["", "length", "time", "disconnect"]


class StoredRecord(NamedTuple):
    """A record in a WARC file: its WARC-Record-ID, and where its document is.

    ``path`` is the name that the file has when it is complete. ``offset`` and ``length`` are bytes
    of the file, compressed. All three are None if the document is in an unknown file.
    """

    record_id: str
    path: str | None
    offset: int | None
    length: int | None


def is_success(status: int) -> bool:
    """Return whether *status* says that the request succeeded (RFC 9110, section 15.3).

    A successful response with a body is a document. All code that tests for success calls this.
    """
    return 200 <= status <= 299


# Characters that XML cannot represent, and halves of surrogate pairs, which UTF-8 cannot represent
# and reason phrases may contain.
_UNPRINTABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# XHTML is parsed as HTML: much of it is not well-formed.
_XML_TYPE = re.compile(r"(?:text|application)/xml|(?!application/xhtml\+xml).*\+xml")
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TITLE = re.compile(r"<title(?:\s[^<>]*+)?>([^<]*+)", re.IGNORECASE)
_MAX_TITLE = 1000


def replace_unprintable(value: str) -> str:
    """Return *value* with U+FFFD in place of characters that XML or UTF-8 cannot represent."""
    return _UNPRINTABLE.sub("\ufffd", value)


def _header_strings(headers: Headers) -> list[list[str]]:
    """Return the names and values of *headers* as text, decoded as Latin-1."""
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


# How feed exports write values that are neither text nor numbers.
_AS_BASE64 = {"serializer": lambda value: base64.b64encode(value).decode()}
_AS_STRINGS = {"serializer": _header_strings}
_AS_OBJECTS = {"serializer": msgspec.to_builtins}


@dataclass(slots=True, weakref_slot=True, kw_only=True)
class Page:
    """One fetched document. Bytes are as received, times are seconds, URLs are normalized.

    Feed exports write the fields that are text or numbers. FEED_EXPORT_FIELDS can add the others,
    and ``text`` and ``title``: bodies are written in base64, headers as pairs, links as objects.

    The exchange:

    - ``url``: the URL requested; a redirect is a separate Page, with ``redirect_target``
    - ``method``, ``request_headers``: the request as sent; credentials are "(withheld)"
    - ``wire_request``: all its bytes with the body; empty if not known, or sent to a proxy
    - ``protocol``: of the response, for instance ``HTTP/1.1``
    - ``tls``: version and cipher suite, for instance ``TLSv1.3 TLS_AES_128_GCM_SHA256``; empty
      without TLS
    - ``status``, ``reason``: of the response; the reason phrase may be empty
    - ``headers``: of the response, as received
    - ``wire_head``: its bytes from the status line to the empty line, well-formed or not; empty if
      not known
    - ``wire_body``: the body as it came, after transfer decoding (chunks), before content decoding
      (gzip, br); the same object as ``body`` when it was not encoded
    - ``ip``: the address contacted; empty if not known, as through a proxy
    - ``fetched_at``: epoch seconds at which the request was sent
    - ``download_seconds``: from sending the request to the last byte
    - ``truncated``: why the body as received is incomplete (``length``, ``time``, ``disconnect``);
      empty if complete
    - ``attempts``: failed attempts before this one

    The document:

    - ``body``: after content decoding; the received part when ``truncated``
    - ``body_cut``: whether PAGE_MAX_BYTES cut off part of what was received
    - ``content_type``: media type in lower case without parameters, empty if none was sent
    - ``charset``: charset of the Content-Type header in lower case, empty if none; see ``codec``
    - ``links``: links of the document, one for each URL: first those of the response header, then
      in document order. Includes links not to be followed (``rel=nofollow``, ``robots.nofollow``)
    - ``links_found``: number of links in an HTML document and its header, repeated URLs included;
      not exported
    - ``repeats``: links whose URL is already in ``links``, if a module ``reads_repeats``
    - ``robots``: what the document asks of all crawlers or of this one, in
      ``<meta name="robots">`` and X-Robots-Tag. A module that makes pages searchable must leave out
      those with ``robots.noindex``; one that shows pages, those with ``robots.noarchive``
    - ``robots_line``: the line of robots.txt that allowed the URL; empty if no rule matched
    - ``rights``: if CRAWL_PURPOSE is set, the purpose and agent as sent, and what the owner says
      about the use of the page (``rights/statements.py``); empty otherwise
    - ``redirect_target``: the target of a redirect, empty if there is none
    - ``redirect_permanent``: whether the redirect is permanent (301, 308)
    - ``content_fingerprint``: XXH3-64 of ``body``, the same in all crawls; 0 if not computed. The
      content-seen test uses another one, seeded by the job

    Its place in the crawl:

    - ``depth``: number of links and redirects from the seed, which has 0
    - ``via``: URL of the page that linked to this one, empty for a seed
    - ``kind``: how ``via`` linked to it (see ``urls.link.Kind``)
    - ``rank``: rank of the host in the seed list, from 1; 0 when unknown
    - ``visit``: result of a repeat visit (``unchanged``, ``changed``); empty for a first visit, and
      if there is no document
    - ``flags``: ``soft_error`` if it may be an error page with status 200, because other URLs of
      its host gave the same document; empty otherwise. The text dataset and the search index leave
      such pages out unless FLAGGED_PAGES is set
    - ``stored_at``: on a repeat visit, when the last stored copy was fetched, in epoch seconds; 0
      if there is none
    - ``rendered``: HTML of the document after its scripts have run; empty if it was not rendered.
      ``text`` and ``title`` go by it if it shows as many words as ``body``. ``links`` and
      ``robots`` are those of both. Not exported unless FEED_EXPORT_FIELDS says so
    - ``warc_record``: the record that contains the document, set by ``WarcPipeline`` for the
      modules after it, and by ``scrapy replay``. None if there is none; not exported
    - ``origin``: internal, used to submit links of the page; not exported
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
    reason: str = field(default="", metadata={"serializer": replace_unprintable})
    ip: str = ""
    download_seconds: float = 0.0
    truncated: Truncation = ""
    body_cut: bool = False
    attempts: int = 0
    content_type: str = ""
    charset: str = ""
    links: list[Link] = field(default_factory=list, metadata=_AS_OBJECTS)
    robots: RobotsDirectives = field(default=NO_DIRECTIVES, metadata=_AS_OBJECTS)
    robots_line: str = field(default="", metadata={"serializer": replace_unprintable})
    rights: Rights = field(default=NO_RIGHTS, metadata=_AS_OBJECTS)
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
    rendered: str = field(default="", metadata={"serializer": replace_unprintable})
    origin: Any = field(default=None, init=False, repr=False, compare=False)
    warc_record: StoredRecord | None = field(default=None, init=False, repr=False, compare=False)
    links_found: int = field(default=0, init=False, repr=False, compare=False)
    repeats: list[Link] = field(default_factory=list, init=False, repr=False, compare=False)
    # By how many words ``rendered`` shows fewer than ``body``; None until that is asked for.
    _words_lost: int | None = field(default=None, init=False, repr=False, compare=False)
    _selector: Selector | None = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        """Return a short form, for Scrapy's log of items that were dropped or that failed."""
        return f"<Page {self.status} {self.url} of {len(self.body)} bytes>"

    @property
    def is_document(self) -> bool:
        """Return whether the response is a document: a success (2xx) with a body."""
        return is_success(self.status) and bool(self.body)

    @property
    def codec(self) -> str:
        """Return the Python codec for ``body``, as declared or guessed.

        A byte order mark comes first, then the Content-Type header, then the document.
        """
        return charset.detect(self.body, declared=self.charset)

    @property
    def documents(self) -> list[tuple[bytes, str]]:
        """Return the document as rendered, if it was, and as received, with declared charsets.

        The one that shows more words is the first.
        """
        documents = [(self.body, self.charset)]
        if self.rendered:
            documents.insert(0, (self.rendered.encode("utf-8", "replace"), "utf-8"))
            if self._words_lost is None:
                self._words_lost = count_words(self.body) - count_words(documents[0][0])
            if self._words_lost > 0:
                documents.reverse()
        return documents

    @property
    def shown(self) -> tuple[bytes, str]:
        """Return the first of ``documents``, which a reader sees."""
        return self.documents[0]

    @property
    def text(self) -> str:
        """Return the document ``shown`` as text.

        It is decoded at every access; undecodable bytes become U+FFFD.
        """
        body, declared = self.shown
        return charset.decode(body, charset.detect(body, declared=declared))

    @property
    def title(self) -> str:
        """Return the title of an HTML document; "" unless it is in the first kilobytes."""
        if self.content_type not in _HTML:
            return ""
        body, declared = self.shown
        beginning = body[: charset.HEAD_BYTES]
        match = _TITLE.search(
            charset.decode(beginning, charset.detect(beginning, declared=declared))
        )
        return " ".join(html.unescape(match[1]).split())[:_MAX_TITLE] if match else ""

    @property
    def selector(self) -> Selector:
        """Return a selector for ``text``, parsed as XML if the Content-Type says so, else as HTML.

        ``text`` is parsed at the first access.
        """
        if self._selector is None:
            selector_type = "xml" if _XML_TYPE.fullmatch(self.content_type) else "html"
            self._selector = Selector(text=self.text, type=selector_type, base_url=self.url)
        return self._selector

    def css(self, query: str) -> SelectorList[Selector]:
        """Select elements with the CSS selector *query*, like Scrapy's ``response.css``."""
        return self.selector.css(query)

    def xpath(self, query: str, **variables: Any) -> SelectorList[Selector]:
        """Select nodes with the XPath expression *query*, like Scrapy's ``response.xpath``."""
        return self.selector.xpath(query, **variables)

    def header(self, name: str) -> str | None:
        """Return the value of the first response header *name*; None if there is none.

        The case of *name* does not matter. The value is decoded as Latin-1.
        """
        lower_name = name.lower().encode("latin-1", "replace")
        for header_name, value in self.headers:
            if header_name.lower() == lower_name:
                return value.decode("latin-1")
        return None
