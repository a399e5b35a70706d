"""Walls of hosts: answers that replace a page, found by rules and by comparing a host's pages.

The rules are in net/walls.py. A header is decisive alone. A body with a wall's marks is only
flagged until three URLs of its host gave the same page; a URL that had a document before needs no
others. A *soft error* (a 404 page with status 200) is learned without an extra contact (Bar-Yossef
et al. 2004 request a random name). Pages whose outline and sample match an earlier page share one
shape, and three of their URLs must be unlike. Pages that are byte for byte equal are left to the
content-seen test.

A page with the shape of three others is *alike*: its links must prove their worth. If it has their
source, too, it is flagged as a soft error, but stored all the same. No page is thrown away because
of something learned, unless its URL had a document before: then that one is kept.

The host's record has the last eight outlines with their samples, eight shapes and the counts of
answers. They survive a restart like the record.
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
# The first pages of a host are searched for marks if they have at most _SMALL bytes; other pages
# only if their sample was seen before.
_FIRST_PAGES = 8
_SMALL = 1 << 12
# A missing Content-Type counts as HTML, too.
_HTML = frozenset({"", "text/html", "application/xhtml+xml"})


class Walls:
    """The walls of the hosts in *records*. *count* is called with the stats' names."""

    def __init__(self, *, records: HostRecords, count: Callable[[str], object]) -> None:
        self._records = records
        self._count = count

    def judge(
        self, url: str, response: Response, *, is_robots: bool = False, had_document: bool = False
    ) -> str:
        """Return the outcome of WALLS that *response* to *url* is; "" if it is a normal answer.

        In answer to robots.txt only a challenge counts, and its marks suffice, as no such file has
        them.

        ALIKE is added to the response's flags if it applies, and SOFT_ERROR unless the URL
        *had_document*: the page is stored then. Raises what the records raise.
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
            # Identical bodies are alike, too; their marks are beyond the words' 16 bits.
            marks = marks and [*marks, xxh3_64_intdigest(body) & 0xFFFFFFFF | 1 << 32]
        else:
            return ""
        known = _find_or_add(record.walls, shape.fingerprint, outcome)
        is_unlike = all(set(marks).isdisjoint(others) for others in known.urls)
        if marks and is_unlike and len(known.urls) < _ENOUGH_URLS:
            known.urls.append([*marks, shape.source])
        if len(record.walls) > _SHAPES:  # drop the first of the others with the fewest URLs
            record.walls.remove(min(record.walls[:-1], key=lambda one: len(one.urls)))
        self._records.put(record)
        is_learned = len(known.urls) >= _ENOUGH_URLS
        if had_document and outcome != SOFT_ERROR:
            # If other shapes have a login, too, it is on ordinary documents of the host.
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
        """Return whether a recent page of the host had this outline and sample; add them."""
        sample = outline_of(body) + sample_of(body, url)
        is_known = sample in record.samples
        if is_known:
            record.samples.remove(sample)
        record.samples = [*record.samples, sample][-_SAMPLES:]
        self._records.put(record)
        return is_known


def _find_or_add(shapes: list[WallShape], fingerprint: int, outcome: str) -> WallShape:
    """Return the shape with this fingerprint and outcome, or a new one, and move it to the end."""
    for shape in shapes:
        if shape.fingerprint == fingerprint and shape.outcome == outcome:
            shapes.remove(shape)
            break
    else:
        shape = WallShape(fingerprint, outcome)
    shapes.append(shape)
    return shape


def _is_html(response: Response) -> bool:
    if len(response.body) > MAX_BODY:
        return False
    kind, _ = content_type_of(dict.get(response.headers, b"Content-Type", ()))
    return kind in _HTML
