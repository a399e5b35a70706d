"""Both eliminators against a model, a list and a set, through merges, snapshots and deaths."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from seen_rig import (
    HeldExecutor,
    as_found_after_a_kill,
    bloom_eliminator,
    damage_of,
    disk_eliminator,
    submit,
)
from strategies import examples

from webcrawl.seen.fingerprint import fingerprint

URLS = [f"http://host{n % 3}.test/{n}" for n in range(60)]


class EliminatorMachine(RuleBasedStateMachine):
    """What the eliminator gave out must be, at all times, a beginning of what the model has; the
    model's *taken* is cut back to the published snapshot by a death, as the frontier's files are.
    """

    build = staticmethod(disk_eliminator)

    @initialize()
    def begin(self):
        self.root = Path(tempfile.mkdtemp(prefix="seen-model-"))
        self.lives = 0
        self.order = []  # URLs in the order in which they must come out
        self.seen = set()
        self.taken = 0
        self.published = None
        self.published_taken = 0
        self.unpublished = None
        self.path = self.root / "0"
        self.start()

    def start(self):
        self.worker = HeldExecutor()
        self.eliminator = self.build(self.path, self.worker)
        self.eliminator.open(self.published)

    @rule(urls=st.lists(st.sampled_from(URLS), max_size=14))
    def submit(self, urls):
        passed = submit(self.eliminator, urls)
        new = [url for url in dict.fromkeys(urls) if url not in self.seen]
        assert len(new) <= passed <= len(set(urls))
        self.order += new
        self.seen.update(new)

    @rule(url=st.sampled_from(URLS))
    def add(self, url):
        assert self.eliminator.add(fingerprint(url)) == (url not in self.seen)
        self.seen.add(url)

    @rule(url=st.sampled_from(URLS))
    def ask(self, url):
        if self.eliminator.certainly_seen(fingerprint(url)):
            assert url in self.seen

    @rule(limit=st.integers(1, 9))
    def take(self, limit):
        payloads = self.eliminator.take(limit)
        assert len(payloads) <= limit
        expected = self.order[self.taken : self.taken + len(payloads)]
        assert [payload.decode() for payload in payloads] == expected
        self.taken += len(payloads)

    @rule()
    def merge(self):
        self.eliminator.merge()

    @precondition(lambda self: len(self.worker))
    @rule()
    def let_the_worker_do_one_thing(self):
        self.worker.step()

    @rule()
    def let_everything_through(self):
        self.eliminator.merge()
        self.take(9)
        while self.worker.step():
            self.take(9)

    @rule()
    def take_a_snapshot(self):
        self.unpublished = self.eliminator.snapshot()
        self.eliminator.written()
        self.unpublished_taken = self.taken

    @precondition(lambda self: self.unpublished is not None)
    @rule()
    def publish_the_snapshot(self):
        self.published, self.unpublished = self.unpublished, None
        self.published_taken = self.unpublished_taken
        self.eliminator.forget()

    @rule()
    def die_and_come_back(self):
        self.lives += 1
        copy = as_found_after_a_kill(self.path, self.root / str(self.lives))
        self.stop()
        self.path, self.taken, self.unpublished = copy, self.published_taken, None
        self.start()

    @rule()
    def end_and_come_back(self):
        self.take_a_snapshot()
        self.publish_the_snapshot()
        self.stop()
        self.start()

    def stop(self):
        while self.worker.step():
            pass
        self.eliminator.close()

    @invariant()
    def waiting_is_an_upper_bound_and_zero_only_at_the_end(self):
        assert self.eliminator.waiting >= len(self.order) - self.taken

    def teardown(self):
        while self.eliminator.waiting:
            self.eliminator.merge()
            while self.worker.step():
                pass
            self.take(5)
        assert self.taken == len(self.order)
        self.eliminator.take(1)
        while self.worker.step():
            self.eliminator.take(1)  # takes up what was done, and begins what is due
        assert damage_of(self.eliminator) == []
        for url in URLS:
            assert self.eliminator.add(fingerprint(url)) == (url not in self.seen)
        self.stop()
        shutil.rmtree(self.root)


class BloomMachine(EliminatorMachine):
    build = staticmethod(bloom_eliminator)


TestDiskEliminator = EliminatorMachine.TestCase
TestDiskEliminator.settings = examples(60, stateful_step_count=60)
TestBloomEliminator = BloomMachine.TestCase
TestBloomEliminator.settings = examples(25, stateful_step_count=40)
