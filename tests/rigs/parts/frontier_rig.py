"""Test rig of a frontier: its clock, published snapshot, crashes and restarts."""

import itertools
import random
import shutil

from records_rig import PatientExecutor, records_in, save

from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    Frontier,
    FrontierParts,
    FrontierPolicies,
    FrontierSizes,
    GeometricSelector,
    LargestDelay,
    encode,
)
from webcrawl.frontier.delay_policy import cut_off
from webcrawl.frontier.domain_share import DomainShares
from webcrawl.frontier.view import FrontierView

POLICY = LargestDelay(factor=10.0, floor=3.0, ceiling=120.0)


def entry(host, serial=0, *, depth=0, rank=1):
    """Return an entry of *host*; another *serial* makes another URL."""
    return Entry(f"http://{host}/{serial}", host, depth, rank)


class Rig:
    """A process around its frontier. All rigs share *clock*.

    With *remembered*, so many rests are kept in memory and the others in host records, which are
    written when ``save_rests`` is called.
    """

    def __init__(
        self,
        path,
        clock,
        *,
        queues=8,
        max_queues=1000,
        slice_size=64,
        levels=8,
        selector=None,
        opened=True,
        remembered=None,
        delay=POLICY,
        shares=DomainShares,
    ):
        self.path = path
        self.clock = clock
        self.published = None
        self.encode_more = lambda: None
        self.notes = []
        #: How long hosts rest after what is not known, see `FrontierPolicies`.
        self.unknown = {}
        self._options = {
            "queues": queues,
            "max_queues": max_queues,
            "slice_size": slice_size,
        }
        self._delay = delay
        if remembered is not None:
            self._options["remembered"] = remembered
        self.records = None
        self.executor = PatientExecutor()
        self._spills = remembered is not None
        self._records_path = path.with_name(path.name + "-hosts")
        self._levels = levels
        self._shares = shares
        self._selector = selector or GeometricSelector(rng=random.Random(7))
        # What a power failure would leave: contents that were synced, and names whose directory
        # was. A file is there afterwards when both its content and all names on its path are.
        self._synced = {}
        self._named = set()
        self.frontier = self._new()
        if opened:
            self.frontier.open(None)

    def _new(self):
        if self._spills:
            self.executor = PatientExecutor()
            self.records = records_in(self._records_path, self.executor)
            self.records.rests._size = 2
            self.records.open()
        return Frontier(
            FrontierParts(
                rests=None if self.records is None else self.records.rests,
                path=self.path,
                clock=self.clock,
                policies=FrontierPolicies(
                    prioritizer=DepthRankPrioritizer(levels=self._levels),
                    selector=self._selector,
                    delay=self._delay,
                    **self.unknown,
                ),
                sizes=FrontierSizes(**self._options),
                shares=self._shares(),
            )
        )

    def save_rests(self):
        """Save rests, as the crawl does each second and the disk later."""
        save(self.records, self.executor)

    def push(self, *entries):
        self.frontier.push([encode(entry) for entry in entries])

    def fill(self, host, count, *, start=0):
        """Push *count* URLs of *host*, numbered from *start*."""
        self.push(*(entry(host, n) for n in range(start, start + count)))

    def spread(self, count):
        """Push one URL for each of *count* hosts."""
        self.push(*(entry(f"h{n}.test", n) for n in range(count)))

    def publish(self):
        """Make a complete checkpoint."""
        self.prepare()()

    def prepare(self):
        """A checkpoint up to the fsync; what is returned publishes it. What ``encode_more`` has not
        encoded by then is encoded then."""
        pieces = self.frontier.parts.snapshot()
        encoded = []
        self.encode_more = lambda: encoded.extend(itertools.islice(pieces, 1))
        for path in self.frontier.parts.written():
            if path.is_dir():
                self._named.update(path.iterdir())
            elif path.exists():
                self._synced[path] = path.read_bytes()

        def publish():
            self.published = b"".join([*encoded, *pieces])
            self.frontier.parts.forget()

        return publish

    def lose_what_was_not_synced(self):
        """Simulate a power failure: the files become what the last fsyncs guaranteed."""
        for path in [path for path in self.path.rglob("*") if path.is_file()]:
            names = [path, *path.parents]
            names = names[: names.index(self.path) + 1]
            if path in self._synced and self._named.issuperset(names):
                path.write_bytes(self._synced[path])
            else:
                path.unlink()
        if self._spills:
            self._lose_rests_that_were_not_synced()

    def _lose_rests_that_were_not_synced(self):
        """Lose the unsynced rests; SQLite syncs its file itself, but not the log."""
        wal = self._records_path / "records.sqlite-wal"
        for file in self._records_path.iterdir():
            if file.name != "records.sqlite":
                file.unlink()
        if self._records_path not in self._named:
            shutil.rmtree(self._records_path)
        elif wal in self._synced and wal in self._named:
            wal.write_bytes(self._synced[wal])

    def kill(self):
        """Kill the process: its memory is lost, and nothing more is written."""
        self.frontier._log._waiting.clear()
        self.frontier.close()
        if self.records is not None:
            self._kill_records(self.records)

    def _kill_records(self, records):
        """Keep the files as they are; the last connection would move the log into the file."""
        left = {file: file.read_bytes() for file in self._records_path.iterdir()}
        self.executor.forget()
        records.database.close()
        for file, data in left.items():
            file.write_bytes(data)

    def close(self):
        """End cleanly."""
        self.frontier.close()
        if self.records is not None:
            self.executor.run()
            self.records.close()

    def start(self, *, trust_done=True, on_done=None):
        """Start a new process from the published snapshot and the files as they are."""
        self.frontier = self._new()
        self.notes = []
        self.frontier.open(
            self.published, trust_done=trust_done, on_done=on_done or self.notes.append
        )
        return self.frontier

    def crash(self):
        """Simulate ``kill -9`` and an immediate restart."""
        self.kill()
        return self.start()

    def reboot(self, *, lost=False):
        """Simulate a power failure, after which finished entries are not trusted.

        With *lost* everything that was not synced is gone; without, it happens to be there.
        """
        self.kill()
        if lost:
            self.lose_what_was_not_synced()
        return self.start(trust_done=False)

    def __getattr__(self, name):
        """Look up everything else on the frontier, or on its leases."""
        frontier = self.frontier
        return getattr(frontier if hasattr(frontier, name) else frontier.leases, name)

    def stat(self, name):
        return self.frontier.stats()[f"frontier/{name}"]

    def refill_all(self):
        """Move entries to the back end until no queue has room."""
        while self.frontier.refill(64):
            pass

    def next(self):
        """Acquire, moving the clock to the frontier's ``ready_at`` while there is one."""
        while True:
            lease = self.frontier.acquire()
            if lease is not None:
                return lease
            ready_at = self.frontier.ready_at()
            if ready_at is None:
                return None
            self.clock.now = max(self.clock.now, ready_at)

    def release(
        self,
        host,
        *,
        fetched=True,
        took=0.0,
        at_least=0.0,
        shared_rest=None,
    ):
        """Release *host* as the crawler does: by the policy, or as the host asked."""
        rest = max(cut_off(POLICY, took), at_least) if fetched else at_least
        min_rest = at_least if fetched else None
        self.frontier.contacts.release(host, rest=rest, min_rest=min_rest, shared_rest=shared_rest)

    def fetch(self, lease, *, took=0.1, note=b""):
        """Download and process the entry: release its host, then finish it."""
        self.release(lease.entry.host, took=took)
        self.frontier.leases.finish(lease, note=note)

    def view(self, *, trust_done=True):
        """Return a view of the published snapshot and of the files written since."""
        return FrontierView(path=self.path, snapshot=self.published, trust_done=trust_done)

    def entries(self, *, trust_done=True):
        """Return all entries of a view, read from the files."""
        view = self.view(trust_done=trust_done)
        return [*view.entries(view.finished_keys())]

    def drain(self):
        """Fetch until nothing is left; return the entries in the order they were handed out."""
        out = []
        while (lease := self.next()) is not None:
            self.fetch(lease)
            out.append(lease.entry)
        assert len(self.frontier) == 0
        return out


def urls_of(entries):
    """Return the URLs sorted, to compare what came out with what went in."""
    return sorted(entry.url for entry in entries)
