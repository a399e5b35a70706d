"""Cluster management (Nielsen): the drones of a hive on many machines, run by their scrapyds.

A hosts file has the scrapyd of each machine, one a line: ``http://user:password@machine:6800``, or
just the machine. ``up`` deploys the egg and schedules the drones that do not run yet, ``status``
shows them, and ``stop`` cancels them. That sends one SIGINT, a clean stop with a checkpoint. A
drone is the job HIVE-1, HIVE-2 and so on of its scrapyd, so that the next ``up`` continues in its
directory.

All machines are asked in parallel, each by its own thread, and reported as they answer. A machine
that does not answer is named when its time is over; its thread is a daemon and ends with the
command.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple
from zipfile import ZipFile
from zlib import crc32

from webcrawl.clock import since_boot, wall_time
from webcrawl.errors import FatalError
from webcrawl.hive.launch.scrapyd_api import Machine, Scrapyd, ScrapydError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from webcrawl.hive.launch.scrapyd_api import DeployedDrone

_MAX_MACHINES = 1000
_MAX_DRONES = 256
# Fields that scrapyd uses itself, next to the arguments of the spider.
_RESERVED = {"project", "spider", "jobid", "priority", "setting", "_version", "_job"}
_POLL_SECS = 0.5
# How long to wait for a drone to have something to fetch, from its first progress line.
_WATCH_SECS = 30.0
_BUSY = "scrapyd already runs its maximum number of jobs"
_STARTED = "started"
_SILENT = "its log does not say why"
# Extra time for a thread whose own timeout has passed to report it.
_GRACE_SECS = 2.0


class Outcome(NamedTuple):
    """Result of one machine: *text* follows its name."""

    machine: str
    is_good: bool
    text: str


class Order(NamedTuple):
    """Drones to run on each machine.

    *arguments* and *settings* are NAME=VALUE; *hive* becomes part of file names. *metrics_port* is
    that of the first drone of each machine; with 0 there are no metrics.
    """

    hive: str
    spider: str
    arguments: Sequence[str] = ()
    settings: Sequence[str] = ()
    drones: int = 1
    metrics_port: int = 0

    def check(self) -> None:
        """Raise FatalError for values that scrapyd would misunderstand."""
        if not 1 <= self.drones <= _MAX_DRONES:
            raise FatalError(f"--drones must be from 1 to {_MAX_DRONES}, not {self.drones}.")
        for given in (*self.arguments, *self.settings):
            if not given.partition("=")[1]:
                raise FatalError(f"Arguments and settings must be NAME=VALUE, not {given!r}.")
        if taken := _RESERVED & {argument.partition("=")[0] for argument in self.arguments}:
            raise FatalError(f"scrapyd reserves {', '.join(sorted(taken))}: choose other names.")

    @property
    def jobs(self) -> list[str]:
        return [f"{self.hive}-{number}" for number in range(1, self.drones + 1)]

    def metrics_of(self, job: str) -> list[str]:
        """Return the setting for the metrics port of *job*, as a list."""
        port = self.metrics_port + self.jobs.index(job)
        return [f"METRICS_PORT={port}"] if self.metrics_port else []


def read_hosts(path: Path) -> list[Machine]:
    """Read the machines in the hosts file *path*; # begins a comment. Raises FatalError."""
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
            # The line is not shown, because it may have a password in it.
            raise FatalError(
                f"Line {number} of {path} must be the URL of a scrapyd, like http://machine:6800."
            ) from None
        if machine.name in machines:
            raise FatalError(f"Line {number} of {path} names {machine.name} again.")
        machines[machine.name] = machine
    if not 1 <= len(machines) <= _MAX_MACHINES:
        raise FatalError(f"{path} must have 1 to {_MAX_MACHINES} machines, not {len(machines)}.")
    return [*machines.values()]


def build_egg(project: Path) -> bytes:
    """Build the egg of the checkout *project*, without leaving files in it. Takes a second.

    Raises FatalError.
    """
    if not (project / "setup.py").is_file():
        raise FatalError(f"{project} has no setup.py: an egg can only be built from a checkout.")
    with tempfile.TemporaryDirectory(prefix="webcrawl-egg-") as directory:
        # All by-products of setuptools go there, too.
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
    """Deploy *egg* and start the drones that do not run yet, within *secs* for each machine.

    Yields an outcome as each machine answers, good if all its drones run.
    """
    checksum = _checksum(egg)
    version = f"{int(wall_time())}.{checksum}"  # the time, as for scrapyd-deploy, and the content

    def start(scrapyd: Scrapyd, until: float) -> tuple[bool, str]:
        before = scrapyd.drones(order.hive)
        missing = [job for job in order.jobs if _is_over(before, job)]
        notes = [
            f"{name} runs another egg ({found or 'its log names none'}): stop it and run up again"
            for name, drone in before.items()
            if drone.state == "running"
            and not (found := scrapyd.egg_of(drone)).endswith(f".{checksum}")
        ]
        if not missing:
            return True, "; ".join([f"{', '.join(order.jobs)} already running", *notes])
        scrapyd.deploy(version, egg)
        for job in missing:
            scrapyd.schedule(
                job,
                order.spider,
                version=version,
                arguments=order.arguments,
                settings=[*order.settings, *order.metrics_of(job)],
            )
        are_good, texts = _watch_start(scrapyd, order.hive, missing, before, until)
        return are_good, "; ".join([*texts, *notes])

    return _each(machines, start, secs=secs)


def _watch_start(
    scrapyd: Scrapyd,
    hive: str,
    jobs: Sequence[str],
    before: Mapping[str, DeployedDrone],
    until: float,
) -> tuple[bool, list[str]]:
    """Wait until *jobs*, just scheduled, fetch something; return whether all run, and texts."""
    began = since_boot()
    while True:
        is_late = since_boot() >= min(until, began + _WATCH_SECS)
        drones, how = scrapyd.drones(hive), {}
        for job in jobs:
            drone = drones.get(job)
            if drone is None or drone == before.get(job) or drone.state == "pending":
                how[job] = f"waiting: {_BUSY}"
                continue
            log = scrapyd.log_end(drone)
            has_begun = log.at >= drone.started
            if drone.is_over:
                return log.is_finished, [f"{job} ended immediately: {log.end or _SILENT}"]
            if has_begun and log.is_at_work:
                how[job] = _STARTED
            elif is_late and log.end:
                return False, [f"{job} is running, but its log says: {log.end}"]
            else:
                how[job] = f"{_STARTED}, with nothing to fetch yet"
                if drone.log_url and not has_begun:
                    began = since_boot()
        states = dict.fromkeys(how.values())
        if is_late or [*states] == [_STARTED]:
            texts = [
                f"{', '.join(job for job in jobs if how[job] == state)} {state}" for state in states
            ]
            return all(state.startswith(_STARTED) for state in states), texts
        threading.Event().wait(_POLL_SECS)


def status(machines: Sequence[Machine], hive: str, *, secs: float) -> Iterator[Outcome]:
    """Yield the status of the drones of *hive*, good if all run or have finished the crawl."""

    def look(scrapyd: Scrapyd, _: float) -> tuple[bool, str]:
        found = [_described(scrapyd, drone) for drone in scrapyd.drones(hive).values()]
        if not found:
            return False, f"has no drone of {hive}"
        return all(is_good for is_good, _, _ in found), "; ".join(text for _, _, text in found)

    return _each(machines, look, secs=secs)


def stop(machines: Sequence[Machine], hive: str, *, secs: float) -> Iterator[Outcome]:
    """Cancel the drones of *hive* and wait for their ends; good if all left a checkpoint.

    Stopping a drone a second time, while it still saves, ends it immediately.
    """

    def cancel(scrapyd: Scrapyd, until: float) -> tuple[bool, str]:
        drones = scrapyd.drones(hive)
        names = [name for name, drone in drones.items() if not drone.is_over]
        if not names:
            return True, f"no drone of {hive} is running"
        for name in names:
            scrapyd.cancel(name)
        while left := [name for name in names if not _is_over(drones, name)]:
            if since_boot() >= until:
                return False, f"{', '.join(left)} did not end within {secs:g} s"
            threading.Event().wait(_POLL_SECS)
            drones = scrapyd.drones(hive)
        # A drone that had not been started yet is not listed any more.
        found = [_described(scrapyd, drones[name]) for name in names if name in drones]
        if not found:
            return True, f"{', '.join(names)} had not been started yet"
        return all(is_saved for _, is_saved, _ in found), "; ".join(text for _, _, text in found)

    return _each(machines, cancel, secs=secs)


def _checksum(egg: bytes) -> int:
    """Return a checksum of the sources in *egg*.

    Compiled files are left out, because they contain times; so are files of setuptools, which
    contain paths.
    """
    with ZipFile(BytesIO(egg)) as files:
        parts = sorted((entry.filename, entry.CRC) for entry in files.infolist())
    sources = [
        part for part in parts if not (part[0].endswith(".pyc") or part[0].startswith("EGG-INFO/"))
    ]
    return crc32(repr(sources).encode())


def _is_over(drones: Mapping[str, DeployedDrone], name: str) -> bool:
    return name not in drones or drones[name].is_over


def _described(scrapyd: Scrapyd, drone: DeployedDrone) -> tuple[bool, bool, str]:
    """Return whether *drone* is well, whether it has left a checkpoint, and a description."""
    if drone.state == "pending":
        return False, False, f"{drone.name} waiting: {_BUSY}"
    log = scrapyd.log_end(drone)
    if not drone.is_over:
        text = f"{drone.name} running since {drone.started}: {log.progress or 'no page yet'}"
        return True, False, text
    how = "with a checkpoint" if log.has_saved else "without a checkpoint in its log"
    return log.is_finished, log.has_saved, f"{drone.name} ended {how}: {log.end or _SILENT}"


def _each(
    machines: Sequence[Machine], task: Callable[[Scrapyd, float], tuple[bool, str]], *, secs: float
) -> Iterator[Outcome]:
    """Run *task* for each machine in parallel and yield the outcomes as they answer.

    *task* gets the time by which it must have finished.
    """
    answers: SimpleQueue[Outcome] = SimpleQueue()
    until = since_boot() + secs

    def work(machine: Machine) -> None:
        try:
            is_good, text = task(Scrapyd(machine), until)
        except ScrapydError as error:
            is_good, text = False, str(error)
        except Exception as error:  # noqa: BLE001 (the other machines must still be reported)
            is_good, text = False, f"caused an unexpected error: {error!r}"
        answers.put(Outcome(machine.name, is_good, text))

    for machine in machines:
        threading.Thread(target=work, args=(machine,), daemon=True).start()
    waiting = [machine.name for machine in machines]
    with suppress(Empty):
        while waiting:
            outcome = answers.get(timeout=max(0.0, until + _GRACE_SECS - since_boot()))
            waiting.remove(outcome.machine)
            yield outcome
    for name in waiting:
        yield Outcome(name, False, f"does not answer within {secs:g} s")
