"""Child process of a hive on one machine: started again when it dies, and its log read.

A process is in a group of its own, so that Ctrl-C at the terminal reaches only the one that runs
the hive. Its output goes straight into a file: it outlives that one, if need be, and loses nothing.
It may be kept to one core, as its threads then pass Python's lock on at less cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections import deque
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from webcrawl.doctor.states import CrawlState
from webcrawl.hive.launch.log_lines import in_plain_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from webcrawl.clock import TimeSource

#: Exit codes of ``scrapy crawl`` that would come again: unusable input, the disk, too many errors.
LASTING = frozenset({2, 3, 4})
# The end of one process, not of its hive: finished, or no host has answered it in any run.
_ENDS = frozenset({0, 5})
# A process that died is started again so often in this time, and each time after a longer wait.
_MOST_RESTARTS = 5
_RESTARTS_SECS = 600.0
# Of a log: bytes that are read at once, and messages of them that are passed on.
_MOST_BYTES = 1 << 16
_MOST_MESSAGES = 5
_MESSAGE = re.compile(
    r"\S+ \S+ \[[^\]]+\] (?:WARNING|ERROR|CRITICAL): |webcrawl: (?=.)|\S+: error: "
)
_PROGRESS = re.compile(r"\S+ \S+ \[webcrawl\] INFO: (\d+:\d\d:\d\d .*)")


def core_of(number: int, drones: int) -> int | None:
    """The core that the drone *number* of *drones* is kept to, None if it may use all.

    Each is kept to its own where they are as many as the cores that this process may use.
    """
    if not hasattr(os, "sched_setaffinity"):  # macOS
        return None
    cores = sorted(os.sched_getaffinity(0))
    return cores[number] if 1 < len(cores) == drones else None


@dataclass(kw_only=True, eq=False, repr=False)
class ChildProcess:
    """The process *name* of *command*, with its output in the file *log*, kept to *core* if given.

    *say* is given what the user should read: how the process ended, and warnings of its log. Once
    it has died it is started again after *first_wait* seconds, then after twice as many.
    """

    name: str
    command: Sequence[str]
    log: Path
    say: Callable[[str], None]
    clock: TimeSource
    core: int | None = None
    first_wait: float = 1.0
    #: What it is doing, in words, until it has made progress, and when it does not run.
    state: str = CrawlState.STARTING
    #: The last progress line of its log.
    progress: str = ""
    _process: asyncio.subprocess.Process | None = None
    _restarts: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_RESTARTS))
    _is_stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        # What an earlier run has logged is no news.
        self._read_to = self.log.stat().st_size if self.log.is_file() else 0

    @property
    def pid(self) -> int | None:
        """Its number while it runs."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def run(self) -> int:
        """Run it until it ends for good; its exit code, 1 if it died too often or by a signal."""
        while not self._is_stopping.is_set():
            try:
                code, how = await self._run_once(), ""
            except OSError as error:
                code, how = 1, f"cannot be started: {error}"
            self.read_log()
            if code in _ENDS or code in LASTING or self._is_stopping.is_set():
                self.state = "ended" if code == 0 else f"ended with exit code {code}"
                # Before it has its handlers it dies of the signal, and nothing is lost.
                if code < 0:
                    return 0 if code == -signal.SIGTERM else 1
                return code
            if not how:
                how = f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
            if not self._may_restart():
                self.state = "given up"
                self.say(f"{self.name} died again ({how}): given up; its log is {self.log}")
                return 1
            secs = self.first_wait * 2 ** (len(self._restarts) - 1)
            self.state = f"died ({how})"
            self.say(
                f"{self.name} died ({how}): started again in {secs:.0f} s "
                f"({len(self._restarts)} of {_MOST_RESTARTS} times)"
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_stopping.wait(), secs)
        self.state = "ended"
        return 0

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send it the signal *number*, and do not start it again."""
        self._is_stopping.set()
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def read_log(self) -> None:
        """Pass on the warnings and errors that its log has had since the last call."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._read_to)
                data = file.read(_MOST_BYTES)
        except OSError:
            return
        end = data.rfind(b"\n") + 1
        if not end and len(data) == _MOST_BYTES:
            end = len(data)  # a line without end
        self._read_to += end
        lines = in_plain_lines(data[:end].decode(errors="replace")).splitlines()
        # A message for the user is logged, too.
        texts = (_MESSAGE.sub("", line) for line in lines if _MESSAGE.match(line))
        messages = [text for text, _ in groupby(texts)]
        for text in messages[:_MOST_MESSAGES]:
            self.say(f"{self.name}: {text}")
        if len(messages) > _MOST_MESSAGES:
            self.say(f"{self.name}: {len(messages) - _MOST_MESSAGES:,} more in {self.log}")
        for line in lines:
            if found := _PROGRESS.match(line):
                self.progress = found[1]

    async def _run_once(self) -> int:
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
            # It may have ended, or the core may have been taken away from this service.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self.pid, {self.core})  # its threads, none yet, inherit it
        self.state, self.progress = CrawlState.STARTING, ""
        if self._is_stopping.is_set():
            self.stop()  # it came meanwhile
        return await self._process.wait()

    def _may_restart(self) -> bool:
        now = self.clock()
        while self._restarts and now - self._restarts[0] > _RESTARTS_SECS:
            self._restarts.popleft()
        if len(self._restarts) == _MOST_RESTARTS:
            return False
        self._restarts.append(now)
        return True
