"""`scrapy job check --convert`: Requests that an older webcrawl has pickled, wherever they wait."""

from __future__ import annotations

import contextlib
import pickle
import time
from fractions import Fraction

import pytest
import warm
from crawling import damage_in
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from webcrawl.crawl.builder import AgentBuilder
from webcrawl.crawl.lease.pickled_requests import PickledRequests
from webcrawl.crawl.lease.plain_requests import PLAIN, from_plain
from webcrawl.errors import FatalError
from webcrawl.frontier import Entry, encode
from webcrawl.hive.bus.messages import decode, encode_entry
from webcrawl.hive.bus.outbox import Outbox
from webcrawl.hive.store.store import CheckpointStore, HiveFacts
from webcrawl.hosts.records.database import Database
from webcrawl.jobs.check.convert import Conversion, Converted
from webcrawl.jobs.inspect.stopped_job import StoppedJob
from webcrawl.spiders.web import WebSpider

OBJECT = {"value": Fraction(1, 3)}


@contextlib.contextmanager
def opened(jobdir, *, publishes=True):
    """The shard of the job in *jobdir*, a drone's, and its outbox."""
    settings = Settings()
    settings.setmodule("webcrawl.settings")
    settings.update({"JOBDIR": str(jobdir)})
    crawler = Crawler(WebSpider, settings)
    state = AgentBuilder(crawler).state()
    (shard,) = state.shards
    outbox = Outbox(path=jobdir / "shards/00/outbox")
    shard.join("outbox", outbox)
    state.resources.job.open(spider="web")
    state.open()
    try:
        yield state, shard, outbox
        if publishes:
            StoppedJob(state, crawler).publish()
    finally:
        state.close(pytest.fail)
        state.resources.job.close()


def entry(number, **meta):
    """One as 1404b57 has written it, of a host of its own."""
    url = f"http://host{number}.test/"
    parts = Request(url, meta=meta, callback=None).to_dict() | {"callback": "parse"}
    return Entry(url, f"host{number}.test", kind="request", extra=pickle.dumps(parts, 4))


def fill(jobdir, *, odd=()):
    """A job with pickled Requests in its queues, its logs and its outbox; how many there are."""
    with opened(jobdir) as (_, shard, outbox):
        for number in range(5):
            shard.frontier.requeue(entry(number, n=number, **dict(odd)))
        shard.frontier.requeue(Entry("http://link.test/", "link.test"))
        shard.eliminator.submit([77], lambda _: encode(entry(5, n=5)))
        outbox.append(3, encode_entry(entry(6, n=6), 78))
        outbox.append_all([(3, encode_entry(entry(7, n=7), None), ())], barrier=True)
    with opened(jobdir) as (_, shard, outbox):
        shard.frontier.requeue(entry(8, n=8))
        shard.eliminator.submit([79], lambda _: encode(entry(9, n=9)))
        outbox.append(3, encode_entry(entry(10, n=10), 80))
    return 11


def waiting(jobdir):
    """All that the next start finds: URLs with the forms of their Requests, and of messages."""
    queued, sent, most = [], [], time.monotonic() + 20
    with opened(jobdir, publishes=False) as (state, shard, outbox):
        shard.seeds_are_known()
        while shard.may_bring and time.monotonic() < most:
            state.shards.drain()
            if lease := shard.acquire():
                queued.append((lease.entry.url, lease.entry.extra))
                shard.finish(lease, content=0)
                shard.frontier.release(lease.entry.host, rest=0.0)
        assert not shard.may_bring
        while batch := outbox.take(1 << 20):
            for one in batch:
                outbox.delivered(one, "1-1")
                message = decode(one.payload)
                sent.append((message.entry.url, message.entry.extra))
    return queued, sent


def convert(path, **options):
    conversion = Conversion(
        url=str(path / "store"),
        aside=path / "convert.tmp",
        pickled=PickledRequests(is_shared=True, **options),
    )
    return conversion.run()


def hive(path, *, released=True, **options):
    """A stopped hive of one shard in *path*; how many pickled Requests it has."""
    count = fill(path / "job", **options)
    store = CheckpointStore(url=str(path / "store"))
    store.found(HiveFacts(shards=2, politeness_key="host"), "")
    publish_in(store, path / "job", released=released)
    return count


def publish_in(store, jobdir, *, released):
    with contextlib.closing(Database(path=jobdir / "shards/00/hosts")) as hosts:
        store.publish(
            jobdir / "shards/00", shard=0, token=7, drone="d", released=released, hosts=hosts
        )


def adopted(path):
    """All that the next drone finds, see ``waiting``."""
    store = CheckpointStore(url=str(path / "store"))
    jobdir = path / "job"
    store.fetch(store.newest(0), jobdir / "shards/00", token=8, before=7)
    assert damage_in(jobdir) == []
    return waiting(jobdir)


def test_every_pickled_request_of_a_stopped_hive_gets_a_plain_form(tmp_path):
    count = hive(tmp_path)
    assert convert(tmp_path) == Converted(count, 0)
    queued, sent = adopted(tmp_path)
    # Each once, and no pickle is left but in the messages that targets refuse.
    assert sorted(url for url, _ in queued) == sorted(
        ["http://link.test/", *(f"http://host{n}.test/" for n in (0, 1, 2, 3, 4, 5, 8, 9))]
    )
    plain = [extra for _, extra in queued + sent if extra.startswith(PLAIN)]
    assert sorted(from_plain(one, Spider("web")).meta["n"] for one in plain) == [*range(count)]
    assert [extra for _, extra in queued if extra and not extra.startswith(PLAIN)] == []
    assert sum(not extra.startswith(PLAIN) for _, extra in sent) == 3


def test_what_has_no_plain_form_is_left_or_signed(tmp_path):
    count = hive(tmp_path, odd=OBJECT.items())
    assert convert(tmp_path) == Converted(count - 5, 5)
    # With the messages that are still to be refused.
    assert convert(tmp_path, key=bytes(32)) == Converted(5 + 3, 0)
    queued, _ = adopted(tmp_path)
    pickled = PickledRequests(is_shared=True, key=bytes(32))
    signed = [extra for _, extra in queued if extra.startswith(b"signed/")]
    found = [pickled.load(extra, is_own=False)["meta"]["value"] for extra in signed]
    assert found == [Fraction(1, 3)] * 5
    assert len(queued) == 9


def test_the_command_says_what_it_has_done(tmp_path):
    hive(tmp_path, odd=OBJECT.items())
    done = warm.scrapy("job", "check", "--convert", tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "Pickled Requests: 6 converted, 5 left.",
        "These have no plain form: name a HIVE_KEY_FILE to have them signed.",
    ]
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    done = warm.scrapy("job", "check", "--convert", "-s", f"HIVE_KEY_FILE={key}", tmp_path)
    assert (done.returncode, done.stdout) == (0, "Pickled Requests: 8 converted, 0 left.\n")


def test_a_hive_that_was_not_stopped_is_not_converted(tmp_path):
    with pytest.raises(FatalError, match=r"cannot be converted: HIVE_STORE .* has no hive\.json"):
        convert(tmp_path)
    hive(tmp_path, released=False)
    with pytest.raises(FatalError, match="The shard 0 of this hive was not given back"):
        convert(tmp_path)
