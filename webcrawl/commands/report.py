"""Write an HTML report about a crawl, its tables as CSV or JSON, or a field report.

Works on the job directory of a crawl that is running, stopped or killed, or of a hive on this
machine. The report shows speed, outcomes, content types, sizes, hosts, politeness and errors. It is
a single HTML file that needs no other files or network.

With --csv or --json, the tables of the crawl, its seeds, hosts, content types and status codes are
written instead, with all their rows. --csv also writes a crawl.log as Heritrix does.

With --bundle, a text file is written instead that you can attach to an issue: versions, settings,
counts, figures by hour, and heads of odd answers. Hosts are hashes, and values that could be
private are masked. The file is also printed, so that you can read it; nothing is sent.

Examples:
  scrapy report crawls/web
  scrapy report crawls/web -o report.html
  scrapy report crawls/web --csv tables
  scrapy report crawls/web --bundle field-report.txt

Exit codes:
  0  the report or the tables were written
  2  unusable input
"""

from __future__ import annotations

import math
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.clock import wall_time
from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    choose_job,
    make_command,
    print_bytes,
    progress,
)
from webcrawl.errors import FatalError
from webcrawl.wording import counted

if TYPE_CHECKING:
    from webcrawl.jobs.report.sources import Crawl


_PRICE_ENDS = (
    "report: --price-per-hour is deprecated and goes with 0.6: multiply the price by the running "
    "time in hours, and divide by the millions of pages"
)


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy report``."""
    from webcrawl.jobs.arguments import output_file

    add(
        "--price-per-hour",
        type=float,
        metavar="DOLLARS",
        help="deprecated: cost of all machines per hour; prints what a million pages cost",
    )
    add("--csv", type=Path, metavar="DIR", help="write all tables and crawl.log to DIR")
    add(
        "--bundle",
        type=output_file,
        metavar="FILE",
        help="write and print what to attach to an issue",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Write a report about a crawl, or its tables; return the exit code."""
    from webcrawl.hive.launch.job_directories import jobdirs_of
    from webcrawl.jobs.report.bundle import write_bundle
    from webcrawl.jobs.report.page import page
    from webcrawl.jobs.report.sections import report
    from webcrawl.jobs.report.sources import CrawlReader
    from webcrawl.jobs.report.tables import as_json, check_directory, write_tables
    from webcrawl.storage.atomic import write_atomic

    path = choose_job(args, settings)
    price = opts.price_per_hour
    _check_price(price, as_json=opts.json)

    # The HTML report is written if --output names it, or if nothing else is asked for.
    output = opts.output
    if output is None and opts.csv is None and opts.bundle is None and not opts.json:
        output = path / "report.html"
    jobdirs = jobdirs_of(path)
    said = []  # clauses about what was written
    try:
        if opts.csv is not None:
            check_directory(opts.csv)
        with closing(CrawlReader(path, jobdirs, settings)) as reader:
            with progress("bytes") as on_progress:
                reader.add(on_progress)
            crawl = reader.crawl()
            if output is not None:
                document = page(report(crawl, at=wall_time()))
                write_atomic(output, document.encode("utf-8", "replace"))
                said.append(f"the report is {output}")
            if opts.csv is not None:
                with progress("lines") as on_progress:
                    write_tables(opts.csv, crawl, reader.lines_by_time(on_progress))
                said.append(f"the tables are in {opts.csv}")
            if opts.bundle is not None:
                print_bytes(write_bundle(opts.bundle, crawl, jobdirs))
                said.append(f"the text above is in {opts.bundle}; nothing was sent")
            if opts.json:
                for data in as_json(crawl):
                    print_bytes(data)
                return 0
    except (OSError, sqlite3.Error) as error:
        raise FatalError(f"The report cannot be written: {error}.") from error
    if price is not None:
        print(_PRICE_ENDS, file=sys.stderr)
        said.append(f"a million pages cost {_cost_of_million(crawl, price)}")
    print("; ".join([counted(crawl.results.pages, "page"), *said]))
    return 0


def _check_price(price: float | None, *, as_json: bool) -> None:
    """Raise UsageError if *price* is given but cannot be used."""
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise UsageError("--price-per-hour must be a number of dollars, at least 0")
    if price is not None and as_json:
        raise UsageError("--price-per-hour is not for --json")


def _cost_of_million(crawl: Crawl, price: float) -> str:
    """Return what a million pages of *crawl* cost, if all its machines cost *price* an hour."""
    from webcrawl.crawl.figures.counts import Counts

    # As old as the running time.
    pages = Counts.of(crawl.stats).pages
    if not (crawl.secs and pages):
        return "an unknown sum, because the running time is not known or there are no pages"
    return f"${1e6 * price * crawl.secs / 3600 / pages:,.2f}"


Command = make_command(
    _run,
    _options,
    json=True,
    output=(
        "FILE",
        "where to write the report (default: JOBDIR/report.html; none with --csv or --json)",
    ),
)
