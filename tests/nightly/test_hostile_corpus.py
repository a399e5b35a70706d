"""Pages that attack: in a whole crawl with Chromium, judged by the servers' record.

A new surface that pages can reach adds its attacks: those on rendering are in rigs/evil_pages.py.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import subprocess
from contextlib import suppress

import pytest
from crawling import ROOT, crawl_of_urls, descendants, printed, wait_for_the_end_of
from evil_pages import EVIL_PAGES, EvilSite
from http_site import HttpSite, serving
from loopback import name_server, zone
from namespaces import Cables

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

# An address of the public internet, in a namespace of the tests.
PUBLIC = "11.1.1.1"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """The directory of one crawl of all sites, and the sites by name."""
    directory = tmp_path_factory.mktemp("evil")
    sites = {row.name: EvilSite(row, number) for number, row in enumerate(EVIL_PAGES)}

    def answer(handler):
        host = handler.headers["Host"]
        return next(site for site in sites.values() if site.serves(host)).answer(handler)

    with Cables(0), serving(HttpSite(answer, "0.0.0.0")) as server:
        subprocess.run(["ip", "address", "add", PUBLIC, "dev", "lo"], check=True)
        for site in sites.values():
            site.port = server.server_port
        asyncio.run(_crawl(directory, sites.values()))
        yield directory, sites


async def _crawl(directory, sites):
    addresses = {
        host: [f"300 A {PUBLIC if name in site.row.public else '127.0.0.1'}"]
        for site in sites
        for name, host in site.hosts.items()
    }
    policy = directory / "hosts.toml"
    policy.write_text("".join(site.tables for site in sites))
    policy.chmod(0o600)
    urls = [
        f"{site.origin(host)}/{path}"
        for site in sites
        for host, _, path in (seed.partition("/") for seed in site.row.seeds)
    ]
    async with name_server(zone(addresses)) as names:
        command = crawl_of_urls(
            directory,
            *urls,
            dns=f"127.0.0.1:{names.port}",
            RENDER="all",
            COOKIES_ENABLED=1,
            HOSTS_POLICY_FILE=policy,
        )
        # Not forked from another process, which is not in the namespace.
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=ROOT, capture_output=True, text=True
        )
    wait_for_the_end_of([one for one in descendants(os.getpid()) if _is_browser(one)])
    assert done.returncode == 0, done.stderr
    assert "finished: nothing is left to fetch" in done.stderr


def _is_browser(process):
    with suppress(OSError):  # it has ended
        return b"chromium" in (process / "cmdline").read_bytes()
    return False


@pytest.mark.parametrize("name", [row.name for row in EVIL_PAGES])
def test_a_page_learns_and_changes_nothing_of_another_site(crawled, name):
    _, sites = crawled
    assert sites[name].complaints() == []


def test_why_names_what_a_page_did_not_get(crawled):
    directory, sites = crawled
    site = sites["reaches into the network of the crawl"]
    said = printed("why", directory / "job", f"{site.origin('evil')}/")
    for path in ("admin", "moved", "conf.js"):
        assert f"not loaded  {site.origin('victim')}/{path}: private_address" in said


def test_archives_have_neither_preflights_nor_keys(crawled):
    directory, _ = crawled
    files = (directory / "job/warc").glob("*.gz")
    text = b"".join(gzip.decompress(file.read_bytes()) for file in files)
    assert b"X-Api-Key: (withheld)" in text
    assert [word for word in (b"OPTIONS /", b"k3y", b"T0KEN") if word in text] == []
