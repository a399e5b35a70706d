"""What the resolver remembers, against a model of it."""

from conftest import FakeClock
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from resolving import asked

from webcrawl.net.dns.resolver import Resolver

HOSTS = st.sampled_from([f"{name}.test" for name in "abcdef"])


class Cache(RuleBasedStateMachine):
    """The cache against a list of names in order of use, each with its addresses and its end."""

    SIZE = 3

    def __init__(self):
        super().__init__()
        self.clock = FakeClock()
        self.resolver = Resolver(
            servers=asked(timeout=1),
            cache_size=self.SIZE,
            clock=self.clock,
        )
        self.known = []

    def _used(self, host):
        for entry in self.known:
            if entry[0] == host and entry[2] > self.clock():
                self.known.remove(entry)
                self.known.append(entry)
                return entry[1]
        return None

    @rule(host=HOSTS, last=st.integers(0, 9), ttl=st.integers(1, 40))
    def remember(self, host, last, ttl):
        self.resolver.remember(host, [f"10.0.0.{last}"], ttl)
        if self._used(host) is None:
            self.known = [entry for entry in self.known if entry[0] != host]
            self.known.append((host, [f"10.0.0.{last}"], self.clock() + ttl))
            self.known = self.known[-self.SIZE :]

    @rule(host=HOSTS, spelled=st.sampled_from([str.lower, str.upper, "{}.".format]))
    def ask(self, host, spelled):
        assert self.resolver.cached_result(spelled(host)) == self._used(host)

    @rule(host=HOSTS)
    def ask_how_long(self, host):
        ends = [end for name, _, end in self.known if name == host]
        assert self.resolver.ttl(host) == max([0, *(end - self.clock() for end in ends)])
        self._used(host)

    @rule(seconds=st.integers(0, 20))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @invariant()
    def is_bounded(self):
        assert len(self.resolver._cache) == len(self.known) <= self.SIZE


TestCache = Cache.TestCase
