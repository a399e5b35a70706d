"""Thinning of pages with too many tags to build a tree: only tags that contain links are kept.

Building the tree that the HTML Standard prescribes takes quadratic time and memory in the worst
case. Measured with Lexbor: 128 kB of ``<ul><li>`` take 1.3 s; 47 kB of unclosed ``<font>`` 2 s and
700 MB; one tag with 1 MB of attributes 30 s. So a page that ``is_rich`` is searched for each ``<``,
and only the tags that are needed for links are kept. The elements in which they could nest are
gone, so the tree is flat. This takes linear time, about 0.15 µs per tag, which the smaller tree
saves again on most pages, and 0.12 s for the worst page of 1 MB. The end of a tag and the number of
its attributes are determined as in the standard. Otherwise a page could smuggle in a tag with a
thousand times as many attributes as allowed.

The price: a tag inside a quoted attribute of another tag counts as a tag, an ``<image>`` in SVG
counts as an ``<img>``, and every template with ``shadowrootmode`` counts as a shadow root. Other
templates, comments, scripts and other raw text are skipped as in the standard; within SVG and
MathML there is no raw text. These last until their end tag: HTML inside them, or a tag of HTML that
ends them in the standard, is not recognized. Then more links may be found than there are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from webcrawl.urls.extraction.tokens import (
    ATTRIBUTE,
    FINISHED,
    NAME,
    RAW_TEXT,
    TEMPLATE,
    comment_end,
    raw_text_end,
)

#: Pages with at most this many ``<`` are not thinned; building their tree takes at most 30 ms.
SAFE_TAGS = 1000

#: Larger pages are always thinned. A page of this size may be a single tag with ``<`` in its
#: attributes; building its tree takes 30 ms.
SAFE_BYTES = 20_000

#: Tags up to this size have at most 500 attributes, which take 0.5 ms.
SAFE_TAG_BYTES = 2048

#: A longer tag with more attributes is dropped from a rich page.
SAFE_ATTRIBUTES = 250

#: Limit of the tags that are kept per page; one in ten million pages has more.
MAX_KEPT = 20_000

#: Limit of the tags that are examined per page, kept or not; the rest of the page is ignored. They
#: take 0.15 s, and are 20 times the links in a page of 5 MiB.
MAX_MARKED = 100_000

# Number of bytes that are searched for tags in one step, which limits the memory.
_BLOCK = 1 << 18

# Limit of the pieces per page that are joined to complete tags. A tag that has ``<`` in an
# attribute consists of several pieces. Without the limit, a page of such tags would not be thinned
# at all.
_CONTINUATIONS = 500

# Marks, which say how a tag is processed. Tags with marks from _BASE on may hide the text after
# them or change its meaning.
_OTHER, _LINK, _ANCHOR, _ANCHOR_END, _CLOSED, _IMAGE, _FOREIGN = range(7)
_BASE, _TEMPLATE, _COMMENT, _RAW, _BOGUS = range(7, 12)

_VOID = (b"area", b"link", b"meta", b"frame", b"frameset")
# Elements that are kept on request. Those in _MORE_VOID have no content. Those in _MORE_CLOSED are
# closed immediately, so that nothing nests in them. Some pages write ``image`` for ``img``.
_MORE_VOID = {
    "img": (b"img", b"image", b"input"),
    "source": (b"source",),
    "embed": (b"embed",),
    "track": (b"track",),
}
_MORE_CLOSED = frozenset((b"object", b"form", b"video", b"audio"))
_FOREIGN_ROOTS = (b"svg", b"math", b"/svg", b"/math")
# Elements that count only in the document, and not in a shadow root.
_HEAD = re.compile(rb"<(?:base|meta)\b", re.IGNORECASE)
_FOREIGN_ROOT = re.compile(rb"<(/?)(svg|math)(?=[\t\n\f\r />])(?![^<>]*/>)", re.IGNORECASE)
_MAY_HAVE_BACKGROUND = re.compile(rb"background\s*+=")
_BACKGROUND = re.compile(
    rb"(?:body|table|tbody|td|tfoot|th|thead|tr)[\t\n\f\r /][^>]*?background\s*+=", re.IGNORECASE
)
_RAW_NAME = re.compile(rb"(%b)(?=[\t\n\f\r />])" % b"|".join(sorted(RAW_TEXT)), re.IGNORECASE)
# Valid text before a tag: a ``<`` that does not begin a tag, or a complete tag.
_COMPLETE_BEFORE = re.compile(rb"</?+(?:[^A-Za-z]|\Z|[a-z0-9]++>|%b)" % FINISHED.pattern)
# Shortcuts that match most tags together with the text after them in half the time; the second one
# also matches most anchors completely.
_USUAL = re.compile(rb'<[A-Za-z]+(?:[ \n]++[A-Za-z-]++="[^"<]*+")*+ ?/?>[^<]*+')
_USUAL_ANCHOR = re.compile(_USUAL.pattern + rb"(</a>)?+")
# End tags, without the ``<``, as numbers, and masks for comparing those with fewer than 8 bytes.
_SCRIPT_END, _STYLE_END, _SVG_END, _SEVEN, _FIVE = (
    np.array(int.from_bytes(text, "little"), np.uint64)
    for text in (b"/script>", b"/style>", b"/svg>", b"\xff" * 7, b"\xff" * 5)
)


@lru_cache(maxsize=64)
def _marks(elements: frozenset[str]) -> dict[bytes, int]:
    """Return the marks of tags by the first three bytes after the ``<``, in all spellings.

    *elements* are the requested kinds of links that are elements.
    """
    void = [name for element in elements for name in _MORE_VOID.get(element, ())]
    closed = _MORE_CLOSED & {element.encode() for element in elements}
    marks = {b"!--": _COMMENT}
    for mark, names in (
        (_IMAGE, (b"img", b"image")),
        (_LINK, (*_VOID, *void)),
        (_BASE, (b"base",)),
        (_CLOSED, closed),
        (_RAW, RAW_TEXT),
        (_FOREIGN, _FOREIGN_ROOTS),
        (_TEMPLATE, (b"template", b"/template")),
    ):
        for name in names:
            marks |= dict.fromkeys(_cases(name[:3]), mark)
    # The name of an anchor has one letter: the second byte ends it, and the third may be any byte.
    for letter, end in itertools.product(b"aA", b" \t\n\r\f/>"):
        marks |= {bytes((letter, end, third)): _ANCHOR for third in range(256)}
        marks[bytes((ord("/"), letter, end))] = _ANCHOR_END
    return marks


def _cases(name: bytes) -> Iterator[bytes]:
    """Yield all spellings of *name* in upper and lower case."""
    return map(bytes, itertools.product(*((char, char ^ 0x20) for char in name)))


def is_rich(body: bytes) -> bool:
    """Return whether the tree of *body* could take long to build.

    That is the case if it has too many tags, or if SAFE_TAG_BYTES in a row contain no ``<`` and so
    may be a single tag. Takes 5 µs for a page of 20 kB, compared with 12 µs for ``bytes.count``.
    """
    if len(body) > SAFE_BYTES:
        return True
    if np.count_nonzero(np.frombuffer(body, np.uint8) == ord("<")) > SAFE_TAGS:
        return True
    # Jump from each "<" to the last one within SAFE_TAG_BYTES after it.
    start = 0
    while start + SAFE_TAG_BYTES <= len(body):
        start = body.rfind(b"<", start, start + SAFE_TAG_BYTES) + 1
        if start == 0:
            return True
    return False


def thin(body: bytes, elements: frozenset[str] = frozenset(), *, styles: bool = False) -> bytes:
    """Return the HTML *body* with little but its links and the texts and images of anchors.

    *elements* are the names of further elements to keep, whose names are kinds of links
    (``kinds.KINDS``). With *styles*, tags with a ``url()`` in their ``style`` are kept, too.
    """
    return _Thinning(body, elements, styles=styles).thin_page()


class _Thinning:
    """A single pass over the page *body*; the arguments are those of ``thin``."""

    def __init__(self, body: bytes, elements: frozenset[str], *, styles: bool) -> None:
        self._body = body
        self._elements = elements
        self._styles = styles
        # Whether every tag has to be examined.
        self._examines_all = styles or (
            "img" in elements and _MAY_HAVE_BACKGROUND.search(body.lower()) is not None
        )
        # Raw text elements that are links, and a pattern of those that are dropped.
        self._raw_links = frozenset(name.encode() for name in elements & {"script"}) | {b"iframe"}
        self._dropped = _raw_text_pattern(
            self._raw_links | {b"style"} if styles else self._raw_links
        )
        # Number of open elements of each kind of foreign content.
        self._foreign = {b"svg": 0, b"math": 0}
        self._budget = _CONTINUATIONS  # pieces that may still be joined to complete tags
        self._pieces: list[bytes] = []  # the parts of the thinned page
        self._kept_tags = 0
        self._in_anchor = False  # whether the current position is inside an anchor
        # For each open template: the number of pieces kept before it, whether it is in an anchor,
        # and whether it is a shadow root.
        self._templates: list[tuple[int, bool, bool]] = []
        self._skipped_until = 0  # where the last comment or raw text ended

    def thin_page(self) -> bytes:
        """Return the thinned page."""
        body = self._body
        pieces = self._pieces
        # The methods for each mark, in the order of the marks. They are passed the position of a
        # tag, and return the position up to which they have processed the page.
        handlers = [
            self._skip_tag,
            self._keep_link,
            self._open_anchor,
            self._close_anchor,
            self._keep_closed,
            self._keep_image,
            self._skip_tag,  # _FOREIGN
            self._keep_base,
            self._process_template,
            self._skip_comment,
            self._skip_raw_text,
            self._skip_bogus_comment,
        ]
        is_complete = _COMPLETE_BEFORE.match
        position = 0
        has_foreign = False
        blocks = _candidates(body, self._elements, every=self._examines_all)
        candidates = itertools.chain.from_iterable(blocks)
        for start, mark, previous_tag in itertools.islice(candidates, MAX_MARKED):
            if start < position:
                continue  # within a part that was skipped
            if self._in_anchor and position < start:
                pieces += _texts(body[position:start])

            # These marks change how the text after them is read. So they count only if the tag
            # before them has ended: otherwise the page could hide its links.
            if (
                mark >= _BASE
                and previous_tag >= self._skipped_until
                and is_complete(body, previous_tag, start) is None
            ):
                position = _next_tag(body, start + 1)  # in an attribute of the previous tag
                continue
            if mark == _FOREIGN:
                self._note_root(start)
                has_foreign = True
                if not self._examines_all:
                    position = start  # the text after it is kept like that after any tag
                    continue

            position = handlers[mark](start)
            if self._kept_tags >= MAX_KEPT:
                break
        else:
            if self._in_anchor:
                pieces += _texts(body[position:])

        while self._templates:
            self._leave_template()
        page = b"".join(pieces)
        # Links in SVG may use XLink, which has no meaning outside SVG.
        return page.replace(b" xlink:href=", b" href=") if has_foreign else page

    def _note_root(self, start: int) -> None:
        """Record that foreign content begins or ends at *start*, unless it is another tag."""
        match = _FOREIGN_ROOT.match(self._body, start)
        if match is not None:
            name = match[2].lower()
            self._foreign[name] = max(0, self._foreign[name] + (-1 if match[1] else 1))

    def _is_foreign(self) -> bool:
        """Return whether the current position is in SVG or MathML."""
        return any(self._foreign.values())

    def _skip_tag(self, start: int) -> int:
        """Drop the tag at *start*, unless its style is a link; keep the text inside an anchor.

        Like the other handlers, returns the position up to which the page is processed.
        """
        end = _next_tag(self._body, start + 1)
        if self._in_anchor or self._examines_all:
            piece = self._body[start + 1 : end]
            link = _styled_tag(piece) if self._examines_all else b""
            self._kept_tags += bool(link)
            self._pieces.append(link + piece[piece.find(b">") + 1 :] if self._in_anchor else link)
        return end

    def _keep_link(self, start: int) -> int:
        """Keep the tag at *start*, a link without content, and the text after it."""
        match = _USUAL.match(self._body, start)
        if match is not None and match.end() - start < SAFE_TAG_BYTES:
            self._kept_tags += 1
            self._pieces.append(match[0])
            return match.end()
        tag, position = self._complete_tag(start)
        if tag:
            self._pieces.append(self._body[start:position])
        return position

    def _open_anchor(self, start: int) -> int:
        """Keep the start tag of an anchor at *start*, and the text after it."""
        match = _USUAL_ANCHOR.match(self._body, start)
        if match is not None and len(tag := match[0]) < SAFE_TAG_BYTES:
            self._kept_tags += 1
            self._pieces.append(tag)
            self._in_anchor = match.lastindex is None  # the end tag was not matched
            return start + len(tag)
        tags_before = self._kept_tags
        position = self._keep_link(start)
        if self._kept_tags > tags_before:
            self._in_anchor = True
        return position

    def _close_anchor(self, start: int) -> int:
        """Keep the end tag of an anchor."""
        if self._in_anchor:
            self._pieces.append(b"</a>")
        self._in_anchor = False
        return start + 1

    def _keep_image(self, start: int) -> int:
        """Keep the image at *start* if it is in an anchor."""
        return self._keep_link(start) if self._in_anchor else self._skip_tag(start)

    def _keep_closed(self, start: int) -> int:
        """Keep the element at *start*, a link, and close it before the text that follows it."""
        tag, position = self._complete_tag(start)
        if tag:
            name = NAME.match(tag)
            assert name is not None  # because it has a mark
            following = self._body[start + 1 + len(tag) : position]
            self._pieces += (b"<", tag, b"</", name[0], b">", following)
        return position

    def _keep_base(self, start: int) -> int:
        """Keep the ``<base>`` at *start*, unless it is in SVG or MathML."""
        return self._skip_tag(start) if self._is_foreign() else self._keep_link(start)

    def _process_template(self, start: int) -> int:
        """Record that a template begins or ends at *start*."""
        match = TEMPLATE.match(self._body, start)
        if match is not None and match[1]:
            if self._templates:
                self._leave_template()
        elif match is not None and not self._is_foreign():
            self._templates.append((len(self._pieces), self._in_anchor, match[2] is not None))
        return self._skip_tag(start)

    def _leave_template(self) -> None:
        """Drop the contents of the innermost template, unless it is a shadow root."""
        first, was_in_anchor, is_root = self._templates.pop()
        if not is_root:
            del self._pieces[first:]
            self._in_anchor = was_in_anchor
        elif not self._templates:  # once is enough, when the outermost template ends
            self._pieces[first:] = [
                piece for piece in self._pieces[first:] if not _HEAD.match(piece)
            ]

    def _skip_comment(self, start: int) -> int:
        """Skip the comment at *start*."""
        return self._skip_to(comment_end(self._body, start))

    def _skip_bogus_comment(self, start: int) -> int:
        """Skip the bogus comment or CDATA section at *start*."""
        is_text = self._body.startswith(b"[CDATA[", start + 2) and self._is_foreign()
        return self._skip_to(_end_of(self._body, b"]]>" if is_text else b">", start))

    def _skip_raw_text(self, start: int) -> int:
        """Skip the element at *start*, whose content the parser reads as text.

        Its tag is kept if it is a link, and a style sheet is kept with its content.
        """
        body = self._body
        is_foreign = self._is_foreign()
        # The usual case.
        if not is_foreign and (match := self._dropped.match(body, start)) is not None:
            return self._skip_to(match.end())
        match = _RAW_NAME.match(body, start + 1)
        if match is None:
            return self._skip_tag(start)

        name = match[1].lower()
        is_link = name in self._raw_links
        if is_foreign:  # there is no raw text in SVG and MathML
            return self._keep_closed(start) if is_link else self._skip_tag(start)

        # The content begins at *end*.
        tag = b""
        end = _next_tag(body, start + 1)
        if is_link:
            tag, end = self._complete_tag(start)
            if tag:
                end = start + 1 + len(tag)

        close = raw_text_end(body, end, name)
        if self._styles and name == b"style":
            self._kept_tags += 1
            tag = b"style>" + body[_end_of(body, b">", start) : close]
        if tag:
            self._pieces += (b"<", tag, b"</", name, b">")
        return self._skip_to(_end_of(body, b">", close))

    def _skip_to(self, position: int) -> int:
        """Continue at *position*, because nothing before it is kept; return the new position."""
        self._skipped_until = position
        if not self._in_anchor:
            return position
        end = _next_tag(self._body, position)
        self._pieces.append(self._body[position:end])
        return end

    def _complete_tag(self, start: int) -> tuple[bytes, int]:
        """Return the tag at *start*, without its ``<``, and the end of the text after it.

        The tag is empty if it has too many attributes, or if its end was not found: then the text
        that is kept next would become part of the tag.
        """
        body = self._body
        first = start + 1
        end = _next_tag(body, first)
        match = FINISHED.match(body, first, end)
        # If the next "<" is in an attribute, the tag is searched for in eight times as many pieces
        # each time, so that all attempts together take linear time.
        piece_count = 1
        while match is None:
            piece_count = min(8 * piece_count, self._budget)
            limit = end
            for _ in range(piece_count):
                limit = _next_tag(body, limit + 1)
            match = FINISHED.match(body, first, limit)
            if match is not None:
                self._budget -= body.count(b"<", first, match.end())
                end = _next_tag(body, match.end())
            elif piece_count == self._budget or limit >= len(body):  # no more pieces may be joined
                self._budget -= piece_count
                return b"", limit
        tag = match[0]
        if len(tag) > SAFE_TAG_BYTES and _attribute_count(tag) > SAFE_ATTRIBUTES:
            return b"", end
        self._kept_tags += 1
        return tag, end


def _candidates(
    body: bytes, elements: frozenset[str], *, every: bool
) -> Iterator[zip[tuple[int, int, int]]]:
    """Yield the position and mark of each tag to examine, and the position of the tag before it.

    Those are the tags with a mark that are not ``_find_skippable``, or with *every*, all tags. The
    position of the previous tag is -1 if there is none. The tags are found in blocks with numpy: 19
    of 20 tags need not be examined, and examining each would take longer than all other steps
    together.
    """
    # Reading past the end returns the last bytes, which never result in a mark of interest.
    data = np.frombuffer(body.ljust(9, b"\0"), np.uint8)
    row_of_pair, mark_table = _mark_tables(elements)
    last_start = -1
    for block_start in range(0, len(body), _BLOCK):
        starts = (data[block_start : block_start + _BLOCK] == ord("<")).nonzero()[0]
        if not len(starts):
            continue
        starts += block_start

        # Look up the first two bytes of all tags, then the third byte of those that may have a
        # mark.
        pairs = data[1:].take(starts, mode="clip").astype(np.uint16)
        pairs <<= 8
        pairs |= data[2:].take(starts, mode="clip")
        rows = row_of_pair.take(pairs)
        indexes = np.arange(len(starts)) if every else (rows != 0).nonzero()[0]
        marks = mark_table.take(
            rows.take(indexes) | data[3:].take(starts.take(indexes), mode="clip")
        )

        if not every:
            marked = (marks != 0).nonzero()[0]  # _OTHER is 0
            indexes = indexes.take(marked)
            marks = marks.take(marked)
            if "script" not in elements:
                following = starts.take(indexes + 1, mode="clip")
                skippable = _find_skippable(data, starts.take(indexes), following)
                not_skippable = (~skippable | (marks == _TEMPLATE)).nonzero()[0]
                indexes = indexes.take(not_skippable)
                marks = marks.take(not_skippable)

        # The tag before the first one of this block is in an earlier block.
        previous_tags = starts.take(indexes - 1, mode="clip")
        previous_tags[:1][indexes[:1] == 0] = last_start
        last_start = starts[-1]
        yield zip(
            starts.take(indexes).tolist(), marks.tolist(), previous_tags.tolist(), strict=True
        )


def _find_skippable(
    data: npt.NDArray[np.uint8], tags: npt.NDArray[np.intp], following: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """Return for each of *tags*, which have marks, whether it need not be examined.

    These are scripts and style sheets that are closed by the very next tag (*following* are the
    tags after each of *tags*), and each ``<svg>`` whose ``</svg>`` is the next of *tags*.
    ``_texts`` removes the text of such scripts and style sheets.
    """
    words = np.ndarray(len(data) - 8, "<u8", data, 1, (1,))  # the 8 bytes after each position
    own_tag = words[np.minimum(tags, len(words) - 1)]
    next_tag = words[np.minimum(following, len(words) - 1)]
    # The second letter: of all names with a mark, only those of these elements have c, t or v here.
    second_letter = data.take(tags + 2, mode="clip")
    skippable: npt.NDArray[np.bool_] = (next_tag == _SCRIPT_END) | (next_tag & _SEVEN == _STYLE_END)
    # The end tag must be that of the same element: its second letter comes after "</s".
    skippable &= second_letter == data.take(following + 3, mode="clip")
    is_svg = (second_letter[:-1] == ord("v")) & (own_tag[1:] & _FIVE == _SVG_END)
    skippable[:-1] |= is_svg
    skippable[1:] |= is_svg
    return skippable


@lru_cache(maxsize=64)
def _mark_tables(
    elements: frozenset[str],
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint8]]:
    """Return ``_marks`` as two tables, for looking up the first three bytes of a tag.

    The first table is indexed by the first two bytes and contains the beginning of a row in the
    second table, 0 for none. The third byte selects a mark in the row.
    """
    marks = _marks(elements)
    pairs = sorted({key[:2] for key in marks})
    row_of_pair = np.zeros(1 << 16, np.uint16)
    # Row 0 is for other tags, and the last one is for bogus comments: <! without dashes, <?, and
    # end tags that do not begin with a letter.
    bogus_row = len(pairs) + 1
    mark_table = np.full((bogus_row + 1, 256), _OTHER, np.uint8)
    mark_table[bogus_row] = _BOGUS
    for byte in b"!?":
        row_of_pair[byte << 8 : (byte + 1) << 8] = bogus_row
    not_letters = [byte for byte in range(256) if not bytes((byte,)).isalpha() and byte != ord(">")]
    row_of_pair[[ord("/") << 8 | byte for byte in not_letters]] = bogus_row
    for row, pair in enumerate(pairs, 1):
        row_of_pair[pair[0] << 8 | pair[1]] = row
        other = _BOGUS if pair == b"!-" else _OTHER
        for third_byte in range(256):
            mark_table[row, third_byte] = marks.get(bytes((*pair, third_byte)), other)
    row_of_pair <<= 8  # the position of a row of 256 in the flat table
    return row_of_pair, mark_table.ravel()


@lru_cache(maxsize=64)
def _raw_text_pattern(kept: frozenset[bytes]) -> re.Pattern[bytes]:
    """Return a pattern that matches raw text elements other than *kept*, with their end tags.

    It is a shortcut that halves the time of most calls of ``_skip_raw_text``. Elements with
    ``<!--`` do not match, because in a comment a script may contain its own end tag.
    """
    name = rb"(%b)" % b"|".join(sorted(RAW_TEXT - kept))
    end_of_name = rb"[\t\n\f\r />]"
    end_tag = rb"/\1" + end_of_name
    # The start tag, text, and all further tags that are neither the end tag nor a comment.
    start_and_text = rb"<%b(?=%b)[^<]*+(?:<(?!%b|!--)[^<]*+)*+" % (name, end_of_name, end_tag)
    # If the text ended at a comment, this does not match.
    return re.compile(start_and_text + rb"</[^>]*+>", re.IGNORECASE)


def _next_tag(body: bytes, start: int) -> int:
    """Return the position of the next ``<`` in *body* from *start* on, or the end of *body*."""
    position = body.find(b"<", start)
    return position if position >= 0 else len(body)


def _texts(tags: bytes) -> list[bytes]:
    """Return the text after each tag in *tags*, except those of scripts and style sheets."""
    pieces = tags.split(b"<")[1:]
    return [piece[piece.find(b">") + 1 :] for piece in pieces if _RAW_NAME.match(piece) is None]


def _end_of(body: bytes, mark: bytes, start: int) -> int:
    """Return the end of the next *mark* in *body* from *start* on, or the end of *body*."""
    position = body.find(mark, start)
    return position + len(mark) if position >= 0 else len(body)


def _attribute_count(tag: bytes) -> int:
    """Return the number of attributes of *tag*."""
    match = FINISHED.match(tag)
    assert match is not None  # because only complete tags are passed
    return len(ATTRIBUTE.findall(tag, match.end(1), match.end() - 1))


def _styled_tag(piece: bytes) -> bytes:
    """Return the tag in *piece* as a ``wbr`` if it has ``url()`` or a background, else b"".

    A ``wbr`` has no content, so nothing nests in it.
    """
    if b"url(" not in piece and b"URL(" not in piece and _BACKGROUND.match(piece) is None:
        return b""
    match = FINISHED.match(piece)
    name = NAME.match(piece)
    if match is None or name is None:
        return b""
    if len(match[0]) > SAFE_TAG_BYTES and _attribute_count(match[0]) > SAFE_ATTRIBUTES:
        return b""
    return b"<wbr " + match[0][name.end() :]
