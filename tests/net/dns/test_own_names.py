"""Names that are not asked of name servers: hosts files."""

import asyncio

import pytest
from scrapy.settings import Settings
from text_tables import each

from webcrawl.errors import FatalError
from webcrawl.net.dns import hosts_file
from webcrawl.net.dns.hosts_file import hosts_of
from webcrawl.net.dns.resolver import Resolver


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
    hosts = {"a.test": ["10.0.0.1", "10.0.0.2"]}
    resolver = Resolver(servers=None, cache_size=100, hosts=hosts)
    assert await resolver.resolve("A.test.") == ["10.0.0.1", "10.0.0.2"]
    assert resolver.cached_result("a.test") == ["10.0.0.1", "10.0.0.2"]
    assert resolver.ttl("a.test") > 1000
    found = asyncio.get_running_loop().create_future()
    resolver.look_up("a.test", found.set_result)
    assert [*await found] == ["10.0.0.1", "10.0.0.2"]
