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
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple

from webcrawl.clock import since_boot, wall_time
from webcrawl.errors import FatalError
from webcrawl.hive.scrapyd_api import Machine, Scrapyd, ScrapydError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from webcrawl.hive.scrapyd_api import Drone

_MOST_MACHINES: Final = 1000
_MOST_DRONES: Final = 256
# scrapyd's own fields beside the arguments of the spider.
_RESERVED: Final = {"project", "spider", "jobid", "priority", "setting", "_version", "_job"}
_POLL_SECS: Final = 0.5
# A drone has started when it has logged its progress, or, if it logs none, runs after so long.
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
    version = str(int(wall_time()))  # as scrapyd-deploy names it

    def start(scrapyd: Scrapyd, until: float) -> tuple[bool, str]:
        before = scrapyd.drones(order.hive)
        missing = [job for job in order.jobs if _is_over(before, job)]
        if not missing:
            return True, f"{', '.join(order.jobs)} ran already"
        scrapyd.deploy(version, egg)
        for job in missing:
            scrapyd.schedule(
                job,
                order.spider,
                version=version,
                arguments=order.arguments,
                settings=order.settings,
            )
        until = min(until, since_boot() + _WATCH_SECS)
        begins = set(missing)
        while True:
            drones = scrapyd.drones(order.hive)
            new = [
                drones[job] for job in missing if job in drones and drones[job] != before.get(job)
            ]
            for drone in new:
                log = scrapyd.log_end(drone)
                if drone.is_over:
                    return log.is_finished, f"{drone.name} ended at once: {log.end or _SILENT}"
                if drone.state == "running" and log.at >= drone.started:
                    begins.discard(drone.name)
            if not begins or since_boot() >= until:
                break
            _sleep(_POLL_SECS)
        begins -= {drone.name for drone in new if drone.state == "running"}
        if begins:
            return False, f"{', '.join(sorted(begins))} waits: {_BUSY}"
        return True, f"{', '.join(missing)} started"

    return _each(machines, start, secs=secs)


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
            _sleep(_POLL_SECS)
            drones = scrapyd.drones(hive)
        # One that had not been started yet has left no trace.
        found = [_told(scrapyd, drones[name]) for name in names if name in drones]
        if not found:
            return True, f"{', '.join(names)} had not been started yet"
        return all(is_saved for _, is_saved, _ in found), "; ".join(text for _, _, text in found)

    return _each(machines, cancel, secs=secs)


def _is_over(drones: Mapping[str, Drone], name: str) -> bool:
    return name not in drones or drones[name].is_over


def _told(scrapyd: Scrapyd, drone: Drone) -> tuple[bool, bool, str]:
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
    """What *task* makes of each machine, as they answer; it is given the time until which it may
    take."""
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


def _sleep(secs: float) -> None:
    threading.Event().wait(secs)
