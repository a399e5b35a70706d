"""Foreign content in HTML: determines which tags are inside SVG or MathML.

Used by ``thinning`` for the few tags where it matters, because no element in foreign content
contains raw text. Follows the HTML Standard, "the rules for parsing tokens in foreign content", as
far as they determine where such content begins and ends. HTML tags end it, and some of its elements
contain HTML again. The elements around it are not tracked, so their end tags do not end it. Takes
time linear in the text that is skipped.
"""

from __future__ import annotations

import re
from collections import Counter, deque

from webcrawl.urls.extraction.tokens import FINISHED, RAW_TEXT, comment_end, raw_text_end

_ROOT = re.compile(rb"<(/?)(svg|math)(?=[\t\n\f\r />])", re.IGNORECASE)

# Start tags that end foreign content.
_BREAKOUT = frozenset(
    b"b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li"
    b" listing menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul"
    b" var".split()
)
_BREAKOUT_ENDS = (b"br", b"p")
_FONT = re.compile(rb"[\t\n\f\r /](?:color|face|size)(?=[\t\n\f\r />=])", re.IGNORECASE)
_VOID = frozenset(b"area base br col embed hr img input link meta param source track wbr".split())
# The rules by which start tags inside an element are parsed.
_HTML, _SVG, _MATH, _POINT = range(4)
_FOREIGN = (_SVG, _MATH)
_ROOTS = {b"svg": _SVG, b"math": _MATH}
# Foreign elements that contain HTML ("integration points").
_POINTS = {
    _SVG: (b"foreignobject", b"desc", b"title"),
    _MATH: (b"mi", b"mo", b"mn", b"ms", b"mtext"),
}


class Foreign:
    """Tracks the open elements of foreign content, at increasing positions in *body*."""

    __slots__ = ("_body", "_latest", "_open", "_open_by_name", "_position", "_roots")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0
        # Positions of root tags not processed yet. Most roots end before ``is_foreign`` is called.
        self._roots: deque[int] = deque()
        self._latest = b""  # the name of the last of these roots
        self._open: list[tuple[bytes, int]] = []
        self._open_by_name: Counter[bytes] = Counter()  # number of open elements by name

    def note_root(self, start: int) -> None:
        """Record the tag at *start* if it is a start or end tag of ``<svg>`` or ``<math>``."""
        match = _ROOT.match(self._body, start)
        if match is None:
            return
        if not match[1]:
            self._roots.append(start)
            self._latest = match[2]
        elif len(self._roots) == 1 and match[2] == self._latest and not self._open:
            self._roots.clear()

    def is_foreign(self, start: int) -> bool:
        """Return whether the start tag at *start* is in SVG or MathML.

        Must be called with increasing positions.
        """
        body, roots = self._body, self._roots
        while True:
            if self._open:
                tag_start = body.find(b"<", self._position, start)
                if tag_start < 0:
                    return self._open[-1][1] in _FOREIGN
            else:
                while roots and roots[0] < self._position:
                    roots.popleft()
                if not roots:
                    return False
                tag_start = roots.popleft()
            self._position = self._process(body, tag_start)

    def _process(self, body: bytes, tag_start: int) -> int:
        """Process the tag or comment that begins at *tag_start*; return the position of its end."""
        if body.startswith(b"<!--", tag_start):
            return comment_end(body, tag_start)
        if body.startswith(b"<![CDATA[", tag_start) and self._open[-1][1] in _FOREIGN:
            return body.find(b"]]>", tag_start) % (len(body) + 1)
        is_end_tag = body.startswith(b"/", tag_start + 1)
        if not body[tag_start + 1 + is_end_tag : tag_start + 2 + is_end_tag].isalpha():
            is_bogus = is_end_tag or body[tag_start + 1 : tag_start + 2] in (b"!", b"?")
            return body.find(b">", tag_start) % (len(body) + 1) if is_bogus else tag_start + 1
        tag = FINISHED.match(body, tag_start + 1 + is_end_tag)
        if tag is None:
            return len(body)
        name = tag[1].lower()
        if is_end_tag:
            self._end_tag(name)
            return tag.end()
        return self._start_tag(name, tag)

    def _start_tag(self, name: bytes, tag: re.Match[bytes]) -> int:
        """Open the element *name*, unless it has no content; return where its *tag* ends.

        For an element with raw text, returns where that text ends.
        """
        parent_kind = self._open[-1][1] if self._open else _HTML
        if parent_kind in _FOREIGN and (
            name in _BREAKOUT or (name == b"font" and _FONT.search(tag[0]) is not None)
        ):
            self._break_out()
            parent_kind = _HTML

        is_closed = tag[2].endswith(b"/")
        if parent_kind in _FOREIGN:
            kind = _POINT if name in _POINTS[parent_kind] else parent_kind
        elif name in _ROOTS:
            kind = _ROOTS[name]
        elif name in RAW_TEXT:
            return raw_text_end(self._body, tag.end(), name)
        elif not self._open:
            return tag.end()
        else:
            kind = _HTML
            is_closed = name in _VOID
        if not is_closed:
            self._open.append((name, kind))
            self._open_by_name[name] += 1
        return tag.end()

    def _end_tag(self, name: bytes) -> None:
        """Close the innermost open element *name*, and all elements inside it."""
        if name in _BREAKOUT_ENDS:
            self._break_out()
        if self._open_by_name[name]:
            index = len(self._open) - 1
            while self._open[index][0] != name:
                index -= 1
            self._close(index)

    def _break_out(self) -> None:
        """Close the open foreign elements, because an HTML tag ends foreign content."""
        while self._open and self._open[-1][1] in _FOREIGN:
            self._close(len(self._open) - 1)

    def _close(self, first: int) -> None:
        """Close all elements from the index *first* on."""
        for name, _ in self._open[first:]:
            self._open_by_name[name] -= 1
        del self._open[first:]
