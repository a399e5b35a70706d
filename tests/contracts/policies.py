"""What the frontier needs of a prioritizer, of a selector and of a delay policy."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from strategies import entries

from webcrawl.frontier import HostFacts

LEVELS = st.lists(st.integers(1, 50), min_size=1, unique=True).map(sorted)
SECONDS = st.floats(0, 1e5)
FACTS = st.builds(
    HostFacts,
    times=st.lists(SECONDS, min_size=1, max_size=5),
    crawl_delay=SECONDS,
    retry_after=SECONDS,
    failures=st.integers(0, 100_000),
)


class PrioritizerContract:
    """Subclasses define ``make()``: a prioritizer."""

    def make(self):
        raise NotImplementedError

    @given(entries())
    def test_every_entry_has_a_level(self, entry):
        prioritizer = self.make()
        assert prioritizer.level(entry) in range(1, prioritizer.levels + 1)

    @given(st.lists(entries(), max_size=5))
    def test_a_level_depends_on_nothing_but_the_entry(self, all_):
        one, other = self.make(), self.make()
        levels = [one.level(entry) for entry in all_]
        assert [other.level(entry) for entry in reversed(all_)] == levels[::-1]


class SelectorContract:
    """Subclasses define ``make(rng)``: a selector that takes its chances from *rng*."""

    def make(self, rng):
        raise NotImplementedError

    @given(LEVELS, st.randoms(use_true_random=False))
    def test_only_a_non_empty_level_is_chosen(self, levels, rng):
        selector = self.make(rng)
        assert {selector.choose(levels) for _ in range(5)} <= set(levels)

    @given(LEVELS.filter(lambda levels: len(levels) < 6), st.integers())
    def test_no_level_starves(self, levels, seed):
        selector = self.make(random.Random(seed))
        found = Counter(selector.choose(levels) for _ in range(2000))
        assert found.keys() == set(levels)


class DelayPolicyContract:
    """Subclasses define ``make()``: a delay policy, and *floor*, its shortest rest in seconds."""

    floor = 0.0

    def make(self):
        raise NotImplementedError

    @given(FACTS)
    def test_rest_is_at_least_what_the_host_asks_for_and_the_floor(self, facts):
        rest = self.make().rest(facts)
        assert rest >= max(self.floor, facts.crawl_delay, facts.retry_after)

    @given(FACTS, st.data())
    def test_rest_never_falls_as_one_of_the_facts_grows(self, before, data):
        policy = self.make()
        more = HostFacts(
            [took + data.draw(SECONDS) for took in before.times],
            before.crawl_delay + data.draw(SECONDS),
            before.retry_after + data.draw(SECONDS),
            before.failures + data.draw(st.integers(0, 100)),
        )
        assert policy.rest(before) <= policy.rest(more)

    @given(FACTS)
    def test_rest_after_several_downloads_is_no_longer_than_after_the_longest(self, facts):
        policy = self.make()
        longest = policy.rest(facts._replace(times=[max(facts.times)]))
        assert policy.rest(facts) <= longest * (1 + 1e-9)
