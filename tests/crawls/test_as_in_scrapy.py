"""A user's spider gets in this project what stock Scrapy gives it, and Scrapy's tools work."""

import json
import os
import re
import socket
import socketserver
import time
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import pytest
import warm
from crawling import RIGS, ROOT
from http_site import HttpSite, serving

# As the spider has it.
DELAY = 0.2
LOOPBACK = ["-s", "ALLOW_PRIVATE_ADDRESSES=1"]


class Hit(NamedTuple):
    """What the server notices of a request."""

    path: str
    at: float
    referer: str | None
    authorization: str | None
    cookie: str | None


def answer(request):
    """The page of that path; the request is written down."""
    server = request.server
    noted = map(request.headers.get, ("Referer", "Authorization", "Cookie"))
    server.hits.append(Hit(request.path, time.monotonic(), *noted))
    status, headers, body = server.pages.get(request.path, (404, {}, "not here"))
    return status, headers, body.encode()


class NoSuchName(socketserver.BaseRequestHandler):
    """Answers every question with NXDOMAIN."""

    def handle(self):
        query, sock = self.request
        sock.sendto(query[:2] + b"\x81\x83\0\1" + 6 * b"\0" + query[12:], self.client_address)


def links(*urls):
    return "".join(f'<a href="{url}">{url}</a>' for url in urls)


@pytest.fixture(scope="module")
def site():
    """A server on loopback; 127.0.0.2 is another site to its visitors."""
    with (
        serving(HttpSite(answer, address="")) as server,
        serving(socketserver.UDPServer(("127.0.0.1", 0), NoSuchName)) as names,
    ):
        port = server.server_port
        server.dns = f"127.0.0.1:{names.server_address[1]}"
        server.hits = []
        first = ("/1", "/missing", "/moved", "/old", "/no", f"http://127.0.0.2:{port}/")
        server.pages = {
            "/robots.txt": (200, {"Content-Type": "text/plain"}, "User-agent: *\nDisallow: /no"),
            "/": (200, {"Set-Cookie": "a=b"}, links(*first)),
            "/1": (200, {}, links("/2")),
            "/2": (200, {}, links("/3")),
            "/moved": (302, {"Location": "/new"}, ""),
            "/new": (200, {}, "new"),
            "/old": (200, {}, '<meta http-equiv="refresh" content="0; url=/newer">'),
            "/newer": (200, {}, "newer"),
        }
        yield server


def run(arguments, *, cwd, **environment):
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{RIGS}", **environment}
    environment.pop("SCRAPY_SETTINGS_MODULE", None)  # get_project_settings() leaves it behind
    done = warm.scrapy(*arguments, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def project(tmp_path):
    """A directory from which the project's commands can be given, and nothing else in it."""
    path = tmp_path / "project"
    path.mkdir()
    (path / "scrapy.cfg").write_text("[settings]\ndefault = webcrawl.settings\n")
    return path


def crawl(site, command, record, *, cwd):
    """What the spider has written down, and what the server has noticed, by paths."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.3", 0))
        closed = f"http://127.0.0.3:{unused.getsockname()[1]}/"
        failing = [closed, "http://nowhere.invalid/", f"{site.url}/gone"]
        arguments = {"url": f"{site.url}/", "record": record, "failing": " ".join(failing)}
        site.hits.clear()
        for name, value in arguments.items():
            command += ["-a", f"{name}={value}"]
        done = run(command, cwd=cwd)
    told = [json.loads(line) for line in record.read_text().splitlines()]
    for line in told:
        line["url"] = line["url"].replace(closed, "closed")
    noticed = defaultdict(set)
    for hit in site.hits:
        if hit.path != "/robots.txt":
            noticed[hit.path].add(hit._replace(at=0))
    return sorted(told, key=lambda line: line["url"]), dict(noticed), done


def test_a_spider_gets_what_stock_scrapy_gives_it(site, tmp_path, project):
    stock = crawl(
        site,
        ["runspider", ROOT / "tests/rigs/loaded/stock_spider.py"],
        tmp_path / "stock.jsonl",
        cwd=tmp_path,
    )
    # Off-site links, too deep ones and those that robots.txt forbids are not asked for.
    assert set(stock[1]) == {
        *("/", "/1", "/2", "/missing", "/moved", "/new", "/old", "/newer", "/gone")
    }
    ours = crawl(
        site,
        [
            *("crawl", "stock", "-s", "SPIDER_MODULES=stock_spider", *LOOPBACK),
            *("-s", f"DNS_SERVERS={site.dns}", "-s", "POLITENESS_BACKOFF_SECS=0.1"),
            *("-s", "POLITENESS_MIN_DELAY=0", "-s", "POLITENESS_DELAY_FACTOR=0"),
        ],
        tmp_path / "ours.jsonl",
        cwd=project,
    )
    assert ours[:2] == stock[:2]
    times = sorted(hit.at for hit in site.hits)
    assert min(later - earlier for earlier, later in pairwise(times)) >= DELAY
    # Nothing of it stays, and what has no effect is said once.
    assert [path.name for path in project.iterdir()] == ["scrapy.cfg"]
    assert ours[2].stderr.count("no effect") == 1
    assert "DOWNLOAD_DELAY_JITTER has no effect in this crawl; instead: POLITENESS_JITTER" in (
        ours[2].stderr
    )
    # It ends with the crawl's summary, without what it kept for itself.
    assert "'item_scraped_count'" not in ours[2].stderr
    head, _, told = ours[2].stderr.partition("\n=== crawl summary ===\n")
    assert re.search(r"^ +items  [1-9]", told, re.MULTILINE)
    assert "JOBDIR" not in told
    assert "/webcrawl-job-" not in ours[2].stderr
    assert "New crawl; nothing of it is kept" in head


CHECKED = '''
import scrapy

class Checked(scrapy.Spider):
    name = "checked"

    def parse(self, response):
        """@url {url}
        @returns items 1 1
        """
        yield {{"length": len(response.body)}}
'''


def test_tools_work_and_leave_nothing_behind(site, project, tmp_path):
    (project / "checked.py").write_text(CHECKED.format(url=f"{site.url}/new"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = _files(project)
    page = f"{site.url}/new"
    console = f"print(len(response.body)), fetch({page!r}), response.text"
    commands = {
        "fetch": (["fetch", page], "new"),
        # A file of one's own, and a page after it.
        "shell": (["shell", "./checked.py", "-c", console], "(None, None, 'new')"),
        "parse": (["parse", "--spider=checked", "--nocolour", page], "{'length': 3}"),
        "check": (["check", "checked", "-v"], ""),
        "view": (["view", page], ".html"),
        "bench": (["bench", "-s", "CLOSESPIDER_PAGECOUNT=20"], ""),
        # With the spider web, whose settings name a job directory.
        "fetch web": (["fetch", "--spider", "web", page], "new"),
        "shell web": (["shell", "--spider", "web", page, "-c", "response.text"], "new"),
        "parse web": (["parse", "--spider=web", "--nocolour", f"{site.url}/1"], "/2>]"),
    }
    modules = "SPIDER_MODULES=checked,webcrawl.spiders"
    options = [*LOOPBACK, "-s", modules, "-L", "ERROR"]
    environment = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "BROWSER": "echo",
        "TMPDIR": str(temporary),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{project}",
    }
    for name, (command, output) in commands.items():
        done = run([*command, *options], cwd=project, **environment)
        assert output in done.stdout, name
        told = done.stderr.splitlines()
        assert told[-1] == "OK" if name == "check" else not told, done.stderr
    assert _files(project) == before
    assert [path.suffix for path in temporary.iterdir()] == [".html"]  # what was viewed


def test_what_tools_may_not_fetch_is_a_sentence_without_a_traceback(site, project):
    site.hits.clear()
    private = "127.0.0.1, which is not public: ALLOW_PRIVATE_ADDRESSES=1 allows it"
    for tool, more in (("fetch", []), ("shell", ["-c", "response"])):
        refused = run([tool, *more, f"{site.url}/new"], cwd=project)
        assert private in refused.stderr
        assert not site.hits
        denied = run([tool, *more, *LOOPBACK, f"{site.url}/no"], cwd=project)
        assert f"Forbidden by robots.txt: <GET {site.url}/no>" in denied.stderr
        assert {hit.path for hit in site.hits} == {"/robots.txt"}
        assert "Traceback" not in refused.stderr + denied.stderr
        site.hits.clear()


def _files(project):
    """What is in *project* but the spiders as Python has compiled them."""
    return {path for path in project.iterdir() if path.name != "__pycache__"}
