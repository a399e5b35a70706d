"""Write an HTML report about a crawl, or its tables as CSV or JSON.

Works on the job directory of a crawl that is running, stopped or killed, or of a hive on this
machine. The report shows speed, outcomes, content types, sizes, hosts, politeness, errors and the
cost of a million pages. It is a single HTML file that needs no other files or network.

With --csv or --json, the tables of the crawl, its seeds, hosts, content types and status codes are
written instead, with all their rows. --csv also writes a crawl.log as Heritrix does.

Examples:
  scrapy report crawls/web
  scrapy report crawls/web -o report.html --price-per-hour 0.25
  scrapy report crawls/web --csv tables

Exit codes:
  0  the report or the tables were written
  2  unusable input
"""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

from webcrawl.clock import wall_time
from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    job_of,
    make_command,
    print_bytes,
    progress,
)
from webcrawl.errors import FatalError
from webcrawl.wording import counted


def _options(add: AddOption) -> None:
    """Add the options of this command."""
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write the report (default: JOBDIR/report.html; none with --csv or --json)",
    )
    add(
        "--price-per-hour",
        type=float,
        metavar="DOLLARS",
        help="cost of all machines of the crawl per hour",
    )
    add("--csv", type=Path, metavar="DIR", help="write all tables and crawl.log to DIR")
    add("--figures", type=Path, metavar="DIR", help="also write each figure to DIR as an SVG file")


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Run this command and return its exit code."""
    from webcrawl.hive.launch.job_directories import jobdirs_of
    from webcrawl.jobs.report.page import page, write_drawings
    from webcrawl.jobs.report.sections import report
    from webcrawl.jobs.report.sources import CrawlReader
    from webcrawl.jobs.report.tables import as_json, check_directory, write_tables
    from webcrawl.storage.atomic import write_atomic

    path = job_of(args, settings)
    price = opts.price_per_hour
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise UsageError("--price-per-hour must be a number of dollars, at least 0")

    output = opts.output
    if output is None and opts.csv is None and not opts.json:
        output = path / "report.html"
    if price is not None and output is None:
        raise UsageError("--price-per-hour needs the report: name its file with -o")
    jobdirs = jobdirs_of(path)
    if output is not None and not output.parent.is_dir():
        raise FatalError(f"The report cannot be written: there is no directory {output.parent}.")
    said = []
    try:
        if opts.csv is not None:
            check_directory(opts.csv)
        with closing(CrawlReader(path, jobdirs, settings)) as reader:
            with progress("bytes") as on_progress:
                reader.add(on_progress)
            crawl = reader.crawl()
            model = report(crawl, price=price, at=wall_time())
            if output is not None:
                write_atomic(output, page(model).encode("utf-8", "replace"))
                said.append(f"the report is {output}")
            if opts.figures is not None:
                write_drawings(opts.figures, model.figures())
            if opts.csv is not None:
                with progress("lines") as on_progress:
                    write_tables(opts.csv, crawl, reader.outcome_lines(on_progress))
                said.append(f"the tables are in {opts.csv}")
            if opts.json:
                for data in as_json(crawl):
                    print_bytes(data)
                return 0
    except (OSError, sqlite3.Error) as error:
        raise FatalError(f"The report cannot be written: {error}.") from error
    print("; ".join([counted(crawl.results.pages, "page"), *said]))
    return 0


Command = make_command(_run, _options, json=True)
