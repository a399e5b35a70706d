"""Crawls of hosts that verify signatures: each https request is signed, the key stays secret."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import asynccontextmanager

import pytest
import warm
from crawling import Simulation, access_log, finish, is_robots
from local_hive import Hive
from verifying import Verifier

from webcrawl.identity.keys import write_new_key
from webcrawl.simweb import preset
from webcrawl.simweb.server import serve

AGENT = "https://bot.test"


@asynccontextmanager
async def verifying(directory, form):
    """A simulated web whose https hosts verify signatures, and the settings to sign for them."""
    key = write_new_key(directory / "key.pem")
    size = {"hosts": 12, "mean_pages": 5.0, "max_pages": 10, "http_port": 0, "https_port": 0}
    world = preset("clean", https_share=0.8, redirects=0.2, **size)
    verifier = Verifier(key, agent=AGENT, form=form)
    async with serve(world, log_path=directory / "access.log", verify=verifier) as served:
        web = Simulation(served, directory)
        web.verifier = verifier
        web.settings = {
            "CRAWLER_KEY_FILE": directory / "key.pem",
            "CRAWLER_SIGNATURE_AGENT": AGENT,
            "CRAWLER_SIGNATURE_FORM": form,
            "CRAWL_PURPOSE": "search",
            "LOG_LEVEL": "DEBUG",
        }
        yield web


def judge(web, said):
    """All https requests were signed, and the key is in no file of the job, and not in *said*."""
    hits = access_log(web.log)
    https = [hit for hit in hits if hit.origin.startswith("https:")]
    assert web.verifier.passed == len(https) < len(hits)
    assert {200, 301} <= {hit.status for hit in https}
    assert {is_robots(hit) for hit in https} == {True, False}
    assert {hit.agent for hit in hits} == {"webcrawl-search/0.3 (search)"}

    assert warm.scrapy("report", web.job).returncode == 0
    assert (web.job / "report.html").exists()
    text = b"".join([said.encode(), *(map(content, web.job.rglob("*")))])
    assert text.count(b"\nSignature: sig1=:") > 5
    assert web.settings["CRAWLER_KEY_FILE"].read_bytes().splitlines()[1] not in text


def content(path):
    """The content of *path*, decompressed if it is compressed."""
    data = path.read_bytes() if path.is_file() else b""
    return gzip.decompress(data) if path.suffix == ".gz" else data


@pytest.mark.parametrize("form", ["string", pytest.param("dictionary", marks=pytest.mark.long)])
async def test_robots_pages_and_redirects_are_signed_and_the_key_is_nowhere(tmp_path, form):
    async with verifying(tmp_path, form) as web:
        said = await asyncio.to_thread(finish, web.command(**web.settings))
    judge(web, said)


@pytest.mark.long
async def test_all_drones_of_a_hive_sign(tmp_path):
    async with verifying(tmp_path, "string") as web:
        with Hive(web, tmp_path / "said", **web.settings) as hive:
            said = await asyncio.to_thread(hive.ends)
    judge(web, said)


async def test_without_a_key_these_hosts_refuse(tmp_path):
    async with verifying(tmp_path, "string") as web:
        await asyncio.to_thread(finish, web.command())
    hits = [hit for hit in access_log(web.log) if hit.origin.startswith("https:")]
    assert {hit.status for hit in hits} == {401}
