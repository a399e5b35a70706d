"""The checkpoint store: what is published is fetched, by whom, and what becomes of what is old."""

import contextlib
import random
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from disk import flipped
from hypothesis import given, settings
from hypothesis import strategies as st
from published_shard import (
    FACTS,
    KINDS,
    LIST,
    Living,
    adopted,
    newest_of,
    objects_in,
    store_of,
    url_of,
)
from records_rig import damage_of, put
from s3_server import s3_environment
from text_tables import cases, each
from xxhash import xxh3_128_hexdigest

from webcrawl.errors import ObjectStoreError, disk_message
from webcrawl.hive.store.store import CheckpointStore, HiveFacts
from webcrawl.hive.store.upload import SupersededError

PACK = 5000


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def store(kind, tmp_path, monkeypatch):
    return store_of(kind, tmp_path, monkeypatch, pack_bytes=PACK)


@pytest.fixture
def living(tmp_path):
    """Return a function that opens a shard in a drone's directory."""
    with contextlib.ExitStack() as stack:

        def make(name="d0", taken=()):
            shard = Living(tmp_path / name, taken)
            stack.callback(shard.end)
            return shard

        yield make


@pytest.fixture
def shard(living):
    return living()


@pytest.fixture
def adopt(tmp_path, store, living):
    """Return a function that opens the newest checkpoint as another drone."""

    def make(name="d1", *, token=2, taken=()):
        store.fetch(newest_of(store), tmp_path / name / "shards/00", token=token, before=0)
        return living(name, taken)

    return make


def refused(why):
    return pytest.raises(ObjectStoreError, match=why)


class Unchanging:
    """The objects and checkpoints that were ever seen in a store never change."""

    def __init__(self, path):
        self._path = path
        self._seen = {}

    def check(self):
        found = objects_in(self._path)
        assert [name for name, data in found.items() if self._seen.get(name, data) != data] == []
        self._seen |= found


# Publishing and fetching


def test_another_drone_goes_on_from_what_was_published_and_nothing_changes(
    store, tmp_path, shard, adopt
):
    rng = random.Random(3)
    objects = Unchanging(tmp_path)
    end, token = 0, 1
    for drone in range(1, 4):
        for _ in range(3):
            for _ in range(rng.randrange(1, 4)):
                shard.crawl(end)
                end += 30
            shard.save(store, token=token)
            objects.check()
        saved, taken = shard.contents(), [*shard.taken]
        # It does not know that its time is over.
        shard.crawl(end)
        objects.check()
        other = adopt(f"d{drone}", token=token + 1, taken=taken)
        assert other.contents() == saved
        token += 1
        other.crawl(end)
        end += 30
        other.save(store, token=token)
        shard.crawl(end + 5)
        with pytest.raises(SupersededError):
            shard.save(store, token=token - 1)
        objects.check()
        shard = other
    assert shard.knows(end)
    objects.check()


def test_files_that_grow_while_they_are_published_do_no_harm(store, tmp_path, shard, adopt):
    end = 0
    objects = Unchanging(tmp_path)

    def go_on():
        nonlocal end, times
        times += 1
        if times < 20:
            shard.crawl(end, 9)
            end += 9
        return True

    for _ in range(4):
        times = 0
        shard.crawl(end)
        end += 30
        shard.checkpoint()
        saved, taken, known = shard.contents(), [*shard.taken], end
        shard.publish(store, is_valid=go_on)
        meanwhile = {*shard.taken[len(taken) :]}
        objects.check()
        shard.job.forget()
    other = adopt(taken=taken)
    found = other.contents()
    assert found["queue"] == saved["queue"]
    # As after kill -9: what was appended since the checkpoint may be known.
    ranks = zip(saved["ranks"], found["ranks"], strict=True)
    assert all(before in (0, now) for before, now in ranks)
    urls = {b"%05d" % n for n in range(known)}
    while more := other.seen.take(1000):
        other.taken += more
    assert urls <= {*other.taken} | meanwhile
    assert len(other.taken) == len({*other.taken})
    objects.check()


def test_files_go_both_ways_as_links_where_that_can_be(tmp_path, monkeypatch, shard):
    store = store_of("links", tmp_path, monkeypatch)
    for n in range(10):
        shard.crawl(30 * n)
    shard.checkpoint()
    shard.publish(store)
    shard.end()
    inodes = {path.stat().st_ino for path in (tmp_path / "d0/shards/00").rglob("*")}
    target = tmp_path / "d1/shards/00"
    store.fetch(newest_of(store), target, token=2, before=0)
    linked = [path for path in target.rglob("*") if path.stat().st_ino in inodes]
    assert {path.suffix for path in linked} == {".log", ".run", ".json", ""}
    # What is appended to and what is written in place is not among them.
    assert not any(path.match("ranks/*") or path.match("hosts/*") for path in linked)
    assert len(linked) > 0.8 * len([path for path in target.rglob("*") if path.is_file()])


def test_only_what_is_new_is_uploaded(tmp_path, monkeypatch, shard):
    store = store_of("memory", tmp_path, monkeypatch)
    shard.ranks.add_many([(f"{n}.test", 1) for n in range(100_000)])
    shard.checkpoint()
    assert shard.publish(store) > 1_200_000
    shard.job.forget()
    for n in range(5):
        shard.crawl(30 * n)
        assert shard.save(store) < 30_000
    # Nor with the first checkpoint of the next holder, but for host records.
    other = adopted(store, tmp_path / "d1")
    other.crawl(300)
    hosts = (other.directory / "hosts/records.sqlite").stat().st_size
    assert other.save(store, token=2) < hosts + 30_000
    other.end()


def test_of_host_records_only_what_changed_is_uploaded(tmp_path, monkeypatch, shard):
    """Until that is more than there was: then all of them are copied again."""
    store = store_of("memory", tmp_path, monkeypatch)
    for n in range(5000):
        put(shard.records, f"h{n}.test", 1)
    shard.records.flush()
    all_of_them = shard.save(store)
    uploaded = []
    for n in range(2, 12):
        for host in range(1000):
            put(shard.records, f"h{host}.test", n)
        shard.records.domains.link(f"site{n}.test", ["a.test"])
        shard.records.flush()
        shard.records.database.resize(0 if n % 3 else 8192)  # stored, or only logged
        uploaded.append(shard.save(store))
        other = adopted(store, tmp_path / f"d{n}")
        assert [other.records.get(f"h{host}.test").pages for host in (0, 999, 1000)] == [n, n, 1]
        assert other.records.domains.find("a.test").in_degree == n - 1
        assert damage_of(other.records) == []
        other.end()
    assert all_of_them > 250_000
    assert [size > all_of_them / 2 for size in uploaded].count(True) == 1
    assert min(uploaded) < all_of_them / 3


def test_host_records_are_copied_again_where_it_is_not_known_what_changed(
    store, tmp_path, shard, living, adopt
):
    """By the next process, and after a publication that failed."""
    shard.save(store)
    pages = 0

    def change():
        nonlocal pages
        pages += 1
        put(shard.records, "a.test", pages)
        shard.records.flush()

    for how in ("process", "copy", "changes"):
        change()
        if how == "process":
            shard.end()
            shard = living()
        elif how == "copy":
            shard.records.database.copy_to(tmp_path, lambda: True, track_changes=True)
        else:
            shard.checkpoint()
            with pytest.raises(SupersededError):
                shard.publish(store, is_valid=lambda: False)
        change()
        shard.save(store)
        assert adopt(how).records.get("a.test").pages == pages


def test_the_store_is_not_much_larger_than_what_it_has(store, tmp_path, shard):
    sizes = []
    for n in range(40):
        shard.crawl(30 * n)
        for _ in range(15):
            shard.queue.pop()
        shard.save(store)
        newest = newest_of(store)
        pieces = [piece for found in newest.files.values() for piece in found]
        assert max(map(len, newest.files.values())) <= 64 + 2
        needed = sum({(one.name, one.start): one.size for one in pieces}.values())
        sizes.append(sum(map(len, objects_in(tmp_path).values())) / needed)
    # The last two checkpoints, host records in both, and the half of packs that is not needed.
    assert max(sizes) < 5


def test_a_checkpoint_says_by_whom_and_how_it_was_made(store, shard):
    assert store.find_newest(0) is None
    shard.save(store, token=4)
    shard.publish(store, token=4, released=True)
    newest = newest_of(store)
    assert (newest.shard, newest.key, newest.drone) == (0, (4, 1), "d1")
    assert newest.released
    assert store.find_newest(1) is None


# In its place


def test_a_directory_that_nobody_else_has_gone_on_from_is_opened_as_it_is(store, shard, living):
    shard.crawl(0)
    shard.save(store)
    shard.crawl(30)
    shard.checkpoint()
    shard.job.forget()
    taken = [*shard.taken]
    shard.crawl(60)
    saved = shard.contents()["ranks"]
    shard.end()
    newest = newest_of(store)
    for token in (2, 3):
        assert store.fetch(newest, shard.directory, token=token, before=token - 1) is None
    shard = living(taken=taken)
    assert shard.contents()["ranks"] == saved
    assert shard.knows(90)
    shard.save(store, token=3)


@each("how", "token", "newer", "no record")
def test_a_directory_that_is_behind_is_made_anew(store, shard, adopt, how):
    shard.save(store)
    shard.end()
    (shard.directory / "left over").touch()
    other = adopt()
    if how == "newer":
        other.crawl(0)
        other.save(store, token=2)
    if how == "no record":
        (shard.directory / "published.json").unlink()
    before = 1 if how == "no record" else 2
    assert store.fetch(newest_of(store), shard.directory, token=3, before=before) is not None
    assert not (shard.directory / "left over").exists()
    assert [path.name for path in shard.directory.parent.iterdir()] == ["00"]


# Deleting


def test_a_checkpoint_whose_object_is_gone_for_good_is_told(store, tmp_path, shard):
    shard.save(store)
    newest = newest_of(store)
    store._objects.delete([f"shards/00/{name}" for name in newest.objects])
    with refused("shards/00/1-1.json is damaged: one of its objects"):
        store.fetch(newest, tmp_path / "d1/shards/00", token=2, before=0)
    assert [*(tmp_path / "d1/shards").iterdir()] == []


# Leases


def test_nothing_is_published_when_the_lease_has_ended_meanwhile(store, shard, adopt):
    shard.crawl(0)
    shard.save(store)
    for last in range(2):
        asked = iter([True] * last)
        with pytest.raises(SupersededError):
            shard.save(store, is_valid=lambda asked=asked: next(asked, False))
        assert newest_of(store).key == (1, 1)
        adopt(f"d1{last}")


def test_a_shard_that_is_fetched_again_meanwhile_is_not_published_under_the_old_lease(
    tmp_path, monkeypatch, shard
):
    """By the same process, whose thread has not come to its end."""
    store = store_of("memory", tmp_path, monkeypatch, pack_bytes=PACK)
    shard.crawl(0)
    shard.save(store)
    old = newest_of(store)
    shard.crawl(30)
    shard.checkpoint()

    def fetched_again():
        store.fetch(old, shard.directory, token=3, before=2)
        return True

    with pytest.raises((SupersededError, OSError)):
        shard.publish(store, is_valid=fetched_again)
    assert store.find_newest(0) == old


# The hive


def test_the_facts_of_the_hive_are_those_of_the_first_drone(kind, tmp_path, monkeypatch):
    store = store_of(kind, tmp_path, monkeypatch)
    facts = store.enter(HiveFacts(shards=9, politeness_key="domain"), LIST + "b.test\n")
    assert (facts.shards, facts.politeness_key) == (FACTS.shards, "host")
    assert store.suffixes(facts) == LIST


def test_drones_that_found_a_hive_in_a_directory_at_once_agree(tmp_path):
    for n in range(10):
        url = str(tmp_path / f"{n}")
        together = threading.Barrier(8)

        def found(shards, url=url, together=together):
            store = CheckpointStore(url=url)
            together.wait()
            facts = store.enter(HiveFacts(shards=shards, politeness_key="host"), LIST)
            assert store.suffixes(facts) == LIST
            return facts

        with ThreadPoolExecutor(8) as drones:
            assert len({facts.shards for facts in drones.map(found, range(1, 9))}) == 1


def test_a_drone_shows_in_the_store_that_it_is_alive(store):
    seen = []
    for _ in range(3):
        store.beat("a-1", [3, 12])
        seen.append(store.heartbeats())
    assert all(found.keys() == {"a-1"} for found in seen)
    assert len({found["a-1"] for found in seen}) == 3
    assert {found["a-1"].partition(" ")[2] for found in seen} == {"3 12"}
    store.end_beats("a-1")
    store.end_beats("b-2")
    assert store.heartbeats() == {}


# Trouble


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_an_emptied_store_does_not_pass_for_a_new_one(store, shard, has_checkpoint):
    """With a checkpoint, which was written when the store had just been unmounted."""
    if has_checkpoint:
        shard.save(store)
    store._objects.delete(["hive.json"])
    for use in (
        lambda: store.find_newest(0),
        lambda: shard.save(store),
        lambda: store.beat("a-1", [0]),
        store.heartbeats,
        lambda: store.enter(FACTS, LIST, may_be_new=False),
    ):
        with refused(r"has no hive\.json: it is not mounted"):
            use()


def test_nothing_is_published_in_a_store_that_is_unmounted_meanwhile(store, shard):
    def unmount():
        store._objects.delete(["hive.json"])
        return True

    with refused(r"has no hive\.json: it is not mounted"):
        shard.save(store, is_valid=unmount)
    assert not [name for name in store._objects.names("shards/00") if name.endswith(".json")]


@cases(
    "url sentence",
    """
        nosuch://me:secret@a.test/x | HIVE_STORE nosuch://***@a.test/x must be a directory, or
        s3://bucket/x?key=secret
        | HIVE_STORE s3://bucket/x?key=*** cannot be used: Connection refused
        /proc/nowhere | "HIVE_STORE /proc/nowhere cannot be used: "
    """,
)
def test_a_store_that_cannot_be_reached_is_named_in_one_sentence(monkeypatch, url, sentence):
    for name, value in s3_environment(1).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ObjectStoreError) as caught:
        CheckpointStore(url=url).enter(FACTS, LIST)
    told = str(caught.value)
    assert told.startswith(sentence)
    assert "secret" not in told
    assert "\n" not in told


def test_a_crawl_that_cannot_go_on_without_the_store_names_it_alone(tmp_path):
    with pytest.raises(ObjectStoreError) as caught:
        CheckpointStore(url=str(tmp_path)).find_newest(0)
    assert disk_message(caught.value, tmp_path / "job") == (
        f"HIVE_STORE {tmp_path} has no hive.json: it is not mounted, or was emptied: fix that and "
        "run the same command again; nothing is lost."
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store with a checkpoint, the names of its files, and where to fetch it."""
    path = tmp_path_factory.mktemp("whole")
    store = CheckpointStore(url=str(path / "store"))
    store.enter(FACTS, LIST)
    shard = Living(path / "d0")
    shard.crawl(0)
    shard.save(store)
    shard.end()
    folder = path / "store"
    files = [one.relative_to(folder) for one in folder.rglob("*") if one.is_file()]
    return store, folder, sorted(files, key=lambda one: len(str(one))), path / "d1"


def read_all(store, target):
    """What a drone reads that adopts the shard 0."""
    store.suffixes(store.enter(FACTS, LIST))
    store.fetch(newest_of(store), target / "shards/00", token=2, before=0)


@given(data=st.data())
@settings(max_examples=150)
def test_each_flipped_bit_is_found_and_told_with_its_place(data, whole):
    store, folder, files, target = whole
    name = data.draw(st.sampled_from(files))
    text = (folder / name).read_bytes()
    bit = data.draw(st.integers(0, 8 * len(text) - 1))
    with (
        changed_file(folder / name, flipped(text, bit // 8, 1 << bit % 8)),
        refused("^.* is damaged: .*$") as caught,
    ):
        read_all(store, target)
    shutil.rmtree(target, ignore_errors=True)
    assert f"{name} is damaged: " in str(caught.value)


@contextlib.contextmanager
def changed_file(path, data):
    """With *data* in the place of what the file, of which there may be links, has."""
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


def resealed(text, *changes):
    """The sealed *text* with *changes*, as one who writes to the store makes it."""
    body = text.rpartition(b',"digest":')[0]
    for old, new in changes:
        assert old in body
        body = body.replace(old, new)
    return b'%b,"digest":"%b"}' % (body, xxh3_128_hexdigest(body).encode())


@cases(
    "name",
    r"""
        ../../../outside
        /etc/hostname
        a/../../b
        ..
        a\u0000
    """,
)
def test_no_name_in_a_checkpoint_leads_out_of_the_store_or_the_shard(whole, name):
    store, folder, _, target = whole
    (folder.parent / "outside").write_bytes(b"secret")
    path = folder / "shards/00/1-1.json"
    text = path.read_bytes()
    first = newest_of(store).files["CURRENT"][0].name.encode()
    for change, told in (
        ((b'"CURRENT"', f'"{name}"'.encode()), "it names the file"),
        ((b'"CURRENT"', b'"seen"'), "it names the file 'seen/"),
        ((b'"%b"' % first, f'"{name}"'.encode()), "is not a valid object name"),
    ):
        with changed_file(path, resealed(text, change)), refused(told):
            read_all(store, target)
        assert not target.exists() or [*(target / "shards").iterdir()] == []
    shutil.rmtree(target, ignore_errors=True)
    facts = (folder / "hive.json").read_bytes()
    change = (b'"suffixes-', f'"{name}'.encode())
    with (
        changed_file(folder / "hive.json", resealed(facts, change)),
        refused("is not a valid object name"),
    ):
        read_all(store, target)
    with refused("is not a valid object name"):
        store.end_beats(name)


def test_a_later_format_and_another_checkpoint_are_refused(whole):
    store, folder, _, _ = whole
    path = folder / "shards/00/1-1.json"
    text = path.read_bytes()
    for data, told in (
        (resealed(text, (b'"format":5', b'"format":6')), "use the newer webcrawl that wrote it"),
        (resealed(text, (b'"shard":0', b'"shard":1')), "it contains another checkpoint"),
        (resealed(text, (b'"token":1', b'"token":"1"')), "1-1.json is damaged"),
        (text.rpartition(b',"digest"')[0] + b"}", "it has no checksum"),
        (b'{"format":1,"shard":"x"}', "1-1.json is damaged"),
        (b'{"format":' + b"[" * 100_000 + b"}", "1-1.json is damaged"),
        (b"{}", "1-1.json is damaged"),
        (b"[1]", "has checkpoints of shard 0 that cannot be read"),
    ):
        with changed_file(path, data), refused(told):
            store.find_newest(0)


def test_a_store_of_before_checksums_is_read_and_gets_them(whole):
    store, folder, _, target = whole
    path = folder / "shards/00/1-1.json"
    text = path.read_text().rpartition(',"digest"')[0].replace('"format":5', '"format":1') + "}"
    old = re.sub(r'(\["1-[0-9a-f-]+",0,\d+,)"[0-9a-f]{32}"', r"\1null", text)
    facts = b'{"format":1,"shards":4,"politeness_key":"host","born":"","suffixes":"%b"}'
    name = store.enter(FACTS, LIST).suffixes.encode()
    with changed_file(path, old.encode()), changed_file(folder / "hive.json", facts % name):
        read_all(store, target)
        shard = Living(target)
        shard.save(store, token=2)
        shard.end()
    newest = newest_of(store)
    assert all(one.checksum is not None for pieces in newest.files.values() for one in pieces)
    shutil.rmtree(target)


@pytest.mark.cures("and with it links that are stored nowhere else: restore it, or give up")
def test_an_older_checkpoint_than_an_acknowledged_one_is_refused(store, tmp_path, shard):
    for n in range(3):
        shard.crawl(30 * n)
        shard.save(store)
    shard.end()
    newest = store._objects.read("shards/00/1-3.json")
    store._objects.delete(["shards/00/1-3.json"])
    older, target = newest_of(store), tmp_path / "d1/shards/00"
    assert older.key == (1, 2)
    fetch = partial(store.fetch, older, token=2, before=1)
    with refused(r"has lost shards/00/1-3\.json, and with it links"):
        fetch(target, acknowledged=(1, 3))
    assert not target.exists()
    # The directory that goes on from it has all.
    assert fetch(shard.directory, acknowledged=(1, 3)) is None
    # What was not acknowledged is in outboxes.
    assert fetch(target, acknowledged=(1, 2)) is not None
    store._objects.write("shards/00/1-3.json", newest)
    shutil.rmtree(target)
    assert store.fetch(newest_of(store), target, token=2, before=1, acknowledged=(1, 3)).key == (
        1,
        3,
    )


@each("rest", 0, 1, 30, 50)
def test_half_a_checkpoint_is_none(store, tmp_path, shard, rest):
    """Where a protocol has no writes that are whole or not at all."""
    shard.save(store)
    shard.save(store)
    data = store._objects.read("shards/00/1-2.json")
    cut = len(data) - rest if rest else len(data) // 2
    store._objects.write("shards/00/1-2.json", data[:cut])
    assert newest_of(store).key == (1, 1)
    for _ in range(3):
        shard.save(store)
    names = [name.rpartition("/")[2] for name in objects_in(tmp_path)]
    assert sorted(name for name in names if name.endswith(".json")) == ["1-4.json", "1-5.json"]


@given(data=st.data())
def test_a_checkpoint_that_was_changed_is_refused_or_fetched(data, whole):
    """Whatever stands in it, also behind a good seal: a checkpoint, or one sentence."""
    store, folder, _, target = whole
    path = folder / "shards/00/1-1.json"
    text = path.read_bytes().rpartition(b',"digest":')[0]
    at = data.draw(st.integers(0, len(text) - 1))
    piece = data.draw(st.binary(max_size=6) | st.sampled_from([b"-1", b"1e9", b'"', b"null", b"/"]))
    text = text[:at] + piece + text[at + data.draw(st.integers(0, 6)) :]
    with changed_file(path, resealed(text + b',"digest":')), contextlib.suppress(OSError):
        newest = store.find_newest(0)
        if newest is not None:
            store.fetch(newest, target / "shards/00", token=2, before=0)
    assert {one.name for one in target.parent.iterdir()} <= {"store", "d0", "d1", "outside"}
    shutil.rmtree(target, ignore_errors=True)


def test_bodies_stay_until_they_are_read_or_for_their_time_or_to_the_end_of_the_crawl(
    kind, store, tmp_path, monkeypatch
):
    def is_there(name):
        return name in store._objects.names("bodies")

    read, kept, expired = (
        store.put_body(body, secs) for body, secs in ((b"a", 1000), (b"b", 1000), (b"c", -10))
    )
    assert (store.take_body(read), is_there(read)) == (b"a", False)
    with pytest.raises(FileNotFoundError):
        store.take_body(read)
    # Another drone stores one.
    own = CheckpointStore(url=url_of(kind, tmp_path, monkeypatch)).put_body(b"d", 1000)
    assert [*map(is_there, (kept, expired, own))] == [True, False, True]
    store.delete_bodies()
    assert not any(map(is_there, (kept, own)))


@each("content", b"", b"torn", b"of another one" * 2)
def test_a_body_that_is_torn_or_another_is_refused(store, content):
    name = store.put_body(b"torn body", 1000)
    store._objects.write(f"bodies/{name}", content)
    with refused("is damaged: checksum mismatch"):
        store.take_body(name)
    for foreign in ("../hive.json", "", "a/../../hive.json", "/hive.json"):
        with refused("is not a valid object name"):
            store.take_body(foreign)
    assert store.enter(FACTS, LIST).shards == FACTS.shards
