"""Whole crawls by a hive: a simulated web, a Redis, drones as a user starts them, and what befalls
them; judged by the simulated web's own record over all processes.

``HiveCrawl`` starts drones, kills, pauses and cuts them off, and does the same to Redis.
`DISTURBANCES` are what may befall a hive; `play` is one round: four drones, some disturbances at
moments drawn by lot, the end, and the judgement. What must hold: every URL of the truth was asked
for and every document is stored, no host was hurried, no drone contacted a host that another had by
then, every drone that lived has ended well, and only what a loss explains was fetched twice.
"""

import json
import math
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from bisect import bisect
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import pairwise

import redis
import warm
from crawling import (
    ROOT,
    USER_AGENT,
    access_log,
    damage_in,
    impolite,
    is_robots,
    pages_asked_for,
    printed,
    simulated,
    unstored_documents,
    url_of_hit,
    wait_until,
)
from patience import LIMIT_SECS, SLOWNESS, slowness_now
from redis_proxy import Cut, RedisProxy
from redis_server import RedisServer
from web_truth import allowed_urls, fetchable_urls

from webcrawl.crawl.shard.shards import Shards
from webcrawl.hive.launch.crawl_stats import shard_counts
from webcrawl.hive.membership.succession import last_drone
from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.pipelines.warc.recovery import whole_length

NAME = "t"
# Keys: the name of the drone that is the queen; the holders of shards, with their tokens; what is
# true of the whole hive; positions of published checkpoints; reports by the names of drones.
QUEEN = f"webcrawl:{{{NAME}}}:queen"
SHARDS = f"webcrawl:{{{NAME}}}:shards"
STATE = f"webcrawl:{{{NAME}}}:state"
ACKS = f"webcrawl:{{{NAME}}}:acks"
DRONES = f"webcrawl:{{{NAME}}}:drones"
MIN_DELAY = 0.2
_SHARDS = 12
_SETTINGS = {
    "HIVE": NAME,
    "HIVE_SHARDS": _SHARDS,
    "CHECKPOINT_INTERVAL_SECS": 1,
    # Each loss is logged.
    "EXTENSIONS": '{"webcrawl.extensions.repeated_lines.RepeatedLines": null}',
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    # A contact cut off by a kill counts as lasting until its shard is adopted.
    "POLITENESS_MAX_DELAY": 1.0,
}
# What a drone says whose machine was too busy for it to keep its leases or its shards.
_LATE = re.compile(
    r" has expired \((?:the process did not run for |Redis or HIVE_STORE answered too late\))"
    r"|The leases expired while Redis changed"
    r"|Not published: "
    r"| were lost to other drones: "
)
# What it says of a checkpoint: that not all of it is in the store, and that it was made.
_IN_PART = " uploaded to HIVE_STORE; the others follow"
_MADE = re.compile(r"Checkpoint made: .* ([\d.]+) s in all")
_END_SECS = 300.0 * SLOWNESS


class HiveEndedError(Exception):
    """All drones ended before a disturbance began."""


class Drone:
    """One process of a hive, with its way to Redis."""

    def __init__(self, *, job, log, proxy, address, within, settings):
        self.job = job
        self.address = address  # which servers see it at
        self.proxy = proxy
        self.log = log
        self.within = within
        self.settings = settings
        self.is_lost = False  # killed, and not started again
        self.has_left = False  # stopped by a signal

    def start(self, command):
        with self.log.open("ab") as log:
            self.process = warm.Popen(
                [*self.within, *command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def name(self):
        """In Redis, and from one process to the next; "" before it was in the hive."""
        return last_drone(self.job)

    @property
    def entered_at(self):
        """When a process of it entered the hive last; 0 if none has."""
        noted = self.job / "DRONE"
        return noted.stat().st_mtime_ns if noted.exists() else 0

    @property
    def is_running(self):
        return self.process.poll() is None

    @property
    def said(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def lines(self):
        """What it has logged, each line with its time, in whole seconds."""
        for time_of, line in re.findall(r"^(\S+ \S+) (\[.*)", self.said, re.MULTILINE):
            yield time.mktime(time.strptime(time_of, "%Y-%m-%d %H:%M:%S")), line

    def losses(self):
        """When it was too late to keep its leases or shards, and what it had done until when was
        published then."""
        published = _Published()
        for at, line in self.lines():
            published.read(at, line)
            if _LATE.search(line):
                yield published.until, at + 1

    def published_until(self, at):
        """All that it had done until then was in a published checkpoint at the time *at*."""
        published = _Published()
        for logged_at, line in self.lines():
            if logged_at + 1 <= at:
                published.read(logged_at, line)
        return published.until

    def send(self, sent):
        """To the process, if it has not ended."""
        if self.is_running:
            self.process.send_signal(sent)


class _Published:
    """How far the checkpoints of a drone that are in the store go, from what it has logged."""

    def __init__(self):
        self.until = 0.0  # when the last one was begun
        self._is_whole = True

    def read(self, at, line):
        """Take note of a *line* that was logged in the second from *at* on."""
        if _IN_PART in line:
            self._is_whole = False
        elif made := _MADE.search(line):
            if self._is_whole:
                self.until = at - float(made[1])
            self._is_whole = True


class HiveCrawl:
    """A hive that crawls *web*, below *directory*. A context manager, which ends all of it.

    *lease_secs* are those of a machine with little else to do; `lease_secs` are those here. *redis*
    is the server that the test looks into; with REDIS_URL in *settings* drones go there by
    themselves."""

    def __init__(
        self,
        web,
        directory,
        *,
        lease_secs=2.0,
        rng=None,
        redis=None,
        **settings,
    ):
        self.lease_secs = lease_secs * slowness_now()
        self.rng = rng or random.Random(1)
        self.drones = []
        self.redis = redis or RedisServer(directory / "redis", appendonly=True)
        self._web = web
        self._directory = directory
        own = {"HIVE_STORE": directory / "store", "HIVE_LEASE_SECS": self.lease_secs}
        self._settings = _SETTINGS | own | settings
        self._allowed = allowed_urls(web.world, USER_AGENT)
        self._losses = []
        self._ends = ExitStack()

    def __enter__(self):
        if not self.redis.is_running:
            self._ends.enter_context(self.redis)
        return self

    def __exit__(self, *_):
        for drone in self.drones:
            drone.send(signal.SIGKILL)
            drone.process.wait()
        self._ends.close()

    # --- drones

    @property
    def living(self):
        """The drones whose processes have not ended."""
        return [drone for drone in self.drones if drone.is_running]

    @property
    def queen(self):
        """The drone that holds the queen's lease; waits until there is one.

        Raises HiveEndedError if there will be none."""
        found = []

        def is_there():
            name = self._ask("get", QUEEN) or ""
            found[:] = [one for one in self.living if one.name == name]
            return bool(found)

        wait_until(lambda: is_there() or self.is_over)
        if not found:
            raise HiveEndedError
        return found[0]

    def _ask(self, command, *arguments):
        with self.redis.client() as client:
            return getattr(client, command)(*arguments)

    def shards_of(self, drone):
        """The shards that *drone* holds now, with their tokens."""
        return {
            int(number): int(owner.partition(" ")[0])
            for number, owner in self._ask("hgetall", SHARDS).items()
            if drone.name == owner.partition(" ")[2]
        }

    @property
    def acknowledged(self):
        """The shards of which there is a published checkpoint."""
        return {*map(int, self._ask("hkeys", ACKS))}

    def acknowledged_checkpoint(self, shard):
        """The last published checkpoint of *shard* that Redis knows, as the store names it."""
        return self._ask("hget", ACKS, str(shard)).partition(" ")[2]

    def forget_acknowledged(self, shard):
        """As ``redis-cli hdel`` does it."""
        self._ask("hdel", ACKS, str(shard))

    def notes(self):
        """What ``scrapy hive status`` says of each drone, by its name."""
        at = ("-s", f"HIVE={NAME}", "-s", f"REDIS_URL={self.redis.url}")
        found = json.loads(printed("hive", "status", *at, "--json"))
        return {one["name"]: one["note"] for one in found["drones"]}

    def join(self, number=1):
        """Start *number* drones on directories of their own; returns when all are in the hive."""
        new = [self.add() for _ in range(number)]
        self.wait_for_entry(*new)
        return new

    def add(self, *, within=(), address="", **settings):
        """Start a drone on a directory of its own, and *settings*; returns at once. By a command
        with the words *within* before it, on a machine with that *address*; else at a loopback
        address of its own."""
        number = len(self.drones)
        if not within:
            address = f"127.0.2.{number + 1}"
            settings = {"DOWNLOAD_BIND_ADDRESS": address} | settings
        proxy = self._ends.enter_context(RedisProxy(self.redis.socket))
        drone = Drone(
            job=self._directory / f"drone-{number}",
            log=self._directory / f"drone-{number}.log",
            proxy=proxy,
            address=address,
            within=within,
            settings=settings,
        )
        self.drones.append(drone)
        self._start(drone)
        return drone

    def start_again(self, drone):
        """On the same directory, as who supervises it would; returns when it is in the hive."""
        entered_at = drone.entered_at
        self.restart(drone)
        wait_until(lambda: drone.entered_at > entered_at or not drone.is_running)
        self.wait_for_entry(drone)

    def restart(self, drone):
        """The same, and returns at once."""
        drone.is_lost = False
        self._start(drone)

    def _start(self, drone):
        settings = {"REDIS_URL": drone.proxy.url} | self._settings | drone.settings
        drone.start(self._web.command(drone.job, **settings))

    def wait_for_entry(self, *drones):
        """Until all of *drones* are in the hive."""

        def has_entered(drone):
            return bool(drone.name) and drone.name in self._ask("hkeys", DRONES)

        for drone in drones:
            wait_until(
                lambda drone=drone: has_entered(drone) or not drone.is_running,
                every=0.1,
            )
            assert not drone.process.poll(), drone.said[-4000:]

    def kill(self, drone):
        """``kill -9``."""
        with self.loss(drone):
            drone.is_lost = drone.is_running
            drone.send(signal.SIGKILL)
            drone.process.wait()

    def leave(self, drone):
        """Stopped as a user does it; returns when the process has ended, well."""
        drone.has_left = True
        drone.send(signal.SIGTERM)
        self._wait_for_end(drone, LIMIT_SECS)

    def starve(self, leases):
        """Give the drones 8 % of the time for so many *leases*: stopped together for longer than a
        lease, and then continued together for a moment, again and again."""
        until = time.time() + leases * self.lease_secs
        while time.time() < until:
            for share, sent in ((1.15, signal.SIGSTOP), (0.1, signal.SIGCONT)):
                for drone in self.drones:
                    drone.send(sent)
                time.sleep(share * self.lease_secs)

    @contextmanager
    def loss(self, *drones):
        """What is in no published checkpoint of *drones*, or of any, may be fetched again, and what
        they fetch within."""
        began = time.time()
        since = min(drone.published_until(began) for drone in drones or self.drones)
        yield
        self._settle()
        self._losses.append((since, began, time.time()))

    def _settle(self):
        """Return when the server, which may be late, has read all that was sent to it before."""
        world = self._web.world
        at = world.host(0).address, world.http_port
        with socket.create_connection(at) as probe:
            probe.sendall(b"GET / HTTP/1.1\r\nHost: nowhere.test\r\n\r\n")
            assert b" 421 " in probe.recv(1000)

    def explains(self, before, again, *, finished=0.0):
        """Whether a URL that was fetched at *before*, and was *finished* later, is fetched *again*
        because of a loss."""
        return any(
            since <= max(before, finished) and before <= ended and again >= began
            for since, began, ended in self._losses
        )

    # --- progress

    @property
    def is_over(self):
        return not self.living

    @property
    def share(self):
        """How much of what may be fetched was asked for."""
        asked = self._allowed.intersection(pages_asked_for(access_log(self._web.log)))
        return len(asked) / len(self._allowed)

    def wait_for(self, share):
        """Until so much was asked for, or the crawl is over."""
        wait_until(lambda: self.share >= share or self.is_over, secs=_END_SECS, every=0.3)

    def end(self):
        """Until all drones have ended, well."""
        for drone in self.drones:
            if not drone.is_lost and not drone.has_left:
                self._wait_for_end(drone, _END_SECS)
                assert "    end  finished" in drone.said, drone.said[-4000:]

    def _wait_for_end(self, drone, secs):
        try:
            code = drone.process.wait(secs)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{drone.job.name} does not end: {drone.said[-4000:]}") from None
        assert code == 0, (code, drone.said[-4000:])
        assert "Traceback" not in drone.said, drone.said

    # --- the end

    def judge(self, *, reads_warc=True):
        """Stops the server; how often each URL was asked for. *reads_warc*: what was stored is
        looked at, too, which takes minutes for many pages."""
        world = self._web.world
        unstored = unstored_documents(world, self._warc_files()) if reads_warc else []
        damage = [
            finding
            for drone in self.drones
            if not drone.is_lost and (drone.job / "CURRENT").exists()
            for finding in damage_in(drone.job)
        ]
        hits = self._web.hits()
        asked = Counter(pages_asked_for(hits))
        fetchable = fetchable_urls(world, USER_AGENT)
        for drone in self.drones:
            self._losses += [(since, since, ended) for since, ended in drone.losses()]
        # Each page counts once, whichever drones had it.
        counts = shard_counts([drone.job for drone in self.drones])
        pages = sum(n for name, n in counts.items() if name.startswith("outcome/http_2"))
        wrong = {
            "pages counted": [(pages, len(fetchable))] if pages != len(fetchable) else [],
            "not stored": unstored,
            "damage": damage,
            "not asked for": sorted(self._allowed - set(asked)),
            "asked for without need": sorted(set(asked) - self._allowed),
            "impolite": impolite(hits, min_delay=MIN_DELAY),
            "fetched twice": self._unexplained(hits, fetchable),
        }
        told = [f"{what}, {len(found)}: {found[:5]}" for what, found in wrong.items() if found]
        told += [
            f"{name}: {n}" for name, n in counts.items() if name.startswith("outcome/") and told
        ]
        assert not told, "\n".join(told)
        return asked

    def _warc_files(self):
        """All that drones have stored; those of a drone that was killed end with what is whole."""
        for path in self._directory.glob("drone-*/warc/*.open"):
            os.truncate(path, whole_length(path)[0])
            path.rename(path.with_suffix(""))
        return sorted(self._directory.glob("drone-*/warc/*.warc.gz"))

    def _unexplained(self, hits, fetchable):
        """URLs of *fetchable* that were asked for again although no loss lies between."""
        times, ends = defaultdict(list), defaultdict(list)
        for hit in hits:
            if not is_robots(hit) and url_of_hit(hit) in fetchable:
                times[url_of_hit(hit)].append(hit.start)
        for drone in self.drones:
            for line in outcome_lines(drone.job):
                ends[line.url].append(line.at)

        def finished(url, before):
            """When the page was that was fetched then; never if its download was broken off."""
            return min((at for at in ends[url] if at >= before), default=math.inf)

        return [
            f"{url} {again - before:.1f} s later"
            for url, asked_at in times.items()
            for before, again in pairwise(sorted(asked_at))
            if not self.explains(before, again, finished=finished(url, before))
        ]


class Owners:
    """Which drone had which shard when, in a thread that keeps looking at the table of *server*.

    Who has claimed a shard last has it.
    """

    def __init__(self, server):
        self._server = server
        self._shards = Shards(number=_SHARDS)
        self._claims = defaultdict(dict)  # by shard: drones, by when they have claimed it
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _look(self):
        with self._server.client() as client:
            while not self._is_over.wait(0.02):
                with suppress(redis.RedisError):  # it was killed
                    self._read(client.hgetall(SHARDS))

    def _read(self, table):
        for shard, owner in table.items():
            token, _, drone = owner.partition(" ")
            if drone:  # else it was released
                # A token is the time of its claim, in microseconds.
                # A shard that is handed over has it until the next drone claims it.
                self._claims[int(shard)].setdefault(int(token) / 1e6, drone)

    def strangers(self, hits, drones):
        """The contacts of *drones* with hosts that they did not have then."""
        names = {drone.address: drone.name for drone in drones}
        return [hit for hit in hits if self._owner(hit) != names[hit.client]]

    def _owner(self, hit):
        claims = self._claims[self._shards.number_of(hit.host)]
        times = sorted(claims)
        before = times[: bisect(times, hit.start)]
        return claims[before[-1]] if before else ""


# --- what may befall a hive


def kill_a_drone(hive):
    """One that is not the queen, for good or until its supervisor starts it again."""
    queen = hive.queen
    _kill(hive, hive.rng.choice([one for one in hive.living if one is not queen] or [queen]))


def _kill(hive, drone):
    hive.kill(drone)
    if len(hive.living) < 2 or hive.rng.random() < 0.5:
        time.sleep(hive.rng.choice((0.0, 2)) * hive.lease_secs)
        hive.start_again(drone)


def kill_redis(hive, *, empty=False):
    """It comes back with its data, or *empty*."""
    hive.redis.kill()
    time.sleep(hive.rng.choice((0.0, 0.5, 1.5)) * hive.lease_secs)
    hive.redis.restart(empty=empty)


def pause_a_drone(hive):
    """For longer than its lease: its shards are others' when it goes on."""
    drone = hive.rng.choice(hive.living)
    with hive.loss(drone):
        drone.send(signal.SIGSTOP)
        time.sleep(hive.rng.uniform(1.5, 2.5) * hive.lease_secs)
        drone.send(signal.SIGCONT)


def cut_off(hive, how):
    """One drone cannot reach Redis, for shorter or longer than its lease."""
    drone = hive.rng.choice(hive.living)
    drone.proxy.cut(how)
    time.sleep(hive.rng.choice((0.5, 2.5)) * hive.lease_secs)
    drone.proxy.mend()


def one_leaves(hive):
    if len(hive.living) > 1:
        hive.leave(hive.rng.choice(hive.living))


DISTURBANCES = {
    "kill a drone": kill_a_drone,
    "kill the queen": lambda hive: _kill(hive, hive.queen),
    "kill Redis": kill_redis,
    "empty Redis": partial(kill_redis, empty=True),
    "pause a drone": pause_a_drone,
    "black hole": partial(cut_off, how=Cut.BLACK_HOLE),
    "refuse": partial(cut_off, how=Cut.REFUSED),
    "two join": lambda hive: hive.join(2),
    "one leaves": one_leaves,
}


def play(
    directory,
    disturbances,
    *,
    rng,
    drones=4,
    hosts=60,
    max_pages=30,
    **settings,
):
    """One round: *drones*, *disturbances* when their share of the crawl is done, the end and the
    judgement. How often each URL was asked for. What has befallen the hive is printed."""
    values = {"mean_pages": max_pages / 3, "redirects": 0.1, "seed": rng.randrange(1000)}
    with (
        simulated(directory, hosts=hosts, max_pages=max_pages, **values) as web,
        HiveCrawl(web, directory, rng=rng, **settings) as hive,
        Owners(hive.redis) as owners,
    ):
        hive.join(drones)
        for share, name in disturbances:
            hive.wait_for(share)
            if hive.is_over:
                break
            try:
                DISTURBANCES[name](hive)
            except HiveEndedError:
                break
            print(f"disturbance: {name}, at {share:.3f}")
        hive.end()
        asked = hive.judge()
        hits = web.hits()
        late = owners.strangers(hits, hive.drones)
        assert not late, f"{len(late)} of {len(hits)} contacts, {late[:3]}"
        print(f"{len(hits)} contacts")
        return asked


def draw(rng):
    """Disturbances of a round, some of them in the end phase."""
    number = rng.randint(3, 6)
    shares = sorted(rng.choice((rng.random(), rng.uniform(0.9, 1.0))) for _ in range(number))
    return [(share, rng.choice(list(DISTURBANCES))) for share in shares]
