"""Tables about a crawl that the page shows and that ``--csv`` and ``--json`` write.

Each table is defined once, as a figure. The page shows its first rows, and the files have all of
them. The names of tables are those of Heritrix' reports.
"""

from __future__ import annotations

import csv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from webcrawl.crawl.figures.counts import count_waiting
from webcrawl.errors import FatalError
from webcrawl.jobs.report.figures import UNKNOWN, Figure, Table
from webcrawl.jobs.report.heritrix_log import log_line, status_code
from webcrawl.storage.atomic import sync_path, sync_paths
from webcrawl.wording import utc_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webcrawl.crawl.lease.outcome_log import OutcomeLine
    from webcrawl.jobs.report.sources import Crawl

#: Number of rows of a table that the page shows.
SHOWN_ROWS = 50
_LOG = "crawl.log"
_NAMES = ("crawl", "seeds", "hosts", "mimetype", "responsecode")
_FILES = {_LOG, *(f"{name}-report.csv" for name in _NAMES)}


class Listing(NamedTuple):
    """Definition of a table as an SQL query of ``TotalsFile``."""

    name: str
    query: str

    def table(self, crawl: Crawl, limit: int = SHOWN_ROWS) -> Table:
        """Return the table with its first *limit* rows, or with all of them if it is -1.

        If *limit* is -1, the rows are read while they are iterated over, and only once.
        """
        rows = crawl.file.select(f"{self.query} LIMIT {limit}")  # -1 is no limit in SQLite
        head = tuple(name for name, *_ in rows.description)
        return Table(head, rows if limit < 0 else rows.fetchall())


# A seed has failed if the URL at the end of its redirects was given up.
_SEED_ENDS = (
    "WITH RECURSIVE chain (seed, hops, redirect, outcome) AS "
    "(SELECT url, 0, redirect, outcome FROM seeds WHERE is_seed UNION ALL "
    "SELECT seed, hops + 1, seeds.redirect, seeds.outcome FROM chain "
    "JOIN seeds ON url = chain.redirect WHERE hops < 20), "
    "ends AS (SELECT seed, max(hops), outcome, is_given_up(outcome) AS failed FROM chain "
    "GROUP BY seed) "
)
_COUNT_SEEDS = f"{_SEED_ENDS} SELECT count(*), total(failed) FROM ends"  # noqa: S608  # constants
#: Query of the rows about hosts, to be continued with an order.
HOST_ROWS = (
    "SELECT host, urls, bytes, pages, fetches, "
    "round(secs / max(fetches, 1), 3) AS 'seconds per fetch', denied AS 'denied by robots.txt', "
    "given_up AS 'given up', walls FROM hosts"
)
SEEDS = Listing(
    "seeds-report",
    f"{_SEED_ENDS} SELECT seed, "  # noqa: S608  # as above
    "status_code(status, seeds.outcome) AS code, "
    "iif(status, 'CRAWLED', 'NOTCRAWLED') AS status, redirect, ends.outcome AS result "
    "FROM ends JOIN seeds ON url = seed ORDER BY failed DESC, seed",
)
HOSTS = Listing("hosts-report", f"{HOST_ROWS} ORDER BY pages DESC, host")
TYPES = Listing(
    "mimetype-report",
    "SELECT type AS 'mime-type', urls, bytes, pages AS documents FROM types "
    "ORDER BY pages DESC, urls DESC, type",
)


def seeds_figure(crawl: Crawl) -> Figure:
    """Return the first seeds as a figure, without words of Heritrix."""
    rows = [(seed, redirect, result) for seed, _, _, redirect, result in SEEDS.table(crawl).rows]
    lead = "Finished seeds, failed ones first. The result is the outcome at the end of redirects."
    table = Table(("seed", "redirect", "result"), rows) if rows else None
    return Figure(SEEDS.name, "Seeds", lead if rows else "None so far.", table)


def crawl_table(crawl: Crawl) -> Table:
    """Return the table of the numbers of the whole crawl."""
    results = crawl.results
    span = [*map(utc_time, crawl.span)] or [""]
    ((seeds, failed_seeds),) = crawl.file.select(_COUNT_SEEDS)
    rows = {
        "state": crawl.state,
        "begin (UTC)": span[0],
        "last URL (UTC)": span[-1],
        "running time in seconds": round(crawl.secs, 1) or UNKNOWN,
        "seeds finished": seeds,
        "seeds failed": int(failed_seeds),
        "hosts contacted": crawl.hosts,
        "URLs finished": results.urls,
        "pages": results.pages,
        "redirects": results.redirects,
        "given up": results.total_given_up,
        "duplicates": crawl.duplicates,
        "visits": results.visits,
        "bytes received": crawl.received,
        "waiting": count_waiting(crawl.stats),
        **{f"parked by {gate}": count for gate, count in crawl.counts("frontier/parked/").items()},
    }
    return Table(("name", "value"), [*rows.items()])


def codes_table(crawl: Crawl) -> Table:
    """Return the table of URLs by status code and outcome, the most frequent first."""
    # The negative count puts the most frequent answer first.
    ranked = sorted((-count, *answer) for answer, count in crawl.log.answers.items())
    rows = [
        (status_code(status, outcome), -count, outcome, crawl.log.examples[outcome])
        for count, status, outcome in ranked
    ]
    return Table(("rescode", "urls", "outcome", "example"), rows)


def all_tables(crawl: Crawl) -> Iterator[tuple[str, Table]]:
    """Yield the name and all rows of each table, to be read before the next one."""
    yield "crawl-report", crawl_table(crawl)
    yield "responsecode-report", codes_table(crawl)
    for listing in (SEEDS, HOSTS, TYPES):
        yield listing.name, listing.table(crawl, limit=-1)


def as_json(crawl: Crawl) -> Iterator[bytes]:
    """Yield the pieces of a JSON object, which has an array of rows, as objects, for each table."""
    encode = msgspec.json.encode
    mark = b"{"  # what separates the next piece from what is before it
    for name, table in all_tables(crawl):
        yield mark + encode(name) + b": ["
        mark = b"\n"
        for row in table.rows:
            yield mark + encode(dict(zip(table.head, row, strict=True)))
            mark = b",\n"
        mark = b"],\n"
    yield b"]}\n"


def check_directory(directory: Path) -> None:
    """Raise FatalError if *directory* has other files than those that ``write_tables`` writes."""
    if directory.exists() and {path.name for path in directory.iterdir()} not in (set(), _FILES):
        raise FatalError(f"{directory} contains other files. Name a new or empty directory.")


def write_tables(
    directory: Path, crawl: Crawl, lines: Iterable[tuple[OutcomeLine, int, str]]
) -> None:
    """Write all tables as CSV files, and *lines* as ``crawl.log``, to *directory*.

    The directory is replaced when all files are complete. Raises OSError and sqlite3.Error: then
    it stays as it was.
    """
    directory = directory.resolve()
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as aside:
        new = Path(aside, "new")
        old = Path(aside, "old")
        new.mkdir()
        for name, table in all_tables(crawl):
            with (new / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(table.head)
                writer.writerows(table.rows)
        with (new / _LOG).open("w", encoding="utf-8") as file:
            file.writelines(log_line(*line) for line in lines)
        sync_paths([*new.iterdir(), new])
        if directory.exists():
            directory.rename(old)  # is deleted with the temporary directory
        new.rename(directory)
        sync_path(directory.parent)
