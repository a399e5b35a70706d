"""Supervisor: runs the drones of a hive on one machine, and its Redis.

In the job directory::

    hive.lock              one supervisor at a time
    drones/N/              the job directory of drone N, with its log in logs/drone.log
    store/                 HIVE_STORE, unless it is set
    redis/                 the embedded Redis, unless REDIS_URL names another

A drone is ``scrapy crawl`` with the arguments and settings of the command, pinned to one core if
there are as many drones as cores. A drone that dies is restarted a few times; one that ends because
its input or disk is unusable ends all. The first signal stops all drones with checkpoints, the
second stops them immediately, the third kills them. If the supervisor is killed, its drones
continue, and the next supervisor refuses to start until they have ended. Then the last drone to
end, or ``scrapy hive stop``, ends the Redis.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from webcrawl.errors import FatalError, refusal
from webcrawl.hive.launch.child_process import PERMANENT_ERRORS, ChildProcess, core_of
from webcrawl.hive.membership.embedded_redis import EmbeddedRedis
from webcrawl.hive.membership.report import DRONES, drone_name
from webcrawl.storage.atomic import remove_new
from webcrawl.storage.lock import DirectoryLock, LockedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from webcrawl.clock import TimeSource
    from webcrawl.hive.launch.terminal import TerminalView

_REFRESH_SECS = 0.5
# Redis reads an append-only log of a gigabyte in ten seconds.
_REDIS_SECS = 120.0
_MAX_DRONES = 256
_LOCK = "hive.lock"
_REFUSED = 2
# Where drones log finished URLs.
_DONE = f"{DRONES}/*/logs/info*.jsonl*"
# How often, and after what pause, to try the lock of a supervisor that may be gone.
_TRIES = 2
_MOMENT_SECS = 0.1


def held_locks(jobdir: Path, *patterns: str) -> list[str]:
    """Return the locks in *jobdir* that processes hold, with the processes.

    *patterns* are those of the lock files; by default all of the hive.
    """
    held = []
    for path in chain.from_iterable(map(jobdir.glob, patterns or (_LOCK, "drones/*/LOCK"))):
        lock = DirectoryLock(path=path)
        try:
            lock.acquire()
        except LockedError as error:
            held.append(str(error))
        lock.release()
    return sorted(held)


async def end_left_redis(jobdir: Path) -> None:
    """End the Redis of the hive in *jobdir* if the supervisor was killed and no drone runs."""
    redis = EmbeddedRedis(directory=jobdir / "redis")
    lock = DirectoryLock(path=jobdir / _LOCK)
    for _ in range(_TRIES):
        try:
            if redis.socket.exists():
                lock.acquire()
        except LockedError:  # held by the supervisor, or for a moment by another ending drone
            await asyncio.sleep(_MOMENT_SECS)
            continue
        if not held_locks(jobdir, "drones/*/LOCK"):
            await redis.end()
        lock.release()
        return


class LocalHive(NamedTuple):
    """Hive to run on this machine, in *jobdir*.

    *arguments* (``-a``) and *settings* (``-s``) are NAME=VALUE. Without a *redis_url* an embedded
    Redis is used; without a *store*, a directory in *jobdir* is HIVE_STORE. *metrics_port* is that
    of the first drone; with 0 there are no metrics.
    """

    name: str
    jobdir: Path
    drones: int
    spider: str
    arguments: Sequence[str] = ()
    settings: Sequence[str] = ()
    redis_url: str = ""
    store: str = ""
    metrics_port: int = 0

    def check(self) -> None:
        """Raise FatalError if the hive cannot be run."""
        if not 1 <= self.drones <= _MAX_DRONES:
            raise FatalError(f"--drones must be from 1 to {_MAX_DRONES}, not {self.drones}.")
        if (self.jobdir / "CURRENT").exists():
            raise FatalError(
                f"JOBDIR {self.jobdir} has a crawl of one process: continue it with scrapy crawl, "
                "or choose another directory for the hive."
            )
        for drone in held_locks(self.jobdir, "drones/*/LOCK"):
            raise FatalError(
                f"A drone of an earlier hive is still running ({drone}): stop it with scrapy hive "
                f"stop -s JOBDIR={self.jobdir}, or wait until it ends."
            )
        for argument in self.arguments:
            name, _, sources = argument.partition("=")
            if name == "seeds" and "-" in sources.split(","):
                raise FatalError("A hive cannot read seeds from standard input: name a file.")

    def directory(self, number: int) -> Path:
        """Return the job directory of the drone *number*."""
        return self.jobdir / DRONES / str(number)

    def command(self, number: int, redis_url: str) -> list[str]:
        """Return the command that runs the drone *number*."""
        own: dict[str, object] = {
            "HIVE": self.name,
            "JOBDIR": self.directory(number),
            "REDIS_URL": redis_url,
            "HIVE_STORE": self.store or self.jobdir.absolute() / "store",
        }
        if self.metrics_port:
            own["METRICS_PORT"] = self.metrics_port + number
        words = [sys.executable, "-m", "scrapy", "crawl", self.spider]
        for argument in self.arguments:
            words += ["-a", argument]
        for setting in (*self.settings, *(f"{name}={value}" for name, value in own.items())):
            words += ["-s", setting]
        return words


class SideProcess(Protocol):
    """Process that runs next to the hive.

    ``start`` blocks and returns a message for the user. It raises FatalError or OSError.
    """

    def start(self) -> str: ...
    def end(self) -> None: ...


class Supervisor:
    """Runner of the processes of *hive*, with a *monitor*; *view* shows the lines of *table*."""

    def __init__(
        self,
        *,
        hive: LocalHive,
        view: TerminalView,
        clock: TimeSource,
        table: Callable[[Supervisor], Awaitable[Sequence[str]]],
        monitor: SideProcess | None = None,
    ) -> None:
        self.hive = hive
        self._view = view
        self._clock = clock
        self._table = table
        self._monitor = monitor
        self._signals = 0
        self._is_stopping = False
        self._lock = DirectoryLock(path=hive.jobdir / _LOCK)
        self.drones: list[ChildProcess] = []
        self.redis_url = hive.redis_url

    async def run(self) -> int:
        """Run the hive to its end and return the highest exit code of its drones.

        Raises FatalError if it cannot start.
        """
        jobdir, code = self.hive.jobdir, 1
        try:
            before = frozenset(path.name for path in jobdir.iterdir()) if jobdir.is_dir() else None
            jobdir.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except LockedError as error:
            raise FatalError(f"JOBDIR {jobdir} is in use: {error}.") from error
        except OSError as error:
            raise refusal(error, jobdir, f"JOBDIR {jobdir} cannot be used: {error}.") from error
        starting: asyncio.Task[None] | None = None
        try:
            self.hive.check()
            starting = asyncio.ensure_future(self._start_monitor())
            code = await self._run_until_signalled()
        except FatalError:
            code = _REFUSED
            raise
        finally:
            if starting is not None and self._monitor is not None:
                await starting
                self._monitor.end()
            if code == _REFUSED and not any(path.stat().st_size for path in jobdir.glob(_DONE)):
                remove_new(jobdir, before)  # otherwise a crawl would refuse the directory
            self._lock.release()
        return code

    async def _start_monitor(self) -> None:
        if self._monitor is not None:
            try:
                self._view.say(await asyncio.to_thread(self._monitor.start))
            except (FatalError, OSError) as error:
                self._view.say(str(error))

    async def _run_until_signalled(self) -> int:
        loop = asyncio.get_running_loop()
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal)
        try:
            return await (self._run() if self.redis_url else self._run_with_redis())
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def _run_with_redis(self) -> int:
        redis = EmbeddedRedis(directory=self.hive.jobdir / "redis")
        command = redis.prepare()
        await redis.end()
        server = self._child("Redis", command, redis.log)
        serving = asyncio.create_task(server.run())
        try:
            if not await redis.wait(secs=_REDIS_SECS, is_starting=lambda: not serving.done()):
                log = redis.log.read_text("utf-8", "replace") if redis.log.exists() else ""
                *_, last = ["", *log.splitlines()]
                raise FatalError(f"Redis did not start: {last}")
            self.redis_url = redis.url
            serving.add_done_callback(lambda _: self._stop_once())
            code = await self._run()
        finally:
            server.stop()
            redis_code = await serving
        return max(code, redis_code)

    async def _run(self) -> int:
        hive = self.hive
        self.drones = [
            self._child(
                drone_name(hive.directory(number)),
                hive.command(number, self.redis_url),
                hive.directory(number) / "logs" / "drone.log",
                core_of(number, hive.drones),
            )
            for number in range(hive.drones)
        ]
        done = asyncio.gather(*map(self._run_drone, self.drones))
        try:
            while not done.done():
                for drone in self.drones:
                    drone.read_log()
                self._view.show(await self._table(self))
                await asyncio.wait([done], timeout=_REFRESH_SECS)
            self._view.show(await self._table(self))
        finally:
            self._stop_once()  # after an error no drone may be left running
            codes = await done
        return max(codes)

    async def _run_drone(self, drone: ChildProcess) -> int:
        code = await drone.run()
        if code in PERMANENT_ERRORS:
            self._stop_once()
        return code

    def _child(
        self, name: str, command: Sequence[str], log: Path, core: int | None = None
    ) -> ChildProcess:
        child = ChildProcess(
            name=name,
            command=command,
            log=log,
            say=self._view.say,
            clock=self._clock,
            core=core,
        )
        if self._is_stopping:
            child.stop()
        return child

    def _on_signal(self) -> None:
        self._signals += 1
        if self._signals == 1:
            self._view.say("stopping with checkpoints; send the signal again to stop immediately")
        self._stop_all(signal.SIGKILL if self._signals > 2 else signal.SIGTERM)

    def _stop_once(self) -> None:
        """Stop all with checkpoints, unless already stopping; a second signal would not wait."""
        if not self._is_stopping:
            self._stop_all(signal.SIGTERM)

    def _stop_all(self, number: int) -> None:
        self._is_stopping = True
        for drone in self.drones:
            drone.stop(number)
