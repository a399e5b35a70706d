"""Tests that URLs beyond what a host's pages earn wait, and sound sites are crawled to the end."""

import random
from collections import deque
from types import SimpleNamespace
from unittest import mock

from conftest import FakeClock
from host_rig import Records
from hypothesis import given
from hypothesis import strategies as st
from text_tables import each

from webcrawl.frontier import Entry, Supply
from webcrawl.hosts.budgets.traps import ExceptionRules, UrlSpace
from webcrawl.hosts.budgets.traps import url_space as module

A = Entry("http://a.test/", "a.test")


def space_of(records=None, clock=None, *, base=100):
    return UrlSpace(
        records=records or Records(),
        exceptions=SimpleNamespace(rules=ExceptionRules(), reloads=0),
        base=base,
        clock=clock or FakeClock(),
    )


def let_in(space, count, host="a.test", entry=None):
    """Return how many of *count* URLs had room."""
    found = 0
    entry = entry or Entry(f"http://{host}/", host)
    for _ in range(count):
        if not space.hold(entry):
            space.let_in(entry)
            found += 1
    return found


def ended(space, count=1, *, fresh=False, fruitless=False):
    for _ in range(count):
        space.note_end(A, fresh=fresh, fruitless=fruitless)


def test_links_of_soft_errors_must_lead_to_new_content():
    records = Records()
    space = space_of(records)
    found = Entry("http://a.test/x", "a.test", score=-1)
    assert let_in(space, 20, entry=found) == 10
    assert let_in(space, 200) == 100  # its own account is as ever
    for _ in range(9):
        space.note_end(found, fresh=False, fruitless=False)  # a redirect, or the same once more
    assert let_in(space, 20, entry=found) == 0
    space.note_end(found, fresh=True, fruitless=False)
    assert let_in(space, 20, entry=found) == 11
    assert let_in(space, 1) == 0
    # After a restart what it was counts still.
    assert let_in(space_of(records), 20, entry=found) == 11
    assert records.get("a.test").fruitless == 0


class Crawl:
    """One host as the crawl has it: URLs that wait, and those that are held, looked at when there
    is news or nothing else to do. *page* gives what comes of the nth URL: fresh, fruitless, and how
    many new URLs it names."""

    def __init__(self, space, clock, page):
        self.space = space
        self.clock = clock
        self.page = page
        self.waiting = deque()
        self.held = deque()
        self.fetched = 0
        self.relented = 0
        self.most_waiting = 0

    def found(self, count):
        for _ in range(count):
            if self.space.hold(A):
                self.held.append(1)
            else:
                self.space.let_in(A)
                self.waiting.append(1)
        self.most_waiting = max(self.most_waiting, len(self.waiting))

    def run(self, most=10**9):
        self.found(1)
        while self.fetched < most:
            self.clock.advance(3.0)
            idle = not self.waiting
            if idle and not (self.held and self.space.can_release_more):
                return self
            if idle:
                self.space.release_more()
                self.relented += 1
            if idle or self.space.advance(Supply.NOW):
                count, self.held = len(self.held), deque()
                self.found(count)
                continue
            self.waiting.popleft()
            fresh, fruitless, links = self.page(self.fetched)
            self.fetched += 1
            self.space.note_end(A, fresh=fresh, fruitless=fruitless)
            self.found(links)
        return self


@each(
    "base page fetched",
    # A site map of 1,600 URLs, of which every eighth leads to something new.
    (200, lambda n: (n % 8 == 0, n % 8 != 0, 1600 * (n == 0)), 1601),
    # Denied URLs and redirects are on no account.
    (100, lambda n: (False, False, 1000 * (n == 0)), 1001),
    # 99 dead URLs, and 1,000 that robots.txt denies.
    (100, lambda n: (False, n < 99, 1098 * (n == 0)), 1099),
    # Every page says nothing new and names 50 more.
    (100, lambda n: (n == 0, n > 0, 50), 111),
)
def test_a_host_gets_its_share_in_few_passes(base, page, fetched):
    clock = FakeClock()
    crawl = Crawl(space_of(clock=clock, base=base), clock, page).run(most=10_000)
    assert crawl.fetched == fetched
    assert crawl.most_waiting < 800
    assert crawl.relented < 20


def test_room_that_was_given_in_advance_is_for_hosts_that_have_some():
    space = space_of()
    let_in(space, 1000)
    ended(space, 100)
    space.release_more()
    assert let_in(space, 1000) == 100
    ended(space, 99, fruitless=True)
    ended(space)
    space.release_more()
    assert let_in(space, 1000) == 101  # as many as were on nobody's account so far
    ended(space, fruitless=True)
    space.release_more()
    assert let_in(space, 1000) == 0


def test_a_page_that_names_thousands_does_not_fill_the_frontier():
    clock = FakeClock()
    crawl = Crawl(space_of(clock=clock), clock, lambda n: (True, False, 5000)).run(most=10)
    assert crawl.most_waiting <= 100 + 10 * 10


def test_room_earned_by_pages_survives_a_restart():
    records = Records()
    space = space_of(records)
    let_in(space, 100)
    ended(space, 20, fresh=True)
    ended(space, 40, fruitless=True)
    assert let_in(space_of(records), 1000) == 100 + 10 * 20 - 40
    assert (records.get("a.test").fresh, records.get("a.test").fruitless) == (20, 40)


def test_urls_that_leave_without_an_answer_free_their_room():
    space = space_of()
    let_in(space, 100)
    space.let_out(A)
    assert let_in(space, 5) == 1
    for _ in range(200):
        space.let_out(A)
    assert let_in(space, 500) == 100


def test_held_urls_are_checked_at_intervals_if_there_is_room():
    clock = FakeClock()
    space = space_of(clock=clock)
    clock.advance(1000)
    assert not space.advance(Supply.NOW)
    let_in(space, 101)
    assert not space.advance(Supply.NOW)
    space.let_out(A)
    assert space.advance(Supply.NOW)
    assert not space.advance(Supply.NOW)
    let_in(space, 2)
    space.let_out(A)
    clock.advance(9.9)
    assert not space.advance(Supply.NOW)
    clock.advance(0.1)
    assert space.advance(Supply.NOW)
    # A look at 200,000 takes 1 s.
    let_in(space, 200_000)
    space.let_out(A)
    clock.advance(19)
    assert not space.advance(Supply.NOW)
    clock.advance(1)
    assert space.advance(Supply.NOW)


def test_a_host_without_prospects_triggers_no_pass():
    space = space_of()
    let_in(space, 100)
    ended(space, 100, fruitless=True)
    assert let_in(space, 10) == 0
    assert not space.can_release_more
    let_in(space, 101, "b.test")
    assert space.can_release_more
    space.release_more()
    assert not space.can_release_more


def test_a_url_space_of_zero_bounds_no_host():
    records = Records()
    space = space_of(records, base=0)
    assert let_in(space, 10_000) == 10_000
    ended(space, fresh=True)
    space.let_out(A)
    assert records.hosts == {}
    assert not space.can_release_more


def test_hosts_in_memory_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "_HOSTS", 4)
    space = space_of()
    for number in range(20):
        let_in(space, 1, f"h{number}.test")
        assert len(space._accounts) <= 4


@given(
    st.lists(st.sampled_from(["found", "fresh", "fruitless", "neither", "out"]), max_size=200),
    st.integers(1, 5),
    st.integers(0, 3),
)
def test_the_account_is_never_overdrawn(events, base, per_page):
    with mock.patch.object(module, "_PER_PAGE", per_page):
        space = space_of(base=base)
        waiting = fresh = fruitless = 0
        for event in events:
            if event == "found":
                room = base + per_page * fresh - fruitless
                assert space.hold(A) == (waiting >= room)
                if waiting < room:
                    space.let_in(A)
                    waiting += 1
                continue
            if not waiting:
                continue
            waiting -= 1
            if event == "out":
                space.let_out(A)
                continue
            space.note_end(A, fresh=event == "fresh", fruitless=event == "fruitless")
            fresh += event == "fresh"
            fruitless += event == "fruitless"


@each("share", 0.12, 0.5, 1.0)
def test_no_site_with_one_new_page_in_ten_is_stopped(share):
    rng = random.Random(7)
    clock = FakeClock()
    left = 1500

    def page(_):
        nonlocal left
        links = min(left, rng.randrange(40))
        left -= links
        fresh = rng.random() < share
        return fresh, not fresh, links

    crawl = Crawl(space_of(clock=clock, base=300), clock, page)
    crawl.found(200)
    assert crawl.run().fetched == 1701 - left
    assert left == 0
