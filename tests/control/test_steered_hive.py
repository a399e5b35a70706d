"""A hive that is steered: a command goes to all drones, and each answers."""

import json
import time
from urllib.parse import urlsplit

import pytest
import warm
from crawling import access_log, is_robots, simulated, wait_until
from hive_crawl import NAME, HiveCrawl
from redis_proxy import Cut

from webcrawl.crawl.shard.shards import Shards
from webcrawl.hive.membership.keys import Keys


def test_a_command_reaches_all_drones_those_that_come_later_and_a_redis_that_was_emptied(tmp_path):
    values = {"hosts": 8, "mean_pages": 200, "max_pages": 400, "crawl_delays": 0.0}
    with (
        simulated(tmp_path, **values) as web,
        HiveCrawl(web, tmp_path, POLITENESS_MIN_DELAY=0.5) as hive,
        hive.redis.client() as client,
    ):
        first, _ = hive.join(2)

        def contacts(since, host=None):
            return [
                hit
                for hit in access_log(web.log)
                if hit.start > since and host in (None, urlsplit(hit.origin).hostname)
            ]

        def control(words, code=0):
            at = ["-s", f"HIVE={NAME}", "-s", f"REDIS_URL={first.proxy.url}"]
            done = warm.scrapy("control", *at, *words.split(), "--json")
            assert done.returncode == code, (done.stdout, done.stderr)
            return done.stderr if code else json.loads(done.stdout)

        def is_left_alone(host=None):
            for _ in range(30):
                at = time.time()
                time.sleep(2)  # several rests
                if not contacts(at, host):
                    return True
            return False

        wait_until(lambda: len(contacts(0)) > 30)
        page = next(hit for hit in access_log(web.log) if not is_robots(hit))
        host = urlsplit(page.origin).hostname
        answers = control(f"exclude {host}")
        assert [answer["said"] for answer in answers] == [f"exclude {host}: in force"] * 2
        assert {answer["drone"] for answer in answers} == {drone.name for drone in hive.drones}
        assert is_left_alone(host)
        assert "is not a host" in control("exclude a/b", code=2)

        (third,) = hive.join()
        hive.kill(first)
        journal = f"webcrawl:{{{NAME}}}:commands"
        client.delete(journal)
        # What is no command is refused, and the next one is heard.
        wrong = (b'{"name": "\xff"}', b"[" * 100_000)
        client.hset(journal, mapping={"1": wrong[0], "2": wrong[1], "not a number": "{}"})
        # What is in force is in the store.
        assert is_left_alone(host)
        wait_until(lambda: not client.exists(Keys(NAME).lease(first.name)))

        def drones_that_say_so():
            return sum(f"exclude {host}" in answer["said"] for answer in control("state"))

        assert drones_that_say_so() == 2
        hive.join()
        # One that has just joined may answer before it has read the store.
        wait_until(lambda: drones_that_say_so() == 3)

        control("pause")
        assert is_left_alone()
        hive.start_again(first)
        assert is_left_alone()
        at = time.time()
        control("resume")
        wait_until(lambda: contacts(at))
        assert control("stop")["said"] == "stop: all drones are stopping with a checkpoint"
        wait_until(lambda: hive.is_over)
        assert not third.process.poll()


@pytest.mark.long
def test_a_command_names_the_owner_of_shards_that_is_cut_off_from_redis(tmp_path):
    values = {"hosts": 30, "mean_pages": 40, "max_pages": 100, "seed_share": 1.0}
    with (
        simulated(tmp_path, **values) as web,
        HiveCrawl(web, tmp_path, POLITENESS_MIN_DELAY=1.0, lease_secs=5) as hive,
    ):
        first, second = hive.join(2)
        wait_until(lambda: hive.shards_of(first) and hive.shards_of(second))

        def said_of(words):
            at = ["-s", f"HIVE={NAME}", "-s", f"REDIS_URL={second.proxy.url}"]
            done = warm.scrapy("control", *at, *words.split())
            return done.returncode, done.stdout

        number_of = Shards(number=12).number_of

        def hosts_since(at):
            hosts = [urlsplit(hit.origin).hostname for hit in access_log(web.log) if hit.start > at]
            return [host for host in hosts if number_of(host) in hive.shards_of(first)]

        hive.wait_for(0.15)
        first.proxy.cut(Cut.REFUSED)
        with hive.redis.client() as client:
            wait_until(lambda: not client.exists(Keys(NAME).lease(first.name)))
        host = hosts_since(0)[-1]
        code, said = said_of(f"exclude {host}")
        assert code == 2, said
        assert f"{second.name}: exclude {host}: in force\n" in said
        assert f"{first.name}: has not answered; a lasting command will take effect when" in said
        at = time.time()  # it still contacts its hosts
        wait_until(lambda: hosts_since(at))
        first.proxy.mend()
        wait_until(lambda: said_of(f"exclude {host}")[0] == 0)
        first.proxy.cut(Cut.REFUSED)
        with hive.redis.client() as client:
            wait_until(lambda: not client.exists(Keys(NAME).lease(first.name)))
        code, said = said_of("stop")
        assert code == 2, said
        assert said == (
            "stop: all drones are stopping with a checkpoint, except those that do not answer: "
            f"{first.name}\n"
        )
        at = ["-s", f"HIVE={NAME}", "-s", f"REDIS_URL={second.proxy.url}", "--timeout", "1"]
        wait_until(lambda: second.process.poll() is not None)
        done = warm.scrapy("hive", "stop", *at)
        said = f"{first.name} (without a lease: killed, or cut off)\n"
        assert (done.returncode, done.stderr) == (1, f"hive: still running after 1 s: {said}")
        code, said = said_of(f"-s HIVE_STORE={tmp_path / 'store'} exclude other.test")
        assert code == 2, said
        assert said.endswith(f"reaches its Redis; it has shards of {first.name}.\n")
        first.proxy.mend()
        wait_until(lambda: hive.is_over)
