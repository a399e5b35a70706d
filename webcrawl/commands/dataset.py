"""Lay out the text dataset of a crawl as Hugging Face reads it.

Copies the finished Parquet files of the module TextDataset to DIR/data, of all drones if JOBDIR is
a hive, and writes a card to DIR/README.md: counts by language, purpose and licence. Text of your
own in DIR/ABOUT.md becomes part of the card. Run it again, also while the crawl runs, to add new
files; files that are there already are not copied again. Several crawls can share DIR.

With --near-duplicates, each page gets the columns cluster and is_representative: the page of its
cluster that was fetched first represents it. "drop" leaves the others out of DIR/data. All pages
are then in DIR/originals, so the next of a cluster takes the place of a page that is purged.

Examples:
  scrapy dataset crawls/web -o dataset
  scrapy dataset crawls/web -o dataset --near-duplicates drop

Exit codes:
  0  done
  2  unusable input, or files that are damaged or do not have the same columns
"""

from __future__ import annotations

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    choose_job,
    make_command,
    warn_of_moved_files,
)
from webcrawl.wording import COMMAND, counted


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy dataset``."""
    add(
        "--near-duplicates",
        choices=("mark", "drop"),
        default="",
        help="find clusters of pages with almost the same text, and keep all or one of each",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Copy the text dataset of a crawl to the directory --output; return the exit code."""
    from webcrawl.errors import require_package

    if opts.output is None:
        raise UsageError(f"usage: {COMMAND} dataset [JOBDIR] -o DIR")
    require_package("duckdb", feature="A dataset")
    from webcrawl.jobs.dataset import lay_out, text_directories

    directories = text_directories(choose_job(args, settings), settings["TEXT_DIR"])
    warn_of_moved_files("dataset", directories.values())
    rows, files, found = lay_out(directories, opts.output, opts.near_duplicates)
    near_duplicates = f"; {counted(found, 'near-duplicate')}" if opts.near_duplicates else ""
    print(f"{opts.output}: {counted(rows, 'page')} in {counted(files, 'file')}{near_duplicates}")
    return 0


Command = make_command(
    _run,
    _options,
    syntax="[options] [JOBDIR] -o DIR",
    output=("DIR", "the dataset's directory"),
)
