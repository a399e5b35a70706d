"""Seed lists: every format people bring, every way a file can be broken, and the saved cursor."""

from __future__ import annotations

import csv
import gzip
import io
import os
import random
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.crawl.seeds import SeedReader, SeedsError, line_reader, seed_line, split_sources
from webcrawl.crawl.seeds.line_reader import MAX_LINE_BYTES
from webcrawl.crawl.seeds.seed_line import BadLine, parse_line
from webcrawl.crawl.seeds.seed_reader import SPOOL_NAME

PIECES = "a b - 9 0x . .. xn-- é rank 7, , # @ http:// https:// HTTP:// ftp: / // : 80 8080 65000"
TOP1M = Path(__file__).parents[3] / "seeds" / "top1m.csv"


@contextmanager
def reading(*sources, spool, snapshot=None, stdin=b""):
    reader = SeedReader(sources=list(map(str, sources)), spool_dir=spool, stdin=io.BytesIO(stdin))
    try:
        reader.open(snapshot)
        yield reader
    finally:
        reader.close()


def drain(reader, limit=3):
    seeds = []
    while not reader.exhausted:
        batch = reader.read(limit)
        assert len(batch) <= limit
        seeds += batch
    assert reader.read(limit) == []
    return seeds


def refusal(*sources, **options):
    """The sentence with which these sources are refused."""
    with pytest.raises(SeedsError) as caught, reading(*sources, **options):
        pass
    return str(caught.value)


def seeds_of(path, **options):
    with reading(path, spool=path.parent, **options) as reader:
        return drain(reader)


@pytest.fixture
def write(tmp_path):
    def write(content, name="seeds.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


class TestNames:
    """What ``seeds=`` names besides files."""

    def test_urls_domains_files_and_standard_input_may_be_mixed(self, tmp_path, write):
        path = write(b"5,c.com\n")
        names = split_sources(f"https://a.com/x?y=1, b.co.uk,{path},-,d.com:8080/z,b.co.uk")
        with reading(*names, spool=tmp_path, stdin=b"e.com") as reader:
            seeds = drain(reader)
        assert [seed.url for seed in seeds] == [
            *("https://a.com/x?y=1", "http://b.co.uk/", "http://c.com/", "http://e.com/"),
            "http://d.com:8080/z",
        ]

    def test_a_mistyped_file_is_no_domain_and_a_file_goes_before_one(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "b.com").write_bytes(b"in-the-file.com\n")
        assert [seed.url for seed in seeds_of(Path("b.com"))] == ["http://in-the-file.com/"]
        for name in ("hosts.txt", "seeds/top1m.csv", "localhost", "x" * 5000):
            assert f"Cannot read the seeds in {name}" in refusal(name, spool=tmp_path)
        assert "It is no URL or known domain either" in refusal("hosts.txt", spool=tmp_path)
        assert "not a URL this crawler fetches" in refusal("http://[x", spool=tmp_path)

    def test_a_cursor_of_a_url_is_kept_and_other_seeds_are_said(self, tmp_path, caplog):
        with reading("http://a.com/", spool=tmp_path) as reader:
            drain(reader)
            saved = reader.snapshot()
        with reading("http://a.com/", spool=tmp_path, snapshot=saved) as reader:
            assert reader.exhausted
        assert "other seeds" not in caplog.text
        with reading("b.com", spool=tmp_path, snapshot=saved) as reader:
            assert [seed.url for seed in drain(reader)] == ["http://b.com/"]
        assert "This crawl was begun with other seeds; added to it: b.com." in caplog.text


class TestLine:
    @pytest.mark.parametrize(
        ("text", "url", "rank"),
        [
            (b"1,example.com", "http://example.com/", 1),
            (b" 17 , example.com ", "http://example.com/", 17),
            (b'"2","example.com"', "http://example.com/", 2),
            (b'3,"https://example.com/a,b"', "https://example.com/a,b", 3),
            (b"4,https://example.com/a,b", "https://example.com/a,b", 4),
            (b"5,example.com\r", "http://example.com/", 5),
            (b"0,example.com", "http://example.com/", 0),
            (b"example.com", "http://example.com/", None),
            (b"EXAMPLE.com:80", "http://example.com/", None),
            (b"example.com:8080/x?y=1#z", "http://example.com:8080/x?y=1", None),
            (b"//example.com/x", "http://example.com/x", None),
            (b"https://example.com/?u=http://other.test/", None, None),
            (b"http://example.com/a b", "http://example.com/a%20b", None),
            (b"http://example.com/#top", "http://example.com/", None),
            (b"example.com # my own", "http://example.com/", None),
            (b"example.com\t#my own", "http://example.com/", None),
            ("bücher.example".encode(), "http://xn--bcher-kva.example/", None),
            ("6,例え.テスト".encode(), "http://xn--r8jz45g.xn--zckzah/", 6),
            (b"\xef\xbb\xbfexample.com", "http://example.com/", None),
            (b"192.0.2.7", "http://192.0.2.7/", None),
            (b"[2001:db8::1]:8080", "http://[2001:db8::1]:8080/", None),
            (b"localhost", "http://localhost/", None),
        ],
    )
    def test_a_line_of_a_seed_list_gives_url_and_rank(self, text, url, rank):
        assert parse_line(text) == (url or text.decode(), rank)

    @pytest.mark.parametrize(
        "text",
        [b"", b"  \t\r", b"# comment", b"  # comment", b"rank,domain", b'"Rank","Domain"',
         b"\xef\xbb\xbfrank,domain\r"],
    )  # fmt: skip
    def test_line_may_hold_no_seed(self, text):
        assert parse_line(text) is None

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            (b"exam\0ple.com", "NUL byte"),
            (b"b\xfccher.example", "not UTF-8"),
            ("example.com\n".encode("utf-16"), "NUL byte"),
            (b"a" * (MAX_LINE_BYTES + 1), f"longer than {MAX_LINE_BYTES} bytes"),
            (b"17", "neither a domain nor a URL"),
            (b"17,", "neither a domain nor a URL"),
            (b",example.com", "neither a domain nor a URL"),
            (b"1,2,example.com", "neither a domain nor a URL"),
            (b"1;example.com", "neither a domain nor a URL"),
            (b"https://example.com,1000", "neither a domain nor a URL"),
            (b"99999999999,example.com", "neither a domain nor a URL"),
            (b"example.com other.example", "neither a domain nor a URL"),
            (b"someone@example.com", "neither a domain nor a URL"),
            (b"mailto:someone@example.com", "neither a domain nor a URL"),
            (b'"', "neither a domain nor a URL"),
            (b"http://", "neither a domain nor a URL"),
            (b"http:///", "neither a domain nor a URL"),
            (b"http://a.example/\rhttp://b.example/", "neither a domain nor a URL"),
            (b'1,"a"\rb', "new-line character seen in unquoted field"),
            (b"javascript:alert(1)", "not a URL this crawler fetches"),
            (b"example.com:99999", "not a URL this crawler fetches"),
            (b"http://[::1", "not a URL this crawler fetches"),
        ],
    )
    def test_bad_line_says_why(self, text, why):
        with pytest.raises(BadLine, match=f"^{why}"):
            parse_line(text)


class TestFormats:
    def test_ranks_come_from_the_column_or_else_from_the_line_number(self, write):
        path = write(b"rank,domain\n7,a.example\nb.example\n\n# none\nc.example\n")
        assert [(seed.url, seed.rank, seed.line) for seed in seeds_of(path)] == [
            ("http://a.example/", 7, 2),
            ("http://b.example/", 3, 3),
            ("http://c.example/", 6, 6),
        ]

    def test_seed_names_its_source_as_it_was_given(self, write, tmp_path, monkeypatch):
        write(b"a.example", "list.txt")
        monkeypatch.chdir(tmp_path)
        with reading("list.txt", spool=tmp_path) as reader:
            assert [seed.source for seed in drain(reader)] == ["list.txt"]

    @pytest.mark.parametrize("end", [b"\n", b"\r\n"])
    @pytest.mark.parametrize("last", [b"", b"end"])
    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
    def test_line_ends_and_byte_order_marks_make_no_difference(self, write, end, last, mark):
        path = write(mark + b"a.example" + end + b"b.example" + (end if last else b""))
        assert [seed.url for seed in seeds_of(path)] == ["http://a.example/", "http://b.example/"]

    def test_csv_of_the_standard_library_is_understood(self, write):
        text = io.StringIO()
        writer = csv.writer(text, quoting=csv.QUOTE_ALL)
        writer.writerow(["rank", "domain"])
        writer.writerow([1, "a.example"])
        writer.writerow([2, "http://b.example/x,y?q=%22"])
        assert [(seed.url, seed.rank) for seed in seeds_of(write(text.getvalue().encode()))] == [
            ("http://a.example/", 1),
            ("http://b.example/x,y?q=%22", 2),
        ]

    @pytest.mark.parametrize("name", ["seeds.gz", "seeds.csv"])
    def test_gzip_is_recognised_by_content(self, write, name):
        path = write(gzip.compress(b"a.example\n") + gzip.compress(b"b.example\n"), name)
        assert [seed.url for seed in seeds_of(path)] == ["http://a.example/", "http://b.example/"]

    def test_plain_text_named_gz_is_read_as_text(self, write):
        assert [seed.rank for seed in seeds_of(write(b"a.example\n", "seeds.gz"))] == [1]

    def test_sources_are_read_in_the_order_given(self, write, tmp_path):
        paths = [write(b"%d.example" % n, f"{n}.txt") for n in (3, 1, 2)]
        with reading(*paths, spool=tmp_path) as reader:
            assert [seed.url for seed in drain(reader)] == [
                "http://3.example/",
                "http://1.example/",
                "http://2.example/",
            ]

    def test_argument_is_split_at_commas_and_each_source_kept_once(self):
        assert split_sources("b.txt, a.csv.gz,,-,b.txt") == ["b.txt", "a.csv.gz", "-"]
        assert split_sources(" , ") == []


class TestBadLines:
    def test_bad_lines_are_counted_and_named_but_not_fatal(self, write, caplog):
        path = write(b"a.example\nno seed\nb.example\n\xff\n")
        with reading(path, spool=path.parent) as reader:
            assert len(drain(reader)) == 2
            assert (reader.seeds_read, reader.seeds_bad) == (2, 2)
        assert caplog.messages == [
            f"seeds: {path}:2: neither a domain nor a URL: b'no seed'",
            f"seeds: {path}:4: not UTF-8: b'\\xff'",
            f"seeds: {path}: 2 seeds, 2 bad lines of 4",
        ]

    def test_only_the_first_twenty_are_shown(self, write, caplog):
        path = write(b"a.example\n" + b"no seed\n" * 100)
        with reading(path, spool=path.parent) as reader:
            drain(reader)
            assert reader.seeds_bad == 100
        shown = [message for message in caplog.messages if "neither" in message]
        assert len(shown) == 20
        assert caplog.messages[20:] == [
            "seeds: further bad lines are only counted",
            f"seeds: {path}: 1 seed, 100 bad lines of 101",
        ]

    def test_long_line_is_shown_in_part(self, write, caplog):
        path = write(b"x " * 5000 + b"\na.example")
        assert len(seeds_of(path)) == 1
        assert len(caplog.messages[0]) < 300 + len(str(path))

    def test_endless_line_costs_one_bad_line_and_little_memory(self, write):
        path = write(b"a.example\n" + b"x" * (3 << 20) + b"\nb.example\n" + b"y" * (1 << 20))
        with reading(path, spool=path.parent) as reader:
            assert [(seed.url, seed.line) for seed in drain(reader)] == [
                ("http://a.example/", 1),
                ("http://b.example/", 3),
            ]
            assert reader.seeds_bad == 2

    def test_one_read_looks_at_no_more_lines_than_asked(self, write):
        path = write(b"#\n" * 1000 + b"a.example\n")
        with reading(path, spool=path.parent) as reader:
            assert reader.read(1000) == []
            assert not reader.exhausted
            assert [seed.line for seed in reader.read(1)] == [1001]


class TestBrokenSources:
    @pytest.mark.parametrize("content", [b"", b"\n\n", b"# nothing\n", b"rank,domain\n"])
    def test_list_without_seeds_is_refused(self, write, content):
        path = write(content)
        assert refusal(path, spool=path.parent) == f"No seed in {path}."

    def test_list_of_bad_lines_is_refused_with_the_first_of_them(self, write, tmp_path):
        first, second = write(b"# x\nno seed\n17\n", "a.txt"), write(b"\0", "b.txt")
        expected = f"No seed in {first}, {second} ({first}:2: neither a domain nor a URL)."
        assert refusal(first, second, spool=tmp_path) == expected

    def test_one_list_with_seeds_is_enough(self, write, tmp_path):
        with reading(write(b"", "a"), write(b"a.example", "b"), spool=tmp_path) as reader:
            assert len(drain(reader)) == 1

    def test_no_source_is_refused(self, tmp_path):
        assert refusal(spool=tmp_path).startswith("No seeds were named")

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("missing.txt", "No such file or directory"),
            ("directory", "Not a regular file"),
            ("pipe", "Not a regular file"),
            ("file/below", "Not a directory"),
            ("x" * 300, "File name too long"),
            ("a\0b", "embedded null"),  # the rest differs between Pythons
        ],
    )
    def test_source_that_cannot_be_read_is_refused(self, tmp_path, write, name, why):
        (tmp_path / "directory").mkdir()
        os.mkfifo(tmp_path / "pipe")
        write(b"a.example", "file")
        path = tmp_path / name
        said = refusal(path, spool=tmp_path)
        assert said.startswith(f"Cannot read the seeds in {path}: ")
        assert why in said

    def test_missing_list_is_refused_even_beside_a_good_one(self, tmp_path, write):
        assert "missing" in refusal(write(b"a.example"), tmp_path / "missing", spool=tmp_path)

    def test_gzip_cut_anywhere_gives_whole_lines_only(self, write, tmp_path):
        domains = [f"site{random.Random(n).random()}.example" for n in range(100)]
        whole = gzip.compress("\n".join(domains).encode())
        urls = [f"http://{domain}/" for domain in domains]
        lengths = set()
        for cut in range(30, len(whole)):
            path = write(whole[:cut], "cut.gz")
            try:
                with reading(path, spool=tmp_path) as reader:
                    got = [seed.url for seed in drain(reader)]
                    assert reader.seeds_bad == 1
            except SeedsError as error:
                assert "Compressed file ended before" in str(error)  # noqa: PT017 - most cuts do not raise
                got = []
            assert got == urls[: len(got)]
            assert len(got) < len(urls)
            lengths.add(len(got))
        assert len(lengths) > 50

    @pytest.mark.parametrize(
        ("damage", "why"),
        [
            (lambda data: data[:-8] + b"\0" * 4 + data[-4:], "CRC check failed"),
            (lambda data: data[:5000] + b"\xff" * 50 + data[5050:], "invalid"),
            (lambda data: data + b"trailing", "Not a gzipped file"),
        ],
    )
    def test_damaged_gzip_ends_its_source_and_the_next_is_read(
        self, write, tmp_path, caplog, damage, why
    ):
        numbers = random.Random(1)
        content = b"".join(b"%d.example\n" % numbers.getrandbits(60) for _ in range(1000))
        broken = write(damage(gzip.compress(content)), "broken.gz")
        good = write(b"good.example")
        with reading(broken, good, spool=tmp_path) as reader:
            urls = [seed.url for seed in drain(reader)]
            snapshot = reader.snapshot()
            assert reader.seeds_bad == 1
        assert urls[-1] == "http://good.example/"
        # Named at the start, before a seed is read, and again by who goes on.
        assert why in caplog.messages[0]
        caplog.clear()
        with reading(broken, good, spool=tmp_path, snapshot=snapshot) as reader:
            assert reader.exhausted
            assert caplog.messages == [f"seeds: {clause}" for clause in reader.damaged]
            assert len(reader.damaged) == 1

    def test_damage_far_behind_the_start_is_named_when_it_is_met(
        self, write, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(line_reader, "CHECKED_BYTES", 1 << 10)
        monkeypatch.setattr(line_reader, "SKIP_BYTES", 1 << 10)
        content = b"".join(b"%d.example\n" % number for number in range(10_000))
        with reading(write(gzip.compress(content)[:-9], "cut.gz"), spool=tmp_path) as reader:
            assert reader.damaged == []
            drain(reader)
            assert "end-of-stream marker" in reader.damaged[0]

    def test_source_that_vanishes_is_left_and_tried_again_by_the_next_run(
        self, write, tmp_path, caplog
    ):
        first, second = write(b"a.example", "a"), write(b"b.example", "b")
        with reading(first, second, spool=tmp_path) as reader:
            status = first.stat()
            first.unlink()
            assert [seed.url for seed in drain(reader)] == ["http://b.example/"]
            snapshot = reader.snapshot()
        assert f"seeds: cannot read on in {first}: No such file or directory" in caplog.messages
        write(b"a.example", "a")
        os.utime(first, ns=(status.st_atime_ns, status.st_mtime_ns))
        with reading(first, second, spool=tmp_path, snapshot=snapshot) as reader:
            assert [seed.url for seed in drain(reader)] == ["http://a.example/"]


class TestCursor:
    def test_reader_is_a_part_of_a_checkpoint_with_no_files_of_its_own(self, write, tmp_path):
        path = write(b"a.example")
        with reading(path, spool=tmp_path) as reader:
            drain(reader)
            assert reader.written() == []
            reader.forget()
        assert list(tmp_path.iterdir()) == [path]

    def test_list_may_be_removed_once_it_is_read(self, write, tmp_path):
        path = write(b"a.example\n")
        with reading(path, spool=tmp_path) as reader:
            drain(reader)
            snapshot = reader.snapshot()
        path.unlink()
        with reading(path, spool=tmp_path, snapshot=snapshot) as reader:
            assert reader.exhausted
            assert reader.snapshot() == snapshot

    def test_cursor_deep_in_gzip_is_reached_in_slices(self, write, tmp_path):
        path = write(gzip.compress(b"#" * 100 + b"\na.example\nb.example\n"))
        with small_bounds(1 << 10, 1 << 10), reading(path, spool=tmp_path) as reader:
            reader.read(2)
            snapshot = reader.snapshot()
        with (
            small_bounds(1 << 10, 1 << 10),
            reading(path, spool=tmp_path, snapshot=snapshot) as reader,
        ):
            assert [len(reader.read(2)) for _ in range(111 // 9)] == [0] * 12
            assert reader.snapshot() == snapshot
            assert [seed.line for seed in reader.read(2)] == [3]

    def test_list_that_vanished_half_read_is_refused(self, write, tmp_path):
        path = write(b"a.example\nb.example\n")
        with reading(path, spool=tmp_path) as reader:
            reader.read(1)
            snapshot = reader.snapshot()
        path.unlink()
        assert "No such file" in refusal(path, spool=tmp_path, snapshot=snapshot)

    def test_list_changed_since_is_read_from_its_start(self, write, tmp_path, caplog):
        path = write(b"a.example\nb.example\n")
        with reading(path, spool=tmp_path) as reader:
            drain(reader)
            snapshot = reader.snapshot()
        write(b"a.example\nb.example\nc.example\n")
        with reading(path, spool=tmp_path, snapshot=snapshot) as reader:
            assert len(drain(reader)) == 3
        assert f"seeds: {path} has changed, it is read again from its start" in caplog.messages

    def test_list_added_on_resume_is_read_and_the_others_continue(self, write, tmp_path):
        first, second = write(b"a.example\nb.example", "a"), write(b"c.example", "c")
        with reading(first, spool=tmp_path) as reader:
            reader.read(1)
            snapshot = reader.snapshot()
        with reading(second, first, spool=tmp_path, snapshot=snapshot) as reader:
            urls = [seed.url for seed in drain(reader)]
        assert urls == ["http://c.example/", "http://b.example/"]

    def test_crawl_resumed_in_another_directory_finds_its_place(self, write, tmp_path, monkeypatch):
        write(b"a.example\nb.example", "list")
        monkeypatch.chdir(tmp_path)
        with reading("list", spool=tmp_path) as reader:
            reader.read(1)
            snapshot = reader.snapshot()
        monkeypatch.chdir("/")
        with reading(tmp_path / "list", spool=tmp_path, snapshot=snapshot) as reader:
            assert [seed.line for seed in drain(reader)] == [2]

    def test_snapshot_of_a_newer_version_is_refused(self, write, tmp_path):
        path = write(b"a.example")
        with reading(path, spool=tmp_path) as reader:
            fields = msgspec.msgpack.decode(reader.snapshot())
        newer = msgspec.msgpack.encode({**fields, "version": 2})
        said = refusal(path, spool=tmp_path, snapshot=newer)
        assert "has format 2; this code knows 1" in said

    @pytest.mark.parametrize("garbage", [b"", b"\xff\xff", msgspec.msgpack.encode({"version": 1})])
    def test_damaged_snapshot_is_refused(self, write, tmp_path, garbage):
        said = refusal(write(b"a.example"), spool=tmp_path, snapshot=garbage)
        assert "cursor cannot be read" in said


class TestStandardInput:
    def test_resumed_crawl_reads_the_saved_input_and_not_the_new(self, tmp_path):
        spool = tmp_path / "job" / "seeds"
        with reading("-", spool=spool, stdin=b"a.example\nb.example\n") as reader:
            assert [(seed.url, seed.source) for seed in reader.read(1)] == [
                ("http://a.example/", "-")
            ]
            snapshot = reader.snapshot()
        with reading("-", spool=spool, snapshot=snapshot, stdin=b"other.example") as reader:
            assert [seed.url for seed in drain(reader)] == ["http://b.example/"]

    def test_run_killed_before_its_first_checkpoint_has_its_input_saved(self, tmp_path):
        with reading("-", spool=tmp_path, stdin=b"a.example\n"):
            pass
        with reading("-", spool=tmp_path) as reader:
            assert len(drain(reader)) == 1

    def test_input_killed_while_it_was_saved_is_not_taken_for_whole(self, tmp_path):
        (tmp_path / f"{SPOOL_NAME}.tmp").write_bytes(b"a.exam")
        with reading("-", spool=tmp_path, stdin=b"b.example\n") as reader:
            assert [seed.url for seed in drain(reader)] == ["http://b.example/"]
        assert [path.name for path in tmp_path.iterdir()] == [SPOOL_NAME]

    def test_gzip_on_standard_input_is_read(self, tmp_path):
        with reading("-", spool=tmp_path, stdin=gzip.compress(b"a.example")) as reader:
            assert len(drain(reader)) == 1

    def test_empty_input_is_refused_and_the_next_run_reads_its_own(self, tmp_path):
        assert refusal("-", spool=tmp_path) == "No seed in -."
        with reading("-", spool=tmp_path, stdin=b"a.example") as reader:
            assert len(drain(reader)) == 1

    def test_input_read_to_its_end_is_not_asked_for_again(self, tmp_path):
        with reading("-", spool=tmp_path, stdin=b"a.example") as reader:
            drain(reader)
            snapshot = reader.snapshot()
        (tmp_path / SPOOL_NAME).unlink()
        with reading("-", spool=tmp_path, snapshot=snapshot, stdin=b"b.example") as reader:
            assert reader.exhausted

    def test_input_that_cannot_be_saved_is_refused(self, write, tmp_path):
        blocked = write(b"", "file") / "below"
        assert refusal("-", spool=blocked, stdin=b"a.example") == (
            f"Cannot save standard input to {blocked / SPOOL_NAME}: Not a directory."
        )

    def test_closed_input_is_refused(self, tmp_path):
        closed = io.BytesIO()
        closed.close()
        reader = SeedReader(sources=["-"], spool_dir=tmp_path, stdin=closed)
        with pytest.raises(SeedsError, match=r"^Cannot save standard input"):
            reader.open(None)
        assert list(tmp_path.iterdir()) == []


# Lines as people write them, and bytes as nobody does.
LINES = st.one_of(
    st.sampled_from(
        [b"a.example", b"7,b.example", b"# c", b"", b"no seed", b"http://d.example/x,y", b"\xff",
         b'"8","e.example"', b"rank,domain", b"1,", b"f.example\r", b"\xef\xbb\xbfg.example"]
    ),
    st.binary(max_size=40),
)  # fmt: skip
CONTENTS = st.lists(LINES, max_size=20).map(b"\n".join)


@contextmanager
def small_bounds(chunk, longest):
    """Chunks of *chunk* bytes and lines of at most *longest*, so that short files meet them."""
    with (
        mock.patch.object(line_reader, "CHUNK_BYTES", chunk),
        mock.patch.object(line_reader, "SKIP_BYTES", 9),
        mock.patch.object(line_reader, "MAX_LINE_BYTES", longest),
        mock.patch.object(seed_line, "MAX_LINE_BYTES", longest),
    ):
        yield


def expected(content):
    """The oracle: URL, rank and line of every seed, by one split of the whole file."""
    seeds = []
    for number, text in enumerate(content.split(b"\n"), start=1):
        try:
            parsed = parse_line(text)
        except BadLine:
            continue
        if parsed is not None:
            seeds.append((parsed[0], number if parsed[1] is None else parsed[1], number))
    return seeds


class TestAnyInput:
    @given(
        content=CONTENTS,
        zipped=st.booleans(),
        chunk=st.sampled_from([1, 2, 3, 7, 64, 1 << 18]),
        longest=st.sampled_from([12, 30, 1 << 14]),
        runs=st.lists(st.integers(1, 50), max_size=8),
    )
    def test_reopening_anywhere_gives_the_same_sequence(
        self, content, zipped, chunk, longest, runs
    ):
        content += b"\nlast.example"
        with tempfile.TemporaryDirectory() as name, small_bounds(chunk, longest):
            directory = Path(name)
            path = directory / "list"
            path.write_bytes(gzip.compress(content) if zipped else content)
            seeds, snapshot = [], None
            for reads in runs:
                with reading(path, spool=directory, snapshot=snapshot) as reader:
                    for _ in range(reads):
                        seeds += reader.read(2)
                    snapshot = reader.snapshot()
                    reader.read(2)  # lost with the process
            with reading(path, spool=directory, snapshot=snapshot) as reader:
                seeds += drain(reader)
                assert reader.seeds_read == len(seeds)
            assert [(seed.url, seed.rank, seed.line) for seed in seeds] == expected(content)

    @given(
        content=st.binary(max_size=300), prefix=st.sampled_from([b"", b"\x1f\x8b", b"\x1f\x8b\x08"])
    )
    def test_arbitrary_bytes_never_raise(self, content, prefix):
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "list"
            path.write_bytes(prefix + content)
            good = Path(name) / "good"
            good.write_bytes(b"a.example")
            with reading(path, good, spool=Path(name)) as reader:
                assert drain(reader)[-1].source == str(good)

    @given(st.lists(st.sampled_from([*PIECES.split(), " "]), max_size=7).map("".join))
    def test_usual_lines_are_read_as_all_others_are(self, text):
        def outcome():
            try:
                return parse_line(text.encode())
            except BadLine as bad:
                return str(bad)

        shortly = outcome()
        with mock.patch.object(seed_line, "USUAL", re.compile(r"(?!)")):
            assert shortly == outcome()


# Reads all of a list in slices of 1,000 lines and tells how the process grew after the first.
MEASURE = """
import io, resource, sys
from pathlib import Path
from webcrawl.crawl.seeds import SeedReader

def peak_kilobytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

reader = SeedReader(sources=[sys.argv[1]], spool_dir=Path(), stdin=io.BytesIO())
reader.open(None)
seeds = len(reader.read(1000))
before = peak_kilobytes()
while not reader.exhausted:
    seeds += len(reader.read(1000))
print(seeds, reader.seeds_bad, peak_kilobytes() - before)
reader.close()
"""


class TestTop1M:
    @pytest.mark.parametrize("count", [200_000, pytest.param(1_000_000, marks=pytest.mark.long)])
    def test_list_is_read_in_constant_memory(self, tmp_path, count):
        with TOP1M.open() as rows:
            (tmp_path / "list.csv").write_text("".join(islice(rows, count)))
        run = subprocess.run(
            [sys.executable, "-c", MEASURE, str(tmp_path / "list.csv")],
            cwd=TOP1M.parent.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        seeds, bad, grown = map(int, run.stdout.split())
        assert (seeds, bad) == (count, 0)
        assert grown < 2048  # the shorter list has 4,100 kB

    def test_ranks_are_one_to_a_million_and_no_domain_stands_twice(self):
        rows = TOP1M.read_text("ascii").splitlines()
        assert all(row.startswith(f"{rank},") for rank, row in enumerate(rows, start=1))
        assert len({row.partition(",")[2] for row in rows}) == len(rows) == 1_000_000


def test_source_that_is_added_is_read_after_the_others_and_once(write, tmp_path):
    one, two = (str(write(f"{name}.test\n".encode(), f"{name}.txt")) for name in ("one", "two"))
    with reading(one, spool=tmp_path) as reader:
        assert reader.begins_source
        reader.add([one, two])
        assert [seed.url for seed in reader.read(1)] == ["http://one.test/"]
        assert [seed.url for seed in drain(reader)] == ["http://two.test/"]
        assert reader.begins_source
        saved = reader.snapshot()
    with reading(one, two, spool=tmp_path, snapshot=saved) as reader:
        assert reader.exhausted
        three = write(b"three.test\nfour.test\n", "three.txt")
        reader.add([one, two, str(three)])
        assert reader.begins_source
        assert not reader.exhausted
        assert [seed.url for seed in reader.read(1)] == ["http://three.test/"]
        assert not reader.begins_source
