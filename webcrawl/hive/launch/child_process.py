"""Runs a process of a hive on one machine, restarts it when it dies, and shows its warnings.

Each process is in its own process group, so that Ctrl-C at the terminal reaches only the
supervisor. Its output goes directly to a file, so nothing is lost if the supervisor dies first. It
may be pinned to one core, because its threads then pass Python's lock to each other at lower cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import msgspec

from webcrawl.clock import now
from webcrawl.configuration.decoding import UndecodableError, json_decoder

#: Exit codes of ``scrapy crawl`` after which a restart would not help: bad input, a bad disk, too
#: many errors.
PERMANENT_ERRORS = frozenset({2, 3, 4})
# Exit codes that end one process but not its hive: it finished, or no host has ever answered.
_ENDING_CODES = frozenset({0, 5})
# Exit code of a drone that could not reach Redis at its first start. It is restarted until it can,
# each time after so many seconds.
_UNREACHABLE_CODE = 6
_UNREACHABLE_SECS = 10.0
# Seconds before the first restart.
_FIRST_WAIT_SECS = 1.0
# A process is restarted at most this many times within this time, each time after a longer wait.
_MAX_RESTARTS = 5
_RESTART_WINDOW_SECS = 600.0
# Limits each time a log is read: bytes read, and messages shown.
_MAX_BYTES = 1 << 16
_MAX_MESSAGES = 5
_MESSAGE = re.compile(
    r"\S+ \S+ \[[^\]]+\] (?:WARNING|ERROR|CRITICAL): |webcrawl: (?=.)|\S+: error: "
)


class _LogLine(msgspec.Struct, frozen=True):
    """Fields of a JSON log line, as crawl/engine/json_log.py writes them."""

    level: str
    message: str


_decode = json_decoder(_LogLine)


def message_in(line: str) -> str:
    """Return the message in *line* of a log, of text or JSON (LOG_JSON).

    Returns "" if it is not for the user.
    """
    if match := _MESSAGE.match(line):
        return line[match.end() :]
    with contextlib.suppress(UndecodableError):
        record = _decode(line)
        if record.level in {"WARNING", "ERROR", "CRITICAL"}:
            return record.message.partition("\n")[0]
    return ""


def core_of(number: int, drones: int) -> int | None:
    """Return the CPU core for drone *number* of *drones*, or None if it may use all cores.

    Each drone gets its own core if there are as many drones as cores that this process may use.
    """
    if not hasattr(os, "sched_setaffinity"):  # macOS
        return None
    cores = sorted(os.sched_getaffinity(0))
    return cores[number] if 1 < len(cores) == drones else None


@dataclass(kw_only=True, eq=False)
class ChildProcess:
    """Process *name* that runs *command*, with its output in *log*, pinned to *core* if given.

    *say* is called with messages for the user: how the process ended, and warnings in its log. If
    it dies, it is restarted after a second, and after twice as long each further time.
    If it ends because Redis is away, it is restarted at regular intervals.
    """

    name: str
    command: Sequence[str]
    log: Path
    say: Callable[[str], None]
    core: int | None = None
    # None before the first start.
    _process: asyncio.subprocess.Process | None = None
    # The times of the last restarts.
    _restarts: deque[float] = field(default_factory=lambda: deque(maxlen=_MAX_RESTARTS))
    _is_stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        # Skip the messages of an earlier run.
        self._log_position = self.log.stat().st_size if self.log.is_file() else 0

    @property
    def pid(self) -> int | None:
        """The process ID, or None while the process is not running."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def run(self) -> int:
        """Run the process, restart it when it dies, and return its last exit code.

        The code is 1 if it died too often, or was killed by a signal.
        """
        while not self._is_stopping.is_set():
            try:
                code = await self._run_once()
                why = ""
            except OSError as error:
                code = 1
                why = f"cannot be started: {error}"
            self.read_log()
            if code in _ENDING_CODES or code in PERMANENT_ERRORS or self._is_stopping.is_set():
                # SIGTERM kills a process whose handlers are not set yet; nothing is lost.
                if code < 0:
                    return 0 if code == -signal.SIGTERM else 1
                return code

            if not why:
                why = f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
            # Waiting for Redis does not count as a restart.
            is_away = code == _UNREACHABLE_CODE
            if not (is_away or self._record_restart()):
                self.say(
                    f"{self.name} died again ({why}) and will not be restarted; see {self.log}"
                )
                return 1

            secs = _FIRST_WAIT_SECS * 2 ** (len(self._restarts) - 1)
            restart = f"(restart {len(self._restarts)} of {_MAX_RESTARTS})"
            if is_away:
                secs = _UNREACHABLE_SECS
                restart = "until Redis answers"
            self.say(f"{self.name} died ({why}): restarting in {secs:.0f} s {restart}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_stopping.wait(), secs)
        return 0

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send the signal *number* to the process, and do not restart it."""
        self._is_stopping.set()
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def read_log(self) -> None:
        """Show the warnings and errors that were logged since the last call."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._log_position)
                data = file.read(_MAX_BYTES)
        except OSError:
            return
        end = data.rfind(b"\n") + 1  # an incomplete line is read by the next call
        if not end and len(data) == _MAX_BYTES:
            end = len(data)  # a line longer than the limit
        self._log_position += end

        lines = data[:end].decode(errors="replace").splitlines()
        # Adjacent duplicates are dropped, because messages for the user are also logged.
        messages = [text for text, _ in groupby(filter(None, map(message_in, lines)))]
        for text in messages[:_MAX_MESSAGES]:
            self.say(f"{self.name}: {text}")
        if len(messages) > _MAX_MESSAGES:
            self.say(f"{self.name}: {len(messages) - _MAX_MESSAGES:,} more in {self.log}")

    async def _run_once(self) -> int:
        """Start the process and return its exit code, negative for a signal. Raises OSError."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        if self.core is not None and self.pid is not None:
            # The process may have ended, or the core may no longer be available.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self.pid, {self.core})  # new threads inherit this
        if self._is_stopping.is_set():
            self.stop()  # ``stop`` was called while the process was being started
        return await self._process.wait()

    def _record_restart(self) -> bool:
        """Record a restart and return True, unless there were too many lately."""
        while self._restarts and self._restarts[0] < now() - _RESTART_WINDOW_SECS:
            self._restarts.popleft()
        if len(self._restarts) == _MAX_RESTARTS:
            return False
        self._restarts.append(now())
        return True
