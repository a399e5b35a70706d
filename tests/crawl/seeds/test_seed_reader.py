"""Seed lists: every format people bring, every way a file can be broken, and the saved cursor."""

import gzip
import io
import os
import pty
import random
import re
import subprocess
import sys
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import some_of
from text_tables import cases, each

from webcrawl.crawl.seeds import SeedReader, SeedsError, line_reader, seed_line, split_sources
from webcrawl.crawl.seeds.line_reader import MAX_LINE_BYTES
from webcrawl.crawl.seeds.seed_line import BadLine, parse_line
from webcrawl.crawl.seeds.seed_reader import SPOOL_NAME

PIECES = "a b - 9 0x . .. xn-- é rank 7, , # @ http:// https:// HTTP:// ftp: / // : 80 8080 65000"
TOP1M = Path(__file__).parents[3] / "seeds" / "top1m.csv"


@pytest.fixture(autouse=True)
def _directory(tmp_path, monkeypatch):
    """Lists are found, and standard input is saved, in the directory of the test."""
    monkeypatch.chdir(tmp_path)


@contextmanager
def reading(*sources, spool=".", snapshot=None, stdin=b""):
    stdin = io.BytesIO(stdin)
    reader = SeedReader(sources=list(map(str, sources)), spool_dir=Path(spool), stdin=stdin)
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


def urls_of(*sources, **options):
    return read(*sources, **options)[0]


def read(*sources, lines=None, **options):
    """The URLs of all seeds, or of those in the first *lines* lines, and the cursor after them."""
    with reading(*sources, **options) as reader:
        seeds = drain(reader) if lines is None else reader.read(lines)
        return [seed.url for seed in seeds], reader.snapshot()


def is_read(*sources, **options):
    """Whether nothing is left to read in these sources."""
    with reading(*sources, **options) as reader:
        return reader.exhausted


@pytest.fixture
def write(tmp_path):
    def write(content, name="seeds.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


class TestNames:
    """What ``seeds=`` names besides files."""

    def test_urls_domains_files_and_standard_input_may_be_mixed(self, write):
        path = write(b"5,c.com\n")
        names = split_sources(f"https://a.com/x?y=1, b.co.uk,,{path},-,d.com:8080/z,b.co.uk")
        assert urls_of(*names, stdin=b"e.com") == [
            *("https://a.com/x?y=1", "http://b.co.uk/", "http://c.com/", "http://e.com/"),
            "http://d.com:8080/z",
        ]

    def test_a_mistyped_file_is_no_domain_and_a_file_goes_before_one(self, write):
        write(b"in-the-file.com\n", "b.com")
        assert urls_of("b.com") == ["http://in-the-file.com/"]
        for name in ("hosts.txt", "seeds/top1m.csv", "localhost", "x" * 5000):
            assert f"Cannot read the seeds in {name}" in refusal(name)
        assert "It is not a URL or known domain either" in refusal("hosts.txt")
        assert "not a URL that this crawler can fetch" in refusal("http://[x")

    def test_a_cursor_of_a_url_is_kept_and_other_seeds_are_said(self, caplog):
        _, saved = read("http://a.com/")
        assert is_read("http://a.com/", snapshot=saved)
        assert "other seeds" not in caplog.text
        assert urls_of("b.com", snapshot=saved) == ["http://b.com/"]
        assert "This crawl was started with other seeds; added now: b.com." in caplog.text


class TestLine:
    @cases(
        "text url rank",
        r"""
            1,example.com                  | http://example.com/               | 1
            " 17 , example.com "           | http://example.com/               | 17
            '"2","example.com"'            | http://example.com/               | 2
            '3,"https://example.com/a,b"'  | https://example.com/a,b           | 3
            4,https://example.com/a,b      | https://example.com/a,b           | 4
            "5,example.com\r"              | http://example.com/               | 5
            0,example.com                  | http://example.com/               | 0
            example.com                    | http://example.com/               | None
            EXAMPLE.com:80                 | http://example.com/               | None
            example.com:8080/x?y=1#z       | http://example.com:8080/x?y=1     | None
            //example.com/x                | http://example.com/x              | None
            https://a.com/?u=http://b.com/ | https://a.com/?u=http://b.com/    | None
            http://example.com/a b         | http://example.com/a%20b          | None
            http://example.com/#top        | http://example.com/               | None
            example.com # my own           | http://example.com/               | None
            "example.com\t#my own"         | http://example.com/               | None
            bücher.example                 | http://xn--bcher-kva.example/     | None
            6,例え.テスト                  | http://xn--r8jz45g.xn--zckzah/    | 6
            "\ufeffexample.com"            | http://example.com/               | None
            192.0.2.7                      | http://192.0.2.7/                 | None
            [2001:db8::1]:8080             | http://[2001:db8::1]:8080/        | None
            localhost                      | http://localhost/                 | None
    """,
    )
    def test_a_line_of_a_seed_list_gives_url_and_rank(self, text, url, rank):
        assert parse_line(text.encode()) == (url, rank)

    @cases(
        "text",
        r"""
        b""
        b"  \t\r"
        b"# comment"
        b"  # comment"
        b"rank,domain"
        b'"Rank","Domain"'
        b"\xef\xbb\xbfrank,domain\r"
    """,
    )
    def test_line_may_hold_no_seed(self, text):
        assert parse_line(text) is None

    @cases(
        "text why",
        r"""
            b"exam\0ple.com"                      | NUL byte
            b"b\xfccher.example"                  | not UTF-8
            b"\xff\xfee\0x\0a\0m\0p\0l\0e\0\n\0"  | NUL byte
            LONG                                  | longer than 16384 bytes
            b'1,"a"\rb'                           | new-line character seen in unquoted field
            b"javascript:alert(1)"                | not a URL that this crawler can fetch
            b"example.com:99999"                  | not a URL that this crawler can fetch
            b"http://[::1"                        | not a URL that this crawler can fetch
            b"17"                                 | neither a domain nor a URL
            b"17,"                                | neither a domain nor a URL
            b",example.com"                       | neither a domain nor a URL
            b"1,2,example.com"                    | neither a domain nor a URL
            b"1;example.com"                      | neither a domain nor a URL
            b'"'                                  | neither a domain nor a URL
            b"https://example.com,1000"           | neither a domain nor a URL
            b"99999999999,example.com"            | neither a domain nor a URL
            b"example.com other.example"          | neither a domain nor a URL
            b"someone@example.com"                | neither a domain nor a URL
            b"mailto:someone@example.com"         | neither a domain nor a URL
            b"http://"                            | neither a domain nor a URL
            b"http:///"                           | neither a domain nor a URL
            b"http://a.example/\rhttp://b.example/" | neither a domain nor a URL
    """,
        {"LONG": b"a" * (MAX_LINE_BYTES + 1)},
    )
    def test_bad_line_says_why(self, text, why):
        with pytest.raises(BadLine, match=f"^{why}"):
            parse_line(text)


class TestFormats:
    def test_ranks_come_from_the_column_or_else_from_the_line_number(self, write):
        path = write(b"rank,domain\n7,a.example\nb.example\n\n# none\nc.example\n")
        with reading(path) as reader:
            assert [(seed.url, seed.rank) for seed in drain(reader)] == [
                ("http://a.example/", 7),
                ("http://b.example/", 3),
                ("http://c.example/", 6),
            ]

    @each("pack", gzip.compress, bytes)
    @each("name", "seeds.gz", "seeds.csv")
    def test_gzip_is_recognised_by_content(self, write, name, pack):
        path = write(pack(b"a.example\n") + pack(b"b.example\n"), name)
        assert urls_of(path) == ["http://a.example/", "http://b.example/"]


class TestBadLines:
    def test_bad_lines_are_counted_and_named_but_not_fatal(self, write, caplog):
        path = write(b"a.example\nno seed\nb.example\n\xff\n")
        with reading(path) as reader:
            assert len(drain(reader)) == 2
            assert (reader.seeds_read, reader.seeds_bad) == (2, 2)
        assert caplog.messages == [
            f"seeds: {path}:2: neither a domain nor a URL: b'no seed'",
            f"seeds: {path}:4: not UTF-8: b'\\xff'",
            f"seeds: {path}: 2 seeds, 2 bad lines, 4 lines",
        ]

    def test_only_the_first_twenty_are_shown(self, write, caplog):
        path = write(b"a.example\n" + b"no seed\n" * 100)
        assert len(urls_of(path)) == 1
        assert all("neither" in message for message in caplog.messages[:20])
        assert caplog.messages[20:] == [
            "seeds: further bad lines are only counted",
            f"seeds: {path}: 1 seed, 100 bad lines, 101 lines",
        ]

    def test_an_endless_line_is_one_bad_line_and_shown_in_part(self, write, caplog):
        path = write(b"x " * (3 << 19) + b"\na.example")
        assert urls_of(path) == ["http://a.example/"]
        assert len(caplog.messages[0]) < 300 + len(str(path))

    def test_one_read_looks_at_no_more_lines_than_asked(self, write):
        with reading(write(b"#\n" * 1000 + b"a.example\n")) as reader:
            assert reader.read(1000) == []
            assert not reader.exhausted
            assert [seed.rank for seed in reader.read(1)] == [1001]


class TestBrokenSources:
    @each("content", b"", b"\n\n", b"# nothing\n", b"rank,domain\n")
    def test_list_without_seeds_is_refused(self, write, content):
        path = write(content)
        assert refusal(path) == f"No seeds in {path}."

    def test_list_of_bad_lines_is_refused_with_the_first_of_them(self, write):
        first, second = write(b"# x\nno seed\n17\n", "a.txt"), write(b"\0", "b.txt")
        expected = f"No seeds in {first}, {second} ({first}:2: neither a domain nor a URL)."
        assert refusal(first, second) == expected

    def test_no_source_is_refused(self):
        assert refusal().startswith("No seeds were named")

    @cases(
        "name why",
        r"""
            missing.txt | No such file or directory
            directory   | Not a regular file
            pipe        | Not a regular file
            file/below  | Not a directory
            LONG        | File name too long
            # the rest differs between Pythons
            "a\0b"      | embedded null
    """,
        {"LONG": "x" * 300},
    )
    def test_source_that_cannot_be_read_is_refused_even_beside_a_good_one(
        self, tmp_path, write, name, why
    ):
        (tmp_path / "directory").mkdir()
        os.mkfifo(tmp_path / "pipe")
        path = tmp_path / name
        said = refusal(write(b"a.example", "file"), path)
        assert said.startswith(f"Cannot read the seeds in {path}: ")
        assert why in said

    def test_gzip_cut_anywhere_gives_whole_lines_only(self, write):
        domains = [f"site{random.Random(n).random()}.example" for n in range(100)]
        whole = gzip.compress("\n".join(domains).encode())
        urls = [f"http://{domain}/" for domain in domains]
        lengths = set()
        for cut in some_of(range(30, len(whole))):
            path = write(whole[:cut], "cut.gz")
            try:
                with reading(path) as reader:
                    got = [seed.url for seed in drain(reader)]
                    assert reader.seeds_bad == 1
            except SeedsError as error:
                assert "Compressed file ended before" in str(error)  # noqa: PT017 - most cuts do not raise
                got = []
            assert got == urls[: len(got)]
            assert len(got) < len(urls)
            lengths.add(len(got))
        assert len(lengths) > 50

    @each(
        "damage why",
        (lambda data: data[:-8] + b"\0" * 4 + data[-4:], "CRC check failed"),
        (lambda data: data[:5000] + b"\xff" * 50 + data[5050:], "invalid"),
        (lambda data: data + b"trailing", "Not a gzipped file"),
    )
    def test_damaged_gzip_ends_its_source_and_the_next_is_read(self, write, caplog, damage, why):
        numbers = random.Random(1)
        content = b"".join(b"%d.example\n" % numbers.getrandbits(60) for _ in range(1000))
        broken = write(damage(gzip.compress(content)), "broken.gz")
        good = write(b"good.example")
        urls, snapshot = read(broken, good)
        assert urls[-1] == "http://good.example/"
        # Named at the start, before a seed is read, and again by the next run.
        assert why in caplog.messages[0]
        caplog.clear()
        with reading(broken, good, snapshot=snapshot) as reader:
            assert reader.exhausted
            assert reader.seeds_bad == len(reader.damaged) == 1
            assert caplog.messages == [f"seeds: {clause}" for clause in reader.damaged]

    def test_damage_far_behind_the_start_is_named_when_it_is_met(self, write, monkeypatch):
        monkeypatch.setattr(line_reader, "CHECKED_BYTES", 1 << 10)
        monkeypatch.setattr(line_reader, "SKIP_BYTES", 1 << 10)
        content = b"".join(b"%d.example\n" % number for number in range(10_000))
        with reading(write(gzip.compress(content)[:-9], "cut.gz")) as reader:
            assert reader.damaged == []
            drain(reader)
            assert "end-of-stream marker" in reader.damaged[0]

    def test_source_that_vanishes_is_left_and_tried_again_by_the_next_run(self, write, caplog):
        first, second = write(b"a.example", "a"), write(b"b.example", "b")
        with reading(first, second) as reader:
            status = first.stat()
            first.unlink()
            assert [seed.url for seed in drain(reader)] == ["http://b.example/"]
            snapshot = reader.snapshot()
        assert (
            f"seeds: cannot read the rest of {first}: No such file or directory" in caplog.messages
        )
        write(b"a.example", "a")
        os.utime(first, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert urls_of(first, second, snapshot=snapshot) == ["http://a.example/"]


class TestCursor:
    def test_list_may_be_removed_once_it_is_read(self, write):
        path = write(b"a.example\n")
        _, snapshot = read(path)
        path.unlink()
        assert read(path, snapshot=snapshot) == ([], snapshot)

    def test_cursor_deep_in_gzip_is_reached_in_slices(self, write):
        path = write(gzip.compress(b"#" * 100 + b"\na.example\nb.example\n"))
        with small_bounds(1 << 10, 1 << 10):
            _, snapshot = read(path, lines=2)
            with reading(path, snapshot=snapshot) as reader:
                assert [len(reader.read(2)) for _ in range(111 // 9)] == [0] * 12
                assert reader.snapshot() == snapshot
                assert [seed.rank for seed in reader.read(2)] == [3]

    def test_list_that_vanished_half_read_is_refused(self, write):
        path = write(b"a.example\nb.example\n")
        _, snapshot = read(path, lines=1)
        path.unlink()
        assert "No such file" in refusal(path, snapshot=snapshot)

    def test_list_changed_since_is_read_from_its_start(self, write, caplog):
        path = write(b"a.example\nb.example\n")
        _, snapshot = read(path)
        write(b"a.example\nb.example\nc.example\n")
        assert len(urls_of(path, snapshot=snapshot)) == 3
        assert f"seeds: {path} has changed and is read again from its start" in caplog.messages

    def test_list_added_on_resume_is_read_and_the_others_continue(self, write):
        first, second = write(b"a.example\nb.example", "a"), write(b"c.example", "c")
        _, snapshot = read(first, lines=1)
        urls = urls_of(second, first, snapshot=snapshot)
        assert urls == ["http://c.example/", "http://b.example/"]

    def test_crawl_resumed_in_another_directory_finds_its_place(self, write, monkeypatch):
        path = write(b"a.example\nb.example", "list")
        _, snapshot = read("list", lines=1)
        monkeypatch.chdir("/")
        assert urls_of(path, snapshot=snapshot) == ["http://b.example/"]

    def test_snapshot_of_a_newer_version_is_refused(self, write):
        path = write(b"a.example")
        fields = msgspec.msgpack.decode(read(path)[1])
        newer = msgspec.msgpack.encode({**fields, "version": 2})
        assert "has format 2; this code reads 1" in refusal(path, snapshot=newer)

    @each("garbage", b"", b"\xff\xff", msgspec.msgpack.encode({"version": 1}))
    def test_damaged_snapshot_is_refused(self, write, garbage):
        assert "cursor cannot be read" in refusal(write(b"a.example"), snapshot=garbage)


class TestStandardInput:
    def test_resumed_crawl_reads_the_saved_input_and_not_the_new(self):
        stdin = {"spool": "job/seeds", "stdin": gzip.compress(b"a.example\nb.example\n")}
        with reading("-", **stdin):
            pass  # killed before its first checkpoint
        with reading("-", spool="job/seeds") as reader:
            assert [seed.url for seed in reader.read(1)] == ["http://a.example/"]
            stdin |= {"snapshot": reader.snapshot(), "stdin": b"other.example"}
        assert urls_of("-", **stdin) == ["http://b.example/"]

    def test_other_input_replaces_that_of_a_crawl_that_starts_over(self):
        first = {"stdin": b"a.exmaple\n"}
        assert urls_of("-", **first) == ["http://a.exmaple/"]
        assert urls_of("-", stdin=b"a.example\n") == ["http://a.example/"]
        assert urls_of("-") == ["http://a.example/"]

    def test_nothing_is_read_from_a_terminal_if_there_are_saved_seeds(self, tmp_path, write):
        write(b"a.example\n", SPOOL_NAME)
        ours, theirs = pty.openpty()
        with os.fdopen(theirs, "rb", buffering=0) as terminal:
            reader = SeedReader(sources=["-"], spool_dir=tmp_path, stdin=terminal)
            reader.open(None)
            assert [seed.url for seed in reader.read(9)] == ["http://a.example/"]
            reader.close()
        os.close(ours)

    def test_input_killed_while_it_was_saved_is_not_taken_for_whole(self, write, tmp_path):
        write(b"a.exam", f"{SPOOL_NAME}.tmp")
        assert urls_of("-", stdin=b"b.example\n") == ["http://b.example/"]
        assert [path.name for path in tmp_path.iterdir()] == [SPOOL_NAME]

    def test_empty_input_is_refused_and_the_next_run_reads_its_own(self):
        assert refusal("-") == "No seeds in -."
        assert len(urls_of("-", stdin=b"a.example")) == 1

    def test_input_that_cannot_be_saved_is_refused(self, write):
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
            seeds.append((parsed[0], number if parsed[1] is None else parsed[1]))
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
        with small_bounds(chunk, longest):
            path = Path("list")
            path.write_bytes(gzip.compress(content) if zipped else content)
            seeds, snapshot = [], None
            for reads in runs:
                with reading(path, snapshot=snapshot) as reader:
                    for _ in range(reads):
                        seeds += reader.read(2)
                    snapshot = reader.snapshot()
                    reader.read(2)  # lost with the process
            with reading(path, snapshot=snapshot) as reader:
                seeds += drain(reader)
                assert reader.seeds_read == len(seeds)
            assert [(seed.url, seed.rank) for seed in seeds] == expected(content)

    @given(
        content=st.binary(max_size=300), prefix=st.sampled_from([b"", b"\x1f\x8b", b"\x1f\x8b\x08"])
    )
    def test_arbitrary_bytes_never_raise(self, content, prefix):
        Path("list").write_bytes(prefix + content)
        Path("good").write_bytes(b"a.example")
        with reading("list", "good") as reader:
            assert drain(reader)[-1].url == "http://a.example/"

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
    @each("count", 200_000, long=(1_000_000,))
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


def test_source_that_is_added_is_read_after_the_others_and_once(write):
    one, two = (str(write(f"{name}.test\n".encode(), f"{name}.txt")) for name in ("one", "two"))
    with reading(one) as reader:
        assert reader.begins_source
        reader.add([one, two])
        assert [seed.url for seed in drain(reader)] == ["http://one.test/", "http://two.test/"]
        assert reader.begins_source
        saved = reader.snapshot()
    with reading(one, two, snapshot=saved) as reader:
        assert reader.exhausted
        three = write(b"three.test\nfour.test\n", "three.txt")
        reader.add([one, two, str(three)])
        assert reader.begins_source
        assert not reader.exhausted
        assert [seed.url for seed in reader.read(1)] == ["http://three.test/"]
        assert not reader.begins_source
