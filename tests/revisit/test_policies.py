"""Tests of revisit policies: their contract, and how fresh the greedy one keeps a host."""

import heapq
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import each

from webcrawl.frontier import Entry
from webcrawl.revisit.history import CHANGED, History, history_of
from webcrawl.revisit.policies import Adaptive, Greedy, Uniform, change_rate, visit_value
from webcrawl.revisit.visits import Visits

DAY = 86_400.0
WEEK = 7 * DAY
POLICIES = (Uniform, Adaptive, Greedy)
SECS = st.integers(0, int(90 * DAY))


HISTORIES = st.builds(
    History,
    visits=st.integers(0, 64),
    changes=st.integers(0, 64),
    changed_secs=SECS,
    same_secs=SECS,
    interval=SECS,
)


@each("policy", *POLICIES)
@given(HISTORIES, st.sampled_from(["", "changed", "unchanged"]))
def test_an_interval_is_a_positive_number(policy, history, found):
    made = policy(WEEK)
    for _ in range(3):
        assert 0 < made.interval(history, found, host="a.test", importance=0.5) < math.inf


@given(st.floats(0.05, 20), st.integers(1, 60), st.integers(1, 60))
def test_the_change_rate_is_the_most_likely_one(secs, changes, others):
    """For visits with equal intervals it has a closed form."""
    changed, same = round(1e6 * secs * changes), round(1e6 * secs * others)
    history = History(changes=changes, changed_secs=changed, same_secs=same)
    exact = -math.log(others / (changes + others)) / (1e6 * secs)
    assert change_rate(history, prior_secs=1e-6) == pytest.approx(exact, rel=0.5 / changes + 0.02)


def visited(policy, rates, *, days, seed):
    """The share of time for which pages that change at *rates* are fresh, visits a second, and the
    longest time between two visits of a page, in the last two thirds of *days*."""
    rng, begun = random.Random(seed), days / 3 * DAY
    visits = Visits(policy=policy, first=WEEK, shortest=DAY / 4, longest=90 * DAY)
    entries = [Entry(f"http://a.test/{n}", "a.test") for n in range(len(rates))]
    entries = [
        visits.next(entry, History(content=1), "", outcome="http_200", at=0.0)[0]
        for entry in entries
    ]
    due = [(WEEK * rng.random(), n) for n in range(len(rates))]
    heapq.heapify(due)
    last, fresh, number, longest = [0.0] * len(rates), 0.0, 0, [0.0] * len(rates)
    while due[0][0] < days * DAY:
        now, page = heapq.heappop(due)
        until = min(last[page] + rng.expovariate(rates[page]), now)
        fresh += max(until - max(last[page], begun), 0.0)
        number += now > begun
        longest[page] = max(longest[page], min(now - last[page], now - begun))
        found = CHANGED if until < now else "unchanged"
        known = history_of(entries[page])
        entries[page], at = visits.next(entries[page], known, found, outcome="http_200", at=now)
        last[page] = now
        heapq.heappush(due, (at, page))
    for page, rate in enumerate(rates):  # since the last visits
        until = min(last[page] + rng.expovariate(rate), days * DAY)
        fresh += max(until - max(last[page], begun), 0.0)
        longest[page] = max(longest[page], days * DAY - last[page])
    secs = days * DAY - begun
    return fresh / secs / len(rates), number / secs, longest


def best(rates, visits):
    """Return the best share: each page is visited where it is worth the same (Azar and others)."""
    low, high = 1e-3, 1e9
    for _ in range(100):
        threshold = math.sqrt(low * high)
        times = [time_of(rate, threshold) for rate in rates]
        low, high = (
            (threshold, high) if sum(1 / one for one in times) > visits else (low, threshold)
        )
    return sum((1 - math.exp(-r * t)) / (r * t) for r, t in zip(rates, times, strict=True)) / len(
        rates
    )


def time_of(rate, threshold):
    low, high = DAY / 4, 90 * DAY
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if visit_value(rate, middle) < threshold else (low, middle)
    return high


def test_greedy_visits_keep_a_host_as_fresh_as_can_be_with_as_many_requests():
    rng = random.Random(7)
    shares = {Greedy: 0.0, Uniform: 0.0}
    for seed in range(4):
        rates = [math.exp(rng.gauss(-math.log(WEEK), 1.5)) for _ in range(60)]
        for policy in shares:
            fresh, visits, _ = visited(policy(WEEK), rates, days=240, seed=seed)
            assert 0.94 < visits * WEEK / len(rates) < 1.05
            shares[policy] += fresh / best(rates, visits) / 4
    assert shares[Greedy] > max(0.96, shares[Uniform])


def test_pages_that_always_change_are_visited_as_often_as_equal_visits_would():
    rates = [24 / DAY] * 10 + [1 / WEEK] * 20
    longest = visited(Greedy(WEEK), rates, days=720, seed=1)[2]
    assert max(longest[:10]) < 1.01 * WEEK


def test_a_host_with_few_pages_gets_its_visits_in_the_first_months():
    rng = random.Random(7)
    made = 0.0
    for seed in range(40):
        rates = [math.exp(rng.gauss(-math.log(2 * WEEK), 1.5)) for _ in range(3)]
        made += visited(Greedy(WEEK), rates, days=120, seed=seed)[1] * WEEK / 3 / 40
    assert made > 0.94


def test_what_is_more_important_is_visited_more_often():
    policy, known = (
        Greedy(WEEK),
        History(visits=9, changes=3, changed_secs=3 * WEEK, same_secs=WEEK),
    )
    secs = {0.2: [], 1.0: []}
    for _ in range(400):
        for importance, found in secs.items():
            found.append(policy.interval(known, CHANGED, host="a.test", importance=importance))
    rare, often = (sum(found[200:]) / 200 for found in secs.values())
    assert rare > 1.5 * often
    assert (rare + often) / 2 == pytest.approx(WEEK, rel=0.2)
