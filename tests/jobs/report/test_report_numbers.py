"""The numbers of the report, from logs that are known line by line."""

from __future__ import annotations

import doctest
import gzip
import json
import re
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from golden import golden
from reading_report import (
    crawl_of,
    figure,
    figures_of,
    line,
    numbers,
    open_crawl,
    report_of,
    write_history,
    write_log,
)
from stored_job import in_use
from text_tables import each

from webcrawl.crawl.figures.counts import with_prefix
from webcrawl.crawl.figures.summary import summary
from webcrawl.crawl.job.control_journal import user_and_machine
from webcrawl.crawl.job.state_directory import RUNS, boot_id
from webcrawl.crawl.lease.outcome_log import NAMES
from webcrawl.doctor.diagnosis import Cause, Diagnosis
from webcrawl.doctor.history import FAULTS, History, kind_of
from webcrawl.doctor.record import Line, Record
from webcrawl.jobs.inspect import info_log
from webcrawl.jobs.inspect.info_log import line_chunks
from webcrawl.jobs.report import (
    chart,
    figures,
    guides,
    heritrix_log,
    outcome_words,
    page,
)
from webcrawl.jobs.report.disk import disk_outlook
from webcrawl.jobs.report.figures import share
from webcrawl.jobs.report.log_totals import LogTotals
from webcrawl.jobs.report.over_time import comparisons
from webcrawl.jobs.report.runs import (
    RunEvent,
    cut_off_alarms,
    runs_table,
)
from webcrawl.jobs.report.sections import report
from webcrawl.jobs.report.totals_file import TotalsFile
from webcrawl.states import State
from webcrawl.wording import span

T0 = 1_800_000_000.0
KNOWN = [
    line("http://a.com/1", "http_200", T0 + 1, bytes=3000, decoded=40_000, kind="seed"),
    line("http://a.com/2", "http_200", T0 + 4, bytes=0, depth=1, took=1.0, type="image/gif"),
    line("https://a.com:8/3", "http_203", T0 + 7, bytes=4095, depth=1, duplicate=True, type=""),
    line("http://b.org/", "http_200", T0 + 7, bytes=70_000, depth=30),
    line("http://10.0.0.1/", "http_404", T0 + 8, bytes=500),
    line("http://[2001:db8::1]/x", "http_302", T0 + 8, kind="seed", redirect="http://none.test/"),
    line("http://none.test/", "dns_not_found", T0 + 9, kind="redirect", depth=1),
    line("http://slow.net/", "connect_timeout", T0 + 9, took=30.0),
    line("http://a.com/private", "robots_denied", T0 + 9),
    line("http://a.com/other", "replaced", T0 + 9),  # goes on as another Request
]
# Links that lead nowhere, and pages that are busy.
DEAD = [
    *(line(f"http://b.com/{n}", "http_404", T0 + n, via="http://a.com/1") for n in range(3)),
    line("http://b.com/3", "http_404", T0 + 3, via="http://a.com/2"),
    line("http://gone.com/", "dns_not_found", T0 + 5, via="http://a.com/2"),
    line("http://b.com/seed", "http_404", T0 + 6),
    line("http://b.com/busy", "http_503", T0 + 7, via="http://a.com/3"),
]
# Of a run that ended before the log did.
STATS = {
    "crawl/elapsed_time_seconds": 6.0,
    "crawl/outcome/http_200": 2,
    "crawl/hosts/contacted": 7,
    "frontier/parked/reputation": 1917,
    "frontier/parked": 1917,
}

NOT_OURS = (
    b'no line of ours\n{}\n{"at":1e99,"url":"http://a.com/","outcome":"http_200"}\n'
    b'{"at":1.0,"url":"http://a.com/\xff","outcome":"http_200"}\n'
)


def outcomes_of(crawl):
    """The number of URLs by outcome."""
    return with_prefix("outcome/", crawl.totals)


def as_text(found):
    """Write the report *found* as text, without rows of zeros."""
    text = [*found.head, *found.alarms]
    text += [f"{name}: {value}" for name, value in found.summary if name != "free disk space"]
    for one in figures_of(found):
        head, rows = one.table or ((), [])
        rows = [row for row in rows if not {*row[1:]} <= {0, "0%"}]
        text += ["", f"{one.name}: {one.title}", one.lead]
        text += [" | ".join(map(str, row)) for row in (head, *rows)]
    return "\n".join(text) + "\n"


@pytest.mark.parametrize(
    ("name", "lines", "stats"),
    [("report.txt", KNOWN + DEAD, STATS), ("report-without-pages.txt", [], {})],
)
def test_figures_are_those_of_the_log_and_the_stats(tmp_path, name, lines, stats):
    write_log(tmp_path, lines)
    (tmp_path / "stats.json").write_text(json.dumps(stats))
    text = as_text(report_of(tmp_path))
    assert text == golden(name, text)


@pytest.mark.parametrize(("stats", "hosts"), [({}, "5"), (STATS | {"crawl/job/cut_off": 1}, "7")])
def test_unknown_times_are_left_out(tmp_path, stats, hosts):
    write_log(tmp_path, KNOWN)
    (tmp_path / "stats.json").write_text(json.dumps(stats))
    found = report_of(tmp_path)
    summary = dict(found.summary)
    assert summary["hosts contacted"] == hosts
    assert not {"running time", "pages per second"} & {*summary}


def test_summary_and_report_agree_on_which_urls_were_given_up(tmp_path):
    outcomes = [*sorted(NAMES), "excluded_adult", *(f"http_{code}" for code in range(200, 600))]
    write_log(tmp_path, [line(f"http://a.com/{x}", x, T0) for x in outcomes])
    given_up = [x for x in outcomes if x[:6] not in ("http_2", "http_3")]
    given_up = {*given_up} - {"replaced", "purged"}

    text = summary({f"outcome/{x}": 1 for x in outcomes}, jobdir="", places={})
    assert f"  given up  {len(given_up)} URLs\n" in text
    assert {*re.findall(r"^ +1  (\w+)", text, re.MULTILINE)} == given_up
    with open_crawl(tmp_path) as crawl:
        found = report(crawl, at=2e9)
        ((by_host,),) = crawl.file.select("SELECT given_up FROM hosts")
    table = numbers(found, "crawl-report")
    assert crawl.results.given_up.keys() == given_up
    assert by_host == table["given up"] == len(given_up)
    assert f"redirects  {table['redirects']}\n" in text
    assert table["URLs finished"] == len(outcomes)
    assert table["pages"] + table["redirects"] + table["given up"] == len(outcomes) - 2
    failed = {x for x in given_up if kind_of(x) in FAULTS}
    assert dict(found.summary)["URLs failed"] == share(len(failed), len(outcomes))
    assert dict(found.summary)["not there or denied"] == share(
        len(given_up - failed), len(outcomes)
    )
    assert {row[0] for row in figure(found, "faults").table.rows} == failed


def test_full_compressed_and_torn_logs_are_read(tmp_path):
    path = write_log(tmp_path, KNOWN[6:], more=b'{"at":1.0,"url":"http://torn')
    for number, lines in enumerate((KNOWN[:2], KNOWN[2:4], KNOWN[4:6]), 1):
        full = write_log(tmp_path / "old", lines, more=NOT_OURS)
        full.rename(path.with_name(f"info-{number:06d}.jsonl"))
    first = path.with_name("info-000001.jsonl")
    packed = gzip.compress(first.read_bytes())
    first.with_name("info-000001.jsonl.gz").write_bytes(packed)
    first.unlink()
    # One that is just being compressed counts once.
    second = path.with_name("info-000002.jsonl.gz")
    second.write_bytes(gzip.compress(path.with_name("info-000002.jsonl").read_bytes())[:20])
    assert outcomes_of(crawl_of(tmp_path)) == Counter(one.outcome for one in KNOWN)


@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: packed[:-1],
        lambda packed: b"x" + packed,
        lambda packed: packed[:40] + b"\xff\xff\xff" + packed[43:],
    ],
)
def test_a_damaged_compressed_file_is_named_and_the_others_are_read(tmp_path, damage):
    path = write_log(tmp_path, KNOWN)
    packed = path.with_name("info-000001.jsonl.gz")
    packed.write_bytes(damage(gzip.compress(path.read_bytes())))
    (tmp_path / "stats.json").write_bytes(b'{"\xff": 1}')
    found = report_of(tmp_path)
    assert f"The rest of a log could not be read: {packed}: " in found.alarms[0]
    assert int(dict(found.summary)["pages"]) >= 4


def test_one_of_a_thousand_log_files_is_open_at_a_time(tmp_path):
    path = write_log(tmp_path, KNOWN[:1])
    for number in range(1, 1001):
        path.with_name(f"info-{number:06d}.jsonl").write_bytes(path.read_bytes())
    files = open_files()
    assert max(open_files() for _ in line_chunks(path)) <= files + 3


def test_a_file_compressed_while_the_log_is_read_is_still_read(tmp_path):
    path = write_log(tmp_path, KNOWN[:1])
    full = [path.with_name(f"info-{number:06d}.jsonl") for number in (1, 2)]
    for number, one in enumerate(full, 1):
        one.write_bytes(b"%d\n" % number)
    found = []
    for lines in line_chunks(path):
        found.append(lines)
        if full[1].exists():
            full[1].with_suffix(".jsonl.gz").write_bytes(gzip.compress(full[1].read_bytes()))
            full[1].unlink()
    assert found == [b"1\n", b"2\n", path.read_bytes()]


def test_full_files_are_read_where_the_next_one_is_not_made_yet(tmp_path):
    path = write_log(tmp_path, KNOWN)
    told = path.read_bytes()
    path.rename(path.with_name("info-000001.jsonl"))
    assert [*line_chunks(path)] == [told]


def test_totals_are_the_same_in_pieces_and_at_once(monkeypatch):
    lines = msgspec.json.Encoder().encode_lines(KNOWN + DEAD)
    found = []
    for size in (1, 1 << 20):
        monkeypatch.setattr(info_log, "_CHUNK_BYTES", size)
        with closing(TotalsFile()) as file:
            LogTotals(file=file).add(lines)
            names = ("hosts", "types", "seeds")
            found.append([file.select(f"SELECT * FROM {name}").fetchall() for name in names])
    assert found[0] == found[1]
    assert all(found[0])


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_drones_of_a_hive_count_as_one_crawl(tmp_path):
    for number in (0, 1):
        jobdir = tmp_path / "drones" / str(number)
        write_log(jobdir, KNOWN[number::2])
        stats = {"crawl/politeness/waits/1/4": 5, "crawl/urls/refused/scope": 3 + number}
        (jobdir / "stats.json").write_text(json.dumps({**stats, "finish_reason": "finished"}))
    crawl = crawl_of(tmp_path)
    assert (crawl.drones, crawl.state) == (2, "finished: nothing is left to fetch")
    assert outcomes_of(crawl) == Counter(one.outcome for one in KNOWN)
    assert crawl.counts("urls/refused/") == {"scope": 7}
    assert crawl.counts("politeness/waits/") == {"1/4": 10}


@pytest.mark.parametrize("module", [chart, figures, guides, heritrix_log, outcome_words, page])
def test_the_examples_of_docstrings_are_true(module):
    result = doctest.testmod(module)
    assert (result.failed, result.attempted > 0) == (0, True)


def test_rates_are_those_of_the_last_minute_and_of_the_stats(tmp_path):
    """Twelve pages and thirty visits a minute until 900 s, and none in ten minutes before."""
    write_log(tmp_path, [])
    history = History(tmp_path / "history", at=T0 - 10)
    record = Record(state=State("running"), diagnosis=Diagnosis(Cause.POLITENESS, 0.0, ""))
    for at in [*range(0, 300, 10), *range(830, 910, 10)]:
        outcomes = {"outcome/http_200": at // 5, "visits/unchanged": at // 2}
        history.add(T0 + at, {} if at < 300 else outcomes, record)
    counts = {"outcome/http_200": 90, "visits/unchanged": 180, "elapsed_time_seconds": 900.0}
    (tmp_path / "stats.json").write_text(json.dumps({f"crawl/{x}": n for x, n in counts.items()}))
    with open_crawl(tmp_path) as crawl:
        for at, recent in ((905, ("0.2", "0.5")), (1943, ("0.0", "0.0"))):
            running = crawl._replace(state="running")
            summary = dict(report(running, at=T0 + at).summary)
            pages, visits = recent
            assert summary["pages per second"] == f"{pages} in the last minute, 0.1 on average"
            assert summary["visits per second"] == f"{visits} in the last minute, 0.2 on average"


def test_gauges_of_drones_are_summed_even_if_one_has_ended(tmp_path):
    for number in (0, 1):
        ats = range(int(T0), int(T0) + (720 if number else 360), 60)
        write_log(tmp_path / f"drones/{number}", [])
        write_history(tmp_path / f"drones/{number}", ats, waiting=lambda _: 100)
    found = report_of(tmp_path)
    rows = figure(found, "waiting").table.rows
    assert [row[1] for row in rows] == [200] * 6 + [100] * 6
    assert "Drones" not in found.sections  # they have no diagnosis yet


def test_each_drone_has_a_row_with_its_speed_and_share(tmp_path):
    for number, waiting in enumerate((30, 10)):
        jobdir = tmp_path / f"drones/{number}"
        write_log(jobdir, [])
        write_history(jobdir, [T0, T0 + 60])
        diagnosis = Diagnosis(Cause.POLITENESS, T0, "")
        record = Record(
            state=State("running"), diagnosis=diagnosis, waiting=waiting, shards={"running": 4}
        )
        said = msgspec.json.encode(Line(T0 + 60, record))
        (jobdir / "logs/stats.jsonl").write_bytes(said + b"\n")
        (jobdir / "stats.json").write_text(json.dumps({"crawl/job/cut_off": number}))
    rows = figure(report_of(tmp_path), "drones").table.rows
    assert [row[0] for row in rows] == ["drone 0", "drone 1"]
    assert [row[3:] for row in rows] == [(30, "75.0%", 0, 4, 0), (10, "25.0%", 0, 4, 1)]
    assert {row[2] for row in rows} == {"0.0"}


def test_no_line_is_drawn_over_a_gap_in_the_data(tmp_path):
    write_log(tmp_path, [])
    ats = [*range(0, 6000, 60), *range(30_000, 36_000, 60), 54_000]
    write_history(tmp_path, [T0 + at for at in ats], waiting=lambda number: number)
    found = report_of(tmp_path)
    (path,) = [
        path
        for style, path in chart.laid_out(figure(found, "waiting").chart).marks
        if style.startswith("line c0") and "L" in path
    ]
    assert path.count("M") == 3
    assert len(figure(found, "waiting").table.rows) <= 120


def test_a_single_interval_after_a_gap_is_a_short_bar(tmp_path):
    write_log(tmp_path, [])
    write_history(tmp_path, [T0 + at for at in [*range(0, 6000, 60), 30_000]], waiting=int)
    drawing = figure(report_of(tmp_path), "waiting").chart
    (path,) = [path for style, path in chart.laid_out(drawing).marks if "L" in path]
    assert re.findall(r"M([\d.]+) [\d.]+h(\d)", path) == [("288.0", "4")]  # the axis ends at 290


def test_each_start_is_a_line_in_the_charts(tmp_path):
    """After half an hour it does not run for five minutes; a quick restart has no gap."""
    write_log(tmp_path, [])
    write_history(tmp_path, range(int(T0), int(T0) + 1800, 60), waiting=int)
    write_history(tmp_path, range(int(T0) + 2100, int(T0) + 2400, 60), waiting=int)
    write_history(tmp_path, range(int(T0) + 2400, int(T0) + 3000, 60), waiting=int)
    found = report_of(tmp_path)
    drawing = figure(found, "waiting").chart
    (path,) = [path for style, path in chart.laid_out(drawing).marks if style == "start"]
    assert (len(drawing.starts), path.count("M")) == (2, 2)  # the first one is the axis


def test_runs_have_their_start_and_end_and_the_reason(tmp_path):
    """Two ended, one was killed after ten minutes, and the last one is running."""
    events = [(0, ""), (600, "shutdown"), (700, ""), (800, "finished"), (3600, ""), (9000, "")]
    rows = [RunEvent(T0 + at, reason, {"JOBDIR": "x"}, "ann on a") for at, reason in events]
    rows[2].settings["N"] = "8"
    rows[-1].settings["N"] = "9"
    with in_use(tmp_path):
        write_log(tmp_path, [])
        write_history(tmp_path, range(int(T0) + 3600, int(T0) + 4200, 60))
        (tmp_path / RUNS).write_bytes(msgspec.json.Encoder().encode_lines(rows) + b"torn")
        shown = figure(report_of(tmp_path), "runs").table.rows
        assert runs_table(tmp_path, [tmp_path], now=T0 + 9090).table.rows[0][2] == "90 s"
    day = "2027-01-15"
    by = "ann on a"
    killed = "not known: it was killed, or its machine went down"
    assert shown == [
        (
            f"{day} 10:30:00",
            "",
            span(2e9 - T0 - 9000),
            "it is running",
            "ann on a",
            "N default → 9",
        ),
        (f"{day} 09:00:00", f"about {day} 09:09:10", "550 s", killed, by, "N 8 → default"),
        (f"{day} 08:11:40", f"{day} 08:13:20", "100 s", "finished", by, "N default → 8"),
        (f"{day} 08:00:00", f"{day} 08:10:00", "10 min", "stopped by a signal", by, ""),
    ]
    assert figure(report_of(tmp_path), "runs").table.rows[0][-3] == killed


@each(
    "boot next_boot next_by why",
    ("1", "1", "ann on a", "killed; the machine stayed up"),
    ("1", "2", "bob on a", "the machine went down"),
    ("1", "2", "ann on b", "not known: it was killed, or its machine went down"),
    ("", "", "ann on a", "not known: it was killed, or its machine went down"),
)
def test_a_run_without_an_end_was_killed_or_its_machine_went_down(
    tmp_path, boot, next_boot, next_by, why
):
    events = [RunEvent(T0, boot=boot, by="ann on a"), RunEvent(T0 + 9, boot=next_boot, by=next_by)]
    write_log(tmp_path, [])
    (tmp_path / RUNS).write_bytes(msgspec.json.Encoder().encode_lines(events))
    assert figure(report_of(tmp_path), "runs").table.rows[1][3] == why


def test_the_last_run_was_killed_if_the_machine_has_not_been_started_since(tmp_path):
    write_log(tmp_path, [])
    for boot, why in ((boot_id(), "killed; the machine stayed up"), ("1", "the machine went down")):
        event = RunEvent(T0, boot=boot, by=user_and_machine())
        (tmp_path / RUNS).write_bytes(msgspec.json.encode(event) + b"\n")
        assert figure(report_of(tmp_path), "runs").table.rows[0][3] == why


def test_the_crawl_began_with_its_first_run(tmp_path):
    write_log(tmp_path, [line("http://a.test/", "http_200", T0 + 60)])
    (tmp_path / RUNS).write_bytes(msgspec.json.encode(RunEvent(T0)) + b"\n")
    found = report_of(tmp_path)
    assert found.head[0].endswith("; began 2027-01-15 08:00:00, last URL 2027-01-15 08:01:00 (UTC)")
    assert numbers(found, "crawl-report")["begin (UTC)"] == "2027-01-15 08:00:00"


def write_rates(jobdir, *parts):
    """Write a history with *parts*: for so many minutes, so many pages and URLs that timed out.

    With None in place of the numbers, the crawl does not run. Return its end.
    """
    jobdir.mkdir(parents=True, exist_ok=True)
    record = Record(state=State("running"), diagnosis=Diagnosis(Cause.POLITENESS, 0.0, ""))
    minute = 0
    for minutes, counts in parts:
        history = History(jobdir / "history", at=T0 + 60 * minute - 1)
        for run_minute in range(minutes if counts else 0):
            stats = dict(zip(("outcome/http_200", "outcome/timeout"), counts, strict=True))
            stats = {name: (run_minute + 1) * number for name, number in stats.items()}
            history.add(T0 + 60 * (minute + run_minute) + 59, stats, record)
        minute += minutes
    return T0 + 60 * minute


def test_the_last_hour_is_compared_with_the_same_hour_of_yesterday(tmp_path):
    """Yesterday's was a good hour, and nine hours later it became slow, with failures."""
    end = write_rates(
        tmp_path, (60, (40, 1)), (600, (36, 1)), (780, (20, 0)), (30, (20, 0)), (30, (10, 10))
    )
    pages, failures = comparisons([tmp_path], now=end)
    assert pages == (
        "Pages: 900 in the hour until 09:00 UTC: 0.25 per second; 0.667 in the same hour of "
        "yesterday: 62% less."
    )
    assert failures == (
        "Failures: 25.0% of 1,200 URLs in the hour until 09:00 UTC; 2.4% in the same hour of "
        "yesterday: 10.2 times as much."
    )


def test_without_such_an_hour_the_last_hour_is_compared_with_the_day_before(tmp_path):
    end = write_rates(tmp_path, (300, (20, 1)), (60, (26, 1)))
    pages, failures = comparisons([tmp_path], now=end)
    assert pages == (
        "Pages: 1,560 in the hour until 14:00 UTC: 0.433 per second; 0.333 in the day before: 30% "
        "more."
    )
    assert "; 4.8% in the day before: 22% less." in failures


def test_an_hour_in_which_the_crawl_ran_for_minutes_is_only_compared_per_second(tmp_path):
    end = write_rates(tmp_path, (300, (120, 0)), (55, None), (5, (120, 0)))
    assert comparisons([tmp_path], now=end)[0] == (
        "Pages: 600 in the hour until 14:00 UTC, of which the crawl ran for 300 s: 2 per second; "
        "2 in the day before: about the same."
    )


def test_a_part_of_an_hour_of_yesterday_is_only_compared_per_second(tmp_path):
    end = write_rates(tmp_path, (20, None), (40, (60, 0)), (1380, (30, 0)), (60, (30, 0)))
    assert comparisons([tmp_path], now=end)[0] == (
        "Pages: 1,800 in the hour until 09:00 UTC: 0.5 per second; 1 in the same hour of "
        "yesterday: 50% less."
    )


def test_the_first_hour_is_compared_with_nothing(tmp_path):
    assert comparisons([tmp_path], now=T0) == []
    end = write_rates(tmp_path, (60, (20, 0)))
    assert comparisons([tmp_path], now=end) == [
        "Pages: 1,200 in the hour until 09:00 UTC: 0.333 per second.",
        "Failures: 0.0% of 1,200 URLs in the hour until 09:00 UTC.",
    ]


def test_the_running_time_of_a_killed_crawl_is_that_of_its_history(tmp_path):
    """Which has all of its runs; the stats lack the last minute of the one that was killed."""
    write_log(tmp_path, [line("http://a.test/", "http_200", T0 + 60)])
    write_rates(tmp_path, (60, (120, 0)), (600, None), (30, (60, 0)))
    (tmp_path / "stats.json").write_text('{"crawl/elapsed_time_seconds": 9, "job/cut_off": 1}')
    summary = dict(report_of(tmp_path).summary)
    assert summary["running time"] == "90 min"
    assert summary["pages per second"] == "1.7 on average"  # 9,000 pages


def test_a_history_that_began_after_the_crawl_does_not_know_its_running_time(tmp_path):
    write_log(tmp_path, [line("http://a.test/", "http_200", T0 - 4000)])
    write_rates(tmp_path, (60, (120, 0)))
    (tmp_path / "stats.json").write_text('{"job/cut_off": 1}')
    assert "running time" not in dict(report_of(tmp_path).summary)


def test_a_value_that_never_changes_is_a_sentence_instead_of_a_chart(tmp_path):
    write_log(tmp_path, [])
    write_history(tmp_path, range(int(T0), int(T0) + 600, 60), waiting=lambda _: 7, resting=int)
    found = report_of(tmp_path)
    assert figure(found, "waiting").chart is None
    failures = figure(found, "failures").lead
    assert failures == (
        "Since 2027-01-15 08:09:00 UTC (and on average of the chart): "
        "0.283 (0.135) URLs per second."
    )
    assert figure(found, "waiting").lead == "Last: 7 URLs."
    assert [*figure(found, "workers").chart.series] == ["hosts paused"]


def test_the_last_value_of_a_gauge_is_the_newest_one(tmp_path):
    """Also in intervals of many minutes; of two drones the sum, if both are running."""
    for number, end in enumerate((36_000, 36_000, 20_000)):
        write_log(tmp_path / f"drones/{number}", [])
        ats = range(int(T0), int(T0) + end, 100)
        write_history(tmp_path / f"drones/{number}", ats, waiting=lambda n: 1000 + n)
    found = report_of(tmp_path)
    waiting = figure(found, "waiting")
    assert waiting.lead.startswith("Last: 2,718 URLs")
    assert waiting.table.rows[-1][1] == 2718 > waiting.table.rows[-2][1]
    assert figure(found, "memory").lead == "Last: 718 MB."


def disk_of(jobdir, frees, *, size):
    """What is said of a disk with *frees* bytes in each minute, *size* of them by the job."""
    record = Record(state=State("running"), diagnosis=Diagnosis(Cause.POLITENESS, 0.0, ""))
    writer = History(jobdir / "history", at=T0 - 1)
    for number, free in enumerate(frees):
        writer.add(T0 + 60 * number + 59, {}, record, **{"free disk": free})
    for part in (1, 2):
        (jobdir / f"part{part}").write_bytes(bytes(size // 2))
    (jobdir / "kept").mkdir()
    (jobdir / "kept/part1").hardlink_to(jobdir / "part1")
    return disk_outlook(jobdir, [jobdir], crawl_secs=3000.0)


MB = 1 << 20


@each(
    "by_others free text",
    (0, 1000, "at about 2027-01-19 18:00 UTC, in 4.4 days, if it fills as in the last hour."),
    # Whatever others write in this hour, the job grows as before.
    (20, 1000, "at about 2027-01-19 18:00 UTC, in 4.4 days, if the job grows as until now."),
    (20, 200, "at about 2027-01-16 06:00 UTC, in 21.0 h, if the job grows as until now."),
    # Others fill it within the next hour.
    (900, 500, "at about 2027-01-15 09:24 UTC, in 24 min, if it fills as in the last hour."),
    (-50, 1000, "The disk has not filled in the last hour."),
)
def test_a_disk_is_full_as_the_job_grows_or_as_it_has_filled_for_an_hour(
    tmp_path, by_others, free, text
):
    """The job has written 8 MB in 50 minutes. A disk that is full within a day needs attention."""
    (tmp_path / "stats.json").write_text('{"settings/DISK_MIN_FREE_BYTES": "0"}')
    frees = [MB * (free + (8 + by_others) * (1 - n / 50)) for n in range(60)]
    shown, is_near = disk_of(tmp_path, frees, size=8 * MB)
    assert text in shown
    assert is_near == (free < 1000)
    assert ("by which it has filled in the last hour, " in shown) == (by_others > 8)


def test_nothing_is_said_of_a_disk_before_there_are_enough_minutes(tmp_path):
    """Although it was filled by a tenth within the last of them."""
    frees = [1e12] * 29
    assert disk_of(tmp_path, frees, size=MB) == ("", False)


def test_what_others_write_for_a_moment_changes_nothing(tmp_path):
    """A tenth of the disk, for four minutes, in the middle and at the end of the hour."""
    frees = [1e12 - 1e11 * (n in range(30, 34) or n >= 56) - 1e6 * n for n in range(60)]
    assert "in a year at the earliest" in disk_of(tmp_path, frees, size=60_000_000)[0]


def test_the_page_of_a_running_crawl_says_when_its_disk_is_full(tmp_path):
    with in_use(tmp_path):
        write_log(tmp_path, [line("http://a.test/", "http_200", T0 + 60)])
        (tmp_path / "stats.json").write_text('{"settings/DISK_MIN_FREE_BYTES": "460000000000"}')
        disk_of(tmp_path, [1e12 - 1e7 * n for n in range(60)], size=4 * MB)
        (sentence,) = [one for one in report_of(tmp_path).compared if "disk" in one]
        full = "The disk will be full, except for DISK_MIN_FREE_BYTES (460GB), and the "
        full += "crawl will pause in a "
        assert (
            f"{full}year at the earliest, if the job grows as until now. Of the 500MB by"
            in sentence
        )
        assert "disk" not in "".join(report_of(tmp_path).alarms)
    assert "disk" not in "".join(report_of(tmp_path).compared)


def test_a_disk_that_is_full_within_a_day_needs_attention(tmp_path):
    with in_use(tmp_path):
        write_log(tmp_path, [line("http://a.test/", "http_200", T0 + 60)])
        (tmp_path / "stats.json").write_text('{"settings/DISK_MIN_FREE_BYTES": "100000000"}')
        disk_of(tmp_path, [1.5e8 - 1e5 * n for n in range(60)], size=4 * MB)
        found = report_of(tmp_path)
    assert "disk" not in "".join(found.compared)
    (alarm,) = [one for one in found.alarms if "disk" in one]
    full = "The disk will be full, except for DISK_MIN_FREE_BYTES (100MB), and the "
    full += "crawl will pause at about "
    assert alarm.startswith(f"{full}2027-01-15 20:00 UTC, in 11.0 h, if the job grows")
    assert alarm.endswith(". See docs/howto/run-it-for-weeks.md#disk.")


def test_a_run_that_was_cut_off_needs_attention_for_a_day(tmp_path):
    """It was killed within the minute in which the next one began."""
    write_log(tmp_path, [])
    for events, shown in (
        ([(0, ""), (930, "")], ["09:00:20"]),
        ([(0, ""), (900, "shutdown"), (930, "")], []),
    ):
        rows = [RunEvent(T0 + 3600 + at, reason) for at, reason in events]
        (tmp_path / RUNS).write_bytes(msgspec.json.Encoder().encode_lines(rows))
        write_history(tmp_path, range(int(T0) + 3600 - 900, int(T0) + 3611, 10))
        found = cut_off_alarms([tmp_path], now=T0 + 3600 + 940)
        assert [
            re.search(r"was cut off about \S+ (\S+) UTC \(not", one)[1] for one in found
        ] == shown
        assert cut_off_alarms([tmp_path], now=T0 + 3 * 86_400) == []


def test_a_crawl_of_a_minute_has_charts_and_says_nothing_of_a_full_disk(tmp_path):
    write_log(tmp_path, [])
    write_history(tmp_path, range(int(T0), int(T0) + 50, 10), waiting=int)
    found = report_of(tmp_path)
    assert len(figure(found, "waiting").table.rows) == 5
    assert "full" not in figure(found, "disk").lead
