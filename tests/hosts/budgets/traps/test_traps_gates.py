"""Tests of what counts for and against a host, and which gate holds its URLs."""

import pytest
from conftest import FakeClock
from host_rig import Records
from patience import LIMIT_SECS
from text_tables import cases

from webcrawl.frontier import Entry, Supply, encode
from webcrawl.frontier.admission import Admission
from webcrawl.hosts.budgets.traps import LearnedTraps, UrlSpace, url_space
from webcrawl.hosts.budgets.traps.keeper import TrapKeeper, exceptions_in


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def keeper(tmp_path, records, monkeypatch):
    monkeypatch.setattr(url_space, "_PER_PAGE", 2)
    clock = FakeClock()
    path = tmp_path / "exceptions.txt"
    path.write_text("")
    exceptions = exceptions_in(path, clock=clock)
    exceptions.open()
    made = TrapKeeper(
        learned=LearnedTraps(exceptions=exceptions, min_duplicates=5),
        space=UrlSpace(records=records, exceptions=exceptions, base=10, clock=clock),
    )
    made.test_clock = clock
    made.test_path = path
    made.test_exceptions = exceptions
    yield made
    exceptions.close()


def entry(number, *, host="a.test", extra=b""):
    return Entry(url=f"http://{host}/x/{number}", host=host, extra=extra)


class Parked:
    """Stand-in for the frontier, as far as gates see it."""

    def __init__(self):
        self.parked = self
        self.counts = {}
        self.pushed = []

    def push(self, *entries):
        if len(entries) == 2:
            self.counts[entries[0]] = self.counts.get(entries[0], 0) + len(entries[1])
        else:
            self.pushed += entries[0]


SEEN = {"tested": True, "seen": True}
NO_DOCUMENT = {"tested": False, "seen": False}
NEITHER = "http_200 http_301 http_429 http_503 timeout robots_denied host_failing"


@cases(
    "outcome got counts",
    """
        http_200 | FRESH       | (1, 0)
        http_200 | SEEN        | (0, 1)
        http_404 | NO_DOCUMENT | (0, 1)
        http_410 | NO_DOCUMENT | (0, 1)
        NEITHER  | NO_DOCUMENT | (0, 0)
    """,
    {**globals(), "FRESH": {"tested": True, "seen": False}},
)
def test_an_outcome_counts_for_or_against_its_host(keeper, records, outcome, got, counts):
    for one in outcome.split():
        keeper.note_end(entry(1), one, **got)
    record = records.get("a.test")
    assert (record.fresh, record.fruitless) == counts


def test_urls_wait_for_the_first_gate_that_holds_them(keeper):
    frontier = Parked()
    admission = Admission(frontier=frontier, gates=keeper.gates())
    admission.push([encode(entry(number)) for number in range(15)])
    assert len(frontier.pushed) == 10
    assert frontier.counts == {"url_space": 5}
    for number in range(5):
        keeper.note_end(entry(number), "http_200", **SEEN)
    # The pattern is parked: those that were let in are stopped, and give their room back.
    assert [admission.stop(entry(number)) for number in range(5, 10)] == 5 * ["learned_trap"]
    admission.push([encode(entry(number)) for number in range(20, 25)])
    assert frontier.counts == {"url_space": 5, "learned_trap": 5}
    others = [Entry(url=f"http://a.test/y{'/z' * n}", host="a.test") for n in range(8)]
    admission.push([encode(other) for other in others])
    assert len(frontier.pushed) == 15  # five fetched for nothing, five of these
    assert frontier.counts == {"url_space": 8, "learned_trap": 5}
    assert admission.stop(others[0]) == ""


def test_requests_of_a_spider_itself_pass_and_take_no_room(keeper):
    frontier = Parked()
    admission = Admission(frontier=frontier, gates=keeper.gates())
    own = [entry(number, extra=b"post") for number in range(50)]
    admission.push([encode(one) for one in own])
    admission.push([encode(entry(number)) for number in range(15)])
    assert (len(frontier.pushed), frontier.counts) == (60, {"url_space": 5})
    for number in range(50):
        keeper.note_end(entry(number), "http_200", **SEEN)
    before = keeper.learned.stats()
    admission.push([encode(own[0])])
    assert len(frontier.pushed) == 61
    assert admission.stop(own[0]) == ""
    for one in own:
        keeper.note_end(one, "http_200", **SEEN)
    assert keeper.learned.stats() == before


def test_an_excepted_host_is_held_by_neither(keeper):
    gates = keeper.gates()
    admission = Admission(frontier=Parked(), gates=gates)
    for number in range(20):
        keeper.note_end(entry(number), "http_200", **SEEN)
    assert [gate.hold(entry(1)) for gate in gates] == [True, True]
    assert admission.stop(entry(1))
    for gate in gates:
        gate.advance(Supply.NOW)
    keeper.test_path.write_text("a.test\n")
    for _ in range(2):
        keeper.test_clock.advance(1)
        keeper.test_exceptions.reload_if_changed()
    keeper.test_exceptions.reading.result(timeout=LIMIT_SECS)
    assert [gate.advance(Supply.NOW) for gate in gates] == [True, True]
    assert [gate.hold(entry(1)) for gate in gates] == [False, False]
    assert [gate.advance(Supply.NOW) for gate in gates] == [False, False]


def test_each_host_has_its_own_account_with_any_politeness_key(keeper, records):
    gate = keeper.gates()[1]
    www, shop = (Entry(url=f"http://{name}.a.test/x", host="a.test") for name in ("www", "shop"))
    for _ in range(10):
        gate.let_in(www)
    assert gate.hold(www)
    assert not gate.hold(shop)
    keeper.note_end(www, "http_404", **NO_DOCUMENT)
    assert {host: record.fruitless for host, record in records.hosts.items()} == {"www.a.test": 1}
    keeper.test_exceptions.rules.add("www.a.test")
    assert not gate.hold(www)
