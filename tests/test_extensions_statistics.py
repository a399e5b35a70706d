"""The progress line, in a real small crawl."""

from __future__ import annotations

import re

import pytest
from crawling import crawl_command, run_crawl, stats_of
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from webcrawl.errors import FatalError
from webcrawl.extensions.statistics import Statistics
from webcrawl.simweb import preset, start_in_process

LINE = re.compile(
    r"\[webcrawl\.extensions\.statistics\] INFO: ([\d,]+) pages \((\d+)/s\), "
    r"([\d,]+) URLs waiting, ([\d,]+) to be checked, (\d+) in process; "
    r"hosts: ([\d,]+) ready, ([\d,]+) resting"
)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """What a small crawl with two lines a second wrote, and its stats."""
    directory = tmp_path_factory.mktemp("crawl")
    world = preset("clean", http_port=0, https_port=0, hosts=16, mean_pages=4.0, max_pages=20)
    with start_in_process(world, log_path=None) as web:
        seeds = directory / "seeds.txt"
        seeds.write_text("\n".join(web.world.seeds()))
        command = crawl_command(
            web,
            seeds,
            directory / "job",
            STATISTICS_INTERVAL_SECS=0.25,
            CHECKPOINT_INTERVAL_SECS=0.3,
            POLITENESS_MIN_DELAY=0.08,
        )
        done = run_crawl(command)
    assert done.returncode == 0, done.stdout
    return done.stdout, stats_of(directory / "job")


def test_a_line_comes_at_every_interval_and_counts_the_answers(log):
    text, stats = log
    lines = [[int(n.replace(",", "")) for n in found.groups()] for found in LINE.finditer(text)]
    assert len(lines) >= 4
    pages = [line[0] for line in lines]
    assert pages == sorted(pages)
    assert 0 < pages[-1] <= stats["response_received_count"]
    # Of 16 hosts none can be ready and resting at once.
    assert all(ready + resting <= 16 for *_, ready, resting in lines)
    assert any(resting > 0 for *_, resting in lines)
    assert any(waiting > 0 for _, _, waiting, *_ in lines)
    assert all(in_process <= 16 for *_, in_process, _, _ in lines)


@pytest.mark.parametrize(
    "line",
    [
        r"Spider opened",
        r"seeds: \S+: 8 seeds, 0 bad lines of 8",
        r"Checkpoint made: \d+ ms in the reactor, \d+\.\d\d s in all",
        r"Closing spider \(finished\)",
        r"Crawl state saved \(finished\)",
        r"Spider closed \(finished\)",
    ],
)
def test_every_step_of_the_crawl_has_its_line(log, line):
    assert re.search(rf" INFO: {line}\n", log[0]), log[0]


def test_the_start_takes_few_lines(log):
    begin = log[0].partition("Spider opened")[0]
    assert len(begin.splitlines()) < 8, begin
    assert re.search(r" INFO: webcrawl \d\S+, spider web, with seeds=\S+, ALLOW_PRIVATE_ADD", begin)
    assert "webcrawl.pipelines.warc.WarcPipeline" in begin
    assert re.search(r" INFO: A new crawl in \S+job\n", log[0])


def test_there_is_no_line_per_page_and_none_above_info(log):
    text, stats = log
    begun = text[text.index("Spider opened") :]
    lines = [line for line in begun.splitlines() if LINE.search(line) is None]
    assert len(lines) < stats["response_received_count"] / 2
    assert " WARNING: " not in text
    assert " ERROR: " not in text


def test_the_rate_is_that_of_the_last_interval(log):
    text, _ = log
    lines = [found.groups() for found in LINE.finditer(text)]
    pages = [0, *(int(line[0].replace(",", "")) for line in lines)]
    # 0.25 s between two lines, more on a busy machine.
    for before, after, line in zip(pages, pages[1:], lines, strict=False):
        assert int(line[1]) <= (after - before) / 0.12 + 1


@pytest.mark.parametrize("value", [0, "0", 0.0, None])
def test_zero_is_no_line_at_all(value):
    crawler = get_crawler(settings_dict={"STATISTICS_INTERVAL_SECS": value})
    with pytest.raises(NotConfigured, match="STATISTICS_INTERVAL_SECS is 0"):
        Statistics.from_crawler(crawler)


@pytest.mark.parametrize("value", ["often", -1, "nan", "inf"])
def test_an_interval_that_cannot_be_is_a_sentence(value):
    crawler = get_crawler(settings_dict={"STATISTICS_INTERVAL_SECS": value})
    with pytest.raises(FatalError, match="STATISTICS_INTERVAL_SECS must be a number"):
        Statistics.from_crawler(crawler)
