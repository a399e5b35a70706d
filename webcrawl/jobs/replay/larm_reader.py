"""LARM reader: the Pages of a LARM directory, of this crawler or of LARM.

store.log says what the pages are, the page files have their bodies, and links.log, which has the
links of the pages in the same order, where redirects led. One pass, one page in memory. What the
logs do not have is empty: headers but the Content-Type, the request, times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

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

_KINDS: Final = {FRAME: "frame", REDIRECT: "redirect"}
_MAX_LINE_BYTES: Final = 1 << 20
_MAX_LINKS: Final = 50_000


def larm_pages(directory: Path, *, start: int, max_bytes: int) -> Iterator[Stored]:
    """The pages of *directory* whose lines in store.log begin at the offset *start* or later.

    *max_bytes* bounds each body; of a longer one the rest is left out, and the page marked as
    truncated. LarmError after the last readable page, OSError if a file cannot be opened.
    """
    with (directory / LINKS).open("rb") as file:
        links = _LinkLines(file)
        for stored, offset in stored_files(directory):
            found = links.of(stored.url)
            if offset < start:
                continue
            body = body_of(directory, stored._replace(size=min(stored.size, max_bytes)))
            page = Page(
                url=stored.url,
                status=stored.status,
                headers=[(b"Content-Type", stored.media_type.encode())]
                if stored.media_type
                else [],
                body=body,
                wire_body=body,
                fetched_at=0.0,
                content_type=stored.media_type,
                truncated="length" if stored.size > max_bytes else "",
                links=found,
                via=stored.via,
                kind=_KINDS.get(stored.link_type, "a") if stored.via else "seed",
            )
            if stored.status in REDIRECTS and found and found[0].kind == "redirect":
                page.redirect_target = found[0].url
                page.redirect_permanent = stored.status in PERMANENT
            yield Stored(page, offset)


class _LinkLines:
    """The lines of links.log, taken page by page."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._line = file.readline(_MAX_LINE_BYTES)

    def of(self, url: str) -> list[Link]:
        """The links of the page *url*, which is the next one of those that have any."""
        links: list[Link] = []
        beginning = url.encode() + b"\t"
        while self._line.startswith(beginning) and self._line.endswith(b"\n"):
            fields = self._line.decode("utf-8", "replace").removesuffix("\n").split("\t")
            if len(fields) == 5 and len(links) < _MAX_LINKS:
                _, target, _, kind, text = fields
                number = int(kind) if kind.isdecimal() and len(kind) == 1 else 0
                links.append(Link(url=target, text=text, kind=_KINDS.get(number, "a")))
            self._line = self._file.readline(_MAX_LINE_BYTES)
        return links
