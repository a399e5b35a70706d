"""Journal of the commands to a crawl: ``JOBDIR/logs/control.jsonl``.

control/ writes it, and everything that describes a job reads it. A command is appended and fsynced
before it takes effect. When it is done and durable, its number is appended again with the answer. A
lasting change stays in force until another line with the same key replaces or ends it. If a
one-time command has no answer, the next process carries it out again. The log is not split into
files, because an old file could hold a change that is still in force. It does not exist before the
first command. The last field of a line, ``sum``, is the XXH3 of the rest of the line; lines of
earlier versions lack it.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
from scrapy.settings import BaseSettings
from xxhash import xxh3_64_hexdigest

from webcrawl.configuration.decoding import (
    Count,
    Seconds,
    UndecodableError,
    check_depth,
    json_decoder,
)
from webcrawl.errors import FatalError
from webcrawl.hosts.host_rules import COMMANDS, HostRules
from webcrawl.storage.line_log import LineLog
from webcrawl.wording import utc_time

#: Path of the journal, relative to the job directory.
JOURNAL = "logs/control.jsonl"
# Maximum nesting of arguments, which are words, numbers and lists of words.
_MAX_DEPTH = 2


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command as it was received, with its *origin*: the program and user that sent it."""

    name: Annotated[str, msgspec.Meta(max_length=40)] = ""
    arguments: dict[str, Any] = {}
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
    origin: Annotated[str, msgspec.Meta(max_length=500)] = ""

    def __post_init__(self) -> None:
        check_depth(self.arguments, _MAX_DEPTH)


decode_request = json_decoder(Request)


class Change(Request, frozen=True, omit_defaults=True, kw_only=True):
    """A line of the journal. With an *answer* it answers the command of the same number.

    *at* is the time in epoch seconds, *n* the number of the command. *state_key* names what the
    command changes. *ends* says that it ends an earlier change with that key. *undo* is the command
    line that ends the change. With *redo_if_unanswered* the command is carried out again if it has
    no answer. *hive* is its number in the journal of a hive.
    """

    at: Seconds
    n: Count
    state_key: str = msgspec.field(default="", name="lasts")
    ends: bool = False
    undo: str = ""
    redo_if_unanswered: bool = msgspec.field(default=False, name="again")
    hive: Annotated[str, msgspec.Meta(pattern="^([0-9]{1,20}(-[0-9]{1,20})?)?$")] = ""
    answer: str | None = None

    @property
    def order(self) -> int:
        """Return the number of the command in the journal of a hive; 0 if it has none.

        Before 2026-11-27 this was the ID of a stream, which began with milliseconds.
        """
        digits = self.hive.partition("-")[0]
        return int(digits) if digits.isdecimal() else 0

    @property
    def as_sentence(self) -> str:
        """Return the command with its time, origin and reason, and how to undo it, as text."""
        reason = f" ({' '.join(self.reason.split())})" if self.reason else ""
        undo = f"; {self.undo} ends it" if self.undo else ""
        return f"{self.command}, {utc_time(self.at)} UTC, by {self.origin}{reason}{undo}"

    @property
    def command(self) -> str:
        """Return the command as the user types it: its name and arguments."""
        values = self.arguments.values()
        words = (
            " ".join(value) if isinstance(value, list) else str(value or "all") for value in values
        )
        return " ".join([self.name, *words])


_decode_change = json_decoder(Change)
_SUM = re.compile(rb',"sum":"([0-9a-f]{16})"\}\Z')


def user_and_machine() -> str:
    """Return the name of the user of this process and of its machine, such as "ann on crawl1"."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run with a number without a name
        user = f"user {os.getuid()}"
    return f"{user} on {socket.gethostname()}"


def encode(change: Change) -> bytes:
    """Return *change* as a line of the journal, without the line end."""
    line = msgspec.json.encode(change)
    return b'%b,"sum":"%b"}' % (line[:-1], xxh3_64_hexdigest(line).encode())


def _decode(line: bytes) -> Change:
    """Decode a *line* of the journal. Raises UndecodableError, also for a wrong checksum."""
    match = _SUM.search(line)
    if match is not None:
        line = line[: match.start()] + b"}"
        if xxh3_64_hexdigest(line).encode() != match[1]:
            raise UndecodableError("its checksum does not match its content")
    return _decode_change(line)


class Journal:
    """The journal of the job in *jobdir*.

    The attribute last has the latest change for each key, including changes that end another one,
    in the order in which they were made. pending has the commands to be carried out again, by
    number, and number is that of the last command.
    """

    def __init__(self, jobdir: Path) -> None:
        self._log = LineLog(path=jobdir / JOURNAL, max_bytes=sys.maxsize)
        self.last: dict[str, Change] = {}
        self.pending: dict[int, Change] = {}
        self.number = 0

    @property
    def in_force(self) -> dict[str, Change]:
        """Return the changes in force, by key, in the order in which they were made."""
        return {key: change for key, change in self.last.items() if not change.ends}

    def read(self) -> None:
        """Read the journal, except an incomplete last line.

        Blocks. Raises FatalError for an unreadable line.
        """
        for line in _lines(self._log.path):
            if isinstance(line, str):  # the description of a line that cannot be read
                raise FatalError(
                    f"{self._log.path}, {line}: repair the file, or delete it if none of its "
                    "changes should be in force."
                )
            self._apply(line)

    def append(self, line: Change) -> None:
        """Append *line* and fsync it. Blocks. Raises OSError."""
        with closing(self._log):
            self._log.open()  # cuts off an incomplete line
            self._log.append(encode(line))
            self._log.sync()
        self._apply(line)

    def _apply(self, line: Change) -> None:
        """Update ``last``, ``pending`` and ``number`` for *line*, which is in the journal."""
        if line.answer is not None:
            self.pending.pop(line.n, None)
            return
        self.number = line.n
        # The new change goes to the end of ``last``, which is in the order of the changes.
        if key := line.state_key:
            self.last = {other: self.last[other] for other in self.last if other != key} | {
                key: line
            }
        if line.redo_if_unanswered:
            self.pending[line.n] = line


def _lines(path: Path) -> Iterator[Change | str]:
    """Yield the changes in *path*, and a description of each line that cannot be read.

    An incomplete last line is left out.
    """
    data = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            yield _decode(line)
        except UndecodableError as error:
            yield f"line {number}, cannot be read ({error})"


def damaged_lines(jobdir: Path) -> list[str]:
    """Return a description of each unreadable line of the journal in *jobdir*. Raises OSError."""
    return [line for line in _lines(jobdir / JOURNAL) if isinstance(line, str)]


def last_changes(jobdir: Path, limit: int) -> list[Change]:
    """Return the last commands to the job in *jobdir* with their answers, the newest first.

    Unreadable lines are left out.
    """
    changes: dict[int, Change] = {}
    for line in _lines(jobdir / JOURNAL):
        if isinstance(line, Change):
            # An answer is a line of its own, which repeats the number of its command. The command
            # then moves to the end of *changes*.
            command = changes.pop(line.n, line) if line.answer is not None else line
            changes[line.n] = msgspec.structs.replace(command, answer=line.answer)
    return [*reversed(changes.values())][:limit]


def in_force(jobdirs: Iterable[Path]) -> list[Change]:
    """Return the changes in force in the crawl of *jobdirs*; the latest command wins.

    Raises FatalError for an unreadable line.
    """
    latest: dict[str, Change] = {}
    for jobdir in jobdirs:
        journal = Journal(jobdir)
        journal.read()
        for key, change in journal.last.items():
            # Several drones may have changed the same; the hive's journal numbers their commands.
            latest[key] = max(latest.get(key, change), change, key=lambda change: change.order)
    return [change for change in latest.values() if not change.ends]


def saved_host_rules(
    settings: BaseSettings, jobdir: Path, changes: Iterable[Change], *, outcome: str = ""
) -> HostRules:
    """Return the rules for hosts of the crawl in *jobdir*, from files and *changes*. Blocks.

    Of BLOCKLISTS, only the files that lead to *outcome* are read. Raises FatalError for a file that
    cannot be used.
    """
    rules = HostRules.from_settings(settings)
    rules.open(outcome)
    rules.open_purged(jobdir)
    for change in changes:
        if change.name in COMMANDS:
            rules.command(change.name, source=change.as_sentence, **change.arguments)
    return rules
