"""A hive whose checkpoint store is away, or lost together with what Redis had, crawls on."""

import os
import random
import shutil
import signal
import sys
import time

import pytest
import warm
from crawling import RIGS, simulated, stats_of, wait_until
from hive_crawl import STATE, HiveCrawl, play
from s3_server import s3_environment, s3_server
from text_tables import cases

from webcrawl.hive.store.store import CheckpointStore

SHARDS = 12


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture(params=[{"hosts": 30, "mean_pages": 6.0, "max_pages": 15}])
def hive(request, tmp_path):
    """A hive that crawls the web of *param*."""
    with (
        simulated(tmp_path, **request.param) as web,
        HiveCrawl(web, tmp_path, HIVE_SHARDS=SHARDS) as hive,
    ):
        yield hive


@pytest.fixture
def newest(store):
    """Tells the newest checkpoint of each shard."""
    return lambda: [CheckpointStore(url=str(store)).find_newest(number) for number in range(SHARDS)]


def are_released(checkpoints):
    return all(one is not None and one.released for one in checkpoints)


@pytest.mark.long
@pytest.mark.parametrize(
    "hive", [{"hosts": 60, "mean_pages": 15.0, "max_pages": 40}], indirect=True
)
def test_a_store_that_cannot_be_reached_for_a_while_costs_nothing(hive, store, newest, tmp_path):
    away = tmp_path / "away"
    hive.join(2)
    hive.wait_for(0.2)
    store.rename(away)
    wait_until(lambda: all("not uploaded to HIVE_STORE" in drone.said for drone in hive.living))
    # Nothing can be deleted there, either.
    shutil.rmtree(store, ignore_errors=True)
    store.touch()
    hive.redis.kill()
    wait_until(lambda: all("HIVE_STORE cannot be reached" in one.said for one in hive.living))
    hive.redis.start()
    wait_until(lambda: all("may have lost are resent" in drone.said for drone in hive.living))
    # A publication that was under way may have made it again.
    shutil.rmtree(store, ignore_errors=True)
    store.unlink(missing_ok=True)
    away.rename(store)
    assert not hive.is_over
    hive.end()
    assert hive.judge()
    for drone in hive.drones:
        assert stats_of(drone.job)["hive/publish/failed"] > 0
    assert are_released(newest())


@pytest.mark.long
@pytest.mark.parametrize(
    "hive", [{"hosts": 30, "mean_pages": 200, "max_pages": 400, "crawl_delays": 0.0}], indirect=True
)
def test_a_store_that_hangs_while_redis_is_away_stops_no_drone(hive, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    hang_file = tmp_path / "hangs"
    settings = {"SCHEDULER": "hanging_store.HangingScheduler", "HANG_FILE": hang_file}
    drones = [hive.add(**settings) for _ in range(2)]
    hive.wait_for_entry(*drones)
    hive.wait_for(0.02)
    hang_file.touch()
    hive.redis.pause()
    wait_until(lambda: all("links to other processes wait on disk" in one.said for one in drones))
    hive.redis.resume()
    wait_until(lambda: all("Redis can be reached again" in one.said for one in drones))
    time.sleep(2 * hive.lease_secs)  # what was promised before has ended
    share = hive.share
    assert share < 0.9
    hive.wait_for(share + 0.05)


# Of a client that keeps threads, and so not in the process of the tests.
PROMISES = """
from webcrawl.storage.object_store import ObjectStore

store = ObjectStore("s3://bucket/hive")
for data in (b"0123456789", b"second"):
    store.create("a/x", data)
store.copy({"a/x": "a/y"})
store.copy({"a/y": "a/z"})
store.delete(["a/y", "a/none"])
print([store.read("a/x"), store.read("a/x", 0, 4), store.read("a/z", 8, 40), store.names("b")])
store.write("empty", b"")
print([store.read("empty", 0, 4), store.read("a/x", 10, 4), store.read("a/x", 11, 4)])
print(sorted(store.names("a")))
try:
    store.read("a/y", 0, 4)
except FileNotFoundError:
    print("not there")
"""


@pytest.fixture
def s3(tmp_path, monkeypatch):
    """A bucket of an S3 server, to which obstore goes in processes."""
    bucket = tmp_path / "s3/bucket"
    bucket.mkdir(parents=True)
    with s3_server(bucket.parent) as server:
        for name, value in s3_environment(server.server_port).items():
            monkeypatch.setenv(name, value)
        yield bucket


@pytest.mark.usefixtures("s3")
def test_an_object_store_keeps_its_promises_in_s3():
    done = warm.run([sys.executable, "-c", PROMISES], env=dict(os.environ))
    assert done.stdout.splitlines() == [
        "[b'0123456789', b'0123', b'89', set()]",
        "[b'', b'', b'']",
        "['x', 'z']",
        "not there",
    ], done.stderr


@pytest.mark.long
def test_a_hive_whose_store_is_in_s3_is_complete_and_polite(tmp_path, s3):
    settings = {"HIVE_STORE": "s3://bucket/hive"}
    disturbances = [(0.1, "two join"), (0.3, "kill a drone"), (0.6, "one leaves")]
    assert play(tmp_path, disturbances, rng=random.Random(3), hosts=30, **settings)
    assert len([*(s3 / "hive/shards").glob("*/*.json")]) >= SHARDS


@pytest.mark.long
def test_a_store_and_a_redis_that_are_lost_together_are_founded_anew_by_what_drones_hold(
    hive, store, newest, tmp_path
):
    copy = tmp_path / "copy"
    hive.join(2)
    hive.wait_for(0.2)
    shutil.copytree(store, copy, ignore=lambda *_: {"shards", "alive"})
    hive.redis.restart(empty=True)
    store.rename(tmp_path / "lost")
    # Until the drones' next beat nothing tells of the hive.
    told = ("not uploaded to HIVE_STORE", "Redis was emptied: registering the hive there again")
    wait_until(lambda: all(one in drone.said for drone in hive.living for one in told))
    # A drone that comes now must not take this for a new hive.
    new = hive.add()
    sentence = f"HIVE_STORE {store} has no hive.json: it is not mounted, or was emptied"
    wait_until(lambda: sentence in new.said)
    assert not (store / "hive.json").exists()
    # The way back that docs/howto/several-machines.md names.
    shutil.copytree(copy, store, dirs_exist_ok=True)
    hive.end()
    assert hive.judge()
    assert are_released(newest())


@pytest.mark.long
@cases(
    "file sentence",
    """
        outbox  | has no hive.json
        CURRENT | contains a single-process crawl
    """,
)
def test_a_job_directory_with_shards_does_not_begin_a_hive(tmp_path, file, sentence):
    shard = tmp_path / "drone-0/shards/00"
    shard.mkdir(parents=True)
    (shard / file).touch()
    with (
        simulated(tmp_path, hosts=3, max_pages=2) as web,
        HiveCrawl(web, tmp_path) as hive,
    ):
        drone = hive.add()
        wait_until(lambda: sentence in drone.said)
        assert not (tmp_path / "store/hive.json").exists()
    assert (shard / file).exists()


@pytest.mark.long
def test_a_shard_whose_checkpoints_are_lost_is_named_and_not_begun_anew(
    hive, store, newest, tmp_path
):
    copy = tmp_path / "copy"
    first, second = hive.join(2)
    wait_until(lambda: hive.acknowledged == {*range(SHARDS)})
    shutil.copytree(store, copy, ignore=lambda *_: {"shards", "alive"})
    store.rename(tmp_path / "lost")
    wait_until(lambda: all("not uploaded to HIVE_STORE" in drone.said for drone in hive.living))
    held = hive.shards_of(first)
    hive.kill(first)
    shutil.rmtree(store, ignore_errors=True)  # as above
    shutil.copytree(copy, store)
    told = f"Shard {min(held)} cannot be fetched yet: its checkpoint is missing from HIVE_STORE"
    wait_until(lambda: told in second.said)
    time.sleep(hive.lease_secs)
    assert not hive.is_over
    assert [number for number, one in enumerate(newest()) if one is None] == sorted(held)


@pytest.mark.long
@pytest.mark.parametrize(
    "hive", [{"hosts": 30, "mean_pages": 100.0, "max_pages": 150}], indirect=True
)
def test_shards_that_the_store_does_not_take_are_not_handed_over(hive, store):
    (first,) = hive.join()
    hive.wait_for(0.01)
    places = [store / "shards" / f"{number:02d}" for number in range(SHARDS)]
    for place in places:
        wait_until(lambda place=place: is_file_now(place))
    (second,) = hive.join()
    with hive.redis.client() as client:
        wait_until(lambda: f"{first.name} {second.name} 2" in str(client.hget(STATE, "moves")))
    failed = first.said.count("not uploaded to HIVE_STORE")
    wait_until(lambda: first.said.count("not uploaded to HIVE_STORE") > failed + 2 * SHARDS)
    assert not hive.shards_of(second)
    for place in places:
        place.unlink()
    wait_until(lambda: hive.shards_of(second))
    hive.end()
    assert hive.judge(reads_warc=False)


def is_file_now(path):
    """Put a file in the place of the directory *path*; whether it is there."""
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path.is_file()


@pytest.mark.long
def test_a_shard_whose_acknowledged_checkpoint_is_lost_goes_on_when_that_is_wanted(
    hive, store, newest
):
    first, second = hive.join(2)
    wait_until(lambda: hive.acknowledged == {*range(SHARDS)})
    hive.wait_for(0.3)  # each shard knows that the seeds were read
    held = min(hive.shards_of(first))
    known = hive.acknowledged_checkpoint(held)
    folder = store / f"shards/{held:02d}"
    lost = store / "none"

    def is_stopped_between_checkpoints():
        nonlocal lost
        first.send(signal.SIGSTOP)
        found = sorted(folder.glob("*.json"), key=lambda one: one.stat().st_mtime_ns)
        lost = folder / f"{hive.acknowledged_checkpoint(held)}.json"
        if len(found) > 1 and found[-1] == lost and known not in {one.stem for one in found}:
            return True
        first.send(signal.SIGCONT)
        return False

    wait_until(is_stopped_between_checkpoints)
    hive.kill(first)
    lost.unlink()
    name = lost.relative_to(store)
    told = f"Shard {held} cannot be fetched yet: HIVE_STORE {store} has lost {name}, and"
    wait_until(lambda: told in second.said)
    time.sleep(hive.lease_secs)
    assert not hive.is_over
    # The way on that docs/howto/several-machines.md names.
    hive.forget_acknowledged(held)
    hive.end()
    assert are_released([newest()[held]])
