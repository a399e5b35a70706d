"""Package the stored pages of a crawl for replay tools (pywb, ReplayWeb.page).

If FILE ends in .wacz, writes a WACZ: the WARC files, their index and a list of pages with titles.
If it ends in .cdxj, writes only the index. JOBDIR stands for the finished WARC files of the crawl,
of all drones if it is a hive. If the command is stopped, run it again to continue.

Documents that WARC_DEDUP_FROM found in an earlier crawl are not in the
package. It names the package of that crawl, with its hash if it is in the same
directory: make that first, and give it the name of its job, as in web.wacz.

Examples:
  scrapy wacz crawls/web -o crawl.wacz
  scrapy wacz *.warc.gz -o index.cdxj

Exit codes:
  0  done
  2  unusable input, or a damaged WARC file; nearly everything before the damage
     is included
"""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path

from webcrawl.commands import (
    Options,
    Settings,
    UsageError,
    make_command,
    progress_in_bytes,
    sources_or_job,
    warn_of_moved_files,
)
from webcrawl.wording import COMMAND, counted, escape_controls


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Package stored pages as WACZ, or only write their index; return the exit code."""
    from webcrawl.clock import wall_time
    from webcrawl.errors import FatalError, require_package

    output: Path | None = opts.output
    if output is None or output.suffix not in {".cdxj", ".wacz"}:
        raise UsageError(f"usage: {COMMAND} wacz [JOBDIR|WARC...] -o FILE.wacz")
    require_package("surt", feature="An index of WARC files")
    from webcrawl.jobs.wacz.result import make, warc_files

    paths = [*map(Path, sources_or_job(args, settings))]
    # A path may be a job, its WARC directory or a hive. Each has a note if files were moved away.
    directories = [(path, path / "warc", *path.glob("drones/*/warc")) for path in paths]
    warn_of_moved_files("wacz", chain.from_iterable(directories))
    warcs = warc_files(paths)
    with progress_in_bytes() as on_progress:
        try:
            result = make(warcs, output, at=wall_time(), on_progress=on_progress)
        except OSError as error:
            raise FatalError(
                f"{output} could not be written ({error}). Fix that and run the same command "
                "again; it continues where it stopped."
            ) from error
    for sentence in result.damage:
        sys.stderr.write(f"wacz: {escape_controls(sentence)}\n")
    size = output.stat().st_size
    documents = counted(result.captures, "document")
    files = counted(len(warcs), "WARC file")
    print(f"{output}: {documents} from {files}, {size:,} bytes")
    if result.requires:
        names = ", ".join(path.name for path in result.requires)
        print(f"Some of its documents may be in {names}: keep the files together.")
    return 2 if result.damage else 0


Command = make_command(
    _run,
    syntax="[options] [JOBDIR|WARC ...] -o FILE",
    output=("FILE", "the file to write; its name must end in .wacz or .cdxj"),
)
