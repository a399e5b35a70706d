"""The seeds' sites, kept."""

import pytest

from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.errors import FatalError
from webcrawl.urls.filters.chain import FilterChain
from webcrawl.urls.filters.scope import whitelist_filter


@pytest.fixture
def table(tmp_path):
    table = HostRanks(path=tmp_path / "domains", capacity=4)
    table.open(None)
    yield table
    table.close()


def test_domains_of_seeds_are_the_whitelist(table):
    domains = SeedDomains(table)
    chain = FilterChain([whitelist_filter(domains)])
    assert chain.refusal("http://a.com/", 0) == "whitelist"
    domains.add(["www.a.com", "b.co.uk", "news.b.co.uk", "127.0.0.1"])
    assert len(table) == 3
    assert "a.com" in domains
    assert "www.a.com" not in domains
    assert None not in domains
    assert [
        why
        for _, why in chain.answers(
            ["http://a.com/", "http://x.a.com/", "http://b.co.uk/", "http://c.co.uk/"], 1
        )
    ] == [None, None, None, "whitelist"]


def test_domains_are_known_after_a_restart(table, tmp_path):
    SeedDomains(table).add(["www.a.com"])
    snapshot = table.snapshot()
    SeedDomains(table).add(["www.b.com"])
    table.close()
    again = HostRanks(path=tmp_path / "domains", capacity=4)
    again.open(snapshot)
    domains = SeedDomains(again)
    assert "a.com" in domains
    assert "b.com" in domains, "written before the crash, and not in the snapshot"
    again.close()


def test_domains_that_do_not_fit_are_an_error(table):
    domains = SeedDomains(table)
    domains.add([f"a{number}.com" for number in range(4)])
    domains.add(["www.a3.com"])
    with pytest.raises(FatalError, match=r"^The seeds have more than 4 domains, the limit"):
        domains.add(["a4.com"])
