"""Documents that take too long to be read, and those that the process dies of."""

import json
import re
import signal
import sys
import time
from contextlib import contextmanager, suppress
from unittest import mock

import pytest
import warm
from crawling import run_crawl, simulated, stats_of
from text_tables import each
from web_truth import allowed_urls

from webcrawl.crawl.links import reading
from webcrawl.crawl.links.reading import ReadingTooLongError, ReadingWatch
from webcrawl.simweb import Faults

URL = "http://a.test/page"
DIES = """
import os, signal, sys
from pathlib import Path
from webcrawl.crawl.links.reading import ReadingWatch
watch = ReadingWatch(jobdir=Path(sys.argv[1]))
watch.open()
if sys.argv[2] == "reading":
    with watch.of(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""
# Looking for links in one page never ends, and in another it kills the process.
MURDEROUS = """
import os
import signal
import webcrawl.crawl.links.link_extractor as page_links
from webcrawl.crawl.links import reading

reading._MAX_SECS = 0.5

class Murderous:
    def __init__(self):
        extract = page_links.extract
        def murderous(body, *, url, **rest):
            if url == os.environ["ENDLESS"]:
                while True:
                    try:
                        url = url[::-1]
                    except Exception:
                        pass
            if url == os.environ["DEADLY"]:
                os.kill(os.getpid(), signal.SIGKILL)
            return extract(body, url=url, **rest)
        page_links.extract = murderous

    def process_item(self, page):
        return page
"""


@contextmanager
def watching(jobdir):
    with mock.patch.object(reading, "_MAX_SECS", 0.1):
        watch = ReadingWatch(jobdir=jobdir)
        watch.open()
        try:
            yield watch
        finally:
            watch.close()


def spin(secs):
    until = time.thread_time() + secs
    while time.thread_time() < until:
        sum(range(5000))  # the time that is limited is not the kernel's


def endless_loop():
    while True:
        with suppress(Exception):  # as a reader of broken markup may do
            spin(1)


def exponential_expression():
    re.match(r"(a|a)*b", "a" * 64)


@each("reads", endless_loop, exponential_expression)
def test_a_reading_that_does_not_end_is_cut_off(tmp_path, reads):
    with watching(tmp_path) as watch:
        began_at = time.thread_time()
        with pytest.raises(ReadingTooLongError, match=re.escape(URL)), watch.of(URL):
            reads()
        assert time.thread_time() - began_at < 1
        spin(0.3)  # and nothing is raised afterwards
        assert signal.getsignal(signal.SIGVTALRM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL


def test_short_readings_and_what_lies_between_are_never_cut_off(tmp_path):
    with watching(tmp_path) as watch:
        for _ in range(5):
            with watch.of(URL):
                spin(0.06)
            spin(0.15)
        steps = (spin(0.06) for _ in range(5))
        assert len([*watch.steps(URL, steps)]) == 5


def die(jobdir, *, reading=""):
    what = "reading" if reading else "idle"
    command = [sys.executable, "-c", DIES, str(jobdir), what, reading]
    assert warm.run(command).returncode == -signal.SIGKILL


@each(
    "deaths poison",
    ([URL, URL], True),
    ([URL], False),
    ([URL, "", URL], False),
    ([URL, f"{URL}/2", URL], False),
    (["", URL, URL], True),
    ([URL, URL, "", f"{URL}/2"], True),  # until it has come to its end
)
def test_a_url_read_at_two_deaths_in_a_row_is_poison(tmp_path, deaths, poison):
    for url in deaths:
        die(tmp_path, reading=url)
    with watching(tmp_path) as watch:
        assert watch.is_poison(URL) is poison
        if poison:
            watch.set_aside(URL)
    with watching(tmp_path) as watch:
        assert not watch.is_poison(URL)


def test_a_run_that_ends_well_clears_the_suspect(tmp_path):
    die(tmp_path, reading=URL)
    with watching(tmp_path) as watch, watch.of(URL):
        pass
    die(tmp_path, reading=URL)
    with watching(tmp_path) as watch:
        assert not watch.is_poison(URL)


@pytest.mark.cures(
    "it is set aside as poison; to try it again, run {} frontier {} --retry poison",
)
def test_poison_holds_up_no_crawl_and_can_be_freed(user_module, tmp_path, monkeypatch):
    user_module("murderous", MURDEROUS)
    with simulated(tmp_path, hosts=8, mean_pages=3.0, max_pages=5, faults=Faults.none()) as web:
        endless, deadly, *_ = web.world.seeds()
        monkeypatch.setenv("ENDLESS", endless)
        monkeypatch.setenv("DEADLY", deadly)
        job = web.job
        plain = {"POLITENESS_MAX_DELAY": 0.1}
        command = web.command(**plain, ITEM_PIPELINES='{"murderous.Murderous": 1}')
        died = [run_crawl(command) for _ in range(2)]
        assert [run.returncode for run in died] == [-signal.SIGKILL] * 2
        done = run_crawl(command)
        assert done.returncode == 0, done.stdout
        assert outcomes(job, {endless, deadly}) == {endless: "poison", deadly: "poison"}
        output = "".join(run.stdout for run in (*died, done))
        assert output.count(f"{endless} took more than 0.5 s to read") == 1

        sentence = (
            f"Two runs in a row died while reading {deadly}: .*to try it again, run scrapy (.*)"
        )
        words = re.search(sentence, output)[1].split()
        freed = run_crawl([sys.executable, "-m", "scrapy", *words])
        assert freed.returncode == 0, freed.stdout
        web.crawl(**plain)
        urls = allowed_urls(web.world, "webcrawl")
    assert outcomes(job, {endless, deadly}) == {endless: "http_200", deadly: "http_200"}
    assert outcomes(job, urls).keys() == urls
    assert stats_of(job)["frontier/waiting"] == 0


def outcomes(job, urls):
    """The last outcome of each of *urls*."""
    lines = [json.loads(line) for line in (job / "logs/info.jsonl").read_text().splitlines()]
    return {line["url"]: line["outcome"] for line in lines if line["url"] in urls}
