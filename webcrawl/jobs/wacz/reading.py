"""What was read of WARC files, kept beside the result until that is there.

In the directory of a result that is being made, for a WARC file called NAME of SIZE bytes::

    NAME.SIZE.cdxj     its lines of the index, in its order
    NAME.SIZE.pages    its lines of the list of pages; named last, so it says that all is there

A file that is being written ends in ``.tmp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webcrawl.jobs.replay.warc_reader import DamagedWarcError
from webcrawl.jobs.wacz.captures import captures
from webcrawl.storage.atomic import sync_paths

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class ReadWarc(NamedTuple):
    """What was read of a WARC file; *damage* says from where on it could not be, or is empty."""

    cdxj: Path
    pages: Path
    damage: str = ""


def read_warc(warc: Path, work: Path, *, on_progress: Callable[[int], object]) -> ReadWarc:
    """Read *warc* into files in the directory *work*, unless they are there; *on_progress* is
    called with the number of bytes read since the last call. OSError."""
    size = warc.stat().st_size
    cdxj, pages = (work / f"{warc.name}.{size}.{end}" for end in ("cdxj", "pages"))
    if pages.exists():
        on_progress(size)
        return ReadWarc(cdxj, pages)
    damage = ""
    at = 0
    aside = pages.with_name(f"{pages.name}.tmp")
    with cdxj.open("wb") as cdxj_file, aside.open("wb") as page_file:
        try:
            for capture in captures(warc):
                cdxj_file.write(capture.line)
                page_file.write(capture.page)
                on_progress(capture.end - at)
                at = capture.end
        except DamagedWarcError as error:
            damage = str(error)
    on_progress(size - at)
    if damage:
        # It is read again the next time, so that its damage is told again.
        return ReadWarc(cdxj, aside, damage)
    sync_paths([cdxj, aside, work])
    aside.replace(pages)
    return ReadWarc(cdxj, pages)
