"""The numbers of the report, from logs that are known line by line."""

from __future__ import annotations

import doctest
import gzip
import json
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_report import crawl_of, figure, line, numbers, report_of, write_log

from webcrawl.errors import FatalError
from webcrawl.jobs.report import drawing, figures, host_totals, log_totals
from webcrawl.jobs.report.figures import Steps
from webcrawl.jobs.report.host_totals import HostTotals
from webcrawl.jobs.report.log_totals import LogTotals
from webcrawl.jobs.report.timeline import Timeline

T0 = 1_800_000_000.0
KNOWN = [
    line("http://a.com/1", "http_200", T0 + 1, bytes=3000, depth=0),
    line("http://a.com/2", "http_200", T0 + 4, bytes=0, depth=1, took=1.0, type="image/gif"),
    line("https://a.com:8/3", "http_203", T0 + 7, bytes=4095, depth=1, duplicate=True, type=""),
    line("http://b.org/", "http_200", T0 + 7, bytes=70_000, depth=30),
    line("http://10.0.0.1/", "http_404", T0 + 8, bytes=500),
    line("http://[2001:db8::1]/x", "http_302", T0 + 8, bytes=0),
    line("http://none.test/", "dns_not_found", T0 + 9),
    line("http://slow.net/", "connect_timeout", T0 + 9, took=30.0),
    line("http://a.com/private", "robots_denied", T0 + 9),
]


@pytest.fixture
def known(tmp_path):
    write_log(tmp_path, KNOWN)
    return report_of(tmp_path, price=36.0)


def test_figures_count_what_the_log_has(known):
    assert numbers(known, "outcomes") == {
        "http_200": 3,
        **dict.fromkeys(("http_203", "http_302", "http_404"), 1),
        **dict.fromkeys(("connect_timeout", "dns_not_found", "robots_denied"), 1),
    }
    errors = dict.fromkeys(("HTTP 4xx", "DNS", "connection", "robots.txt"), 1)
    assert numbers(known, "errors") == errors
    assert numbers(known, "types") == {"text/html": 2, "image/gif": 1, "none sent": 1}
    sizes = {name: count for name, count in numbers(known, "sizes").items() if count}
    assert sizes == {"0": 1, "2K": 2, "64K": 1}
    depths = {name: count for name, count in numbers(known, "depth").items() if count}
    assert depths == {"0": 1, "1": 2, "20+": 1}
    assert sum(numbers(known, "duplicates").values()) == 1
    assert sum(numbers(known, "documents").values()) == 4
    megabits = sum(numbers(known, "megabits").values())
    assert megabits == pytest.approx((3000 + 4095 + 70_000 + 500) * 8e-6, abs=0.005)


def test_figures_of_hosts_count_servers_pages_and_bytes(known):
    # Two of five servers gave pages.
    assert numbers(known, "pages-per-server") == {"1": 2, "2": 1}
    assert numbers(known, "bytes-per-server")["4096"] == 2
    assert numbers(known, "bytes-per-server")["8192"] == 1
    addresses = "raw IP addresses"
    assert numbers(known, "hosts-by-tld") == {addresses: 2, ".com": 1, ".net": 1, ".org": 1}
    assert numbers(known, "pages-by-tld") == {".com": 3, ".org": 1}
    assert [row[:2] for row in figure(known, "largest-hosts").table.rows] == [
        ("a.com", 3),
        ("b.org", 1),
    ]
    slowest = figure(known, "slowest-hosts").table.rows
    assert (slowest[0][0], slowest[0][-1]) == ("a.com", "0.400 s")  # of those with three fetches
    assert (slowest[1][0], slowest[1][-1]) == ("slow.net", "30.0 s")


def test_waits_are_between_the_end_of_a_fetch_and_the_next_of_the_host(known):
    # From 1 to 3 for one of 1 s; from 4 to 6.9 for one of 0.1 s.
    rows = {row[0]: (row[1], float(row[3][:-2])) for row in figure(known, "politeness").table.rows}
    assert rows["1.00 s to 2.00 s"] == (1, pytest.approx(2.0, rel=0.1))
    assert rows["0.062 s to 0.125 s"] == (1, pytest.approx(2.9, rel=0.1))


def test_the_summary_has_the_price_of_a_million_pages(known):
    summary = dict(known.summary)
    assert summary["pages"] == "4"
    assert summary["hosts"] == "5"
    assert summary["duplicates"] == "25.0 %"
    assert summary["URLs given up"] == "44.4 %"
    # A cent a second, four pages in nine seconds.
    assert summary["a million pages"] == "$22,500.00"
    prices = [row[-1] for row in figure(known, "cost").table.rows]
    assert prices == ["$22,500.00", "$2.32", "not known"]


def test_full_files_compressed_ones_torn_lines_and_other_lines_are_read_as_they_are(tmp_path):
    path = write_log(tmp_path, KNOWN[6:], more=b'{"at":1.0,"url":"http://torn')
    for number, lines in enumerate((KNOWN[:2], KNOWN[2:4], KNOWN[4:6]), 1):
        full = write_log(tmp_path / "old", lines, more=b"no line of ours\n{}\n")
        full.rename(path.with_name(f"info-{number:06d}.jsonl"))
    first = path.with_name("info-000001.jsonl")
    packed = gzip.compress(first.read_bytes())
    first.with_name("info-000001.jsonl.gz").write_bytes(packed)
    first.unlink()
    # One that is just being compressed counts once.
    second = path.with_name("info-000002.jsonl.gz")
    second.write_bytes(gzip.compress(path.with_name("info-000002.jsonl").read_bytes())[:20])
    assert crawl_of(tmp_path).log.outcomes == Counter(one.outcome for one in KNOWN)


@pytest.mark.parametrize("damaged", [lambda data: data[:-1], lambda data: b"x" + data])
def test_a_damaged_compressed_file_is_named(tmp_path, damaged):
    path = write_log(tmp_path, KNOWN)
    packed = path.with_name("info-000001.jsonl.gz")
    packed.write_bytes(damaged(gzip.compress(path.read_bytes())))
    with pytest.raises(FatalError, match=r"info-000001\.jsonl\.gz"):
        crawl_of(tmp_path)


def test_drones_of_a_hive_count_as_one_crawl(tmp_path):
    for number in (0, 1):
        jobdir = tmp_path / "drones" / str(number)
        write_log(jobdir, KNOWN[number::2])
        moments = [{"at": T0 + at, "frontier/waiting": 10 + number + at} for at in (2, 6)]
        (jobdir / "logs/stats.jsonl").write_text("\n".join(map(json.dumps, moments)) + "\n")
        stats = {"crawl/links/submitted": 5, "crawl/urls/refused/scope": 3 + number}
        (jobdir / "stats.json").write_text(json.dumps({**stats, "finish_reason": "finished"}))
    crawl = crawl_of(tmp_path)
    assert (crawl.drones, crawl.state) == (2, "finished")
    assert crawl.log.outcomes == Counter(one.outcome for one in KNOWN)
    assert crawl.counts("urls/refused/") == {"scope": 7}
    # The first interval ends before anything was written down.
    assert crawl.waiting == [None, *[25] * 4, *[33] * 3, 33]


def test_many_kinds_of_types_are_bounded(monkeypatch):
    monkeypatch.setattr(log_totals, "_MOST_TYPES", 10)
    monkeypatch.setattr(log_totals, "_KEPT_TYPES", 2)
    totals = LogTotals()
    for number in range(100):
        kinds = ("text/html", "text/html", "image/gif", f"x/{number}")
        lines = [
            json.dumps(
                {"at": 1, "url": "http://a/", "outcome": "http_200", "status": 200, "type": x}
            )
            for x in kinds
        ]
        totals.add("\n".join(lines).encode())
    assert len(totals.types) <= 11
    assert totals.types.total() == 400
    assert totals.types["text/html"] == 200


def test_hosts_beyond_those_in_memory_are_summed_all_the_same():
    rng = random.Random(5)
    few, many = HostTotals(most_in_memory=7), HostTotals()
    for _ in range(2000):
        host = f"{rng.randrange(150)}.{rng.choice(('com', 'org'))}"
        pages, size, secs = rng.randrange(3), rng.randrange(10_000), rng.random()
        for totals in (few, many):
            row = totals.row(host)
            row.pages += pages
            row.bytes += size
            row.fetches += 1
            row.secs += secs
    found, expected = few.servers(), many.servers()
    few.close()
    assert found._replace(slowest=[]) == expected._replace(slowest=[], largest=found.largest)
    for one, other in (("largest", found.largest), ("slowest", found.slowest)):
        rows = getattr(expected, one)
        assert [row[:4] for row in rows] == [row[:4] for row in other]
        assert [row.secs for row in rows] == pytest.approx([row.secs for row in other])


@given(
    st.lists(st.floats(0, 1e9).map(lambda at: T0 + at), min_size=1, max_size=50),
    st.sampled_from([1, 60, 86_400, 1e9]),
)
def test_intervals_hold_every_moment_in_its_order(moments, span):
    moments = [T0 + (at - T0) % span for at in moments]
    timeline = Timeline(columns=1)
    for at in moments:
        timeline.row(at)[0] += 1
    found = timeline.intervals()
    assert 1 <= len(found.items) <= 60
    assert sum(item.sums[0] for item in found.items) == len(moments)
    assert [item.start for item in found.items] == [
        number * found.width for number in range(len(found.items))
    ]
    assert all(item.covered == found.width for item in found.items[:-1])
    assert 0 < found.items[-1].covered <= found.width
    assert found.items[0].at <= min(moments)
    assert found.stops == sorted(found.stops)


def test_a_long_crawl_has_few_intervals_and_loses_none():
    timeline = Timeline(columns=1)
    for minute in range(60 * 24 * 40):
        timeline.row(T0 + 60 * minute)[0] += 1
    found = timeline.intervals()
    assert (found.width, found.secs) == (86_400, 86_400 * 40)
    assert [item.sums[0] for item in found.items] == [1440] * 40


def test_times_when_the_crawl_did_not_run_are_left_out():
    """Two runs of five minutes, a day apart; a pause of two minutes within is none."""
    timeline = Timeline(columns=1)
    for run in (T0, T0 + 86_400):
        for secs in [*range(100), *range(220, 300)]:
            timeline.row(run + secs)[0] += 1
    found = timeline.intervals()
    assert found.stops == [300]
    assert found.secs == 600
    empty = [item.start for item in found.items if not item.sums[0]]
    assert empty == [*range(100, 220, 10), *range(400, 520, 10)]


def test_a_stop_is_drawn_where_it_was(tmp_path):
    lines = [
        line("http://a.com/", "http_200", T0 + run + secs, bytes=125_000)
        for run in (0, 9000)
        for secs in range(100)
    ]
    write_log(tmp_path, lines)
    drawing = figure(report_of(tmp_path), "megabits").drawing
    assert isinstance(drawing, Steps)
    assert drawing.stops == [pytest.approx(100 / 60)]
    assert drawing.edges[-1] == pytest.approx(200 / 60)
    assert drawing.values == pytest.approx([1.0] * 20)


@pytest.mark.parametrize("module", [drawing, figures, host_totals])
def test_the_examples_of_docstrings_are_true(module):
    result = doctest.testmod(module)
    assert (result.failed, result.attempted > 0) == (0, True)
