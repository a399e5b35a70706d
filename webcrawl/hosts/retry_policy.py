"""Retry policy: the table of outcomes with their tries, waits and effect on the host.

The table is written for the default settings; FRONTIER_RETRY_TIMES, POLITENESS_BACKOFF_SECS and
POLITENESS_MAX_FAILURES scale its columns. A failure that usually passes quickly is retried soon,
one that needs an administrator is retried later, and one that costs a worker a minute is not
retried often. An outcome without a rule is final and does not count for its host.
docs/reference/stats.md has the same table; a test compares them.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

from scrapy.settings import BaseSettings

from webcrawl.configuration.values import number, whole_number
from webcrawl.net.walls import CHALLENGED, WALLED


class Rule(NamedTuple):
    """The rule for one outcome.

    tries: number of further tries.
    wait: minimum number of seconds before each of them.
    failures: number of such failures in a row after which the host is given up for a while; 0 if
        the outcome does not count for the host.
    """

    tries: int
    wait: float
    failures: int


_FINAL = Rule(0, 0.0, 0)

#: Outcome of a bug in the program, which may be fixed by the time the URL is tried again.
BUG = "other"

# The values of the general settings for which the table is written.
_TIMES = 2
_BACKOFF = 10.0
_FAILURES = 8
# For an outcome ``http_NNN`` that is not in the table, ``http_Nxx`` applies if it is in the table.
_TABLE = {
    "dns_failed": Rule(2, 10, 8),
    "connect_refused": Rule(2, 10, 8),
    # Each try keeps a worker busy for the whole timeout, and routes or firewalls take time to fix.
    "connect_failed": Rule(2, 60, 4),
    "connect_timeout": Rule(2, 60, 4),
    # The same handshake would fail again; the host's other scheme may work.
    "tls_failed": Rule(0, 10, 8),
    # The server is overloaded; a response that was too slow will take as long again.
    "first_byte_timeout": Rule(2, 30, 8),
    "timeout": Rule(1, 30, 8),
    "too_slow": Rule(1, 30, 8),
    "connection_lost": Rule(2, 10, 8),
    "incomplete": Rule(2, 0, 0),
    "http_408": Rule(2, 10, 0),
    # The response is about this crawler, not about the URL.
    "http_429": Rule(4, 30, 8),
    "http_503": Rule(2, 10, 8),
    # Waiting does not help against a challenge, and each request is one more sign of a robot.
    CHALLENGED: Rule(1, 300, 3),
    # Some pages of a host are for members only. The host is slowed down, but never given up.
    WALLED: _FINAL,
    # The server does not support the request, which will not change soon.
    "http_501": _FINAL,
    "http_505": _FINAL,
    # A server behind a gateway does not respond, but others behind it may.
    "http_502": Rule(2, 10, 0),
    "http_504": Rule(2, 10, 0),
    "http_5xx": Rule(2, 0, 0),
    "bad_answer": _FINAL,
    "header_too_large": _FINAL,
    BUG: Rule(1, 0, 0),
}


class RetryPolicy:
    """The rules of all outcomes.

    *times* is how often a URL is usually retried, *backoff* the usual wait in seconds, and
    *max_failures* the number of consecutive failures that a host may have. These scale the table.
    """

    def __init__(self, *, times: int, backoff: float, max_failures: int) -> None:
        self.times = times
        self.max_failures = max_failures
        self._rules = {
            name: Rule(
                # A single try is not scaled up, however many tries the settings allow.
                min(tries, times) if tries < _TIMES else tries * times // _TIMES,
                wait * backoff / _BACKOFF,
                math.ceil(failures * max_failures / _FAILURES),
            )
            for name, (tries, wait, failures) in _TABLE.items()
        }
        # Cache of the rules for the outcomes looked up so far, including those like http_NNN.
        self._by_outcome: dict[str, Rule] = {}

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Build from FRONTIER_RETRY_TIMES, POLITENESS_BACKOFF_SECS and POLITENESS_MAX_FAILURES.

        Raises FatalError for a bad value.
        """
        return cls(
            times=whole_number(settings, "FRONTIER_RETRY_TIMES", at_least=0),
            backoff=number(settings, "POLITENESS_BACKOFF_SECS", at_least=0),
            max_failures=whole_number(settings, "POLITENESS_MAX_FAILURES", at_least=1),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the outcomes that have a rule of their own."""
        return tuple(self._rules)

    def rule(self, outcome: str) -> Rule:
        """Return the rule for *outcome*, a name of webcrawl.crawl.lease.outcome_log."""
        rule = self._by_outcome.get(outcome)
        if rule is None:
            class_name = f"{outcome[:6]}xx" if outcome.startswith("http_") else ""
            rule = self._rules.get(outcome) or self._rules.get(class_name, _FINAL)
            self._by_outcome[outcome] = rule
        return rule
