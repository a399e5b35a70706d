"""What a duplicate URL eliminator does, however it finds out what was seen."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from disk import flip, full_disk
from seen_rig import damage_of, drain, names, publish, submit, unique

from webcrawl.seen.fingerprint import fingerprint, fingerprints
from webcrawl.storage.record_log import CorruptRecordError


class EliminatorContract:
    """Subclasses define ``make(path, executor=None)``: one so small that everything happens
    often, not open; without an executor its work is done before a call returns."""

    def make(self, path, executor=None):
        raise NotImplementedError

    @pytest.fixture
    def one(self, tmp_path):
        made = self.make(tmp_path / "seen")
        made.open(None)
        yield made
        made.close()

    def test_each_url_comes_out_once_in_first_seen_order(self, one):
        pages = [names(5), names(7, 3), names(3), names(40, 5), names(2, 44), names(50)]
        for page in pages:
            submit(one, page)
        assert drain(one) == unique(url for page in pages for url in page)
        assert not one.merging
        assert not one.is_full
        assert damage_of(one) == []

    def test_encode_is_called_only_for_what_may_be_new(self, one):
        called = []

        def encode(i):
            called.append(i)
            return b"%d" % i

        assert one.submit(fingerprints(["a", "b", "a", "c"]), encode) == 3
        assert one.submit(fingerprints(["c", "d"]), encode) == 1
        assert called == [0, 1, 3, 1]

    def test_payloads_are_any_bytes(self, one):
        payloads = [b"", b"\0" * 10, b"x" * 100_000]
        one.submit([1, 2, 3], lambda i: payloads[i])
        one.merge()
        assert one.take(1) + one.take(5) == payloads

    def test_when_encode_raises_nothing_of_the_page_was_taken_in(self, one):
        def encode(i):
            if i == 2:
                raise RuntimeError("no")
            return b"x"

        with pytest.raises(RuntimeError):
            one.submit(fingerprints(names(4)), encode)
        assert one.waiting == 0
        assert submit(one, names(4)) == 4
        assert drain(one) == names(4)

    def test_when_encode_raises_a_url_twice_in_the_page_is_not_lost(self, one):
        with pytest.raises(ZeroDivisionError):
            one.submit(fingerprints(["a", "b", "a"]), lambda i: b"%d" % (1 // (1 - i)))
        assert submit(one, ["a", "b"]) == 2

    def test_a_full_disk_raises_and_nothing_of_the_page_was_taken_in(self, one):
        submit(one, names(3))
        with full_disk(100):
            submit(one, names(8))
        with full_disk(100):
            one.add(fingerprint("added"))
        assert not one.certainly_seen(fingerprint("added"))
        assert submit(one, names(8)) == 5
        assert drain(one) == names(8)

    def test_a_damaged_log_is_raised(self, one, tmp_path):
        submit(one, names(3))
        submit(one, names(3, 3))
        flip(tmp_path / "seen/discovered-000001.log", 30)
        one.merge()
        with pytest.raises(CorruptRecordError, match="checksum"):
            one.take(10)

    def test_files_that_no_snapshot_needs_are_deleted(self, one, tmp_path):
        for first in range(0, 300, 10):
            submit(one, names(10, first))
            drain(one)
            publish(one)
        for _ in range(2):
            one.take(1)
            publish(one)
        assert len(list((tmp_path / "seen").iterdir())) < 8
        assert len(list((tmp_path / "seen").glob("*.log"))) < 5

    def test_real_threads_lose_nothing_and_repeat_nothing(self, tmp_path):
        pages = [names(40, 13 * n) for n in range(200)]
        out = []
        with ThreadPoolExecutor(max_workers=1) as executor:
            one = self.make(tmp_path, executor)
            one.open(None)
            for number, page in enumerate(pages):
                submit(one, page)
                out += one.take(64)
                if number % 50 == 0:
                    one.merge()
                    publish(one)
            while one.waiting:
                one.merge()
                out += one.take(64)
            assert [p.decode() for p in out] == unique(url for page in pages for url in page)
            assert damage_of(one) == []
            one.close()

    def test_close_may_be_called_again_and_before_open(self, tmp_path):
        self.make(tmp_path).close()
        one = self.make(tmp_path)
        one.open(None)
        one.close()
        one.close()
