"""A shard of a hive with parts of each kind of file, in one process after another; its store."""

import errno
import os
from unittest.mock import patch

from disk import item
from fifo_part import FifoPart
from obstore.store import MemoryStore
from records_rig import damage_of, records_in
from seen_rig import InlineExecutor, disk_eliminator

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.hive.store import upload
from webcrawl.hive.store.store import CheckpointStore, HiveFacts
from webcrawl.hosts.records import HostRecord
from webcrawl.seen.fingerprint import fingerprints
from webcrawl.storage import object_store
from webcrawl.storage.fifo import read_fifo
from webcrawl.storage.record_log import unpack_many

FACTS = HiveFacts(shards=4, politeness_key="host")
LIST = "// ===BEGIN ICANN DOMAINS===\ntest\n"
KINDS = ("links", "copies", "memory")
# Buckets in the memory of this process, by name.
_BUCKETS = {}


def store_of(kind, path, patch, *, pack_bytes=upload.PACK_BYTES):
    """A founded store: in a directory of the same file system, in one of another, or elsewhere."""
    url = url_of(kind, path, patch)
    if kind == "copies":
        patch.setattr(os, "link", _across(path / "store", os.link))
    store = CheckpointStore(url=url)
    patch.setattr(upload, "PACK_BYTES", pack_bytes)
    store.enter(FACTS, LIST)
    return store


def url_of(kind, path, patch):
    """The address of a store at *path*; of a bucket in memory, if it is of this kind."""
    if kind != "memory":
        return str(path / "store")
    patch.setattr(object_store, "_bucket_of", lambda _, name, __: _BUCKETS[name])
    name = path.as_posix().replace("/", "-")
    _BUCKETS.setdefault(name, MemoryStore())
    return f"s3://{name}/a/store"


def _across(store, link):
    """A link between *store* and what is outside of it is one between file systems."""

    def across(old, new):
        if old.is_relative_to(store) != new.is_relative_to(store):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        link(old, new)

    return across


def objects_in(path):
    """All that the store of ``store_of`` holds of shards."""
    folder = path / "store/shards"
    found = {str(one): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
    return found | objects_in_bucket(path, "a/store/shards")


def objects_in_bucket(path, prefix=""):
    """What the bucket in memory that ``url_of`` has made for *path* holds, by name."""
    bucket = _BUCKETS.get(path.as_posix().replace("/", "-"), MemoryStore())
    names = [one["path"] for page in bucket.list(prefix) for one in page]
    return {name: bytes(bucket.get(name).bytes()) for name in names}


def newest_of(store):
    """The newest checkpoint, of which there is one."""
    return store.find_newest(0)


def adopted(store, path, *, token=2, taken=()):
    """The newest checkpoint, in the job directory *path*, open."""
    store.fetch(newest_of(store), path / "shards/00", token=token, before=0)
    return Living(path, taken)


class Living:
    """The shard 00 in the job directory *path*, in one process."""

    def __init__(self, path, taken=()):
        self.executor = InlineExecutor()
        self.job = Job(path=path)
        self.job.open()
        self.state = self.job.shard("00")
        self.state.facts = {"seed": self.job.seed}
        self.directory = self.state.path
        self.queue = FifoPart(self.job).queue
        self.seen = disk_eliminator(
            self.directory / "seen", buffer_size=40, log_file_bytes=2000, executor=self.executor
        )
        self.seen.open(self.state.saved_snapshot("seen"))
        self.ranks = HostRanks(path=self.directory / "ranks")
        self.ranks.open(self.state.saved_snapshot("ranks"))
        self.state.attach("seen", self.seen)
        self.state.attach("ranks", self.ranks)
        self.records = records_in(self.directory / "hosts", self.executor)
        self.records.open()
        #: What came out of the eliminator, by way of checkpoints too.
        self.taken = [*taken]

    def crawl(self, start, count=30):
        """Find so many URLs, hosts and ranks, numbered from *start* on."""
        urls = [item(n) for n in range(start, start + count)]
        self.queue.push_many(urls)
        for _ in range(min(len(self.queue), count // 2)):
            self.queue.pop()
        self.seen.submit(fingerprints([url.decode() for url in urls]), urls.__getitem__)
        self.taken += self.seen.take(count)
        self.ranks.add_many([(f"h{n}.test", n + 1) for n in range(start, start + count)])
        self.records.put(HostRecord(f"h{start}.test", pages=1))
        self.records.flush()

    def checkpoint(self):
        """Publish it locally; ``forget`` is to follow."""
        self.job.publish(self.job.prepare({}))

    def contents(self):
        """What has to be there again."""
        pieces = read_fifo(self.queue.path, self.queue.snapshot())
        queue = [one for piece in pieces for one in unpack_many(piece)]
        return {"queue": queue, "ranks": [self.ranks.rank(f"h{n}.test") for n in range(600)]}

    def knows(self, end):
        """Whether the URLs below *end* are all that come out of the eliminator, each once, and the
        records of their hosts are there."""
        urls = [item(n) for n in range(end)]
        self.seen.submit(fingerprints([url.decode() for url in urls]), urls.__getitem__)
        while more := self.seen.take(1000):
            self.taken += more
        hosts = [self.records.get(f"h{n}.test").pages for n in range(0, end, 30)]
        return sorted(self.taken) == urls and all(hosts) and damage_of(self.records) == []

    def publish(self, store, *, token=1, drone="d1", released=False, **options):
        """Publish the live checkpoint to *store*; the bytes uploaded."""
        with patch.object(store._objects, "write", wraps=store._objects.write) as write:
            store.publish(
                self.directory,
                shard=0,
                token=token,
                drone=drone,
                released=released,
                **{"hosts": self.records.database, **options},
            )
        written = [call.args for call in write.call_args_list]
        return sum(len(data) for name, data in written if not name.endswith(".json"))

    def save(self, store, *, token=1, **options):
        """A whole checkpoint: here, there, and then what it does not name is deleted."""
        self.checkpoint()
        uploaded = self.publish(store, token=token, **options)
        self.job.forget()
        return uploaded

    def end(self):
        """As ``kill -9`` leaves it."""
        self.seen.close()
        self.ranks.close()
        self.records.close()
        self.job.close()
