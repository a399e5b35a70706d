"""Pages that wait to be rendered, and the subresources that they share (``JOBDIR/rendering/``).

One SQLite file. Each statement is one transaction. After a ``kill -9`` between two statements, a
page may get another pass, or a request may be sent again. After a reboot, and if it is of an
earlier version, the file is deleted, and its pages are fetched again. The tables::

    pages     the exchange of each page that waits, and what its passes have given so far
    requests  a stored answer, the reason of a refusal, or neither yet
    needs     the requests of each page, and whether they were answered

A request is pending, so it is to be sent, as long as a page waits for it: as long as it has a need
that was not answered.

In a hive, a *guest* is a page of another process, whose subresource is requested here (remote.py).
Its row has no key. Its needs are marked once the answer was sent there.

Pages share an answer if their requests have the same method, normalized URL, own fields and Accept.
They need the same Origin, too, unless the answer is for all origins: the other fields that Vary may
name are the same in all requests of the crawl, except for the cookies of a crawl with
COOKIES_ENABLED, which are not compared. The *audience* of a request tells apart what was requested
with and without the credentials of a host policy. A row with an *owner* serves only this page.
Other pages that waited for the same answer keep their row, and its entries in the frontier.

An answer is shared as long as it is fresh (net/freshness.py). Then its ETag or Last-Modified is
used to ask whether it has changed. An answer that never was fresh serves the pages that wait for
it, or, if it must not be shared, only the page for which it was requested.

All passes over a page may use an answer that was fresh when the page was fetched, or for which the
page has waited. Otherwise an answer that gets old between two passes would cost a pass.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from webcrawl.clock import wall_time
from webcrawl.configuration.decoding import msgpack_decoder
from webcrawl.net.freshness import fields_of, freshness_of
from webcrawl.net.guard import PRIVATE_ADDRESS, may_give
from webcrawl.render.engine import Answer, LookUp, Subresource
from webcrawl.render.subresources import is_withheld
from webcrawl.urls import normalize

#: Each version of the tables has its own name.
FILE = "store-3.sqlite"
#: Maximum size of the stored answers and refusals, in bytes.
MAX_BYTES = 200 << 20
# What a row takes without body and header fields, in bytes, with its entry in each index.
_ROW_BYTES = 500
# Seconds for which refusals are shared.
_REFUSED_SECS = 3600.0
_SCHEMA = """
PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;
CREATE TABLE IF NOT EXISTS pages (url TEXT PRIMARY KEY, key BLOB, since REAL, shape INTEGER,
    place TEXT, exchange BLOB, passes INTEGER DEFAULT 0, failures INTEGER DEFAULT 0, html TEXT,
    refused BLOB);
CREATE TABLE IF NOT EXISTS needs (page TEXT, request INTEGER, answered INTEGER,
    PRIMARY KEY (page, request)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS needs_by_request ON needs (request, answered);
CREATE TABLE IF NOT EXISTS requests (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, origin TEXT,
    audience TEXT, owner TEXT DEFAULT '', sent BLOB, refused TEXT, status INTEGER, headers BLOB,
    size INTEGER DEFAULT 0, stored_at REAL, fresh_until REAL DEFAULT 0,
    is_for_all INTEGER DEFAULT 0, place TEXT, body BLOB);
CREATE INDEX IF NOT EXISTS requests_by_name ON requests (name);
"""
# An engine does not know the audience of a page: it finds what was recorded as answered.
_USABLE = """ FROM requests LEFT JOIN needs ON request = id AND needs.page = :page
    WHERE name = :name AND (origin = :origin OR is_for_all) AND owner IN ('', :page) AND (answered
    OR fresh_until > (SELECT since FROM pages WHERE url = :page) AND audience = :audience)
    ORDER BY answered DESC, fresh_until DESC LIMIT 1"""
_PLACE = "SELECT place FROM pages WHERE url = :page"
# Needs of guests whose answer was sent; answered is 1 until then.
_IS_SENT = 2
# Whether the page ?2 waits for the request ?1, or any page if ?2 is "".
_WAITS = "(request = ?1 AND (page = ?2 OR ?2 = '' AND NOT answered))"
# The oldest rows of ? bytes in all, but first those that no page needs. Pending ones stay.
_OLDEST = """id IN (SELECT id FROM (
    SELECT id, sum(size) OVER (ORDER BY is_used, stored_at, id) - size AS before FROM (
        SELECT id, size, stored_at, (SELECT min(answered) FROM needs WHERE request = id) AS is_used
        FROM requests) WHERE is_used IS NOT 0) WHERE before < ?)"""
_FOR_PAGE = f"SELECT refused, status, headers, body, place, ({_PLACE}){_USABLE}"
_USABLE_ID = f"SELECT id{_USABLE}"

_decode_pairs = msgpack_decoder(list[tuple[str, str]])
_decode_sent = msgpack_decoder(Subresource)


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
        return _decode_pairs(self.refused) if self.refused else []


_COLUMNS = "SELECT url, key, since, shape, passes, failures, html, refused"
_PAGES = f"{_COLUMNS} FROM pages ORDER BY since"
_PAGE = f"{_COLUMNS}, exchange FROM pages WHERE url = ?"


class Need(NamedTuple):
    """The request *number* of a page: whether the page must wait, and is the first that waits."""

    number: int
    must_wait: bool
    is_new: bool


class Ended(NamedTuple):
    """A request that has ended at the time ``at``, with an answer or the reason of a refusal."""

    sent: Subresource
    refused: str
    at: float
    is_for_all: bool
    answer: Answer | None


def _key(subresource: Subresource, page: str, audience: str = "") -> dict[str, str]:
    """Return by what the answer for *page* is found."""
    fields = "".join(f"\n{name}: {value}" for name, value in subresource.fields)
    name = f"{subresource.method} {normalize(subresource.url)}{fields}"
    return {"name": name, "origin": subresource.origin, "page": page, "audience": audience}


def stored_answers(path: str) -> Callable[[str], LookUp]:
    """Return a function that returns the look-up of a page in the store at *path*."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)

    def look_up(page: str, subresource: Subresource) -> Answer | str | None:
        if normalize(subresource.url) is None:
            return "scheme"
        row = database.execute(_FOR_PAGE, _key(subresource, page)).fetchone()
        if row is None:
            return None
        refused, status, headers, body, place, page_place = row
        if refused:
            return str(refused)
        if not may_give(place, page_place):
            return PRIVATE_ADDRESS
        answer = Answer(status, _decode_pairs(headers), body)
        policy = fields_of(answer.headers).get("cross-origin-resource-policy", "")
        return "CORP" if is_withheld(subresource, policy, page) else answer

    return lambda page: partial(look_up, page)


class RenderStore:
    """The store in the directory *path*. Not thread-safe.

    All methods raise OSError if the disk is full or the file cannot be used.
    """

    def __init__(self, *, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        # Sum of the column ``size``. ``open`` sets it and the connection, which is None otherwise.
        self._size = 0
        self._database: sqlite3.Connection | None = None

    def open(self, *, forgets: bool) -> None:
        """Open the file. With *forgets*, start with an empty one: the machine went down. Blocks.

        Files of other versions are deleted, too.
        """
        # FILE has the version of the format in its name. If it does not exist, the directory has
        # at most files of other versions.
        if forgets or not (self.path / FILE).exists():
            shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(exist_ok=True)
        with self._disk_errors():
            database = sqlite3.connect(self.path / FILE, isolation_level=None)
            self._database = database
            # For speed, this turns off what protects the file from a crash of the machine. After
            # one, *forgets* deletes the file.
            database.executescript(_SCHEMA)
            (self._size,) = database.execute("SELECT total(size) FROM requests").fetchone()

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

    def keep(
        self, url: str, key: bytes, since: float, shape: int, exchange: bytes, *, place: str = ""
    ) -> None:
        """Store the *exchange* of the page *url*; it replaces an older one."""
        self.forget(url)
        self._rows(
            "INSERT INTO pages (url, key, since, shape, exchange, place) VALUES (?, ?, ?, ?, ?, ?)",
            (url, key, since, shape, exchange, place),
        )

    def add_guest(self, url: str, since: float, place: str) -> None:
        """Add the guest *url*; it replaces one that was fetched earlier."""
        rows = self._rows("SELECT since FROM pages WHERE url = ?", [url])
        if not rows or rows[0][0] < since:
            self.forget(url)
            query = "INSERT INTO pages (url, since, place) VALUES (?, ?, ?)"
            self._rows(query, (url, since, place))

    def forget_guest(self, url: str, until: float) -> None:
        """Delete the guest *url* if it was fetched before *until*."""
        query = "SELECT 1 FROM pages WHERE url = ? AND key IS NULL AND since <= ?"
        if self._rows(query, (url, until)):
            self.forget(url)

    def place_of(self, page: str) -> str:
        """Return from where *page* came; "public", which may have the least, if it is gone."""
        rows = self._rows(_PLACE, {"page": page})
        return str(rows[0][0]) if rows else "public"

    def page(self, url: str) -> SavedPage:
        """Return the row of the page *url*, which must exist."""
        return SavedPage(*self._rows(_PAGE, [url])[0])

    def end_pass(
        self,
        url: str,
        passes: int,
        failures: int,
        html: str | None,
        refused: list[tuple[str, str]],
    ) -> None:
        """Record a pass. *html* is the result of the last one; None if the page still waits."""
        if html is not None:
            self._rows("DELETE FROM needs WHERE page = ? AND NOT answered", [url])
        self._rows(
            "UPDATE pages SET passes = ?, failures = ?, html = ?, refused = ? WHERE url = ?",
            (passes, failures, html, msgspec.msgpack.encode(refused), url),
        )

    def forget(self, url: str) -> None:
        """Delete the page *url*, if it is there, and what only it could use."""
        self._delete("owner = ?1 AND id IN (SELECT request FROM needs WHERE page = ?1)", url)
        self._rows("DELETE FROM needs WHERE page = ?", [url])
        self._rows("DELETE FROM pages WHERE url = ?", [url])

    # --- subresources

    def need(self, page: str, subresource: Subresource, audience: str) -> Need:
        """Record that *page* needs *subresource*, whose URL can be fetched.

        The answer must then come by ``answer`` or ``refuse``. *audience* names the pages that get
        the same answer, "" for all.
        """
        key = _key(subresource, page, audience)
        # An answer that the page may use now, or the request that will bring one.
        usable = self._rows(_USABLE_ID, key)
        number = usable[0][0] if usable else self._find_or_add(key, subresource)
        is_new = not usable and self.pending_request(number) is None
        self._rows(
            "INSERT INTO needs VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET answered = excluded.answered",
            (page, number, bool(usable)),
        )
        return Need(number, not usable, is_new)

    def _find_or_add(self, key: dict[str, str], subresource: Subresource) -> int:
        """Return the number of the request with *key*."""
        rows = self._rows(
            "SELECT id FROM requests WHERE name = :name AND origin = :origin"
            " AND audience = :audience AND owner = ''",
            key,
        )
        if not rows:
            sent = replace(subresource, url=normalize(subresource.url) or "")
            rows = self._rows(
                "INSERT INTO requests (name, origin, audience, sent)"
                " VALUES (:name, :origin, :audience, :sent) RETURNING id",
                {**key, "sent": msgspec.msgpack.encode(sent)},
            )
        return int(rows[0][0])

    def pending_request(self, number: int) -> Subresource | None:
        """Return the request *number*, with a normalized URL, if it is pending."""
        query = "SELECT sent FROM requests JOIN needs ON request = id WHERE id = ? AND NOT answered"
        rows = self._rows(f"{query} LIMIT 1", [number])
        return _decode_sent(rows[0][0]) if rows else None

    def pending_of(self, page: str) -> set[int]:
        """Return the numbers of the requests that *page* waits for."""
        rows = self._rows("SELECT request FROM needs WHERE page = ? AND NOT answered", [page])
        return {number for (number,) in rows}

    def pending(self) -> list[tuple[int, str, str]]:
        """Return number and URL of the pending requests, with each page that waits for them.

        Those of the oldest pages are the first.
        """
        rows = self._rows(
            "SELECT id, sent, needs.page FROM requests JOIN needs ON request = id"
            " JOIN pages ON url = needs.page WHERE NOT answered ORDER BY since, id"
        )
        return [(number, _decode_sent(sent).url, page) for number, sent, page in rows]

    def pages_needing(self, number: int, *, answered: bool) -> list[str]:
        """Return the pages with an answer to the request *number*, or those that wait for it."""
        query = "SELECT page FROM needs WHERE request = ? AND answered = ?"
        return [page for (page,) in self._rows(query, (number, answered))]

    def pending_like(
        self, subresource: Subresource, audience: str, *, any_origin: bool
    ) -> set[int]:
        """Return the pending requests that the answer to *subresource* ends."""
        rows = self._rows(
            "SELECT DISTINCT id FROM requests JOIN needs ON request = id WHERE NOT answered"
            " AND name = :name AND audience = :audience AND (origin = :origin OR :any)",
            {**_key(subresource, "", audience), "any": any_origin},
        )
        return {number for (number,) in rows}

    def forget_need(self, page: str, number: int) -> None:
        """Delete what *page* needs of the request *number*."""
        self._rows("DELETE FROM needs WHERE page = ? AND request = ?", (page, number))

    def ended(self, number: int) -> Ended:
        """Return how the request *number* has ended."""
        query = (
            "SELECT sent, refused, stored_at, is_for_all AND fresh_until FROM requests WHERE id = ?"
        )
        sent, refused, at, is_for_all = self._rows(query, [number])[0]
        answer = None if refused else self._stored(number)
        # A redirect is followed for each origin.
        is_for_all = is_for_all and answer is not None and not 300 <= answer.status < 400
        return Ended(_decode_sent(sent), refused or "", at, bool(is_for_all), answer)

    def note_sent(self, page: str, number: int) -> None:
        """Note that the guest *page* was sent the answer to the request *number*."""
        self._rows(
            "UPDATE needs SET answered = ? WHERE page = ? AND request = ?", (_IS_SENT, page, number)
        )

    def head_of(self, number: int) -> tuple[str, dict[str, str], str]:
        """Return method, header fields and audience of the pending request *number*.

        The fields ask whether the stored answer, if there is one, has changed.
        """
        sent = self.pending_request(number)
        assert sent is not None
        # An answer that is no longer fresh.
        stored = self._stored(number)
        known = fields_of(stored.headers) if stored else {}
        names = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
        validators = {names[name]: value for name, value in known.items() if name in names}
        own = {"Origin": sent.origin, "Referer": sent.referer}
        given = {name: value for name, value in own.items() if value}
        rows = self._rows("SELECT audience FROM requests WHERE id = ?", [number])
        return sent.method, {**dict(sent.fields), **given, **validators}, rows[0][0]

    def _stored(self, number: int) -> Answer | None:
        query = (
            "SELECT status, headers, body, place FROM requests WHERE id = ? AND body IS NOT NULL"
        )
        rows = self._rows(query, [number])
        if not rows:
            return None
        status, headers, body, place = rows[0]
        return Answer(status, _decode_pairs(headers), body, place or "")

    def answer(self, number: int, answer: Answer, page: str, at: float = 0.0) -> int:
        """Store *answer* to the pending request *number*, which was sent for *page*.

        It came now, or to another process at the time *at*. If it must not be shared, only this
        page gets it, and the others still wait. Returns the number under which it is stored.
        """
        if answer.status == 304:  # not modified
            stored = self._stored(number)
            if stored is None:  # nothing was asked, and the answer is useless
                return self.refuse(number, "http_304")
            # The stored answer is still right, with the new header fields in place of the old ones.
            changed = {name.lower() for name, _ in answer.headers}
            kept = [field for field in stored.headers if field[0].lower() not in changed]
            answer = replace(stored, headers=[*kept, *answer.headers], place=answer.place)
        now = at or wall_time()
        sent = self.pending_request(number)
        is_preflight = sent is not None and sent.method == "OPTIONS"
        freshness = freshness_of(answer.status, answer.headers, now, is_preflight=is_preflight)
        ended = self._end(
            number,
            "" if freshness.is_shared else page,
            refused=None,
            status=answer.status,
            headers=msgspec.msgpack.encode(answer.headers),
            body=answer.body,
            fresh_until=freshness.until,
            place=answer.place,
            is_for_all=freshness.is_for_all,
        )
        # A redirect is followed for each origin.
        if freshness.until and freshness.is_for_all and not 300 <= answer.status < 400:
            self._answer_other_origins(ended)
        return ended

    def _answer_other_origins(self, number: int) -> None:
        """Give the answer to the request *number* to pages that wait for it with other origins."""
        self._rows(
            "UPDATE OR REPLACE needs SET request = ?1, answered = 1 WHERE NOT answered AND request"
            " IN (SELECT other.id FROM requests other JOIN requests USING (name, audience, owner)"
            " WHERE requests.id = ?1)",
            [number],
        )

    def refuse(self, number: int, reason: str, page: str = "") -> int:
        """Record that the pending request *number* gets no answer, for *reason*.

        If the reason lies in a *page*, only this page is refused, and the others still wait.
        Returns the number under which it is stored.
        """
        # Pages share a refusal for an hour. But the user may raise a budget at any time.
        until = 0.0 if reason == "over_budget" else wall_time() + _REFUSED_SECS
        return self._end(
            number, page, refused=reason, status=0, headers=b"", body=None, fresh_until=until
        )

    def _end(self, number: int, owner: str, **columns: Any) -> int:
        """Set *columns* of the request *number*, or of its copy for *owner* if others need it.

        Otherwise a page of another site could end the request, or change its place in the queues.
        A failure gets a copy, too, if pages have an older answer, which they keep.
        """
        ended = number
        values = number, owner  # for _WAITS
        is_failure = columns["refused"] or columns["status"] >= 400
        if (owner or is_failure) and self._rows(
            f"SELECT 1 FROM needs WHERE request = ?1 AND NOT {_WAITS}",  # noqa: S608  # constants
            values,
        ):
            ended = self._rows(
                "INSERT INTO requests (name, origin, audience, sent)"
                " SELECT name, origin, audience, sent FROM requests WHERE id = ? RETURNING id",
                [number],
            )[0][0]
            self._rows(
                f"UPDATE needs SET request = ?3 WHERE {_WAITS}",  # noqa: S608  # constants
                (*values, ended),
            )
        size = len(columns["body"] or b"") + len(columns["headers"]) + _ROW_BYTES
        rows = self._rows("SELECT size FROM requests WHERE id = ?", [ended])
        self._size += size - rows[0][0]
        columns |= {"owner": owner, "size": size, "stored_at": wall_time()}
        sets = ", ".join(f"{column} = ?" for column in columns)
        self._rows(
            f"UPDATE requests SET {sets} WHERE id = ?",  # noqa: S608  # constants
            (*columns.values(), ended),
        )
        self._rows("UPDATE needs SET answered = 1 WHERE request = ? AND NOT answered", [ended])
        if self._size > self._max_bytes:
            # Deleting reads all rows, so make room for many answers: a tenth of the maximum.
            self._delete(_OLDEST, self._size - self._max_bytes * 0.9)
        return ended

    def _delete(self, condition: str, value: Any) -> None:
        """Delete the requests for which *condition* holds."""
        query = f"DELETE FROM requests WHERE {condition} RETURNING size"  # noqa: S608  # constants
        self._size -= sum(size for (size,) in self._rows(query, [value]))

    # --- SQLite

    def _rows(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        with self._disk_errors():
            assert self._database is not None
            return self._database.execute(query, values).fetchall()

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Convert SQLite's errors to OSError, which ends the crawl with a sentence."""
        try:
            yield
        except sqlite3.Error as error:
            is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
            raise OSError(
                errno.ENOSPC if is_full else errno.EIO, str(error), str(self.path / FILE)
            ) from error
