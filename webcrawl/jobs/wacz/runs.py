"""Sorted runs: the captures of WARC files, kept beside the result until that is there.

In the directory of a result that is being made, for a WARC file called NAME of SIZE bytes::

    NAME.SIZE.0.cdxj ...   lines of the index, sorted, at most _RUN_LINES in each
    NAME.SIZE.pages        lines of the list of pages; written last, so it says that all is there
    merged.N.cdxj          several of them merged into one

A run that is being written ends in ``.tmp``. Memory is that of one run: 100 MB.
"""

from __future__ import annotations

import heapq
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from webcrawl.jobs.replay.warc_reader import DamagedWarcError
from webcrawl.jobs.wacz.captures import captures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

_RUN_LINES: Final = 200_000
# Files that are open at once; with more runs some are merged before.
_MERGED_AT_ONCE: Final = 200


class Runs(NamedTuple):
    """What was read of a WARC file; *damage* says from where on it could not be, or is empty."""

    cdxj: list[Path]
    pages: Path
    damage: str = ""


def read_warc(
    warc: Path,
    work: Path,
    *,
    on_progress: Callable[[int], object],
    run_lines: int = _RUN_LINES,
) -> Runs:
    """Read *warc* into runs in the directory *work*, unless they are there; *on_progress* is called
    with the number of bytes read since the last call. OSError."""
    size = warc.stat().st_size
    stem = f"{warc.name}.{size}"
    pages = work / f"{stem}.pages"
    if pages.exists():
        on_progress(size)
        return Runs(_runs_of(work, stem), pages)
    found: list[Path] = []
    lines: list[bytes] = []
    damage = ""

    def end_run() -> None:
        run = work / f"{stem}.{len(found)}.cdxj"
        lines.sort()
        write_lines(run, lines)
        lines.clear()
        found.append(run)

    aside = pages.with_name(f"{pages.name}.tmp")
    at = 0
    with aside.open("wb") as page_file:
        try:
            for capture in captures(warc):
                lines.append(capture.line)
                page_file.write(capture.page)
                on_progress(capture.end - at)
                at = capture.end
                if len(lines) == run_lines:
                    end_run()
        except DamagedWarcError as error:
            damage = str(error)
    end_run()
    if not damage:
        # A damaged file is read again the next time, so that its damage is told again.
        aside.replace(pages)
    on_progress(size - at)
    return Runs(found, aside if damage else pages, damage)


def _runs_of(work: Path, stem: str) -> list[Path]:
    names = (path.name for path in work.iterdir())
    found = [name for name in names if name.startswith(f"{stem}.") and name.endswith(".cdxj")]
    return [work / name for name in found]


def merged(runs: Sequence[Path], work: Path, *, at_once: int = _MERGED_AT_ONCE) -> Iterator[bytes]:
    """The lines of all *runs*, sorted."""
    number = 0
    while len(runs) > at_once:
        run = work / f"merged.{number}.cdxj"
        number += 1
        write_lines(run, _merge(runs[:at_once]))
        runs = [*runs[at_once:], run]
    yield from _merge(runs)


def _merge(runs: Sequence[Path]) -> Iterator[bytes]:
    with ExitStack() as files:
        yield from heapq.merge(*[files.enter_context(run.open("rb")) for run in runs])


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Make or replace the file *path*, whole or not at all while the process lives."""
    aside = path.with_name(f"{path.name}.tmp")
    with aside.open("wb") as file:
        file.writelines(lines)
    aside.replace(path)
