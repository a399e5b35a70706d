"""The summary at the end of a crawl, word for word."""

import pytest
from golden import golden
from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler
from text_tables import cases, each
from wire_text import table

from webcrawl.crawl.figures.summary import summary
from webcrawl.extensions.summary import Summary

TABLE = table("summary")
STATS, MORE = TABLE.pop("stats"), TABLE.pop("more")


PLACES = {"WARC": "crawls/x/warc"}


def text_of(stats):
    return summary(stats, jobdir="crawls/x", places=PLACES)


def test_a_finished_crawl_shows_figures_and_errors_by_frequency():
    text = text_of(STATS)
    assert text == golden("summary.txt", text)


def test_a_stopped_crawl_says_how_to_resume_and_what_waits():
    stats = {"finish_reason": "shutdown", "frontier/waiting": 9_000, "seen/waiting": 7}
    text = text_of(stats)
    assert text == golden("summary-stopped.txt", text)


def test_a_resumed_crawl_tells_this_run_from_the_whole():
    stats = {f"crawl/{name}": value for name, value in STATS.items() if name[0] not in "fe"} | {
        "crawl/elapsed_time_seconds": 61.5,
        "crawl/fetch/bytes": 123_456_789,
        "finish_reason": "finished",
        "job/resumed": 1,
        "elapsed_time_seconds": 1.2,
        "outcome/http_200": 1,
        "outcome/timeout": 2,
        "contacts": 7,
    }
    expected = text_of(STATS).replace(
        "      WARC",
        "  this run  1 page, 7 requests, 2 URLs given up; 0.8 pages/s over 1 s\n      WARC",
    )
    assert text_of(stats) == expected


@cases(
    "reason end",
    """
        closespider_timeout    | stopped: CLOSESPIDER_TIMEOUT was reached
        closespider_itemcount  | stopped: CLOSESPIDER_ITEMCOUNT was reached
        closespider_pagecount  | stopped: CLOSESPIDER_PAGECOUNT was reached
        closespider_errorcount | stopped: CLOSESPIDER_ERRORCOUNT was reached
        memusage_exceeded      | stopped: MEMUSAGE_LIMIT_MB was reached
        start_error            | the spider's start() raised an exception; the log has the traceback
        my_own_reason          | my_own_reason
    """,
)
def test_every_other_end_says_what_it_was_and_that_it_can_be_resumed(reason, end):
    text = text_of({"finish_reason": reason})
    assert f"       end  {end}\n" in text
    assert text.endswith(
        "    resume  run the same command again; it continues where this one stopped\n"
    )


def printed(capsys, stats, **settings):
    """What the extension prints on standard error when the engine has stopped."""
    scheduler = "webcrawl.scheduler.MercatorScheduler"
    settings = {"SUMMARY_ENABLED": True, "SCHEDULER": scheduler, "JOBDIR": "j", **settings}
    crawler = get_crawler(settings_dict=settings)
    extension = Summary.from_crawler(crawler)
    crawler.stats.set_stats(stats)
    crawler.signals.send_catch_log(signals.engine_stopped)
    captured = capsys.readouterr()
    assert captured.out == ""
    del extension
    return captured.err


def test_it_is_printed_at_the_end_and_names_only_what_was_written(capsys, tmp_path):
    written = {"warc/bytes": 1, "contacts": 1}
    said = printed(capsys, written, WARC_DIR="elsewhere")
    assert "      WARC  elsewhere/*.warc.gz\n" in said
    assert "       log  j/logs/info.jsonl: " in said
    assert "      WARC  j/warc/*.warc.gz\n" in printed(capsys, written)
    said = printed(capsys, {}, TEXT_DIR=str(tmp_path))
    assert "WARC  " not in said
    assert "text  " not in said
    (tmp_path / "part-1.parquet").touch()
    assert f"      text  {tmp_path}\n" in printed(capsys, {}, TEXT_DIR=str(tmp_path))


def test_after_an_error_that_ended_the_crawl_there_are_no_figures(capsys):
    assert printed(capsys, {"finish/error": "The disk is full."}) == ""


def test_the_summary_can_be_switched_off():
    with pytest.raises(NotConfigured, match="SUMMARY_ENABLED"):
        Summary.from_crawler(get_crawler(settings_dict={"SUMMARY_ENABLED": False}))


@each("name", *TABLE)
def test_a_crawl_of_the_table_has_its_lines(name):
    """What is parked, what limits the crawl, and what was counted."""
    text = text_of(STATS | TABLE[name].get("stats", {}))
    assert [part for part in TABLE[name].get("has", ()) if part not in text] == []
    assert [part for part in TABLE[name].get("lacks", ()) if part in text] == []


def test_after_a_kill_what_was_counted_only_in_part_is_left_out():
    cut = {f"crawl/{name}": value for name, value in (STATS | MORE).items()}
    stats = cut | {"finish_reason": "finished", "elapsed_time_seconds": 2.0, "job/resumed": 1}
    whole, text = text_of(stats), text_of(stats | {"crawl/job/cut_off": 1})
    for words in ("contacted", "written to WARC", "decompression", "seen before", "speed  "):
        assert words in whole
        assert words not in text
    assert "partial  " not in whole
    partial = "partial hosts and speed are not known, and links, items, pauses, walls and failed "
    partial += "modules lack the last minute of 1 run without a last checkpoint "
    assert partial in " ".join(text.split())
    assert "     links  234 found on 10 pages: 23.4 per page, 18.0 of them distinct\n" in text
    assert "     bytes  123,456,789 received\n" in text
    assert "     pages  12,300 (" in text


def test_the_summary_of_a_drone_tells_what_it_did_from_what_the_hive_did():
    """One that joined late and holds shards that others crawled."""
    stats = {f"crawl/{name}": value for name, value in (STATS | MORE).items()}
    stats |= {"hive/now": "12,345 pages, 7 URLs given up", "contacts": 3, "hosts/contacted": 2}
    stats |= {"crawl/hosts/contacted": 0, "crawl/elapsed_time_seconds": 1.0}
    text = summary(stats, jobdir="j", places=PLACES, files="j", is_drone=True)
    assert "  the hive  12,345 pages, 7 URLs given up\n" in text
    told = " ".join(text.split())
    assert "0 URLs given up; 0.0 pages/s over 0 s; 2 hosts contacted its shards" in told
    assert "this drone 0 pages, 3 requests" in told
    assert "its shards below are their pages, redirects, visits, requests and bytes, which" in told
    assert "     pages  12,300 (" in text
    assert "0 contacted" not in text
    assert "speed  " not in text
    stats["job/resumed"] = 1
    text = summary(stats, jobdir="j", places=PLACES, files="j", is_drone=True)
    assert "2 hosts contacted (this run) " in " ".join(text.split())


def test_no_line_is_longer_than_eighty_columns():
    stats = STATS | {
        **{f"frontier/parked/{name}": 10**9 for name in ("host_budget", "domain_budget")},
        "frontier/parked/reputation": 10**9,
        "outcome/address_forbidden": 10**9,
        "outcome/excluded": 10**9,
        "critical/a_module_of_mine.with_a_long_name.LanguageOfEachPage": 10**9,
        "seeds/read": 10**9,
        "seeds/refused/restrict_to": 10**9,
        "pauses/network_secs": 1e6,
        "pauses/now": "20 hosts in a row failed (dns_failed 20): the name service seems to be "
        "down. It is tried every 5 s; the crawl will continue automatically.",
        "job/resumed": 1,
    }
    text = summary(stats, jobdir="my crawls/web", places=PLACES)
    commands = [line for line in text.splitlines() if line.strip().startswith("scrapy ")]
    assert max(len(line) for line in {*text.splitlines()} - {*commands}) <= 80
    assert "  address_forbidden: not a public address; -s" in text
    job = "'my crawls/web'"  # as a shell wants it
    assert f"scrapy frontier {job} --retry address_forbidden,excluded,robots_denied\n" in text
    assert f"scrapy why {job} URL:" in text


@each("outages", 0, 1)
def test_what_failed_around_an_outage_is_named_with_the_command_that_gets_it(outages):
    stats = STATS | {"outage/count": outages, "outcome/dns_failed": 3}
    text = text_of(stats)
    (command,) = (line.strip() for line in text.splitlines() if "--retry" in line)
    condition = "once the reason is gone" if outages else "if robots.txt has changed"
    assert f"     retry  {condition}, run this before the next crawl:\n" in text
    retried = ["robots_denied", *["dns_failed", "dns_not_found", "timeout"] * outages]
    assert command == f"scrapy frontier crawls/x --retry {','.join(retried)}"
