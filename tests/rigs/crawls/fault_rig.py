"""One job that goes through many faults, in virtual time: of its disk, its servers and its process.

Each life of the job is a process of its own (faulty_crawl.py) that ends where the fault says, or by
itself; the next one goes on with its directory and its time, or now and then with a copy of an
older checkpoint that was kept. All is drawn from one seed. After each
life the exit code has to be a documented one, what the crawl says must have no traceback, ``job
check`` must find the job sound, and by the servers' record no host was hurried, nothing fetched
twice but for a death, and nothing fetched that robots.txt denied. Then the faults end: what was
given up is put back in line, every URL must have been asked for, every document be stored, and all
WARC files be whole.

SQLite writes by itself, past dying_disk.py: a process that dies leaves
its files as they are, limits on the size of files hit them, and for what a power failure leaves of
them see ``_lose_sqlite``.

As a script it goes through seeds and prints what was hit, and every failure with its job kept::

    python tests/rigs/crawls/fault_rig.py --seeds 1000 --first 7
"""

import argparse
import contextlib
import dataclasses
import json
import math
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

sys.path.extend(map(str, [Path(__file__).parents[3], *Path(__file__).parents[1].glob("*/")]))

import msgspec
import pytest
import warc_checks
import warm
from crawling import (
    RIGS,
    ROOT,
    USER_AGENT,
    access_log,
    is_robots,
    pages_asked_for,
    printed,
    stats_of,
    unstored_documents,
    url_of_hit,
)
from disk import PowerLoss
from faults import ProcessFaults
from faulty_crawl import ROOMS, Fault, Orders, Told, faults_of, share_text
from web_truth import allowed_urls, fetchable_urls, has_links

from webcrawl.crawl.job import state_directory
from webcrawl.crawl.job.kept_checkpoints import find_kept
from webcrawl.errors import FatalError
from webcrawl.hosts.records.database import FILE as SQLITE
from webcrawl.jobs.audit.access_logs import audit_logs
from webcrawl.jobs.audit.auditor import Agreement, RequiredDelays
from webcrawl.jobs.audit.log_line import MICRO
from webcrawl.jobs.check.whole import check_job
from webcrawl.sim.loop import BEGAN
from webcrawl.sim.process import SETTINGS
from webcrawl.simweb import preset
from webcrawl.simweb.host_spec import Behaviour, RobotsKind
from webcrawl.simweb.leaves import PageKind
from webcrawl.simweb.pages import find_page, links_of, redirect_target, url_of
from webcrawl.simweb.robots import robots_of

KINDS = ("kill", "power", "full", "broken", "limit", "step")
MIN_DELAY, MAX_DELAY = 0.15, 0.5
WORKERS = 20
# Everything is on, and small: files turn over, checkpoints are made and kept all the time.
_SETTINGS = {
    **SETTINGS,
    "CONCURRENT_REQUESTS": WORKERS,
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    "POLITENESS_MAX_DELAY": MAX_DELAY,
    "POLITENESS_BACKOFF_SECS": 1,
    "REDIRECT_MAX_TIMES": 100,
    "DOWNLOAD_TIMEOUT": 20,
    "CHECKPOINT_INTERVAL_SECS": 1.5,
    "CHECKPOINTS_KEPT": 2,
    "CHECKPOINTS_KEPT_INTERVAL_SECS": 4,
    "STATS_FILE_INTERVAL_SECS": 0.5,
    "INFO_LOG_MAX_FILE_BYTES": 20_000,
    "WARC_MAX_FILE_BYTES": 300_000,
}
# What may be another value in each life, and its values.
_CHANGING = {
    "SEEN_BUFFER_SIZE": (4, 64),
    "SEEN_CACHE_SIZE": (1, 4),
    "FRONTIER_LEVELS": (1, 4),
    "FRONTIER_BACK_QUEUES": (1, 12),
}
# Scrapy's own words.
_HAS_FINISHED = "Spider closed (finished)"
# Statuses that a fault puts in place of a page's own, such as a redirect.
_OF_FAULTS = (429, 500, 502, 503)
# Those that say something of a document.
_SOUND = (200, 301, 302, 303, 307, 308, 404, 410)
# Kinds of robots.txt that a fault puts in place of another, by which all is denied.
_DENYING = (RobotsKind.UNAVAILABLE, RobotsKind.DENY_ALL)
_ENVIRONMENT = {"PYTHONPATH": f"{ROOT}:{RIGS}", "PATH": ""}
# For so long a robots.txt holds: a day later, what a fault has put in its place is forgotten.
_ROBOTS_SECS = 86_400.0
# By so much a fault sets the machine's clock.
_SET_SECS = 100_000.0
# Calls that a disk refuses in a row: one, some, and all until the process ends.
_LASTING = (1, 1, 30, 10**9)
# The time in which a machine comes back: shorter than any rest, and longer than some.
_REBOOT_SECS = 0.05, 0.5
# When the faults of servers and networks end, at the latest, in seconds of the simulation.
_FAULTS_SECS = 60.0
# URLs that one power failure repeats at most, where checkpoints are made often, and how many
# another death for each worker: docs/howto/run-it-for-weeks.md.
_REPEATED, _REPEATED_PER_WORKER = 60, 3
# How often a copy of a kept checkpoint is gone on with.
_GOING_BACK = 0.15
# Seconds for which a URL waits at most that is known, of a host that nothing fails of.
_LATE_SECS = 200.0
# Seeds with a ban and some others have long waits, in which less is done: Retry-After in seconds,
# and ports of one host, in the seeds, on which nothing listens.
_LONG = 0.15
_RETRY_AFTER = 3.0, 400.0
_CLOSED_PORTS = 40
LONG_SETTINGS = {
    "CHECKPOINT_INTERVAL_SECS": 20,
    "CHECKPOINTS_KEPT_INTERVAL_SECS": 60,
    "STATS_FILE_INTERVAL_SECS": 30,
    "OUTAGE_HOSTS": 3,
}
# How often hosts are in parts, if they are keys of their own, and in how many.
_PARTED = 0.3
_PARTS = (2, 4, 8)
# Seconds after the end of an answer in which the crawl has not read it yet.
_UNREAD_SECS = 0.5
# Bounds of a life: seconds of the simulation, and more for each closed port, as a robots.txt that
# cannot be had is asked for at most a minute apart; bytes of memory, files of the job.
_LIFE_SECS, _PORT_SECS = 1000.0, 60.0
_MEMORY_BYTES = 400_000_000
_FILES = 600
# Files of a shard at the end, when all queues are empty.
_FILES_LEFT = 20
_WAL_HEADER, _WAL_FRAME = 32, 24
# Seeds from here on visit what they have finished, by hours of so many seconds.
REVISITING = 20_000
_HOURS = (20.0, 20.0, 20.0, 60.0)
_POLICIES = ("Uniform", "Uniform", "Adaptive", "Greedy")


@dataclasses.dataclass(frozen=True)
class Visits:
    """URLs are visited again after *interval* seconds, as *policy* says, by hours of *hour*."""

    hour: float
    interval: float
    policy: str

    @property
    def settings(self):
        """Of the crawl; a life lasts for some intervals."""
        return {
            "REVISIT": 1,
            "REVISIT_POLICY": f"webcrawl.revisit.policies.{self.policy}",
            "REVISIT_FIRST_SECS": self.interval,
            "REVISIT_MIN_SECS": self.interval / 4,
            "REVISIT_MAX_SECS": self.interval * 2,
            "CLOSESPIDER_TIMEOUT": self.interval * 2.5,
            "CHECKPOINT_INTERVAL_SECS": self.hour,
            "CHECKPOINTS_KEPT_INTERVAL_SECS": 2 * self.hour,
            "STATS_FILE_INTERVAL_SECS": self.hour,
            "INFO_LOG_MAX_FILE_BYTES": 1_000_000,
            "WARC_MAX_FILE_BYTES": 10_000_000,
        }

    def bounds(self, status):
        """The least and the most seconds between two answers with *status* of a sound server."""
        least, most = self.interval / 4, self.interval * 2
        if status not in (200, 304):
            least = most  # it has moved, or is gone: after twice the interval
        elif self.policy == "Uniform":
            least = most = self.interval
        return least, max(most * 7 / 6, most + self.hour)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What *seed* draws besides the faults: parameters of the *world*, *settings* of the crawl.

    Each host is in so many *parts*. Servers and networks fail unless not *has_faults*, or as the
    *script* says.
    """

    seed: int
    world: dict
    settings: dict = dataclasses.field(default_factory=dict)
    has_faults: bool = True
    is_long: bool = False
    script: tuple = ()
    parts: int = 1
    visits: object = None

    @property
    def key(self):
        """What is not to be contacted twice at once."""
        return self.settings.get("POLITENESS_KEY", "host")


def scenario_of(seed):
    """The scenario of *seed*."""
    rng = random.Random(f"scenario {seed}")
    is_long = bool(ProcessFaults(seed, end=_FAULTS_SECS).bans) or rng.random() < _LONG
    hosts, pages = rng.choice((3, 6, 12)), rng.choice((4, 8, 20))
    key = rng.choice(("host", "host", "address", "domain"))
    settings = {"POLITENESS_KEY": key}
    if is_long:
        settings |= LONG_SETTINGS
    # As in a hive, whose drones share no address, and in which nothing is put back in line.
    has_shards = rng.random() < 0.2 and key != "address"
    zone = "h{}.example.co.uk" if key == "domain" else "example{}.org"
    if has_shards:
        settings["SCHEDULER"] = "four_shards.FourShardScheduler"
    if rng.random() < 0.2:
        settings |= {"SEEN_ELIMINATOR": "webcrawl.seen.bloom.BloomEliminator"}
        settings |= {"SEEN_BLOOM_CAPACITY": 100_000}
    if is_long or rng.random() < 0.2:  # nearly all has to wait for what is known of its domain
        settings["REPUTATION_BASE_PAGES"] = 1
    protocols = rng.choice((0.0, 0.0, 0.2))
    world = {
        "ftp": protocols,
        "gopher": protocols,
        "hosts": hosts,
        "mean_pages": max(1, pages / (2 if is_long else 7)),
        "max_pages": pages,
        "pages_per_connection": int(is_long),
        "throttle_secs": _RETRY_AFTER[is_long],
        "redirects": rng.choice((0.03, 0.3)),
        "crawl_delays": rng.choice((0.0, 0.5)),
        "restricting": rng.choice((0.1, 0.7)),
        "max_crawl_delay": 1.0,
        "addresses": rng.choice((0, 1)),
        "names": tuple(map(zone.format, range(0 if protocols else hosts))),
    }
    settings["CONCURRENT_REQUESTS"] = rng.choice((4, WORKERS))
    rng = random.Random(f"parts {seed}")  # so that the other seeds are as before
    parts = rng.choice(_PARTS) if key == "host" and rng.random() < _PARTED else 1
    if parts > 1:
        world["mean_pages"] = min(pages, 8)  # so that most parts have some
    visits = None
    if seed >= REVISITING:
        hour = rng.choice(_HOURS)
        visits = Visits(hour, hour * rng.choice((4, 6)), rng.choice(_POLICIES))
        settings |= visits.settings
        world["changes_per_day"] = rng.choice((0, 1000))
    return Scenario(seed, world, settings, not has_shards, is_long, parts=parts, visits=visits)


class FaultRig:
    """One job of a *scenario* in *directory*, and its simulated web."""

    def __init__(self, directory, scenario, *, hit=None):
        seed = scenario.seed
        self._scenario = scenario
        self._visits = scenario.visits
        self._hit = Counter() if hit is None else hit
        self.rng = random.Random(seed)
        self.lives = []
        self._directory = directory
        self._disk = directory / "disk"
        self._disk.mkdir()
        self.job = self._disk / "job"
        self._boot = directory / "boot_id"
        self._boot.write_text("boot-0\n")
        self._known = None
        self._log = directory / "access.log"
        self._log.touch()
        self._seed = seed
        end = _FAULTS_SECS if scenario.has_faults else 0.0
        if scenario.visits and end:
            end = 4 * scenario.visits.interval
        self._faults = faults_of(seed, end, scenario.script)
        rng = random.Random(f"long {seed}")
        self._world = {
            "name": "clean",
            "network": 44,
            "seed": seed,
            **scenario.world,
        }
        self.world = preset(**self._world)
        self._began = self._booted = self._sound_since = 0.0
        self._boots = []  # since when contacts before are not known
        self._gone_back = -1.0
        self._killed = []
        self._repeats = []
        hosts_now = map(self.world.host, range(self.world.hosts))
        self._ways = {host.address: self._faults.of(host) for host in hosts_now}
        self._seeds = directory / "seeds.txt"
        self._seeds.write_text("\n".join([*self.world.seeds(), *self._closed_ports(rng)]) + "\n")
        self._policies = directory / "hosts.toml"
        terms = f'["*"]\nowner_allows = true\nparallel = {scenario.parts}\n'
        self._policies.write_text(terms if scenario.parts > 1 else "")
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(state_directory, "_BOOT_ID", self._boot)
        share_text(self._patch)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._patch.undo()

    def _closed_ports(self, rng):
        """URLs of a host that is there, on ports where nothing listens."""
        host = self.world.host(self.world.index_of(rng.randrange(self.world.seed_hosts)))
        # Of a host that has never answered they would be tried before the others, an hour apart.
        most = 0 if self._visits else _CLOSED_PORTS * self._scenario.is_long
        for number in range(most):
            yield f"{host.scheme}://{host.name}:{20_000 + number}/"

    # --- lives

    def live(self, fault, *, has_faults=True):
        """Run the crawl until *fault* ends it, or it ends; whether it has fetched everything."""
        command = ["crawl", "web", "-a", f"seeds={self._seeds}", "-s", f"JOBDIR={self.job}"]
        ended, told = self._run([*command, *self._options()], fault, has_faults=has_faults)
        if told.has_failed:
            self._hit[fault] += 1
        _check_end(fault, ended, told, goes_on=self._visits is not None)
        has_lost_power = fault.kind == "power" and told.has_failed
        if has_lost_power:
            self._lose_power()
        elif ended.returncode < 0:
            self._killed.append(told.ended)
        self.check()
        return _HAS_FINISHED in ended.stdout, told

    def go_back(self):
        """The job goes back to the oldest of its checkpoints, if any was kept."""
        kept = find_kept(self.job)
        if not kept:
            return
        printed("job", "restore", "--checkpoint", int(kept[0].name), self.job)
        shutil.rmtree(self.job / "damaged")
        self._known = None
        self._gone_back = self._began
        self._boots.append(self._began)
        self.check()

    def _run(self, command, fault, *, has_faults):
        """A life: *command* of Scrapy in a process whose time goes on with that of the last one."""
        orders = Orders(
            root=self._disk,
            jobdir=self.job,
            boot=self._boot,
            access_log=self._log,
            world=self._world,
            seed=self.rng.randrange(2**32),
            fault=fault,
            known=self._known,
            longest=_LIFE_SECS
            + _PORT_SECS * _CLOSED_PORTS * self._scenario.is_long
            + self._scenario.settings.get("CLOSESPIDER_TIMEOUT", 0),
            faults_seed=self._seed,
            faults_end=self._faults.end if has_faults else 0.0,
            script=self._scenario.script if has_faults else (),
            began=self._began,
            booted=self._booted,
            hour=self._visits.hour if self._visits else 3600.0,
        )
        path = self._directory / f"life-{len(self.lives) + 1:03d}.json"
        path.write_bytes(msgspec.json.encode(orders, enc_hook=str))
        program = [sys.executable, str(Path(__file__).with_name("faulty_crawl.py")), str(path)]
        ended = warm.run([*program, *command], env=_ENVIRONMENT, stderr=subprocess.STDOUT)
        path.with_suffix(".log").write_text(ended.stdout)
        told = msgspec.json.decode(path.with_suffix(".told").read_bytes(), type=Told)
        if ended.returncode:
            told = msgspec.structs.replace(told, has_failed=True)
        self.lives.append(told)
        workers = self._scenario.settings.get("CONCURRENT_REQUESTS", WORKERS)
        self._repeats.append(_REPEATED_PER_WORKER * workers)
        if fault.kind == "power":  # also what a life before has not synced
            makes_few = self._visits or self._scenario.is_long
            repeated = 1000 if makes_few else _REPEATED  # all since the last checkpoint
            self._repeats = [max(most, repeated) for most in self._repeats]
        self._began = told.ended
        self._known = path.with_suffix(".known")
        return ended, told

    def _options(self):
        drawn = {name: self.rng.choice(values) for name, values in _CHANGING.items()}
        if "SEEN_ELIMINATOR" in self._scenario.settings:  # which has neither
            del drawn["SEEN_BUFFER_SIZE"], drawn["SEEN_CACHE_SIZE"]
        settings = _SETTINGS | drawn | self._scenario.settings
        if self._scenario.parts > 1:
            settings["HOSTS_POLICY_FILE"] = self._policies
        return [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]

    def check(self):
        """``job check`` finds nothing, but for a job that was never begun; the servers' record and
        the job's own log say nothing bad."""
        if (self.job / "CURRENT").exists():
            damage = check_job(self.job, warc=True, kept=True).damage
            assert damage == [], damage
        else:
            with pytest.raises(FatalError, match="There is no crawl in JOBDIR"):
                check_job(self.job, warc=True)
        hits = access_log(self._log)
        complaints = [
            *(self._too_near() if hits else ()),
            *self._hurried(hits),
            *self._cut_off(hits),
            *self._twice(hits),
            *self._denied(hits),
            *self._untrue_outcomes(),
        ]
        assert not complaints, "\n".join(complaints)
        assert self.lives[-1].memory_bytes < _MEMORY_BYTES
        logs = 0 if self._visits is None else sum(1 for _ in self.job.glob("[lw]*/*"))
        assert sum(1 for _ in self.job.rglob("*")) - logs < _FILES

    def _too_near(self):
        """Pairs of contacts of one host's part, or of one key, that overlap or are too near."""
        agreed = Agreement(parts=self._scenario.parts)
        for key in {"host", self._scenario.key}:
            auditor, tally = audit_logs(
                [str(self._log)],
                key=key,
                delays=RequiredDelays(MIN_DELAY, lambda _: agreed),
                keep=1000,
            )
            assert (tally.unreadable, auditor.unjudged) == (0, 0)
            for one in auditor.worst_violations():
                is_slow = self._is_slow(one.before)
                gap = one.gap / MICRO + (is_slow and one.before.end > one.before.start)
                if gap >= MIN_DELAY:  # it was told a second later that we hung up
                    continue
                yield f"{key} {one.key}: {one.gap / MICRO} s, {one.before} {one.after}"

    def _twice(self, hits):
        """URLs that were answered with 200 twice, or too early if they are visited, but for what
        deaths repeat, and answers that may have come too late."""
        found = defaultdict(list)
        for hit in hits:
            is_slow = self._is_slow(hit)
            at = hit.start - BEGAN
            statuses = (200,) if self._visits is None else _SOUND
            status = 200 if hit.status == 304 else hit.status
            if status not in statuses or hit.outcome != "ok" or is_robots(hit) or is_slow:
                continue
            if at > self._gone_back:
                found[url_of_hit(hit), status].append(at)
        repeats = Counter[int]()
        for (url, status), answered in found.items():
            for time_, after in pairwise(answered):
                times = answered
                if self._visits is not None:
                    is_due = after - time_ > self._visits.bounds(status)[0] - 1
                    if is_due or any(time_ < at <= after for at in self._boots):
                        continue
                    times = [time_, after]
                life = next(n for n, told in enumerate(self.lives) if time_ <= told.ended + 1e-6)
                repeats[life] += 1
                if not self.lives[life].has_failed or times[-1] <= self.lives[life].ended:
                    yield f"{url} at {times}"
        for life, count in repeats.items():
            if count > self._repeats[life]:
                yield f"{count} URLs of life {life + 1} again"

    def _denied(self, hits):
        """URLs that were asked for after their host's robots.txt had denied all."""
        denied = set()
        for hit in sorted(hits, key=lambda hit: hit.start):
            host = self._host_of(hit.origin)
            robots = self._faults.host(host, hit.start - BEGAN).robots
            if not is_robots(hit):
                if hit.origin in denied:
                    yield f"{hit.url} at {hit.start - BEGAN}"
            elif hit.status not in (0, 404) and robots in _DENYING:  # else another file's redirect
                denied.add(hit.origin)
            else:
                denied.discard(hit.origin)

    def _hurried(self, hits):
        """Pages that were asked for before their host's Crawl-delay, which was known, was over, or
        in less than the shortest Retry-After, which only a power failure takes."""
        known = {}
        last = defaultdict(list)
        parts = self._scenario.parts
        for hit in sorted(hits, key=lambda hit: hit.start):
            host = self._host_of(hit.origin)
            others = last[host.name]
            if is_robots(hit) and hit.status == 200 and hit.outcome == "ok":
                file = robots_of(self.world, host, hit.target).body
                known[host.name] = host.crawl_delay if b"Crawl-delay" in file else 0.0
            for before in () if is_robots(hit) else others:
                least = known.get(host.name, 0.0) if parts == 1 else 0.0
                was_down = any(before.start < BEGAN + at <= hit.start for at in self._boots)
                # Or it died before it had read the answer.
                was_down |= any(0 <= BEGAN + at - before.end < _UNREAD_SECS for at in self._killed)
                if self._has_throttled(before, host) and not was_down:
                    least = max(least, 1.0)
                is_slow = self._is_slow(before)
                gap = hit.start - before.end + (is_slow and before.end > before.start)
                # Another part's contact may have begun, with a connection, before it was read.
                if gap < least and (parts == 1 or gap > 1.5 * _UNREAD_SECS + 2 * is_slow):
                    yield f"{hit.url} {gap} s after a contact, not {least}"
            last[host.name] = [*others[1 - 2 * parts :], hit] if parts > 1 else [hit]

    def _cut_off(self, hits):
        """Contacts of hosts whose server may still have been at one that a death had cut off."""
        parts, secs = self._scenario.parts, MIN_DELAY + MAX_DELAY
        most = math.ceil(secs / (parts * MIN_DELAY))  # contacts of each part that was not cut off
        for at in self._killed:
            cut = Counter(hit.host for hit in hits if hit.start < BEGAN + at <= hit.end + 1e-3)
            later = defaultdict(list)
            for hit in hits:
                if hit.host in cut and 0 < hit.start - BEGAN - at < secs:
                    later[hit.host].append(hit)
            for host, found in later.items():
                for hit in found[most * max(parts - cut[host], 0) :]:
                    yield f"{hit.url} {hit.start - BEGAN - at} s after a contact was cut off"

    def _has_throttled(self, hit, host):
        now = self._faults.host(host, hit.start - BEGAN)
        return hit.status in (429, 503) and now.behaviour is Behaviour.THROTTLE

    def _late(self, hits):
        """URLs of hosts that nothing fails of that waited for too long since they were known."""
        if self._scenario.key != "host" and (self._scenario.is_long or self._visits is not None):
            return  # a Retry-After is longer, and holds for hosts that share a key
        known = dict.fromkeys(self.world.seeds(), BEGAN)
        asked = {}
        for hit in sorted(hits, key=lambda hit: hit.end):
            host = self._host_of(hit.origin)
            page = find_page(self.world, host, hit.target)
            if not is_robots(hit) and not self._faults.of(host):
                asked.setdefault(url_of_hit(hit), hit.start)
            if page is None or hit.outcome != "ok" or hit.status not in (200, page.leaf.status):
                continue
            if hit.end < BEGAN + self._booted:
                continue  # a power failure may have taken what was found
            if page.kind is PageKind.REDIRECT:
                known.setdefault(url_of(self.world, redirect_target(self.world, page)), hit.end)
            elif has_links(page):
                for key in links_of(self.world, page):
                    known.setdefault(url_of(self.world, key), hit.end)
        for url, at in asked.items():
            if at > known.get(url, at) + _LATE_SECS:
                yield f"{url} {at - known[url]} s late"

    def _overdue(self, hits, visits):
        """URLs that were visited too late, or not at all, since everything works, or ever if
        nothing fails of their host."""
        since, end = BEGAN + self._sound_since, BEGAN + self._began
        asked = defaultdict(list)
        for hit in hits:
            if not is_robots(hit):
                asked[url_of_hit(hit), self._host_of(hit.origin)].append(hit)
        for (url, host), found in asked.items():
            is_sound = not self._faults.of(host) and self._scenario.key == "host"
            times = [
                (hit.start, visits.bounds(hit.status)[1])
                for hit in found
                if is_sound or hit.start > since
            ]
            if not is_sound:
                times.insert(0, (since, visits.bounds(0)[1]))
            for (at, secs), (after, _) in pairwise([*times, (end, 0.0)]):
                latest = max(at + secs, since if at < since else 0.0) + _LATE_SECS
                if after > latest:
                    yield f"{url} {at - BEGAN} {after - BEGAN}: not in {secs} s"

    def _is_slow(self, hit):
        return any(way.fault == "slow" for way in self._ways[hit.address])

    def _host_of(self, url):
        return self.world.find(urlsplit(url).hostname or "")

    def _untrue_outcomes(self):
        """Outcomes in the job's log that neither the truth nor a fault explains."""
        fetchable = fetchable_urls(self.world, USER_AGENT)
        for line in self.outcomes():
            if (line.get("status") in (200, 304)) != (line["url"] in fetchable):
                host = self._host_of(line["url"])
                if host is None or not self._faults.of(host):
                    yield str(line)

    def outcomes(self):
        """The lines of the job's log of outcomes, but for those that a power failure has torn."""
        found = []
        for path in sorted((self.job / "logs").glob("info*.jsonl")):
            for line in path.read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
        return found

    def _lose_power(self):
        """The machine goes down and comes back with what its disk has."""
        after = self._directory / "after"
        with pytest.MonkeyPatch.context() as patch:
            power = PowerLoss(self._disk, patch)
            power.go_on(pickle.loads(self._known.read_bytes()))
            power.lose(after, self.rng)
            _lose_sqlite(self._disk, after, power, self.rng)
            power.close()
        shutil.rmtree(self._disk)
        after.rename(self._disk)
        self._known = None
        self._boot.write_text(f"boot-{len(self.lives)}\n")
        self._began += self.rng.choice(_REBOOT_SECS)
        self._booted = self._began
        self._boots.append(self._booted)

    def timeline(self):
        """What has happened, in lines; seconds are those of the simulation."""
        hosts = map(self.world.host, range(self.world.hosts))
        events = [
            (one.begin, f"until {one.end:.3f}: {one.name} {one.fault}")
            for one in {one for host in hosts for one in self._faults.of(host)}
        ]
        for number, told in enumerate(self.lives, 1):
            text = (self._directory / f"life-{number:03d}.log").read_text()
            events.append((told.ended, f"life {number} ended in turn {told.turns}: {text[-300:]}"))
        for at, event in sorted(events):
            yield f"{at:10.3f} {event}"

    # --- the end

    def go_on_without_faults(self):
        """Put back in line what was given up, and crawl on to the end."""
        self._began = max(self._began, self._faults.end)
        if self._visits is not None:  # a clock that was set wrong may be what a boot began with
            self._began += _ROBOTS_SECS + _SET_SECS
            self._sound_since = self._began
            self._scenario.settings["CLOSESPIDER_TIMEOUT"] = 3 * self._visits.interval + _LATE_SECS
            self.live(Fault(), has_faults=False)
            return True
        if self._given_up():
            self._began += _ROBOTS_SECS
        is_over = self._go_on()
        # A robots.txt that a fault has spoilt may have ended others, which were in line.
        return self._go_on() if self._given_up() else is_over

    def _go_on(self):
        if given_up := self._given_up():
            retry = ["frontier", str(self.job), "--retry", ",".join(sorted(given_up))]
            ended, _ = self._run([*retry, *self._options()], Fault(), has_faults=False)
            assert ended.returncode == 0, ended.stdout
        return self.live(Fault(), has_faults=False)[0]

    def _given_up(self):
        """The outcomes of URLs that were given up, and are answered."""
        fetchable = fetchable_urls(self.world, USER_AGENT)
        allowed = allowed_urls(self.world, USER_AGENT)
        last = {line["url"]: line for line in self.outcomes()}
        return {
            line["outcome"]
            for url, line in last.items()
            if line.get("status") not in (200, 304)
            and (url in fetchable or (url in allowed and self._has_been_spoilt(line)))
        }

    def _has_been_spoilt(self, line):
        """Whether a URL that is no document may have ended so because of a fault."""
        if "status" not in line:
            return True
        host = self._host_of(line["url"])
        return line["status"] in _OF_FAULTS and host is not None and bool(self._faults.of(host))

    def judge(self):
        """The crawl has fetched everything."""
        hits = access_log(self._log)
        stats = stats_of(self.job)
        held = {name: stats[name] for name in stats if name.startswith("frontier/parked/")}
        assert self._visits is not None or not any(held.values()), held
        assert set(pages_asked_for(hits)) == allowed_urls(self.world, USER_AGENT)
        late = [*self._late(hits)]
        if self._visits is not None:
            late += self._overdue(hits, self._visits)
        assert not late, "\n".join(late)
        for shard in (self.job / "shards").iterdir():
            left = [path for path in shard.rglob("*") if path.is_file()]
            assert len(left) < (_FILES_LEFT if self._visits is None else _FILES), left
        files = sorted((self.job / "warc").glob("*.warc*"))
        assert [path.name for path in files if not path.name.endswith(".warc.gz")] == []
        assert unstored_documents(self.world, files) == []
        assert warc_checks.complaints(files[-1]) == {}
        printed("job", "check", "--warc", self.job)


def _check_end(fault, ended, told, *, goes_on):
    """The process has ended as it should after *fault*; by itself it *goes_on*."""
    said = ended.stdout
    assert not told.is_endless, f"after {told.ended:g} s of the simulation it has not ended: {said}"
    if fault.kind in ("kill", "power", "step") and told.has_failed:
        assert ended.returncode == -signal.SIGKILL, said
        return
    assert ended.returncode in (0, 3, 5), (ended.returncode, said)
    assert "Traceback" not in said, said
    if ended.returncode == 5:
        assert "Spider closed (no_answer)" in said, said
    elif ended.returncode == 3:
        assert said.splitlines()[-1].startswith("webcrawl: "), said
    else:
        assert ("Spider closed (closespider_timeout)" if goes_on else _HAS_FINISHED) in said, said


def _lose_sqlite(disk, after, power, rng):
    """What a power failure leaves of SQLite's files in *disk*, whose calls nobody has seen, is put
    into *after*.

    The file itself is there with all that was moved into it: SQLite syncs the log before it moves
    anything, and the file before it begins the log anew. So the log is whole up to what may have
    been moved, and up to where it was synced by us (Database.written), unless it was begun anew
    since; behind that it may end anywhere, or in zeros. What is in shared memory is in nobody's
    way.
    """
    for file in disk.rglob(SQLITE):
        # It may have been moved, in a directory whose new name is not on the disk.
        found = power.place_of(file) or after / file.relative_to(disk)
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


def _moved(wal, shm):
    """Bytes of the log that may have been moved, by nBackfillAttempted of the index."""
    if len(wal) < _WAL_HEADER or not shm.exists():
        return 0
    frames = int.from_bytes(shm.read_bytes()[128:132], "little")
    page = int.from_bytes(wal[8:12], "big")
    return min(len(wal), _WAL_HEADER + frames * (_WAL_FRAME + page)) if frames else 0


def _synced(wal, path, power):
    """Bytes of the log that were synced by us since it was begun."""
    before = power.known[0].get(path.stat().st_ino, b"")
    return len(before) if before and wal.startswith(before) else 0


def drawn(rng):
    """A fault of the process or its disk."""
    kind = rng.choice(KINDS)
    if kind == "limit":
        return Fault(kind, after=rng.choice((100, 3000, 20_000, 60_000, 200_000)))
    if kind == "step":
        return Fault(kind, after=int(10 ** rng.uniform(1, 4)))
    room = rng.choice(ROOMS) if rng.random() < 0.5 else ""
    return Fault(kind, "", room, int(10 ** rng.uniform(0, 2 if room else 3)), rng.choice(_LASTING))


def go_through(directory, faults, scenario, *, hit):
    """One job through *faults*, and to its end; those that happened are put into *hit*."""
    with FaultRig(directory, scenario, hit=hit) as rig:
        try:
            for fault in faults:
                if rig.live(fault)[0]:
                    break
                if rig.rng.random() < _GOING_BACK:
                    rig.go_back()
            assert rig.go_on_without_faults()
            rig.judge()
        except BaseException as error:
            error.add_note("\n".join(rig.timeline()))
            raise


def go_through_seed(directory, seed, hit=None, *, settings=None):
    """All that *seed* draws, with *settings*. An error tells the command that repeats it."""
    rng, scenario = random.Random(seed), scenario_of(seed)
    scenario.settings.update(settings or {})
    faults = [drawn(rng) for _ in range(rng.choice((1, 2, 3)))]
    if seed >= REVISITING and rng.random() < 0.5:
        faults.insert(0, Fault())  # later ones meet visits only
    faults.append(Fault())  # a life that only servers and networks disturb
    try:
        go_through(directory, faults, scenario, hit=hit)
    except BaseException as error:
        error.add_note(f"{scenario}\n{faults}\nagain: python {Path(__file__)} --first {seed}")
        raise


def _main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--front-end", default="", help="a FRONTIER_FRONT_END")
    given = parser.parse_args()
    settings = {"FRONTIER_FRONT_END": given.front_end} if given.front_end else {}
    hit = Counter[Fault]()
    failures = 0
    for seed in range(given.first, given.first + given.seeds):
        directory = Path(tempfile.mkdtemp(prefix=f"seed-{seed}-"))
        try:
            go_through_seed(directory, seed, hit, settings=settings)
        except Exception:  # noqa: BLE001  # whatever it is, it is what this looks for
            failures += 1
            print(f"--- seed {seed} {directory}\n{traceback.format_exc()[-8000:]}", flush=True)
        else:
            shutil.rmtree(directory)
        print(f"seed {seed}: {hit.total()} faults, {failures} failures", flush=True)
    for title in ("kind", "room"):
        counts = Counter[str]()
        for fault, count in hit.items():
            counts[getattr(fault, title)] += count
        print(title, dict(counts.most_common()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(_main())
