"""Result of ``scrapy wacz``: a CDXJ index or a WACZ of WARC files.

FILE is made in the directory ``FILE.work``, which is deleted when FILE is complete. For a WARC file
called NAME of SIZE bytes, it holds what was read::

    NAME.SIZE.cdxj     its lines of the index, in its order
    NAME.SIZE.pages    its lines of the list of pages; renamed last, when both are complete

A file that is being written ends in ``.tmp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webcrawl.errors import FatalError
from webcrawl.jobs.replay.warc_reader import DamagedWarcError
from webcrawl.jobs.wacz.captures import captures
from webcrawl.jobs.wacz.package import write_wacz
from webcrawl.storage.atomic import replacing, sync_paths
from webcrawl.storage.lock import work_directory
from webcrawl.storage.sorting import sorted_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path


class Made(NamedTuple):
    """Number of *captures* in the index, and a sentence for each damaged WARC file."""

    captures: int
    damage: list[str]


def warc_files(paths: Iterable[Path]) -> list[Path]:
    """Return the finished WARC files in *paths*: files, directories, job directories or hives.

    Raises FatalError if there are none, or two with the same name.
    """
    found: dict[str, Path] = {}
    for path in paths:
        files = [path] if path.is_file() else _files_in(path)
        if not files:
            raise FatalError(
                f"There is no finished WARC file in {path}. A file is finished when it is full, "
                "the last one when the crawl ends."
            )
        for file in files:
            other = found.setdefault(file.name, file)
            if other != file:
                raise FatalError(f"{other} and {file} have the same name: rename one of them.")
    return list(found.values())


def _files_in(path: Path) -> list[Path]:
    places = ("*.warc", "*.warc.gz", "warc/*.warc.gz", "drones/*/warc/*.warc.gz")
    return sorted(file for place in places for file in path.glob(place))


def bytes_of(warcs: Iterable[Path], output: Path) -> int:
    """Return how many bytes ``make`` will report as done."""
    return sum(warc.stat().st_size for warc in warcs) * (2 if output.suffix == ".wacz" else 1)


def make(
    warcs: Sequence[Path], output: Path, *, at: float, on_progress: Callable[[int], object]
) -> Made:
    """Write the file *output*, an index or a package by its ending.

    *at*, in epoch seconds, is its date. Raises FatalError if another process is writing it, and
    OSError.
    """
    busy, aside = f"{output} is being made", output.with_name(f"{output.name}.work")
    with work_directory(aside, activity=busy) as work, replacing(output) as new:
        read = [read_warc(warc, work, on_progress=on_progress) for warc in warcs]
        captures = 0

        def index() -> Iterable[bytes]:
            nonlocal captures
            lines = [one.cdxj for one in read]
            for line in sorted_lines(lines, directory=work, feature="An index of WARC files"):
                captures += 1
                yield line

        if output.suffix == ".wacz":
            write_wacz(
                new,
                title=output.stem,
                warcs=warcs,
                index=index(),
                pages=[one.pages for one in read],
                at=at,
                on_progress=on_progress,
            )
        else:
            with new.open("wb") as file:
                file.writelines(index())
    return Made(captures, [one.damage for one in read if one.damage])


class ReadWarc(NamedTuple):
    """Files read from a WARC file; *damage* says where it became unreadable, or is empty."""

    cdxj: Path
    pages: Path
    damage: str = ""


def read_warc(warc: Path, work: Path, *, on_progress: Callable[[int], object]) -> ReadWarc:
    """Read *warc* into files in the directory *work*, unless they exist. Raises OSError.

    *on_progress* is called with the number of bytes read since the last call.
    """
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
        # It is read again the next time, so that its damage is reported again.
        return ReadWarc(cdxj, aside, damage)
    sync_paths([cdxj, aside, work])
    aside.replace(pages)
    return ReadWarc(cdxj, pages)
