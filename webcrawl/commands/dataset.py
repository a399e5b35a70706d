"""Lay out the text dataset of a crawl as Hugging Face reads it.

Copies the finished Parquet files of the module TextDataset to DIR/data, of all drones if JOBDIR is
a hive, and writes a card to DIR/README.md: counts by language, purpose and licence. Text of your
own in DIR/ABOUT.md becomes part of the card. Run it again, also while the crawl runs, to add new
files; files that are there already are not copied again. Several crawls can share DIR.

Examples:
  scrapy dataset crawls/web -o dataset

Exit codes:
  0  done
  2  unusable input, or files that are damaged or do not have the same columns
"""

from __future__ import annotations

from webcrawl.commands import (
    Options,
    Settings,
    UsageError,
    choose_job,
    make_command,
    warn_of_moved_files,
)
from webcrawl.wording import COMMAND, counted


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Copy the text dataset of a crawl to the directory --output; return the exit code."""
    from webcrawl.errors import require_package

    if opts.output is None:
        raise UsageError(f"usage: {COMMAND} dataset [JOBDIR] -o DIR")
    require_package("duckdb", feature="A dataset")
    from webcrawl.jobs.dataset import lay_out, text_directories

    directories = text_directories(choose_job(args, settings), settings["TEXT_DIR"])
    warn_of_moved_files("dataset", directories.values())
    rows, files = lay_out(directories, opts.output)
    print(f"{opts.output}: {counted(rows, 'page')} in {counted(files, 'file')}")
    return 0


Command = make_command(
    _run, syntax="[options] [JOBDIR] -o DIR", output=("DIR", "the dataset's directory")
)
