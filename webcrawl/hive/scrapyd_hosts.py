"""Cluster management (Nielsen): the drones of a hive on many machines, run by their scrapyds.

A hosts file names the scrapyd of each machine: ``http://user:password@machine:6800``, a line each;
the machine alone will do. ``up`` deploys the egg and schedules the drones that do not run yet,
``status`` asks, ``stop`` cancels, which is one SIGINT: a clean stop with a checkpoint. A drone is
the job HIVE-1, HIVE-2 and so on of its scrapyd, so that the next ``up`` goes on in its directory.

All machines are asked at once, each by a thread of its own, and told of as they answer. One that
does not is named when its time is over; its thread is a daemon and ends with the command.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple

from webcrawl.clock import since_boot, wall_time
from webcrawl.errors import FatalError
from webcrawl.hive.scrapyd_api import Job, LogEnd, Machine, Scrapyd, ScrapydError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_MOST_MACHINES: Final = 1000
_MOST_DRONES: Final = 256
# scrapyd's own fields beside the arguments of the spider.
_RESERVED: Final = {"project", "spider", "jobid", "priority", "setting", "_version", "_job"}
_POLL_SECS: Final = 0.5
# A drone has started when it has logged its progress, or, if it logs none, has run for so long.
_WATCH_SECS: Final = 30.0
_BUSY: Final = "scrapyd runs as many jobs as it may"
_SILENT: Final = "its log does not say why"
# What a thread that gives up by itself has left to say so.
_GRACE_SECS: Final = 2.0


class Outcome(NamedTuple):
    """What became of one machine: *text* goes on after its name."""

    machine: str
    is_good: bool
    text: str


class Order(NamedTuple):
    """What is to be run on each machine.

    *arguments* and *settings* are NAME=VALUE; *hive* becomes part of file names.
    """

    hive: str
    spider: str
    arguments: Sequence[str] = ()
    settings: Sequence[str] = ()
    drones: int = 1

    def check(self) -> None:
        """FatalError for what scrapyd would misunderstand."""
        if not 1 <= self.drones <= _MOST_DRONES:
            raise FatalError(f"--drones must be from 1 to {_MOST_DRONES}, not {self.drones}.")
        for given in (*self.arguments, *self.settings):
            if not given.partition("=")[1]:
                raise FatalError(f"Arguments and settings are NAME=VALUE, not {given!r}.")
        if taken := _RESERVED & {one.partition("=")[0] for one in self.arguments}:
            raise FatalError(
                f"scrapyd itself takes {', '.join(sorted(taken))}: choose other names."
            )

    @property
    def jobs(self) -> list[str]:
        return [f"{self.hive}-{number}" for number in range(1, self.drones + 1)]


def read_hosts(path: Path) -> list[Machine]:
    """The machines that the hosts file *path* names; # begins a comment. FatalError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FatalError(f"Cannot read the hosts in {path}: {reason}.") from error
    machines: dict[str, Machine] = {}
    for number, line in enumerate(lines, 1):
        url = re.sub(r"(^|\s)#.*", "", line).strip()
        if not url:
            continue
        try:
            machine = Machine.of(url)
        except ValueError:
            # The line may have a password in it.
            raise FatalError(
                f"Line {number} of {path} is no URL of a scrapyd, as http://machine:6800 is."
            ) from None
        if machine.name in machines:
            raise FatalError(f"Line {number} of {path} names {machine.name} again.")
        machines[machine.name] = machine
    if not 1 <= len(machines) <= _MOST_MACHINES:
        raise FatalError(f"{path} names {len(machines)} machines: 1 to {_MOST_MACHINES} can be.")
    return [*machines.values()]


def build_egg(project: Path) -> bytes:
    """The egg of the checkout *project*, in which nothing is left behind. Takes a second.
    FatalError."""
    if not (project / "setup.py").is_file():
        raise FatalError(f"{project} has no setup.py: an egg is built from the checkout.")
    with tempfile.TemporaryDirectory(prefix="webcrawl-egg-") as directory:
        # All of setuptools' by-products go there, too.
        command = [
            *(sys.executable, "setup.py", "-q", "build", "--build-base", f"{directory}/build"),
            *("egg_info", "--egg-base", directory, "bdist_egg"),
            *("--bdist-dir", f"{directory}/tree", "--dist-dir", f"{directory}/egg"),
        ]
        done = subprocess.run(  # noqa: S603 (our own setup.py)
            command, cwd=project, capture_output=True, text=True, errors="replace", check=False
        )
        eggs = [*Path(directory).glob("egg/*.egg")]
        if done.returncode or len(eggs) != 1:
            reason = (done.stderr.strip().splitlines() or ["no egg was made"])[-1]
            raise FatalError(
                f"The egg cannot be built: {reason} (setuptools==80.10.2 must be installed)."
            )
        return eggs[0].read_bytes()


def up(machines: Sequence[Machine], order: Order, *, egg: bytes, secs: float) -> Iterator[Outcome]:
    """Deploy *egg* and run the drones that do not run yet; an outcome as each machine answers, good
    if all its drones run. No machine is waited for longer than *secs*."""
    order.check()
    version = str(int(wall_time()))  # as scrapyd-deploy names it

    def start(scrapyd: Scrapyd, until: float) -> Outcome:
        before = _drones(scrapyd, order.hive)
        missing = [job for job in order.jobs if before.get(job, _GONE).is_over]
        if not missing:
            return Outcome("", True, f"{_names(order.jobs)} ran already")
        scrapyd.deploy(version, egg)
        for job in missing:
            scrapyd.schedule(
                job,
                order.spider,
                version=version,
                arguments=order.arguments,
                settings=order.settings,
            )
        return _watch(scrapyd, order.hive, missing, before, until)

    return _each(machines, start, secs=secs)


def status(machines: Sequence[Machine], hive: str, *, secs: float) -> Iterator[Outcome]:
    """How the drones of *hive* are; good where all run, or have come to the end of the crawl."""

    def look(scrapyd: Scrapyd, _: float) -> Outcome:
        drones = _drones(scrapyd, hive)
        told = [_told(scrapyd, drone) for drone in drones.values()]
        if not told:
            return Outcome("", False, f"has no drone of {hive}")
        return Outcome("", all(one.is_good for one in told), "; ".join(one.text for one in told))

    return _each(machines, look, secs=secs)


def stop(machines: Sequence[Machine], hive: str, *, secs: float) -> Iterator[Outcome]:
    """Cancel the drones of *hive* and wait for their ends; good where all of them left a
    checkpoint. To stop one a second time that still saves ends it at once."""

    def cancel(scrapyd: Scrapyd, until: float) -> Outcome:
        names = [name for name, one in _drones(scrapyd, hive).items() if not one.is_over]
        if not names:
            return Outcome("", True, f"no drone of {hive} runs")
        for name in names:
            scrapyd.cancel(name)
        while since_boot() < until:
            ended = _drones(scrapyd, hive)
            if all(ended.get(name, _GONE).is_over for name in names):
                break
            _sleep(_POLL_SECS)
        else:
            return Outcome("", False, f"{_names(names)} did not end within {secs:g} s")
        # One that had not been started yet has left no trace.
        told = [_stopped(scrapyd, ended[name]) for name in names if name in ended]
        if not told:
            return Outcome("", True, f"{_names(names)} had not been started yet")
        return Outcome("", all(one.is_good for one in told), "; ".join(one.text for one in told))

    return _each(machines, cancel, secs=secs)


class _Drone(NamedTuple):
    """The newest run of a drone."""

    job: Job
    state: str

    @property
    def is_over(self) -> bool:
        return self.state == "finished"


_GONE: Final = _Drone(Job(id=""), "finished")


def _drones(scrapyd: Scrapyd, hive: str) -> dict[str, _Drone]:
    """The newest run of each drone by its name, in the order of their numbers."""
    jobs = scrapyd.jobs()
    newest: dict[str, _Drone] = {}
    jobs.finished.sort(key=lambda job: job.end_time)
    for state in ("finished", "running", "pending"):
        newest |= {job.id: _Drone(job, state) for job in getattr(jobs, state)}
    numbered = re.compile(rf"{re.escape(hive)}-(\d{{1,3}})")
    found = {int(match[1]): name for name in newest if (match := numbered.fullmatch(name))}
    return {found[number]: newest[found[number]] for number in sorted(found)}


def _watch(
    scrapyd: Scrapyd, hive: str, names: list[str], before: dict[str, _Drone], until: float
) -> Outcome:
    """Whether the drones *names* run, for long enough to have found out that they cannot."""
    running: dict[str, tuple[float, LogEnd]] = {}
    started: set[str] = set()
    while True:
        drones = _drones(scrapyd, hive)
        for name in names:
            drone = drones.get(name, _GONE)
            if drone.state == "running" and name not in started:
                log = LogEnd.of(scrapyd.log_end(drone.job))
                # The end of an earlier run may stand there at first.
                since, at_first = running.setdefault(name, (since_boot(), log))
                has_progress = bool(log.at) and log.at != at_first.at
                if has_progress or since_boot() - since >= _WATCH_SECS:
                    started.add(name)
            elif drone.is_over and drone not in {_GONE, before.get(name)}:
                end = LogEnd.of(scrapyd.log_end(drone.job)).end
                text = f"{name} ended at once: {end or _SILENT}"
                return Outcome("", _is_finished(end), text)
        if len(started) == len(names):
            return Outcome("", True, f"{_names(names)} started")
        if since_boot() >= until:
            waiting = [name for name in names if name not in running]
            state = f"{_names(waiting)} waits: {_BUSY}" if waiting else f"{_names(names)} begins"
            return Outcome("", not waiting, state)
        _sleep(_POLL_SECS)


def _told(scrapyd: Scrapyd, drone: _Drone) -> Outcome:
    name = drone.job.id
    if drone.state == "pending":
        return Outcome("", False, f"{name} waits: {_BUSY}")
    log = LogEnd.of(scrapyd.log_end(drone.job))
    if drone.state == "running":
        since = drone.job.start_time.partition(".")[0]
        return Outcome("", True, f"{name} runs since {since}: {log.progress or 'no page yet'}")
    return Outcome("", _is_finished(log.end), f"{name} ended: {log.end or _SILENT}")


def _stopped(scrapyd: Scrapyd, drone: _Drone) -> Outcome:
    name, log = drone.job.id, LogEnd.of(scrapyd.log_end(drone.job))
    if log.has_saved:
        return Outcome("", True, f"{name} ended with a checkpoint: {log.end or 'no summary'}")
    return Outcome("", False, f"{name} ended, its log tells of no checkpoint: {log.end or 'empty'}")


def _is_finished(end: str) -> bool:
    return end.startswith("finished")


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _each(
    machines: Sequence[Machine], task: Callable[[Scrapyd, float], Outcome], *, secs: float
) -> Iterator[Outcome]:
    """What *task* makes of each machine, as they answer; it is given the time until which it may
    take."""
    answers: SimpleQueue[Outcome] = SimpleQueue()
    until = since_boot() + secs

    def work(machine: Machine) -> None:
        try:
            outcome = task(Scrapyd(machine), until)
        except ScrapydError as error:
            outcome = Outcome("", False, str(error))
        except Exception as error:  # noqa: BLE001 (the others must be told of nevertheless)
            outcome = Outcome("", False, f"made an error of this command: {error!r}")
        answers.put(outcome._replace(machine=machine.name))

    for machine in machines:
        threading.Thread(target=work, args=(machine,), daemon=True).start()
    waiting = [machine.name for machine in machines]
    while waiting:
        try:
            outcome = answers.get(timeout=max(0.0, until + _GRACE_SECS - since_boot()))
        except Empty:
            break
        waiting.remove(outcome.machine)
        yield outcome
    for name in waiting:
        yield Outcome(name, False, f"does not answer: nothing in {secs:g} s")


def _sleep(secs: float) -> None:
    threading.Event().wait(secs)
