"""Crawls of hosts that verify signatures: each https request is signed, the key stays secret."""

import asyncio
import gzip
import json
import re
from collections import defaultdict
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import warm
from crawling import (
    RIGS,
    USER_AGENT,
    Simulation,
    access_log,
    finish,
    is_robots,
    pages_asked_for,
    printed,
    wait_until,
)
from hive_crawl import HiveCrawl
from local_hive import Hive
from text_tables import each
from verifying import Verifier, verifier_of
from web_truth import allowed_urls, browser_truth, subresources_of

from webcrawl.identity.keys import write_new_key
from webcrawl.identity.signatures import DIRECTORY_PATH
from webcrawl.simweb import preset
from webcrawl.simweb.server import serve

AGENT = "https://bot.test"


@asynccontextmanager
async def verifying(directory, form, kind="clean", **facts):
    """A simulated web whose https hosts verify signatures, and the settings to sign for them."""
    key = write_new_key(directory / "key.pem")
    size = {"hosts": 12, "mean_pages": 5.0, "max_pages": 10, "http_port": 0, "https_port": 0}
    world = preset(kind, https_share=0.8, redirects=0.2, **size | facts)
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
    assert {hit.agent for hit in hits} == {"webcrawl-search/0.5 (search)"}

    assert warm.scrapy("report", web.job).returncode == 0
    assert (web.job / "report.html").exists()
    text = b"".join([said.encode(), *(map(content, web.job.rglob("*")))])
    assert text.count(b"\nSignature: sig1=:") > 5
    assert web.settings["CRAWLER_KEY_FILE"].read_bytes().splitlines()[1] not in text


def content(path):
    """The content of *path*, decompressed if it is compressed."""
    data = path.read_bytes() if path.is_file() else b""
    return gzip.decompress(data) if path.suffix == ".gz" else data


@each("form", "string", long=("dictionary",))
async def test_robots_pages_and_redirects_are_signed_and_the_key_is_nowhere(tmp_path, form):
    async with verifying(tmp_path, form) as web:
        said = await asyncio.to_thread(finish, web.command(**web.settings))
    judge(web, said)


async def test_what_pages_need_from_other_origins_is_signed(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    async with verifying(tmp_path, "string", "rendered", hosts=12) as web:
        web.settings |= {
            "RENDER": "all",
            "RENDER_ENGINE": "scripted_engine:ScriptedEngine",
            "RENDER_SHARE": 0.9,
        }
        said = await asyncio.to_thread(finish, web.command(**web.settings))
    judge(web, said)
    asked = {hit.origin + hit.target for hit in access_log(web.log) if hit.status == 200}
    pages = [page for page, *_ in browser_truth(web.world, None).values() if page.is_scripted]
    foreign = {
        one.origin + target
        for page in pages
        for one, target in subresources_of(web.world, page)
        if one != page.host
    }
    assert any(url.startswith("https:") for url in asked & foreign)


@pytest.mark.long
async def test_all_drones_of_a_hive_sign(tmp_path):
    async with verifying(tmp_path, "string") as web:
        with Hive(web, tmp_path / "said", **web.settings) as hive:
            said = await asyncio.to_thread(hive.ends)
    judge(web, said)


def published_in(directory):
    """The public keys that ``scrapy identity`` has written to *directory*, old and new."""
    text = (directory / f"public{DIRECTORY_PATH}").read_text()
    return [SimpleNamespace(id=jwk["kid"], jwk=jwk) for jwk in json.loads(text)["keys"]]


def drones_by_settings(hive):
    """Sets of drones with equal settings, by the hash that ``scrapy hive status`` shows of them."""
    found = defaultdict(set)
    for drone, note in hive.notes().items():
        found["".join(re.findall(r"settings ([0-9a-f]{6})", note))].add(drone)
    return dict(found)


def change_key(web, directory):
    """Crawl with three drones that get a new key one by one, as docs/howto/several-machines.md
    says. Servers know the keys that are published."""
    bot = directory / "bot"
    contact = ("-s", "CRAWL_PURPOSE=search", "-s", "CRAWLER_CONTACT=bot@bot.test")
    init = ("identity", "init", str(bot), *contact, "-s", f"CRAWLER_SIGNATURE_AGENT={AGENT}")
    printed(*init)
    web.verifier.verifier = verifier_of(*published_in(bot))
    web.settings |= {"CRAWLER_KEY_FILE": bot / "key.pem", "POLITENESS_MIN_DELAY": 0.6}
    with HiveCrawl(web, directory, **web.settings) as hive:
        drones = hive.join(3)
        names = [drone.name for drone in drones]
        wait_until(lambda: hive.share > 0)
        printed(*init, "--rotate")
        new, old = published_in(bot)
        web.verifier.verifier = verifier_of(new, old)
        assert drones_by_settings(hive) == {"": {*names}}
        for number, drone in enumerate(drones, 1):
            hive.leave(drone)
            drone.has_left = False
            hive.start_again(drone)
            if number == 1:
                # Started again by a supervisor, it finds its own settings to be those of the hive.
                hive.kill(drone)
                hive.start_again(drone)
            changed, others = {*names[:number]}, {*names[number:]}
            if others:
                wait_until(lambda: changed in drones_by_settings(hive).values())  # noqa: B023  # in this turn
                assert others in drones_by_settings(hive).values()
        wait_until(lambda: drones_by_settings(hive) == {"": {*names}})
        assert f"CRAWLER_KEY_FILE {old.id}, not {new.id}" in drones[0].said
        web.verifier.verifier = verifier_of(new)
        assert hive.share < 1.0
        hive.end()


@pytest.mark.long
async def test_a_hive_gets_a_new_key_drone_by_drone_and_each_request_is_accepted(tmp_path):
    async with verifying(tmp_path, "string", mean_pages=20.0, max_pages=30) as web:
        await asyncio.to_thread(change_key, web, tmp_path)
    hits = [hit for hit in access_log(web.log) if USER_AGENT in hit.agent]
    https = [hit for hit in hits if hit.origin.startswith("https:")]
    assert web.verifier.passed == len(https) < len(hits)
    assert 401 not in {hit.status for hit in https}
    assert {*pages_asked_for(hits)} == allowed_urls(web.world, USER_AGENT)


async def test_without_a_key_these_hosts_refuse(tmp_path):
    async with verifying(tmp_path, "string") as web:
        await asyncio.to_thread(finish, web.command())
    hits = [hit for hit in access_log(web.log) if hit.origin.startswith("https:")]
    assert {hit.status for hit in hits} == {401}
