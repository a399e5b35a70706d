"""Crawls of hosts that verify signatures: each https request is signed, the key stays secret."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest
from crawling import access_log, crawl_command, finish, is_robots
from verifying import Verifier, public_key

from webcrawl.identity.keys import write_new_key
from webcrawl.identity.signatures import DIRECTORY_PATH
from webcrawl.simweb import preset, serve

AGENT = "https://bot.test"


def texts_of(directory):
    """The contents of all files in *directory*, decompressed."""
    for path in directory.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            try:
                yield path, data + gzip.decompress(data)
            except (OSError, EOFError, zlib.error):
                yield path, data


@pytest.mark.parametrize("form", ["string", "dictionary"])
async def test_robots_pages_and_redirects_are_signed_and_the_key_is_nowhere(tmp_path, form):
    key_path = tmp_path / "key.pem"
    key = write_new_key(key_path)
    agent = AGENT + DIRECTORY_PATH if form == "dictionary" else AGENT
    verifier = Verifier({agent: {key.id: public_key(key)}}, form=form)
    world = preset("clean", hosts=12, https_share=0.8, redirects=0.2, mean_pages=5.0, max_pages=10,
                   http_port=0, https_port=0)  # fmt: skip
    log, job, seeds = tmp_path / "access.log", tmp_path / "job", tmp_path / "seeds.txt"
    async with serve(world, log_path=log, verify=verifier) as web:
        seeds.write_text("\n".join(web.world.seeds()))
        settings = {
            "CRAWLER_KEY_FILE": key_path,
            "CRAWLER_SIGNATURE_AGENT": AGENT,
            "CRAWLER_SIGNATURE_FORM": form,
            "CRAWL_PURPOSE": "search",
            "LOG_LEVEL": "DEBUG",
        }
        said = await asyncio.to_thread(finish, crawl_command(web, seeds, job, **settings))

    hits = access_log(log)
    https = [hit for hit in hits if hit.origin.startswith("https:")]
    assert verifier.passed == len(https) < len(hits)
    assert {hit.status for hit in https} >= {200, 301}
    assert 401 not in {hit.status for hit in hits}
    assert {is_robots(hit) for hit in https} == {True, False}
    assert {hit.agent for hit in hits} == {"webcrawl-search/0.3 (search)"}

    secrets = key_path.read_bytes().splitlines()[1:-1]
    for path, data in [*texts_of(job), ("output", said.encode())]:
        assert not any(secret in data for secret in secrets), path
    (warc,) = [data for path, data in texts_of(job) if path.name.endswith(".warc.gz")]
    assert warc.count(b"\nSignature: sig1=:") > 5


async def test_without_a_key_these_hosts_refuse(tmp_path):
    log, seeds = tmp_path / "access.log", tmp_path / "seeds.txt"
    world = preset("clean", hosts=2, https_share=1.0, max_pages=5, http_port=0, https_port=0)
    async with serve(world, log_path=log, verify=Verifier({}, form="string")) as web:
        seeds.write_text("\n".join(web.world.seeds()))
        await asyncio.to_thread(finish, crawl_command(web, seeds, tmp_path / "job"))
    hits = [hit for hit in access_log(log) if hit.origin.startswith("https:")]
    assert {hit.status for hit in hits} == {401}
