"""Hosts in parts, and secrets of tables, by the record of a server."""

import gzip
import time
from itertools import pairwise
from operator import ne
from zlib import crc32

import warm
from crawling import (
    crawl_of_urls,
    finish,
    kill,
    output_of,
    printed,
    run_crawl,
    start_crawl,
    wait_until,
)
from http_site import HttpSite, serving
from patience import LIMIT_SECS, SLOWNESS
from text_tables import cases

PAGES = 32
DELAY, TOOK = 0.3, 0.15
LATE = 0.5 * SLOWNESS  # the server may be to note a contact
SECRET = "s3cr3t-value"


class Record:
    """A site of ``PAGES`` pages, each of which takes its time; *hits* are (start, end, path)."""

    def __init__(self, refusal=None):
        self.hits = []
        self.refused_at = 0.0
        self._left = 8
        self._refusal = refusal

    def answer(self, request):
        start = time.monotonic()
        if request.path == "/robots.txt":
            reply = 200, {"Content-Type": "text/plain"}, b"User-agent: *\nCrawl-delay: 5\n"
        elif request.path == "/":
            links = b"".join(b'<a href="/%d">x</a>' % number for number in range(PAGES))
            reply = 200, {}, b"<title>all</title>" + links
        else:
            self._left -= 1
            reply = 200, {}, f"<p>page {request.path}</p>".encode()
            if self._left == 0 and self._refusal:
                reply = self._refusal
        time.sleep(TOOK)
        end = time.monotonic()
        if reply is self._refusal:
            self.refused_at = end
        self.hits.append((start, end, request.path))
        return reply

    def most_at_once(self, since=0.0):
        hits = [hit for hit in self.hits if hit[0] >= since]
        return max(sum(one[0] <= hit[0] < one[1] for one in hits) for hit in hits)

    def shortest_gap(self, since):
        hits = sorted(hit for hit in self.hits if hit[0] >= since)
        return min(after[0] - before[1] for before, after in pairwise(hits))


def table(directory, parallel, **more):
    path = directory / "hosts.toml"
    lines = {"delay": DELAY, "owner_allows": "true", "parallel": parallel, **more}
    text = '["=127.0.0.1"]\n' + "\n".join(f"{name} = {value}" for name, value in lines.items())
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").chmod(0o600)
    path.with_suffix(".new").rename(path)


def command(directory, seed, **settings):
    policies = {"HOSTS_POLICY_FILE": directory / "hosts.toml", "POLITENESS_JITTER": 0}
    return crawl_of_urls(directory, seed, **policies, **settings)


def test_parts_are_so_many_at_once_with_the_hosts_delay_on_average(tmp_path):
    record = Record()
    table(tmp_path, 4)
    with serving(HttpSite(record.answer)) as site:
        url = f"{site.url}/"
        finish(command(tmp_path, url))
    paths = [path for _, _, path in record.hits]
    assert sorted(paths) == sorted(["/robots.txt", "/", *(f"/{n}" for n in range(PAGES))])
    assert 2 <= record.most_at_once() <= 4
    starts = sorted(start for start, _, _ in record.hits)
    # Of any contacts in a row, the first four may be a burst.
    for first in range(len(starts)):
        for last in range(first + 4, len(starts)):
            assert starts[last] - starts[first] >= (last - first - 3) * DELAY - LATE
    # They take turns: one after the other would be 3 changes. The largest is left in the end.
    parts = [crc32(f"{url}{path[1:]}".encode()) % 4 for _, _, path in sorted(record.hits)[2:]]
    assert sum(map(ne, parts, parts[1:])) > PAGES / 4
    why = printed("why", tmp_path / "job", f"{url}1")
    assert 'has the table "=127.0.0.1"' in why
    assert "127.0.0.1#" in why
    audit = ("politeness-audit", str(tmp_path / "job"))
    printed(*audit)
    table(tmp_path, 1)
    assert warm.scrapy(*audit).returncode == 1


BUSY = 429, {"Retry-After": "3"}, b"slower"
CHALLENGE = 403, {"Cf-Mitigated": "challenge"}, b"<title>Just a moment...</title>"


@cases(
    "refusal is_killed",
    "BUSY | True",
    globals(),
    long="BUSY | False\nCHALLENGE | True\nCHALLENGE | False",
)
def test_what_one_part_is_refused_with_holds_for_all(tmp_path, refusal, is_killed):
    record = Record(refusal)
    table(tmp_path, 4)
    with serving(HttpSite(record.answer)) as site:
        line = command(tmp_path, f"{site.url}/")  # 3 s by its POLITENESS_BACKOFF_SECS, too
        crawl = start_crawl(line)
        if is_killed:
            wait_until(lambda: record.refused_at)
            time.sleep(0.2 * SLOWNESS)  # the crawl reads it
            kill(crawl)
            assert run_crawl(line).returncode == 0
        else:
            crawl.communicate(timeout=LIMIT_SECS)
    later = [start for start, _, _ in record.hits if start > record.refused_at + 0.1 * SLOWNESS]
    assert min(later) >= record.refused_at + 3
    assert {path for _, _, path in record.hits} >= {f"/{n}" for n in range(PAGES)}


# Nothing of the host is parked.
ALL_IN_QUEUES = {"REPUTATION_BASE_PAGES": 0}


@cases("before is_killed", "4 | False", long="1 | False\n1 | True\n4 | True")
def test_the_number_of_parts_may_change(tmp_path, before, is_killed):
    record = Record()
    after = 5 - before
    table(tmp_path, before)
    with serving(HttpSite(record.answer)) as site:
        line = command(tmp_path, f"{site.url}/", CHECKPOINT_INTERVAL_SECS=1, **ALL_IN_QUEUES)
        crawl = start_crawl(line)
        wait_until(lambda: len(record.hits) >= 10)
        if is_killed:
            kill(crawl)
            changed = time.monotonic()
            told = printed("why", tmp_path / "job", "127.0.0.1")
            assert ("  127.0.0.1#" in told) == (before == 4), told
            table(tmp_path, after)
            assert run_crawl(line).returncode == 0
        else:
            table(tmp_path, after)
            journal = tmp_path / "job/logs/control.jsonl"
            wait_until(lambda: journal.exists() and "answer" in journal.read_text())
            changed = time.monotonic() + SLOWNESS
            output_of(crawl)
    pages = [path for _, _, path in record.hits if path not in {"/", "/robots.txt"}]
    assert set(pages) == {f"/{n}" for n in range(PAGES)}
    assert len(pages) <= PAGES + 4 * is_killed
    if after == 1:
        assert record.most_at_once(changed) == 1
        assert record.shortest_gap(changed) >= DELAY
    else:
        assert 2 <= record.most_at_once(changed) <= 4


def test_what_a_table_adds_is_sent_and_nowhere_on_disk(tmp_path):
    seen = []

    def answer(request):
        seen.append((request.path, dict(request.headers)))
        if request.path.endswith("/robots.txt"):
            return 404, {}, b""
        return 200, {}, b'<a href="/a">a</a><iframe src="/frame"></iframe>' + request.path.encode()

    with serving(HttpSite(answer)) as proxy:
        address = proxy.url.replace("://", f"://me:{SECRET}-proxy@")
        (tmp_path / "hosts.toml").write_text(
            f'["proxied.test"]\ndelay = 0.01\nowner_allows = true\nproxy = "{address}"\n'
            f'headers = {{X-Key = "{SECRET}-header"}}\ncookies = {{id = "{SECRET}-cookie"}}\n'
            "verify = false\nproxy_verify = false\n"
            'link_kinds = ["a"]\n'
        )
        (tmp_path / "hosts.toml").chmod(0o644)
        output = finish(command(tmp_path, "http://proxied.test/"))
    assert sorted(path for path, _ in seen) == [
        "http://proxied.test/",
        "http://proxied.test/a",
        "http://proxied.test/robots.txt",
    ]
    for _, headers in seen:
        assert headers["X-Key"] == f"{SECRET}-header"
        assert headers["Cookie"] == f"id={SECRET}-cookie"
        assert headers["Proxy-Authorization"].startswith("Basic ")
    assert output.count("has secrets, but others can read it") == 1
    said = [output, printed("why", tmp_path / "job", "http://proxied.test/a")]
    said += [printed("report", tmp_path / "job")]
    proof = headers["Proxy-Authorization"].removeprefix("Basic ")
    files = [path for path in (tmp_path / "job").rglob("*") if path.is_file()]
    for data in [*map(_decoded, files), *(text.encode() for text in said)]:
        assert SECRET.encode() not in data
        assert proof.encode() not in data


def _decoded(path):
    data = path.read_bytes()
    return data + gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
