"""Whole crawls on disks that fail: one fault after the other hits the same job until it ends.

``FaultRig`` runs the crawl as faulty_crawl.py on the simulated web, again and again. Each life ends
by itself or by a fault: the process dies within a call, the power goes, the disk is full or broken
for a while or for good. After each of them the exit code must be a documented one, what the crawl
says must have no traceback, and ``job check`` must find the job sound; at the end every URL must
have been asked for and every document be stored, no host hurried by the server's record, and all
WARC files whole.

What is hit is drawn by lot among the calls and rooms that were hit least, at one of the moments
that earlier lives came to. SQLite writes by itself, past dying_disk.py: a process that dies leaves
its files as they are, limits on the size of files hit them, and for what a power failure leaves of
them see ``_lose_sqlite``.

As a script it goes on for some minutes and prints what was hit, and every failure with its job
kept::

    python tests/rigs/fault_rig.py --minutes 20 --seed 7
"""

from __future__ import annotations

import argparse
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import msgspec
import pytest
import warc_checks
import warm
from crawling import (
    ROOT,
    USER_AGENT,
    crawl_command,
    impolite,
    pages_asked_for,
    unstored_documents,
)
from disk import PowerLoss
from faulty_crawl import Fault, Orders, Told
from simweb_client import whole_log

from webcrawl.crawl.job import state_directory
from webcrawl.errors import FatalError
from webcrawl.hosts.records.database import FILE as SQLITE
from webcrawl.jobs.check.whole import check_job
from webcrawl.simweb import allowed_urls, preset, start_in_process

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = ("kill", "power", "full", "broken", "limit")
MIN_DELAY = 0.15
# Everything is on, and small: files turn over, checkpoints are made and kept all the time.
_SETTINGS = {
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    "POLITENESS_MAX_DELAY": 0.5,
    "CHECKPOINT_INTERVAL_SECS": 0.4,
    "CHECKPOINTS_KEPT": 2,
    "CHECKPOINTS_KEPT_INTERVAL_SECS": 1,
    "STATS_FILE_INTERVAL_SECS": 0.5,
    "INFO_LOG_MAX_FILE_BYTES": 20_000,
    "WARC_MAX_FILE_BYTES": 300_000,
    "SEEN_BUFFER_SIZE": 64,
    "SEEN_CACHE_SIZE": 4,
    "FRONTIER_LEVELS": 4,
}
# Calls that a disk refuses in a row: one, some, and all until the process ends.
_LASTING = (1, 1, 30, 10**9)
# A machine needs some time to come back, in which hosts rest.
_REBOOT_SECS = 0.5
_WAL_HEADER, _WAL_FRAME = 32, 24


class FaultRig:
    """One job in *directory* and its simulated web. A context manager, which ends the latter."""

    def __init__(
        self,
        directory: Path,
        *,
        rng: random.Random,
        hit: Counter[Fault],
        hosts: int,
        max_pages: int,
    ) -> None:
        self._hit = hit
        self.lives = 0
        self._rng = rng
        self._directory = directory
        self._disk = directory / "disk"
        self._disk.mkdir()
        self.job = self._disk / "job"
        self._boot = directory / "boot_id"
        self._boot.write_text("boot-0\n")
        self._known: Path | None = None
        self._log = directory / "access.log"
        self.web = start_in_process(
            preset(
                "clean",
                http_port=0,
                https_port=0,
                seed=rng.randrange(1000),
                hosts=hosts,
                mean_pages=max_pages / 7,
                max_pages=max_pages,
            ),
            log_path=self._log,
        )
        self._seeds = directory / "seeds.txt"
        self._seeds.write_text("\n".join(self.web.world.seeds()) + "\n")
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(state_directory, "_BOOT_ID", self._boot)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()
        self.web.stop()

    # --- lives

    def live(self, fault: Fault) -> tuple[bool, Told]:
        """Run the crawl until *fault* ends it, or it ends; whether it has fetched everything."""
        self.lives += 1
        orders = self._directory / f"life-{self.lives:03d}.json"
        orders.write_bytes(
            msgspec.json.encode(
                Orders(
                    root=self._disk,
                    jobdir=self.job,
                    boot=self._boot,
                    seed=self._rng.randrange(2**32),
                    fault=fault,
                    known=self._known,
                ),
                enc_hook=str,
            )
        )
        command = crawl_command(self.web, self._seeds, self.job, **_SETTINGS)
        command[1:3] = [str(Path(__file__).with_name("faulty_crawl.py")), str(orders)]
        environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
        ended = warm.run(command, env=environment, stderr=subprocess.STDOUT)
        orders.with_suffix(".log").write_text(ended.stdout)
        told = msgspec.json.decode(orders.with_suffix(".told").read_bytes(), type=Told)
        self._known = orders.with_suffix(".known")
        if told.has_failed or (fault.kind == "limit" and ended.returncode):
            self._hit[fault] += 1
        _check_end(fault, ended, told)
        if fault.kind == "power" and told.has_failed:
            self._lose_power()
        self.check()
        return "finished: nothing is left to fetch" in ended.stdout, told

    def check(self) -> None:
        """``job check`` finds nothing, but for a job that was never begun."""
        if (self.job / "CURRENT").exists():
            damage = check_job(self.job, warc=True).damage
            assert damage == [], damage
        else:
            with pytest.raises(FatalError, match="There is no crawl in JOBDIR"):
                check_job(self.job, warc=True)

    def _lose_power(self) -> None:
        """The machine goes down and comes back with what its disk has."""
        after = self._directory / "after"
        with pytest.MonkeyPatch.context() as patch:
            power = PowerLoss(self._disk, patch)
            assert self._known is not None
            power.go_on(pickle.loads(self._known.read_bytes()))
            power.lose(after, self._rng)
            _lose_sqlite(self._disk, after, power, self._rng)
            power.close()
        shutil.rmtree(self._disk)
        after.rename(self._disk)
        self._known = None
        self._boot.write_text(f"boot-{self.lives}\n")
        time.sleep(_REBOOT_SECS)

    # --- the end

    def judge(self) -> None:
        """The crawl has fetched everything."""
        world = self.web.world
        allowed = allowed_urls(world, USER_AGENT)
        hits = [hit for hit in whole_log(self.web) if "webcrawl" in hit.agent]
        assert set(pages_asked_for(hits)) == allowed
        assert impolite(hits, min_delay=MIN_DELAY) == []
        files = sorted((self.job / "warc").glob("*.warc*"))
        assert [path.name for path in files if not path.name.endswith(".warc.gz")] == []
        assert unstored_documents(world, files) == []
        assert warc_checks.complaints(files[-1]) == {}
        done = warm.scrapy("job", "check", "--warc", self.job)
        assert done.returncode == 0, done.stdout


def _check_end(fault: Fault, ended: subprocess.CompletedProcess[str], told: Told) -> None:
    """The process has ended as it should after *fault*."""
    said = ended.stdout
    if fault.kind in ("kill", "power") and told.has_failed:
        assert ended.returncode == -signal.SIGKILL, said
        return
    assert ended.returncode in (0, 3), (ended.returncode, said)
    assert "Traceback" not in said, said
    if ended.returncode == 3:
        assert "run the same command again" in said.splitlines()[-1], said
    else:
        assert "finished: nothing is left to fetch" in said, said


def _lose_sqlite(disk: Path, after: Path, power: PowerLoss, rng: random.Random) -> None:
    """What a power failure leaves of SQLite's files in *disk*, whose calls nobody has seen, is put
    into *after*.

    The file itself is there with all that was moved into it: SQLite syncs the log before it moves
    anything, and the file before it begins the log anew. So the log is whole up to what may have
    been moved, and up to where it was synced by us (Database.written), unless it was begun anew
    since; behind that it may end anywhere, or in zeros. What is in shared memory is in nobody's
    way.
    """
    for file in disk.rglob(SQLITE):
        found = after / file.relative_to(disk)
        wal, shm = (file.with_name(file.name + end) for end in ("-wal", "-shm"))
        if not found.parent.is_dir():
            continue
        for path in found.parent.glob(f"{SQLITE}*"):
            path.unlink()
        shutil.copyfile(file, found)
        if wal.exists():
            data = wal.read_bytes()
            least = max(_moved(data, shm), _synced(data, wal, power))
            end = rng.randrange(least, len(data) + 1)
            zeros = bytes(rng.choice((0, len(data) - end)))
            (found.parent / wal.name).write_bytes(data[:end] + zeros)
        if shm.exists() and rng.random() < 0.5:
            shutil.copyfile(shm, found.parent / shm.name)


def _moved(wal: bytes, shm: Path) -> int:
    """Bytes of the log that may have been moved, by nBackfillAttempted of the index."""
    if len(wal) < _WAL_HEADER or not shm.exists():
        return 0
    frames = int.from_bytes(shm.read_bytes()[128:132], "little")
    page = int.from_bytes(wal[8:12], "big")
    return min(len(wal), _WAL_HEADER + frames * (_WAL_FRAME + page)) if frames else 0


def _synced(wal: bytes, path: Path, power: PowerLoss) -> int:
    """Bytes of the log that were synced by us since it was begun."""
    before = power.known[0].get(path.stat().st_ino, b"")
    return len(before) if before and wal.startswith(before) else 0


class Lot:
    """Draws the next fault: of what was hit least, at a moment that some life came to. New jobs and
    those that are resumed do not make the same calls."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._most: dict[bool, Counter[tuple[str, str]]] = {True: Counter(), False: Counter()}
        self._drawn: Counter[str | tuple[str, str]] = Counter()

    def see(self, told: Told, *, is_new: bool) -> None:
        most = self._most[is_new]
        for call, room, count in told.calls:
            most[call, room] = max(most[call, room], count)

    def draw(self, *, is_new: bool) -> Fault:
        rng, most = self._rng, self._most[is_new] or self._most[True]
        if not most:
            return Fault("kill", "write", "done", after=40)
        kind = self._least(KINDS)
        if kind == "limit":
            return Fault(kind, after=rng.choice((100, 3000, 20_000, 60_000, 200_000)))
        call, room = self._least([one for one in most if self._matters(kind, one[0])])
        # Early moments more often: the job shall live through many of these.
        after = 1 + int(rng.random() ** 3 * most[call, room] / 2)
        return Fault(kind, call, room, after, rng.choice(_LASTING))

    def _least(self, among: Any) -> Any:
        one = min(among, key=lambda one: (self._drawn[one], self._rng.random()))
        self._drawn[one] += 1
        return one

    @staticmethod
    def _matters(kind: str, call: str) -> bool:
        """Whether *kind* hits *call* at all."""
        return kind != "full" or call not in {"open", "truncate", "unlink", "rmdir"}


class Given:
    """*faults*, one after the other."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = iter(faults)

    def see(self, told: Told, *, is_new: bool) -> None:
        """It does not matter."""

    def draw(self, *, is_new: bool) -> Fault:
        return next(self._faults)


def go_through(
    directory: Path,
    lot: Lot | Given,
    *,
    rng: random.Random,
    most: int,
    hit: Counter[Fault],
    max_pages: int,
    hosts: int = 30,
) -> None:
    """One job through at most *most* faults, and to its end; those that happened are put into
    *hit*. *max_pages* is how many pages the largest host has, and each takes MIN_DELAY."""
    with FaultRig(directory, rng=rng, hit=hit, hosts=hosts, max_pages=max_pages) as rig:
        is_finished = False
        while not is_finished and rig.lives < most:
            is_new = not rig.lives
            is_finished, told = rig.live(lot.draw(is_new=is_new))
            lot.see(told, is_new=is_new)
        if not is_finished:
            is_finished, _ = rig.live(Fault())
        assert is_finished
        rig.judge()


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    lot, hit = Lot(rng), Counter[Fault]()
    ends = time.monotonic() + 60 * given.minutes
    jobs = failures = 0
    while time.monotonic() < ends:
        jobs += 1
        directory = Path(tempfile.mkdtemp(prefix="faults-"))
        try:
            go_through(directory, lot, rng=rng, most=12, hit=hit, max_pages=80)
        except Exception:  # noqa: BLE001  # whatever it is, it is what this looks for
            failures += 1
            print(f"--- {directory}\n{traceback.format_exc()[-8000:]}", flush=True)
        else:
            shutil.rmtree(directory)
        print(f"{jobs} jobs, {hit.total()} faults, {failures} failures", flush=True)
    for title in ("kind", "call", "room"):
        counts = Counter[str]()
        for fault, count in hit.items():
            counts[getattr(fault, title)] += count
        print(title, dict(counts.most_common()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(_main())
