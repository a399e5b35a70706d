"""WACZ packages of files that are killed, damaged, missing."""

import gzip
import re

import warm
from crash import die_between_lines
from strategies import some_of
from text_tables import each
from warc_checks import page, warc_of

from webcrawl.jobs.wacz.result import make, warc_files
from webcrawl.pipelines.warc.payloads import StoredPayloads
from webcrawl.pipelines.warc.recovery import whole_records


def wacz(*arguments):
    *inputs, output = arguments
    return warm.scrapy("wacz", *inputs, "-o", output)


def make_in(directory):
    """For ``die_between_lines``."""
    make(warc_files([directory]), directory / "a.wacz", at=1e9, on_progress=lambda _: None)


def test_package_is_whole_or_not_there_whenever_the_process_is_killed(tmp_path):
    start = tmp_path / "start"
    warc_of(start, *map(page, range(3)))
    *killed, whole = die_between_lines("tests.jobs.wacz.test_wacz:make_in", start, tmp_path / "out")
    expected = (whole / "a.wacz").read_bytes()
    assert len(killed) > 5
    for left in killed:
        if (left / "a.wacz").exists():
            assert (left / "a.wacz").read_bytes() == expected
        make_in(left)
        assert (left / "a.wacz").read_bytes() == expected
        assert {path.name.partition(".")[2] for path in left.iterdir()} == {"warc.gz", "wacz"}


def test_damaged_file_is_packaged_as_far_as_it_can_be_read(tmp_path):
    warc = warc_of(tmp_path / "warc", *map(page, range(5)))
    with warc.open("r+b") as file:
        file.truncate(warc.stat().st_size - 100)
    made = wacz(tmp_path / "warc", tmp_path / "a.cdxj")
    assert made.returncode == 2
    assert f"wacz: {warc} is damaged after byte" in made.stderr
    assert 4 <= len((tmp_path / "a.cdxj").read_text().splitlines()) <= 5
    assert not (tmp_path / "a.cdxj.work").exists()


def test_a_304_of_an_older_version_is_left_out(tmp_path):
    """Replay tools would show its header. That of this version has none."""
    payloads = StoredPayloads(directory=tmp_path / "table", max_bytes=1 << 20)
    payloads.open()
    visit = page(1, body=b"", status=304, stored_at=page(1).fetched_at, fetched_at=2e9)
    path = warc_of(tmp_path, page(1), (visit, "unchanged"), payloads=payloads)
    payloads.close()
    head = b"HTTP/1.1 304 Not Modified\r\n\r\n"
    with path.open("rb") as file:
        (revisit,) = [
            one for _, kind, one in whole_records(file, start_bytes=2000) if kind == b"revisit"
        ]
    older = revisit.replace(b"Length: 0\r\n\r\n", b"Length: %d\r\n\r\n%b" % (len(head), head))
    path.with_name("older.warc.gz").write_bytes(gzip.compress(older))
    assert wacz(tmp_path, tmp_path / "a.cdxj").returncode == 0
    lines = (tmp_path / "a.cdxj").read_text().splitlines()
    assert ['"mime": "warc/revisit"' in line for line in lines] == [False, True]
    assert "older" not in "".join(lines)


def damage_of(data, path):
    path.write_bytes(data)
    return make([path], path.with_suffix(".cdxj"), at=1e9, on_progress=lambda _: None).damage


def test_no_cut_of_a_plain_file_passes_in_silence(tmp_path):
    data = gzip.decompress(warc_of(tmp_path / "warc", *map(page, range(2))).read_bytes())
    ends = [found.start() for found in re.finditer(rb"(?:\r\n){2}(?:WARC/1\.1|\Z)", data)]
    for cut in some_of(range(ends[0], len(data), 3), [*ends, *(end + 4 for end in ends)]):
        is_between = any(end <= cut <= end + 4 for end in ends)
        assert bool(damage_of(data[:cut], tmp_path / "cut.warc")) != is_between, cut


@each("number", *range(7))
def test_a_record_longer_than_its_gzip_member_is_damage(tmp_path, number):
    warc = warc_of(tmp_path / "warc", *map(page, range(2))).read_bytes()
    starts = [found.start() for found in re.finditer(rb"\x1f\x8b\x08", warc)]
    assert len(starts) == 7
    members = [warc[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    assert damage_of(b"".join(members), tmp_path / "whole.warc.gz") == []
    record = gzip.decompress(members[number])
    longer = re.sub(rb"(?m)^(Content-Length: )", rb"\g<1>9", record, count=1)
    members[number] = gzip.compress(longer)
    assert damage_of(b"".join(members), tmp_path / "longer.warc.gz")


def test_unusable_input_is_one_sentence(tmp_path):
    one, other = (warc_of(tmp_path / name, page(1)) for name in ("one", "other"))
    other = other.rename(other.with_name(one.name))
    (tmp_path / "empty").mkdir()
    said = {
        "There are no stored pages in ": wacz(tmp_path / "empty", tmp_path / "a.wacz"),
        "have the same name: rename one of them.": wacz(one, other, tmp_path / "a.wacz"),
        "usage: scrapy wacz [JOBDIR": wacz(one, tmp_path / "a.zip"),
    }
    for sentence, done in said.items():
        assert done.returncode == 2
        assert sentence in done.stdout + done.stderr
