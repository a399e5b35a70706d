"""Crawls with parts of docs/howto/write-a-part.md: a scheme, hosts files."""

import asyncio
import itertools
import json
import os
import ssl
import subprocess
import time
from urllib.parse import urlsplit

import trustme
import warm
from crawling import RIGS, crawl_of_urls, printed, stats_of
from fastwarc.warc import ArchiveIterator, WarcRecordType
from loopback import raw_server

MIN_DELAY = 0.3
ENVIRONMENT = os.environ | {"PYTHONPATH": RIGS}
CAPSULES = {
    "a.gem/": b"20 text/gemini\r\n# A\n=> /deep/../page?x=1 page\n=> gemini://B.gem:{port}/ b\n"
    b"=> http://c.gem/ of the web\n=> mailto:x@a.gem\n=> /moved\n=> nosuch://a.gem/\n=> /gone",
    "a.gem/page?x=1": b"20 text/plain\r\nsome text",
    "a.gem/moved": b"30 gemini://b.gem:{port}/target\r\n",
    "b.gem/": b"20 text/gemini; lang=en\r\n=> gemini://a.gem:{port}/ back\n",
    "b.gem/target": b"20 text/plain\r\nreached",
}


async def crawl(jobdir, seeds, dns, *, code=0, **settings):
    """The output of a crawl to the end."""
    command = crawl_of_urls(jobdir.parent, *seeds, dns=dns, **settings)
    done = await asyncio.to_thread(warm.run, command, env=ENVIRONMENT, stderr=subprocess.STDOUT)
    assert done.returncode == code, done.stdout
    return done.stdout


def outcomes_of(jobdir):
    lines = (jobdir / "logs/info.jsonl").read_text().splitlines()
    return {one["url"]: one["outcome"] for one in map(json.loads, lines)}


async def test_a_scheme_with_a_handler_is_crawled_politely_and_stored(tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("a.gem", "b.gem").configure_cert(context)
    asked = []

    async def talk(reader, writer):
        began = time.monotonic()
        parts = urlsplit((await reader.readline()).decode().strip())
        name = parts.hostname + parts.path + ("?" + parts.query if parts.query else "")
        port = str(writer.get_extra_info("sockname")[1]).encode()
        writer.write(CAPSULES.get(name, b"51 not found\r\n").replace(b"{port}", port))
        await writer.drain()
        asked.append((name, began, time.monotonic()))

    hosts = tmp_path / "hosts"
    hosts.write_text("# capsules\n127.0.0.1 a.gem A.B.gem # one\n\n127.0.0.1 b.gem\n::2 c.gem\n")
    job = tmp_path / "job"
    async with raw_server(talk, tls=context) as server:
        said = await crawl(
            job,
            [f"gemini://A.gem:{server.port}", "nosuch://a.gem/", "mailto:x@a.gem"],
            "127.0.0.1:9",  # nobody is asked
            DOWNLOAD_HANDLERS='{"gemini": "example_parts.GeminiHandler"}',
            HOSTS_FILE=hosts,
            POLITENESS_MIN_DELAY=MIN_DELAY,
            NET_CONNECT_TIMEOUT_SECS=3,
            FRONTIER_RETRY_TIMES=0,
            ALLOW_PRIVATE_ADDRESSES=1,
        )
        root = f"gemini://a.gem:{server.port}/"
    assert sorted(name for name, _, _ in asked) == sorted([*CAPSULES, "a.gem/gone"]), said
    for host in ("a.gem", "b.gem"):
        visits = sorted(times for name, *times in asked if name.startswith(host))
        pauses = [after[0] - before[1] for before, after in itertools.pairwise(visits)]
        assert min(pauses) >= MIN_DELAY
    outcomes, stats = outcomes_of(job), stats_of(job)
    assert outcomes[f"{root}page?x=1"] == "http_200"
    assert outcomes[f"{root}moved"] == "http_302"
    assert outcomes[f"{root}gone"] == "http_404"
    assert stats["urls/refused/scheme"] == 1  # the seed: others are no links
    assert stats["seeds/bad"] == 1
    stored = {}
    for path in (job / "warc").glob("*.warc.gz"):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.resource):
                kind = record.headers["Content-Type"]
                stored[record.headers["WARC-Target-URI"]] = kind, record.reader.read()
    assert len(stored) == 4
    assert stored[root][0] == "text/gemini"
    assert stored[root][1].startswith(b"# A\n=> /deep")
    assert stored[f"{root}page?x=1"] == ("text/plain", b"some text")
    printed("job", "check", "--warc", job)


async def test_a_host_that_a_hosts_file_puts_on_a_private_address_is_not_contacted(tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 a.test\n::1 b.test\n")
    job = tmp_path / "job"
    await crawl(
        job,
        ["http://a.test/", "http://b.test/"],
        "127.0.0.1:9",
        code=2,  # nothing was fetched
        HOSTS_FILE=hosts,
        ALLOW_PRIVATE_ADDRESSES=0,
    )
    assert set(outcomes_of(job).values()) == {"address_forbidden"}
