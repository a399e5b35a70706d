"""Finished URLs are visited again: what the servers are asked, and what comes of it."""

import asyncio
import json

import warc_checks
import warm
from linked_site import Answer, crawl, pages_of, served

from webcrawl.jobs.inspect.info_log import outcome_lines

PAGES = pages_of("refetch")
SETTINGS = {
    # As many as there are at first: visits are not charged.
    "BUDGET_HOST_PAGES": 12,
    "FRONTIER_RETRY_TIMES": 0,
    "OUTAGE_HOSTS": 0,
    "ROBOTSTXT_OBEY": 0,
}


async def command(job, *options):
    run = await asyncio.to_thread(warm.scrapy, "frontier", job, *options, "--json")
    return run.returncode, json.loads(run.stdout or "{}"), run.stderr


def visits(stats):
    return {
        name.removeprefix("visits/"): count
        for name, count in stats.items()
        if name.startswith("visits/")
    }


async def test_a_refetch_visits_what_was_answered_and_charges_nothing_for_it(tmp_path):
    job = tmp_path / "job"
    async with served(PAGES) as sites:
        first = await crawl(sites, job, "a.test", **SETTINGS)
        assert first["outcome/http_200"] == 12
        assert not visits(first)

        for urls in (12, 0):  # run twice it does no more
            code, counts, _ = await command(job, "--refetch", "all")
            told = {"urls": urls, "waiting": 12 - urls, "left_out": 0, "unknown": []}
            assert (code, counts) == (0, told)

        del sites.pages["a.test/gone"]
        sites.pages |= pages_of("refetch_later")
        sites.statuses.clear()
        second = await crawl(sites, job, "a.test", **SETTINGS | {"BUDGET_HOST_PAGES": 13})
        # One visit in ten is not conditional.
        not_modified = {name for name, status in dict(sites.statuses).items() if status == 304}
        assert not_modified <= {"a.test/tag", "a.test/date"}
        assert dict(sites.statuses) == dict.fromkeys(PAGES, 200) | {
            **dict.fromkeys(not_modified, 304),
            "a.test/moves": 301,
            "a.test/gone": 404,
            "a.test/fails": 503,
        }
        assert len(sites.statuses) == len(PAGES)
        assert visits(second) == {"unchanged": 6, "changed": 3, "moved": 1, "gone": 1, "failed": 1}
        assert second["outcome/http_200"] == 1
        assert second["crawl/outcome/http_200"] == 13
        assert second["crawl/visits/unchanged"] == 6

        # What is known of a document outlives a visit that had no answer, or none with a body.
        code, counts, _ = await command(job, "--refetch", "all")
        assert (code, counts["urls"]) == (0, 13)
        sites.pages["a.test/fails"] = PAGES["a.test/fails"]
        # Other bytes, and the same text: stored, and no change.
        sites.pages["a.test/dated"] = Answer(b"<p>On day 3 nothing is new</p><script>3</script>")
        sites.statuses.clear()
        third = await crawl(sites, job, "a.test", **SETTINGS)
        found = dict(sites.statuses)
        known = {name for name, status in found.items() if status == 304}
        assert known <= {"a.test/date", "a.test/fails", "a.test/other", "a.test/tag"}
        assert visits(third) == {"unchanged": 11, "moved": 1, "gone": 1}
    files = sorted((job / "warc").glob("*.gz"))
    heads = [one.headers for path in files for one in warc_checks.records(path)]
    stored = {
        (head["WARC-Target-URI"], head["WARC-Date"][:19])
        for head in heads
        if head["WARC-Type"] == "response"
    }
    profiles = []
    for head in heads:
        if head["WARC-Type"] == "revisit":
            profiles.append(head["WARC-Profile"].rpartition("/")[2])
            first = head["WARC-Refers-To-Target-URI"], head["WARC-Refers-To-Date"][:19]
            assert first in stored
    assert profiles.count("server-not-modified") == len(not_modified) + len(known)
    assert profiles.count("identical-payload-digest") == 15 - len(not_modified) - len(known)


async def test_what_is_due_goes_by_age_pattern_and_list(tmp_path):
    job, due = tmp_path / "job", tmp_path / "due.txt"
    async with served(PAGES) as sites:
        await crawl(sites, job, "a.test", **SETTINGS)
        for options, urls in (
            (["--refetch", "older-than", "1h"], 0),
            (["--refetch", f"http://a.test:{sites.port}/[dt]*"], 3),
            (["--refetch", "older-than", "0s"], 9),
        ):
            code, counts, said = await command(job, *options)
            assert (code, counts["urls"]) == (0, urls), said
        await crawl(sites, job, "a.test", **SETTINGS)
        due.write_text(f"http://a.test:{sites.port}/tag\nhttp://a.test:{sites.port}/unknown\n?\n")
        code, counts, said = await command(job, "--due", str(due))
        unknown = [f"http://a.test:{sites.port}/unknown", "?"]
        assert (code, counts["urls"], counts["unknown"]) == (0, 1, unknown), said
        await crawl(sites, job, "a.test", **SETTINGS)
        name, status = sites.statuses[-1]
        assert (name, status) in {("a.test/tag", 304), ("a.test/tag", 200)}  # one in ten
        last = [*outcome_lines(job)][-1]
        assert (last.visit, last.etag, last.status) == ("unchanged", 'W/"x y"', status)
        code, _, said = await command(job, "--refetch", "older-than", "7 dogs")
        assert (code, said) == (
            2,
            "frontier: '7 dogs' is not an age, such as 7d, 12h or 30min.\n",
        )
