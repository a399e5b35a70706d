"""Reads a crawl's seeds from its sources, and keeps track of progress and bad lines."""

from __future__ import annotations

import copy
import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.crawl.seeds.line_reader import BrokenGzip, LineReader, SourceCursor, damage_of
from webcrawl.crawl.seeds.seed_line import BadLine, parse_line
from webcrawl.errors import FatalError, require_file
from webcrawl.storage.atomic import replacement
from webcrawl.urls.registered_domain import current_list
from webcrawl.wording import counted

logger = logging.getLogger(__name__)

STDIN = "-"
SPOOL_NAME = "stdin.txt"
#: Maximum number of bad lines logged in one run; further ones are only counted.
LOGGED_BAD_LINES = 20
#: Maximum number of bytes of a bad line in the log.
LOGGED_BYTES = 80
# Maximum number of new seed lists that the log names.
_LOGGED_NAMES = 3
SNAPSHOT_VERSION = 1


class SeedsError(FatalError):
    """Raised when a crawl cannot start because of its seeds."""


class Seed(msgspec.Struct, frozen=True, gc=False):
    """A normalized URL and its rank or line number."""

    url: str
    rank: int  # from the rank column, otherwise the line number


class Snapshot(msgspec.Struct):
    """The content of ``SeedReader.snapshot``, encoded as msgpack."""

    version: int
    seeds_read: int
    seeds_bad: int
    cursors: list[SourceCursor]


_decode = msgpack_decoder(Snapshot)


def split_sources(argument: str) -> list[str]:
    """Split *argument*, the value of ``-a seeds=``, at its commas, without repeated sources.

    A source is a file, a URL, a domain or ``-`` for standard input.
    """
    return list(dict.fromkeys(part.strip() for part in argument.split(",") if part.strip()))


class SeedReader:
    """Reads the seeds of all *sources*, in order. Only one source is open at a time.

    Call ``open``, then ``read`` until ``exhausted``, then ``close``. Standard input is first saved
    to a file in *spool_dir*.
    """

    def __init__(self, *, sources: Sequence[str], spool_dir: Path, stdin: BinaryIO) -> None:
        self._names = list(sources)
        # Standard input is saved here before it is read, so that a later run can continue.
        self._spool = spool_dir / SPOOL_NAME
        self._stdin = stdin
        # Readers of the sources, found by ``open``, and the index of the one that is read next.
        self._sources: list[LineReader] = []
        self._current = 0
        # Number of bad lines in this run, of which only the first ones are logged.
        self._logged = 0
        self.seeds_read = 0  # the stat seeds/read
        self.seeds_bad = 0  # the stat seeds/bad

    def open(self, snapshot: bytes | None) -> None:
        """Find all sources, and continue from *snapshot*; None starts at the beginning.

        Blocks until standard input was saved to its end, unless an earlier run of this job has read
        it, and until the first seed was found. Raises SeedsError if a source that is not finished
        cannot be read, or if no source has a seed. May be called again with another snapshot.
        """
        self.close()
        self._current = 0
        saved = _decode_snapshot(snapshot)
        self.seeds_read = saved.seeds_read
        self.seeds_bad = saved.seeds_bad
        cursors = {cursor.key: cursor for cursor in saved.cursors}
        if not self._names:
            raise SeedsError("No seeds were named: give a file, as in -a seeds=hosts.txt.")

        self._sources = [self._find(name, cursors) for name in self._names]
        new_names = [source.name for source in self._sources if source.cursor.key not in cursors]
        if cursors and new_names:
            logger.warning(
                "This crawl was started with other seeds; added now: %s%s. To crawl these "
                "separately, choose another directory with -s JOBDIR=DIR.",
                ", ".join(new_names[:_LOGGED_NAMES]),
                " ..." if len(new_names) > _LOGGED_NAMES else "",
            )

        self._skip_done()
        if not self.seeds_read:
            self._check_has_seeds()
        for sentence in self.damaged:
            logger.warning("seeds: %s", sentence)

    @property
    def has_sources(self) -> bool:
        """Return whether any source was named."""
        return bool(self._names)

    @property
    def exhausted(self) -> bool:
        """Return whether all sources have been read as far as possible in this run."""
        return self._current == len(self._sources)

    @property
    def damaged(self) -> list[str]:
        """Return a sentence for each list that cannot be read to its end."""
        return [
            f"{source.name} is damaged ({source.cursor.damage}): the seeds after that are missing"
            for source in self._sources
            if source.cursor.damage
        ]

    @property
    def begins_source(self) -> bool:
        """Return whether the next line is the first of its source, or there is no next line."""
        return self.exhausted or not self._sources[self._current].cursor.line

    def add(self, names: Sequence[str]) -> None:
        """Also read the sources *names*, except those already known.

        Raises SeedsError, like ``open``.
        """
        known_names = set(self._names)
        new_names = [name for name in names if name not in known_names]
        self._sources += [self._find(name, {}) for name in new_names]
        self._names += new_names

    def read(self, limit: int) -> list[Seed]:
        """Read up to *limit* lines, and at most one chunk of a source; return the seeds in them.

        The list may be short or empty before ``exhausted``, because comments and bad lines count
        towards *limit*. After a restart, lists are empty while a gzip file is decompressed up to
        the cursor. If a source cannot be read to its end, that is logged and the next source
        follows; nothing is raised. Takes about 2 us per line.
        """
        if self.exhausted:
            return []
        source = self._sources[self._current]
        cursor = source.cursor
        seeds: list[Seed] = []
        try:
            first_number = cursor.line + 1
            for number, line in enumerate(source.take(limit), start=first_number):
                try:
                    parsed = parse_line(line)
                except BadLine as bad:
                    self._report(source, number, line, str(bad))
                    continue
                if parsed is not None:
                    url, rank = parsed
                    seeds.append(Seed(url, number if rank is None else rank))
            is_over = source.ended
            cursor.done = is_over
        except BrokenGzip as broken:
            # Reading the same bytes again would fail again, so only a changed file is read again.
            cursor.done = True
            is_over = True
            cursor.damage = str(broken)
            self._report(source, cursor.line + 1, broken.line, str(broken))
        except OSError as error:
            # The cursor is not done, so the next run continues from here.
            is_over = True
            logger.error("seeds: cannot read the rest of %s: %s", source.name, _reason(error))  # noqa: TRY400 - a lost mount needs no traceback

        cursor.seeds += len(seeds)
        self.seeds_read += len(seeds)
        if is_over:
            self._finish_source(source)
        return seeds

    def snapshot(self) -> bytes:
        """Return the cursors, for ``open`` in a later run. Does not use the disk."""
        cursors = [source.cursor for source in self._sources]
        return msgspec.msgpack.encode(
            Snapshot(SNAPSHOT_VERSION, self.seeds_read, self.seeds_bad, cursors)
        )

    def written(self) -> list[Path]:
        """Return an empty list, because saved standard input was already synced to disk."""
        return []

    def forget(self) -> None:
        """Do nothing. Saved standard input is kept, because a resumed crawl may need it again."""

    def close(self) -> None:
        for source in self._sources:
            source.close()

    def _find(self, name: str, saved: dict[str, SourceCursor]) -> LineReader:
        """Return a reader of the source *name*, with its cursor in *saved* or a new one.

        The cursor is new if the file has changed. Raises SeedsError if the source cannot be read.
        """
        if _is_seed(name):
            line = name.encode()
            return LineReader(name, line, saved.get(name) or SourceCursor(name, len(line), 0))
        if name == STDIN:
            key = STDIN
            cursor = saved.get(key)
            path = self._spool
            # Unless an earlier run has read it to the end, or saved it.
            if cursor is None or not (cursor.done or path.exists()):
                self._save_stdin()
        else:
            path = Path(name).absolute()
            key = str(path)
            cursor = saved.get(key)

        try:
            status = require_file(path)
        except (OSError, ValueError) as error:
            if cursor is not None and cursor.done:  # the file is not needed any more
                return LineReader(name, path, cursor)
            # The message names the working directory; under scrapyd that is the daemon's.
            hint = "" if path == Path(name) else f" (looked for in {Path.cwd()})"
            hint += ". It is not a URL or known domain either" if "/" not in name else ""
            hint += ". The command webcrawl-seeds makes that list" if "top1m.csv" in name else ""
            raise SeedsError(f"Cannot read the seeds in {name}: {_reason(error)}{hint}.") from error

        new_cursor = SourceCursor(key, status.st_size, status.st_mtime_ns)
        if cursor is not None:
            if (cursor.size, cursor.mtime_ns) == (new_cursor.size, new_cursor.mtime_ns):
                return LineReader(name, path, cursor)
            logger.warning("seeds: %s has changed and is read again from its start", name)
        new_cursor.damage = damage_of(path)
        return LineReader(name, path, new_cursor)

    def _save_stdin(self) -> None:
        """Save standard input to a file, unless it is empty and an earlier run has saved it.

        A terminal counts as empty, because it would wait for someone to type.
        """
        is_saved = self._spool.exists()
        try:
            start = b"" if is_saved and self._stdin.isatty() else self._stdin.read(1)
            if is_saved and not start:
                logger.info("seeds: standard input was saved by an earlier run in %s", self._spool)
                return
            self._spool.parent.mkdir(parents=True, exist_ok=True)
            with replacement(self._spool) as aside, aside.open("wb") as file:
                file.write(start)
                shutil.copyfileobj(self._stdin, file)
        except (OSError, ValueError) as error:
            why = _reason(error)
            raise SeedsError(f"Cannot save standard input to {self._spool}: {why}.") from error

    def _check_has_seeds(self) -> None:
        """Raise SeedsError unless some source has a seed. Cursors do not move."""
        first_problem = ""
        for source in self._sources:
            reader = LineReader(source.name, source.source, copy.copy(source.cursor))
            try:
                while not reader.ended:
                    first_number = reader.cursor.line + 1
                    for number, line in enumerate(reader.take(1000), start=first_number):
                        try:
                            if parse_line(line) is not None:
                                return
                        except BadLine as bad:
                            first_problem = first_problem or f" ({source.name}:{number}: {bad})"
            except (BrokenGzip, OSError) as error:
                first_problem = first_problem or f" ({source.name}: {_reason(error)})"
            finally:
                reader.close()

        if STDIN in self._names:
            self._spool.unlink(missing_ok=True)  # the next run may have better input
        raise SeedsError(f"No seeds in {', '.join(self._names)}{first_problem}.")

    def _report(self, source: LineReader, number: int, line: bytes, why: str) -> None:
        """Count a bad line of *source*, and log it unless many were logged in this run."""
        source.cursor.bad += 1
        self.seeds_bad += 1
        self._logged += 1
        if self._logged <= LOGGED_BAD_LINES:
            excerpt = line[:LOGGED_BYTES]
            logger.warning("seeds: %s:%d: %s: %r", source.name, number, why, excerpt)
        elif self._logged == LOGGED_BAD_LINES + 1:
            logger.warning("seeds: further bad lines are only counted")

    def _finish_source(self, source: LineReader) -> None:
        """Close *source*, log its counts, and go to the next source that is not done."""
        source.close()
        cursor = source.cursor
        level = logging.WARNING if cursor.bad else logging.INFO
        numbers = {"seed": cursor.seeds, "bad line": cursor.bad, "line": cursor.line}
        counts = (counted(number, noun) for noun, number in numbers.items())
        logger.log(level, "seeds: %s: %s, %s, %s", source.name, *counts)
        self._current += 1
        self._skip_done()

    def _skip_done(self) -> None:
        while not self.exhausted and self._sources[self._current].cursor.done:
            self._current += 1


def _is_seed(name: str) -> bool:
    """Return whether *name* is itself a seed: a URL, or a domain with a known suffix.

    An existing file is not a seed, nor is a mistyped ``hosts.txt``.
    """
    host = name.partition("/")[0].partition(":")[0]
    return "://" in name or (
        "." in host and current_list().has_suffix_rule(host) and not os.path.exists(name)  # noqa: PTH110  # no name raises
    )


def _decode_snapshot(snapshot: bytes | None) -> Snapshot:
    """Decode *snapshot*; None is an empty one. Raises SeedsError if it cannot be decoded."""
    if snapshot is None:
        return Snapshot(SNAPSHOT_VERSION, 0, 0, [])
    try:
        saved = _decode(snapshot)
    except UndecodableError as error:
        raise SeedsError(f"The saved seed cursor cannot be read: {error}.") from error
    if saved.version > SNAPSHOT_VERSION:
        raise SeedsError(
            f"The saved seed cursor has format {saved.version}; this code reads {SNAPSHOT_VERSION}."
        )
    return saved


def _reason(error: Exception) -> str:
    """Return the operating system's message for *error*, without error number and path."""
    return str(getattr(error, "strerror", None) or error)
