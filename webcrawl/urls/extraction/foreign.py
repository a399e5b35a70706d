"""SVG and MathML in HTML: which tags are in them, where nothing is raw text.

Used by ``thinning`` for the few tags where it matters. Follows the HTML Standard, "the rules for
parsing tokens in foreign content", as far as they decide where such content begins and ends. HTML
tags end it, and some of its elements contain HTML again. The elements around it are not known, so
their end tags do not end it. Linear in the text that is skipped.
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
# The rules by which start tags in an element are read.
_HTML, _SVG, _MATH, _POINT = range(4)
_FOREIGN = (_SVG, _MATH)
_ROOTS = {b"svg": _SVG, b"math": _MATH}
# Foreign elements that contain HTML ("integration points").
_POINTS = {
    _SVG: (b"foreignobject", b"desc", b"title"),
    _MATH: (b"mi", b"mo", b"mn", b"ms", b"mtext"),
}


class Foreign:
    """The open elements of foreign content, at increasing positions in *body*."""

    __slots__ = ("_body", "_latest", "_named", "_open", "_position", "_roots")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0
        # Positions of roots that were not read yet. Most end before ``is_foreign`` is called.
        self._roots: deque[int] = deque()
        self._latest = b""  # the name of the last of them
        self._open: list[tuple[bytes, int]] = []
        self._named: Counter[bytes] = Counter()  # open elements by name

    def note_root(self, start: int) -> None:
        """Note the start or end tag of ``<svg>`` or ``<math>`` at *start*; ignore other tags."""
        match = _ROOT.match(self._body, start)
        if match is None:
            return
        if not match[1]:
            self._roots.append(start)
            self._latest = match[2]
        elif len(self._roots) == 1 and match[2] == self._latest and not self._open:
            self._roots.clear()

    def is_foreign(self, start: int) -> bool:
        """Return whether the start tag at *start* is foreign. Call it with increasing positions."""
        body, roots = self._body, self._roots
        while True:
            if self._open:
                at = body.find(b"<", self._position, start)
                if at < 0:
                    return self._open[-1][1] in _FOREIGN
            else:
                while roots and roots[0] < self._position:
                    roots.popleft()
                if not roots:
                    return False
                at = roots.popleft()
            self._position = self._next(body, at)

    def _next(self, body: bytes, at: int) -> int:
        """Process what begins with the ``<`` *at*, and return where it ends."""
        if body.startswith(b"<!--", at):
            return comment_end(body, at)
        if body.startswith(b"<![CDATA[", at) and self._open[-1][1] in _FOREIGN:
            return body.find(b"]]>", at) % (len(body) + 1)
        ends = body.startswith(b"/", at + 1)
        if not body[at + 1 + ends : at + 2 + ends].isalpha():
            bogus = ends or body[at + 1 : at + 2] in (b"!", b"?")
            return body.find(b">", at) % (len(body) + 1) if bogus else at + 1
        tag = FINISHED.match(body, at + 1 + ends)
        if tag is None:
            return len(body)
        name = tag[1].lower()
        if ends:
            self._end(name)
            return tag.end()
        return self._start(name, tag)

    def _start(self, name: bytes, tag: re.Match[bytes]) -> int:
        within = self._open[-1][1] if self._open else _HTML
        if within in _FOREIGN and (
            name in _BREAKOUT or (name == b"font" and _FONT.search(tag[0]) is not None)
        ):
            self._break_out()
            within = _HTML
        closed = tag[2].endswith(b"/")
        if within in _FOREIGN:
            kind = _POINT if name in _POINTS[within] else within
        elif name in _ROOTS:
            kind = _ROOTS[name]
        elif name in RAW_TEXT:
            return raw_text_end(self._body, tag.end(), name)
        elif not self._open:
            return tag.end()
        else:
            kind = _HTML
            closed = name in _VOID
        if not closed:
            self._open.append((name, kind))
            self._named[name] += 1
        return tag.end()

    def _end(self, name: bytes) -> None:
        if name in _BREAKOUT_ENDS:
            self._break_out()
        if self._named[name]:
            at = len(self._open) - 1
            while self._open[at][0] != name:
                at -= 1
            self._close(at)

    def _break_out(self) -> None:
        while self._open and self._open[-1][1] in _FOREIGN:
            self._close(len(self._open) - 1)

    def _close(self, first: int) -> None:
        """Close all elements from the index *first* on."""
        for name, _ in self._open[first:]:
            self._named[name] -= 1
        del self._open[first:]
