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

import sqlite3
from contextlib import closing
from pathlib import Path

from webcrawl.clock import wall_time
from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    choose_job,
    make_command,
    print_bytes,
    progress,
)
from webcrawl.errors import FatalError
from webcrawl.wording import counted


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy report``."""
    from webcrawl.jobs.arguments import output_file

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
    print("; ".join([counted(crawl.results.pages, "page"), *said]))
    return 0


Command = make_command(
    _run,
    _options,
    json=True,
    output=(
        "FILE",
        "where to write the report (default: JOBDIR/report.html; none with --csv or --json)",
    ),
)
