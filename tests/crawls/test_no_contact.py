"""Crawls that contact no host: they say what is in the way, and their seeds are not used up."""

import asyncio
import contextlib
import re
import signal
import subprocess
from functools import partial
from types import SimpleNamespace

import pytest
import warm
from crawling import ROOT, crawl_command, damage_in, finish, printed, stats_of, wait_until
from loopback import name_server, raw_server, respond
from text_tables import cases, each
from xxhash import xxh3_64_intdigest

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok"
LONG = pytest.mark.long


def silence(query):
    return None


servfail, refused, denies_all = (
    partial(respond, rcode=rcode) for rcode in ("SERVFAIL", "REFUSED", "NXDOMAIN")
)


def denies_hosts(query):
    """As servers that work say of names that do not exist."""
    is_host = len(query.question[0].name.labels) > 2
    return respond(query, rcode="NXDOMAIN" if is_host else "NOERROR")


def works(query):
    return respond(query, "@ 300 A 127.0.0.1")


class Place:
    """A name server whose *answer* may change, a host that it names, and crawls of *seeds*."""

    def __init__(self, directory, names, host, answer):
        self.answer = answer
        self._names = names
        self._host = host
        self._directory = directory
        self.job = directory / "job"

    def command(self, seeds, **settings):
        path = self._directory / "seeds.txt"
        path.write_text("".join(self.urls(seeds)))
        options = {
            # The doctor looks at least once while an outage lasts.
            "OUTAGE_END_SECS": 600 if self.answer is works else 2,
            "DNS_QUERY_TIMEOUT_SECS": 0.1 if self.answer is silence else 10,
            "STATISTICS_INTERVAL_SECS": 0.2,
            **settings,
        }
        web = SimpleNamespace(dns=f"127.0.0.1:{self._names.port}")
        return crawl_command(web, path, self.job, **options)

    def urls(self, count):
        return [f"http://n{n}.test:{self._host.port}/\n" for n in range(count)]

    @property
    def pages(self):
        """How often each host was asked for its page."""
        asked = [head for head in self._host.heads if head.startswith(b"GET / ")]
        return sorted(re.search(rb"(?i)host: n(\d+)", head)[1].decode() for head in asked)


@contextlib.asynccontextmanager
async def place(directory, answer):
    def say(query):
        return where.answer(query)

    async with name_server(say) as names, raw_server(OK) as host:
        where = Place(directory, names, host, answer)
        yield where


@cases(
    "answer outcome seeds",
    """
        denies_all | dns_not_found | 60
    """,
    globals(),
    long="""
        silence    | dns_failed    | 2000
        servfail   | dns_failed    | 60
        refused    | dns_failed    | 3
        denies_all | dns_not_found | 1
    """,
)
@pytest.mark.cures(
    " No host name was ever found: check the network and DNS_SERVERS.",
    "stopped: no host has ever answered; check the network and DNS_SERVERS",
)
async def test_an_outage_at_the_start_uses_no_seed(tmp_path, answer, outcome, seeds):
    async with place(tmp_path, answer) as where:
        line = where.command(seeds)
        for _ in range(2):
            said = await asyncio.to_thread(finish, line, code=5)
            assert re.search(rf"The crawl pauses: \d+ hosts?.* failed \({outcome} \d+\): ", said)
            assert "No host name was ever found: check the network and DNS_SERVERS." in said
            assert "stopped: no host has ever answered; check" in said
            assert re.search(r"pages \(0/s\), [^\n]*; outage: name servers\n", said)
            assert "paused between requests" not in said
            assert "add hosts" not in said
            assert "--retry" not in said
            stats = stats_of(where.job)
            assert stats["frontier/waiting"] + stats["seen/waiting"] == stats["seeds/read"] > 0
            assert not any(name.startswith("crawl/outcome/") for name in stats)
        where.answer = works
        await asyncio.to_thread(finish, where.command(seeds))
        assert where.pages == sorted(map(str, range(seeds)))
        assert damage_in(where.job) == []


@cases(
    "answer end",
    """
        silence    | ''
        denies_all | SIGTERM
    """,
    globals(),
    long="""
        silence    | SIGKILL
        servfail   | ''
    """,
)
async def test_the_crawl_continues_when_the_name_servers_are_back(tmp_path, answer, end):
    async with place(tmp_path, answer) as where:
        line = where.command(3, OUTAGE_END_SECS=600)
        crawl = warm.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True)

        def read_until(text):
            for line in crawl.stderr:
                if text in line:
                    return

        await asyncio.to_thread(read_until, "The crawl pauses")
        if end:
            crawl.send_signal(getattr(signal, end))
            await asyncio.to_thread(crawl.communicate)
        where.answer = works
        if end:
            await asyncio.to_thread(finish, where.command(3))
        else:
            said = await asyncio.to_thread(crawl.communicate)
            assert crawl.returncode == 0, said
        assert where.pages == ["0", "1", "2"]


@each("seeds", 1, long=(2000,))
async def test_names_that_do_not_exist_are_mistyped_seeds(tmp_path, seeds):
    async with place(tmp_path, denies_hosts) as where:
        line = where.command(seeds)
        for _ in range(2):
            said = await asyncio.to_thread(finish, line, code=2)
            assert "The crawl pauses" not in said
            assert said.endswith(
                "webcrawl: Nothing was fetched, because there was nothing to fetch (dns_not_found "
                f"{seeds:,}: no such host, check the spelling of the seeds).\n"
            )
            assert "--retry" not in said
        where.answer = works
        await asyncio.to_thread(finish, where.command(seeds))
        assert where.pages == sorted(map(str, range(seeds)))


@cases(
    "settings says",
    """
        ALLOW_PRIVATE_ADDRESSES=0 | address_forbidden 2: not a public address; -s ALLOW_PRIVATE_A
        URL_RESTRICT_TO=x         | seeds refused by filters: restrict_to 2
        URL_REFUSE=n0 EXCLUDED=1  | seeds refused by filters: pattern 1; excluded 1
        OUTAGE_HOSTS=0 FRONTIER_RETRY_TIMES=0 DNS_SERVERS=127.0.0.1:1 | dns_failed 2: check the net
    """,
)
@each("is_piped", False, long=(True,))
@pytest.mark.cures(": check the network and DNS_SERVERS")
async def test_seeds_refused_by_a_setting_wait_for_another_one(tmp_path, settings, says, is_piped):
    excluded = tmp_path / "excluded.txt"
    excluded.write_text("n1.test\n")
    given = dict(setting.split("=") for setting in settings.split())
    if given.pop("EXCLUDED", ""):
        given["EXCLUSION_FILE"] = excluded
    failed = 5 if "DNS_SERVERS" in given else 2
    async with place(tmp_path, works) as where:
        for code in (failed, failed, 0):
            line = where.command(2, **(given if code else {}))
            if is_piped:
                line[line.index("-a") + 1] = "seeds=-"
            done = await asyncio.to_thread(warm.run, line, input="".join(where.urls(2)) * is_piped)
            assert done.returncode == code, done.stderr
            if code:
                assert f"there was nothing to fetch ({says}" in done.stderr
                assert "--retry" not in done.stderr
                assert "correct the seeds or settings and run the same command" in done.stderr
        assert where.pages == ["0", "1"]


async def test_corrected_seeds_on_standard_input_are_read(tmp_path):
    async with place(tmp_path, denies_hosts) as where:
        line = where.command(1)
        line[line.index("-a") + 1] = "seeds=-"
        done = await asyncio.to_thread(warm.run, line, input="http://n0.invalid/\n")
        assert done.returncode == 2, done.stderr
        where.answer = works
        done = await asyncio.to_thread(warm.run, line, input="".join(where.urls(1)))
        assert done.returncode == 0, done.stderr
        assert where.pages == ["0"]


async def test_given_up_seeds_can_be_put_back_before_the_next_run(tmp_path):
    async with place(tmp_path, denies_hosts) as where:
        await asyncio.to_thread(finish, where.command(2), code=2)
        where.answer = works
        said = await asyncio.to_thread(
            printed, "frontier", str(where.job), "--retry", "dns_not_found"
        )
        assert said.startswith("2 URLs put back in line")
        await asyncio.to_thread(finish, where.command(2))
        assert where.pages == ["0", "1"]


async def test_one_broken_name_does_not_hold_up_the_others(tmp_path):
    def breaks_one(query):
        is_broken = query.question[0].name.labels[0] == b"n0"
        return (servfail if is_broken else works)(query)

    async with place(tmp_path, breaks_one) as where:
        await asyncio.to_thread(
            finish, where.command(3, OUTAGE_END_SECS=600, CONCURRENT_REQUESTS=1)
        )
        assert where.pages == ["1", "2"]


def shard_of(n):
    return (xxh3_64_intdigest(f"n{n}.test".encode()) or 1) % 2


# Seeds of different shards, and so of different drones.
ONE, OTHER = (next(n for n in range(9) if shard_of(n) == number) for number in range(2))


def drones(command, *, settings):
    """Start the *command* of a crawl as that of a hive of two drones."""
    line = [*command, *(word for pair in settings.items() for word in ("-s", "=".join(pair)))]
    at = line.index("crawl")
    line[at : at + 1] = ["hive", "--drones", "2"]
    return warm.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
@each("works_for", (OTHER,), long=((ONE, OTHER),))
async def test_a_drone_pauses_unless_another_one_has_pages(tmp_path, works_for):
    def answer(query):
        label = query.question[0].name.labels[0].decode()
        return (works if label in {f"n{n}" for n in working} else servfail)(query)

    def logs():
        return [path.read_text() for path in where.job.glob("drones/*/logs/drone.log")]

    def pause():
        return len(logs()) == 2 and all("The crawl pauses: 1 host failed" in log for log in logs())

    working = ()
    settings = {"HIVE_SHARDS": "2", "URL_RESTRICT_TO": f".*n[{ONE}{OTHER}].*"}
    async with place(tmp_path, answer) as where:
        line = where.command(9, OUTAGE_END_SECS=600)
        hive = drones(line, settings=settings)
        try:
            await asyncio.to_thread(wait_until, pause)
        finally:
            working = works_for
            if len(working) == 2:
                hive.terminate()
            said = await asyncio.to_thread(hive.communicate)
        if len(working) == 2:
            hive = drones(line, settings=settings)
            said = await asyncio.to_thread(hive.communicate)
        assert hive.returncode == 0, said
        assert where.pages == sorted(map(str, works_for))
        assert not any("--retry" in log for log in logs())
