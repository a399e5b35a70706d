"""Walls of hosts: answers that replace a page, found by rules and by comparing a host's pages.

The rules are in net/walls.py. A header that matches a rule is sufficient evidence. A body with the
marks of a wall is only flagged until three URLs of its host have returned the same page; for a URL
that had a document before, one such body is sufficient. A *soft error* (a 404 page with status 200)
is learned without an extra contact (Bar-Yossef et al. 2004 request a random name). It is assumed if
pages have the outline and sample of an earlier page and a common shape, and three of their URLs are
unlike. Pages that are equal byte for byte are left to the content-seen test.

A page with the shape of three others is flagged as *alike*: the URLs that it links to go to the
last level of the front end. If its source is also the same, it is flagged as a soft error, but is
stored all the same. No page is dropped because of something learned, unless its URL had a document
before: that document is kept.

The host's record contains the last eight outlines with their samples, eight shapes and the counts
of answers. They survive a restart like the record.
"""

from __future__ import annotations

from collections.abc import Callable

from scrapy.http import Response
from xxhash import xxh3_64_intdigest

from webcrawl.hosts.records import HostRecord, HostRecords
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
    Shape,
    body_wall,
    header_wall,
    outline_of,
    sample_of,
    shape_of,
    words_below,
)
from webcrawl.urls import host_of

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
    """Detects walls, and learns them for each host in *records*.

    *count* is called with the name of a stat and adds one to it.
    """

    def __init__(self, *, records: HostRecords, count: Callable[[str], object]) -> None:
        self._records = records
        self._count = count

    def judge(
        self, url: str, response: Response, *, is_robots: bool = False, had_document: bool = False
    ) -> str:
        """Return which outcome of WALLS the *response* to *url* has; "" if it is a normal answer.

        With *is_robots* the response is that to robots.txt. Then only a challenge counts, and its
        marks are sufficient, as no such file contains them.

        ALIKE is added to the response's flags if it applies. SOFT_ERROR is added as well, so that
        the page is still stored, unless the URL *had_document* before. Raises what the records
        raise.
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
            outcome = self._learned_outcome(record, url, response, had_document)
        if outcome:
            self._count_wall(record or self._records.get(host_of(url)), outcome)
        return outcome

    def _count_wall(self, record: HostRecord, outcome: str) -> None:
        """Count a wall with this *outcome* in the host's *record*."""
        if not record.walled:
            record.walled = [0] * len(WALLS)
            self._count("walls/hosts")
        record.walled[WALLS.index(outcome)] += 1
        self._records.put(record)

    def _learned_outcome(
        self, record: HostRecord, url: str, response: Response, had_document: bool
    ) -> str:
        """Compare *response* with earlier pages of its host, and return its outcome, or ""."""
        body = response.body
        is_known = self._add_sample(record, url, body)
        is_first = record.pages < _FIRST_PAGES and len(body) <= _SMALL
        outcome = body_wall(body) if is_known or is_first or had_document else ""
        # A page without the marks of a wall may be a soft error if it looks like an earlier page.
        # A URL without words is like all others, so its page cannot be the first of a new shape.
        is_page = is_known and is_success(response.status)
        may_count = is_page and (record.walls or words_below(url))
        if not (outcome or may_count):
            return ""

        # The marks of a URL show whether another URL is unlike it. For walls, all URLs are unlike.
        shape = shape_of(body, url, scripts=outcome != CHALLENGED)
        if outcome:
            marks = [xxh3_64_intdigest(url.encode()) & 0xFFFFFFFF]
        elif shape.has_text:
            outcome = SOFT_ERROR
            marks = words_below(url)
            # Identical bodies are alike, too; their marks are beyond the words' 16 bits.
            marks = marks and [*marks, xxh3_64_intdigest(body) & 0xFFFFFFFF | 1 << 32]
        else:
            return ""

        wall = self._add_shape(record, shape, outcome, marks)
        is_learned = len(wall.urls) >= _ENOUGH_URLS
        if had_document and outcome != SOFT_ERROR:
            # One wall is enough for a URL that had a document. But if pages of other shapes have a
            # login form, too, ordinary documents of this host have one.
            others = [
                known for known in record.walls if known.outcome == WALLED and known is not wall
            ]
            is_learned = outcome == CHALLENGED or not others
        elif is_learned and outcome != CHALLENGED:
            response.flags.append(ALIKE)
            # Pages whose sources differ may have different contents, so they are only alike.
            is_learned = all(shape.source in urls for urls in wall.urls)

        if outcome != SOFT_ERROR:
            if not is_learned:
                self._count("walls/flagged")
        elif is_learned and not had_document:
            response.flags.append(outcome)
            self._count("walls/soft_errors")
        return outcome if is_learned else ""

    def _add_shape(
        self, record: HostRecord, shape: Shape, outcome: str, marks: list[int]
    ) -> WallShape:
        """Add a URL with *marks*, whose page has *shape*, to the host's *record*.

        Returns the entry of the shape, with the URLs that are unlike each other.
        """
        wall = _find_or_add(record.walls, shape.fingerprint, outcome)
        is_unlike = all(set(marks).isdisjoint(others) for others in wall.urls)
        if marks and is_unlike and len(wall.urls) < _ENOUGH_URLS:
            wall.urls.append([*marks, shape.source])
        if len(record.walls) > _SHAPES:  # drop the oldest of the others with the fewest URLs
            record.walls.remove(min(record.walls[:-1], key=lambda other: len(other.urls)))
        self._records.put(record)
        return wall

    def _add_sample(self, record: HostRecord, url: str, body: bytes) -> bool:
        """Add the outline and sample of *body* to the host's *record*.

        Returns whether a recent page of the host had them.
        """
        sample = outline_of(body) + sample_of(body, url)
        is_known = sample in record.samples
        if is_known:
            record.samples.remove(sample)
        record.samples = [*record.samples, sample][-_SAMPLES:]
        self._records.put(record)
        return is_known


def _find_or_add(shapes: list[WallShape], fingerprint: int, outcome: str) -> WallShape:
    """Return the shape with this *fingerprint* and *outcome*, or a new one; move it to the end."""
    for shape in shapes:
        if shape.fingerprint == fingerprint and shape.outcome == outcome:
            shapes.remove(shape)
            break
    else:
        shape = WallShape(fingerprint, outcome)
    shapes.append(shape)
    return shape


def _is_html(response: Response) -> bool:
    """Return whether *response* is an HTML page that is small enough to be examined."""
    if len(response.body) > MAX_BODY:
        return False
    kind, _ = content_type_of(dict.get(response.headers, b"Content-Type", ()))
    return kind in _HTML
