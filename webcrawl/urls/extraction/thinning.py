"""Thinning of pages that are too rich to build a tree of: only the tags that carry links are kept.

Building the tree that the HTML Standard prescribes takes quadratic time and memory in the worst
case. Measured with Lexbor: 128 kB of ``<ul><li>`` take 1.3 s; 47 kB of unclosed ``<font>`` 2 s and
700 MB; one tag with 1 MB of attributes 30 s. So a page that ``is_rich`` is split at each ``<``, and
only the tags that links need are joined again. The elements they could nest in are gone, and the
tree is flat. This is linear, about 0.15 µs per tag, which the smaller tree saves again on most
pages, and 0.12 s for the worst page of 1 MB. The end of a tag and the number of its attributes are
determined as in the standard; otherwise a page could smuggle in a tag with a thousand times as many
attributes as allowed.

The price: a tag inside a quoted attribute of another tag counts as a tag, an ``<image>`` of SVG as
an ``<img>``, and every template with ``shadowrootmode`` as a shadow root. Other templates,
comments, scripts and other raw text are skipped as in the standard; within SVG and MathML
(``foreign``) there is no raw text.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from webcrawl.urls.extraction.foreign import Foreign
from webcrawl.urls.extraction.tokens import (
    ATTRIBUTE,
    FINISHED,
    NAME,
    RAW_TEXT,
    TEMPLATE,
    comment_end,
    raw_text_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

SAFE_TAGS = 1000
"""Pages with at most this many ``<`` go to the tree builder as they are; it takes at most 30 ms."""

SAFE_BYTES = 20_000
"""Limit of a page that is not thinned: all of it may be one tag with ``<`` in its attributes, which
then takes 30 ms."""

SAFE_TAG_BYTES = 2048
"""Room for 500 attributes, which cost 0.5 ms."""

SAFE_ATTRIBUTES = 250
"""A link with more of them is dropped from a rich page."""

MAX_KEPT = 20_000
"""Link tags that are kept per page; one in ten million pages has more."""

MAX_MARKED = 100_000
"""Tags per page that are examined, kept or not; the page ends after them. They take 0.15 s, and are
20 times the links in a page of 5 MiB."""

# Bytes that are searched for tags in one step, which limits the memory.
_BLOCK = 1 << 18

# The most pieces per page that are joined to finish tags. An attribute with ``<`` in it consists of
# several pieces, and a page of such attributes must not get through without thinning.
_CONTINUATIONS = 500

# The marks of tags. Those from _BASE on may hide what follows, or change its meaning.
_OTHER, _WHOLE, _ANCHOR, _ANCHOR_END, _CLOSED, _IMAGE, _FOREIGN = range(7)
_BASE, _TEMPLATE, _COMMENT, _RAW, _BOGUS = range(7, 12)

_VOID = (b"area", b"link", b"meta", b"frame", b"frameset")
# Kept on request: elements without content, and elements that are closed immediately so that
# nothing nests in them. Some pages write ``image`` for ``img``.
_MORE_VOID = {
    "img": (b"img", b"image", b"input"),
    "source": (b"source",),
    "embed": (b"embed",),
    "track": (b"track",),
}
_MORE_CLOSED = frozenset((b"object", b"form", b"video", b"audio"))
_FOREIGN_ROOTS = (b"svg", b"math", b"/svg", b"/math")
# Elements that count in the document only, and not in a shadow root.
_HEAD = re.compile(rb"<(?:base|meta)\b", re.IGNORECASE)
_MAY_HAVE_BACKGROUND = re.compile(rb"background\s*+=")
_BACKGROUND = re.compile(
    rb"(?:body|table|tbody|td|tfoot|th|thead|tr)[\t\n\f\r /][^>]*?background\s*+=", re.IGNORECASE
)
_RAW_NAME = re.compile(rb"(%b)(?=[\t\n\f\r />])" % b"|".join(sorted(RAW_TEXT)), re.IGNORECASE)
# What may be before a tag: a ``<`` that does not begin a tag, or a tag with its end.
_WHOLE_BEFORE = re.compile(rb"</?+(?:[^A-Za-z]|\Z|[a-z0-9]++>|%b)" % FINISHED.pattern)
# Shortcuts that match most tags with the text after them in half the time, and most anchors.
_USUAL = re.compile(rb'<[A-Za-z]+(?:[ \n]++[A-Za-z-]++="[^"<]*+")*+ ?/?>[^<]*+')
_USUAL_ANCHOR = re.compile(_USUAL.pattern + rb"(</a>)?+")
# End tags, without the ``<``, as numbers, and masks for the bytes in which shorter ones are
# compared.
_SCRIPT_END, _STYLE_END, _SVG_END, _SEVEN, _FIVE = (
    np.array(int.from_bytes(text, "little"), np.uint64)
    for text in (b"/script>", b"/style>", b"/svg>", b"\xff" * 7, b"\xff" * 5)
)


@lru_cache(maxsize=64)
def _marks(elements: frozenset[str]) -> dict[bytes, int]:
    """Return the mark of a piece by its first three bytes, in any case, for one lookup per tag."""
    void = [name for element in elements for name in _MORE_VOID.get(element, ())]
    closed = _MORE_CLOSED & {element.encode() for element in elements}
    marks = {b"!--": _COMMENT}
    for mark, names in (
        (_IMAGE, (b"img", b"image")),
        (_WHOLE, (*_VOID, *void)),
        (_BASE, (b"base",)),
        (_CLOSED, closed),
        (_RAW, RAW_TEXT),
        (_FOREIGN, _FOREIGN_ROOTS),
        (_TEMPLATE, (b"template", b"/template")),
    ):
        for name in names:
            marks |= dict.fromkeys(_cases(name[:3]), mark)
    for letter, end in itertools.product(b"aA", b" \t\n\r\f/>"):
        marks |= {bytes((letter, end, third)): _ANCHOR for third in range(256)}
        marks[bytes((ord("/"), letter, end))] = _ANCHOR_END
    return marks


def _cases(name: bytes) -> Iterator[bytes]:
    return map(bytes, itertools.product(*((char, char ^ 0x20) for char in name)))


def is_rich(body: bytes) -> bool:
    """Return whether the tree of *body* could take long to build: too many tags, or one too long.

    Each stretch as long as a dangerous tag is searched for its last ``<``. Takes 5 µs for a page of
    20 kB; 12 with ``bytes.count``.
    """
    if len(body) > SAFE_BYTES:
        return True
    if np.count_nonzero(np.frombuffer(body, np.uint8) == ord("<")) > SAFE_TAGS:
        return True
    start = 0
    while start + SAFE_TAG_BYTES <= len(body):
        start = body.rfind(b"<", start, start + SAFE_TAG_BYTES) + 1
        if start == 0:
            return True
    return False


def thin(body: bytes, elements: frozenset[str] = frozenset(), *, styles: bool = False) -> bytes:
    """Return the links of the HTML *body*, with the texts and images of anchors, and little else.

    *elements* are the names of further elements to keep that are links themselves
    (``kinds.KINDS``). With *styles*, tags with a ``url()`` in their ``style`` are kept, too.
    """
    return _Thinning(body, elements, styles=styles).kept()


class _Thinning:
    """One pass over a page."""

    def __init__(self, body: bytes, elements: frozenset[str], *, styles: bool) -> None:
        self._body = body
        self._elements = elements
        self._styles = styles
        # Whether every tag has to be examined.
        self._examines_all = styles or (
            "img" in elements and _MAY_HAVE_BACKGROUND.search(body.lower()) is not None
        )
        self._raw_links = frozenset(name.encode() for name in elements & {"script"}) | {b"iframe"}
        self._dropped = _dropped(self._raw_links | {b"style"} if styles else self._raw_links)
        self._foreign = Foreign(body)
        self._budget = _CONTINUATIONS
        self._kept: list[bytes] = []
        self._tags = 0  # number of kept tags
        self._in_anchor = False  # whether this is inside an anchor
        # For each open template: the number of pieces kept before, whether it is in an anchor, and
        # whether it is a shadow root.
        self._templates: list[tuple[int, bool, bool]] = []
        self._skipped_until = 0  # where the last comment or raw text ended

    def kept(self) -> bytes:
        """Return the part of the page that is kept."""
        body, kept = self._body, self._kept
        # By mark. Each gets the position of a tag, and returns up to where it has read the page.
        readers = [
            *(self._other, self._link, self._anchor, self._anchor_end, self._closed, self._image),
            *(self._other, self._base, self._template, self._comment, self._raw, self._bogus),
        ]
        foreign, is_whole = self._foreign, _WHOLE_BEFORE.match
        position = 0
        has_roots = False
        blocks = _candidates(body, self._elements, every=self._examines_all)
        candidates = itertools.chain.from_iterable(blocks)
        for start, mark, before in itertools.islice(candidates, MAX_MARKED):
            if start < position:
                continue  # within a part that was skipped
            if self._in_anchor and position < start:
                kept += _texts(body[position:start])
            if (
                mark >= _BASE
                and before >= self._skipped_until
                and is_whole(body, before, start) is None
            ):
                position = _next_tag(body, start + 1)  # inside a tag
                continue
            if mark == _FOREIGN:
                foreign.note_root(start)
                has_roots = True
                if not self._examines_all:
                    position = start  # the text after it is read like that after any tag
                    continue
            position = readers[mark](start)
            if self._tags >= MAX_KEPT:
                break
        else:
            if self._in_anchor:
                kept += _texts(body[position:])
        while self._templates:
            self._leave_template()
        page = b"".join(kept)
        # SVG may use XLink for its links, which has no meaning outside of SVG.
        return page.replace(b" xlink:href=", b" href=") if has_roots else page

    def _other(self, start: int) -> int:
        end = _next_tag(self._body, start + 1)
        if self._in_anchor or self._examines_all:
            piece = self._body[start + 1 : end]
            link = _styled(piece) if self._examines_all else b""
            self._tags += bool(link)
            self._kept.append(link + piece[piece.find(b">") + 1 :] if self._in_anchor else link)
        return end

    def _link(self, start: int) -> int:
        match = _USUAL.match(self._body, start)
        if match is not None and match.end() - start < SAFE_TAG_BYTES:
            self._tags += 1
            self._kept.append(match[0])
            return match.end()
        tag, position = self._tag(start)
        if tag:
            self._kept.append(self._body[start:position])
        return position

    def _anchor(self, start: int) -> int:
        match = _USUAL_ANCHOR.match(self._body, start)
        if match is not None and len(tag := match[0]) < SAFE_TAG_BYTES:
            self._tags += 1
            self._kept.append(tag)
            self._in_anchor = match.lastindex is None
            return start + len(tag)
        tags = self._tags
        position = self._link(start)
        if self._tags > tags:
            self._in_anchor = True
        return position

    def _anchor_end(self, start: int) -> int:
        if self._in_anchor:
            self._kept.append(b"</a>")
        self._in_anchor = False
        return start + 1

    def _image(self, start: int) -> int:
        return self._link(start) if self._in_anchor else self._other(start)

    def _closed(self, start: int) -> int:
        """Keep a link element without its content; text after its tag comes after its end."""
        tag, position = self._tag(start)
        if tag:
            name = NAME.match(tag)
            assert name is not None  # as it has a mark
            following = self._body[start + 1 + len(tag) : position]
            self._kept += (b"<", tag, b"</", name[0], b">", following)
        return position

    def _base(self, start: int) -> int:
        return self._other(start) if self._foreign.is_foreign(start) else self._link(start)

    def _template(self, start: int) -> int:
        match = TEMPLATE.match(self._body, start)
        if match is not None and match[1]:
            if self._templates:
                self._leave_template()
        elif match is not None and not self._foreign.is_foreign(start):
            self._templates.append((len(self._kept), self._in_anchor, match[2] is not None))
        return self._other(start)

    def _leave_template(self) -> None:
        """Drop the contents of the innermost template, unless it is a shadow root."""
        first, inside, is_root = self._templates.pop()
        if not is_root:
            del self._kept[first:]
            self._in_anchor = inside
        elif not self._templates:
            self._kept[first:] = [piece for piece in self._kept[first:] if not _HEAD.match(piece)]

    def _comment(self, start: int) -> int:
        return self._skip_to(comment_end(self._body, start))

    def _bogus(self, start: int) -> int:
        is_text = self._body.startswith(b"[CDATA[", start + 2) and self._foreign.is_foreign(start)
        return self._skip_to(_end_of(self._body, b"]]>" if is_text else b">", start))

    def _raw(self, start: int) -> int:
        """Skip an element whose content is text to the parser.

        Its tag is kept if that is a link, and a style sheet is kept with its content.
        """
        body = self._body
        is_foreign = self._foreign.is_foreign(start)
        if not is_foreign and (found := self._dropped.match(body, start)) is not None:
            return self._skip_to(found.end())
        found = _RAW_NAME.match(body, start + 1)
        if found is None:
            return self._other(start)
        name = found[1].lower()
        is_link = name in self._raw_links
        if is_foreign:
            return self._closed(start) if is_link else self._other(start)
        tag = b""
        end = _next_tag(body, start + 1)
        if is_link:
            tag, end = self._tag(start)
            if tag:
                end = start + 1 + len(tag)
        close = raw_text_end(body, end, name)
        if self._styles and name == b"style":
            self._tags += 1
            tag = b"style>" + body[_end_of(body, b">", start) : close]
        if tag:
            self._kept += (b"<", tag, b"</", name, b">")
        return self._skip_to(_end_of(body, b">", close))

    def _skip_to(self, position: int) -> int:
        """Continue at *position*; there was nothing to keep before it."""
        self._skipped_until = position
        if not self._in_anchor:
            return position
        end = _next_tag(self._body, position)
        self._kept.append(self._body[position:end])
        return end

    def _tag(self, start: int) -> tuple[bytes, int]:
        """Return the tag at *start*, without its ``<``, and where the text after it ends.

        The tag is empty if it has too many attributes, or no end in reach: then whatever is kept
        next would become part of it.
        """
        body, first = self._body, start + 1
        end = _next_tag(body, first)
        match = FINISHED.match(body, first, end)
        more = 1
        while match is None:
            more = min(8 * more, self._budget)
            till = end
            for _ in range(more):
                till = _next_tag(body, till + 1)
            match = FINISHED.match(body, first, till)
            if match is not None:
                self._budget -= body.count(b"<", first, match.end())
                end = _next_tag(body, match.end())
            elif more == self._budget or till >= len(body):
                self._budget -= more
                return b"", till
        tag = match[0]
        if len(tag) > SAFE_TAG_BYTES and _attributes(tag) > SAFE_ATTRIBUTES:
            return b"", end
        self._tags += 1
        return tag, end


def _candidates(
    body: bytes, elements: frozenset[str], *, every: bool
) -> Iterator[zip[tuple[int, int, int]]]:
    """Yield for each tag with a mark that is not ``_usual`` its position, mark, and the tag before.

    The last is the position of the previous tag, -1 if there is none. They come in blocks: 19 of 20
    tags are others, and examining each would take longer than all the rest. With *every*, all tags
    are included.
    """
    # Reading past the end returns the last bytes, which never gives a mark of interest.
    data = np.frombuffer(body.ljust(9, b"\0"), np.uint8)
    first, second = _mark_tables(elements)
    last = -1
    for block in range(0, len(body), _BLOCK):
        starts = (data[block : block + _BLOCK] == ord("<")).nonzero()[0]
        if not len(starts):
            continue
        starts += block
        pairs = data[1:].take(starts, mode="clip").astype(np.uint16)
        pairs <<= 8
        pairs |= data[2:].take(starts, mode="clip")
        rows = first.take(pairs)
        known = np.arange(len(starts)) if every else (rows != 0).nonzero()[0]
        marks = second.take(rows.take(known) | data[3:].take(starts.take(known), mode="clip"))
        if not every:
            marked = (marks != 0).nonzero()[0]  # _OTHER is 0
            known, marks = known.take(marked), marks.take(marked)
            if "script" not in elements:
                following = starts.take(known + 1, mode="clip")
                usual = _usual(data, starts.take(known), following)
                closer = (~usual | (marks == _TEMPLATE)).nonzero()[0]
                known, marks = known.take(closer), marks.take(closer)
        before = starts.take(known - 1, mode="clip")
        before[:1][known[:1] == 0] = last
        last = starts[-1]
        yield zip(starts.take(known).tolist(), marks.tolist(), before.tolist(), strict=True)


def _usual(
    data: npt.NDArray[np.uint8], tags: npt.NDArray[np.intp], following: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """Return which of *tags*, those with marks, begin or end an element without other marked tags.

    They are scripts and style sheets closed by the very next tag, one of *following*, whose text is
    left to ``_texts``, and an ``<svg>`` whose ``</svg>`` is the next of *tags*.
    """
    words = np.ndarray(len(data) - 8, "<u8", data, 1, (1,))  # the bytes after each
    own = words[np.minimum(tags, len(words) - 1)]
    close = words[np.minimum(following, len(words) - 1)]
    # Of all names with a mark, only those of these three elements have c, t or v there.
    second = data.take(tags + 2, mode="clip")
    usual: npt.NDArray[np.bool_] = (close == _SCRIPT_END) | (close & _SEVEN == _STYLE_END)
    usual &= second == data.take(following + 3, mode="clip")
    is_svg = (second[:-1] == ord("v")) & (own[1:] & _FIVE == _SVG_END)
    usual[:-1] |= is_svg
    usual[1:] |= is_svg
    return usual


@lru_cache(maxsize=64)
def _mark_tables(
    elements: frozenset[str],
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8]]:
    """Return ``_marks`` as two tables.

    The first two bytes give where a row begins, 0 for none, and the third byte a mark in it.
    """
    marks = _marks(elements)
    pairs = sorted({key[:2] for key in marks})
    first = np.zeros(1 << 16, np.uint16)
    second = np.full((len(pairs) + 2, 256), _OTHER, np.uint8)
    # Bogus comments: <! without dashes, <?, and end tags that do not begin with a letter.
    second[-1] = _BOGUS
    for byte in b"!?":
        first[byte << 8 : (byte + 1) << 8] = len(pairs) + 1
    ends = [byte for byte in range(256) if not bytes((byte,)).isalpha() and byte != ord(">")]
    first[[ord("/") << 8 | byte for byte in ends]] = len(pairs) + 1
    for row, pair in enumerate(pairs, 1):
        first[pair[0] << 8 | pair[1]] = row
        other = _BOGUS if pair == b"!-" else _OTHER
        for third in range(256):
            second[row, third] = marks.get(bytes((*pair, third)), other)
    first <<= 8
    return first, second.ravel()


@lru_cache(maxsize=64)
def _dropped(kept: frozenset[bytes]) -> re.Pattern[bytes]:
    """Return a pattern of raw text elements, with their ends, other than those in *kept*.

    It is a shortcut for most calls of ``_raw``, in half the time.
    """
    names = b"|".join(sorted(RAW_TEXT - kept))
    return re.compile(
        rb"<(%b)(?=[\t\n\f\r />])[^<]*+(?:<(?!/\1[\t\n\f\r />]|!--)[^<]*+)*+</[^>]*+>" % names,
        re.IGNORECASE,
    )


def _next_tag(body: bytes, start: int) -> int:
    """Return the position of the next ``<``, or the end of *body*."""
    found = body.find(b"<", start)
    return found if found >= 0 else len(body)


def _texts(tags: bytes) -> list[bytes]:
    """Return the text after each of *tags*, except in a script or a style sheet."""
    pieces = tags.split(b"<")[1:]
    return [piece[piece.find(b">") + 1 :] for piece in pieces if _RAW_NAME.match(piece) is None]


def _end_of(body: bytes, mark: bytes, start: int) -> int:
    """Return where the next *mark* ends, or the end of *body*."""
    found = body.find(mark, start)
    return found + len(mark) if found >= 0 else len(body)


def _attributes(tag: bytes) -> int:
    """Return the number of attributes of *tag*."""
    match = FINISHED.match(tag)
    assert match is not None  # as only complete tags are passed
    return len(ATTRIBUTE.findall(tag, match.end(1), match.end() - 1))


def _styled(piece: bytes) -> bytes:
    """Return a tag that has ``url()`` or a background, renamed to ``wbr``, or b""."""
    if b"url(" not in piece and b"URL(" not in piece and _BACKGROUND.match(piece) is None:
        return b""
    match = FINISHED.match(piece)
    name = NAME.match(piece)
    if match is None or name is None:
        return b""
    if len(match[0]) > SAFE_TAG_BYTES and _attributes(match[0]) > SAFE_ATTRIBUTES:
        return b""
    return b"<wbr " + match[0][name.end() :]
