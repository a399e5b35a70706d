"""Tests of budgets of pages, bytes and reputation: who waits, who is admitted, what counts."""

import msgspec
import pytest
from conftest import FakeClock
from frontier_rig import entry
from records_rig import PatientExecutor, opened
from scrapy.settings import Settings

from webcrawl.frontier import SUBRESOURCE, Entry, Supply
from webcrawl.hosts.budgets.depths import DepthOrder
from webcrawl.hosts.budgets.quotas import Quota, budgets_of
from webcrawl.hosts.budgets.reputation import ReputationBudget, ReputationGate


@pytest.fixture
def records(tmp_path):
    found = opened(tmp_path / "hosts", PatientExecutor())
    yield found
    found._executor.run()  # type: ignore[attr-defined]  # the rig's, which waits to be told
    found.close()


def settings(**values):
    names = [f"BUDGET_{word}_{kind}" for word in ("HOST", "DOMAIN") for kind in ("PAGES", "BYTES")]
    return Settings(dict.fromkeys(names, 0) | values)


def budgets(records, **values):
    host, domain = (Quota.from_settings(settings(**values), word) for word in ("HOST", "DOMAIN"))
    return budgets_of(records, host=host, domain=domain)


def url(host, number=0, *, rank=0):
    return entry(host, number, rank=rank)


# --- hard budgets


def test_without_budgets_nothing_is_held_and_all_are_counted(records):
    ledger, gates = budgets(records)
    ledger.note_start(url("www.example.com"))
    ledger.note_received(url("www.example.com"), 700)
    assert not any(gate.hold(url("www.example.com", 1)) for gate in gates)
    found = records.domains.find("example.com")
    assert (found.pages, found.received) == (1, 700)
    assert records.get("www.example.com").begun == 1


def test_quota_holds_as_soon_as_it_is_changed(records):
    quota = Quota(pages=0, size_bytes=0)
    ledger, (gate, _) = budgets_of(records, host=quota, domain=Quota(0, 0))
    ledger.note_start(url("a.test"))
    assert not gate.hold(url("a.test", 1))
    quota.pages = 1
    assert gate.hold(url("a.test", 1))


def test_host_has_its_budget_of_pages_and_its_domain_another(records):
    ledger, gates = budgets(records, BUDGET_HOST_PAGES=2, BUDGET_DOMAIN_PAGES=3)
    host, domain = gates
    assert [gate.name for gate in gates] == ["host_budget", "domain_budget"]
    for number in range(2):
        assert not host.stop(url("www.example.com", number))
        ledger.note_start(url("www.example.com", number))
    assert host.hold(url("www.example.com", 2))
    assert not host.hold(url("news.example.com"))
    assert not domain.hold(url("news.example.com"))
    ledger.note_start(url("news.example.com"))
    assert not host.hold(url("news.example.com", 1))
    assert domain.hold(url("news.example.com", 1))
    assert not domain.hold(url("example.org"))
    assert not host.can_release_more


def test_budget_of_bytes_ends_when_that_many_arrived(records):
    ledger, (_, domain) = budgets(records, BUDGET_DOMAIN_BYTES=1000)
    ledger.note_start(url("a.example.com"))
    ledger.note_received(url("a.example.com"), 999)
    assert not domain.hold(url("b.example.com"))
    ledger.note_received(url("a.example.com"), 1)
    assert domain.hold(url("b.example.com"))


def test_retry_belongs_to_a_page_that_was_counted(records):
    ledger, gates = budgets(records, BUDGET_HOST_PAGES=1)
    first = url("a.test")
    again = msgspec.structs.replace(first, attempts=1)
    ledger.note_start(first)
    assert not gates[0].hold(again)
    ledger.note_start(again)
    assert records.get("a.test").begun == 1


def test_page_of_an_origin_that_is_given_up_is_returned(records):
    ledger, gates = budgets(records, BUDGET_HOST_PAGES=1)
    ledger.note_start(url("a.test"))
    ledger.return_page(msgspec.structs.replace(url("a.test"), attempts=2))
    assert not gates[0].hold(url("a.test"))


def test_page_that_is_put_back_is_not_counted(records):
    ledger, gates = budgets(records, BUDGET_HOST_PAGES=1)
    ledger.note_start(url("a.test"))
    ledger.put_back(url("a.test"))
    assert not gates[0].hold(url("a.test"))


# --- the order of depths


def test_next_depth_begins_when_few_hosts_have_urls_of_this_one(clock):
    hosts = coming = 0
    gate = DepthOrder(hosts=lambda: hosts, count_coming=lambda: coming, clock=clock)

    def deep(depth):
        return Entry("http://a.test/", "a.test", depth)

    def is_next(supply, secs=2.0):
        began = gate.advance(supply)
        clock.advance(secs)
        return gate.advance(supply) and not began

    assert not gate.hold(deep(0))
    assert not is_next(Supply.NONE)  # nothing is held
    assert gate.hold(deep(3))
    assert gate.hold(deep(1))
    assert not gate.stops_admitted
    hosts = 100
    assert not is_next(Supply.NOW)
    assert not is_next(Supply.SOON)
    hosts = 5
    assert not is_next(Supply.NOW)
    coming = 1
    assert not is_next(Supply.SOON)
    coming = 0
    assert not is_next(Supply.SOON, 1.9)
    assert is_next(Supply.SOON, 0.1)
    assert not gate.hold(deep(1))
    assert gate.hold(deep(3))
    hosts = 2  # that is all there were
    assert not is_next(Supply.SOON)
    assert not is_next(Supply.LATER)
    assert is_next(Supply.LATER, 10.0)  # they are far off
    assert not gate.hold(deep(3))  # nothing was held in between
    assert not is_next(Supply.NONE)


# --- reputation


class Reputation(ReputationGate):
    """With a clock of its own; the hosts in *far* are far off, the URLs in *unproven* are of such
    origins."""

    def __init__(self, records, *, rounds=3):
        self.clock = FakeClock()
        self.far = set()
        self.unproven = set()
        self.budget = ReputationBudget(2, rounds)
        super().__init__(
            domains=records.domains,
            budget=self.budget,
            is_far=self.far.__contains__,
            is_unproven=self.unproven.__contains__,
            clock=self.clock,
        )


@pytest.fixture
def gate(records):
    return Reputation(records)


def let_in(gate, host, *, rank=0, at_most=100):
    """Return how many URLs of *host* are admitted."""
    count = 0
    while count < at_most and not gate.hold(url(host, count, rank=rank)):
        gate.let_in(url(host, count, rank=rank))
        count += 1
    return count


def test_budget_grows_with_the_domains_that_link(gate, records):
    assert let_in(gate, "www.example.com") == 2
    records.domains.link("a.test", ["example.com"])
    records.domains.link("b.test", ["example.com"])
    assert let_in(gate, "www.example.com") == 4
    assert let_in(gate, "www.example.com") == 0


def test_reputation_budget_may_change_in_a_crawl(gate):
    gate.budget.base = 5
    assert let_in(gate, "example.com") == 5
    gate.budget.rounds = 0
    assert not gate.can_release_more


def test_thousand_hosts_of_a_domain_have_one_budget(gate):
    assert sum(let_in(gate, f"h{n}.example.com") for n in range(1000)) == 2
    # A seed list counts as one that links.
    assert let_in(gate, "b.test", rank=7) == 4


def test_a_url_that_reputation_let_in_is_not_stopped(gate):
    let_in(gate, "a.test")
    assert gate.hold(url("a.test"))
    assert not gate.stops_admitted


def test_a_url_that_another_gate_stops_frees_its_place(gate):
    let_in(gate, "a.test")
    gate.let_out(url("a.test"))
    assert let_in(gate, "a.test") == 1
    gate.release_more()
    gate.let_out(url("a.test"))  # of an earlier round
    assert let_in(gate, "a.test") == 4


def test_subresources_do_not_use_the_budget_of_their_domain(gate, records):
    ledger, _ = budgets(records)
    part = msgspec.structs.replace(url("www.a.test"), kind=SUBRESOURCE)
    for _ in range(3):
        ledger.note_start(part)
    ledger.put_back(part)
    counter = records.domains.find("a.test")
    assert (counter.pages, counter.parts) == (2, 2)
    assert let_in(gate, "www.a.test") == let_in(gate, "www.b.test")


def test_unproven_origins_do_not_use_their_domains_budget(gate):
    closed = [Entry(f"http://a.test:{port}/", "a.test") for port in range(1, 4)]
    gate.unproven.update(one.url for one in closed)
    let_in(gate, "a.test", at_most=1)
    for one in closed[:2]:
        assert not gate.hold(one)
        gate.let_in(one)
    assert gate.hold(closed[2])  # a page may name 65,535 ports
    gate.let_out(closed[0])
    assert not gate.hold(closed[2])
    assert let_in(gate, "a.test") == 1
    gate.release_more()
    assert not gate.hold(closed[2])
    assert let_in(gate, "a.test") == 4


def test_a_url_is_returned_to_the_budget_that_it_came_from(gate):
    closed = [Entry(f"http://a.test:{port}/", "a.test") for port in range(1, 3)]
    for one in closed:
        gate.let_in(one)
    assert gate.hold(url("a.test"))
    # Another port has answered since.
    gate.unproven.update(one.url for one in closed)
    for one in closed:
        gate.let_out(one)
    assert let_in(gate, "a.test") == 2


def test_no_round_begins_for_urls_of_ports_that_may_be_closed(gate, records):
    closed = [Entry(f"http://a.test:{port}/", "a.test") for port in range(1, 4)]
    gate.unproven.update(one.url for one in closed)
    for one in closed[:2]:
        gate.let_in(one)
    assert gate.hold(closed[2])
    assert not gate.advance(Supply.LATER)
    let_in(gate, "a.test")
    assert gate.advance(Supply.LATER)
    assert records.domains.current_round == 1


def test_budgets_double_with_each_round_and_unused_shares_are_free_again(gate, records):
    ledger, _ = budgets(records)
    assert let_in(gate, "a.test") == 2
    ledger.note_start(url("a.test"))  # the other one was forbidden
    assert gate.can_release_more
    gate.release_more()
    assert records.domains.current_round == 1
    assert let_in(gate, "a.test") == 3


def test_last_round_is_the_last(records):
    gate = Reputation(records, rounds=2)
    for _ in range(2):
        assert gate.can_release_more
        gate.release_more()
    assert not gate.can_release_more
    assert gate.stats() == {"reputation/round": 2, "reputation/links": 0}
    # A run with more rounds goes on.
    assert Reputation(records, rounds=3).can_release_more


def test_domains_with_new_links_are_let_in_while_hosts_rest(gate, records):
    let_in(gate, "a.test")
    records.domains.link("b.test", ["a.test"])
    gate.clock.advance(1.0)
    assert not gate.advance(Supply.NOW)
    assert gate.advance(Supply.SOON)
    assert not gate.advance(Supply.SOON)
    assert let_in(gate, "a.test") == 2
    # Not all the time: a look takes time for each URL that is held.
    for _ in range(100_000):
        assert gate.hold(url("a.test"))
    records.domains.link("c.test", ["a.test"])
    gate.clock.advance(9.0)
    assert not gate.advance(Supply.SOON)
    gate.clock.advance(1.1)
    assert gate.advance(Supply.SOON)
    assert records.domains.current_round == 0


def test_domains_with_new_links_are_let_in_in_the_last_round_too(records):
    gate = Reputation(records, rounds=0)
    for source in ("b.test", "c.test"):
        assert not gate.can_release_more
        records.domains.link(source, ["a.test"])
        assert gate.can_release_more
        gate.release_more()


def test_a_round_begins_though_some_hosts_are_far_off_and_not_for_them(gate, records):
    gate.far.add("a.test")
    let_in(gate, "a.test")
    assert not gate.advance(Supply.LATER)
    let_in(gate, "b.test")
    assert not gate.advance(Supply.SOON)
    assert gate.advance(Supply.LATER)
    assert records.domains.current_round == 1
    assert not gate.advance(Supply.LATER)  # nothing is held that it would help


def test_a_round_begins_for_hosts_that_are_not_far_off_any_more(gate, records):
    gate.far.add("a.test")
    let_in(gate, "a.test")
    gate.far.clear()
    gate.clock.advance(9.0)
    assert not gate.advance(Supply.LATER)
    gate.clock.advance(1.1)
    assert gate.advance(Supply.LATER)  # all that is held is looked at
    assert gate.hold(url("a.test"))
    assert records.domains.current_round == 0
    assert gate.advance(Supply.LATER)
    assert records.domains.current_round == 1


def test_waiting_urls_count_in_a_round_begun_by_another_shard(records):
    gate = Reputation(records, rounds=1)
    assert let_in(gate, "a.test") == 2
    assert gate.advance(Supply.LATER)
    assert let_in(gate, "a.test") == 2
    # Two were forbidden, as turns out when nothing is left.
    ledger, _ = budgets(records)
    for number in range(2):
        ledger.note_start(url("a.test", number))
    assert gate.can_release_more
    gate.release_more()
    assert records.domains.current_round == 1
    assert let_in(gate, "a.test") == 2
    assert not gate.can_release_more


def test_request_of_a_spider_is_never_held_nor_counted(gate):
    own = msgspec.structs.replace(url("a.test"), extra=b"packed")
    for _ in range(5):
        assert not gate.hold(own)
        gate.let_in(own)
    gate.let_out(own)
    assert let_in(gate, "a.test") == 2


def test_round_and_counts_survive(gate, records):
    let_in(gate, "a.test")
    gate.release_more()
    let_in(gate, "a.test", at_most=1)
    records.close()
    records.open()
    gate = Reputation(records)
    assert records.domains.current_round == 1
    assert let_in(gate, "a.test") == 3
