"""The time for which few hosts have had URLs."""

from types import SimpleNamespace

from webcrawl.crawl.seeds.few_hosts import FewHosts


def shards_of(hosts, *, known=True):
    frontier = SimpleNamespace(
        back=SimpleNamespace(table=range(hosts)), front=SimpleNamespace(size=0)
    )
    return [SimpleNamespace(frontier=frontier, eliminator=SimpleNamespace(waiting=not known))]


def test_the_time_begins_anew_with_enough_hosts_and_goes_on_while_it_is_not_known():
    times = iter([0.0, 9.0, 20.0, 32.0])  # asked for where it is known
    few = FewHosts(3, secs=10, clock=lambda: next(times))
    looks = [shards_of(2), shards_of(2), shards_of(3), shards_of(2)]
    looks += [shards_of(2, known=False), shards_of(0, known=False), shards_of(0)]
    found = [few.check(shards) for shards in looks]
    assert found == [False] * 6 + [True]
    assert few.had_more
