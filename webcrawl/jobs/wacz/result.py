"""Makes the result of ``scrapy wacz``: a CDXJ index or a WACZ of WARC files.

The result FILE is made with the help of the directory ``FILE.work``, which is deleted when FILE is
complete. For a WARC file called NAME of SIZE bytes, the directory has what was read from it::

    NAME.SIZE.cdxj     its lines of the index, in the order of the file
    NAME.SIZE.pages    its lines of the page list; gets this name when both files are complete

A file that is being written ends in ``.tmp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webcrawl.errors import FatalError
from webcrawl.jobs.replay.sources import sources_of
from webcrawl.jobs.replay.warc_reader import DamagedWarcError
from webcrawl.jobs.wacz.captures import captures, collections_required_by
from webcrawl.jobs.wacz.package import write_wacz
from webcrawl.pipelines.sorting import sorted_lines
from webcrawl.pipelines.work_directory import work_directory
from webcrawl.storage.atomic import replacement, sync_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path


class Made(NamedTuple):
    """Number of *captures* in the index, and a sentence for each damaged WARC file.

    *requires* are the packages with documents that some of the captures may refer to.
    """

    captures: int
    damage: list[str]
    requires: list[Path]


def warc_files(names: Iterable[str | Path]) -> list[Path]:
    """Return the finished WARC files that *names* name: files, directories, jobs or hives.

    Raises FatalError if there are none, or two with the same name.
    """
    by_name: dict[str, Path] = {}
    for file in sources_of(names):
        other = by_name.setdefault(file.name, file)
        if other != file:
            raise FatalError(f"{other} and {file} have the same name: rename one of them.")
        if file.is_dir():
            raise FatalError(f"{file} is a LARM directory: give WARC files.")
    return list(by_name.values())


def make(
    warcs: Sequence[Path], output: Path, *, at: float, on_progress: Callable[[int], object]
) -> Made:
    """Write the file *output* for *warcs*: a package if its name ends in ``.wacz``, else an index.

    *at*, in epoch seconds, is its date. *on_progress* is called with the number of bytes done since
    the last call. Raises FatalError if another process is writing *output*, and OSError.
    """
    activity = f"{output} is being made"
    directory = output.with_name(f"{output.name}.work")
    with work_directory(directory, activity=activity) as work, replacement(output) as new:
        requires = [output.with_name(f"{name}.wacz") for name in _required_collections(warcs)]
        read_warcs = [read_warc(warc, work, on_progress=on_progress) for warc in warcs]
        captures = 0

        def index() -> Iterable[bytes]:
            """Yield the sorted lines of all files, and count them."""
            nonlocal captures
            files = [read.cdxj for read in read_warcs]
            for line in sorted_lines(files, directory=work, feature="An index of WARC files"):
                captures += 1
                yield line

        if output.suffix == ".wacz":
            write_wacz(
                new,
                title=output.stem,
                warcs=warcs,
                index=index(),
                pages=[read.pages for read in read_warcs],
                requires=requires,
                at=at,
                on_progress=on_progress,
            )
        else:
            with new.open("wb") as file:
                file.writelines(index())
    return Made(captures, [read.damage for read in read_warcs if read.damage], requires)


def _required_collections(warcs: Iterable[Path]) -> list[str]:
    """Return the collections that *warcs* may refer to, except for those that they are from."""
    # A collection has the name of the job in whose directory its files are.
    directories = {part for warc in warcs for part in warc.absolute().parts}
    names = dict.fromkeys(name for warc in warcs for name in collections_required_by(warc))
    return [name for name in names if name not in directories]


class ReadWarc(NamedTuple):
    """Files with what was read from a WARC file.

    cdxj: its lines of the index.
    pages: its lines of the page list.
    damage: a sentence that says where the WARC file became unreadable, or empty.
    """

    cdxj: Path
    pages: Path
    damage: str = ""


def read_warc(warc: Path, work: Path, *, on_progress: Callable[[int], object]) -> ReadWarc:
    """Read *warc* and write the results to files in the directory *work*. Raises OSError.

    If the files exist, *warc* is not read again.

    *on_progress* is called with the number of bytes read since the last call.
    """
    size = warc.stat().st_size
    cdxj, pages = (work / f"{warc.name}.{size}.{end}" for end in ("cdxj", "pages"))
    if pages.exists():  # it gets this name when both files are complete
        on_progress(size)
        return ReadWarc(cdxj, pages)

    damage = ""
    read_until = 0
    temporary = pages.with_name(f"{pages.name}.tmp")
    with cdxj.open("wb") as cdxj_file, temporary.open("wb") as page_file:
        try:
            for capture in captures(warc):
                cdxj_file.write(capture.line)
                page_file.write(capture.page)
                on_progress(capture.end - read_until)
                read_until = capture.end
        except DamagedWarcError as error:
            damage = str(error)
    on_progress(size - read_until)  # the rest of the file has no captures, or is damaged
    if damage:
        # Without its final name the file is not used again, so the damage is reported each time.
        return ReadWarc(cdxj, temporary, damage)
    sync_paths([cdxj, temporary, work])
    temporary.replace(pages)
    return ReadWarc(cdxj, pages)
