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

import sys
from pathlib import Path

from webcrawl.commands import AddOption, Options, Settings, UsageError, job_of, make_command
from webcrawl.wording import counted


def _options(add: AddOption) -> None:
    """Add the options of this command."""
    add("-o", "--output", type=Path, metavar="DIR", help="the dataset's directory")


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Run this command and return its exit code."""
    from webcrawl.errors import require_package

    if opts.output is None:
        raise UsageError("usage: scrapy dataset [JOBDIR] -o DIR")
    require_package("duckdb", feature="A dataset")
    from webcrawl.jobs.dataset import lay_out, text_directories
    from webcrawl.storage.object_store import moved_file_notices

    directories = text_directories(job_of(args, settings), settings["TEXT_DIR"])
    for sentence in moved_file_notices(directories.values()):
        sys.stderr.write(f"dataset: {sentence}\n")
    rows, files = lay_out(directories, opts.output)
    print(f"{opts.output}: {counted(rows, 'page')} in {counted(files, 'file')}")
    return 0


Command = make_command(_run, _options, syntax="[options] [JOBDIR] -o DIR")
