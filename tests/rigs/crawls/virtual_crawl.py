"""Crawls of a simulated web in virtual time, for weeks of it in seconds."""

import subprocess
import sys
from pathlib import Path

import msgspec
import warm
from crawling import RIGS, ROOT, access_log, stats_of
from faulty_crawl import Fault, Orders, Told
from patience import SLOWNESS

from webcrawl.sim.process import SETTINGS
from webcrawl.simweb import preset

_FAULTY_CRAWL = Path(__file__).with_name("faulty_crawl.py")
_DAY = 86_400.0
_SETTINGS = SETTINGS | {
    "CHECKPOINT_INTERVAL_SECS": _DAY,
    "STATISTICS_INTERVAL_SECS": 0,
    "STATS_FILE_INTERVAL_SECS": 0,
    "POLITENESS_MIN_DELAY": 0.5,
    "POLITENESS_MAX_DELAY": 2,
    "POLITENESS_JITTER": 0,
    "CRAWLER_CONTACT": "https://example.org/crawler",
    "OUTAGE_HOSTS": 0,
    "CHECKPOINTS_KEPT": 0,
    "MEMUSAGE_ENABLED": 0,
    # It would look at the disk every two seconds.
    "EXTENSIONS": '{"webcrawl.extensions.disk_guard.DiskGuard": null}',
}


class VirtualCrawl:
    """One job in *directory*, and its simulated web, a preset ``clean`` with *world*.
    *lies* as in ``FaultyWeb``."""

    def __init__(self, directory, *, lies="", **world):
        self._directory = directory
        self._lies = lies
        self._world = {"name": "clean", "network": 44, "seed": 1, **world}
        self.world = preset(**self._world)
        self._disk = directory / "disk"
        self._disk.mkdir()
        self.job = self._disk / "job"
        self._log = directory / "access.log"
        self._log.touch()
        self._boot = directory / "boot_id"
        self._boot.write_text("boot\n")
        self.seeds = directory / "seeds.txt"
        self.seeds.write_text("\n".join(self.world.seeds()) + "\n")
        self._began = 0.0
        self._lives = 0

    def run(self, days, *, fault=None, script=(), **settings):
        """Go on for *days*, or until the crawl ends. Servers fail by *script*, ``Episode`` each."""
        given = _SETTINGS | {"CLOSESPIDER_TIMEOUT": days * _DAY} | settings
        options = [word for name, value in given.items() for word in ("-s", f"{name}={value}")]
        command = ["crawl", "web", "-a", f"seeds={self.seeds}", "-s", f"JOBDIR={self.job}"]
        orders = Orders(
            root=self._disk,
            jobdir=self.job,
            boot=self._boot,
            access_log=self._log,
            world=self._world,
            fault=fault or Fault(),
            script=script,
            longest=(days + 1) * _DAY,
            began=self._began,
            idle=1800.0,
            lies=self._lies,
        )
        self._lives += 1
        path = self._directory / f"life-{self._lives}.json"
        path.write_bytes(msgspec.json.encode(orders, enc_hook=str))
        program = [sys.executable, str(_FAULTY_CRAWL), str(path), *command, *options]
        environment = {"PYTHONPATH": f"{ROOT}:{RIGS}", "PATH": ""}
        # Of weeks a busy machine makes minutes.
        timeout = (120 + 30 * days) * SLOWNESS
        done = warm.run(program, timeout=timeout, env=environment, stderr=subprocess.STDOUT)
        self.said = done.stdout
        told = msgspec.json.decode(path.with_suffix(".told").read_bytes(), type=Told)
        assert done.returncode in (0, -9), self.said
        self._began = told.ended
        return told

    def hits(self):
        """The servers' record."""
        return access_log(self._log)

    def stats(self):
        """Of the last run."""
        return stats_of(self.job)
