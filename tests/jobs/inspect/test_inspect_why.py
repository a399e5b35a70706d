"""``scrapy why`` beside real crawls that run, were killed and have finished."""

import functools
import json
import os
import re
import shutil
import time
from urllib.parse import urljoin

import msgspec
import pytest
import warm
from crawling import (
    crawl_command,
    is_robots,
    pages_asked_for,
    run_crawl,
    start_crawl,
    url_of_hit,
)
from frontier_rig import entry
from golden import golden
from looking import contents
from patience import LIMIT_SECS
from scrapy.crawler import Crawler
from scrapy.utils.project import get_project_settings
from simweb_client import whole_log
from text_tables import each
from web_truth import allowed_urls

from webcrawl.crawl.lease.outcome_log import INFO_LOG
from webcrawl.crawl.seeds import Seed
from webcrawl.errors import FatalError
from webcrawl.frontier import encode
from webcrawl.frontier.view import HostTimes
from webcrawl.hosts.records import HostRecord
from webcrawl.hosts.robots.rules import RobotsRules
from webcrawl.jobs.inspect import job_view
from webcrawl.jobs.inspect.explanation import explain
from webcrawl.jobs.inspect.host_state import RobotsState, _pause_reason
from webcrawl.jobs.inspect.info_log import find_outcomes
from webcrawl.jobs.inspect.job_view import ask, process_of
from webcrawl.jobs.inspect.stopped_job import open_stopped_job
from webcrawl.jobs.inspect.why_text import moment, why_text
from webcrawl.simweb import preset, start_in_process
from webcrawl.spiders.web import WebSpider
from webcrawl.storage.line_log import numbered_files
from webcrawl.urls import normalize

NOW = 1_800_000_000.0


@functools.cache
def settings():
    found = get_project_settings()
    found.setmodule("webcrawl.settings")
    return found


def why(url, jobdir, **changed):
    own = settings().copy()
    own.update(changed)
    return ask(jobdir, lambda view: explain(url, view, own))


def command(*arguments):
    return warm.scrapy("why", *arguments)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """A job that was looked at while it ran, was killed, and then ran to its end."""
    path = tmp_path_factory.mktemp("why")
    world = preset("clean", http_port=0, https_port=0, hosts=30, mean_pages=8.0, max_pages=30)
    with start_in_process(world, log_path=path / "access.log") as web:
        yield Crawled(web, path)


class Crawled:
    """The stages of the one crawl, each made when it is first asked for, in this order."""

    def __init__(self, web, path):
        self.web = web
        self.path = path
        self.job = path / "job"
        self.killed_at = 0.0
        self.seeds = path / "seeds.txt"
        self.seeds.write_text("\n".join(web.world.seeds()) + "\n")
        self.line = crawl_command(
            web,
            self.seeds,
            self.job,
            POLITENESS_MIN_DELAY=0.3,
            POLITENESS_MAX_DELAY=1,  # also of the contacts that the kill cuts off
            CHECKPOINT_INTERVAL_SECS=0.5,
            INFO_LOG_MAX_FILE_BYTES=20_000,
            URL_REFUSE="/nobody-wants-it/",
        )
        # The largest host takes longer than all that is looked at while it runs.
        self.process = start_crawl([*self.line, "-s", "POLITENESS_MIN_DELAY=1"])

    def why(self, url, **changed):
        return why(url, self.job, **changed)

    def asked(self):
        return [url_of_hit(hit) for hit in whole_log(self.web) if not is_robots(hit)]


def test_a_crawl_that_runs_can_be_looked_at_all_the_time(crawled):
    states = set()
    sequences = set()
    deadline = time.monotonic() + LIMIT_SECS
    while len(sequences) < 4 or "finished" not in states:
        assert time.monotonic() < deadline
        asked = crawled.asked()
        for url in [*asked[:2], *asked[-3:]]:
            told = crawled.why(url)
            states.add(told.state)
            sequences.add(told.as_of.checkpoint)
            assert told.as_of.process == crawled.process.pid
            assert told.state in {"finished", "waiting", "leased", "undecided"}, told
            assert why_text(told, now=time.time())
    assert crawled.process.poll() is None


def test_why_reads_a_killed_crawl_without_touching_it(crawled):
    crawled.process.kill()
    crawled.killed_at = time.time()
    crawled.process.communicate()
    assert process_of(crawled.job) is None
    before = contents(crawled.job)
    allowed = allowed_urls(crawled.web.world, "webcrawl")
    asked = set(crawled.asked())
    own = settings().copy()
    states = ask(
        crawled.job, lambda view: {url: explain(url, view, own).state for url in allowed | asked}
    )
    done = run = command("--json", "-s", f"JOBDIR={crawled.job}", next(iter(asked)))
    assert run.returncode == 0, run.stderr
    assert json.loads(done.stdout)["as_of"]["process"] is None
    assert contents(crawled.job) == before
    # Whatever was asked for is known; and what is known and not finished waits in a place.
    assert {states[url] for url in asked} <= {"finished", "waiting", "leased", "undecided"}
    assert {state for url, state in states.items() if url not in asked} <= {
        *("waiting", "parked", "leased", "undecided", "unknown", "seen"),
    }
    waiting = [url for url, state in states.items() if state == "waiting"]
    told = crawled.why(waiting[0])
    assert told.places[0].position <= told.places[0].length
    assert "It waits, number" in why_text(told, now=time.time())


def test_why_knows_every_url_of_a_finished_crawl(crawled):
    with crawled.seeds.open("a") as seeds:  # some that robots.txt denies, not before the kill
        seeds.writelines(f"{urljoin(url, '/private/')}\n" for url in crawled.web.world.seeds())
    last = run_crawl(crawled.line)
    assert last.returncode == 0, last.stdout
    # Of both runs.
    outcomes = [*_all_outcomes(crawled.job)]
    assert "http_200" in {outcome["outcome"] for outcome in outcomes}
    before = contents(crawled.job)
    pages = set(pages_asked_for(whole_log(crawled.web)))
    # Killed or not: each URL that was asked for and has come to its end has a line.
    assert pages <= {outcome["url"] for outcome in outcomes}
    for url in sorted(pages)[::7]:
        told = crawled.why(url)
        assert told.state == "finished", told
        assert told.outcomes[-1].url == url
        assert told.outcomes[-1].status
    # The kill may have taken the last robots.txt files before it.
    later = [outcome for outcome in outcomes if outcome["at"] > crawled.killed_at]
    denied = [outcome for outcome in later if outcome["outcome"] == "robots_denied"]
    duplicates = [outcome for outcome in outcomes if outcome.get("duplicate")]
    redirects = [outcome["redirect"] for outcome in outcomes if outcome.get("redirect")]
    assert min(map(len, (denied, duplicates, redirects))) > 0
    for outcome in denied[:5]:
        url = outcome["url"]
        told = crawled.why(url)
        assert told.robots.verdict == "denied"
        assert told.robots.line == told.outcomes[-1].robots == outcome["robots"]
        text = f"User-agent: *\n{outcome['robots']}".encode()
        assert not RobotsRules.parse(text, tokens=("webcrawl",)).decide(url).allow
    for outcome in duplicates[:5]:
        told = crawled.why(outcome["url"])
        assert told.duplicate_of not in {"", outcome["url"]}
        original = crawled.why(told.duplicate_of).outcomes[-1]
        assert (original.content, original.duplicate) == (outcome["content"], False)
    for url in redirects[:5]:
        assert crawled.why(url).state in {"finished", "refused"}
    assert contents(crawled.job) == before


def test_every_spelling_of_a_url_is_answered_alike(crawled):
    url = next(one for one in crawled.asked() if "?" not in one)
    scheme, _, rest = url.partition("://")
    spelled = f"{scheme.upper()}://{rest}?utm_source=mail&fbclid=1#top"
    told = crawled.why(spelled)
    assert (told.state, told.outcomes[-1].url) == ("finished", url)
    assert told.form == url


def test_the_filters_of_the_settings_are_asked(crawled):
    refused = crawled.why("http://a.test/nobody-wants-it/")
    assert refused.refused_by == "pattern", "as the crawl was told"
    asked = settings().copy()
    asked.set("URL_REFUSE", "nobody", priority="cmdline")
    refused = ask(crawled.job, lambda view: explain("http://nobody.test/x", view, asked))
    assert (refused.state, refused.refused_by) == ("refused", "pattern")
    assert "refuses it" in why_text(refused, now=NOW)
    gone = command("http://nobody.test/x", "-s", f"JOBDIR={crawled.job}", "-s", "URL_REFUSE=nobody")
    assert gone.returncode == 1
    assert gone.stdout.splitlines()[0].endswith("the filter pattern refuses it.")
    unknown = crawled.why("http://nobody.test/x")
    assert (unknown.state, unknown.robots.verdict) == ("unknown", "unknown")
    scoped = crawled.why("http://nobody.test/x", URL_SCOPE="seeds")
    assert scoped.refused_by == "whitelist"


def test_the_exclusion_file_is_asked(crawled, tmp_path):
    excluded = tmp_path / "excluded.txt"
    excluded.write_text("nobody.test\n")
    told = crawled.why("http://nobody.test", EXCLUSION_FILE=excluded)
    assert told.excluded
    assert "EXCLUSION_FILE" in why_text(told, now=NOW)


def test_a_line_that_was_deleted_leaves_the_url_seen(crawled, tmp_path):
    copy = shutil.copytree(crawled.job, tmp_path / "copy")
    url = crawled.asked()[0]
    assert len(numbered_files(copy / INFO_LOG)) > 2
    shutil.rmtree(copy / "logs")
    told = why(url, copy)
    assert told.state == "seen"
    assert "the log has no result for it" in why_text(told, now=NOW)


def test_robots_txt_is_not_mentioned_if_it_is_not_used(crawled):
    told = crawled.why(crawled.asked()[0], ROBOTSTXT_OBEY=False)
    assert told.robots.verdict == "not asked"
    assert "is not used" in why_text(told, now=NOW)


def test_an_unreachable_robots_txt_allows_nothing(crawled):
    told = crawled.why(crawled.asked()[0])
    robots = RobotsState("http://a.test", "unreachable", fetched_at=NOW)
    text = why_text(msgspec.structs.replace(told, robots=robots), now=NOW)
    assert "robots.txt  unreachable, so no page is requested; no answer, 2027-01-15" in text


@each(
    "record crawl_delay reason",
    (HostRecord("a.test"), 20.0, "Crawl-delay 20"),
    (HostRecord("a.test"), 60.0, "pause after a request"),
    (
        HostRecord("a.test", took=[1.0, 3.0], slowed=2),
        0.0,
        (
            "pause after a request, 4 times as long because of challenges and logins; its last "
            "requests took 2 s on average"
        ),
    ),
    (
        HostRecord("a.test", failures=3, failed_with="http_503", failed_alike=2),
        0.0,
        "3 requests in a row failed, the last 2 with http_503, and each one doubles the pause",
    ),
)
def test_the_reason_of_a_pause_explains_how_long_it_is(record, crawl_delay, reason):
    """The shortest pause that the host asks for says nothing about this one."""
    times = HostTimes(ready_at=NOW, min_rest=20.0, length=0, contact=0.0)
    assert _pause_reason(times, record, record, crawl_delay) == reason


def texts(job, *urls, **changed):
    """Return what ``scrapy why`` prints of each of *urls*, without what differs from run to run."""
    found = [why_text(why(url, job.path, **changed), now=2.0) for url in urls]
    return re.sub(r"(checkpoint \d+) of .*", r"\1", "\n".join(found))


def test_each_place_of_a_url_has_its_sentence(stored):
    stored.rig.push(entry("a.test", 0), entry("a.test", 1), entry("a.test", 2))
    leased = stored.rig.next()
    stored.rig.push(entry("c.test", 5, depth=4))
    for gate in ("budget", "reputation", "host_budget"):
        stored.rig.frontier.parked.push(gate, [encode(entry(f"{gate.replace('_', '-')}.test", 1))])
    stored.submit(entry("u.test", 1))
    stored.publish()
    hosts = ("budget", "reputation", "host-budget")
    waiting = ("http://a.test/2", "http://c.test/5", "http://u.test/1")
    parked = [f"http://{host}.test/1" for host in hosts]
    text = texts(stored, leased.entry.url, *waiting, *parked)
    assert text == golden("why-places.txt", text)


def test_the_checkpoint_of_a_job_tells_what_waits_is_undecided_and_seen(tmp_path):
    own = settings().copy()
    own.set("JOBDIR", str(tmp_path))
    urls = [f"http://a.test/{number}" for number in range(4)]
    with open_stopped_job(Crawler(WebSpider, own)) as (state, *_):
        (shard,) = state.shards
        state.links.submit_seeds([Seed(url, 1) for url in urls[:3]])
        while shard.eliminator.waiting:
            state.shards.work()
        lease = shard.frontier.acquire()
        state.links.submit_seeds([Seed(urls[3], 1)])
        shard.frontier.contacts.release(lease.entry.host, rest=0.0)
        shard.frontier.leases.finish(lease)
    told = [why(url, tmp_path) for url in (*urls, "http://b.test/")]
    assert [one.state for one in told] == ["seen", "waiting", "waiting", "undecided", "unknown"]
    assert {one.as_of.checkpoint for one in told} == {2}
    assert told[1].places[0].visited_at == 0  # never


def test_urls_fetched_since_the_checkpoint_do_not_count_in_positions(stored, clock):
    stored.rig.push(*(entry("a.test", n) for n in range(6)))
    lease = stored.rig.next()

    def go_on():
        stored.rig.fetch(lease)
        clock.advance(1000)
        stored.rig.fetch(stored.rig.next())

    stored.publish(before_the_end=go_on)
    text = texts(stored, "http://a.test/3")
    assert "It waits, number 2 of 4 in the queue of its host; its host is ready." in text
    assert "; 5 URLs in its queue at the checkpoint" in text


def test_why_tells_the_outcome_of_a_url_in_full(stored):
    first, again, moved = (entry("a.test", n) for n in range(3))
    stored.end(first, "http_200", status=200, content="00000000000000aa", bytes=5)
    stored.end(again, "http_200", status=200, content="00000000000000aa", duplicate=True, tries=3)
    stored.end(
        moved, "http_301", status=301, redirect="http://b.test/", kind="link", via="http://v.test/"
    )
    stored.end(entry("a.test", 3), "robots_denied", robots="Disallow: /3")
    stored.rig.push(msgspec.structs.replace(entry("a.test", 4), attempts=1))
    stored.publish()
    text = texts(stored, again.url, moved.url, "a.test/3", "a.test/4")
    assert text == golden("why-outcomes.txt", text)


def test_the_target_of_a_redirect_and_why_it_was_refused_are_shown(stored):
    far, looping, out_of_scope = (entry("a.test", n, depth=1) for n in range(3))
    for one, named, why_not in (
        (far, 'http://b.test/"far', "too_many_redirects"),
        (looping, far.url, "redirect_loop"),
        (out_of_scope, "http://b.test/refused/", ""),
    ):
        target = normalize(named)
        stored.end(one, "http_302", status=302, depth=1, redirect=target, redirect_refused=why_not)
    stored.publish()
    text = texts(stored, 'HTTP://b.test/"far', looping.url)
    # Followed, but for a filter.
    text += texts(stored, "http://b.test/refused/", URL_REFUSE="refused")
    assert text == golden("why-redirects.txt", text)
    told = why("http://b.test/" + "x" * 1990 + "/" + "y" * 100, stored.path)
    assert told.redirects == []


def test_bad_input_is_one_sentence(crawled, tmp_path):
    for arguments, sentence in (
        (
            [":::", "-s", f"JOBDIR={crawled.job}"],
            "why: ':::' is not a host or domain, such as www.example.com.",
        ),
        (
            ["http://", "-s", f"JOBDIR={crawled.job}"],
            "why: 'http://' is not a URL that this crawler can fetch, such as https://example.com/.",
        ),
        (
            ["not-a-url", "-s", f"JOBDIR={crawled.job}"],
            "why: 'not-a-url' is not a URL, and not a host of this crawl.",
        ),
        (
            ["http://a.test", "-s", f"JOBDIR={tmp_path}"],
            f"why: There is no crawl in JOBDIR {tmp_path}: name another directory.",
        ),
    ):
        run = command(*arguments)
        assert (run.returncode, run.stdout, run.stderr) == (2, "", f"{sentence}\n")
    assert list(tmp_path.iterdir()) == []
    for arguments in ([str(tmp_path)], [str(tmp_path), "http://a.test"], ["./none"]):
        run = command(*arguments)
        assert (run.returncode, run.stderr) == (2, f"why: There is no crawl in {arguments[0]}.\n")
    assert (
        "give one URL or host; there is no crawl in none" in command("none", "http://a.test").stderr
    )


def test_bytes_that_are_not_text_are_read_as_in_pages(stored):
    stored.publish()
    for option in ([], ["--json"]):
        run = command(b"http://a.test/\xff", *option, "-s", f"JOBDIR={stored.path}")
        assert (run.returncode, run.stderr) == (1, "")
        assert "http://a.test/%EF%BF%BD" in run.stdout
    run = command("x" * 100_000 + " y", "-s", f"JOBDIR={stored.path}")
    assert (run.returncode, run.stdout) == (2, "")
    assert len(run.stderr) < 500


def test_text_from_servers_cannot_control_a_terminal(stored):
    stored.end(
        entry("a.test", 1),
        "robots_denied",
        robots="Disallow: /1 \x1b]0;mine\x07 \x9b2J \u202e \u00e9",
    )
    stored.publish()
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = warm.scrapy("why", "a.test/1", "-s", f"JOBDIR={stored.path}", env=ascii_only)
    assert (run.returncode, run.stderr) == (0, "")
    assert r'by "Disallow: /1 \x1b]0;mine\x07 \x9b2J \u202e \xe9"' in run.stdout


def test_damage_is_said_and_a_checkpoint_meanwhile_is_not_damage(crawled, tmp_path, monkeypatch):
    copy = shutil.copytree(crawled.job, tmp_path / "copy")
    (current,) = [copy / "CURRENT"]
    name = current.read_bytes()
    tries = []

    def question(view):
        tries.append(view.own.sequence)
        if len(tries) < 3:
            current.write_bytes(name + b"\n" * len(tries))  # as a new one would
            raise FileNotFoundError(2, "gone")
        return "answer"

    assert ask(copy, question) == "answer"
    assert len(tries) == 3

    def too_slow(view):
        current.write_bytes(current.read_bytes() + b"\n")

    with pytest.raises(FatalError, match="makes checkpoints faster"):
        ask(copy, too_slow)
    for snapshot in copy.glob("snapshot-*"):
        snapshot.write_bytes(b"damaged")
    with pytest.raises(FatalError, match="cannot be read"):
        ask(copy, question)


def test_without_lock_tables_the_lock_file_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(job_view, "_LOCKS", str(tmp_path / "no locks"))
    assert process_of(tmp_path) is None
    (tmp_path / "LOCK").write_text("nonsense\n")
    assert process_of(tmp_path) is None


def test_a_log_with_damage_is_read_over_it(tmp_path):
    path = tmp_path / INFO_LOG
    path.parent.mkdir()
    assert list(find_outcomes(tmp_path, form="0" * 16)) == []
    good = b'{"at":1.0,"url":"http://a.test/","host":"a.test","outcome":"http_200","form":"%s"}\n'
    path.with_name("info-000001.jsonl").write_bytes(good % (b"1" * 16))
    path.write_bytes(
        b'not json "form":"1111111111111111"\n' + good % (b"1" * 16) + (good % (b"1" * 16))[:-1]
    )
    assert [one.url for one in find_outcomes(tmp_path, form="1" * 16)] == ["http://a.test/"] * 2


@each(
    "away text",
    (90, "90 s ago"),
    (-1200, "in 20 min"),
    (72_000, "20.0 h ago"),
    (864_000, "10.0 days ago"),
)
def test_times_are_shown_with_their_distance(away, text):
    assert moment(NOW, NOW + away).endswith(f"({text})")


def _all_outcomes(jobdir):
    path = jobdir / INFO_LOG
    for one in [*numbered_files(path), path]:
        yield from map(json.loads, one.read_text().splitlines())
