"""Main text of a page: what it says without its navigation, its title, language and rights signals.

Used by ``text`` and ``search_index``; a page that both get is read once. The way of a document::

    body ─► linear scan ─► tree of Resiliparse ─► title, signals
                   │                └───► main text ─► language
                   └───► TEXT_EXTRACTOR=trafilatura ──┘

Building the tree that the HTML Standard prescribes, and looking for the main text in it, take time
that is quadratic in the depth of the document, in the attributes of a tag and in nested formatting,
and Resiliparse holds the interpreter meanwhile: 50 kB of ``<div>`` take 8 s. The scan cuts the page
into the tokens of the standard (urls/extraction/tokens.py), leaves out what has no text of the page
(comments, scripts, styles, SVG) and formatting, and follows the open elements. A sound page goes on
as it is. Beyond the bounds it is markup that is left out, attributes or tags, and not text.
"""

from __future__ import annotations

import codecs
import html
import re
import weakref
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from webcrawl.configuration.values import whole
from webcrawl.errors import FatalError, needs
from webcrawl.items import printable
from webcrawl.urls import normalize
from webcrawl.urls.extraction import charset
from webcrawl.urls.extraction.tokens import ATTRIBUTE, RAW_TEXT, raw_text_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import BaseSettings

    from webcrawl.items import Page

CONTENT_TYPES: Final = ("text/html", "application/xhtml+xml", "text/plain")
DEFAULT_MAX_CHARS: Final = 200_000
EXTRACTORS: Final = ("resiliparse", "trafilatura")
MAX_TITLE_CHARS: Final = 500
MAX_SIGNALS: Final = 20
MAX_SIGNAL_CHARS: Final = 1000
_MAX_METAS: Final = 500
# Bytes of a page without scripts and the like that are read, and of one that is not sound.
_MAX_BYTES: Final = 1 << 21
_MAX_FLAT_BYTES: Final = 1 << 19
# A page with fewer tags is sound: the worst takes 45 ms. In others the elements that are open are
# summed up over all tags, each of which takes as long as _TAG_WORK of them: 50 ms.
_SAFE_TAGS: Final = 1800
_MAX_WORK: Final = 1 << 19
_TAG_WORK: Final = 10
# The share of a page's text that its main text has at least.
_MIN_SHARE: Final = 0.05

_END: Final = rb"(?=[\t\n\f\r />])"
_ATTRIBUTES: Final = rb"[^\t\n\f\r />]*+(?:[\t\n\f\r /]*+%b)%%b[\t\n\f\r /]*+" % re.sub(
    rb"\((?!\?)", b"(?:", ATTRIBUTE.pattern
)
_REST: Final = _ATTRIBUTES % b"*+" + rb"(?:>|\Z)"
_TAG: Final = rb"/?[A-Za-z]" + _REST


def _element(name: bytes, content: bytes = rb"[^<]*+(?:<(?!/NAME)[^<]*+)*+") -> bytes:
    """An element without tags in it, behind its ``<``."""
    named = name + _END
    return named + _REST + content.replace(b"NAME", named) + b"(?:</" + name + _REST + b")?+"


# A script with ``<!--`` and then ``<script`` in it: "script data double escaped state".
_SCRIPT: Final = (
    rb"(?:[^<]++|<!--(?!-*>)(?:[^<-]++|-(?!->)|<script%b(?:[^<-]++|-(?!->)|<(?!/script%b))*+"
    rb"(?:</script)?+|<(?!/NAME))*+|<(?!/NAME))*+"
) % (_END, _END)
# Left out: comments, what is no text of the page, and the tags of formatting, <html> and <body>, of
# which a few make the tree of others large. SVG with its content if it has an end, so that there
# are no elements but HTML's. Kept are pieces between those, of tags with up to 50 attributes.
_LEFT_OUT: Final = (
    rb"b(?:ig|ody)?|code|em|font|html|i(?:frame)?|math|no(?:embed|frames|br)"
    rb"|s(?:cript|tyle|vg|mall|trike|trong)?|t(?:extarea|t|itle)|u|xmp"
)
_PIECE: Final = re.compile(
    rb"((?:[^<]++|<(?:(?![A-Za-z/!?<])|(?!/?(?:%b)%b)/?[A-Za-z]%b>|%b|%b)){1,4096}+)"
    % (_LEFT_OUT, _END, _ATTRIBUTES % b"{0,50}+", _element(b"title"), _element(b"xmp"))
    + rb"|<+(?=<)|<(?:!--(?:-?>|[^-]*+(?:-(?!-!?>)[^-]*+)*+(?:--!?>|\Z))|%b"
    % b"|".join(map(_element, (b"style", b"textarea", b"iframe", b"noembed", b"noframes")))
    + rb"|%b|svg%b[^<]*+(?:<(?!/?svg\b)[^<]*+)*+</svg%b|%b|[!?/][^>]*+>?)?+"
    % (_element(b"script", _SCRIPT), _END, _REST, _TAG)
)
_NAME: Final = re.compile(rb"<(/?[a-z][^\t\n\f\r />]*+)" + _REST)
# Tags that can nest, however they are written.
_NESTING: Final = re.compile(
    rb"<(?!/?(?:a|br|li|link|meta|p|title)%b)%b" % (_END, _TAG), re.IGNORECASE
)
_VOID: Final = frozenset(
    b"area base br col embed frame hr img input link meta param source track wbr".split()
)
# Of these one begins where the last one ends, if it is open.
_SIBLINGS: Final = frozenset(b"dd dt li option p td tr".split())
# In XHTML an element of raw text that closes itself, which it does not in HTML.
_CLOSED: Final = re.compile(rb"<(?:%b|svg)\b[^<>]*+(?<=/)>" % b"|".join(RAW_TEXT))
_LANGUAGE: Final = re.compile(
    rb"""<html\s(?:[^>]*?\s)??(?:xml:)?lang\s*=\s*["']?([A-Za-z]{2,3})\b""", re.IGNORECASE
)
_HEAD_BYTES: Final = 1 << 12
_TITLE, _META, _LINK = (
    re.compile(rb"<%b%b(%b)(?:>|\Z)" % (name, _END, _ATTRIBUTES % b"*+"))
    for name in (b"title", b"meta", b"(?:a|area|link)")
)
_LICENSED: Final = (b"licens", b"creativecommons")
_LICENCE: Final = re.compile(
    r"https?://creativecommons\.org/(?:licenses|publicdomain)/", re.IGNORECASE
)
_LANGUAGE_CHARS: Final = 5000
_CERTAIN: Final = 1200  # distance from a language up to which a text is of that language


class MainText(msgspec.Struct, frozen=True):
    """What a page says, and what it says about its use.

    ``truncated``: whether the text lacks what came behind it.
    ``language``: code of ISO 639-1 by the text, or as ``<html lang>`` says, or empty.
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


# By the id of a page, as long as the page lives. A page goes from module to module, so two of them
# never read it at the same time.
_read_before: Final[dict[int, tuple[weakref.ref[Page], MainText]]] = {}


def reader(settings: BaseSettings) -> Callable[[Page], MainText]:
    """``main_text`` as TEXT_MAX_CHARS and TEXT_EXTRACTOR have it; FatalError if they cannot be."""
    extractor = settings.get("TEXT_EXTRACTOR", EXTRACTORS[0])
    if extractor not in EXTRACTORS:
        raise FatalError(f"TEXT_EXTRACTOR must be {' or '.join(EXTRACTORS)}, not {extractor!r}.")
    needs(extractor, of=f"TEXT_EXTRACTOR={extractor}")
    most = whole(settings, "TEXT_MAX_CHARS", DEFAULT_MAX_CHARS, at_least=1)
    return partial(main_text, max_chars=most, extractor=extractor)


def main_text(page: Page, *, max_chars: int, extractor: str = EXTRACTORS[0]) -> MainText:
    """What *page* says, up to *max_chars* characters. 2 ms for a page of 170 kB, by Trafilatura
    12 ms; nothing is raised for what a page may be."""
    key = id(page)
    known = _read_before.get(key)
    if known is not None and known[0]() is page:
        return known[1]
    found = _read(page, max_chars, extractor)
    _read_before[key] = weakref.ref(page, lambda _: _read_before.pop(key, None)), found
    return found


def _read(page: Page, max_chars: int, extractor: str) -> MainText:
    from resiliparse.parse.html import HTMLTree  # noqa: PLC0415  # of `make modules`

    robots = [f"x-robots-tag: {one}" for one in _headers(page, b"x-robots-tag")]
    tdm = {
        name: next(_headers(page, name.encode()), "") for name in ("tdm-reservation", "tdm-policy")
    }
    title, licences, declared, is_cut = "", [], "", False
    codec = page.codec
    if page.content_type == "text/plain":
        text = charset.decode(page.body, codec)
    else:
        data = page.body.removeprefix(codecs.BOM_UTF8)
        if codec != "utf-8":
            data = charset.decode(page.body, codec).encode("utf-8", "replace")
        if page.content_type == "application/xhtml+xml":
            data = _CLOSED.sub(b" ", data)
        found = _LANGUAGE.search(data, 0, _HEAD_BYTES)
        declared = found[1].decode().lower() if found is not None else ""
        data, is_sound, is_cut = _bounded(data)
        tree = HTMLTree.parse_from_bytes(data, "utf-8")
        title, metas, links = _signals(data)
        licences = _licences(links, page.url)
        for name, content in metas:
            if "bot" in name:
                robots.append(f"{name}: {content}")
            elif name in tdm:
                tdm[name] = tdm[name] or content
        text = _text(tree, data, extractor) if is_sound else _whole_text(tree)
    text = printable(text)
    return MainText(
        title=printable(title[:MAX_TITLE_CHARS]),
        text=text[:max_chars],
        truncated=bool(is_cut or page.body_cut or page.truncated or len(text) > max_chars),
        language=_language(text) or declared,
        robots=tuple(robots[:MAX_SIGNALS]),
        licences=tuple(dict.fromkeys(licences))[:MAX_SIGNALS],
        tdm_reservation=tdm["tdm-reservation"],
        tdm_policy=tdm["tdm-policy"],
    )


def _bounded(source: bytes) -> tuple[bytes, bool, bool]:
    """*source* within the bounds, whether that is sound, and whether its end was cut off."""
    pieces: list[bytes] = []
    size = 0
    for found in _PIECE.finditer(source.lower()):
        start, end = found.span(1)
        if start >= 0:
            pieces.append(source[start:end])
            size += end - start
            if size > _MAX_BYTES:
                break
    page = b"".join(pieces)
    if _is_sound(page):
        return page[:_MAX_BYTES], True, size > _MAX_BYTES
    # One by one, as a search holds the interpreter.
    page = b"".join([_NESTING.sub(b" ", piece) for piece in pieces])
    return page[:_MAX_FLAT_BYTES], False, size > _MAX_BYTES or len(page) > _MAX_FLAT_BYTES


def _is_sound(page: bytes) -> bool:
    """Whether the tree of *page* is soon built and searched.

    The elements that a parser may have open are among those of ``opened``, as one is closed here
    only by its own end tag right behind what it holds, or by a sibling.
    """
    tags = page.count(b"<")
    if tags <= _SAFE_TAGS or tags * _TAG_WORK > _MAX_WORK:
        return tags <= _SAFE_TAGS
    opened, work = [b""], tags * _TAG_WORK
    for name in _NAME.findall(page.lower()):
        if name.startswith(b"/"):
            if opened[-1] == name[1:]:
                del opened[-1]
        elif name not in _VOID and not (name in _SIBLINGS and opened[-1] == name):
            opened.append(name)
        work += len(opened)
    return work <= _MAX_WORK


def _text(tree: Any, page: bytes, extractor: str) -> str:
    """The main text; the whole text where that is next to nothing of it."""
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415  # of `make modules`

    if extractor == "trafilatura":
        from trafilatura import extract  # noqa: PLC0415  # of `make modules`

        text: str = (
            extract(page.decode("utf-8", "replace"), include_comments=False, fast=True) or ""
        )
    else:
        text = extract_plain_text(tree, main_content=True, alt_texts=False).strip()
    # Only seldom is the whole text needed to tell; it has spaces and bullets besides.
    if len(text) < _MIN_SHARE * len(page) and len(text) < 2 * _MIN_SHARE * len(
        tree.body.text or ""
    ):
        everything = _whole_text(tree)
        if len(text) < _MIN_SHARE * len(everything):
            return everything
    return text


def _whole_text(tree: Any) -> str:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415  # of `make modules`

    return str(extract_plain_text(tree, alt_texts=False)).strip()


def _language(text: str) -> str:
    from resiliparse.parse.lang import detect_fast  # noqa: PLC0415  # of `make modules`

    language: str = detect_fast(text[:_LANGUAGE_CHARS], cutoff=_CERTAIN)[0]
    return "" if language == "unknown" else language


def _headers(page: Page, name: bytes) -> Iterator[str]:
    for key, value in page.headers:
        if key.lower() == name:
            yield printable(value[:MAX_SIGNAL_CHARS].decode("latin-1"))


def _signals(page: bytes) -> tuple[str, list[tuple[str, str]], list[tuple[str, str]]]:
    """The title, the names and contents of meta elements, ``rel`` and ``href`` of licences."""
    lower = page.lower()
    title = ""
    metas: list[tuple[str, str]] = []
    links: list[tuple[str, str]] = []
    if (found := _TITLE.search(lower)) is not None:
        text = page[found.end() : raw_text_end(page, found.end(), b"title")]
        title = " ".join(html.unescape(text.decode("utf-8", "replace")).split())
    for found in islice(_META.finditer(lower), _MAX_METAS):
        said = _attributes(page[slice(*found.span(1))])
        if said.get("content"):
            metas.append((said.get("name", "").strip().lower(), printable(said["content"])))
    if any(word in lower for word in _LICENSED):
        for found in _LINK.finditer(lower):
            if len(links) < MAX_SIGNALS and any(word in found[1] for word in _LICENSED):
                said = _attributes(page[slice(*found.span(1))])
                links.append((said.get("rel", ""), said.get("href", "")))
    return title, metas, links


def _attributes(tag: bytes) -> dict[str, str]:
    return {
        name.decode("utf-8", "replace").lower(): html.unescape(
            (double or single or bare).decode("utf-8", "replace")
        )
        for name, double, single, bare in reversed(ATTRIBUTE.findall(tag))
    }


def _licences(links: list[tuple[str, str]], url: str) -> list[str]:
    found = (
        normalize(href, url)
        for rel, href in links
        if "license" in rel.lower().split() or _LICENCE.match(href.strip())
    )
    return [one for one in found if one]
