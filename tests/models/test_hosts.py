"""Test of host records against a dict, with evictions, full disks, restarts and kills."""

import shutil
import tempfile
from pathlib import Path

from disk import file_size_limit
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from records_rig import PatientExecutor, damage_of, left_behind, put, records_in, save
from strategies import examples

HOSTS = st.integers(0, 7).map("h{}.test".format)
# The log's index has so many bytes from the beginning; with as many in the log itself, a limit of
# its present size is a full disk.
INDEX = 32_768


class RecordsMachine(RuleBasedStateMachine):
    """Model of host records. Memory has two records and two files, so most are evicted."""

    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.copies = 0
        self.path = self.directory / "hosts"
        self.serial = 0
        # What the crawl knows; what it knew when the batch under way was taken; what is on disk.
        self.facts = {}
        self.batch = None
        self.saved = {}
        # Batches since then that failed: each may be among the changes.
        self.failed = []
        self.copied = None
        self._start()

    def _start(self):
        self.executor = PatientExecutor()
        self.copied = None
        self.records = records_in(self.path, self.executor, size=2, robots_size=3)
        self.records.rests._size = 1
        self.records.open()
        # Half a KiB of log, which some of what is put fills at once.
        self.records.database.resize(1)
        self.records.put_robots("large", bytes(INDEX))
        save(self.records, self.executor)

    @rule(host=HOSTS)
    def put(self, host):
        self.serial += 1
        put(self.records, host, self.serial)
        self.facts["record", host] = self.serial

    @rule(host=HOSTS, size=st.sampled_from([0, 10, 500, 20_000]))
    def put_robots(self, host, size):
        self.serial += 1
        data = b"%d." % self.serial + bytes(size)
        self.records.put_robots(host, data)
        self.facts["robots", host] = data

    @rule(host=HOSTS)
    def put_rest(self, host):
        self.serial += 1
        self.records.rests.put(host, b"%d" % self.serial)
        self.facts["rest", host] = b"%d" % self.serial

    @rule(host=HOSTS)
    def get(self, host):
        assert self.records.get(host).pages == self.facts.get(("record", host), 0)
        assert self.records.robots(host) == self.facts.get(("robots", host))
        assert self.records.rests.get(host) == self.facts.get(("rest", host))

    @rule()
    def flush(self):
        self.records.flush()
        if self.batch is None and self.records.stats()["hosts/unsaved"]:
            self.batch = dict(self.facts)

    @rule(full=st.booleans())
    def the_executor_works(self, full):
        if full:
            log = self.path / "records.sqlite-wal"
            with file_size_limit(log.stat().st_size):
                self.executor.run()
        else:
            self.executor.run()
        if self.batch is None:
            return
        self.records._collect_result(wait=True)
        if self.records.failure is None:
            self.saved = self.batch
            self.failed.clear()
        else:
            self.failed.append(self.batch)
        self.batch = None

    @rule()
    def copy(self):
        self.copied = self._new_directory()
        self.copied.mkdir()
        self.records.database.copy_to(self.copied, lambda: True, track_changes=True)

    @precondition(lambda self: self.copied is not None)
    @rule()
    def open_the_copy_with_the_changes_since(self):
        changes = self.records.database.changes
        copy = left_behind(self.copied, self._new_directory())
        shutil.copy(changes.log.path, copy / changes.name)
        records = records_in(copy, PatientExecutor())
        records.open()
        assert self._found(records) in (self.saved, *self.failed)
        records.close()

    @rule()
    def restart(self):
        self.executor.run()
        self.records.close()
        self.saved = dict(self.facts)
        self.failed.clear()
        self.batch = None
        self._start()

    @rule(written=st.booleans())
    def kill(self, written):
        """Restore the files in another process; the batch may or may not have been written."""
        if written:
            self.executor.run()
        copy = left_behind(self.path, self._new_directory())
        self.executor.forget()
        self.records._future = None
        self.records.database.close()
        self.path = copy
        self._start()
        found = self._found(self.records)
        assert found == (self.batch if written and self.batch is not None else self.saved)
        self.facts = found
        self.saved = dict(found)
        self.failed.clear()
        self.batch = None

    def _new_directory(self):
        self.copies += 1
        return self.directory / f"copy{self.copies}"

    def _found(self, records):
        found = {}
        for host in map("h{}.test".format, range(8)):
            if pages := records.get(host).pages:
                found["record", host] = pages
            if (robots := records.robots(host)) is not None:
                found["robots", host] = robots
            if (rest := records.rests.get(host)) is not None:
                found["rest", host] = rest
        return found

    @invariant()
    def memory_is_bounded_and_nothing_is_lost_from_it(self):
        stats = self.records.stats()
        assert stats["hosts/records/memory"] <= 2
        assert stats["hosts/robots/memory"] <= 3
        assert stats["hosts/robots/bytes"] <= 600
        assert len(self.records.rests) <= 1
        unsaved = dict(self.records.rests.unsaved_items())
        for (kind, host), value in self.facts.items():
            if kind == "rest" and self.saved.get((kind, host)) != value:
                assert unsaved[host] == value

    def teardown(self):
        try:
            self.executor.run()
            assert damage_of(self.records) == []
            assert self._found(self.records) == self.facts
            self.records.close()
        finally:
            shutil.rmtree(self.directory)


RecordsMachine.TestCase.settings = examples(120, stateful_step_count=40)
TestRecords = RecordsMachine.TestCase
