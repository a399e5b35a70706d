"""Walls of hosts: answers that stand in a page's place, by rules and by what a host has shown.

The rules are in net/walls.py. A header decides alone. A body that has a wall's marks only flags,
until three URLs of its host gave the same shape. A *soft error* (404 in the shape of 200) is
learned without a contact (Bar-Yossef et al. 2004 ask for a name drawn by lot): pages under an
outline that the host had before share one shape, and three of their URLs are unlike. Pages that
are equal to the byte are left to the content-seen test.

What was seen is in the host's record: the last eight outlines, eight shapes and the counts of
answers. It survives a restart as the record does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xxhash import xxh3_64_intdigest

from webcrawl.hosts.records.host_record import WallShape
from webcrawl.net.content_type import content_type_of
from webcrawl.net.walls import (
    CHALLENGED,
    MAX_BODY,
    SOFT_ERROR,
    WALLS,
    body_wall,
    header_wall,
    outline_of,
    shape_of,
    words_below,
)
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

    from webcrawl.hosts.records import HostRecord, HostRecords

_ENOUGH_URLS: Final = 3
_SHAPES: Final = 8
_OUTLINES: Final = 8
_OUTLINE_BYTES: Final = 4
# Pages of a host whose marks are looked for; of later ones only under an outline that came before.
_FIRST_PAGES: Final = 8
# Without a Content-Type, too.
_HTML: Final = frozenset({"", "text/html", "application/xhtml+xml"})


class Walls:
    """The walls of the hosts in *records*. *count* is called with the stats' names."""

    def __init__(self, *, records: HostRecords, count: Callable[[str], object]) -> None:
        self._records = records
        self._count = count

    def judge(self, url: str, response: Response, *, is_robots: bool = False) -> str:
        """The outcome of WALLS that *response* to *url* is; "" if it is none. In answer to
        robots.txt only a challenge is one, which its marks show alone: no such file has them.

        9 us; 30 us for each of a host's first pages; 1.1 ms where the outline came before (16 kB).
        Raises what the records raise.
        """
        if not url.startswith("http"):
            return ""
        outcome = header_wall(url, response)
        if is_robots:
            outcome = outcome or body_wall(response.body)
            outcome = outcome if outcome == CHALLENGED else ""
        record = None
        if not outcome and not is_robots and _is_html(response):
            record = self._records.get(host_of(url))
            outcome = self._learned(record, url, response)
        if outcome:
            self._note(record or self._records.get(host_of(url)), outcome)
        return outcome

    def _note(self, record: HostRecord, outcome: str) -> None:
        if not record.walled:
            record.walled = [0] * len(WALLS)
            self._count("walls/hosts")
        record.walled[WALLS.index(outcome)] += 1
        self._records.put(record)

    def _learned(self, record: HostRecord, url: str, response: Response) -> str:
        body = response.body
        is_known = self._is_known(record, body)
        if not is_known and record.pages >= _FIRST_PAGES:
            return ""
        outcome = body_wall(body)
        if not outcome and (response.status != 200 or not is_known):
            return ""
        shape = shape_of(body, url, scripts=outcome != CHALLENGED)
        if outcome:
            marks = [xxh3_64_intdigest(url.encode()) & 0xFFFFFFFF]
        elif shape.has_text:
            outcome, marks = SOFT_ERROR, words_below(url)
            # What is the same to the byte is alike, too: beyond the words' 16 bits.
            marks = marks and [*marks, xxh3_64_intdigest(body) & 0xFFFFFFFF | 1 << 32]
        else:
            return ""
        known = _found(record.walls, shape.fingerprint, outcome)
        is_unlike = all(set(marks).isdisjoint(others) for others in known.urls)
        if marks and is_unlike and len(known.urls) < _ENOUGH_URLS:
            known.urls.append(marks)
        if len(record.walls) > _SHAPES:  # of the others, the first with the fewest URLs
            record.walls.remove(min(record.walls[:-1], key=lambda one: len(one.urls)))
        self._records.put(record)
        if len(known.urls) >= _ENOUGH_URLS:
            return outcome
        if outcome != SOFT_ERROR:
            self._count("walls/flagged")
        return ""

    def _is_known(self, record: HostRecord, body: bytes) -> bool:
        """Whether the outline of *body* is among the host's last ones; from now on it is."""
        outline, size = outline_of(body).to_bytes(_OUTLINE_BYTES), _OUTLINE_BYTES
        known = [record.outlines[at : at + size] for at in range(0, len(record.outlines), size)]
        others = [one for one in known if one != outline]
        record.outlines = b"".join([*others, outline][-_OUTLINES:])
        self._records.put(record)
        return len(others) < len(known)


def _found(shapes: list[WallShape], fingerprint: int, outcome: str) -> WallShape:
    """The one of *shapes*, or a new one, which is the last of them then."""
    for one in shapes:
        if one.fingerprint == fingerprint and one.outcome == outcome:
            shapes.remove(one)
            break
    else:
        one = WallShape(fingerprint, outcome)
    shapes.append(one)
    return one


def _is_html(response: Response) -> bool:
    if len(response.body) > MAX_BODY:
        return False
    kind, _ = content_type_of(dict.get(response.headers, b"Content-Type", ()))
    return kind in _HTML
