"""``scrapy frontier``: what it shows, exports and imports of real crawls."""

import contextlib
import gzip
import json
import os
import sys
import time
from collections import Counter

import msgspec
import pytest
import warm
from access_lines import simweb_line
from crawling import (
    access_log,
    crawl_command,
    impolite,
    pages_asked_for,
    run_crawl,
    start_crawl,
    wait_until,
)
from disk import file_size_limit, flip
from frontier_rig import entry
from golden import golden
from looking import contents
from reading_report import line, write_log
from scrapy.settings import Settings
from text_tables import each
from web_truth import allowed_urls

from webcrawl.crawl.job.control_journal import Change, Journal
from webcrawl.crawl.seeds import SeedReader
from webcrawl.errors import DiskError, FatalError
from webcrawl.frontier import ASIDE, Entry, encode
from webcrawl.jobs.inspect.answers import answer_about
from webcrawl.jobs.inspect.explanation import AsOf
from webcrawl.jobs.inspect.host_state import HostReport
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.overview import (
    HostRow,
    Overview,
    host_overview,
    mean_visit,
    overview,
    overview_text,
    parked_hosts,
)
from webcrawl.jobs.inspect.seeds_file import export
from webcrawl.jobs.inspect.why_text import host_text
from webcrawl.revisit.history import History, encode_history
from webcrawl.simweb import preset, start_in_process

MIN_DELAY = 0.25


def command(*arguments):
    return warm.scrapy("frontier", *arguments)


def answer(*arguments):
    """What the command says in JSON."""
    run = command("--json", *arguments)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def looked_at(job, top=5):
    return ask(job, lambda view: overview(view, top=top))


def exported(job, file, on_progress=lambda _: None):
    return ask(job, lambda view: export(view, file, on_progress=on_progress))


def seeds_in(path):
    reader = SeedReader(sources=[str(path)], spool_dir=path.parent, stdin=sys.stdin)
    reader.open(None)
    seeds = []
    while not reader.exhausted:
        seeds += reader.read(500)
    reader.close()
    assert reader.seeds_bad == 0
    return seeds


def until_hosts_wait(job):
    """Return when a checkpoint of *job* has queues of some hosts."""

    def hosts_wait():
        with contextlib.suppress(FatalError):  # no checkpoint yet
            return len(looked_at(job).top) == 5
        return False

    wait_until(hosts_wait, every=0.1)


class Web:
    """A simulated web, and crawls of it."""

    def __init__(self, web, path):
        self.web = web
        self.path = path
        self.seeds = path / "seeds.txt"
        self.seeds.write_text("\n".join(web.world.seeds()) + "\n")

    def crawl(self, jobdir, *, seeds=None, delay=MIN_DELAY):
        return crawl_command(
            self.web,
            self.seeds if seeds is None else seeds,
            jobdir,
            POLITENESS_MIN_DELAY=delay,
            # Of a contact that was cut off nobody knows how long it took.
            POLITENESS_MAX_DELAY=max(1, delay),
            CHECKPOINT_INTERVAL_SECS=0.7,
        )

    def hits(self, *, until=None, since=0.0):
        """The log is written with a delay: ask when the web was left alone for a while."""
        until = time.time() if until is None else until
        return [hit for hit in access_log(self.web.log_path) if since <= hit.start < until]


@pytest.fixture
def web(tmp_path):
    world = preset("clean", http_port=0, https_port=0, hosts=30, mean_pages=6.0, max_pages=16)
    with start_in_process(world, log_path=tmp_path / "access.log") as web:
        yield Web(web, tmp_path)


@each("end", "killed", long=("stopped",))
def test_a_crawl_continues_in_another_job_from_its_exported_frontier(web, tmp_path, end):
    job = tmp_path / "job"
    crawl = start_crawl(web.crawl(job))
    until_hosts_wait(job)
    running = looked_at(job)
    assert running.as_of.process == crawl.pid
    assert running.waiting > 0
    assert crawl.poll() is None
    crawl.kill() if end == "killed" else crawl.terminate()
    crawl.communicate()
    before = contents(job)
    first = time.time()
    cut_off = answer(job)
    file = tmp_path / "frontier.txt.gz"
    counted = answer("--export", file, "-s", f"JOBDIR={job}")
    assert contents(job) == before
    seeds = seeds_in(file)
    counts = {"urls": len(seeds), "requests": 0, "unsayable": 0, "damaged": []}
    assert counted == counts
    # Twice, if first other domains have named it, and then its own one.
    assert Counter(seed.url for seed in seeds).most_common(1)[0][1] <= 2
    assert cut_off["waiting"] + sum(cut_off["parked"].values()) == len(seeds)
    # Elsewhere: a new crawl of it goes to its end.
    done = run_crawl(web.crawl(tmp_path / "other", seeds=file))
    assert done.returncode == 0, done.stdout
    second = time.time()
    # Here: the crawl itself goes on to its end.
    done = run_crawl(web.crawl(job))
    assert done.returncode == 0, done.stdout
    allowed = allowed_urls(web.web.world, "webcrawl")
    web.web.stop()
    asked_before = set(pages_asked_for(web.hits(until=first)))
    elsewhere, here = web.hits(since=first, until=second), web.hits(since=second)
    assert asked_before | set(pages_asked_for(elsewhere)) == allowed
    assert asked_before | set(pages_asked_for(here)) == allowed
    assert impolite(elsewhere, min_delay=MIN_DELAY) == []
    # What was exported had not been fetched, but for what was under way.
    again = [seed.url for seed in seeds if seed.url in asked_before]
    assert len(again) <= 200
    empty = answer("-s", f"JOBDIR={job}")
    assert (empty["waiting"], empty["leased"], empty["new"]) == (0, 0, 0)
    assert empty["finished"] >= len(allowed)


def test_a_job_in_use_retries_nothing_and_shows_its_hosts(web, tmp_path):
    job = tmp_path / "job"
    crawl = start_crawl(web.crawl(job, delay=4))
    try:
        until_hosts_wait(job)
        refused = command("--retry", "timeout", "-s", f"JOBDIR={job}")
        assert refused.returncode == 2
        assert f"is in use by process {crawl.pid}" in refused.stderr
        shown = command("-s", f"JOBDIR={job}", "--hosts", 2)
        assert shown.returncode == 0, shown.stderr
        *_, heading, first, second = shown.stdout.splitlines()
        assert heading.split() == ["URLs", "waiting", "host"]
        lengths = [int(row.split()[0].replace(",", "")) for row in (first, second)]
        assert lengths == sorted(lengths, reverse=True)
        told = warm.scrapy("why", job, first.split()[1])
        assert f"host  {first.split()[1]}: " in told.stdout
        file = tmp_path / "running.txt"
        assert command("--export", file, "-s", f"JOBDIR={job}").returncode == 0
        assert len(seeds_in(file)) > 5
    finally:
        crawl.kill()
        crawl.communicate()


def test_each_place_is_exported_and_what_no_list_can_say_is_counted(stored, tmp_path):
    rig = stored.rig
    rig.push(entry("a.test", 1, rank=7), entry("a.test", 2, rank=0))
    lease = rig.next()
    rig.push(
        entry("b.test", 1, depth=3),
        Entry("http://c.test/", "c.test", extra=b"POST"),
        Entry("http://d.test/", "d.test", kind=ASIDE, via="somebody"),
        Entry("mailto:somebody", ""),
        Entry("http://e.test/ blank", "e.test"),
    )
    rig.frontier.parked.push("budget", [encode(entry("p.test", 1))])
    stored.publish()
    file = tmp_path / "out.txt"
    done = exported(stored.path, file)
    assert (done.urls, done.requests, done.unsayable) == (4, 1, 2)
    lines = file.read_text().splitlines()
    assert lines[0].startswith("# The frontier of 'job', checkpoint 1 of ")
    assert sorted(lines[1:]) == [
        "0,http://a.test/2",
        "1,http://b.test/1",
        "1,http://p.test/1",
        "7,http://a.test/1",
    ]
    assert lease.entry.url == "http://a.test/1"
    told = looked_at(stored.path)
    assert (told.leased, told.parked) == (1, {"budget": 1})
    assert "parked  1 URL parked because of budget\n" in overview_text(told, now=time.time())
    assert ask(stored.path, lambda view: [*parked_hosts(view, most=9)]) == [("p.test", "budget", 1)]
    assert ask(stored.path, lambda view: [*parked_hosts(view, most=0)]) == []
    assert ask(stored.path, mean_visit) == 0.0  # no URL has a next visit


def test_the_mean_time_of_visits_counts_each_queue_by_its_length(stored, clock):
    day = 86_400
    clock.advance(30 * day)
    now = int(clock())
    for number in range(1000):  # nine in ten are due in a week, and were visited today
        is_soon = number % 10 == 0
        history = History(at=now - (7 * day if is_soon else 0))
        visit = msgspec.structs.replace(
            entry(f"v{number % 7}.test", number), history=encode_history(history)
        )
        stored.rig.frontier.due.push(encode(visit), now + day * (1 if is_soon else 7))
    stored.publish()
    assert ask(stored.path, mean_visit) == pytest.approx(now - 0.7 * day, abs=60)


def test_settings_that_do_not_fit_the_job_leave_it_free(stored):
    stored.rig.push(entry("a.test"))
    stored.publish(politeness_key="domain")
    retry = ("--retry", "timeout", "-s", f"JOBDIR={stored.path}")
    run = command(*retry)
    assert run.returncode == 2
    assert run.stderr.startswith(
        f"frontier: JOBDIR {stored.path} holds a crawl with POLITENESS_KEY"
    )
    assert run.stderr.count("\n") == 1
    key = ["-s", "POLITENESS_KEY=domain"]
    assert command(*retry, *key).returncode == 0
    for snapshot in stored.path.glob("snapshot-*"):
        snapshot.write_bytes(b"damaged")
    run = command(*retry, *key)
    assert run.returncode == 2
    assert "cannot be" in run.stderr
    assert run.stderr.count("\n") == 1


def test_an_export_that_fails_leaves_what_was_there(stored, tmp_path):
    stored.rig.push(*(entry("a.test", n) for n in range(30_000)))
    stored.publish()
    file = tmp_path / "out.txt"
    file.write_text("before")
    told = []
    with file_size_limit(1000), pytest.raises(DiskError, match="cannot be written: File"):
        exported(stored.path, file, told.append)
    assert file.read_text() == "before"
    assert not list(tmp_path.glob("*.tmp"))
    missing = tmp_path / "no" / "out.gz"
    with pytest.raises(Exception, match="cannot be written: No such file"):
        exported(stored.path, missing, told.append)
    exported(stored.path, file.with_suffix(".gz"), told.append)
    assert told[-1] >= 20_000
    with gzip.open(file.with_suffix(".gz"), "rt") as lines:
        assert sum(1 for _ in lines) == 30_001


def test_readable_urls_of_a_damaged_job_are_exported(stored, tmp_path):
    level = 40_000
    stored.rig.push(*(entry("a.test", n) for n in range(level)))
    stored.rig.frontier.parked.push("budget", [encode(entry("p.test", 1))])
    stored.submit(entry("new.test"))
    stored.publish()
    file = tmp_path / "out.txt"
    segments = sorted(stored.path.glob("shards/00/frontier/*/*/*.log"))
    segment = max(segments, key=lambda path: path.stat().st_size)
    log = next(stored.path.glob("shards/00/seen/discovered-*.log"))
    for path in (segment, log):
        flip(path, path.stat().st_size // 2)
    run = command("--export", file, stored.path)
    assert run.returncode == 2
    for path in (segment, log):
        assert f"frontier: {path}: damaged at byte " in run.stderr
    assert run.stderr.count("; the rest of that file is missing from the list.\n") == 2
    urls = {line.partition(",")[2] for line in file.read_text().splitlines()[1:]}
    assert f" {len(urls) // 1000}," in f" {run.stdout}"
    assert "http://p.test/1" in urls
    assert "http://new.test/1" not in urls
    assert 1000 < len(urls) < level


def test_a_host_may_be_named_in_any_spelling(stored):
    for host in ("xn--bcher-kva.example", "::1", "www.a.test"):
        stored.rig.push(entry(host))
    stored.publish()

    def name_of(named):
        told = ask(stored.path, lambda view: host_overview(view, named, Settings()))
        assert sum(told.places.values()) == 1, named
        return told.host.name

    for named in ("B\u00fccher.example.", " b\u00fccher.example "):
        assert name_of(named) == "xn--bcher-kva.example"
    assert [name_of(named) for named in ("::1", "[::1]")] == ["::1"] * 2
    assert name_of("WWW.A.test") == "www.a.test"


def test_scrapy_why_answers_about_a_host(stored):
    stored.rig.push(entry("a.test"))
    stored.publish()
    job = ["-s", f"JOBDIR={stored.path}"]
    known = warm.scrapy("why", "A.test", *job)
    assert (known.returncode, known.stderr) == (0, "")
    assert "host  a.test: " in known.stdout
    known = warm.scrapy("why", "a.test", *job, "--json")
    assert json.loads(known.stdout)["host"]["name"] == "a.test"
    unknown = warm.scrapy("why", "b.test", *job)
    assert (unknown.returncode, "b.test: unknown" in unknown.stdout) == (1, True)


def test_a_host_that_is_excluded_is_not_ready(stored, tmp_path):
    stored.rig.push(entry("a.test", 1), entry("b.test", 1))
    stored.publish()
    (tmp_path / "rules.txt").write_text("b.test\n")
    change = Change("exclude", {"host": "a.test"}, at=1e9, n=1, state_key="exclude a.test")
    Journal(stored.path).append(change)
    settings = Settings({"EXCLUSION_FILE": str(tmp_path / "rules.txt")})
    for host, rule in (("a.test", change.as_sentence), ("b.test", "EXCLUSION_FILE")):
        told = answer_about(host, stored.path, settings)
        assert f"host  {host}: excluded: {rule}; " in told.text
        told = answer_about(f"http://{host}/1", stored.path, settings)
        assert told.text.splitlines()[0].endswith(
            f"; it will be given up, because it is excluded by {rule}."
        )
        assert f"host  {host}: excluded: {rule}; " in told.text


def test_an_excluded_host_is_not_in_process_since_a_time():
    """Although its URLs are being given up."""
    host = HostReport("a.test", "excluded", because="a rule", contact_since=1e9)
    assert host_text(host, 2e9) == (
        "a.test: excluded: a rule; 0 URLs in its queue at the checkpoint, 0 downloads"
    )


def test_a_host_that_was_never_reached_is_known_by_its_failures(stored):
    stored.publish()
    lines = [
        line("http://gone.test/", "dns_not_found", 1e9, kind="seed"),
        line("http://gone.test.org/", "http_200", 1e9, kind="seed"),
    ]
    write_log(stored.path, lines)
    told = answer_about("gone.test", stored.path, Settings())
    assert told.state == "nothing waits"
    assert "ended  2001-09-09 01:46:40 UTC (" in told.text
    assert ": dns_not_found; found as seed, depth 0: http://gone.test/\n" in told.text
    assert told.text.count("ended") == 1
    assert answer_about("other.test", stored.path, Settings()).state == "unknown"


def test_a_host_of_a_crawl_by_domains_is_its_domain(stored):
    stored.rig.push(entry("example.com"))
    stored.publish(politeness_key="domain")
    told = ask(stored.path, lambda view: host_overview(view, "www.example.com", Settings()))
    assert (told.host.name, sum(told.places.values())) == ("example.com", 1)


def test_a_closed_pipe_is_not_an_error(stored, tmp_path):
    stored.publish()
    log = tmp_path / "access.log"
    log.write_text(simweb_line(0, 1))
    commands = (
        *(["frontier"], ["why", "http://a.test/"], ["frontier", "--json"]),
        ["politeness-audit", log, "--delay", 0],
    )
    reading, writing = os.pipe()
    os.close(reading)
    try:
        for name, *arguments in commands:
            run = warm.scrapy(name, *arguments, "-s", f"JOBDIR={stored.path}", stdout=writing)
            assert run.stderr == ""
            assert run.returncode == (name == "why")
    finally:
        os.close(writing)


def test_levels_and_states_are_shown_in_words():
    told = Overview(
        as_of=AsOf("crawls/x", 7, "2026-11-20T10:00:00Z", 42),
        waiting=12_345,
        levels={"1": 0, "2": 12_000},
        in_host_queues=345,
        hosts={"ready": 1, "paused": 2, "in process": 3},
        top=[HostRow("a.test", "paused", 1_000.0, 300)],
        leased=3,
        parked={},
        due=0,
        new=5,
        finished=77,
        finished_since=7,
    )
    text = overview_text(told, now=990.0)
    assert text == golden("frontier.txt", text)
