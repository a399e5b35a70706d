"""Pages that wait to be rendered, and the subresources that they share (``JOBDIR/rendering/``).

One SQLite file. It survives ``kill -9``, as each change is one transaction; after a reboot it is
deleted, and its pages are fetched again. The tables::

    pages    the exchange of each page that waits, and what its passes have given so far
    needs    the names of the subresources that a page has requested, and whether it got them
    answers  by name: a stored answer, the reason of a refusal, or the request that is under way

The name of a subresource is its normalized URL without cache-busters. An answer is shared for as
long as RFC 9111 lets a shared cache keep it: by max-age or Expires, or an hour if the server says
nothing. Then its ETag or Last-Modified is used to ask whether it has changed. One that varies by
more than Accept-Encoding, or may not be stored, serves only the pages that wait for it.

All passes over a page may use an answer that was fresh when the page was fetched, or for which the
page has waited. Otherwise an answer that gets old between two passes would cost a pass.
"""

from __future__ import annotations

import errno
import re
import shutil
import sqlite3
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from webcrawl.clock import wall_time
from webcrawl.configuration.decoding import msgpack_decoder
from webcrawl.render.engine import Answer
from webcrawl.urls import normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from webcrawl.render.engine import Kind, LookUp

FILE = "store.sqlite"
#: Maximum total size of the bodies of stored answers, in bytes.
MAX_BYTES = 200 << 20
# Freshness in seconds: of refusals and of answers without max-age and Expires; maximum.
_USUAL_SECS, _MAX_SECS = 3600.0, 30 * 86_400.0
# Query parameters that only prevent caching: names with any number, and names with a time in
# seconds or milliseconds.
_BUSTER = re.compile(
    r"(?:_|nocache|cachebuster|cachebust|cb|rnd|rand|random)=[\d.]+"
    r"|(?:v|ver|t|ts|time|timestamp|r|_t|_ts|bust)=1\d{9}(?:\d{3})?",
    re.ASCII | re.IGNORECASE,
)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS pages (url TEXT PRIMARY KEY, key BLOB, since REAL, shape INTEGER,
    exchange BLOB, passes INTEGER DEFAULT 0, failures INTEGER DEFAULT 0, html TEXT, refused BLOB);
CREATE TABLE IF NOT EXISTS needs (page TEXT, name TEXT, answered INTEGER,
    PRIMARY KEY (page, name)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS needs_by_name ON needs (name);
CREATE TABLE IF NOT EXISTS answers (name TEXT PRIMARY KEY, pending TEXT, refused TEXT,
    status INTEGER, headers BLOB, body BLOB, size INTEGER DEFAULT 0, stored_at REAL,
    fresh_until REAL DEFAULT 0);
"""
_USABLE = """ FROM answers WHERE name = :name
    AND (fresh_until > (SELECT since FROM pages WHERE url = :page)
    OR EXISTS (SELECT 1 FROM needs WHERE page = :page AND needs.name = :name AND answered))"""
_FOR_PAGE = f"SELECT refused, status, headers, body{_USABLE}"
_IS_USABLE = f"SELECT 1{_USABLE}"

_decode_headers = msgpack_decoder(list[tuple[str, str]])
_decode_refused = msgpack_decoder(list[tuple[str, str]])


class SavedPage(NamedTuple):
    """Row of a page. ``html`` is None as long as it waits; ``key`` is that of its entry.

    ``shape`` is that of a candidate (candidates.py), 0 for a page that is rendered in any case.
    """

    url: str
    key: bytes
    since: float
    shape: int
    passes: int
    failures: int
    html: str | None
    refused: bytes | None
    exchange: bytes = b""

    @property
    def refusals(self) -> list[tuple[str, str]]:
        """Return the URLs that the last pass did not get, with the reasons."""
        return _decode_refused(self.refused) if self.refused else []


_COLUMNS = "SELECT url, key, since, shape, passes, failures, html, refused"
_PAGES = f"{_COLUMNS} FROM pages ORDER BY since"
_PAGE = f"{_COLUMNS}, exchange FROM pages WHERE url = ?"


def name_of(url: str) -> str:
    """Return the name under which *url* is stored; "" if it may not be fetched at all."""
    normalized = normalize(url) or ""
    path, mark, query = normalized.partition("?")
    if not mark:
        return path
    kept = "&".join(part for part in query.split("&") if not _BUSTER.fullmatch(part))
    return f"{path}?{kept}" if kept else path


def stored_answers(path: str) -> Callable[[str], LookUp]:
    """Return a function that returns the look-up of a page in the store at *path*."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)

    def look_up(page: str, url: str, kind: Kind) -> Answer | str | None:  # noqa: ARG001  # an engine's
        name = name_of(url)
        if not name:
            return "scheme"
        row = database.execute(_FOR_PAGE, {"page": page, "name": name}).fetchone()
        if row is None:
            return None
        refused, status, headers, body = row
        return str(refused) if refused else Answer(status, _decode_headers(headers), body)

    return lambda page: partial(look_up, page)


class RenderStore:
    """The store in the directory *path*. Not thread-safe; each call is one transaction.

    All methods raise OSError if the disk is full or the file cannot be used.
    """

    def __init__(self, *, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._size = 0
        self._database: sqlite3.Connection | None = None

    def open(self, *, forgets: bool) -> None:
        """Open the file. With *forgets*, start with an empty one: the machine went down. Blocks."""
        if forgets:
            shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(exist_ok=True)
        with self._errors():
            self._database = database = sqlite3.connect(self.path / FILE, isolation_level=None)
            # A crash of the machine may damage the file, but then it is deleted.
            database.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; {_SCHEMA}")
            (self._size,) = database.execute("SELECT total(size) FROM answers").fetchone()

    def close(self) -> None:
        """Close the file."""
        if self._database is not None:
            self._database.close()
            self._database = None

    # --- pages

    def pages(self) -> Iterator[SavedPage]:
        """Yield the pages without their exchanges, the oldest first."""
        for row in self._rows(_PAGES):
            yield SavedPage(*row)

    def keep(self, url: str, key: bytes, since: float, shape: int, exchange: bytes) -> None:
        """Store the *exchange* of the page *url*; it replaces an older one."""
        self.forget(url)
        self._run(
            "INSERT INTO pages (url, key, since, shape, exchange) VALUES (?, ?, ?, ?, ?)",
            (url, key, since, shape, exchange),
        )

    def page(self, url: str) -> SavedPage:
        """Return the row of the page *url*, which must exist."""
        return SavedPage(*self._rows(_PAGE, [url])[0])

    def end_pass(
        self,
        url: str,
        *,
        passes: int,
        failures: int,
        html: str | None,
        refused: list[tuple[str, str]],
    ) -> None:
        """Record a pass. *html* is the result of the last one; None if the page still waits."""
        self._run(
            "UPDATE pages SET passes = ?, failures = ?, html = ?, refused = ? WHERE url = ?",
            (passes, failures, html, msgspec.msgpack.encode(refused), url),
        )

    def forget(self, url: str) -> None:
        """Delete the page *url*, if it is there."""
        self._run("DELETE FROM needs WHERE page = ?", (url,))
        self._run("DELETE FROM pages WHERE url = ?", (url,))

    # --- subresources

    def need(self, page: str, url: str) -> tuple[bool, bool]:
        """Record that *page* needs *url*; return whether it must wait, and whether to request it.

        The answer must then come by ``answer`` or ``refuse``.
        """
        name = name_of(url)
        is_usable = bool(self._rows(_IS_USABLE, {"page": page, "name": name}))
        self._run(
            "INSERT INTO needs VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET answered = excluded.answered",
            (page, name, is_usable),
        )
        if is_usable:
            return False, False
        if self.is_pending(url):
            return True, False
        self._run(
            "INSERT INTO answers (name, pending) VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET pending = excluded.pending",
            (name, url),
        )
        return True, True

    def count_needs(self, page: str) -> int:
        """Return how many subresources *page* has asked for."""
        (row,) = self._rows("SELECT count(*) FROM needs WHERE page = ?", (page,))
        return int(row[0])

    def is_pending(self, url: str) -> bool:
        """Return whether *url* is to be fetched."""
        query = "SELECT 1 FROM answers WHERE name = ? AND pending IS NOT NULL"
        return bool(self._rows(query, (name_of(url),)))

    def pending_of(self, page: str) -> set[str]:
        """Return the names of the subresources that *page* waits for."""
        rows = self._rows("SELECT name FROM needs WHERE page = ? AND NOT answered", (page,))
        return {name for (name,) in rows}

    def pending(self) -> list[tuple[str, str]]:
        """Return the URLs to be fetched, each with a page that needs it; "" if none does."""
        return self._rows(
            "SELECT pending, coalesce((SELECT page FROM needs WHERE needs.name = answers.name), '')"
            " FROM answers WHERE pending IS NOT NULL"
        )

    def pages_needing(self, url: str) -> list[str]:
        """Return the pages that have asked for *url*."""
        rows = self._rows("SELECT page FROM needs WHERE name = ?", (name_of(url),))
        return [page for (page,) in rows]

    def validators(self, url: str) -> dict[str, str]:
        """Return the header fields that ask whether the stored answer for *url* has changed."""
        query = "SELECT headers FROM answers WHERE name = ? AND body IS NOT NULL"
        rows = self._rows(query, (name_of(url),))
        fields = _fields(_decode_headers(rows[0][0])) if rows else {}
        names = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
        return {names[name]: value for name, value in fields.items() if name in names}

    def answer(self, url: str, answer: Answer) -> None:
        """Store *answer* for *url*, which is no longer pending."""
        now = wall_time()
        fresh_until = _fresh_until(_fields(answer.headers), now)
        if answer.status == 304:  # not modified
            # Without a stored body nothing was asked, and the answer is useless.
            self._run(
                "UPDATE answers SET pending = NULL, fresh_until = ?, refused ="
                " CASE WHEN body IS NULL THEN 'http_304' END WHERE name = ?",
                (fresh_until, name_of(url)),
            )
            self._note_answered(url)
            return
        self._set(
            url,
            refused=None,
            status=answer.status,
            headers=msgspec.msgpack.encode(answer.headers),
            body=answer.body,
            size=len(answer.body),
            stored_at=now,
            fresh_until=fresh_until,
        )
        self._evict()

    def refuse(self, url: str, reason: str) -> None:
        """Record that *url* is unavailable, for *reason*, and no longer pending."""
        self._set(url, refused=reason, body=None, size=0, fresh_until=wall_time() + _USUAL_SECS)

    def _set(self, url: str, **columns: Any) -> None:
        name = name_of(url)
        rows = self._rows("SELECT size FROM answers WHERE name = ?", (name,))
        self._size += columns["size"] - (rows[0][0] if rows else 0)
        sets = ", ".join(f"{column} = ?" for column in columns)
        self._run(
            f"UPDATE answers SET pending = NULL, {sets} WHERE name = ?",  # noqa: S608  # constants
            (*columns.values(), name),
        )
        self._note_answered(url)

    def _note_answered(self, url: str) -> None:
        self._run("UPDATE needs SET answered = 1 WHERE name = ?", (name_of(url),))

    def _evict(self) -> None:
        """Delete answers until the rest fit: the oldest, but first those that no page needs."""
        while self._size > self._max_bytes:
            rows = self._rows(
                "SELECT name, size FROM answers WHERE pending IS NULL AND size > 0 ORDER BY"
                " EXISTS (SELECT 1 FROM needs WHERE needs.name = answers.name), stored_at LIMIT 50"
            )
            if not rows:
                return
            for name, size in rows:
                self._run("DELETE FROM answers WHERE name = ?", (name,))
                self._size -= size
                if self._size <= self._max_bytes:
                    return

    # --- SQLite

    def _rows(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        with self._errors():
            assert self._database is not None
            return self._database.execute(query, values).fetchall()

    def _run(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> None:
        self._rows(query, values)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert SQLite's errors to OSError, which ends the crawl with a sentence."""
        try:
            yield
        except sqlite3.Error as error:
            is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
            raise OSError(
                errno.ENOSPC if is_full else errno.EIO, str(error), str(self.path / FILE)
            ) from error


def _fields(headers: list[tuple[str, str]]) -> dict[str, str]:
    """Return *headers* by lower-case name; repeated fields are joined."""
    fields: dict[str, str] = {}
    for spelling, value in headers:
        name = spelling.lower()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def _fresh_until(fields: dict[str, str], now: float) -> float:
    """Return until when an answer may be shared (RFC 9111, sections 3 and 4.2); 0 for never."""
    control = {
        name.strip().lower(): value.strip('" ')
        for name, _, value in (
            part.partition("=") for part in fields.get("cache-control", "").split(",")
        )
    }
    varies = {name.strip().lower() for name in fields.get("vary", "").split(",")}
    is_unshared = varies - {"", "accept-encoding"} or control.keys() & {
        "no-store", "no-cache", "private"
    }  # fmt: skip
    if is_unshared:
        return 0.0
    age = _number(fields.get("age", "")) or 0.0
    for name in ("s-maxage", "max-age"):
        if name in control:
            secs = (_number(control[name]) or 0.0) - age
            break
    else:
        secs = _USUAL_SECS
        if "expires" in fields:
            secs = _epoch(fields["expires"], 0.0) - _epoch(fields.get("date", ""), now)
    return now + min(secs, _MAX_SECS) if secs > 0 else 0.0


def _number(text: str) -> float | None:
    return float(text) if text.isdecimal() and len(text) < 12 else None


def _epoch(text: str, default: float) -> float:
    """Return the epoch seconds of an HTTP date, *default* if it is not one."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return default
