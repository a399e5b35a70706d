"""Tests that gates which judge links by group decide as if each link was judged by itself."""

from collections import Counter, defaultdict
from itertools import chain
from types import SimpleNamespace

import msgspec
from conftest import FakeClock
from host_rig import Records
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from webcrawl.frontier import SUBRESOURCE, Entry, Supply, decode, encode
from webcrawl.frontier.admission import Admission
from webcrawl.frontier.groups import shared_of
from webcrawl.hosts.budgets.depths import DepthOrder
from webcrawl.hosts.budgets.quotas import Quota, budgets_of
from webcrawl.hosts.budgets.reputation import ReputationBudget, ReputationGate
from webcrawl.hosts.budgets.traps import ExceptionRules, LearnedTraps, UrlSpace
from webcrawl.hosts.politeness.delays import is_unproven
from webcrawl.hosts.politeness.origin_rests import OriginRests
from webcrawl.hosts.records.host_counters import HostCounter
from webcrawl.urls import host_of

HOSTS = ["a.test", "www.a.test", "b.test", "c.test"]


class Domains(defaultdict):
    """Counters of domains in memory."""

    linked = 0
    current_round = counted_since = 0

    def __init__(self):
        super().__init__(HostCounter)

    def find(self, name):
        return self[name]

    def put(self, name, counter):
        self[name] = counter

    def begin_round(self, number, *, counted_since):
        self.current_round, self.counted_since = number, counted_since


class Crawl:
    """The gates of a crawl, with small limits, and what they have decided."""

    def __init__(self):
        clock = FakeClock()
        self.records = Records()
        self.domains = self.records.domains = Domains()
        exceptions = SimpleNamespace(rules=ExceptionRules(), reloads=0)
        exceptions.rules.add("c.test")
        self.ledger, quotas = budgets_of(self.records, host=Quota(9, 0), domain=Quota(0, 40))
        self.traps = LearnedTraps(exceptions=exceptions, min_duplicates=2)
        self.space = UrlSpace(records=self.records, exceptions=exceptions, base=4, clock=clock)
        self.origins = OriginRests(records=self.records, clock=clock)
        self.reputation = ReputationGate(
            domains=self.domains,
            budget=ReputationBudget(3, 9),
            is_far="b.test".__eq__,
            is_unproven=lambda url: is_unproven(self.records, url),
            clock=clock,
        )
        depths = DepthOrder(hosts=lambda: 0, count_coming=lambda: 0, clock=clock)
        order = [*quotas, self.traps, self.space, self.reputation, self.origins]
        self.gates = [depths, *order]
        self.allowed = set()
        self.found = []
        self.clock = clock

    def may_pass(self, gate, entry):
        return (gate, host_of(entry.url)) in self.allowed

    def push_groups(self, batch):
        """Judge *batch* by group."""
        held = {}
        frontier = SimpleNamespace(
            push=lambda admitted: self.found.append((admitted, held)),
            parked=SimpleNamespace(push=held.__setitem__),
        )
        Admission(frontier=frontier, gates=self.gates, may_pass=self.may_pass).push(batch)

    def push_links(self, batch):
        """Judge *batch* link by link."""
        admitted, held = [], {}
        for data in batch:
            entry = decode(data)
            spared = entry.history or entry.kind == SUBRESOURCE
            gates = [gate for gate in self.gates if not (spared and gate.spares_visits)]
            for gate in gates:
                if gate.room(entry) < 1 and not self.may_pass(gate.name, entry):
                    gate.note_held(entry, 1)
                    held.setdefault(gate.name, []).append(data)
                    break
            else:
                for gate in gates:
                    gate.let_in(entry)
                admitted.append(data)
        self.found.append((admitted, held))

    def happen(self, event, entry):
        """Do one of the things between batches that change what gates decide."""
        if event == "fetched":
            self.ledger.note_start(entry)
            self.ledger.note_received(entry, 3)
        elif event == "seen":
            self.traps.learn(entry.url, seen=True)
        elif event in {"fresh", "fruitless"}:
            self.space.note_end(entry, fresh=event == "fresh", fruitless=event != "fresh")
        elif event == "proven":
            record = self.records.get(host_of(entry.url))
            record.prove(f"http://{record.host}")
            self.records.put(record)
        elif event == "rests":
            self.origins.rest("http://a.test:81", 30.0)
        elif event == "allowed":
            self.allowed.add(("url_space", host_of(entry.url)))
            self.allowed.add(("reputation", host_of(entry.url)))
        elif event == "linked":
            self.domains.linked += 1
            self.domains[entry.host].linking += len(self.domains[entry.host].linking).to_bytes(2)
        else:
            self.clock.advance(60.0)
            for gate in self.gates:
                gate.advance(Supply.LATER)
                if event == "nothing left" and gate.can_release_more:
                    gate.release_more()


EVENTS = [
    *("fetched", "seen", "fresh", "fruitless", "proven"),
    *("rests", "allowed", "linked", "later", "nothing left"),
]
LINKS = st.builds(
    lambda path, host, port, number, entry: replace(
        entry, url=f"http://{host}{port}{path}{number}", host=host
    ),
    st.sampled_from(["/list/", "/list-of-all-the-things-there-are/"]),
    st.sampled_from(HOSTS),
    st.sampled_from(["", "", "", ":81", ":82"]),
    st.integers(0, 99),
    st.builds(
        Entry,
        st.just(""),
        st.just(""),
        st.integers(0, 1),
        st.integers(0, 1),
        st.sampled_from(["http://d.test/", "http://e.test/"]),
        st.sampled_from(["a", "a", "img", SUBRESOURCE]),
        score=st.sampled_from([0, 0, -1]),
        extra=st.sampled_from([b"", b"", b"", b"post"]),
        attempts=st.sampled_from([0, 0, 1]),
        history=st.sampled_from([b"", b"", b"", b"visited"]),
    ),
)
# A page mostly has links that differ only in the path.
PAGES = st.lists(
    st.builds(
        lambda link, numbers: [
            replace(link, url=link.url.rpartition("/")[0] + f"/{number}") for number in numbers
        ],
        LINKS,
        st.lists(st.integers(0, 99), min_size=1, max_size=12),
    ),
    max_size=6,
).flatmap(lambda links: st.permutations([*chain(*links)]))


@given(
    st.lists(
        st.tuples(PAGES, st.lists(st.tuples(st.sampled_from(EVENTS), LINKS))),
        max_size=5,
    )
)
def test_groups_are_judged_like_their_links(steps):
    by_group, by_link = Crawl(), Crawl()
    for links, events in steps:
        batch = [encode(link) for link in links]
        by_group.push_groups(batch)
        by_link.push_links(batch)
        assert by_group.found == by_link.found
        assert by_group.domains == by_link.domains
        for event, entry in events:
            by_group.happen(event, entry)
            by_link.happen(event, entry)


def test_each_gate_is_asked_once_for_the_links_of_a_page_to_a_host():
    crawl = Crawl()
    asked = Counter()
    for gate in (crawl.space, crawl.reputation):
        gate.room = lambda entry, name=gate.name, room=gate.room: (
            asked.update([name]) or room(entry)
        )
    links = [Entry(f"http://{host}/{n}", host) for n in range(3) for host in ("a.test", "b.test")]
    crawl.push_groups([encode(link) for link in links])
    assert asked == {"url_space": 2, "reputation": 2}
    assert len(crawl.found[0][0]) == 6


@given(LINKS, st.integers(0, 70_000), st.integers(0, 300))
def test_links_are_of_a_group_if_they_differ_only_in_the_path(link, length, other_length):
    long = replace(link, url=f"{link.url}{length * '.'}")
    group = shared_of(encode(long))
    assert group == shared_of(encode(replace(link, url=f"{link.url}/?{other_length * '/'}")))
    assert group != shared_of(encode(replace(link, url=link.url.replace("http", "https"))))
    assert group != shared_of(encode(replace(link, url=link.url.replace(".test", ".test:8"))))
    assert group != shared_of(encode(replace(link, depth=2)))
    assert group != shared_of(msgspec.msgpack.encode([*msgspec.structs.astuple(link), "later"]))
