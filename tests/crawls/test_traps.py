"""A trap that serves the same few contents under endless URLs, judged by the server's record."""

import hashlib
import re
import sys
import time
from collections import Counter

import pytest
from crawling import crawl_of_urls, finish, run_crawl, start_crawl, stats_of, wait_until
from http_site import HttpSite, serving

from webcrawl.urls.filters.pattern import patterns_of

PAGES = 60
SCRAPY = [sys.executable, "-m", "scrapy"]
# URLs of the trap that may be fetched before it is learned: six contents, twenty times seen
# before, and what is under way, which is much where the thread that writes pages has to wait.
MOST = 100
VISITS = 6  # links of each sound page into the trap, each with an id that nobody has seen before


def trap_links(number):
    for which in range(VISITS):
        visit = hashlib.blake2b(b"%d %d" % (number, which), digest_size=8).hexdigest()
        yield f"/calendar/2026/{which + 1}/?visit={visit}"


class Site(HttpSite):
    """A tree of sound pages, each of which leads into a calendar that looks the same to everyone
    but carries the visitor along."""

    def __init__(self):
        super().__init__(self.page)
        self.delay = 0.0
        self.dead_links = 0
        self.sound = {f"/docs/{number}" for number in range(1, PAGES + 1)} | {"/"}
        self.trap = {link for number in range(PAGES + 1) for link in trap_links(number)}

    def unfetched(self, of):
        return of.difference(self.asked)

    def fetched(self, of):
        return [path for path in self.asked if path in of]

    def page(self, request):
        path = request.path
        time.sleep(self.delay)
        if path.startswith("/calendar/"):
            month = path.split("/")[3]
            text = f"<p>Nothing on in month {month}.</p><a href='../7/?day=1'>next</a>"
        elif path in self.sound:
            number = int(path.rpartition("/")[2] or 0)
            children = [n for n in (2 * number + 1, 2 * number + 2) if n <= PAGES]
            links = [f"/docs/{child}" for child in children]
            if self.dead_links:
                links += [f"/gone/{number}/{which}" for which in range(self.dead_links)]
            else:
                links += trap_links(number)
            text = f"<p>Page {number}</p>" + "".join(f"<a href='{link}'>x</a>" for link in links)
        else:
            return 404, {}, b"none"
        return 200, {}, text.encode()


@pytest.fixture
def site():
    with serving(Site()) as server:
        yield server


@pytest.fixture
def command(site, tmp_path):
    def command(**settings):
        values = {"POLITENESS_MIN_DELAY": 0.005, "POLITENESS_DELAY_FACTOR": 0}
        values |= {"TRAP_MIN_DUPLICATES": 20, **settings}
        return crawl_of_urls(tmp_path, f"{site.url}/", **values)

    return command


def parked_in(tmp_path):
    """How many URLs are parked, by why."""
    stats = stats_of(tmp_path / "job").items()
    return {name.rpartition("/")[2]: count for name, count in stats if "/parked/" in name}


def test_a_trap_is_left_alone_and_comes_back_when_a_person_says_so(command, site, tmp_path):
    exceptions = tmp_path / "exceptions.txt"
    exceptions.write_text("")
    line = command(TRAP_EXCEPTIONS_FILE=exceptions)
    said = finish(line)
    assert len(site.fetched(site.trap)) <= MOST
    assert len(site.trap) == VISITS * (PAGES + 1)
    assert not site.unfetched(site.sound)
    assert stats_of(tmp_path / "job")["traps/learned"] == 1
    assert parked_in(tmp_path)["learned_trap"] >= len(site.trap) - MOST
    pattern = patterns_of(site.url + min(site.trap)).shape
    (pages,) = re.findall(
        rf"Trap learned: 20 of the last (\d+) pages of {re.escape(pattern)}", said
    )
    # Once one content came back, pages are counted: those of the others may come later.
    assert 20 <= int(pages) < 20 + 6

    parked = min(site.unfetched(site.trap))
    why = run_crawl([*SCRAPY, "why", site.url + parked, "-s", f"JOBDIR={tmp_path / 'job'}"])
    assert "It is parked (learned_trap): pages with one of its patterns below had" in why.stdout
    assert f"    pattern  {pattern}\n" in why.stdout
    new = PAGES + 1 + VISITS + 1
    vain = len(site.fetched(site.trap)) - VISITS  # 20, and what was under way
    assert f"      pages  {new} of the host with new content, {vain} without" in why.stdout

    # A second run learns it again; the line of the list frees it in a third.
    before = len(site.asked)
    finish(line)
    assert len(site.asked) - before <= MOST
    exceptions.write_text(f"{pattern}\n")
    finish(line)
    assert not site.unfetched(site.trap)
    assert parked_in(tmp_path)["learned_trap"] == 0
    assert set(Counter(site.fetched(site.trap | site.sound)).values()) == {1}


@pytest.mark.long
def test_a_running_crawl_takes_parked_urls_up_within_seconds(command, site, tmp_path):
    site.delay = 0.05
    exceptions = tmp_path / "exceptions.txt"
    exceptions.write_text("")
    crawl = start_crawl(command(TRAP_EXCEPTIONS_FILE=exceptions))
    wait_until(lambda: len(site.fetched(site.sound)) > 30)
    before = len(site.fetched(site.trap))
    assert before <= MOST
    exceptions.write_text(patterns_of(site.url + min(site.trap)).shape)
    wait_until(lambda: len(site.fetched(site.trap)) > before + 30)
    # By a kill, too, nothing is lost of what was parked and came back.
    crawl.kill()
    crawl.communicate()
    site.delay = 0.0
    finish(command(TRAP_EXCEPTIONS_FILE=exceptions))
    assert not site.unfetched(site.trap)
    assert not site.unfetched(site.sound)


def test_a_host_that_names_more_than_it_has_is_fetched_in_proportion(command, site, tmp_path):
    site.dead_links = 11
    finish(command(URL_SPACE_BASE_URLS=30))
    pages = len(site.fetched(site.sound))
    missing = len(site.asked) - pages - 1  # robots.txt
    assert 15 < missing <= 30 + 10 * pages
    waiting = parked_in(tmp_path)["url_space"]
    assert waiting > 0
    # By the values that are set by default all of the host is in proportion.
    finish(command())
    assert not site.unfetched(site.sound)
    assert len(site.asked) == 1 + (1 + site.dead_links) * (PAGES + 1)
    assert parked_in(tmp_path)["url_space"] == 0


def test_a_missing_exceptions_file_is_one_sentence(command, tmp_path):
    said = finish(command(TRAP_EXCEPTIONS_FILE=tmp_path / "none"), code=2)
    assert said.splitlines()[-1] == (
        f"webcrawl: TRAP_EXCEPTIONS_FILE {tmp_path}/none cannot be read (No such file or "
        "directory): create it; an empty file exempts no pattern."
    )
