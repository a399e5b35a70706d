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

_MOST_MACHINES = 1000
_MOST_DRONES = 256
# scrapyd's own fields beside the arguments of the spider.
_RESERVED = {"project", "spider", "jobid", "priority", "setting", "_version", "_job"}
_POLL_SECS = 0.5
# From its first line of progress a drone is waited for so long to have something to fetch.
_WATCH_SECS = 30.0
_BUSY = "scrapyd runs as many jobs as it may"
_STARTED = "started"
_SILENT = "its log does not say why"
# What a thread that gives up by itself has left to say so.
_GRACE_SECS = 2.0


class Outcome(NamedTuple):
    """Result of one machine: *text* follows its name."""

    machine: str
    is_good: bool
    text: str


class Order(NamedTuple):
    """The drones to run on each machine.

    *arguments* and *settings* are NAME=VALUE; *hive* becomes part of file names. *metrics_port* is
    that of the first drone of each machine; 0: none have metrics.
    """

    hive: str
    spider: str
    arguments: Sequence[str] = ()
    settings: Sequence[str] = ()
    drones: int = 1
    metrics_port: int = 0

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

    def metrics_of(self, job: str) -> list[str]:
        """The setting of the port of *job*."""
        port = self.metrics_port + self.jobs.index(job)
        return [f"METRICS_PORT={port}"] if self.metrics_port else []


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
    mark = _mark(egg)
    version = f"{int(wall_time())}.{mark}"  # as scrapyd-deploy names it, and what is in it

    def start(scrapyd: Scrapyd, until: float) -> tuple[bool, str]:
        before = scrapyd.drones(order.hive)
        missing = [job for job in order.jobs if _is_over(before, job)]
        notes = [
            f"{name} runs another egg ({found or 'its log names none'}): stop it and say up again"
            for name, drone in before.items()
            if drone.state == "running"
            and not (found := scrapyd.egg_of(drone)).endswith(f".{mark}")
        ]
        if not missing:
            return True, "; ".join([f"{', '.join(order.jobs)} ran already", *notes])
        scrapyd.deploy(version, egg)
        for job in missing:
            scrapyd.schedule(
                job,
                order.spider,
                version=version,
                arguments=order.arguments,
                settings=[*order.settings, *order.metrics_of(job)],
            )
        are_good, texts = _begin(scrapyd, order.hive, missing, before, until)
        return are_good, "; ".join([*texts, *notes])

    return _each(machines, start, secs=secs)


def _begin(
    scrapyd: Scrapyd,
    hive: str,
    jobs: Sequence[str],
    before: Mapping[str, DeployedDrone],
    until: float,
) -> tuple[bool, list[str]]:
    """Wait for *jobs*, just scheduled, to have something to fetch; whether all run, and how."""
    began = since_boot()
    while True:
        is_late = since_boot() >= min(until, began + _WATCH_SECS)
        drones, how = scrapyd.drones(hive), {}
        for job in jobs:
            drone = drones.get(job)
            if drone is None or drone == before.get(job) or drone.state == "pending":
                how[job] = f"waits: {_BUSY}"
                continue
            log = scrapyd.log_end(drone)
            has_begun = log.at >= drone.started
            if drone.is_over:
                return log.is_finished, [f"{job} ended at once: {log.end or _SILENT}"]
            if has_begun and log.is_at_work:
                how[job] = _STARTED
            elif is_late and log.end:
                return False, [f"{job} runs, but its log says: {log.end}"]
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
    """How the drones of *hive* are; good where all run, or have come to the end of the crawl."""

    def look(scrapyd: Scrapyd, _: float) -> tuple[bool, str]:
        found = [_told(scrapyd, drone) for drone in scrapyd.drones(hive).values()]
        if not found:
            return False, f"has no drone of {hive}"
        return all(is_good for is_good, _, _ in found), "; ".join(text for _, _, text in found)

    return _each(machines, look, secs=secs)


def stop(machines: Sequence[Machine], hive: str, *, secs: float) -> Iterator[Outcome]:
    """Cancel the drones of *hive* and wait for their ends; good where all of them left a
    checkpoint. To stop one a second time that still saves ends it at once."""

    def cancel(scrapyd: Scrapyd, until: float) -> tuple[bool, str]:
        drones = scrapyd.drones(hive)
        names = [name for name, drone in drones.items() if not drone.is_over]
        if not names:
            return True, f"no drone of {hive} runs"
        for name in names:
            scrapyd.cancel(name)
        while left := [name for name in names if not _is_over(drones, name)]:
            if since_boot() >= until:
                return False, f"{', '.join(left)} did not end within {secs:g} s"
            threading.Event().wait(_POLL_SECS)
            drones = scrapyd.drones(hive)
        # One that had not been started yet has left no trace.
        found = [_told(scrapyd, drones[name]) for name in names if name in drones]
        if not found:
            return True, f"{', '.join(names)} had not been started yet"
        return all(is_saved for _, is_saved, _ in found), "; ".join(text for _, _, text in found)

    return _each(machines, cancel, secs=secs)


def _mark(egg: bytes) -> int:
    """The same for all eggs of the same sources: compiled files have times in them, and what
    setuptools adds has paths."""
    with ZipFile(BytesIO(egg)) as files:
        parts = sorted((one.filename, one.CRC) for one in files.infolist())
    sources = [
        part for part in parts if not (part[0].endswith(".pyc") or part[0].startswith("EGG-INFO/"))
    ]
    return crc32(repr(sources).encode())


def _is_over(drones: Mapping[str, DeployedDrone], name: str) -> bool:
    return name not in drones or drones[name].is_over


def _told(scrapyd: Scrapyd, drone: DeployedDrone) -> tuple[bool, bool, str]:
    """Whether all is well with *drone*, whether it has left a checkpoint, and how it is."""
    if drone.state == "pending":
        return False, False, f"{drone.name} waits: {_BUSY}"
    log = scrapyd.log_end(drone)
    if not drone.is_over:
        text = f"{drone.name} runs since {drone.started}: {log.progress or 'no page yet'}"
        return True, False, text
    how = "with a checkpoint" if log.has_saved else "without a checkpoint in its log"
    return log.is_finished, log.has_saved, f"{drone.name} ended {how}: {log.end or _SILENT}"


def _each(
    machines: Sequence[Machine], task: Callable[[Scrapyd, float], tuple[bool, str]], *, secs: float
) -> Iterator[Outcome]:
    """The results of *task* for each machine, as they answer; it is given the time until which it
    may take."""
    answers: SimpleQueue[Outcome] = SimpleQueue()
    until = since_boot() + secs

    def work(machine: Machine) -> None:
        try:
            is_good, text = task(Scrapyd(machine), until)
        except ScrapydError as error:
            is_good, text = False, str(error)
        except Exception as error:  # noqa: BLE001 (the others must be told of nevertheless)
            is_good, text = False, f"made an error of this command: {error!r}"
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
        yield Outcome(name, False, f"does not answer: nothing in {secs:g} s")
