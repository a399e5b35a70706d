"""Tests of the gates before the frontier: which URLs wait, and when gates are asked again."""

import math

from frontier_rig import entry
from host_rig import Records
from msgspec.structs import replace

from webcrawl.crawl.shard.feeder import Feeder
from webcrawl.crawl.shard.merge_turns import MergeTurns
from webcrawl.frontier import SUBRESOURCE, Supply, encode
from webcrawl.frontier.admission import Admission, Gate
from webcrawl.hosts.budgets.traps import UrlSpace, url_space
from webcrawl.hosts.budgets.traps.keeper import exceptions_in


class HostGate(Gate):
    """Gate that holds the URLs of *hosts*, and admits *more* whenever it may release more."""

    def __init__(self, name, *hosts, more=None):
        self.name = name
        self.hosts = set(hosts)
        self.more = more or []
        self.entered = []
        self.has_news = False
        self.heard = []

    def room(self, entry):
        return 0 if entry.host in self.hosts else math.inf

    def let_in(self, entry, count):
        self.entered += [entry.host] * count

    def advance(self, supply):
        self.heard.append(supply)
        had, self.has_news = self.has_news, False
        return had

    @property
    def can_release_more(self):
        return bool(self.more)

    def release_more(self):
        self.hosts.discard(self.more.pop(0))


class Nothing:
    """Eliminator that has no URLs left."""

    waiting = 0
    merging = False
    last_merge_secs = 0.0
    batches = ()

    def take(self, _):
        return self.batches.pop(0) if self.batches else []

    def merge(self):
        """Do nothing, as there is nothing to merge."""


def admission_of(rig, *gates):
    return Admission(frontier=rig.frontier, gates=gates)


def batch(*hosts):
    return [encode(entry(host, n)) for n, host in enumerate(hosts)]


def test_a_command_that_lets_urls_pass_a_gate_lets_subresources_pass_it(rig):
    def may_pass(gate, entry):
        return gate == "full" and entry.host == "a.test"

    gates = [HostGate("full", "a.test", "b.test"), HostGate("slow", "c.test")]
    admission = Admission(frontier=rig.frontier, gates=gates, may_pass=may_pass)
    entries = [replace(entry(f"{name}.test"), kind=SUBRESOURCE) for name in "abcd"]
    refusals = [admission.stop(one) for one in entries]
    assert refusals == ["", "full", "slow", ""]


def test_parked_subresources_pass_only_the_gates_that_visits_pass(rig):
    parks = HostGate("parks", "a.test", "b.test")
    parks.spares_visits = False
    other = HostGate("other", "a.test", "b.test", "c.test")
    admission = admission_of(rig, other, parks)
    hosts = ["a.test", "b.test", "c.test"]
    held = [encode(replace(entry(host, n), kind=SUBRESOURCE)) for n, host in enumerate(hosts)]
    rig.parked.push("parks", held)
    rig.parked.begin_pass(["parks"])
    parks.hosts.discard("b.test")
    assert admission.work(Supply.NOW)
    assert rig.parked.counts == {"parks": 1}
    assert urls(rig) == ["http://b.test/1", "http://c.test/2"]
    assert other.entered == []


def urls(rig):
    return [found.url for found in rig.drain()]


def test_without_gates_everything_goes_to_the_frontier(rig):
    admission = admission_of(rig)
    admission.push(batch("a.test", "b.test"))
    assert admission.stop(entry("a.test")) == ""
    assert not admission.may_admit
    assert not admission.work(Supply.NONE)
    assert len(rig.frontier) == 2
    assert admission.stats() == {}


def test_a_url_is_parked_under_the_first_gate_that_holds_it(rig):
    gates = [HostGate("full", "a.test"), HostGate("trap", "a.test", "b.test")]
    admission = admission_of(rig, *gates)
    admission.push(batch("a.test", "b.test", "c.test", "c.test", "a.test"))
    assert rig.parked.counts == {"full": 2, "trap": 1}
    assert urls(rig) == ["http://c.test/2", "http://c.test/3"]
    for gate in gates:
        assert gate.entered == ["c.test", "c.test"]
    assert [admission.stop(entry(f"{x}.test")) for x in "abc"] == ["full", "trap", ""]
    assert not admission.may_admit
    assert not admission.work(Supply.NONE)


def test_gates_relent_when_nothing_else_is_left_to_fetch(rig):
    admission = admission_of(rig, HostGate("full", "a.test", "b.test", more=["a.test", "b.test"]))
    assert not admission.may_admit  # nobody waits for it
    admission.push(batch("a.test", "b.test", "a.test"))
    assert admission.may_admit
    assert not admission.work(Supply.NOW)
    assert len(rig.frontier) == 0
    assert admission.work(Supply.NONE)
    assert not admission.work(Supply.NOW)
    assert urls(rig) == ["http://a.test/0", "http://a.test/2"]
    assert admission.may_admit
    assert admission.work(Supply.NONE)
    assert urls(rig) == ["http://b.test/1"]
    assert not admission.may_admit


def test_a_pass_is_finished_before_a_gate_relents_again(rig, monkeypatch):
    monkeypatch.setattr("webcrawl.frontier.admission._PASS_ENTRIES", 2)
    gate = HostGate("full", "a.test", "b.test", more=["c.test", "b.test"])
    admission = admission_of(rig, gate)
    admission.push(batch("a.test", "a.test", "a.test", "b.test"))
    assert admission.work(Supply.NONE)
    assert admission.work(Supply.NONE)
    assert gate.more == ["b.test"]
    assert not admission.work(Supply.NOW)
    assert rig.parked.counts == {"full": 4}


def test_gates_are_not_told_of_a_shortage_during_a_pass(rig, monkeypatch):
    monkeypatch.setattr("webcrawl.frontier.admission._PASS_ENTRIES", 1)
    gate = HostGate("full", "a.test", more=["a.test"])
    admission = admission_of(rig, gate)
    admission.push(batch("a.test", "a.test"))
    for supply in (Supply.LATER, Supply.NONE, Supply.LATER):
        admission.work(supply)
    assert gate.heard == [Supply.LATER, Supply.NONE, Supply.NOW]


def test_news_of_a_gate_starts_a_pass_immediately(rig):
    gate = HostGate("trap", "a.test")
    admission = admission_of(rig, gate)
    admission.push(batch("a.test"))
    gate.hosts.clear()
    assert not admission.work(Supply.NOW)
    gate.has_news = True
    assert admission.work(Supply.NOW)
    assert urls(rig) == ["http://a.test/0"]


def test_everything_parked_is_checked_again_after_a_restart(rig):
    admission_of(rig, HostGate("full", "a.test", "b.test")).push(
        batch("a.test", "b.test", "c.test")
    )
    rig.publish()
    rig.crash()
    admission = admission_of(rig, HostGate("other", "b.test"))
    admission.open()
    assert admission.may_admit
    while admission.work(Supply.NOW):
        pass
    assert rig.parked.counts == {"full": 0, "other": 1}
    assert sorted(urls(rig)) == ["http://a.test/0", "http://c.test/2"]


# --- what brings URLs there


def feeder_of(rig, *gates, turns=None, awaits_seeds=False):
    eliminator = Nothing()
    made = Feeder(
        eliminator=eliminator,
        admission=admission_of(rig, *gates),
        frontier=rig.frontier,
        turns=turns or MergeTurns(),
        clock=rig.clock,
    )
    made.open(awaits_seeds=awaits_seeds)
    return made, eliminator


def test_new_urls_go_through_the_gates(rig):
    feeder, eliminator = feeder_of(rig, HostGate("full", "a.test"))
    eliminator.batches = [batch("a.test"), batch("b.test", "a.test")]
    feeder.work(feeder.supply)
    assert rig.parked.counts == {"full": 2}
    assert urls(rig) == ["http://b.test/0"]
    assert not feeder.has_pending


def test_gates_do_not_relent_while_seeds_are_read_or_urls_are_fetched(rig):
    gate = HostGate("full", "a.test", more=["a.test"])
    feeder, eliminator = feeder_of(rig, gate, awaits_seeds=True)
    eliminator.batches = [batch("a.test", "b.test")]
    feeder.work(feeder.supply)
    assert feeder.has_pending
    feeder.has_all_seeds = True
    feeder.work(feeder.supply)
    lease = rig.next()
    feeder.work(feeder.supply)
    assert gate.more == ["a.test"]
    rig.fetch(lease)
    feeder.work(feeder.supply)
    assert gate.more == []
    assert urls(rig) == ["http://a.test/0"]
    assert not feeder.has_pending


def test_urls_that_will_come_soon_are_waited_for(rig):
    gate = HostGate("full")
    turns = MergeTurns()
    feeder, eliminator = feeder_of(rig, gate, turns=turns)
    eliminator.waiting = 1
    feeder.work(feeder.supply)
    assert gate.heard == [Supply.SOON]
    turns.is_within = lambda secs: secs > 600.0  # type: ignore[method-assign]  # as said
    feeder.work(feeder.supply)
    assert gate.heard[1:] == [Supply.LATER]


def test_pages_fetched_before_a_crash_free_their_room_at_a_gate(rig, monkeypatch):
    found = batch(*5 * ["a.test"])
    rig.publish()
    rig.frontier.push(found[:3])
    rig.drain()
    rig.crash()
    monkeypatch.setattr(url_space, "_PER_PAGE", 0)
    gate = UrlSpace(
        records=Records(),
        exceptions=exceptions_in(None, clock=rig.clock),
        base=3,
        clock=rig.clock,
    )
    feeder, eliminator = feeder_of(rig, gate)
    eliminator.batches = [found]
    fetched = []
    for _ in range(5):
        feeder.work(feeder.supply)
        fetched += urls(rig)
    assert fetched == ["http://a.test/3", "http://a.test/4"]
    assert not feeder.has_pending
