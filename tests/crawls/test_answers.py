"""A crawl of servers that answer slightly wrong, judged by what they were asked for, and when."""

import asyncio
import gzip  # noqa: F401  # for slips.toml
import json
from collections import defaultdict
from itertools import pairwise

from linked_site import Sites, crawl, open_sites
from wire_text import table, wire

RULES = b"User-agent: *\nDisallow: /no\n"
LINKS = b"<a href=/no/1>x</a><a href=/yes>x</a>"


def answer(body, *lines, status=b"200 OK", length=-1):
    length = len(body) if length < 0 else length
    fields = [*lines, b"Content-Type: text/html", b"Content-Length: %d" % length]
    return b"\r\n".join([b"HTTP/1.1 " + status, *fields, b"", body])


def link(path):
    return b"<a href=%b>x</a>" % path


# By host and path; a server hangs up after what ends in these bytes.
CUT = b"<cut>"
GZIP = b"Content-Encoding: gzip"
ANSWERS = {name: wire(text, globals()) for name, text in table("slips").items()}
LEAVERS = ("aside.test", "leaver.test")
NONE = answer(b"not found", status=b"404 None")


class OddSites(Sites):
    """Servers of ANSWERS, which also note *when* each host was asked."""

    def __init__(self):
        super().__init__({})
        self.when = defaultdict(list)

    async def talk(self, reader, writer):
        is_used = False
        while True:
            _, host, path = await self.asked_next(reader)
            self.when[host].append(asyncio.get_running_loop().time())
            if is_used and host in LEAVERS:
                return
            is_used = True
            says = ANSWERS.get(host + path, NONE)
            writer.write(says.removesuffix(CUT))
            await writer.drain()
            if says.endswith(CUT):
                return


async def test_slips_of_servers_cost_neither_pages_nor_rules_nor_waits(tmp_path):
    hosts = sorted({name.partition("/")[0] for name in ANSWERS})
    async with open_sites(OddSites(), ANSWERS) as sites:
        stats = await crawl(
            sites, tmp_path / "job", *hosts, POLITENESS_MAX_RETRY_AFTER_SECS=60,
            FRONTIER_RETRY_TIMES=0,
            ITEM_PIPELINES='{"asking_pipeline.AskingPipeline": 900}',
        )  # fmt: skip
    asked = {name: sites.asked.count(name) for name in sites.asked}
    # What is there was asked for once, but for what was lost; what is forbidden never.
    unasked = [name for name in ANSWERS if name not in asked]
    assert unasked == []
    forbidden = [name for name in asked if name.endswith("/no/1")]
    assert sorted(forbidden) == [f"{host}.test/no/1" for host in ("gone", "open", "packed")]
    pages = [name for name in ANSWERS if not name.endswith("robots.txt")]
    once = {name: asked[name] for name in pages if not name.startswith(LEAVERS)}
    assert set(once.values()) == {1}
    # A request that was lost on a kept connection is sent once more, and is no failed try.
    for host in LEAVERS:
        counts = sorted(asked[name] for name in pages if name.startswith(host))
        assert sum(counts) + asked[f"{host}/robots.txt"] == len(counts) + 3
        assert counts[-1] == 2
    assert stats["fetch/resent"] == 4
    assert stats["asked/200"] == 4
    lines = map(json.loads, (tmp_path / "job/logs/info.jsonl").read_text().splitlines())
    of_leaver = [line for line in lines if "leaver.test" in line["url"]]
    assert {(line["outcome"], line.get("tries", 1)) for line in of_leaver} == {("http_200", 1)}
    # Retry-After is kept though a line of its head is broken and its body never came.
    busy = [b - a for a, b in pairwise(sites.when["busy.test"])]
    assert max(busy) >= 4
