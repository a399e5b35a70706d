"""The monitor of a running crawl by HTTP: what it shows, what it does, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
import warm
from aiohttp import web
from crawling import DOWNLOAD_TIMEOUT, access_log, kill, simulated, start_crawl, wait_until
from monitored import FORM, monitored
from patience import LIMIT_SECS
from reading_report import line, write_history, write_log
from redis_server import free_port
from scrapy.utils.project import get_project_settings

from webcrawl.crawl.job.control_journal import user_and_machine
from webcrawl.crawl.job.ports import ports_of
from webcrawl.errors import FatalError
from webcrawl.jobs.report.guides import guide_names
from webcrawl.jobs.report.model import Live
from webcrawl.monitor.access import Access
from webcrawl.monitor.launch import LOG_BYTES, MonitorProcess
from webcrawl.monitor.site import Site
from webcrawl.monitor.watch import Watch

HOSTILE = "<script>alert(1)</script>\x1b[2J\"'&{{7*7}}"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    settings = {"TEST_PASSWORD": "a-secret-thing", "CHECKPOINT_INTERVAL_SECS": 2}
    settings["ITEM_PIPELINES"] = json.dumps({"webcrawl.pipelines.search_index.SearchIndex": 1})
    with monitored(tmp_path_factory.mktemp("crawl"), **settings) as monitor:
        wait_until(lambda: monitor.pages() > 5)
        yield monitor


@pytest.fixture
def monitor(running):
    """The crawl of all tests, asked without the token at first."""
    running.given = {}
    return running


def test_the_token_is_the_users_alone_and_is_nowhere_else(monitor):
    path = monitor.job / "monitor.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(monitor.token) == 64
    monitor.give_token()
    # Tantivy deletes files all the time.
    files = {one for one in monitor.job.rglob("*") if one.is_file() and one.parent.name != "search"}
    files.remove(path)
    for one in files:
        with suppress(FileNotFoundError):  # a checkpoint has replaced it
            assert monitor.token.encode() not in one.read_bytes(), one
    assert monitor.token not in monitor.ask("GET", "/")[2]


def test_the_page_says_how_the_crawl_is_and_needs_no_script(monitor):
    page = monitor.page()
    assert page.xpath("//dl[@class='process']//dd")[0].text.startswith("running")
    assert [one.get("src") for one in page.xpath("//script")] == ["page.js"]
    assert page.xpath("//form[@method='post']") == []
    (host, *_) = {hit.origin.split("/")[2] for hit in access_log(monitor.log) if hit.target == "/"}
    name = host.partition(":")[0]
    wait_until(lambda: f"host  {name}: " in answer_about(monitor, "url", name), every=1)
    assert f"host  {name}: " in answer_about(monitor, "host", name)  # the old name
    url = next(f"{hit.origin}/" for hit in access_log(monitor.log) if host in hit.origin)
    why = answer_about(monitor, "url", url)
    assert url in why
    assert "robots.txt" in why
    waiting = "//dl[@class='process']//dt[.='Waiting']/following-sibling::dd"
    wait_until(lambda: int(re.sub(r"\D", "", monitor.page().xpath(waiting)[0].text)) > 50)
    settings = monitor.page().xpath("//figure[@id='settings']//tr")
    shown = {row[0].text: [cell.text for cell in row[1:]] for row in settings[1:]}
    assert shown["CHECKPOINT_INTERVAL_SECS"] == ["2", "60.0", "command line (-s)"]
    assert shown["DOWNLOAD_TIMEOUT"][0] == DOWNLOAD_TIMEOUT
    assert shown["TEST_PASSWORD"] == ["***", None, "command line (-s)"]
    assert not {"BOT_NAME", "TELNETCONSOLE_ENABLED"} & {*shown}  # they have webcrawl's defaults


def answer_about(monitor, name, question):
    (answer,) = monitor.page(f"/?{urlencode({name: question})}").xpath("//pre")
    return answer.text


@pytest.mark.cures("Give the words to search for: /api/search?q=WORDS")
def test_pages_are_searched_and_found_pages_are_paged(monitor):
    def ask(**query):
        return json.loads(monitor.ask("GET", f"/api/search?{urlencode(query)}")[2])

    wait_until(lambda: ask(q="*")["total"] > 20)
    first = monitor.page("/search?q=*")
    (more,) = first.xpath("//a[@rel='next']/@href")
    assert len(first.xpath("//li")) == 10
    second = monitor.page(f"/{more}")
    assert (second.xpath("//ol/@start"), second.xpath("//a[@rel='prev']/@href")) == (
        ["11"], ["search?q=%2A&offset=0"]
    )  # fmt: skip
    hit = ask(q="*", limit=1, offset=3)["hits"][0]
    # More than ten pages may have one of its words.
    phrase = " ".join(re.findall(r"\w+", hit["snippet"])[:6])
    query = urlencode({"q": f'"{phrase}"'})
    found = monitor.page(f"/search?{query}")
    assert hit["url"] in found.xpath("//li//a/@href")
    assert found.xpath("//li//mark")
    assert monitor.page("/").xpath("//form[@action='search']")
    assert monitor.ask("GET", "/api/search")[2] == (
        "Give the words to search for: /api/search?q=WORDS\n"
    )
    for path in ("/api/search", "/api/search?q=x&limit=101", "/search?q=x&offset=-1"):
        assert monitor.status("GET", path) == 400, path
    assert monitor.status("GET", f"/api/search?q={'x' * 2001}") == 409
    (_, *notes) = monitor.page("/search?q=x+foo:y+z~2").xpath("//p[@role='status']/text()")
    assert notes == [f"Not searched: {one}" for one in ask(q="x foo:y z~2")["not_searched"]]
    assert notes[1:] == ["Not searched: Field does not exist: 'foo'"]
    status, _, said = monitor.ask("GET", "/api/search?q=foo:y")
    assert (status, "(Field does not exist: 'foo')" in said) == (409, True)
    (_, note) = monitor.page("/search?q=foo:y").xpath("//p[@role='status']/text()")
    assert note == f"Not searched: {said.strip()}"


def test_all_hosts_are_listed_and_each_leads_to_its_answer(monitor):
    wait_until(lambda: monitor.page("/hosts?state=waiting").xpath("//td/a"))
    hosts = monitor.page("/hosts?q=SITE&sort=name")
    as_of, lead = (one.text for one in hosts.xpath("//main/p"))
    assert re.match(r"All figures as of [\d-]{10} [\d:]{8} UTC \(\d+ s ago\)", as_of)
    assert re.search(r"as of the last checkpoint, [\d-]{10} [\d:]{8} UTC\.", lead)
    (link, *_) = hosts.xpath("//td/a/@href")
    path = link.removeprefix(".").partition("#")[0]
    answer = monitor.page(path)
    assert "host  site" in answer.xpath("//pre")[0].text
    (row,) = answer.xpath("//section[@id='ask']//a[starts-with(@href, 'hosts?q=')]/@href")
    assert monitor.page(f"/{row}").xpath("//td/a/@href") == [link]
    ids = answer.xpath("//@id")
    assert len(ids) == len({*ids})
    assert monitor.page("/hosts?q=no.such.host").xpath("//td/a") == []
    assert monitor.status("GET", "/hosts?offset=-1") == 400


def test_a_guide_that_the_page_names_is_shown_and_no_other_file(monitor):
    guide = monitor.page("/help/run-it-for-weeks")
    assert guide.xpath("//link/@href") == ["../page.css"]
    assert guide.xpath("//section[@id='disk']/ul/li/code")
    assert monitor.status("GET", "/help/..%2F..%2FREADME") == 404
    assert monitor.status("GET", "/help/none") == 404
    # There is a list of all of them, also before a message names one.
    (link,) = monitor.page("/").xpath("//footer/a/@href")
    guides = monitor.page(f"/{link}").xpath("//li/a")
    assert {one.get("href") for one in guides} == guide_names()
    assert "Run it for weeks" in {one.text for one in guides}
    assert guide.xpath("//nav/a/@href") == ["../", "./"]


def test_charts_have_the_range_and_the_drone_that_are_asked_for(monitor):
    def has_history(query):
        lead = monitor.page(f"/{query}").xpath("//figure[@id='waiting']/p")[0]
        return lead.text.startswith("Last: ")

    wait_until(lambda: has_history(""))
    for query in ("?range=hour", "?range=all&drone=0", "?range=x&drone=%22"):
        assert has_history(query), query
    current = monitor.page("/?range=all").xpath("//a[@aria-current]")
    assert [one.text for one in current] == ["All"]


def test_a_page_is_kept_up_to_date_and_one_of_a_minute_ago_is_not_shown(tmp_path, monkeypatch):
    given = get_project_settings()
    given.set("JOBDIR", str(tmp_path))
    log = write_log(tmp_path, [line("http://a.test/", "http_200", 1e9)])
    watch = Watch(given, [])
    made_at = asyncio.run(watch.page()).at
    log.write_bytes(2 * log.read_bytes())
    for after, pages in ((59, "1"), (61, "2")):
        monkeypatch.setattr("webcrawl.monitor.watch.wall_time", lambda: made_at + after)  # noqa: B023  # now
        assert dict(asyncio.run(watch.page()).summary)["pages"] == pages


def test_the_charts_are_not_newer_than_the_page(tmp_path):
    """Two readers with different ranges; then there is a sample more, then an update."""
    given = get_project_settings()
    given.set("JOBDIR", str(tmp_path))
    write_log(tmp_path, [line("http://a.test/", "http_200", 1e9)])
    now = int(time.time())
    write_history(tmp_path, range(now - 600, now, 60), waiting=int)
    watch = Watch(given, [])
    hour, day = (Live("", [], range=name) for name in ("hour", "day"))

    def shown(live):
        charts = asyncio.run(watch.shown_page(live)).rates
        return next(one.lead for one in charts if one.name == "waiting")

    assert {shown(hour), shown(day)} == {"Last: 9 URLs."}
    write_history(tmp_path, [now], waiting=lambda _: 70)
    assert {shown(hour), shown(day)} == {"Last: 9 URLs."}
    watch._update_page()
    assert {shown(hour), shown(day)} == {"Last: 70 URLs."}


def test_the_page_is_updated_before_anybody_looks(tmp_path):
    write_log(tmp_path, [line("http://a.test/", "http_200", 1e9)])
    given = get_project_settings()
    given.set("JOBDIR", str(tmp_path))
    watch = Watch(given, [])

    async def serve():
        runner = web.AppRunner(Site(watch, Access("t" * 20, is_open=True)).app())
        await runner.setup()
        await asyncio.to_thread(wait_until, lambda: watch._page is not None)
        await runner.cleanup()

    asyncio.run(serve())


def test_a_command_by_the_api_acts_is_journaled_and_shown(monitor):
    status, (answer,) = monitor.command("pause", reason=HOSTILE)
    assert (status, answer["said"]) == (200, "pause: in force")
    line = monitor.journal()[-1]
    assert line["reason"] == HOSTILE
    assert line["origin"] == f"the monitor, from 127.0.0.1, {user_and_machine()}"
    wait_until(lambda: monitor.state()["processes"][0]["state"]["name"] == "paused")
    rows = "//section[@id='runs-and-commands']//figure[@id='journal']//tbody/tr"
    wait_until(lambda: monitor.page().xpath(rows))
    cells = [cell.text_content() for cell in monitor.page().xpath(rows)[0]]
    assert cells[1:3] == ["pause", line["origin"]]
    assert re.fullmatch(r"\w+ control \S+ resume", cells[5])
    assert monitor.page().xpath("//dt[.='Control']") == []  # each thing is said once
    wait_until(lambda: "alert(1)" in monitor.ask("GET", "/")[2])
    assert "<script>alert" not in monitor.ask("GET", "/")[2]
    assert len(monitor.page().xpath("//script")) == 1
    assert monitor.command("resume")[0] == 200
    at = len(access_log(monitor.log))
    wait_until(lambda: len(access_log(monitor.log)) > at)
    _, (answer,) = monitor.command("drop", arguments={"host": "all", "reason": "depth"})
    assert answer["said"].startswith("drop all depth: 0 URLs given up; ")


def test_a_form_of_the_page_acts_after_the_token_was_given(monitor):
    monitor.give_token()
    for name, fields, said in (
        ("set", {"name": "CONCURRENT_REQUESTS", "value": "7", "why": "few"},
         "set CONCURRENT_REQUESTS 7: in force"),
        ("exclude", {"host": "never.test"}, "exclude never.test: in force"),
        ("free", {"host": "a.test", "reason": "depth"}, "free a.test depth: in force"),
        ("exclude", {"host": "a/b"}, "is not a host"),
        ("set", {"name": HOSTILE, "value": "1"}, "cannot be changed"),
        ("due", {"urls": "http://never.test/ http://a.test/"}, "due: 0 URLs"),
        ("seeds", {"lines": "http://a.test/ b.test"}, "seeds http://a.test/"),
        ("unset", {"name": "CONCURRENT_REQUESTS"}, "unset CONCURRENT_REQUESTS: in force"),
    ):  # fmt: skip
        assert said in monitor.form(name, **fields)
    (sure,) = monitor.page().xpath("//form[@action='commands/drop']//input[@required][not(@name)]")
    assert sure.tail.strip() == "Give up these URLs for good?"
    assert [line["name"] for line in monitor.journal() if "name" in line][-1] == "unset"


def refused(monitor):
    """Requests that are to be refused, each with its status."""
    pause = {"name": "pause"}
    for status, asked, changes in (
        (401, pause, {"Authorization": ""}),
        (401, pause, {"Authorization": f"Bearer {monitor.token[:-1]}"}),
        (401, pause, {"Authorization": f"Basic {monitor.token}"}),
        (401, pause, {"Authorization": "Basic \xff"}),
        (401, pause, {"Authorization": f"Digest {monitor.token}"}),
        (403, pause, {"Host": "evil.test"}),
        (403, pause, {"Host": "127.evil.test"}),
        (403, pause, {"Host": "127.0.0.1.evil.test"}),
        (403, pause, {"Host": "["}),
        (403, pause, {"Origin": "http://evil.test"}),
        (403, pause, {"Origin": "null"}),
        (403, pause, {"Sec_Fetch_Site": "same-site"}),
        (415, pause, {"Content_Type": "text/plain"}),
        (400, '{"name": "pause"', {}),
        (400, b"\xff", {}),
        (400, "[" * 10_000, {}),
        (400, pause | {"more": 1}, {}),
        (400, pause | {"reason": "x" * 501}, {}),
        (409, {"name": "fly"}, {}),
        (409, {"name": "resume"}, {}),
        (409, pause | {"arguments": {"x": 1}}, {}),
        (409, {"name": "set", "arguments": {"name": "x", "value": {}}}, {}),
        (413, {"name": "x" * 70_000}, {}),
    ):
        body = json.dumps(asked) if isinstance(asked, dict) else asked
        headers = {"Content_Type": "application/json", **monitor.bearer, **changes}
        yield status, ("POST", "/api/command", body), headers
    yield 403, ("GET", "/"), {"Host": f"evil.test:{monitor.port}"}
    yield 403, ("GET", "/?url=http://a.test/"), {"Sec_Fetch_Site": "cross-site"}
    yield 405, ("PUT", "/api/command"), monitor.bearer
    yield 405, ("POST", "/"), monitor.bearer
    yield 405, ("GET", "/commands/pause"), {}
    yield 404, ("GET", "/../../etc/passwd"), {}
    yield 404, ("GET", "/api/token"), {}
    yield 401, ("POST", "/commands/pause", ""), {"Content_Type": FORM}
    yield 401, ("POST", "/commands/pause", "token=x"), {"Content_Type": FORM, **monitor.bearer}
    yield 405, ("POST", "/token", ""), {"Content_Type": FORM}
    yield 415, ("POST", "/commands/pause", "{}"), {"Content_Type": "application/json"}
    for body, charset in ((b"\xff", "utf-8"), ("token=x", "none"), ("token=x", "idna" * 99)):
        yield 400, ("POST", "/commands/pause", body), {"Content_Type": f"{FORM}; charset={charset}"}


def test_what_is_wrong_is_refused_and_changes_nothing(monitor):
    before = monitor.journal()
    for status, asked, headers in [*refused(monitor)]:
        found, fields, text = monitor.ask(*asked, **headers)
        assert found == status, (asked, headers, text)
        assert fields["Content-Security-Policy"].startswith("default-src 'none'; ")
        assert fields["Cache-Control"] == "no-store"
        assert "Traceback" not in text
    monitor.give_token()
    assert monitor.status("POST", "/commands/pause", "token=x", Content_Type=FORM) == 401
    assert monitor.journal() == before
    assert (monitor.job / "logs/monitor.log").read_text() == ""


FIELDS = {
    "not HTTP": b"\xff" * 5000,
    "no colon": b"abc",
    "no text": b"A: \x00\xff",
    "too long": b"A: " + b"b" * 100_000,
    "too many": b"\r\n".join([b"A: b"] * 20_000),
    "length": b"Content-Length: -3",
    "two lengths": b"Content-Length: 3\r\nTransfer-Encoding: chunked",
    "multipart": b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 3",
    "coding": b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip",
    "chunk": b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc",
    "long chunk": b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 5000,
    "broken chunk": b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcdefgh\r\n0",
    "gone": b"Content-Length: 9\r\n\r\nabc",
}


def test_a_request_that_cannot_be_read_is_refused_in_one_short_line(tmp_path):
    with monitored(tmp_path) as monitor:
        log = monitor.job / "logs/monitor.log"
        head = f"POST /commands/pause HTTP/1.1\r\nHost: 127.0.0.1:{monitor.port}\r\n".encode()

        def status(fields):
            with socket.create_connection(("127.0.0.1", monitor.port), LIMIT_SECS) as raw:
                raw.sendall(head + fields)
                if fields == FIELDS["gone"]:
                    return b"4"
                raw.sendall(b"\r\n\r\nabc")
                return raw.recv(100).split()[1]

        for name, fields in FIELDS.items():
            before = log.stat().st_size
            assert status(fields)[:1] == b"4", name
            wait_until(lambda: name != "gone" or log.stat().st_size > before)  # noqa: B023  # now
            assert log.stat().st_size - before < 300, name
        lines = len(log.read_text().splitlines())
        assert len(FIELDS) - 2 <= lines <= len(FIELDS)


@pytest.mark.long
def test_the_log_of_the_monitor_is_bounded_by_its_size(tmp_path):
    log = tmp_path / "job/logs/monitor.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(bytes(1 << 20))  # of an earlier version
    with monitored(tmp_path) as monitor:
        assert log.stat().st_size == 0
        for _ in range(2500):  # more than two files hold
            with socket.create_connection(("127.0.0.1", monitor.port), 60) as raw:
                fields = f"Host: 127.0.0.1:{monitor.port}\r\n".encode() + FIELDS["chunk"]
                raw.sendall(b"POST /commands/pause HTTP/1.1\r\n" + fields + b"\r\n\r\n")
                assert raw.recv(100).split()[1] == b"400"
        sizes = [file.stat().st_size for file in log.parent.glob("monitor.log*")]
        assert len(sizes) == 2
        assert 0 < sum(sizes) <= 2 * LOG_BYTES


def test_pages_are_served_while_commands_hang(tmp_path):
    """More of them than the threads of an event loop, of which there are 32 at most."""
    with monitored(tmp_path) as monitor, ThreadPoolExecutor(40) as threads:
        wait_until(lambda: monitor.pages() > 5)
        monitor.crawl.send_signal(signal.SIGSTOP)
        commands = [threads.submit(monitor.command, "state") for _ in range(40)]
        time.sleep(1)  # they are on their way
        assert monitor.status("GET", "/", **monitor.bearer) == 200
        assert [one for one in commands if one.done()] == []
        monitor.crawl.send_signal(signal.SIGCONT)
        assert {one.result()[0] for one in commands} == {200}


def test_requests_that_are_half_are_ended(monitor):
    """Nothing, half a head, half a head after a whole request, half a body."""
    whole = f"GET /page.css HTTP/1.1\r\nHost: 127.0.0.1:{monitor.port}\r\n\r\n"
    half = f"POST /commands/pause HTTP/1.1\r\nHost: 127.0.0.1:{monitor.port}\r\n"
    body = f"{half}Content-Type: {FORM}\r\nContent-Length: 9\r\n\r\ntoken"
    with ExitStack() as stack:
        answers = []
        for sent in ("", half, whole + half, body):
            raw = stack.enter_context(
                socket.create_connection(("127.0.0.1", monitor.port), LIMIT_SECS)
            )
            raw.sendall(sent.encode())
            answers.append(raw.makefile("rb"))
        assert monitor.status("GET", "/") == 200
        statuses = [re.findall(rb"HTTP/1.1 (\d+)", answer.read()) for answer in answers]
    assert statuses == [[], [], [b"200"], [b"408"]]


def test_it_ends_with_a_crawl_that_is_killed(tmp_path):
    with monitored(tmp_path) as monitor:
        assert monitor.status("GET", "/") == 200
        kill(monitor.crawl)  # monitored() waits for it


def test_a_port_that_is_taken_is_one_warning_and_a_crawl_that_ends_leaves_no_ports(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with monitored(tmp_path, MONITOR_PORT=port, METRICS_PORT=free_port()) as monitor:
            ports = json.loads((monitor.job / "ports.json").read_text())
            assert ports.keys() == {"metrics", "monitor"}
            assert ports["monitor"] != port
            assert monitor.status("GET", "/") == 200
            monitor.crawl.send_signal(signal.SIGTERM)
            said = monitor.crawl.communicate(timeout=LIMIT_SECS)[1]
            assert not (monitor.job / "ports.json").exists()
    assert said.count(f", because MONITOR_PORT {port} is not available; its token is in ") == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"MONITOR_HOST": "0.0.0.0"}, "MONITOR_HOST is not a loopback address"),
        ({"MONITOR_TOKEN_FILE": "open"}, "only its owner may read it"),
        ({"MONITOR_TOKEN_FILE": "short"}, "must have at least 16 characters"),
        ({"MONITOR_HOST": "192.0.2.1", "MONITOR_TOKEN_FILE": "mine"}, "bind on .*192.0.2.1"),
    ],
)
def test_without_a_fit_token_or_host_there_is_no_monitor(tmp_path, monkeypatch, settings, sentence):
    warmed = SimpleNamespace(**vars(subprocess) | {"Popen": warm.Popen})
    monkeypatch.setattr("webcrawl.monitor.launch.subprocess", warmed)
    for name, length, mode in (("open", 16, 0o644), ("short", 15, 0o600), ("mine", 16, 0o600)):
        (tmp_path / name).write_text("x" * length)
        (tmp_path / name).chmod(mode)
    if name := settings.get("MONITOR_TOKEN_FILE"):
        settings = settings | {"MONITOR_TOKEN_FILE": str(tmp_path / name)}
    given = get_project_settings()
    given.setdict({"MONITOR_PORT": free_port(), "JOBDIR": str(tmp_path), **settings})
    with pytest.raises(FatalError, match=f"The monitor did not start: .*{sentence}"):
        MonitorProcess(given).start()


def test_a_crawl_goes_on_without_a_monitor(tmp_path):
    with simulated(tmp_path, hosts=2) as web:
        crawl = start_crawl(web.command(MONITOR_PORT=free_port(), MONITOR_HOST="0.0.0.0"))
        next(line for line in crawl.stderr if "The monitor did not start: " in line)
        wait_until(lambda: len(access_log(web.log)) > 3)
        kill(crawl)


def test_a_crawl_does_not_wait_for_its_monitor(tmp_path):
    """Which is not started before somebody reads its log: that is a pipe."""
    with simulated(tmp_path, hosts=2) as web:
        log = web.job / "logs/monitor.log"
        log.parent.mkdir(parents=True)
        os.mkfifo(log)
        crawl = start_crawl(web.command(MONITOR_PORT=free_port(), KEEP_OPEN=1))
        wait_until(lambda: len(access_log(web.log)) > 3)
        assert "monitor" not in ports_of(web.job)
        reading = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
        wait_until(lambda: "monitor" in ports_of(web.job))
        crawl.send_signal(signal.SIGTERM)
        assert "The monitor is at " in crawl.communicate(timeout=LIMIT_SECS)[1]
        os.close(reading)


def test_beyond_this_machine_looking_needs_the_token_too(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("a token of mine, long enough\n")
    mine.chmod(0o600)
    with monitored(tmp_path, MONITOR_HOST="0.0.0.0", MONITOR_TOKEN_FILE=mine) as monitor:
        assert not (monitor.job / "monitor.token").exists()
        paths = ("/", "/token", "/api/state", "/page.js")
        assert {monitor.status("GET", path) for path in paths} == {401}
        bearer = {"Authorization": f"Bearer {mine.read_text().strip()}"}
        assert monitor.status("GET", "/api/state", **bearer) == 200
        assert monitor.status("GET", "/", **bearer, Host="any.name.test") == 200
