"""The progress line, in a real small crawl."""

import re

import pytest
from crawling import clean_web, crawl_command, finish, stats_of
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler
from text_tables import cases, each

from webcrawl.crawl.figures.activity import CrawlActivity
from webcrawl.crawl.figures.counts import Counts
from webcrawl.doctor.diagnosis import Cause, Diagnosis
from webcrawl.extensions.statistics import Statistics, progress_line

LINE = re.compile(
    r"\[webcrawl\] INFO: (\d+:\d\d:\d\d) ([\d,]+) pages? \(([\d.]+)/s\), ([\d,]+) given up; "
    r"([\d,]+) waiting, (\d+) in process; (.+)\n"
)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """What a small crawl with two lines a second wrote, and its stats."""
    directory = tmp_path_factory.mktemp("crawl")
    with clean_web(directory, hosts=16, mean_pages=4.0, max_pages=20) as (web, seeds):
        settings = {"STATISTICS_INTERVAL_SECS": 0.25, "CHECKPOINT_INTERVAL_SECS": 0.3}
        # The hosts are paused for seconds, so that they limit the crawl even on a busy computer.
        settings |= {"POLITENESS_MIN_DELAY": 0.3}
        said = finish(crawl_command(web, seeds, directory / "job", **settings))
    return said, stats_of(directory / "job")


def test_a_line_comes_at_every_interval_and_agrees_with_the_stats(log):
    text, stats = log
    lines = [found.groups() for found in LINE.finditer(text)]
    assert len(lines) >= 4
    pages, given_up, waiting, in_process = (
        [int(line[column].replace(",", "")) for line in lines] for column in (1, 3, 4, 5)
    )
    assert pages == sorted(pages)
    assert 0 < pages[-1] <= stats["outcome/http_200"] < stats["contacts"]
    assert given_up[-1] <= sum(
        count for name, count in stats.items() if re.match("outcome/(?!http_[23])", name)
    )
    assert any(waiting)
    assert max(in_process) <= 16  # hosts
    assert {line[0] for line in lines} <= {"0:00:00", *(f"0:00:{n:02}" for n in range(60))}
    assert any("waiting for hosts: " in line[6] for line in lines)


@cases(
    "line",
    r"""
        Spider opened
        seeds: \S+: 8 seeds, 0 bad lines, 8 lines
        Checkpoint made: \d+ ms in the reactor, \d+\.\d\d s in all
        Closing spider \(finished\)
        Crawl state saved \(finished\)
        Spider closed \(finished\)
    """,
)
def test_every_step_of_the_crawl_has_its_line(log, line):
    assert re.search(rf" INFO: {line}\n", log[0]), log[0]


def test_the_start_takes_few_lines(log):
    begin = log[0].partition("Spider opened")[0]
    assert len(begin.splitlines()) < 8, begin
    assert re.search(r" INFO: webcrawl \d\S+, spider web, with seeds=\S+, ALLOW_PRIVATE_ADD", begin)
    assert "webcrawl.pipelines.warc.WarcPipeline" in begin
    assert re.search(r" INFO: New crawl in \S+job\n", log[0])


def test_there_is_no_line_per_page_and_none_above_info(log):
    text, stats = log
    begun = text[text.index("Spider opened") :]
    # Those that come by time are more on a busy machine.
    by_time = re.compile(rf"Checkpoint made|{LINE.pattern}", LINE.flags)
    lines = [line for line in begun.splitlines() if by_time.search(f"{line}\n") is None]
    assert len(lines) < stats["response_received_count"] / 2
    assert " WARNING: " not in text
    assert " ERROR: " not in text


def test_the_rate_is_that_of_the_last_interval(log):
    text, _ = log
    lines = [found.groups() for found in LINE.finditer(text)]
    pages = [0, *(int(line[1].replace(",", "")) for line in lines)]
    # 0.25 s between two lines, more on a busy machine.
    for before, after, line in zip(pages, pages[1:], lines, strict=False):
        assert float(line[2]) <= (after - before) / 0.12 + 1


STATE = CrawlActivity(waiting=9_999_900_000, in_process=1_000, workers=1_000)


@each(
    "evidence rate shown",
    ("20 hosts rest", 1_234, "1,234"),
    ("long " * 20, 0.25, "0.2"),
    ("", 0, "0"),
)
def test_a_line_is_whole_and_small_rates_have_a_decimal(evidence, rate, shown):
    line = progress_line(
        STATE,
        Diagnosis(Cause.POLITENESS, 0.0, evidence),
        Counts.of({"outcome/http_200": 999_900_000, "outcome/http_404": 99_900_000}),
        secs=9_999 * 3600 + 62,
        rate=rate,
        visit_rate=0.0,
    )
    assert line == (
        f"9999:01:02 999.9M pages ({shown}/s), 99.9M given up; 9,999.9M waiting, 1,000 in process; "
        f"waiting for hosts: {evidence}"
    )


def test_a_line_has_the_speed_of_visits():
    line = progress_line(
        STATE._replace(due=30, fresh=20),
        Diagnosis(Cause.POLITENESS, 0.0, ""),
        Counts.of({"outcome/http_200": 1, "visits/same": 120}),
        secs=1,
        rate=0.0,
        visit_rate=0.4,
    )
    assert " 1 page (0/s), 120 visits (0.4/s), 20 URLs seen within 7 days, 0 given up; " in line


@each("value", 0, "0", 0.0, None)
def test_zero_is_no_line_at_all(value):
    crawler = get_crawler(settings_dict={"STATISTICS_INTERVAL_SECS": value})
    with pytest.raises(NotConfigured, match="STATISTICS_INTERVAL_SECS is 0"):
        Statistics.from_crawler(crawler)
