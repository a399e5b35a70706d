"""Walls of hosts: answers that stand in a page's place, by rules and by what a host has shown.

The rules are in net/walls.py. A header decides alone. A body that has a wall's marks only flags,
until three URLs of its host gave the same page; a URL that had a document needs no others. A *soft
error* (404 in the shape of 200) is learned without a contact (Bar-Yossef et al. 2004 ask for a name
drawn by lot): pages with the outline and the sample of one before share one shape, and three of
their URLs are unlike. Pages that are equal to the byte are left to the content-seen test.

A page with the shape of three others is *alike*: what it links to must prove its worth. If it has
their source, too, it is flagged as a soft error, and stored all the same: what is only learned
throws no page away, unless its URL had a document before, which stays.

What was seen is in the host's record: the last eight outlines with their samples, eight shapes and
the counts of answers. It survives a restart as the record does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

from webcrawl.hosts.records.host_record import WallShape
from webcrawl.items import is_success
from webcrawl.net.content_type import content_type_of
from webcrawl.net.walls import (
    ALIKE,
    CHALLENGED,
    MAX_BODY,
    SOFT_ERROR,
    WALLED,
    WALLS,
    body_wall,
    header_wall,
    outline_of,
    sample_of,
    shape_of,
    words_below,
)
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

    from webcrawl.hosts.records import HostRecord, HostRecords

_ENOUGH_URLS = 3
_SHAPES = 8
_SAMPLES = 8
# Pages of a host, if they have so many bytes at most, whose marks are looked for; of others only if
# the sample came before.
_FIRST_PAGES = 8
_SMALL = 1 << 12
# Without a Content-Type, too.
_HTML = frozenset({"", "text/html", "application/xhtml+xml"})


class Walls:
    """The walls of the hosts in *records*. *count* is called with the stats' names."""

    def __init__(self, *, records: HostRecords, count: Callable[[str], object]) -> None:
        self._records = records
        self._count = count

    def judge(
        self, url: str, response: Response, *, is_robots: bool = False, had_document: bool = False
    ) -> str:
        """The outcome of WALLS that *response* to *url* is; "" if it is none. In answer to
        robots.txt only a challenge is one, which its marks show alone: no such file has them.

        ALIKE becomes one of the response's flags, and SOFT_ERROR unless the URL *had_document*: the
        page is stored then. Raises what the records raise.
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
            outcome = self._learned(record, url, response, had_document)
        if outcome:
            self._note(record or self._records.get(host_of(url)), outcome)
        return outcome

    def _note(self, record: HostRecord, outcome: str) -> None:
        if not record.walled:
            record.walled = [0] * len(WALLS)
            self._count("walls/hosts")
        record.walled[WALLS.index(outcome)] += 1
        self._records.put(record)

    def _learned(self, record: HostRecord, url: str, response: Response, had_document: bool) -> str:
        body = response.body
        is_known = self._is_known(record, url, body)
        is_first = record.pages < _FIRST_PAGES and len(body) <= _SMALL
        outcome = body_wall(body) if is_known or is_first or had_document else ""
        is_page = is_known and is_success(response.status)
        may_count = is_page and (record.walls or words_below(url))
        if not (outcome or may_count):
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
            known.urls.append([*marks, shape.source])
        if len(record.walls) > _SHAPES:  # of the others, the first with the fewest URLs
            record.walls.remove(min(record.walls[:-1], key=lambda one: len(one.urls)))
        self._records.put(record)
        is_learned = len(known.urls) >= _ENOUGH_URLS
        if had_document and outcome != SOFT_ERROR:
            # A login that is in other shapes, too, is on documents of the host.
            others = [one for one in record.walls if one.outcome == WALLED and one is not known]
            is_learned = outcome == CHALLENGED or not others
        elif is_learned and outcome != CHALLENGED:
            response.flags.append(ALIKE)
            is_learned = all(shape.source in urls for urls in known.urls)
        if outcome != SOFT_ERROR:
            if not is_learned:
                self._count("walls/flagged")
        elif is_learned and not had_document:
            response.flags.append(outcome)
            self._count("walls/soft_errors")
        return outcome if is_learned else ""

    def _is_known(self, record: HostRecord, url: str, body: bytes) -> bool:
        """Whether one of the host's last pages had the outline and the sample of *body*; from now
        on one had."""
        seen = outline_of(body) + sample_of(body, url)
        is_known = seen in record.samples
        if is_known:
            record.samples.remove(seen)
        record.samples = [*record.samples, seen][-_SAMPLES:]
        self._records.put(record)
        return is_known


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
