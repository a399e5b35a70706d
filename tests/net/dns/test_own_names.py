"""Names that are not asked of name servers: hosts files, and a user's DNS client."""

import asyncio

import pytest
from scrapy.settings import Settings
from text_tables import each

from webcrawl.errors import FatalError
from webcrawl.net.dns import hosts_file
from webcrawl.net.dns.client import ClientQuestions
from webcrawl.net.dns.hosts_file import hosts_of
from webcrawl.net.dns.resolver import (
    LookupFailedError,
    LookupTimeoutError,
    NameNotFoundError,
    Resolver,
)


class Client:
    """Answers by *answers*: addresses, an exception, or None, which never comes."""

    def __init__(self, answers, ttl=300.0):
        self.answers, self.ttl = answers, ttl
        self.asked = []
        self.is_closed = False

    async def addresses(self, name):
        self.asked.append(name)
        answer = self.answers.get(name, [])
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return answer, self.ttl

    async def close(self):
        self.is_closed = True


def resolver_with(client, *, secs=60.0, hosts=None):
    asked = ClientQuestions(client, timeout=secs, tries=2)
    return Resolver(servers=asked, cache_size=100, hosts=hosts or {})


def hosts_in(monkeypatch, tmp_path, system, own=None):
    monkeypatch.setattr(hosts_file, "_SYSTEM_FILE", tmp_path / "system")
    if system is not None:
        (tmp_path / "system").write_bytes(system)
    if own is None:
        return hosts_of(Settings())
    (tmp_path / "own").write_bytes(b"\xef\xbb\xbf" + own)
    return hosts_of(Settings({"HOSTS_FILE": str(tmp_path / "own")}))


def test_a_hosts_file_goes_before_that_of_the_system(monkeypatch, tmp_path):
    system = b"127.0.0.1 localhost\nnonsense a.test\n\xff::1 x\n10.0.0.1\ta.test b.test. # c.test\n"
    own = b"\n::1 six.test both.test\n10.0.0.2 A.test both.test\n10.0.0.3 a.test\n::2 both.test\n"
    assert hosts_in(monkeypatch, tmp_path, system, own) == {
        "localhost": ["127.0.0.1"],
        "a.test": ["10.0.0.2", "10.0.0.3"],
        "b.test": ["10.0.0.1"],
        "six.test": ["::1"],
        "both.test": ["10.0.0.2"],
    }
    assert hosts_in(monkeypatch, tmp_path / "nowhere", None) == {}


@each(
    "own why",
    (b"10.0.0.1 a.test\nb.test 10.0.0.1", "line 2 does not begin with an address"),
    (b"10.0.0.1 a.test\n" * 100, "it is larger than 0 MiB"),
)
def test_a_hosts_file_that_cannot_be_is_told_in_a_sentence(monkeypatch, tmp_path, own, why):
    monkeypatch.setattr(hosts_file, "_MAX_BYTES", 1000)
    with pytest.raises(FatalError, match=rf"^HOSTS_FILE \S+ cannot be used: {why}\.$"):
        hosts_in(monkeypatch, tmp_path, b"", own)


async def test_names_of_hosts_files_are_never_asked_for():
    client = Client({})
    resolver = resolver_with(client, hosts={"a.test": ["10.0.0.1", "10.0.0.2"]})
    assert await resolver.resolve("A.test.") == ["10.0.0.1", "10.0.0.2"]
    assert resolver.cached("a.test") == ["10.0.0.1", "10.0.0.2"]
    assert resolver.ttl("a.test") > 1000
    found = asyncio.get_running_loop().create_future()
    resolver.look_up("a.test", found.set_result)
    assert [*await found] == ["10.0.0.1", "10.0.0.2"]
    assert client.asked == []
    await resolver.close()


async def test_a_client_is_asked_once_a_name_while_its_answer_holds():
    answers = {"a.test": ["::1", "10.0.0.1"], "six.test": ["::1"], "b.a-c.test": ["10.0.0.2"]}
    client = Client(answers)
    resolver = resolver_with(client)
    asked = [resolver.resolve(name) for name in ("a.test", "a.test", "six.test", "b.a-c.test")]
    assert await asyncio.gather(*asked) == [["10.0.0.1"], ["10.0.0.1"], ["::1"], ["10.0.0.2"]]
    assert resolver.cached("a.test") == ["10.0.0.1"]
    assert 290 < resolver.ttl("a.test") <= 300
    assert sorted(client.asked) == ["a.test", "b.a-c.test", "six.test", "six.test"]
    with pytest.raises(NameNotFoundError):
        await resolver.resolve("gone.test")
    await resolver.close()
    assert client.is_closed


@each("answer", OSError("broken"), ["no address"], [7], [None], TypeError("x" * 10_000))
async def test_a_client_that_fails_is_asked_again_and_reported_once(caplog, answer):
    client = Client({"a.test": answer, "b.test": answer})
    resolver = resolver_with(client)
    for name in ("a.test", "b.test"):
        with pytest.raises(LookupFailedError) as caught:
            await resolver.resolve(name)
        assert len(str(caught.value)) < 300
    assert client.asked == ["a.test", "a.test", "b.test", "b.test"]
    assert caplog.text.count("DNS_CLIENT_CLASS failed for") == 4
    await resolver.close()


async def test_a_client_that_is_silent_ends_in_time_and_closes():
    resolver = resolver_with(Client({"a.test": None}), secs=0.02)
    with pytest.raises(LookupTimeoutError):
        await resolver.resolve("a.test")
    assert resolver.counts()["query_timeouts"] == 2
    resolver = resolver_with(Client({"a.test": None}))
    waiting = asyncio.create_task(resolver.resolve("a.test"))
    await asyncio.sleep(0)
    await resolver.close()
    with pytest.raises(LookupFailedError, match="closed"):
        await waiting


async def test_a_client_that_does_not_close_keeps_no_crawl_from_its_end():
    client = Client({})
    client.close = asyncio.Event().wait
    with pytest.raises(TimeoutError):
        await resolver_with(client, secs=0.01).close()


@each("ttl", float("nan"), "soon", None)
async def test_a_client_without_a_time_has_no_answer(ttl):
    resolver = resolver_with(Client({"a.test": ["10.0.0.1"]}, ttl=ttl))
    with pytest.raises(LookupFailedError):
        await resolver.resolve("a.test")
    await resolver.close()
