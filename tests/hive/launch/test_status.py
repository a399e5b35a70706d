"""The table of a hive, from a real Redis with drones that report to it."""

import asyncio
import contextlib
import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
import warm
from crawling import printed, refusal
from scrapy.settings import Settings
from text_tables import cases

from webcrawl.crawl.figures.activity import CrawlActivity
from webcrawl.doctor.diagnosis import Cause, Diagnosis
from webcrawl.errors import FatalError
from webcrawl.hive.launch.status import look, stop_and_wait, table
from webcrawl.hive.membership.connection import client_of
from webcrawl.hive.membership.keys import Keys
from webcrawl.hive.membership.membership import Membership, Owner
from webcrawl.hive.membership.report import DroneFigures, Gauge, Report, drone_name

KEYS = Keys("web")


@contextlib.asynccontextmanager
async def connected(server):
    client = client_of(Settings({"REDIS_URL": server.url}))
    try:
        yield client
    finally:
        await client.aclose()


def report(pages, *, idle=False, diagnosis="", called=""):
    figures = DroneFigures(
        name=called, pages=pages, given_up=12, rate=402.4, waiting=123_456, in_process=7,
        unsent=12_000, lag=0.4,
        diagnosis=diagnosis,
    )  # fmt: skip
    return Report(figures=figures, idle=idle)


async def drone(client, name, shards, **given):
    """A drone that has claimed *shards* and reports."""
    member = Membership(client=client, keys=KEYS, drone=name, lease_secs=10)
    await member.enter(64)
    await member.beat(Report())
    await member.claim(dict.fromkeys(shards, Owner(0, "")))
    await member.beat(report(**given))
    return member


QUEEN = [
    "one-1-a      40    1,234    402        12     123k           7    12 kB   0.4 s",
    "  queen, politeness: 3 hosts rest",
]


async def test_each_drone_has_a_line_and_all_have_one(server):
    async with connected(server) as client:
        await drone(client, "one-1-a", range(40), pages=1_234, diagnosis="politeness: 3 hosts rest")
        await drone(client, "two-2-b", range(40, 60), pages=99, idle=True)
        status = await look(client, KEYS)
    head, *rows = table("web", status)
    assert re.fullmatch(r"hive web  0:00:0\d  64 shards, 4 of them without a drone", head)
    assert rows == [
        "         shards    pages     /s  given up  waiting  in process  to send     lag",
        *QUEEN,
        "two-2-b      20       99    402        12     123k           7    12 kB   0.4 s",
        "  waiting",
        "all          60    1,333    805        24     246k          14    24 kB   0.4 s",
    ]


async def test_a_report_of_another_version_leaves_its_drone_in_the_table(server):
    async with connected(server) as client:
        await drone(client, "one-1-a", range(64), pages=1)
        await client.hset(KEYS.drones, "one-1-a", b"\xc1")
        rows = table("web", await look(client, KEYS))
    assert re.fullmatch(r"one-1-a +64", rows[2])
    assert rows[3] == "  queen, its report cannot be read: it runs another version"


async def test_drones_of_one_number_are_told_apart(server):
    async with connected(server) as client:
        for name in ("here-1-a", "there-2-b"):
            await drone(client, name, (), pages=1, called="drone 0")
        rows = table("web", await look(client, KEYS))
    found = [row.partition("  ")[0] for row in rows[2:] if row[0] != " "]
    assert found == ["drone 0 (here-1-a)", "drone 0 (there-2-b)", "all"]


async def test_the_end_of_the_crawl_is_told(server):
    async with connected(server) as client:
        queen = await drone(client, "one-1-a", range(64), pages=1)
        assert await queen.order(finished=True)
        assert table("web", await look(client, KEYS))[0].endswith("64 shards  finished")


async def test_stop_waits_for_the_drones_and_names_those_that_stay(server):
    async with connected(server) as client:
        one = await drone(client, "one-1-a", range(32), pages=1)
        two = await drone(client, "two-2-b", range(32, 64), pages=1)
        stopping = asyncio.create_task(stop_and_wait(client, KEYS, secs=0.5))
        while not (beat := await one.beat(Report())).state.stopping:  # noqa: ASYNC110  # a beat, too
            await asyncio.sleep(0.01)
        await one.release(beat.leases)
        await one.leave()
        assert await stopping == ["two-2-b"]
        await two.leave()  # its lease ends, but it has not released its shards
        silent = "two-2-b (without a lease: killed, or cut off)"
        assert await stop_and_wait(client, KEYS, secs=0.1) == [silent]


async def test_of_a_hive_that_there_is_not_it_is_said(server):
    async with connected(server) as client:
        for ask in (look(client, KEYS), stop_and_wait(client, KEYS, secs=1)):
            with pytest.raises(FatalError, match="There is no hive web in this Redis"):
                await ask


@pytest.mark.cures(
    "Name the hive with -s HIVE=NAME, because others may use the same Redis.",
    "No hive runs in JOBDIR {}. Name its directory with -s JOBDIR=DIR, or its Redis",
)
def test_the_commands_ask_by_url_and_name(server):
    async def one_drone():
        async with connected(server) as client:
            await drone(client, "one-1-a", range(64), pages=5)
            await client.persist(KEYS.lease("one-1-a"))

    asyncio.run(one_drone())
    hive = ("-s", f"REDIS_URL={server.url}", "-s", "HIVE=web")
    assert "or its Redis with -s REDIS_URL=URL -s HIVE=NAME." in refusal("hive", "status")
    assert "Name the hive with -s HIVE=NAME, because" in refusal("hive", "status", *hive[:2])
    assert "\none-1-a      64        5" in printed("hive", "status", *hive)
    found = json.loads(printed("hive", "status", "--json", *hive))
    assert (found["shards"], found["drones"][0]["figures"]["pages"]) == (64, 5)
    stopped = warm.scrapy("hive", "stop", "--timeout", "0.1", *hive)
    assert (stopped.returncode, stopped.stderr) == (1, "hive: still running after 0.1 s: one-1-a\n")
    server.kill()
    assert "Redis at REDIS_URL does not answer" in refusal("hive", "status", *hive)


@cases(
    "given sentence",
    """
        ["-s", "JOBDIR=nowhere"]            | No hive runs in JOBDIR nowhere
        ["-s", "JOBDIR={left}"]             | No hive runs in JOBDIR {left}
        ["-s", "REDIS_URL=redis://nowhere"] | Name the hive
    """,
)
def test_without_a_hive_to_ask_the_command_says_how_to_name_one(given, sentence, tmp_path):
    (tmp_path / "redis").mkdir()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(tmp_path / "redis/redis.sock"))
    said = refusal("hive", "status", *(word.format(left=tmp_path) for word in given))
    assert sentence.format(left=tmp_path) in said


NAMES_CAUSE = SimpleNamespace(diagnosis=lambda: Diagnosis(Cause.POLITENESS, 0.0, "9 hosts rest"))


@pytest.mark.parametrize(
    ("doctor", "diagnosis"), [(NAMES_CAUSE, "waiting for hosts: 9 hosts rest"), (None, "")]
)
def test_a_gauge_reads_a_crawl(clock, doctor, diagnosis):
    stats = {}
    activity = CrawlActivity(waiting=40, in_process=2, workers=200)
    parts = {}  # what they have counted, which is in the stats when it was published
    gauge = Gauge(
        name=drone_name(Path("job/drones/3")),
        health=SimpleNamespace(
            activity=lambda: activity,
            publish=lambda: stats.update(parts),
            doctor=doctor,
        ),
        stats=SimpleNamespace(get_stats=lambda: stats),
        clock=clock,
    )
    parts |= {"crawl/outcome/http_200": 1_000, "crawl/outcome/timeout": 3, "outcome/http_200": 1}
    assert gauge.read(unsent=0, lag=0).rate == 0
    for _ in range(20):
        clock.advance(2)
        parts["outcome/http_200"] += 10
        parts["crawl/outcome/http_200"] += 50  # some came with a shard
        found = gauge.read(unsent=7, lag=0.5)
    assert found == DroneFigures(
        name="drone 3", pages=2_000, given_up=3, rate=5.0, waiting=40, in_process=2, unsent=7,
        lag=0.5, diagnosis=diagnosis,
    )  # fmt: skip
