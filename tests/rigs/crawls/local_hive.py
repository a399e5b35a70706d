"""``scrapy hive`` on a simulated web, as a user runs it."""

import json
import subprocess
import time
from contextlib import suppress

import psutil
import redis
import warm
from crawling import ROOT
from patience import LIMIT_SECS, slowness_now

from webcrawl.hive.membership.asking import HERE


class Hive:
    """The command, running, and what it has said."""

    def __init__(self, web, said, *, drones=2, **settings):
        given = {
            "HIVE_SHARDS": 8,
            "HIVE_LEASE_SECS": 3 * slowness_now(),
            "CHECKPOINT_INTERVAL_SECS": 2,
            # What was cut off by kill -9 is waited for.
            "POLITENESS_MIN_DELAY": 0.3,
            "POLITENESS_DELAY_FACTOR": 1,
            "POLITENESS_MAX_DELAY": 0.5,
            "URL_TRACE": "links.trace",
            **settings,
        }
        command = web.command(**given)
        at = command.index("crawl")
        command[at : at + 1] = ["hive", "--drones", str(drones)]
        self._job = web.job
        self._said = said
        with said.open("wb") as stream:
            self._process = warm.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self._process.poll() is None:  # a test has failed
            self._process.terminate()
            time.sleep(0.3)

    def ends(self, signal=None, *, code=0):
        """All that it has said when it has ended with *code*."""
        if signal is not None:
            self._process.send_signal(signal)
        assert self._process.wait(LIMIT_SECS) == code, self._said.read_text()
        return self._said.read_text()

    def drones(self):
        return self._children("scrapy")

    def _children(self, name):
        found = []
        for child in psutil.Process(self._process.pid).children():
            with suppress(psutil.NoSuchProcess):  # it has just died
                found += [child] * (name in child.name())
        return found

    def redis(self):
        return self._children("-server")

    def client(self):
        return redis.Redis(unix_socket_path=str(self._job / "redis/redis.sock"))

    def stop(self):
        """By ``scrapy hive stop``, which says one line."""
        done = warm.scrapy("hive", "stop", "-s", f"JOBDIR={self._job}")
        sentence = f"hive {HERE}: all drones have stopped, with checkpoints\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, sentence, "")

    def status(self):
        done = warm.scrapy("hive", "status", "--json", "-s", f"JOBDIR={self._job}")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def figures(self):
        found = self.status()
        return [one["figures"] for one in found["drones"] if one["figures"]] if found else []

    def has_pages(self, number):
        return sum(one["pages"] for one in self.figures()) >= number

    def metrics(self):
        return {one["metrics"] for one in self.figures() if one["metrics"]}
