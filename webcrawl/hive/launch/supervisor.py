"""Supervisor: runs the drones of a hive on one machine, and the hive's Redis.

In the job directory::

    hive.lock              locked by the supervisor, so that there is only one
    drones/N/              the job directory of drone N, with its log in logs/drone.log
    store/                 HIVE_STORE, unless it is set
    redis/                 the embedded Redis, unless REDIS_URL names another

A drone is ``scrapy crawl`` with the arguments and settings of the command. If there are as many
drones as cores, each drone is pinned to one core. A drone that dies is restarted a few times. If a
drone ends because its input or disk is unusable, all drones are stopped. The first signal stops all
drones with checkpoints, the second stops them immediately, the third kills them. If the supervisor
is killed, its drones continue, and the next supervisor refuses to start until they have ended. The
last drone to end, or ``scrapy hive stop``, then ends the Redis.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

from webcrawl.clock import now
from webcrawl.crawl.job.state_directory import DRONES
from webcrawl.errors import FatalError, refusal
from webcrawl.hive.launch.child_process import PERMANENT_ERRORS, ChildProcess, core_of
from webcrawl.hive.membership.embedded_redis import EmbeddedRedis
from webcrawl.hive.membership.report import drone_name
from webcrawl.storage.atomic import remove_new
from webcrawl.storage.lock import DirectoryLock, LockedError
from webcrawl.wording import COMMAND

_REFRESH_SECS = 0.5
# How long Redis may take to start; it reads an append-only log of a gigabyte in ten seconds.
_REDIS_START_SECS = 120.0
_MAX_DRONES = 256
_LOCK_FILE = "hive.lock"
_REFUSED_CODE = 2
# Where drones log finished URLs.
_FINISHED_LOGS = f"{DRONES}/*/logs/info*.jsonl*"
# How many times, and with what pause between, to try the lock of a supervisor that may be gone.
_TRIES = 2
_LOCK_PAUSE_SECS = 0.1


def held_locks(jobdir: Path, *patterns: str) -> list[str]:
    """Describe the locks in *jobdir* that are held, and the processes that hold them.

    *patterns* match the lock files; by default, these are all lock files of the hive.
    """
    held = []
    for path in chain.from_iterable(map(jobdir.glob, patterns or (_LOCK_FILE, "drones/*/LOCK"))):
        # A lock that can be acquired is not held.
        lock = DirectoryLock(path=path)
        try:
            lock.acquire()
        except LockedError as error:
            held.append(str(error))
        lock.release()
    return sorted(held)


async def end_leftover_redis(jobdir: Path) -> None:
    """Stop the Redis of the hive in *jobdir*, if its supervisor was killed and no drone runs."""
    redis = EmbeddedRedis(directory=jobdir / "redis")
    lock = DirectoryLock(path=jobdir / _LOCK_FILE)
    for _ in range(_TRIES):
        try:
            # Without a socket there is no Redis, and the calls below do nothing.
            if redis.socket.exists():
                lock.acquire()
        except LockedError:  # held by the supervisor, or briefly by another drone that ends
            await asyncio.sleep(_LOCK_PAUSE_SECS)
            continue
        if not held_locks(jobdir, "drones/*/LOCK"):
            await redis.end()
        lock.release()
        return


class LocalHive(NamedTuple):
    """What to run as a hive on this machine: so many *drones* with *spider*, in *jobdir*.

    *arguments* (``-a``) and *settings* (``-s``) are NAME=VALUE. Without a *redis_url*, an embedded
    Redis is used. Without a *store*, HIVE_STORE is a directory in *jobdir*. *metrics_port* is the
    port of the first drone; if it is 0, there are no metrics.
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
        """Raise FatalError if the hive cannot be run this way."""
        if not 1 <= self.drones <= _MAX_DRONES:
            raise FatalError(f"--drones must be from 1 to {_MAX_DRONES}, not {self.drones}.")
        if (self.jobdir / "CURRENT").exists():
            raise FatalError(
                f"JOBDIR {self.jobdir} contains a single-process crawl: continue it with "
                f"{COMMAND} crawl, or choose another directory for the hive."
            )
        for drone in held_locks(self.jobdir, "drones/*/LOCK"):
            raise FatalError(
                f"A drone of an earlier hive is still running ({drone}): stop it with "
                f"{COMMAND} hive stop -s JOBDIR={self.jobdir}, or wait until it ends."
            )
        for argument in self.arguments:
            name, _, sources = argument.partition("=")
            if name == "seeds" and "-" in sources.split(","):
                raise FatalError("A hive cannot read seeds from standard input: name a file.")

    def directory(self, number: int) -> Path:
        """Return the job directory of drone *number*."""
        return self.jobdir / DRONES / str(number)

    def command(self, number: int, redis_url: str) -> list[str]:
        """Return the command line that runs drone *number* with the Redis at *redis_url*."""
        own: dict[str, object] = {
            "HIVE": self.name,
            "JOBDIR": self.directory(number),
            "REDIS_URL": redis_url,
            "HIVE_STORE": self.store or self.jobdir.absolute() / "store",
        }
        if self.metrics_port:
            own["METRICS_PORT"] = self.metrics_port + number

        command_line = [sys.executable, "-m", "scrapy", "crawl", self.spider]
        for argument in self.arguments:
            command_line += ["-a", argument]
        # The last value of a setting counts, so those of the drone come after the user's.
        for setting in (*self.settings, *(f"{name}={value}" for name, value in own.items())):
            command_line += ["-s", setting]
        return command_line


class SideProcess(Protocol):
    """Protocol of a process that runs next to the hive, such as the monitor.

    ``start`` blocks and returns a message for the user. It raises FatalError or OSError.
    """

    def start(self) -> str: ...
    def end(self) -> None: ...


class Supervisor:
    """Runs the processes of *hive* and a *monitor*.

    *say* is called with messages for the user, and every *table_secs* with the text of *table*.
    """

    def __init__(
        self,
        *,
        hive: LocalHive,
        say: Callable[[str], None],
        table: Callable[[], Awaitable[str]],
        table_secs: float,
        monitor: SideProcess | None = None,
    ) -> None:
        self.hive = hive
        self._say = say
        self._table = table
        self._table_secs = table_secs
        self._monitor = monitor
        # Number of signals to stop that this process has received.
        self._signals = 0
        self._is_stopping = False
        self._lock = DirectoryLock(path=hive.jobdir / _LOCK_FILE)
        #: The drones; none until Redis answers.
        self.drones: list[ChildProcess] = []

    async def run(self) -> int:
        """Run the hive to its end and return the highest exit code of its drones.

        Raises FatalError if it cannot start.
        """
        jobdir = self.hive.jobdir
        code = 1  # if an unexpected exception is raised
        try:
            # The names that exist already. A refused hive deletes only what it has added.
            before = frozenset(path.name for path in jobdir.iterdir()) if jobdir.is_dir() else None
            jobdir.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except LockedError as error:
            raise FatalError(f"JOBDIR {jobdir} is in use: {error}.") from error
        except OSError as error:
            raise refusal(error, jobdir, f"JOBDIR {jobdir} cannot be used: {error}.") from error

        monitor_start: asyncio.Task[None] | None = None
        try:
            self.hive.check()
            monitor_start = asyncio.ensure_future(self._start_monitor())
            code = await self._run_with_signal_handlers()
        except FatalError:
            code = _REFUSED_CODE
            raise
        finally:
            if monitor_start is not None and self._monitor is not None:
                await monitor_start
                self._monitor.end()
            # A hive that was refused, before any URL was finished, leaves nothing: otherwise a
            # single-process crawl would refuse the directory.
            if code == _REFUSED_CODE and not any(
                path.stat().st_size for path in jobdir.glob(_FINISHED_LOGS)
            ):
                remove_new(jobdir, before)
            self._lock.release()
        return code

    async def _start_monitor(self) -> None:
        """Start the monitor, if there is one; an error is only shown."""
        if self._monitor is not None:
            try:
                self._say(await asyncio.to_thread(self._monitor.start))
            except (FatalError, OSError) as error:
                self._say(str(error))

    async def _run_with_signal_handlers(self) -> int:
        """Run the hive, stop it when a signal arrives, and return the exit code."""
        loop = asyncio.get_running_loop()
        signals = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup
            signals.append(signal.SIGHUP)
        for signal_number in signals:
            loop.add_signal_handler(signal_number, self._on_signal)
        try:
            redis_url = self.hive.redis_url
            return await (self._run_drones(redis_url) if redis_url else self._run_with_redis())
        finally:
            for signal_number in signals:
                loop.remove_signal_handler(signal_number)

    async def _run_with_redis(self) -> int:
        """Run the hive and its embedded Redis, and return the exit code."""
        redis = EmbeddedRedis(directory=self.hive.jobdir / "redis")
        command = redis.prepare()
        await redis.end()  # that of an earlier hive, if its supervisor was killed
        server = self._child("Redis", command, redis.log)
        redis_run = asyncio.create_task(server.run())
        try:
            if not await redis.wait(
                secs=_REDIS_START_SECS, is_starting=lambda: not redis_run.done()
            ):
                log_text = redis.log.read_text("utf-8", "replace") if redis.log.exists() else ""
                *_, last_line = ["", *log_text.splitlines()]
                raise FatalError(f"Redis did not start: {last_line}")
            # Without Redis, which was restarted in vain, the drones cannot work together.
            redis_run.add_done_callback(lambda _: self._stop_once())
            code = await self._run_drones(redis.url)
        finally:
            server.stop()
            redis_code = await redis_run
        return max(code, redis_code)

    async def _run_drones(self, redis_url: str) -> int:
        """Run the drones with the Redis at *redis_url*, and return their highest exit code."""
        hive = self.hive
        self.drones = [
            self._child(
                drone_name(hive.directory(number)),
                hive.command(number, redis_url),
                hive.directory(number) / "logs" / "drone.log",
                core_of(number, hive.drones),
            )
            for number in range(hive.drones)
        ]
        all_runs = asyncio.gather(*map(self._run_drone, self.drones))
        try:
            # Show messages and the table until all drones have ended.
            shown_at = now()
            while not all_runs.done():
                for drone in self.drones:
                    drone.read_log()
                if now() >= shown_at + self._table_secs:
                    shown_at = now()
                    self._say(await self._table())
                await asyncio.wait([all_runs], timeout=_REFRESH_SECS)
        finally:
            self._stop_once()  # after an error no drone may be left running
            codes = await all_runs
        return max(codes)

    async def _run_drone(self, drone: ChildProcess) -> int:
        """Run *drone* and return its exit code; stop the hive if a restart would not help."""
        code = await drone.run()
        if code in PERMANENT_ERRORS:
            self._stop_once()
        return code

    def _child(
        self, name: str, command: Sequence[str], log: Path, core: int | None = None
    ) -> ChildProcess:
        """Return a child process for *command*, which does not start if the hive is stopping."""
        child = ChildProcess(
            name=name,
            command=command,
            log=log,
            say=self._say,
            core=core,
        )
        if self._is_stopping:
            child.stop()
        return child

    def _on_signal(self) -> None:
        """Stop the drones with checkpoints; at later signals immediately, then by SIGKILL."""
        self._signals += 1
        if self._signals == 1:
            self._say("stopping with checkpoints; send the signal again to stop immediately")
        self._stop_all(signal.SIGKILL if self._signals > 2 else signal.SIGTERM)

    def _stop_once(self) -> None:
        """Stop all drones with checkpoints, unless they are already stopping.

        A second signal would stop them without waiting for the checkpoints.
        """
        if not self._is_stopping:
            self._stop_all(signal.SIGTERM)

    def _stop_all(self, signal_number: int) -> None:
        self._is_stopping = True
        for drone in self.drones:
            drone.stop(signal_number)
