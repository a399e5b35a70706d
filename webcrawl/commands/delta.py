"""List the pages of a crawl that are new, changed, moved or gone.

Reads the logs of a crawl or a hive, running or not, since a time or since the last delta. Pages
that were visited again and have not changed are left out. Each URL is listed once, in its latest
state, as JSON lines.

The last line on standard output is the token for the next --since. It goes to standard error if the
changes go to standard output.

Examples:
  scrapy delta crawls/web --since 7d
  scrapy delta crawls/web --since 2026-11-26T10:15Z -o changes.jsonl

Exit codes:
  0  done
  2  unusable input, or the changes cannot be written
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    choose_job,
    make_command,
    progress,
)
from webcrawl.wording import counted


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy delta``."""
    from webcrawl.jobs.inspect.delta import parse_since

    add(
        "--since",
        type=parse_since,
        required=True,
        metavar="TIME|TOKEN",
        help="a date or time (2026-11-26T10:15Z), an age (7d), 0 for everything, or the token "
        "that the last delta printed",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Write the changes since --since, then the token for the next delta; return the exit code."""
    from webcrawl.jobs.inspect.delta import delta, write_json
    from webcrawl.storage.atomic import replacement

    jobdir = choose_job(args, settings)
    output = opts.output
    if output is not None and output.suffix == ".parquet":
        raise UsageError("deltas are JSON lines; DuckDB reads them, and can write Parquet files")
    with progress("lines") as on_progress, ExitStack() as stack:
        changes, token = delta(jobdir, opts.since, on_progress=on_progress)
        # Without a file, write to standard output, which stays open.
        path = sys.stdout.fileno() if output is None else stack.enter_context(replacement(output))
        count = write_json(
            changes, stack.enter_context(open(path, "wb", closefd=output is not None))
        )
    sys.stderr.write(f"{counted(count, 'change')}; for the next delta use --since\n")
    # Standard output has either the changes or the token, for programs that read it.
    print(token, file=sys.stderr if output is None else sys.stdout)
    return 0


Command = make_command(
    _run,
    _options,
    syntax="[options] [JOBDIR] --since TIME|TOKEN",
    output=("FILE", "write the changes to FILE (default: standard output)"),
)
