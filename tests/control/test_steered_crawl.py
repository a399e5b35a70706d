"""A crawl that is steered while it runs, judged by the simulated web's own record."""

import itertools
import json
import os
import pty
import pwd
import re
import shlex
import socket
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import warm
from crawling import (
    access_log,
    damage_in,
    is_robots,
    kill,
    printed,
    simulated,
    start_crawl,
    wait_until,
)
from text_tables import each, table

from webcrawl.control import unix_socket
from webcrawl.crawl.job.control_journal import Request
from webcrawl.errors import FatalError
from webcrawl.simweb.robots import PATH, robots_of

MIN_DELAY = 0.2


@pytest.fixture
def web(tmp_path):
    # Large enough not to end by itself.
    with simulated(tmp_path, hosts=12, mean_pages=200, max_pages=400, crawl_delays=0.0) as web:
        yield web


@pytest.fixture
def begin(web):
    """Begins the crawl, or goes on with it; it may be killed."""
    crawls = []

    def start(**settings):
        options = {"POLITENESS_MIN_DELAY": MIN_DELAY, "REPUTATION_BASE_PAGES": 0} | settings
        path = web.job / "control"
        path.unlink(missing_ok=True)
        crawls.append(start_crawl(web.command(**options)))
        wait_until(path.exists)
        return crawls[-1]

    yield start
    for crawl in crawls:
        if crawl.poll() is None:
            kill(crawl)


def control(web, words, code=0):
    """What ``scrapy control`` answers, or what it says if it is refused."""
    done = warm.scrapy("control", web.job, *shlex.split(words), "--json")
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stderr if code else json.loads(done.stdout)


def parked(web, reason):
    """Number of URLs that are parked for the *reason*; the answer leaves out what is empty."""
    return control(web, "state").get("parked", {}).get(reason, 0)


def on_terminal(words, answer):
    """``scrapy`` with *words* on a terminal, where its question gets the *answer*."""
    ours, its = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as user, os.fdopen(its) as terminal:
        user.write(f"{answer}\n".encode())
        return warm.scrapy(*words, stdin=terminal)


def journal(web):
    path = web.job / "logs/control.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_to_journal(web, **fields):
    """A command as it is there after ``kill -9`` before its effect."""
    line = {"at": time.time(), "n": len(journal(web)) + 1, "origin": "a test", **fields}
    with (web.job / "logs/control.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def contacts(web, since=0.0, host=None, target=None):
    return [
        hit
        for hit in access_log(web.log)
        if hit.start > since
        and host in (None, urlsplit(hit.origin).hostname)
        and target in (None, hit.target)
    ]


def hosts_of(web, number):
    """So many of the hosts that were asked for pages first."""
    wait_until(lambda: len(contacts(web)) > 20)
    pages = [hit for hit in contacts(web) if not is_robots(hit)]
    return [*dict.fromkeys(urlsplit(hit.origin).hostname for hit in pages)][:number]


def is_left_alone(web, **of):
    """Whether soon there is no contact, of a host, in the time of several rests."""
    for _ in range(30):
        at = time.time()
        time.sleep(1.5)
        if not contacts(web, at, **of):
            return True
    return False


def test_a_pause_holds_over_a_kill_until_it_is_ended(web, begin):
    crawl = begin()
    wait_until(lambda: len(contacts(web)) > 20)
    answer = control(web, "pause --reason 'the cable is moved'")
    assert answer == {"said": "pause: in force", "n": 1}
    assert is_left_alone(web)
    (line,) = journal(web)
    assert line["reason"] == "the cable is moved"
    assert (
        line["origin"]
        == f"scrapy control, {pwd.getpwuid(os.getuid()).pw_name} on {socket.gethostname()}"
    )
    kill(crawl)
    crawl = begin()
    assert is_left_alone(web)
    said = control(web, "state")["said"]
    assert said.startswith("paused: Paused: pause, ")
    assert "the cable is moved" in said
    assert f"scrapy control {web.job} resume" in said
    at = time.time()
    control(web, "resume")
    wait_until(lambda: contacts(web, at))
    assert "nothing to end" in control(web, "resume", code=2)
    assert "settings" in control(web, "state")
    control(web, "stop")
    _, log = crawl.communicate()
    assert "In force: pause, " in "".join(log.splitlines()[:4])
    assert "stopped by scrapy control stop" in log
    assert "Traceback" not in log


@pytest.mark.cures(
    "(ulimit -Hn): choose fewer workers.",
    "stop it, and start it again with the new value.",
)
def test_settings_change_at_once_and_back(web, begin):
    def workers():
        return str(control(web, "state")["settings"]["CONCURRENT_REQUESTS"])

    crawl = begin(CONCURRENT_REQUESTS=1)
    assert workers() == "1"
    control(web, "set CONTACTS_MAX 2")
    at = time.time() + 1
    wait_until(lambda: len(contacts(web, at)) > 8)
    starts = sorted(hit.start for hit in contacts(web, at))
    assert starts[8] - starts[0] > 2  # 4 s without a busy machine, a tenth of one without a limit
    control(web, "unset CONTACTS_MAX")
    control(web, "set CONCURRENT_REQUESTS 50")
    at = time.time()
    wait_until(lambda: len(contacts(web, at)) > 30)
    control(web, "set BUDGET_HOST_PAGES 300")
    kill(crawl)
    crawl = begin(CONCURRENT_REQUESTS=2)
    assert workers() == "50"
    control(web, "unset CONCURRENT_REQUESTS")
    assert workers() == "2"
    for words, why in table("""
        set CONTACTS_MAX -3                | CONTACTS_MAX must be a number of at least 0
        set JOBDIR x                       | JOBDIR cannot be changed
        set CONCURRENT_REQUESTS 1000000000 | ulimit
        set LOG_LEVEL LOUD                 | LOG_LEVEL must be
        set REPUTATION_BASE_PAGES 5        | cannot be switched on or off while the crawl is running
    """):
        assert why in control(web, words, code=2)
    assert len(journal(web)) == 5
    control(web, "set CONCURRENT_REQUESTS 100")
    control(web, "stop")
    crawl.communicate()
    begin(REPUTATION_BASE_PAGES=5)
    assert str(control(web, "state")["settings"]["REPUTATION_BASE_PAGES"]) == "5"


def test_what_is_no_command_changes_nothing(web, begin):
    begin()
    for words, why in table("""
        slower a.test 0.5       | Expected `float` > 1
        slower a/test 2         | is not a host or domain
        free all nothing        | Invalid enum value
        free all failing_origin | Invalid enum value
        exclude all             | pause
        set LOG_LEVEL           | missing required field `value`
        seeds http://           | neither a domain nor a URL
        resume                  | nothing to end
    """):
        assert why in control(web, words, code=2)
    path = (web.job / "control").read_text().strip()
    assert Path(path).stat().st_mode & 0o777 == 0o600
    assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert re.fullmatch(r"webcrawl-\w{8}", Path(path).parent.name)  # drawn
    for request in (b"\n", b"{\n", b'{"name": "pause", "more": 1}\n', b"x" * (1 << 21)):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            try:
                connection.sendall(request)
                reply = connection.recv(1000)
            except (BrokenPipeError, ConnectionResetError):
                continue
            assert b'"refused":true' in reply, reply
    assert not (web.job / "logs/control.jsonl").exists()


def test_an_excluded_host_is_let_alone_and_allowed_again(web, begin):
    begin()
    (host,) = hosts_of(web, 1)
    assert control(web, f"exclude {host.upper()}")["said"] == f"exclude {host}: in force"
    assert is_left_alone(web, host=host)
    at = time.time()
    wait_until(lambda: contacts(web, at))
    why = warm.scrapy("why", web.job, f"http://{host}/")
    assert f"exclude {host}, " in why.stdout
    assert f"allow {host} ends it" in why.stdout
    control(web, f"allow {host}")
    at = time.time()
    control(web, f"seeds http://{host}/seeded-{int(at)} http://{host}/")
    wait_until(lambda: contacts(web, at, host=host))


def test_an_exclusion_names_the_other_names_of_the_site(web, begin, tmp_path):
    hosts = {urlsplit(url).hostname for url in web.seeds.read_text().split()}
    leading, other = sorted(hosts)[:2]
    policies = tmp_path / "hosts.toml"
    policies.write_text(f'["{other}"]\nalias = "{leading}"\n')
    begin(HOSTS_POLICY_FILE=policies)
    wait_until(lambda: parked(web, "alias_of"), every=0.5)
    said = control(web, f"exclude {leading}")["said"]
    assert said.endswith(f"the same site has the names {other}, whose URLs stay parked")
    control(web, f"exclude {leading} --with-aliases")
    in_force = {line["arguments"]["host"] for line in control(web, "state")["in_force"]}
    assert in_force == {leading, other}


@pytest.mark.long
@pytest.mark.cures("; to fetch those given up this way, stop the crawl and run {}")
def test_what_an_exclusion_ended_comes_back_by_the_command_that_allow_names(web, begin):
    crawl = begin(ROBOTSTXT_OBEY=0)
    wait_until(lambda: len(fetched(web)) > 10)
    visit = fetched(web)[0]
    host = urlsplit(visit).hostname
    for words in ("pause", f"due {visit}", f"exclude {host}", "resume"):
        control(web, words)

    def ended():
        lines = map(json.loads, (web.job / "logs/info.jsonl").read_text().splitlines())
        return {line["url"]: "visit" in line for line in lines if line["outcome"] == "excluded"}

    wait_until(lambda: {*ended().values()} == {True, False})
    said = control(web, f"allow {host}")["said"]
    control(web, "stop")
    crawl.communicate()
    urls, at = ended(), time.time()
    assert urls[visit]
    told = re.search("stop the crawl and run scrapy (.*)", said)[1]
    done = warm.scrapy(*shlex.split(told))
    assert f"{len(urls)} URLs put back in line" in done.stdout, done
    begin(ROBOTSTXT_OBEY=0, POLITENESS_MIN_DELAY=0.01)
    wait_until(lambda: urls.keys() <= {hit.origin + hit.target for hit in contacts(web, at)})


def test_an_edited_file_acts_as_a_command_of_the_journal(web, begin, tmp_path):
    excluded, policies = tmp_path / "excluded.txt", tmp_path / "hosts.toml"
    excluded.touch()
    policies.touch()
    begin(EXCLUSION_FILE=excluded, HOSTS_POLICY_FILE=policies)
    (host,) = hosts_of(web, 1)
    began = time.time()
    excluded.write_text(f"{host}\n")
    wait_until(lambda: len(journal(web)) == 2)
    begun, answered = journal(web)
    assert begun["name"] == "reload"
    assert begun["arguments"] == {"setting": "EXCLUSION_FILE"}
    assert begun["origin"] == "a change of the file"
    assert began - 1 <= begun["at"] <= answered["at"] <= time.time()
    assert answered["answer"] == "1 rule in force"
    assert is_left_alone(web, host=host)
    at = time.time()
    wait_until(lambda: contacts(web, at))
    policies.write_text("nonsense")
    wait_until(lambda: len(journal(web)) == 4)
    assert "The previous rules (0) stay in force." in journal(web)[-1]["answer"]
    policies.write_text("")
    wait_until(lambda: len(journal(web)) == 6)
    excluded.write_text("")
    answer = control(web, "reload EXCLUSION_FILE")
    assert answer["said"] == "reload EXCLUSION_FILE: 0 rules in force"
    assert "RANKS_FILE is not set" in control(web, "reload RANKS_FILE", code=2)
    at = time.time()
    control(web, f"seeds http://{host}/seeded-{int(at)}")
    wait_until(lambda: contacts(web, at, host=host))


def gaps(web, host, since):
    hits = sorted(contacts(web, since, host), key=lambda hit: hit.start)
    return [later.start - one.end for one, later in itertools.pairwise(hits)]


def test_a_host_is_slower_and_never_faster_than_it_allows(tmp_path):
    """By the server's record: some of its robots.txt files have a Crawl-delay."""
    values = {"hosts": 16, "mean_pages": 18, "max_pages": 20, "max_crawl_delay": 1.0}
    with simulated(tmp_path, crawl_delays=1.0, **values) as web:
        # Without a command each rest takes two seconds, as even the fastest answer takes 0.1 ms.
        options = {"POLITENESS_MIN_DELAY": MIN_DELAY, "POLITENESS_DELAY_FACTOR": 20_000}
        crawl = start_crawl(web.command(**options, POLITENESS_MAX_DELAY=2))
        wait_until((web.job / "control").exists)
        (slow,) = hosts_of(web, 1)
        control(web, "faster sim.test 1000")
        control(web, f"slower {slow} 2")
        at = time.time() + 4  # the rests of then are over
        wait_until(lambda: len(gaps(web, slow, at)) > 3)
        kill(crawl)
        hosts = {urlsplit(hit.origin).hostname for hit in contacts(web)} - {slow}
        found = {web.world.find(host): min(gaps(web, host, 0.0), default=9.0) for host in hosts}
    asks = {
        host: host.crawl_delay
        for host in found
        if b"Crawl-delay" in robots_of(web.world, host, PATH).body
    }
    assert [host for host in found if found[host] < max(MIN_DELAY, asks.get(host, 0.0))] == []
    assert min(found.values()) < 2 * MIN_DELAY
    assert any(0 < asks[host] <= found[host] < 1.9 for host in asks)
    assert min(gaps(web, slow, at)) >= 4


@pytest.mark.long
def test_what_is_parked_is_let_in_or_given_up(web, begin):
    crawl = begin(BUDGET_HOST_PAGES=3, REVISIT=1)
    wait_until(lambda: parked(web, "host_budget") > 9)
    free, held = hosts_of(web, 2)
    control(web, f"free {free} host_budget")
    at = time.time()
    wait_until(lambda: len(contacts(web, at, host=free)) > 5)
    assert len(contacts(web, host=held)) <= 4
    drop = ["control", web.job, "drop", held, "host_budget"]
    at_least = parked(web, "host_budget")
    done = on_terminal(drop, "n")
    assert done.returncode == 1
    asked = re.match(r"([\d,]+) URLs are parked with reason host_budget", done.stdout)
    assert int(asked[1].replace(",", "")) >= at_least
    assert [line["name"] for line in journal(web)] == ["free"]
    done = on_terminal(drop, "y")
    assert done.returncode == 0
    dropped = int(re.search(f"drop {held} host_budget: ([\\d,]+) URL", done.stdout)[1])
    assert f"scrapy frontier {web.job} --retry dropped" in done.stdout
    assert dropped > 0
    lines = (web.job / "logs/info.jsonl").read_text().splitlines()
    ends = [json.loads(line)["host"] for line in lines if '"outcome":"dropped"' in line]
    assert ends == [held] * dropped
    kill(crawl)
    crawl = begin(BUDGET_HOST_PAGES=3, REVISIT=1)
    at = time.time()
    wait_until(lambda: len(contacts(web, at, host=free)) > 5)
    control(web, f"hold {free} host_budget")
    assert is_left_alone(web, host=free)
    kill(crawl)
    assert damage_in(web.job) == []


def test_an_open_crawl_takes_seeds_when_nothing_is_left(web, begin):
    first, *others = web.seeds.read_text().splitlines()
    web.seeds.write_text(f"{first}\n")
    crawl = begin(KEEP_OPEN=1, BUDGET_HOST_PAGES=2, URL_SCOPE="seeds")
    wait_until(lambda: "budgets" in control(web, "state")["said"])
    hosts = {urlsplit(url).hostname for url in others}
    assert hosts.isdisjoint(urlsplit(hit.origin).hostname for hit in contacts(web))
    control(web, f"seeds {' '.join(others)}")
    wait_until(lambda: hosts <= {urlsplit(hit.origin).hostname for hit in contacts(web)})
    wait_until(lambda: "budgets" in control(web, "state")["said"])
    control(web, "stop")
    assert "stopped by scrapy control stop" in crawl.communicate()[1]


@each("answered", False, True)
def test_seeds_without_an_answer_are_submitted_by_the_next_run(web, begin, answered):
    """As ``kill -9`` leaves them before their effect, and after it."""
    crawl = begin()
    (host,) = hosts_of(web, 1)
    kill(crawl)
    url = f"http://{host}/only-in-the-journal"
    add_to_journal(web, name="seeds", arguments={"lines": [url]}, again=True)
    if answered:
        add_to_journal(web, n=1, answer="1 seed submitted")
    before = journal(web)
    begin()
    wait_until(lambda: answered or "answer" in journal(web)[-1])
    control(web, "checkpoint")
    assert warm.scrapy("why", web.job, url).returncode == answered
    assert journal(web)[: len(before)] == before


def test_finished_urls_are_visited_again_while_the_crawl_runs(web, begin):
    crawl = begin(POLITENESS_MIN_DELAY=1)
    wait_until(lambda: len(fetched(web)) > 10)
    first, second, *_ = fetched(web)
    said = control(web, f"due {first} http://never.test/")["said"]
    assert said.startswith("due: 1 URL put back in line")
    assert said.endswith("; 1 never answered: http://never.test/")
    assert journal(web)[-1]["answer"] == "its visits are saved in a checkpoint"
    kill(crawl)  # the answer is there, so a checkpoint is
    begin(POLITENESS_MIN_DELAY=1)
    assert "1 URL put back in line" in printed("frontier", web.job, "--refetch", second)
    assert "'' is not an age" in control(web, "refetch older-than", code=2)
    assert journal(web)[-2]["arguments"] == {"what": [second]}
    wait_until(lambda: fetched(web).count(first) == fetched(web).count(second) == 2)


def fetched(web):
    return [
        f"{hit.origin}{hit.target}"
        for hit in contacts(web)
        if hit.status == 200 and not is_robots(hit)
    ]


def test_a_torn_line_is_cut_and_a_damaged_one_ends_the_start(web, begin):
    kill(begin())
    (web.job / "logs").mkdir(exist_ok=True)
    path = web.job / "logs/control.jsonl"
    path.write_text('{"at": 1, "n": 1, "name": "pause", "lasts": "pause"}\n{"at": 2, "n"')
    crawl = begin()
    control(web, "resume")
    kill(crawl)
    assert [line["name"] for line in journal(web)] == ["pause", "resume"]
    path.write_text(path.read_text() + '{"at": 2, "n": "x"}\n')
    done = warm.run(web.command())
    assert done.returncode == 2
    assert "control.jsonl, line 3, cannot be read" in done.stderr
    path.write_text('{"at": 1, "n": 1, "name": "fly", "lasts": "fly"}\n')
    assert "a command of another version" in warm.run(web.command()).stderr


def test_a_crawl_that_hangs_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(unix_socket, "_ANSWER_SECS", 0.2)
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as server:
        path = Path(directory, unix_socket._socket_name(tmp_path))
        server.bind(str(path))
        server.listen()
        (tmp_path / "control").write_text(f"{path}\n")
        with pytest.raises(FatalError, match=r"has not answered within 0\.2 s: it hangs"):
            unix_socket.send(tmp_path, Request("state"))
