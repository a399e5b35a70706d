"""The seeds' sites, kept."""

import pytest

from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.crawl.seeds.ranks import HostRanks
from webcrawl.errors import FatalError


@pytest.fixture
def table(tmp_path):
    table = HostRanks(path=tmp_path / "domains", capacity=4)
    table.open(None)
    yield table
    table.close()


@pytest.mark.cures("use URL_SCOPE=open, or fewer seeds.")
def test_domains_that_do_not_fit_are_an_error(table):
    domains = SeedDomains(table)
    domains.add([f"a{number}.com" for number in range(4)])
    domains.add(["www.a3.com"])
    with pytest.raises(FatalError, match=r"^The seeds have more than 4 domains, the limit"):
        domains.add(["a4.com"])
    domains.add(["a1.com", "a2.com"])
