"""The rows of the bench: crawlers, and how one crawl by each of them is run and measured.

Pages are counted by the crawler itself, and CPU time (user and system, all threads) is taken in its
process, from the opening of the crawl to its end. None of these starts other processes. The Redis
server of scrapy-redis is accounted for separately and runs on the crawler's core, which is kind to
it: across cores a round trip costs the crawler four times as much CPU (99 us to 25 us, a virtual
machine, 2026-11), as each of them waits for the other's core to wake up.

Who resolves what: webcrawl asks the simulated web's name server. Stock Scrapy cannot be told one
and is spared the look-ups, as is the floor line. crawlee, silkworm and wget2 ask the system, whose
answer is a file of hosts: they run in a mount namespace of their own, in which that file lies over
/etc/hosts; the machine's file is untouched. It costs them a scan of 2,000 lines for each new host.

wget2 counts no pages and knows no limit for them. Its pages are those that the simulated web served
whole, and it is killed when they are enough; its CPU time is that of the whole process. It asks for
robots.txt, verifies no certificates, and saves its pages, unzipped, as it does by default. Version
1.99 crashes now and then, and then crawls again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from webs import Served, cpu_seconds

from webcrawl.hive.membership.embedded_redis import server_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webs import Web

_HERE = Path(__file__).resolve().parent
_TIMEOUT_SECS = 1800
_POLL_SECS = 0.05
_WGET_TRIES = 5
# As many as stock Scrapy has workers; its default is 5.
_WGET_THREADS = 100
# Whether a process has ended, without taking its exit code.
_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT
_NAMESPACE = ["unshare", "--mount"] + ["--map-root-user"] * (os.geteuid() != 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One crawl: of which web, of how many pages, with which *core* to itself and the *other* for
    what serves it. *urls*: those that the floor line fetches. *log*: what the crawlers write."""

    web: Served
    pages: int
    core: int
    other: int
    urls: Path
    peers: Path
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one crawl measured. *redis*: CPU-seconds of a Redis server."""

    pages: int
    cpu: float
    wall: float
    rss_mb: float
    redis: float = 0.0

    @property
    def rate(self) -> float:
        """Pages per CPU-second."""
        return self.pages / self.cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A crawler. *missing* says what is not installed; empty: nothing."""

    name: str
    title: str
    run: Callable[[Task], Result]
    missing: Callable[[Path], str] = lambda _peers: ""


@contextlib.contextmanager
def task_of(web: Web, *, pages: int, peers: Path = Path()) -> Iterator[Task]:
    """The task to crawl *pages* of *web*, which is served meanwhile: it has the first core, with
    this process, and the crawlers the last."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        directory = Path(scratch)
        os.sched_setaffinity(0, {cores[0]})
        try:
            with Served(web, directory=directory, core=cores[0]) as served:
                yield Task(
                    web=served,
                    pages=pages,
                    core=cores[-1],
                    other=cores[0],
                    urls=directory / "urls.txt",
                    peers=peers,
                    log=directory / "log",
                )
        finally:
            os.sched_setaffinity(0, cores)


def _started(
    task: Task, command: list[str], *, cwd: str, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start *command* on the crawler's core."""
    os.sched_setaffinity(0, {task.core})
    try:
        with task.log.open("ab") as log:
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, cwd=cwd, env=env or os.environ
            )
    finally:
        os.sched_setaffinity(0, {task.other})


def _reported(task: Task, command: list[str], *, cwd: str) -> Result:
    """Run *command*, of which a line of JSON tells what it measured."""
    with _started(task, command, cwd=cwd, env=os.environ | {"PYTHONPATH": cwd}) as process:
        try:
            output, _ = process.communicate(timeout=_TIMEOUT_SECS)
        finally:
            process.kill()
    if process.returncode:
        tail = task.log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise RuntimeError(f"{command}: exit code {process.returncode}\n{tail}")
    return Result(**json.loads(next(one for one in output.splitlines() if one[:1] == b"{")))


def scrapy(kind: str, *options: str, tree: Path = _HERE.parent) -> Callable[[Task], Result]:
    """A row by Scrapy, or by the webcrawl in the checkout *tree*."""

    def run(task: Task) -> Result:
        # It stays to the end: ext4 without a journal looks for a free inode past all that were
        # freed in the last minutes, and a new file took the next crawl 0.5 ms.
        job = tempfile.mkdtemp(prefix="job-", dir=task.log.parent)
        command = [sys.executable, str(tree / "benchmarks" / "crawl_once.py"), kind]
        command += ["--seeds", str(task.web.seeds), "--names", str(task.web.names)]
        command += ["--dns", task.web.dns, "--pages", str(task.pages), "--jobdir", job]
        return _reported(task, [*command, *options], cwd=str(tree))

    return run


def _floor(task: Task) -> Result:
    command = [sys.executable, str(_HERE / "floor_once.py")]
    command += ["--urls", str(task.urls), "--names", str(task.web.names)]
    return _reported(task, command, cwd=str(Path.cwd()))


@contextlib.contextmanager
def redis_server(directory: Path, *, core: int | None = None) -> Iterator[tuple[int, Path]]:
    """A Redis server on *core*, or any, that keeps nothing on disk: process id and socket."""
    socket = directory / "socket"
    command = [str(server_program()), "--port", "0", "--unixsocket", str(socket)]
    command += ["--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=directory) as process:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        try:
            while not socket.exists():
                time.sleep(_POLL_SECS)
            yield process.pid, socket
        finally:
            process.terminate()


def _scrapy_redis(task: Task) -> Result:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as scratch,
        redis_server(Path(scratch), core=task.core) as (pid, socket),
    ):
        result = scrapy("redis", "--redis", f"unix://{socket}")(task)
        return replace(result, redis=cpu_seconds(pid))


def _among_hosts(task: Task, command: list[str]) -> list[str]:
    """*command* where /etc/hosts is the simulated web's."""
    script = 'mount --bind "$0" /etc/hosts && exec "$@"'
    return [*_NAMESPACE, "sh", "-c", script, str(task.web.hosts), *command]


def _peer(script: str) -> Callable[[Task], Result]:
    """A row by *script*, with the interpreter of the peers."""

    def run(task: Task) -> Result:
        command = [str(task.peers), str(_HERE / script)]
        command += ["--seeds", str(task.web.seeds), "--pages", str(task.pages)]
        with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
            return _reported(task, _among_hosts(task, command), cwd=scratch)

    return run


def _wget2(task: Task) -> Result:
    for _ in range(_WGET_TRIES):
        task.web.count_served()
        result = _wget2_once(task)
        if result.pages >= task.pages:
            return result
    raise RuntimeError(f"wget2 has crashed {_WGET_TRIES} times, at last after {result.pages} pages")


def _wget2_once(task: Task) -> Result:
    """Crawl with wget2; there are fewer pages than *task* wants if it has ended by itself."""
    command = ["wget2", "--no-config", "--quiet", "--recursive", "--level=inf", "--span-hosts"]
    command += ["--no-check-certificate", "--tries=1", f"--max-threads={_WGET_THREADS}"]
    command += [f"--input-file={task.web.seeds}"]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        began = time.perf_counter()
        pages = 0
        process = _started(task, _among_hosts(task, command), cwd=scratch)
        try:
            while pages < task.pages and not os.waitid(os.P_PID, process.pid, _ENDED):
                time.sleep(_POLL_SECS)
                pages += task.web.count_served()
        finally:
            os.kill(process.pid, signal.SIGKILL)  # Popen's method would take the usage
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.stdout is not None:
                process.stdout.close()
        return Result(
            pages=pages,
            cpu=usage.ru_utime + usage.ru_stime,
            wall=time.perf_counter() - began,
            rss_mb=usage.ru_maxrss / 1024,
        )


def _no_namespace(*programs: str) -> str:
    for program in ("unshare", *programs):
        if shutil.which(program) is None:
            return f"{program} is not on the PATH"
    done = subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False)
    return "no mount namespace of one's own on this machine" if done.returncode else ""


def _no_peer(peers: Path) -> str:
    return _no_namespace() if peers.exists() else f"no {peers} (make bench-peers)"


ROWS = [
    Row(name="stock", title="Scrapy 2.19 broad crawl", run=scrapy("stock")),
    Row(name="stock1", title="the same, CONCURRENT_ITEMS = 1", run=scrapy("stock1")),
    Row(name="redis", title="scrapy-redis 0.9.1, local Redis", run=_scrapy_redis),
    Row(
        name="crawlee",
        title="crawlee for Python",
        run=_peer("crawlee_once.py"),
        missing=_no_peer,
    ),
    Row(
        name="silkworm",
        title="silkworm-rs",
        run=_peer("silkworm_once.py"),
        missing=_no_peer,
    ),
    Row(
        name="wget2", title="wget2, recursive", run=_wget2, missing=lambda _: _no_namespace("wget2")
    ),
    Row(name="webcrawl", title="webcrawl, everything on", run=scrapy("webcrawl")),
    Row(name="floor", title="its HTTP client alone", run=_floor),
]
