"""Reads the Pages in a LARM directory, which this crawler or LARM has written.

store.log lists the pages, the page files contain their bodies, and links.log contains their links
and redirect targets, in nearly the same order. The files are read once, with one page in memory.
Fields that are not in the logs are empty: headers other than Content-Type, the request, times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from webcrawl.items import Page
from webcrawl.jobs.replay.warc_reader import Stored
from webcrawl.net.outcomes import PERMANENT, REDIRECTS
from webcrawl.pipelines.larm.reader import body_of, stored_files
from webcrawl.pipelines.larm.rows import FRAME, REDIRECT
from webcrawl.pipelines.larm.writer import LINKS
from webcrawl.urls import Link

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_KINDS = {FRAME: "frame", REDIRECT: "redirect"}
_MAX_LINE_BYTES = 1 << 20
_MAX_LINKS = 50_000
# How many links are read ahead at most, in addition to those of one page; they take 30 MB.
_MAX_AHEAD = 100_000
# By how many pages the order of links.log may differ from that of store.log.
_MAX_PAGES_LATE = 1000


def larm_pages(directory: Path, *, start: int, max_bytes: int) -> Iterator[Stored]:
    """Yield the pages in *directory* whose lines in store.log begin at offset *start* or later.

    A body longer than *max_bytes* is cut, and the page is marked as truncated. Raises LarmError
    after the last readable page, and OSError if a file cannot be opened.
    """
    with (directory / LINKS).open("rb") as file:
        link_lines = _LinkLines(file)
        for stored, offset in stored_files(directory):
            # The links of skipped pages are read, too, because links.log is read in order.
            page_links = link_lines.of(stored.url)
            if offset < start:
                continue

            body = body_of(directory, stored._replace(size=min(stored.size, max_bytes)))
            media_type = stored.media_type
            page = Page(
                url=stored.url,
                status=stored.status,
                headers=[(b"Content-Type", media_type.encode())] if media_type else [],
                body=body,
                wire_body=body,
                fetched_at=0.0,
                content_type=media_type,
                truncated="length" if stored.size > max_bytes else "",
                links=page_links,
                via=stored.via,
                # Only a seed was not found on another page.
                kind=_KINDS.get(stored.link_type, "a") if stored.via else "seed",
            )
            if stored.status in REDIRECTS and page_links and page_links[0].kind == "redirect":
                page.redirect_target = page_links[0].url
                page.redirect_permanent = stored.status in PERMANENT
            yield Stored(page, offset)


class _LinkLines:
    """Reads links from links.log by page, ahead of store.log.

    LARM's threads may write a page to one log earlier than to the other, or to only one of them.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        # By page, in the order of links.log: the number of the page, and its links.
        self._ahead: dict[str, tuple[int, list[Link]]] = {}
        self._page_count = 0  # pages whose links were read so far
        self._link_count = 0  # links in _ahead
        self._last = ""  # the page of the last line

    def of(self, url: str) -> list[Link]:
        """Return the links found so far for the page *url*; a second call returns none."""
        # Read while the lines are about this page, or until it is found.
        while self._last == url or (url not in self._ahead and self._link_count < _MAX_AHEAD):
            line = self._file.readline(_MAX_LINE_BYTES)
            if not line.endswith(b"\n"):
                break
            fields = line.decode("utf-8", "replace").removesuffix("\n").split("\t")
            if len(fields) == 5:
                self._add(*fields)

        number, links = self._take(url)
        # Forget pages whose turn in store.log must be over: they are not in it.
        while self._ahead and next(iter(self._ahead.values()))[0] < number - _MAX_PAGES_LATE:
            self._take(next(iter(self._ahead)))
        return links

    def _add(self, url: str, target: str, _: str, kind: str, text: str) -> None:
        """Add a line of links.log: a link from *url* to *target*.

        *kind* is LARM's number for the kind of link, one digit; anything else counts as 0.
        """
        self._page_count += url != self._last
        self._last = url
        links = self._ahead.setdefault(url, (self._page_count, []))[1]
        if len(links) < _MAX_LINKS:
            number = int(kind) if kind.isdecimal() and len(kind) == 1 else 0
            links.append(Link(url=target, text=text, kind=_KINDS.get(number, "a")))
            self._link_count += 1

    def _take(self, url: str) -> tuple[int, list[Link]]:
        """Remove the page *url*, and return its number and links; 0 and [] if it is unknown."""
        number, links = self._ahead.pop(url, (0, []))
        self._link_count -= len(links)
        return number, links
