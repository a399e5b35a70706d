"""Damage of each kind in what comes by Redis: it is refused and counted, and the crawl goes on."""

import json
from base64 import b64encode
from itertools import product

import msgspec
import pytest
import redis
from crawling import USER_AGENT, damage_in, finish, simulated, stats_of, wait_until
from hive_crawl import ACKS, DRONES, NAME, QUEEN, SHARDS, STATE, HiveCrawl
from redis_server import RedisServer
from web_truth import allowed_urls

from webcrawl.frontier import Entry
from webcrawl.hive.bus.messages import EntryMessage, encode
from webcrawl.hive.membership.keys import Keys
from webcrawl.revisit.history import History, encode_history
from webcrawl.storage.record_log import pack_many
from webcrawl.urls import host_of

KEYS = Keys(NAME)
NO_TEXT = b"\xff\xfe\x00"
DEEP = [b"[" * deep + b"]" * deep for deep in (3, 90, 900, 3000)]
# Histories that cannot be read; and some that can, of which no date or sum can be made.
BROKEN = [b"\xff", b"\x91", encode_history(History())[:-1], b"\x90" * 300]
ODD = [
    encode_history(History(**{name: 1 << 53, "content": 1, "stored_at": 1.0}))
    for name in ("at", "interval", "visits", "changes", "same_secs", "failures", "denied_at")
]
COMMANDS = [
    *(b'{"name":"pause","arguments":{"x":%b}}' % one for one in DEEP),
    *(DEEP[-1], NO_TEXT, b"", b"7", b"{}", b'{"name":7}'),
    b'{"name":"visit","arguments":{"entries":["/w=="]}}',
    b'{"name":"exclude"}',
]


def messages(url):
    """Damaged records of links to *url*, and of entries of it."""
    host, name = host_of(url), (7).to_bytes(8, "little")
    links = [1, [url], [], name, "", 1, 0, 0, 0, b"", 1.0]

    def changed(at, value):
        return [*links[:at], value, *links[at + 1 :]]

    values = [
        [], [1], [99], changed(1, 7), changed(1, [b"\xff"]), changed(1, ["x"]), changed(1, [""]),
        changed(3, b"1234567"), changed(3, bytes(8)), changed(5, -1), changed(9, b"1"),
        changed(10, 1e300), [*links, [1, 2]], [*links, [-1], ["a"]], [2, [url]], [2, ["x", "x"]],
        [2, [url, host], 0], [4, "", [host]], [5, {host: []}], [5, {host: [""]}],
    ]  # fmt: skip
    return [b"", NO_TEXT, b"\x91" * 3000, *map(msgspec.msgpack.encode, values)]


def odd_entries(url):
    """Entries that can be read, of which something later cannot."""
    host = host_of(url)
    for history in (*ODD, b""):
        yield Entry(url, host, chain=b"1", via="http://[", kind="\x00" * 99, history=history)
    for odd in (f"http://{host}:99999/", f"http://{host}:/%\x00\ud7ff\n", f"x://{host}/"):
        yield Entry(odd, host, history=ODD[0])
    for kind in ("robots", "aside", "request"):
        yield Entry(url, host, via=url, kind=kind)
    for extra in (b"plain/", b"plain/\x81\xa3url\x07", b"plain/\x91" * 3000, b"memory/"):
        yield Entry(url, host, kind="request", extra=extra)
    yield Entry(url, host, depth=1 << 53, rank=1 << 53, attempts=1 << 53, discovered_at=2.5e11)


@pytest.mark.long
def test_a_hive_goes_on(tmp_path):
    with (
        simulated(tmp_path, hosts=12, mean_pages=30, max_pages=60, seed=2) as web,
        HiveCrawl(web, tmp_path, POLITENESS_MIN_DELAY=0.4) as hive,
        redis.Redis(unix_socket_path=str(hive.redis.socket)) as client,
    ):
        hive.join(2)
        # Commands sent before a drone reads them are partly skipped, as at a restart.
        first = b'{"name":"exclude","arguments":{"host":"none.test"}}'
        client.hset(KEYS.commands, mapping={"99": first, "highest": 99})
        wait_until(lambda: client.hlen(KEYS.answers(99)) == 2)
        for number, command in enumerate(COMMANDS, start=1):
            client.hset(KEYS.commands, number, command)
        # All are read when the highest number changes.
        client.hset(KEYS.commands, mapping={NO_TEXT: b"", "highest": 100})
        url = min(allowed_urls(web.world, USER_AGENT))
        wrong = messages(url)
        entries = [Entry(url, host_of(url), history=one) for one in BROKEN] + [*odd_entries(url)]
        packed = [b"", NO_TEXT, pack_many(wrong)]
        packed.append(pack_many([encode(EntryMessage(one, None)) for one in entries]))
        for shard in range(12):
            client.xadd(KEYS.stream(shard), {"c": b""})
            for one in packed:
                client.xadd(KEYS.stream(shard), {"b": one})

        def is_mended():
            keys = {*client.hkeys(SHARDS), *client.hkeys(ACKS)}
            return keys <= {b"%d" % n for n in range(12)} and b"x" not in client.hvals(SHARDS)

        rows = {"12": "1 a", "-1": "1 a", "x": "1 a", NO_TEXT: "1 a", "3": "x"}
        for key, (row, value) in product((SHARDS, ACKS), rows.items()):
            client.hset(key, row, value)
        client.hset(STATE, "version", "another")
        client.set(QUEEN, NO_TEXT)
        wait_until(is_mended)
        for report in (NO_TEXT, b"\x91" * 3000, b"\x81\xa9positions\x81\x01\xa1x"):
            for drone in (*(one.name for one in hive.drones), NO_TEXT):
                client.hset(DRONES, drone, report)
        for field, value in (("round", 1 << 40), ("supply", 9), ("born_at", NO_TEXT)):
            born = client.hget(STATE, "born")

            def is_born_again(born=born, field=field, value=value):
                if client.hget(STATE, "born") not in (born, None):
                    return True
                client.hset(STATE, field, value)  # the queen may have replaced it unseen
                return False

            wait_until(is_born_again, every=1)
        client.hdel(STATE, "shards")
        for refused in (len(COMMANDS), len(COMMANDS) - 1):  # those that a restart looks at
            hive.end()
            stats = [stats_of(drone.job) for drone in hive.drones]
            assert [one["control/refused"] for one in stats] == [refused] * 2
            assert [damage_in(drone.job) for drone in hive.drones] == [[], []]
            if refused == len(COMMANDS):
                # With each new state streams are read again.
                garbage = 12 * (3 + len(wrong))
                assert sum(one["hive/garbage"] for one in stats) >= garbage
                assert sum(one.get("outcome/unreadable", 0) for one in stats) >= len(BROKEN)
                assert min(one["hive/unreadable"] for one in stats) >= len(rows)
                for drone in hive.drones:
                    hive.start_again(drone)


def test_a_crawl_that_takes_live_seeds_goes_on(tmp_path):
    with (
        simulated(tmp_path, hosts=5, max_pages=8) as web,
        RedisServer(tmp_path / "r") as server,
        server.client() as client,
    ):
        url = min(allowed_urls(web.world, USER_AGENT))
        visits = [
            {"url": url, "meta": {"visit": {"history": b64encode(one).decode()}}}
            for one in (*BROKEN, *ODD)
        ]
        bad = [NO_TEXT, *(b'{"url":"%b","meta":{"data":%b}}' % (url.encode(), one) for one in DEEP)]
        client.rpush("web:start_urls", *map(json.dumps, visits), *bad)
        for number, batch in enumerate((b"\x07", b"\x91\x07", b"\x91\x91\x07", b"\xdc", b"\xc1")):
            client.hset("{web:start_urls}:taken", NO_TEXT + bytes([number]), batch)
        for run in range(2):
            finish(web.command(LIVE_SEEDS=1, REDIS_URL=server.url))
            assert damage_in(web.job) == []
            assert client.hlen("{web:start_urls}:taken") == 0
            wanted = 5 + len(BROKEN) + 3 if run == 0 else 0
            assert web.stats.get("seeds/live_bad", 0) == wanted
        web.judge(min_delay=0.05)
