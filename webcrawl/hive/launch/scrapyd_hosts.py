"""Cluster management (Nielsen): starts, checks and stops the drones of a hive on many machines.

Each machine runs its drones by its scrapyd. A hosts file has the scrapyd of each machine, one per
line: ``http://user:password@machine:6800``, or just the machine. ``up`` deploys the egg and
schedules the drones that do not run yet, ``status`` shows the drones, and ``stop`` cancels them.
Canceling sends one SIGINT, which is a clean stop with a checkpoint. The drones of each scrapyd are
its jobs HIVE-1, HIVE-2 and so on, so that the next ``up`` continues in their directories.

All machines are contacted in parallel, each in its own thread, and reported as they answer. A
machine that has not answered when its time is over is reported, too. Its thread is a daemon thread,
which ends with the command.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.clock import since_boot, wall_time
from webcrawl.errors import FatalError
from webcrawl.hive.launch.scrapyd_api import DeployedDrone, Machine, Scrapyd, ScrapydError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


_MAX_MACHINES = 1000
_MAX_DRONES = 256
# Names that arguments of the spider must not have, because scrapyd uses them for its own fields.
_RESERVED = {"project", "spider", "jobid", "priority", "setting", "_version", "_job"}
_POLL_SECS = 0.5
# How long to wait, from a drone's first progress line on, until it has something to fetch.
_WATCH_SECS = 30.0
_SCRAPYD_BUSY = "scrapyd already runs its maximum number of jobs"
_STARTED = "started"
_NO_REASON = "its log does not say why"
# Extra time in which a thread can report that its own timeout has passed.
_GRACE_SECS = 2.0


class Outcome(NamedTuple):
    """Result of a command on one machine; *text* is printed after the name of the machine."""

    machine: str
    is_good: bool
    text: str


class Order(NamedTuple):
    """The drones to run on each machine.

    *arguments* and *settings* are NAME=VALUE; *hive* becomes part of file names. *metrics_port* is
    the port of the first drone on each machine; if it is 0, there are no metrics.
    """

    hive: str
    spider: str
    arguments: Sequence[str] = ()
    settings: Sequence[str] = ()
    drones: int = 1
    metrics_port: int = 0

    def check(self) -> None:
        """Raise FatalError for values that scrapyd would not understand as meant."""
        if not 1 <= self.drones <= _MAX_DRONES:
            raise FatalError(f"--drones must be from 1 to {_MAX_DRONES}, not {self.drones}.")
        for assignment in (*self.arguments, *self.settings):
            if not assignment.partition("=")[1]:
                raise FatalError(f"Arguments and settings must be NAME=VALUE, not {assignment!r}.")
        if reserved := _RESERVED & {argument.partition("=")[0] for argument in self.arguments}:
            raise FatalError(f"scrapyd reserves {', '.join(sorted(reserved))}: choose other names.")

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs that are the drones of one machine."""
        return [f"{self.hive}-{number}" for number in range(1, self.drones + 1)]

    def metrics_of(self, job: str) -> list[str]:
        """Return the setting METRICS_PORT of *job* in a list, which is empty without metrics."""
        port = self.metrics_port + self.jobs.index(job)
        return [f"METRICS_PORT={port}"] if self.metrics_port else []


def read_hosts(path: Path) -> list[Machine]:
    """Read the machines from the hosts file *path*; # starts a comment. Raises FatalError."""
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
            # The line is not shown, because it may contain a password.
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
    """Build the egg of the project in the clone *project*. Takes a second.

    Leaves no files in the clone. Raises FatalError if the egg cannot be built.
    """
    if not (project / "setup.py").is_file():
        raise FatalError(f"hive up works only in a clone of webcrawl; {project} has no setup.py.")
    with tempfile.TemporaryDirectory(prefix="webcrawl-egg-") as directory:
        # All intermediate files of setuptools are written there, too.
        command = [
            *(sys.executable, "setup.py", "-q", "build", "--build-base", f"{directory}/build"),
            *("egg_info", "--egg-base", directory, "bdist_egg"),
            *("--bdist-dir", f"{directory}/tree", "--dist-dir", f"{directory}/egg"),
        ]
        build = subprocess.run(  # noqa: S603 (this project's setup.py)
            command, cwd=project, capture_output=True, text=True, errors="replace", check=False
        )
        eggs = [*Path(directory).glob("egg/*.egg")]
        if build.returncode or len(eggs) != 1:
            reason = (build.stderr.strip().splitlines() or ["no egg was made"])[-1]
            raise FatalError(
                f"The egg cannot be built: {reason} (setuptools==80.10.2 must be installed)."
            )
        return eggs[0].read_bytes()


def up(machines: Sequence[Machine], order: Order, *, egg: bytes, secs: float) -> Iterator[Outcome]:
    """Deploy *egg* and start the drones that do not run yet; yield an outcome for each machine.

    An outcome is good if all drones of the machine run. Each machine has *secs* to answer.
    """
    version = str(int(wall_time()))  # as in scrapyd-deploy

    def start(scrapyd: Scrapyd, deadline: float) -> tuple[bool, str]:
        """Start the missing drones of one machine; return whether all run, and a description."""
        drones_before = scrapyd.drones(order.hive)
        missing = [job for job in order.jobs if _is_over(drones_before, job)]
        if not missing:
            return True, f"{', '.join(order.jobs)} already running"

        scrapyd.deploy(version, egg)
        for job in missing:
            scrapyd.schedule(
                job,
                order.spider,
                version=version,
                arguments=order.arguments,
                settings=[*order.settings, *order.metrics_of(job)],
            )
        return _watch_start(scrapyd, order.hive, missing, drones_before, deadline)

    return _run_on_each(machines, start, secs=secs)


def _watch_start(
    scrapyd: Scrapyd,
    hive: str,
    jobs: Sequence[str],
    drones_before: Mapping[str, DeployedDrone],
    deadline: float,
) -> tuple[bool, str]:
    """Wait until *jobs*, which were just scheduled, have something to fetch, or until *deadline*.

    *drones_before* has the earlier runs of drones. Returns whether all jobs run, and a description.
    """
    started_at = since_boot()
    while True:
        is_late = since_boot() >= min(deadline, started_at + _WATCH_SECS)
        drones = scrapyd.drones(hive)
        states = {}
        for job in jobs:
            drone = drones.get(job)
            # It is not listed yet, or only with its earlier run.
            if drone is None or drone == drones_before.get(job) or drone.state == "pending":
                states[job] = f"waiting: {_SCRAPYD_BUSY}"
                continue

            log = scrapyd.log_end(drone)
            # The last progress line may be that of an earlier run. Both times are the machine's.
            has_begun = log.at >= drone.started
            if drone.is_over:
                return log.is_finished, f"{job} ended immediately: {log.end or _NO_REASON}"
            if has_begun and log.is_at_work:
                states[job] = _STARTED
            elif is_late and log.end:
                return False, f"{job} is running, but its log says: {log.end}"
            else:
                states[job] = f"{_STARTED}, with nothing to fetch yet"
                if drone.log_url and not has_begun:
                    started_at = since_boot()  # it has not logged yet, so wait longer

        distinct_states = dict.fromkeys(states.values())
        if is_late or [*distinct_states] == [_STARTED]:
            texts = [
                f"{', '.join(job for job in jobs if states[job] == state)} {state}"
                for state in distinct_states
            ]
            are_good = all(state.startswith(_STARTED) for state in distinct_states)
            return are_good, "; ".join(texts)
        threading.Event().wait(_POLL_SECS)


def status(machines: Sequence[Machine], hive: str, *, secs: float) -> Iterator[Outcome]:
    """Yield an outcome for each machine, which describes its drones of *hive*.

    An outcome is good if all drones run, or have finished the crawl. Each machine has *secs* to
    answer.
    """

    def look(scrapyd: Scrapyd, _: float) -> tuple[bool, str]:
        """Return whether the drones of one machine are well, and a description of them."""
        descriptions = [_describe(scrapyd, drone) for drone in scrapyd.drones(hive).values()]
        if not descriptions:
            return False, f"has no drone of {hive}"
        are_good = all(one.is_well for one in descriptions)
        return are_good, "; ".join(one.text for one in descriptions)

    return _run_on_each(machines, look, secs=secs)


def stop(machines: Sequence[Machine], hive: str, *, secs: float) -> Iterator[Outcome]:
    """Stop the drones of *hive* and wait until they end; yield an outcome for each machine.

    An outcome is good if all drones left a checkpoint. Each machine has *secs* to answer. Stopping
    a drone a second time, while it is still saving, ends it immediately.
    """

    def cancel(scrapyd: Scrapyd, deadline: float) -> tuple[bool, str]:
        """Stop the drones of one machine; return whether all have saved, and a description."""
        drones = scrapyd.drones(hive)
        names = [name for name, drone in drones.items() if not drone.is_over]
        if not names:
            return True, f"no drone of {hive} is running"
        for name in names:
            scrapyd.cancel(name)
        while running := [name for name in names if not _is_over(drones, name)]:
            if since_boot() >= deadline:
                return False, f"{', '.join(running)} did not end within {secs:g} s"
            threading.Event().wait(_POLL_SECS)
            drones = scrapyd.drones(hive)

        # A drone that was still pending is not listed any more.
        descriptions = [_describe(scrapyd, drones[name]) for name in names if name in drones]
        if not descriptions:
            return True, f"{', '.join(names)} had not been started yet"
        have_saved = all(one.has_saved for one in descriptions)
        return have_saved, "; ".join(one.text for one in descriptions)

    return _run_on_each(machines, cancel, secs=secs)


def _is_over(drones: Mapping[str, DeployedDrone], name: str) -> bool:
    """Return whether the drone *name* is not running or about to run."""
    return name not in drones or drones[name].is_over


class _Description(NamedTuple):
    """State of a drone in words; whether it is well, and whether it ended with a checkpoint."""

    text: str
    is_well: bool = False
    has_saved: bool = False


def _describe(scrapyd: Scrapyd, drone: DeployedDrone) -> _Description:
    """Describe the state of *drone*, by its log."""
    if drone.state == "pending":
        return _Description(f"{drone.name} waiting: {_SCRAPYD_BUSY}")
    log = scrapyd.log_end(drone)
    if not drone.is_over:
        text = f"{drone.name} running since {drone.started}: {log.progress or 'no page yet'}"
        return _Description(text, is_well=True)
    ending = "with a checkpoint" if log.has_saved else "without a checkpoint in its log"
    text = f"{drone.name} ended {ending}: {log.end or _NO_REASON}"
    return _Description(text, log.is_finished, log.has_saved)


def _run_on_each(
    machines: Sequence[Machine], task: Callable[[Scrapyd, float], tuple[bool, str]], *, secs: float
) -> Iterator[Outcome]:
    """Run *task* for each machine in parallel, and yield the outcomes as the machines answer.

    *task* gets the time by which it must have finished, *secs* from now. It returns whether the
    outcome is good, and its text.
    """
    answers: SimpleQueue[Outcome] = SimpleQueue()
    deadline = since_boot() + secs

    def run_task(machine: Machine) -> None:
        try:
            is_good, text = task(Scrapyd(machine), deadline)
        except ScrapydError as error:
            is_good = False
            text = str(error)
        except Exception as error:  # noqa: BLE001 (the other machines must still be reported)
            is_good = False
            text = f"caused an unexpected error: {error!r}"
        answers.put(Outcome(machine.name, is_good, text))

    for machine in machines:
        threading.Thread(target=run_task, args=(machine,), daemon=True).start()
    waiting = [machine.name for machine in machines]
    with suppress(Empty):
        while waiting:
            outcome = answers.get(timeout=max(0.0, deadline + _GRACE_SECS - since_boot()))
            waiting.remove(outcome.machine)
            yield outcome
    for name in waiting:
        yield Outcome(name, False, f"does not answer within {secs:g} s")
