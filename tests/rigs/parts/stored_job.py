"""A job whose frontier, eliminator and log are made by hand, for who looks at jobs."""

from contextlib import contextmanager

import msgspec
from frontier_rig import Rig
from seen_rig import disk_eliminator

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.lease.outcome_log import INFO_LOG, OutcomeLine
from webcrawl.frontier import encode
from webcrawl.seen.fingerprint import fingerprint, hexadecimal
from webcrawl.storage.line_log import LineLog


@contextmanager
def in_use(path):
    """Hold the job in *path* open, as a running crawl does."""
    job = Job(path=path)
    job.open(spider="web")
    try:
        yield
    finally:
        job.close()


_OF_SHARD = {"politeness_key", "clock_offset", "knows_domains"}


class Stored:
    """*rig* is its frontier. After ``publish`` the job is as a crawl that was killed leaves it."""

    def __init__(self, path, clock, *, shard="00", unlogged_until=0.0):
        """*unlogged_until*: see ``Frontier.open``."""
        self.path = path
        self._name = shard
        directory = path / "shards" / shard
        self.rig = Rig(directory / "frontier", clock, opened=False)
        self.rig.frontier.open(None, unlogged_until=unlogged_until)
        self.seen = disk_eliminator(directory / "seen", buffer_size=1000)
        self.seen.open(None)
        self.log = LineLog(path=path / INFO_LOG, max_bytes=1 << 20)
        self.log.open()
        self._job = Job(path=path)
        self._job.open(spider="web")

    def submit(self, *entries):
        """As links of a page; nothing takes them out of the eliminator."""
        fps = [fingerprint(entry.url) for entry in entries]
        self.seen.submit(fps, lambda i: encode(entries[i]))

    def end(self, entry, outcome, **facts):
        """A line of the log."""
        form = hexadecimal(fingerprint(entry.url))
        line = OutcomeLine(1.0, entry.url, entry.host, outcome, form, **facts)
        self.log.append(msgspec.json.encode(line))

    def publish(self, before_the_end=lambda: None, **facts):
        """Make a checkpoint with *facts*, do what is *before_the_end* and die."""
        shard = self._job.shard(self._name)
        shard.facts = {name: facts.pop(name) for name in _OF_SHARD & set(facts)}
        shard.facts["seed"] = self._job.seed
        shard.attach("frontier", self.rig.frontier.parts)
        shard.attach("seen", self.seen)
        self._job.publish(self._job.prepare({"spider": "web", **facts}))
        before_the_end()
        self.seen.close()
        self.rig.close()
        self.log.close()
        self._job.close()
