"""Drones that start while Redis or the store is away, by the server's record."""

import json
import signal
import threading

import pytest
import warm
from crawling import crawl_of_urls, finish, simulated, wait_until
from hive_crawl import NAME, SHARDS, HiveCrawl
from local_hive import Hive
from patience import LIMIT_SECS
from redis_proxy import Cut
from redis_server import RedisServer
from text_tables import cases, each

from webcrawl.hive.launch.crawl_stats import stats_of

WEB = {"hosts": 20, "mean_pages": 10.0, "max_pages": 20}
WAITS = "Waiting to join the hive: "
REDIS_AWAY = f"{WAITS}Redis at REDIS_URL does not answer"


def status_of(*words):
    """What ``scrapy hive status`` says of each drone, and of the hive."""
    done = warm.scrapy("hive", "status", *words, "-s", f"HIVE={NAME}", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {drone["name"]: drone["note"] for drone in found["drones"]}, found["note"]


@pytest.mark.long
@pytest.mark.cures("Redis at REDIS_URL does not answer ({}): start it, or correct the URL.")
def test_a_killed_drone_waits_until_redis_is_back_and_ends_the_crawl(tmp_path):
    with (
        simulated(tmp_path, **WEB) as web,
        HiveCrawl(web, tmp_path, STATS_FILE_INTERVAL_SECS=1) as hive,
    ):
        (drone,) = hive.join()
        ways = [
            (hive.redis.kill, hive.redis.start),
            (lambda: drone.proxy.cut(Cut.REFUSED), drone.proxy.mend),
            (lambda: drone.proxy.cut(Cut.BLACK_HOLE), drone.proxy.mend),
        ]
        for number, (cut, mend) in enumerate(ways):
            hive.wait_for(0.2 * (number + 1))
            hive.kill(drone)
            cut()
            entered_at = drone.entered_at
            hive.restart(drone)
            wait_until(lambda number=number: drone.said.count(REDIS_AWAY) > number)
            wait_until(lambda: REDIS_AWAY in stats_of(drone.job).get("pauses/now", ""))
            assert drone.is_running
            mend()
            wait_until(lambda at=entered_at: drone.entered_at > at)
        hive.end()
        hive.judge(reads_warc=False)


def test_a_drone_that_waits_for_redis_is_stopped_by_a_signal(tmp_path):
    with simulated(tmp_path, **WEB) as web, HiveCrawl(web, tmp_path) as hive:
        (drone,) = hive.join()
        hive.wait_for(0.2)
        hive.kill(drone)
        hive.redis.kill()
        hive.restart(drone)
        wait_until(lambda: REDIS_AWAY in drone.said)
        drone.send(signal.SIGTERM)
        assert drone.process.wait(LIMIT_SECS) == 0


@pytest.mark.long
def test_a_drone_waits_for_the_store_without_shards_and_says_so(tmp_path):
    store, mounted, unmounted = (tmp_path / name for name in ("store", "mounted", "unmounted"))
    for directory in (mounted, unmounted):
        directory.mkdir()
    store.symlink_to(mounted)

    def mount(directory):
        """Have the store be *directory*, in one step, as drones upload to it."""
        link = tmp_path / "link"
        link.symlink_to(directory)
        link.replace(store)

    with (
        simulated(tmp_path, **WEB) as web,
        HiveCrawl(web, tmp_path, POLITENESS_MIN_DELAY=0.5) as hive,
    ):
        first, second = hive.join(2)
        hive.wait_for(0.1)
        hive.kill(first)
        mount(unmounted)
        hive.restart(first)
        wait_until(lambda: f"{WAITS}HIVE_STORE {store} has no hive.json" in first.said)

        def is_told():
            drones, _ = status_of("-s", f"REDIS_URL={second.proxy.url}")
            return "hive store" in drones.get(first.name, "")

        wait_until(is_told, every=0.5)
        wait_until(lambda: not hive.shards_of(first))
        assert len(hive.shards_of(second)) >= 6
        mount(mounted)
        wait_until(lambda: hive.shards_of(first))
        hive.end()
        hive.judge(reads_warc=False)


@cases(
    "url given code",
    """
        redis://127.0.0.1:1                     | HIVE=t       | 6
        redis://127.0.0.1:1                     | LIVE_SEEDS=1 | 6
        redis://127.0.0.1:1 | ITEM_PIPELINES={"webcrawl.pipelines.redis_pages.RedisPages": 1} | 6
        redis://no-such-host.invalid:1          | HIVE=t       | 6
    """,
)
def test_at_its_first_start_a_crawl_ends_with_a_code_for_what_is_wrong(tmp_path, url, given, code):
    command = crawl_of_urls(tmp_path, "http://a.test/", REDIS_URL=url)
    output = finish([*command, "-s", given], code=code)
    assert "webcrawl: Redis at REDIS_URL does not a" in output  # answer, or accept pages


def test_a_store_that_no_client_opens_is_refused_before_redis_is_asked(tmp_path):
    store = "sftp://me:secret@a.test/x"
    given = {"HIVE": NAME, "REDIS_URL": "redis://127.0.0.1:1", "HIVE_STORE": store}
    output = finish(crawl_of_urls(tmp_path, "http://a.test/", **given), code=2)
    assert "webcrawl: HIVE_STORE sftp://***@a.test/x must be a directory, or a URL of" in output
    assert "Traceback" not in output


@each("wrong", "password", "sentinels", "policy", "type")
def test_what_waiting_does_not_mend_ends_with_2_however_often_a_drone_has_started(tmp_path, wrong):
    more = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"] * (wrong == "policy")
    password = "secret" * (wrong == "password")
    with RedisServer(tmp_path / "redis", password=password, more=more) as server:
        url = server.url.replace(":secret", ":wrong")
        if wrong == "sentinels":
            url = "redis+sentinel://127.0.0.1:1/hive/0"
        command = crawl_of_urls(tmp_path, "http://a.test/", HIVE=NAME, REDIS_URL=url)
        if wrong == "type":
            with server.client() as client:
                client.set(SHARDS, "a string")
        said = {
            "password": "Redis refuses the user or password in REDIS_URL or REDIS_PARAMS: ",
            "sentinels": "redis+cluster:// ended with 0.6. Instead, one server is enough, which",
            "policy": "so it deletes leases and links",
            "type": "A Redis key of the hive has a value of another type",
        }[wrong]
        for _ in range(2):
            output = finish(command, code=2)
            assert said in output
            assert "does not answer" not in output
            (tmp_path / "job").mkdir(exist_ok=True)
            (tmp_path / "job/DRONE").write_text("of another boot a-1")


@pytest.mark.long
def test_a_key_of_another_type_is_named_and_the_crawl_continues_without_it(tmp_path):
    with simulated(tmp_path, **WEB) as web, HiveCrawl(web, tmp_path) as hive:
        (drone,) = hive.join()
        hive.wait_for(0.2)
        with hive.redis.client() as client, hive.loss():
            client.delete(SHARDS)
            client.set(SHARDS, "a string")
            wait_until(lambda: "Redis cannot be used: WRONGTYPE " in drone.said)
            client.delete(SHARDS)
            hive.end()
        hive.judge(reads_warc=False)


def test_redis_that_loads_its_data_is_temporary(tmp_path):
    slow = RedisServer(tmp_path / "redis", appendonly=True, more=["--key-load-delay", "20000"])
    with RedisServer(tmp_path / "redis", appendonly=True) as server, server.client() as client:
        for number in range(600):
            client.set(f"key {number}", "a value")
    starts = threading.Thread(target=slow.start)
    starts.start()
    try:
        wait_until(slow.socket.exists)
        command = crawl_of_urls(tmp_path, "http://a.test/", HIVE=NAME, REDIS_URL=slow.url)
        assert "Redis at REDIS_URL does not answer" in finish(command, code=6)
    finally:
        starts.join()
        slow.kill()


@pytest.mark.long
def test_the_drones_of_a_supervisor_wait_for_redis(tmp_path):
    said = [tmp_path / "first", tmp_path / "second"]
    server = RedisServer(tmp_path / "redis", appendonly=True, port=True)
    settings = {"HIVE": NAME, "REDIS_URL": server.tcp_url, "STATS_FILE_INTERVAL_SECS": 1}
    with simulated(tmp_path, **WEB) as web:
        try:
            with Hive(web, said[0], **settings) as hive:
                wait_until(lambda: said[0].read_text().count("in 10 s until Redis answers") >= 3)
                server.start()
                wait_until(lambda: len([*web.job.glob("drones/*/DRONE")]) == 2)
                wait_until(lambda: web.log.exists() and len(web.log.read_bytes()) > 5000)
                hive.ends(signal.SIGINT)
            server.kill()
            with Hive(web, said[1], **settings) as hive:
                wait_until(lambda: said[1].read_text().count(REDIS_AWAY) >= 2)

                def is_told():
                    drones, note = status_of(str(web.job), "-s", f"REDIS_URL={server.tcp_url}")
                    assert note == "Redis does not answer"
                    return [REDIS_AWAY in drones.get(f"drone {n}", "") for n in (0, 1)] == [
                        True
                    ] * 2

                wait_until(is_told, every=0.5)
                server.start()
                hive.ends()
        finally:
            server.kill()
        web.judge(min_delay=0.3)
