"""Statements of site owners about the use of a page, with what this crawl said about itself.

Statements come from robots.txt and ``/.well-known/tdmrep.json`` (hosts/robots), and from the page
itself: response headers, ``<meta>`` and ``<link>`` elements in its head, and licences in it. They
are read from the bytes of the page, because documents seen before are not parsed.

No input makes these functions raise; time is linear in the first 64 KiB of a page, of which
only the head is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from webcrawl.configuration.decoding import Epoch  # msgspec reads it
from webcrawl.rights.vocabulary import (
    IMAGE,
    LICENSE,
    REFUSE,
    ROBOTS,
    RSL,
    SIGNAL,
    TDM,
    USAGE,
    verdict_of,
)
from webcrawl.urls.extraction.html import HTML_TYPES
from webcrawl.urls.extraction.robots_meta import directive_texts
from webcrawl.urls.extraction.tokens import attributes_of

#: Source of the statement that a URL may be fetched.
ROBOTS_TXT = "robots.txt"
MAX_STATEMENTS = 32
MAX_TEXT_CHARS = 500
_MAX_READ_CHARS = 4096
_HEAD_BYTES = 1 << 16
# A comment; an element whose content is text; a tag with its attributes; or the first tag that ends
# the head (HTML Standard, "in head").
_TAG = re.compile(
    rb"<(?:!--[^-]*+(?:-(?!->)[^-]*+)*+"
    rb"|(script|style|title|noframes|template|noscript)\b[^<]*+(?:<(?!/\1)[^<]*+)*+"
    rb"|(meta|link|base|basefont|bgsound|html|head)(?=[\s/>])"
    rb"((?:[^>=]++|=\s*+(?:\"[^\"]*+\"?+|'[^']*+'?+)?+)*+)"
    rb"|(/(?:head|body|html|br)\b|[a-z]))",
    re.IGNORECASE,
)
_NOSCRIPT = re.compile(rb"<noscript\b", re.IGNORECASE)
_MAX_ATTRIBUTES = 2000
_STATES = re.compile(rb"name|license", re.IGNORECASE)
_RSL_LIST = re.compile(rb"<(?:\w{1,20}:)?(permits|prohibits)\s([^<>]{0,400})>([^<]{0,500})<")
_HEADERS = {b"content-usage": USAGE, b"content-signal": SIGNAL}


class Statement(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A statement of a site owner.

    source: where it was read, and the source in the table of words, such as ``header tdmrep``.
    text: the statement, at most 500 characters.
    read_at: when it was read, epoch seconds.
    verdict: what it says about the purpose of the crawl: ``allow``, ``refuse`` or "".
    """

    source: str
    text: str
    read_at: Epoch
    verdict: str = ""

    def __str__(self) -> str:
        return f"{self.source}: {self.text or 'no rule applies'}"


class Rights(msgspec.Struct, frozen=True, omit_defaults=True):
    """Proof that is stored with a page: purpose and agent as sent, and the owner's statements.

    purpose, agent: as sent.
    statements: the first is the line of robots.txt that allowed the URL; "" if no rule matched.
    left_out: the first statement that refuses the purpose, if RIGHTS_POLICY leaves such pages out
        of datasets; "" otherwise.
    """

    purpose: str = ""
    agent: str = ""
    statements: tuple[Statement, ...] = ()
    left_out: str = ""

    @property
    def as_json(self) -> str:
        """Return all of it as JSON; "" without a purpose."""
        return msgspec.json.encode(self).decode() if self.purpose else ""


NO_RIGHTS = Rights()


def create_statement(place: str, source: str, text: str, at: float, purpose: str) -> Statement:
    """Return the statement *text* of *source*, read at a *place* such as ``header``."""
    text = text.strip()[:_MAX_READ_CHARS]
    verdict = verdict_of(source, text, purpose)
    return Statement(f"{place} {source}", text[:MAX_TEXT_CHARS], at, verdict)


def refusal_in(statements: Iterable[Statement]) -> str:
    """Return the first of *statements* that refuses, as text; "" if none does."""
    return next((str(each) for each in statements if each.verdict == REFUSE), "")


def page_statements(
    headers: Iterable[tuple[bytes, bytes]],
    body: bytes,
    content_type: str,
    *,
    tokens: tuple[str, ...],
    purpose: str,
    at: float,
) -> list[Statement]:
    """Return the statements in the response *headers* and the *body* of a page.

    *tokens* are the crawler's product tokens, in lower case. Refusals come first.
    """
    robots = IMAGE if content_type.startswith("image/") else ROBOTS
    # Each is a triple of place, source and text.
    found = [
        each for name, value in headers for each in _in_header(name.lower(), value, tokens, robots)
    ]
    if content_type in HTML_TYPES:
        # Without zeros, ASCII text in UTF-16 is ASCII.
        found += _in_head(body[:_HEAD_BYTES].replace(b"\0", b""), tokens)
    statements = [
        create_statement(place, source, text, at, purpose)
        for place, source, text in found
        if text.strip()
    ]
    return sorted(statements, key=lambda each: each.verdict != REFUSE)[:MAX_STATEMENTS]


def _in_header(
    name: bytes, value: bytes, tokens: tuple[str, ...], robots: str
) -> Iterator[tuple[str, str, str]]:
    """Yield place, source and text of each statement in the header *name*.

    *robots* is the source of robots directives.
    """
    text = value.decode("latin-1")
    if name in _HEADERS:
        yield "header", _HEADERS[name], text
    elif name.startswith(b"tdm-"):
        yield "header", TDM, f"{name.decode('latin-1')}={text}"
    elif name == b"x-robots-tag":
        for directives in directive_texts(tokens=tokens, headers=[value]):
            yield "header", robots, directives
    elif name == b"link" and b"license" in value:
        yield "header", LICENSE, text


def _in_head(page: bytes, tokens: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield place, source and text of each statement in the head of *page*."""
    for tag in _TAG.finditer(page):
        text_element, element, attributes_text, end = tag.groups(b"")
        if end:
            return
        if text_element.lower() == b"noscript":
            # The content of <noscript> is markup. Within it, a parser ignores another <noscript>.
            # Read as <html>, which is also ignored, it does not lead to a further recursion.
            yield from _in_head(_NOSCRIPT.sub(b"<html", tag[0][1:]), tokens)
        elif text_element and b"application/rsl+xml" in tag[0]:
            yield from _in_licence(tag[0])
        if not _STATES.search(attributes_text):
            continue  # parsing the attributes takes 2 us
        attributes = attributes_of(attributes_text[:_MAX_ATTRIBUTES])
        name = attributes.get("name", "").strip().lower()
        content = attributes.get("content", "")
        if element.lower() == b"link":
            if "license" in attributes.get("rel", "").lower().split():
                yield "link", LICENSE, attributes.get("href", "")
        elif name.startswith("tdm-"):
            yield "meta", TDM, f"{name}={content}"
        else:
            for directives in directive_texts(tokens=tokens, metas=[(name, content)]):
                yield "meta", ROBOTS, directives


def _in_licence(script: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield the usage words of all RSL licences in *script* as one statement.

    A licence that permits some uses refuses the others (RSL 1.0).
    """
    words = [
        f"{word}={element.decode()}"
        for element, attributes, listed in _RSL_LIST.findall(script)
        if b"usage" in attributes
        for word in re.split(r"[\s,]+", listed.decode("latin-1").strip())
    ]
    if any(word.endswith("permits") for word in words):
        words.insert(0, "others=prohibits")
    yield "page", RSL, ", ".join(words)
