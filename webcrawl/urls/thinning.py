"""Reduces a page to the tags that carry links, for pages that are too rich to build a tree of.

Building the tree that the HTML Standard prescribes is quadratic in the worst case, in time and in
memory. Measured with Lexbor: 128 kB of ``<ul><li>`` take 1.3 s; 47 kB of unclosed ``<font>`` take
2 s and 700 MB, because each paragraph reopens all of them; one tag with 1 MB of attributes takes
30 s, because each is compared with all before it. Pages like that exist, by accident and as traps
for crawlers. So a page that ``is_rich`` is cut at its ``<``, and only the tags that links need are
put together again; what they could nest in is gone, and the tree is flat. Linear, about 0.15 µs a
tag, which the smaller tree pays back on most pages; 0.12 s for the worst page of 1 MB. Where a tag
ends and how many attributes it has is told exactly as the standard does, or a page could get a tag
of a thousand times as many past the bound.

The price: a tag written inside a quoted attribute of another tag is taken for a tag, and text
inside ``<template>`` and ``<noscript>`` counts as the page's, and an ``<image>`` of SVG as an
``<img>``. Comments, scripts and other raw text
are skipped as the standard says.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

SAFE_TAGS: Final = 1000
"""Pages with fewer ``<`` than this go to the tree builder whole: it needs at most 30 ms then."""

SAFE_BYTES: Final = 20_000
"""Of a page that goes there whole: all of it may be one tag with ``<`` among its attributes, which
takes 30 ms then."""

SAFE_TAG_BYTES: Final = 2048
"""Room for 500 attributes, which cost 0.5 ms."""

SAFE_ATTRIBUTES: Final = 250
"""A link with more of them is dropped from a rich page."""

MAX_KEPT: Final = 20_000
"""Link tags of one page that are looked at; one in ten million pages has more."""

# How many pieces of all unfinished tags of a page are kept whole at most: an attribute with ``<``
# in it is made of several pieces, and a page of nothing else must not get through unthinned.
_CONTINUATIONS: Final = 500

_OTHER, _WHOLE, _ANCHOR, _ANCHOR_END, _COMMENT, _RAW, _CLOSED, _IMAGE = range(8)

_VOID: Final = (b"area", b"base", b"link", b"meta", b"frame", b"frameset")
# Kept when asked for: elements without content, and elements that are closed at once so that
# nothing nests in them. ``image`` is what some write for ``img``.
_MORE_VOID: Final = {
    "img": (b"img", b"image"),
    "source": (b"source",),
    "embed": (b"embed",),
    "track": (b"track",),
}
_MORE_CLOSED: Final = frozenset((b"object", b"form", b"video", b"audio"))
_RAW_TEXT: Final = frozenset(
    (b"script", b"style", b"textarea", b"title", b"iframe", b"xmp", b"noembed", b"noframes")
)
_NAME: Final = re.compile(rb"[A-Za-z]+")
# An attribute, and a tag: HTML Standard, "tag name state" to "after attribute value (quoted)
# state". A quote that begins a value and has no end goes on to the end of the text; anywhere else
# it is a character of a name or of a value.
_SPACE: Final = rb"[\t\n\f\r ]"
_ATTRIBUTE: Final = re.compile(
    rb"""[^\t\n\f\r />][^\t\n\f\r />=]*+(?:SPACE*+=SPACE*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)"""
    rb"""|[^\t\n\f\r >"'][^\t\n\f\r >]*+|(?=>)|\Z))?+""".replace(b"SPACE", _SPACE)
)
_FINISHED: Final = re.compile(
    rb"([^\t\n\f\r />]*+)(?:[\t\n\f\r /]*+ATTRIBUTE)*+[\t\n\f\r /]*+>".replace(
        b"ATTRIBUTE", _ATTRIBUTE.pattern
    )
)
# Most tags, in half of the time.
_USUAL: Final = re.compile(rb'[A-Za-z]+(?:[ \n]++[A-Za-z-]++="[^"]*+")*+ ?/?>')


@lru_cache(maxsize=64)
def _marks(elements: frozenset[str]) -> dict[bytes, int]:
    """What a piece is by its first three bytes, in every mixture of cases: one look-up per tag."""
    marks = {b"!--": _COMMENT}
    for name in _MORE_VOID["img"]:
        marks |= dict.fromkeys(_cases(name[:3]), _IMAGE)
    more = [name for element in elements for name in _MORE_VOID.get(element, ())]
    for name in (*_VOID, *more):
        marks |= dict.fromkeys(_cases(name[:3]), _WHOLE)
    for name in _MORE_CLOSED & {element.encode() for element in elements}:
        marks |= dict.fromkeys(_cases(name[:3]), _CLOSED)
    for name in _RAW_TEXT:
        marks |= dict.fromkeys(_cases(name[:3]), _RAW)
    for letter, end in itertools.product(b"aA", b" \t\n\r\f/>"):
        marks |= {bytes((letter, end, third)): _ANCHOR for third in range(256)}
        marks[bytes((ord("/"), letter, end))] = _ANCHOR_END
    return marks


def _cases(name: bytes) -> Iterator[bytes]:
    return map(bytes, itertools.product(*((char, char ^ 0x20) for char in name)))


def is_rich(body: bytes) -> bool:
    """Whether the tree of *body* could take long to build: too many tags, or one too long.

    A stretch without ``<`` as long as a dangerous tag contains one of the windows that are looked
    at; most windows end at their first bytes. 5 µs for a page of 20 kB; 12 with ``bytes.count``.
    """
    if len(body) > SAFE_BYTES:
        return True
    if np.count_nonzero(np.frombuffer(body, np.uint8) == ord("<")) > SAFE_TAGS:
        return True
    window = SAFE_TAG_BYTES // 2
    find = body.find
    for start in range(0, len(body) - window + 1, window):  # twice as fast as any()
        if find(b"<", start, start + window) < 0:
            return True
    return False


def thin(body: bytes, elements: frozenset[str] = frozenset(), *, styles: bool = False) -> bytes:
    """The links of the HTML *body*, with their anchors' texts and images, and next to nothing else.

    *elements* are the names of further elements to keep, of those that are links by themselves
    (``kinds.KINDS``); with *styles*, what has a ``url()`` in its ``style`` is kept, too.
    """
    kept: list[bytes] = []
    inside = False
    budget = _CONTINUATIONS
    tags = 0
    raw_links = frozenset(name.encode() for name in elements & {"script"}) | {b"iframe"}
    dropped = _dropped(raw_links | {b"style"} if styles else raw_links).match
    position = 0  # up to which the page was looked at
    for start, mark in _candidates(body, elements, every=styles):
        if start < position:
            continue  # within what was passed over
        if inside and position < start:
            kept += _texts(body[position:start])
        end = position = _next_tag(body, start + 1)
        if mark == _OTHER:
            piece = body[start + 1 : end]
            link = _styled(piece)
            tags += bool(link)
            kept.append(link + piece[piece.find(b">") + 1 :] if inside else link)
        elif mark == _ANCHOR_END:
            if inside:
                kept.append(b"</a>")
            inside = False
        elif mark in (_COMMENT, _RAW):
            if (found := dropped(body, start)) is not None:
                position = found.end()
                continue
            position, link = _passed_over(body, start, end, mark, links=raw_links, styles=styles)
            tags += bool(link)
            kept.append(link)
        elif mark != _IMAGE or inside:
            tag, position, budget = _whole_tag(body, start, end, budget)
            if not tag or (len(tag) > SAFE_TAG_BYTES and _attributes(tag) > SAFE_ATTRIBUTES):
                continue
            inside = inside or mark == _ANCHOR
            kept.append(b"<" + (_closed(tag) if mark == _CLOSED else tag))
            tags += 1
        if tags >= MAX_KEPT:
            return b"".join(kept)
    if inside:
        kept += _texts(body[position:])
    return b"".join(kept)


def _candidates(body: bytes, elements: frozenset[str], *, every: bool) -> Iterator[tuple[int, int]]:
    """Where in *body* a tag with a mark begins, and its mark: all at once, as nine tags in ten have
    none, and to look at each of them takes longer than all the rest. With *every* tag, the others
    are there, too."""
    data = np.frombuffer(body + b"\0\0\0", np.uint8)
    starts = np.flatnonzero(data == ord("<"))
    first, second = _mark_tables(elements)
    rows = first[data[starts + 1].astype(np.uint16) << 8 | data[starts + 2]]
    if not every:
        known = np.flatnonzero(rows)
        starts, rows = starts[known], rows[known]
    marks = second[rows, data[starts + 3]]
    if not every:
        known = np.flatnonzero(marks != _OTHER)
        starts, marks = starts[known], marks[known]
    return zip(starts.tolist(), marks.tolist(), strict=True)


@lru_cache(maxsize=64)
def _mark_tables(
    elements: frozenset[str],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """``_marks`` as tables: the first two bytes give a row, 0 for none, and the third a mark."""
    marks = _marks(elements)
    pairs = sorted({key[:2] for key in marks})
    first = np.zeros(1 << 16, np.uint8)
    second = np.full((len(pairs) + 1, 256), _OTHER, np.uint8)
    for row, pair in enumerate(pairs, 1):
        first[pair[0] << 8 | pair[1]] = row
        for third in range(256):
            second[row, third] = marks.get(bytes((*pair, third)), _OTHER)
    return first, second


def _next_tag(body: bytes, start: int) -> int:
    """Where the next ``<`` is, the end of *body* if there is none."""
    found = body.find(b"<", start)
    return found if found >= 0 else len(body)


def _texts(tags: bytes) -> list[bytes]:
    """What stands behind each of *tags*."""
    return [piece[piece.find(b">") + 1 :] for piece in tags.split(b"<")[1:]]


def _whole_tag(body: bytes, start: int, end: int, budget: int) -> tuple[bytes, int, int]:
    """The tag that begins at *start*, with the text behind it, where that ends, and what is left of
    *budget*: how many more ``<`` such tags may have; the first is at *end*. Without an end in sight
    the tag is empty: whatever is kept next would become part of it."""
    first = start + 1
    if _USUAL.match(body, first, end) is not None or _FINISHED.match(body, first, end) is not None:
        return body[first:end], end, budget
    more = 1
    while True:
        more = min(8 * more, budget)
        till = end
        for _ in range(more):
            till = _next_tag(body, till + 1)
        found = _FINISHED.match(body, first, till)
        if found is not None:
            more = body.count(b"<", first, found.end())
            till = _next_tag(body, found.end())
            return body[first:till], till, budget - more
        if more == budget or till >= len(body):
            return b"", till, budget - more


def _attributes(tag: bytes) -> int:
    """The number of attributes of *tag*, with the text that follows it."""
    found = _FINISHED.match(tag)
    assert found is not None  # only such tags are kept
    return len(_ATTRIBUTE.findall(tag, found.end(1), found.end() - 1))


def _closed(tag: bytes) -> bytes:
    """*tag* and the text that follows it, with the end tag between them."""
    found = _FINISHED.match(tag)
    name = _NAME.match(tag)
    assert found is not None  # only such tags are kept
    assert name is not None  # it has a mark
    return found[0] + b"</" + name[0] + b">" + tag[found.end() :]


def _styled(piece: bytes) -> bytes:
    """A tag with ``url()`` in it under the name of an element that has no content."""
    if b"url(" not in piece and b"URL(" not in piece:
        return b""
    found = _FINISHED.match(piece)
    name = _NAME.match(piece)
    if found is None or name is None or len(found[0]) > SAFE_TAG_BYTES:
        return b""
    return b"<wbr " + found[0][name.end() :]


@lru_cache(maxsize=64)
def _dropped(kept: frozenset[bytes]) -> re.Pattern[bytes]:
    """An element whose content is text to the parser, none of *kept*, and what follows it, if it
    has an end: what ``_passed_over`` finds for most, in half of the time."""
    names = b"|".join(sorted(_RAW_TEXT - kept))
    return re.compile(rb"<(%b)(?![A-Za-z])[^<]*+(?:<(?!/\1)[^<]*+)*+<[^<]*+" % names, re.IGNORECASE)


def _passed_over(
    body: bytes, start: int, end: int, mark: int, *, links: frozenset[bytes], styles: bool
) -> tuple[int, bytes]:
    """Where what follows a comment begins, or an element whose content is text to the parser; and
    what to keep of it. Its tag begins at *start*, and the next one at *end*.

    Elements named in *links* are kept without their content, a style sheet with it.
    """
    first = start + 1
    if mark == _COMMENT:
        close = body.find(b"-->", first)
        return (_next_tag(body, close) if close >= 0 else len(body)), b""
    found = _NAME.match(body, first, end)
    name = found[0].lower() if found is not None else b""
    if name not in _RAW_TEXT:
        return end, b""
    close = body.find(b"</", end)
    while close >= 0 and body[close + 2 : close + 2 + len(name)].lower() != name:
        close = body.find(b"</", close + 2)
    after = _next_tag(body, close + 1) if close >= 0 else len(body)
    is_style = styles and name == b"style"
    if not (is_style or name in links):
        return after, b""
    tag = _FINISHED.match(body, first, end)
    if tag is None or len(tag[0]) > SAFE_TAG_BYTES:
        return after, b""
    kept = body[start : close if close >= 0 else len(body)] if is_style else b"<" + tag[0]
    return after, kept + b"</" + name + b">"
