"""The World as a value, its hosts, and what their numbers look like."""

import itertools
import math
import re
from collections import Counter

import pytest
from simweb_client import hosts_of
from text_tables import each

from webcrawl.simweb import Faults, SimWebError, World, preset, write_seeds
from webcrawl.simweb.farm import DOMAINS, farm_name
from webcrawl.simweb.host_spec import Behaviour, RobotsKind
from webcrawl.simweb.pages import links_of, page
from webcrawl.simweb.replies import reply_to


def test_page_counts_are_zipf_distributed():
    world = World(hosts=20_000, mean_pages=20, max_pages=20_000)
    counts = sorted((host.pages for host in hosts_of(world)), reverse=True)
    points = [(math.log(rank), math.log(counts[rank - 1])) for rank in (1, 4, 16, 64, 256, 1024)]
    slopes = [(y - v) / (x - u) for (x, y), (u, v) in itertools.pairwise(points)]
    # A straight line in the plot of logarithms, as in Mercator's figure 9a.
    assert max(slopes) - min(slopes) < 0.05
    assert sum(counts) / len(counts) == pytest.approx(20, rel=0.02)


@each("hosts", 1, 2, 3, 4, 5, 17, 64, 1000)
def test_each_rank_belongs_to_exactly_one_host(hosts):
    world = World(hosts=hosts, seed=99)
    assert sorted(host.rank for host in hosts_of(world)) == list(range(1, hosts + 1))
    assert all(world.rank_of(world.index_of(rank)) == rank for rank in range(hosts))


def test_names_are_found_in_any_case_and_nothing_else_is():
    world = World(hosts=200_000)
    assert world.find("SITE00042.Sim.Test") == world.host(42)
    assert world.find("site199999.sim.test") == world.host(199_999)
    for name in (
        *("site200000.sim.test", "site42.sim.test", "site000042.sim.test", "sim.test", ""),
        *("site00042.sim.test.", "www.site00042.sim.test", "site00042.example", "site.sim.test"),
        *("site0004\u0662.sim.test", "sitexxxxx.sim.test", "site-0042.sim.test"),
    ):
        assert world.find(name) is None


def test_hosts_share_addresses_and_all_are_loopback():
    world = World()
    shared = Counter(host.address for host in hosts_of(world))
    listening = set(world.address_list())
    assert len(listening) == 256
    assert all(address.startswith("127.") for address in listening | shared.keys())
    assert max(shared.values()) > 20
    assert sum(count > 1 for count in shared.values()) > 200
    for host in hosts_of(world):
        assert (host.address in listening) == (host.behaviour is not Behaviour.REFUSE)


def test_shares_of_faulty_hosts_are_as_asked_for():
    faults = Faults(**dict.fromkeys(Faults.__dataclass_fields__, 0.04))
    world = World(hosts=20_000, faults=faults, mean_pages=3, max_pages=30)
    counts = Counter(host.behaviour for host in hosts_of(world))
    for behaviour in set(Behaviour) - {Behaviour.SOUND}:
        assert counts[behaviour] / world.hosts == pytest.approx(0.04, abs=0.006), behaviour


def test_a_clean_web_has_no_fault_and_a_bench_web_forbids_nothing():
    for name in ("clean", "bench", "bench-today"):
        assert {host.behaviour for host in hosts_of(preset(name))} == {Behaviour.SOUND}
        assert not any(host.endless or host.crawl_delay for host in hosts_of(preset(name)))
    assert {host.robots for host in hosts_of(preset("bench"))} <= {
        *(RobotsKind.MISSING, RobotsKind.EMPTY, RobotsKind.ALLOW_ALL, RobotsKind.FORBIDDEN),
        *(RobotsKind.HTML, RobotsKind.BINARY),
    }
    assert {host.robots for host in hosts_of(preset("mercator"))} == set(RobotsKind)


def test_only_small_hosts_are_slow_or_ask_for_patience():
    for host in hosts_of(World(faults=Faults(slow=0.3, throttle=0.3))):
        if host.pages > 20:
            assert host.behaviour not in {Behaviour.SLOW, Behaviour.THROTTLE}
            assert not host.crawl_delay


def test_seeds_are_the_roots_of_the_most_popular_hosts(tmp_path):
    world = World(hosts=40, seed_share=0.25)
    seeds = list(world.seeds())
    ranked = sorted(hosts_of(world), key=lambda host: host.rank)
    assert seeds == [host.origin + "/" for host in ranked[:10]]
    assert write_seeds(world, tmp_path / "seeds.txt") == 10
    file = tmp_path / "seeds.txt"
    assert file.read_text().split() == seeds
    before = file.stat()
    write_seeds(world, file)
    assert file.stat().st_mtime_ns == before.st_mtime_ns  # a resumed crawl reads it on


def test_a_bounded_number_of_hosts_is_remembered(monkeypatch):
    monkeypatch.setattr("webcrawl.simweb.world._CACHED_HOSTS", 100)
    world = World(hosts=200_000)
    first = world.host(0)
    for index in range(500):
        world.host(index)
        assert world.host.cache_info().currsize <= 100
    assert world.host(0) == first


@each(
    "changes message",
    ({"hosts": 0}, "hosts must be from 1 to"),
    ({"http_port": 70_000}, "http_port must be from 0 to 65535, not 70000"),
    ({"seed": -1}, "seed must be from 0"),
    ({"profile": "tomorrow"}, "unknown profile 'tomorrow': use one of mercator, today, bench"),
    ({"seed_share": 1.5}, "seed_share is a share from 0 to 1, not 1.5"),
    ({"seed_share": math.nan}, "seed_share is a share from 0 to 1, not nan"),
    ({"faults": Faults(stall=-0.1)}, "stall is a share from 0 to 1, not -0.1"),
    ({"faults": Faults(stall=0.5, reset=0.5)}, "more than three quarters"),
    ({"errors": 0.4, "redirects": 0.3}, "more than half of the URLs"),
    ({"mean_pages": math.inf}, "mean_pages must be from 1 to"),
    ({"ftp": 0.5, "gopher": 0.5}, "hosts of FTP and Gopher make up more than three quarters"),
)
def test_parameters_that_make_no_web_are_refused_in_one_sentence(changes, message):
    with pytest.raises(SimWebError, match=message.replace("(", r"\(")):
        World(**changes)


# --- the spam farm


def test_hosts_of_the_farm_are_found_by_their_names_and_no_others():
    world = World(hosts=50, farm_hosts=7)
    for number in range(7):
        name = farm_name(number)
        host = world.find(name.upper())
        assert host is not None
        assert (host.name, host.farm, host.index) == (name, True, 51 + number)
        assert world.host(host.index) == host
        assert name.endswith(DOMAINS)
    assert world.find(farm_name(7)) is None
    assert world.find("cheap-cheap-0.example.com") is None
    assert world.find("x-.example.com") is None
    assert World(hosts=50).find(farm_name(0)) is None


def test_only_with_a_farm_some_hosts_link_to_it():
    plain, spammed = World(hosts=500), World(hosts=500, farm_hosts=9, farm_links=0.1)
    linked = [host.index for i in range(500) if (host := spammed.host(i)).spammed_by is not None]
    assert 25 < len(linked) < 80
    for index in range(500):
        assert plain.host(index).spammed_by is None
        if index not in linked:
            assert plain.host(index) == spammed.host(index)
    host = spammed.host(linked[0])
    ways_in = [key for key in links_of(spammed, page(spammed, host, 0)) if key >> 32 > 500]
    assert [spammed.host(key >> 32).farm for key in ways_in] == [True]


def test_every_page_of_the_farm_leads_on():
    world = World(hosts=5, farm_hosts=100)
    host = world.find(farm_name(3))
    found = [reply_to(world, host, target, gzip=False) for target in ("/", "/offers/7.html")]
    for answer in found:
        assert answer.status == 200
        links = re.findall(rb'href="([^"]+)"', b"".join(answer.parts))
        assert len(links) == 18
        assert sum(link.startswith(b"http") for link in links) == 12
    assert found[0].parts != found[1].parts
    assert found[0] == reply_to(world, host, "/", gzip=False)
    assert reply_to(world, host, "/robots.txt", gzip=False).status == 404
