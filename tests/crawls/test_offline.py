"""Offline mode: segments are consumed, nothing is followed, and all of the web is found by turns of
crawl and queue-build."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest
from crawling import crawl_command, finish, pages_asked_for, printed, refusal, simulated
from linked_site import pages_of, served
from text_tables import cases, each
from web_truth import allowed_urls


def build(queue, job, *seeds):
    """Whether there is a new segment."""
    files = sorted((job / "warc").glob("*.warc.gz"))
    return "nothing new" not in printed("queue-build", "--queue", queue, *files, *seeds)


def offline(command, min_hosts=1):
    """Crawl what is in the queue; what is printed."""
    arguments = ["-a", "offline=1", "-a", f"min_hosts={min_hosts}"]
    return finish([*command, *arguments])


async def test_segments_are_consumed_by_turns_and_the_rest_is_handed_back(tmp_path):
    pages = pages_of("offline")
    queue, job = tmp_path / "queue", tmp_path / "job"

    async with served(pages) as sites:

        async def new_segment(*more):
            return await asyncio.to_thread(build, queue, job, *more)

        async def crawl(seeds, min_hosts=1, **settings):
            settings |= {"URL_SCOPE": "seeds"}  # nothing of it waits for further segments
            command = crawl_command(SimpleNamespace(dns=sites.dns), seeds, job, **settings)
            return await asyncio.to_thread(offline, command, min_hosts)

        for host in ("a.test", "b.test"):
            seeds = tmp_path / host
            seeds.write_text(f"http://{host}:{sites.port}/\n")
            assert await new_segment("--seeds", seeds)
        said = await crawl(queue / "segment-000001.txt")
        assert sites.pages_asked == ["a.test/"]
        assert f"scrapy queue-build --queue {queue} {job}\n" in said
        assert await new_segment()
        # Both segments, and then one host is left, which rests.
        said = await crawl(queue, min_hosts=2, POLITENESS_MIN_DELAY=2)
        assert "URLs were written to" in said
        assert len([*queue.glob("remainder-job-*.txt")]) == 1
        assert "b.test/" in sites.pages_asked
        assert len(sites.pages_asked) < 5
        turns = 0
        while await new_segment():
            # So many there never are: each turn fetches all that its segment has.
            await crawl(queue, min_hosts=3, POLITENESS_MIN_DELAY=0.2)
            turns += 1
        assert turns <= 3
        assert not [*queue.glob("remainder-*")]
        assert sorted(sites.pages_asked) == sorted({*pages} - {"a.test/robots.txt"})


@pytest.mark.long
@each("min_hosts", 1, 4)
def test_turns_of_crawl_and_queue_build_find_all_of_the_web_once(tmp_path, min_hosts):
    queue = tmp_path / "queue"
    with simulated(tmp_path, hosts=40, mean_pages=8.0, max_pages=100) as web:
        more = ("--seeds", web.seeds)
        turns = 0
        while build(queue, web.job, *more):
            offline(crawl_command(web.web, queue, web.job), min_hosts)
            more = ()
            turns += 1
        hits = web.hits()
        answered = [hit for hit in hits if hit.status in range(200, 400)]
        asked = Counter(pages_asked_for(answered))
        assert {*pages_asked_for(hits)} == allowed_urls(web.world, "webcrawl")
        assert [url for url, number in asked.items() if number > 1] == []
        assert turns > 3


@cases(
    "seeds arguments sentence",
    """
        docs | ["offline=1"] | docs has no segments: make one with scrapy queue-build
        docs | ["offline=1", "-a", "min_hosts=0"] | min_hosts must be a whole number of at least 1
        a,b | ["offline=1"] | An offline crawl has exactly one queue
        docs | ["offline=1", "-s", "OUTPUT_STORE=s3://x"] | leave OUTPUT_STORE empty
    """,
)
def test_bad_input_is_one_sentence(tmp_path, seeds, arguments, sentence):
    words = ["-a", f"seeds={seeds}", "-a", *arguments, "-s", f"JOBDIR={tmp_path}/job"]
    assert sentence in refusal("crawl", "web", *words)
