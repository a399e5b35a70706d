"""LARM's log storage: the documented lines, read back by means that are not the writer's."""

import csv
import os
import random

import pytest
from contracts.modules import ModuleContract
from crash import die_between_lines
from disk import full_disk
from text_tables import table
from warc_checks import page

from webcrawl.items import Link
from webcrawl.jobs.replay.larm_reader import larm_pages
from webcrawl.pipelines.larm import LarmPipeline
from webcrawl.pipelines.larm.reader import find
from webcrawl.pipelines.larm.rows import LarmError
from webcrawl.pipelines.larm.writer import LarmWriter
from webcrawl.storage.lock import LockedError
from webcrawl.urls.equivalence import Equivalence

FORM = Equivalence().comparison_form


def writer(directory, form=FORM, **more):
    one = LarmWriter(directory=directory, form=form, **more)
    one.open()
    return one


def written(directory, *pages, **more):
    one = writer(directory, **more)
    for each in pages:
        one.write(each)
    one.close()
    return directory


def lines(path):
    """Read as any tool reads tab-delimited text."""
    with path.open(encoding="utf-8", newline="\n") as file:
        return [*map(tuple, csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))]


def extracted(directory):
    """Each page as the overview says: by page file number, offset and file size."""
    found = {}
    for row in lines(directory / "store.log"):
        with (directory / f"pagefile_{row[8]}.pfl").open("rb") as file:
            file.seek(int(row[9]))
            found[row[1]] = file.read(int(row[6]))
    return found


def read_back(directory):
    return [stored.page for stored in larm_pages(directory, start=0, max_bytes=1 << 20)]


def linked(number, **more):
    links = [Link(f"http://a.test/{number}/{n}", text=f"to {n}") for n in range(3)]
    return page(number, links=links, **more)


def test_logs_have_the_fields_that_larm_documents(tmp_path):
    html = b"<html><head><title>\n A &amp; B\t</title></head>"
    links = [
        Link("http://a.test/x?utm_source=m", text="one\ttwo\nthree"),
        Link("http://a.test/frame", text="a\u202eb \x9b2J \u2066c", kind="frame"),
    ]
    first = page(body=html, wire_body=html, content_type="text/html", links=links)
    first.url, first.via, first.kind = "http://a.test/?b=1&a=2", "http://b.test/", "a"
    moved = page(status=302, body=b"", wire_body=b"", redirect_target="http://c.test/")
    moved.url, moved.via, moved.kind = "http://a.test/old", "http://a.test/", "frame"
    moved.content_type = ""
    moved.links = [Link("http://c.test/", kind="redirect")]
    written(tmp_path, first, moved)
    size = len(html)
    assert lines(tmp_path / "store.log") == table(f"""
        http://b.test/ | http://a.test/?b=1&a=2 | http://a.test/?a=2&b=1 | 0 | 200 | text/html
            | {size} | A & B | 1 | 0
        http://a.test/ | http://a.test/old | http://a.test/old | 1 | 302 |  | 0 |  | 1 | {size}
    """)
    url = "http://a.test/?b=1&a=2"
    assert lines(tmp_path / "links.log") == table(rf"""
        {url} | http://a.test/x?utm_source=m | http://a.test/x | 0 | one two three
        {url} | http://a.test/frame | http://a.test/frame | 1 | a\u202eb \x9b2J \u2066c
        http://a.test/old | http://c.test/ | http://c.test/ | 2 |
    """)
    one, two = read_back(tmp_path)
    assert (one.url, one.body, one.via, one.status) == (first.url, html, first.via, 200)
    assert [link.url for link in one.links] == [link.url for link in links]
    assert (two.redirect_target, two.kind) == ("http://c.test/", "frame")


def test_page_files_end_before_they_are_too_large_and_give_every_page_back(tmp_path):
    rng = random.Random(16)
    bodies = [rng.randbytes(rng.choice((0, 10, 400, 1500))) for _ in range(60)]
    pages = [linked(n, body=body, wire_body=body) for n, body in enumerate(bodies)]
    written(tmp_path, *pages[:30], max_file_bytes=1000)
    written(tmp_path, *pages[30:], max_file_bytes=1000)
    assert extracted(tmp_path) == {each.url: each.body for each in pages}
    sizes = [path.stat().st_size for path in tmp_path.glob("*.pfl")]
    assert len(sizes) > 20
    assert {size for size in sizes if size > 1000} <= {1500}
    again = read_back(tmp_path)
    assert [(one.url, one.body) for one in again] == [(one.url, one.body) for one in pages]
    found = [[link.url for link in one.links] for one in again]
    assert found == [[link.url for link in one.links] for one in pages]
    # LARM's threads: other orders, and links of a page that is not there.
    rows = (tmp_path / "links.log").read_bytes().splitlines(keepends=True)
    rows = [b"http://none.test/\tx\tx\t0\tx\n", *rows[30:], *rows[:30]]
    (tmp_path / "links.log").write_bytes(b"".join(rows))
    again = read_back(tmp_path)
    assert [[link.url for link in one.links] for one in again] == found


def write_one(directory):
    """In a process that is killed."""
    one = writer(directory, form=str, max_file_bytes=1000)
    one.write(linked(1, body=b"%d" % 1 * 999, content_type="text/plain"))


def test_after_kill_at_any_line_all_files_are_of_whole_pages(tmp_path):
    (tmp_path / "start").mkdir()
    (tmp_path / "out").mkdir()
    written(tmp_path / "start", page(0, links=[]), max_file_bytes=1000)
    action = "tests.pipelines.larm.test_larm:write_one"
    states = die_between_lines(action, tmp_path / "start", tmp_path / "out")
    assert len(states) > 4
    seen = set()
    for state in states:
        written(state, linked(7), max_file_bytes=1000)
        urls = [row[1] for row in lines(state / "store.log")]
        seen.add(len(urls))
        assert [*extracted(state)] == urls
        assert {row[0] for row in lines(state / "links.log")} == {*urls} - {urls[0]}
        assert sum(path.stat().st_size for path in state.glob("*.pfl")) == sum(
            int(row[6]) for row in lines(state / "store.log")
        )
    assert seen == {2, 3}


def test_torn_at_any_byte_the_pages_before_are_whole(tmp_path):
    whole = written(tmp_path / "whole", linked(1), linked(2))
    contents = {path.name: path.read_bytes() for path in whole.iterdir()}
    for name, data in contents.items():
        for length in range(0, len(data), 23):
            torn = tmp_path / "torn"
            torn.mkdir(exist_ok=True)
            for other, content in contents.items():
                (torn / other).write_bytes(content)
            os.truncate(torn / name, length)
            written(torn, linked(3))
            found = extracted(torn)
            assert list(found)[-1] == linked(3).url
            assert found.items() <= {each.url: each.body for each in map(linked, (1, 2, 3))}.items()


def test_full_disk_leaves_whole_pages_and_the_next_one_is_written(tmp_path):
    one = writer(tmp_path)
    one.write(linked(1))
    size = (tmp_path / "links.log").stat().st_size
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    big = linked(2, body=b"", wire_body=b"")
    big.links = big.links * 50
    with full_disk(size + 100):
        one.write(big)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    one.write(linked(3))
    one.close()
    assert [*extracted(tmp_path)] == [linked(1).url, linked(3).url]


@pytest.mark.cures("which store.log lists, is missing: restore it")
def test_pages_that_were_taken_away_are_no_reason_to_cut_the_logs(tmp_path):
    written(tmp_path, linked(1), linked(2), max_file_bytes=10)
    logs = [(tmp_path / name).read_bytes() for name in ("store.log", "links.log")]
    (tmp_path / "pagefile_2.pfl").rename(tmp_path / "elsewhere")
    with pytest.raises(LarmError, match=r"pagefile_2.pfl, which store.log lists, is missing"):
        writer(tmp_path)
    (tmp_path / "elsewhere").rename(tmp_path / "pagefile_2.pfl")
    writer(tmp_path).close()
    assert logs == [(tmp_path / name).read_bytes() for name in ("store.log", "links.log")]


def test_page_of_an_impossible_size_is_an_error_of_the_log(tmp_path):
    written(tmp_path, linked(1))
    line = (tmp_path / "store.log").read_text().split("\t")
    line[6] = "9" * 19
    (tmp_path / "store.log").write_text("\t".join(line))
    with pytest.raises(LarmError, match="text where a number must be"):
        find(tmp_path, linked(1).url)


def test_store_log_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "store.log").write_text("not\tLARM's\n")
    with pytest.raises(LarmError):
        writer(tmp_path)
    assert (tmp_path / "store.log").read_text() == "not\tLARM's\n"


def test_directory_that_another_process_writes_is_left_alone(tmp_path):
    one = writer(tmp_path)
    with pytest.raises(LockedError):
        writer(tmp_path)
    one.close()
    writer(tmp_path).close()


class TestLarmPipeline(ModuleContract):
    module = LarmPipeline
