"""Totals by host, content type and seed, in a temporary SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from webcrawl.crawl.lease.outcome_log import DENIED, OutcomeLine, is_given_up
from webcrawl.doctor.history import FAULTS, kind_of
from webcrawl.jobs.report.heritrix_log import status_code
from webcrawl.net.outcomes import is_document
from webcrawl.net.walls import WALLS
from webcrawl.pipelines.warc.messages import labelled_digest
from webcrawl.pipelines.warc.payloads import DIGESTS
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path


#: Name of the content type of answers without Content-Type.
NO_TYPE = "none sent"
# Kinds of URLs that are seeds if their depth is 0.
_SEEDS = ("seed", "request")
# Lines are added to the table ``lines``, then to the totals of all other tables.
_CREATE = """
PRAGMA cache_size = -8192;
PRAGMA journal_mode = OFF;
CREATE TABLE lines (
    url, host, type, outcome, redirect, kind, status INT, bytes INT, secs REAL, is_seed INT,
    sent REAL, run_sent REAL, is_first INT, is_page INT, is_denied INT, is_given_up INT,
    is_wall INT, is_fault INT, at REAL);
CREATE TABLE hosts (
    host TEXT PRIMARY KEY, urls INT, bytes INT, pages INT, fetches INT, secs REAL, denied INT,
    given_up INT, walls INT, faults INT, sent INT, first REAL, last REAL) WITHOUT ROWID;
CREATE TABLE faults (
    host TEXT, outcome TEXT, urls INT, last REAL, PRIMARY KEY (host, outcome)) WITHOUT ROWID;
CREATE TABLE queues (
    host TEXT PRIMARY KEY, state TEXT, ready_at REAL, waiting INT) WITHOUT ROWID;
CREATE TABLE paces (host TEXT PRIMARY KEY, secs REAL) WITHOUT ROWID;
CREATE TABLE parked (
    host TEXT, reason TEXT, urls INT, PRIMARY KEY (host, reason)) WITHOUT ROWID;
CREATE TABLE types (type TEXT PRIMARY KEY, urls INT, bytes INT, pages INT) WITHOUT ROWID;
CREATE TABLE seeds (
    url TEXT PRIMARY KEY, is_seed INT, status INT, outcome TEXT, redirect TEXT) WITHOUT ROWID;
CREATE TABLE digests (at REAL, url TEXT, digest TEXT);
CREATE INDEX dates ON digests (at);
"""
_ADD_DIGEST = "INSERT INTO digests VALUES (?, ?, ?)"
_DIGEST = "SELECT digest FROM digests WHERE at = ? AND url = ?"
_INSERT = f"INSERT INTO lines VALUES ({', '.join('?' * 19)})"  # noqa: S608  # only question marks
_ADD_UP = """
INSERT INTO hosts
    SELECT host, sum(is_first), sum(bytes), sum(is_page), sum(status OR sent OR secs > 0),
        sum(secs), sum(is_denied AND is_first), sum(is_given_up AND is_first), sum(is_wall),
        sum(is_fault), count(run_sent), min(run_sent), max(run_sent)
    FROM lines GROUP BY host
    ON CONFLICT DO UPDATE SET urls = urls + excluded.urls, bytes = bytes + excluded.bytes,
        pages = pages + excluded.pages, fetches = fetches + excluded.fetches,
        secs = secs + excluded.secs, denied = denied + excluded.denied,
        given_up = given_up + excluded.given_up, walls = walls + excluded.walls,
        faults = faults + excluded.faults, sent = sent + excluded.sent,
        first = coalesce(min(first, excluded.first), first, excluded.first),
        last = coalesce(max(last, excluded.last), last, excluded.last);
INSERT INTO faults
    SELECT host, outcome, count(*), max(at) FROM lines WHERE is_fault GROUP BY host, outcome
    ON CONFLICT DO UPDATE SET urls = urls + excluded.urls, last = max(last, excluded.last);
INSERT INTO types
    SELECT type, count(*), sum(bytes), sum(is_page) FROM lines WHERE status AND is_first
    GROUP BY type
    ON CONFLICT DO UPDATE SET urls = urls + excluded.urls, bytes = bytes + excluded.bytes,
        pages = pages + excluded.pages;
REPLACE INTO seeds
    SELECT url, is_seed, status, outcome, redirect FROM lines
    WHERE is_seed OR kind = 'redirect' ORDER BY rowid;
DELETE FROM lines;
"""


class TotalsFile:
    """Totals as rows of tables in a temporary SQLite file.

    hosts: for each host: finished URLs, bytes of all answers, pages, fetches and their time in
        seconds, URLs denied by robots.txt, URLs given up, and URLs that ended at a wall; failures
        of the kinds FAULTS; and of this run, the requests, and when the first and the last was
        sent.
    faults: for each host and outcome of these kinds: how often, and when it was the last time.
    queues: for each host with a queue: its state, when it is ready, and its waiting URLs.
    paces: for hosts that hold up the end: the time per URL that the crawl has measured, in seconds.
    parked: for each host and reason: its parked URLs.
    types: for each content type: answered URLs, their bytes, and pages.
    seeds: the last result of each seed, and of each URL that was found by a redirect.

    Takes up to 16 MB of memory. SQLite deletes the file itself. ``select`` may be called in any
    thread. All methods raise sqlite3.Error.
    """

    def __init__(self, *, run_began_at: float = 0.0) -> None:
        """Make the file for a crawl whose last run began at this epoch second; 0 if not known."""
        self._run_began_at = run_began_at
        self._database = sqlite3.connect("", check_same_thread=False)  # a temporary file
        self._database.executescript(_CREATE)
        #: When the table ``queues`` was written, in words; "" if it is empty.
        self.queues_at = ""
        self.set_exclusions(lambda _: False)
        for function, count in ((status_code, 2), (is_given_up, 1)):
            self._database.create_function(function.__name__, count, function)

    def add(self, lines: Iterable[OutcomeLine]) -> None:
        """Add *lines* of the log to the totals. Repeat visits only count as fetches, with bytes."""
        # In the order of the columns of the table ``lines``.
        rows = [
            (
                line.url,
                host_of(line.url),
                line.type or NO_TYPE,
                line.outcome,
                line.redirect,
                line.kind,
                line.status,
                line.bytes,
                line.took,
                line.kind in _SEEDS and not line.depth,
                line.sent,
                line.sent if line.sent >= max(self._run_began_at, 1.0) else None,
                not line.visit,
                is_document(line.outcome) and not line.visit,
                line.outcome == DENIED,
                is_given_up(line.outcome),
                bool(line.flags) or line.outcome in WALLS,
                kind_of(line.outcome) in FAULTS,
                line.at,
            )
            for line in lines
        ]
        self._database.executemany(_INSERT, rows)
        self._database.executescript(_ADD_UP)  # adds them to the other tables, and deletes them

    def set_exclusions(self, is_excluded: Callable[[str], bool]) -> None:
        """Let *is_excluded* tell, also in queries, whether a host is excluded from the crawl."""
        self.is_excluded = is_excluded
        self._database.create_function("is_excluded", 1, is_excluded)

    def replace_queues(self, rows: Iterable[tuple[str, str, float, int]], *, at: str = "") -> None:
        """Replace the table ``queues`` by *rows*, written *at* a time as from ``iso_time``."""
        self.queues_at = f"{at[:10]} {at[11:19]} UTC" if at else ""
        self._database.execute("DELETE FROM queues")
        self._database.executemany("REPLACE INTO queues VALUES (?, ?, ?, ?)", rows)

    def replace_paces(self, rows: Iterable[tuple[str, float]]) -> None:
        """Replace the table ``paces`` by *rows*."""
        self._database.execute("DELETE FROM paces")
        self._database.executemany("REPLACE INTO paces VALUES (?, ?)", rows)

    def replace_parked(self, rows: Iterable[tuple[str, str, int]]) -> None:
        """Replace the table ``parked`` by *rows*."""
        self._database.execute("DELETE FROM parked")
        self._database.executemany("REPLACE INTO parked VALUES (?, ?, ?)", rows)

    def add_digests(self, payloads: Path) -> None:
        """Add the digests in the table *payloads* of a WARC writer, if it can be read."""
        try:
            with closing(sqlite3.connect(f"{payloads.as_uri()}?mode=ro", uri=True)) as table:
                self._database.executemany(_ADD_DIGEST, table.execute(DIGESTS))
        except sqlite3.Error as error:
            if error.sqlite_errorname == "SQLITE_FULL":  # an error of our own file
                raise

    def digest(self, url: str, at: float) -> str:
        """Return the SHA-1 of the document of *url* that was fetched at *at*; "-" if unknown."""
        row = self._database.execute(_DIGEST, (at, url)).fetchone()
        return labelled_digest(bytes.fromhex(row[0])) if row else "-"

    def select(self, query: str, values: Mapping[str, object] = {}) -> sqlite3.Cursor:
        """Return the rows of the SQL *query*, with *values* for its names.

        Reading a million hosts takes a few seconds.

        The query can use the functions ``status_code``, ``is_given_up`` and ``is_excluded``.
        """
        return self._database.execute(query, values)

    def close(self) -> None:
        """Free the memory and delete the file."""
        self._database.close()
