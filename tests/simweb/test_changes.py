"""Pages that change at known rates, what servers answer to conditional requests, and sitemaps."""

import asyncio
import itertools
import math
import re
import statistics
import time
from calendar import timegm

import pytest
import simweb_client
from text_tables import each
from web_truth import has_links

from webcrawl.simweb import preset
from webcrawl.simweb.changes import change_rate, changes, last_change, last_reported
from webcrawl.simweb.host_spec import Framing
from webcrawl.simweb.pages import page
from webcrawl.simweb.replies import NONE, reply_to
from webcrawl.simweb.robots import SITEMAP_PATH, robots_of
from webcrawl.urls.extraction.visible_words import words_of

DAY = 86_400
BEGIN = 1_800_000_000
FREE = {"http_port": 0, "https_port": 0}
WORLD = preset("clean", hosts=40, https_share=0.0, changes_per_day=1, **FREE)
TOLD = preset("clean", hosts=40, changes_per_day=1, lastmod_recall=0.6, lastmod_precision=0.8)


def documents(world, hosts=None):
    found = (
        page(world, host, number)
        for host in hosts or simweb_client.hosts_of(world)
        for number in range(host.pages)
    )
    return [one for one in found if one.leaf.status == 200]


def body(world, one, at):
    return b"".join(reply_to(world, one.host, one.path, gzip=False, at=at).parts)


def test_changes_are_poisson_processes_of_rates_from_several_a_day_to_none():
    rates = [change_rate(WORLD, one) * DAY for one in documents(WORLD)]
    moving = [rate for rate in rates if rate]
    assert 0.6 < len(moving) / len(rates) < 0.85
    assert 0.7 < statistics.median(moving) < 1.4
    assert min(moving) < 0.1
    assert max(moving) > 10
    found = [changes(WORLD, one, BEGIN, BEGIN + 90 * DAY) for one in documents(WORLD)]
    expected = [90 * rate for rate in rates]
    # Number and spread are those of Poisson's distribution.
    off = [(len(one) - mean) ** 2 / mean for one, mean in zip(found, expected, strict=True) if mean]
    assert statistics.fmean(off) == pytest.approx(1, abs=0.3)
    gaps = [
        (after - before) * rate / DAY
        for one, rate in zip(found, rates, strict=True)
        if 0 < rate < 20
        for before, after in itertools.pairwise(one)
    ]
    assert sum(gap > 1 for gap in gaps) / len(gaps) == pytest.approx(math.exp(-1), abs=0.02)


def test_the_last_change_is_known_at_any_time():
    for one in documents(WORLD)[:60]:
        found = changes(WORLD, one, BEGIN, BEGIN + 30 * DAY)
        for before, after in itertools.pairwise(found):
            assert last_change(WORLD, one, after) == after
            assert last_change(WORLD, one, after - 0.1) == before
        assert changes(WORLD, one, BEGIN, BEGIN + 9 * DAY) == [
            at for at in found if at <= BEGIN + 9 * DAY
        ]


def test_a_change_is_another_text_with_the_same_links_and_nothing_else_is_one():
    seen = 0
    for one in documents(WORLD)[:30]:
        found = changes(WORLD, one, BEGIN, BEGIN + 5 * DAY)
        for before, after in itertools.pairwise([BEGIN, *found]):
            old, new = body(WORLD, one, before), body(WORLD, one, after)
            assert body(WORLD, one, after - 1) == old != new
            if has_links(one) and not one.leaf.odd_charset:
                assert words_of(old) != words_of(new)
                href = re.compile(rb'href="([^"]*)"')
                assert href.findall(old) == href.findall(new)
                seen += 1
    assert seen > 15


@each("framing", *list(Framing))
@each("sort", *range(4))
def test_who_has_a_current_copy_gets_304_by_the_validators_that_its_host_sends(web, framing, sort):
    client = simweb_client.Client(web.dns, web.ca_path)
    host = min(
        (one for one in map(web.world.host, range(40)) if one.index % 4 == sort),
        key=lambda one: one.framing != framing,
    )
    # The page that changes least, so that it does not while this runs.
    one = min(documents(web.world, [host]), key=lambda found: change_rate(web.world, found))

    def get(**known):
        lines = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in known.items())
        return asyncio.run(client.get(host.origin + one.path, headers=lines))

    reply = get()
    etag, modified = reply.headers["ETag"], reply.headers["Last-Modified"]
    assert (bool(etag), bool(modified)) == ((sort in (0, 1)), (sort in (0, 2)))
    if modified:
        stamp = timegm(time.strptime(modified, "%a, %d %b %Y %H:%M:%S GMT"))
        assert stamp == last_change(web.world, one, time.time())
        assert get(If_Modified_Since=modified).status == 304
        assert get(If_Modified_Since="Thu, 01 Jan 1970 00:00:01 GMT").status == 200
        assert get(If_None_Match='"other"', If_Modified_Since=modified).status == 200
    if etag:
        again = get(If_None_Match=etag)
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", etag)
        assert again.headers["Transfer-Encoding"] is again.headers["Content-Length"] is None
        hit = [hit for hit in simweb_client.whole_log(web) if hit.host == host.name][-1]
        assert (hit.status, hit.size) == (304, 0)


def test_without_the_rate_nothing_changes_and_no_request_is_conditional():
    world = preset("clean", hosts=4)
    for one in documents(world):
        reply = reply_to(world, one.host, one.path, gzip=False, at=BEGIN)
        assert reply == reply_to(world, one.host, one.path, gzip=False, at=BEGIN + 900 * DAY)
        etag = re.search(rb"ETag: (.*)\r", reply.headers)[1].decode()
        assert b"Last-Modified" not in reply.headers
        assert reply_to(world, one.host, one.path, gzip=False, known=(etag, "")).status == 200
    assert reply_to(world, world.host(0), SITEMAP_PATH, gzip=False).status == 404


def test_sitemaps_tell_of_changes_with_the_precision_and_recall_asked_for():
    told = true = happened = known = 0
    for one in documents(TOLD)[:80]:
        found = changes(TOLD, one, BEGIN, BEGIN + 60 * DAY)
        at, stamps = BEGIN + 60 * DAY, []
        while (at := last_reported(TOLD, one, at - 1)) > BEGIN:
            stamps.append(at)
        told += len(stamps)
        true += len({*stamps} & {*found})
        happened += len(found)
    assert true / told == pytest.approx(0.8, abs=0.03)
    assert true / happened == pytest.approx(0.6, abs=0.03)
    host = next(one for one in map(TOLD.host, range(40)) if one.pages > 9)
    reply = reply_to(TOLD, host, SITEMAP_PATH, gzip=False, at=BEGIN, known=NONE)
    listed = re.findall(r"<loc>(.*?)</loc>(?:<lastmod>(.*?)<)?", b"".join(reply.parts).decode())
    for one in documents(TOLD, [host]):
        stamp = last_reported(TOLD, one, BEGIN)
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stamp)) if stamp else ""
        assert (host.origin + one.path, date) in listed
        known += bool(date)
    assert known > 3
    files = [robots_of(TOLD, one) for one in map(TOLD.host, range(40))]
    assert sum(SITEMAP_PATH.encode() in one.body for one in files) > 25
