"""Retry policy: the table of outcomes with their tries, waits and effect on the host.

The table is written for the default settings; FRONTIER_RETRY_TIMES, POLITENESS_BACKOFF_SECS and
POLITENESS_MAX_FAILURES scale its columns. A failure that passes quickly is retried soon, one that
needs an administrator is retried later, and one that costs a worker a minute is not retried often.
An outcome without a rule is final and says nothing about its host. docs/reference/stats.md has the
same table; a test compares them.
"""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self, TypeAlias

import msgspec

from webcrawl.configuration.values import dictionary, number, whole
from webcrawl.errors import FatalError
from webcrawl.net.walls import CHALLENGED, WALLED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings


class Rule(NamedTuple):
    """The rule of one outcome: *tries* more tries, each at least *wait* seconds later.

    After *failures* such failures in a row the host is given up for a while; 0 means that the
    outcome says nothing about the host.
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
# For an outcome ``http_NNN`` that is not in the table, ``http_Nxx`` applies if it is.
_TABLE = {
    "dns_failed": Rule(2, 10, 8),
    "connect_refused": Rule(2, 10, 8),
    # Each try keeps a worker busy for the whole timeout, and routes or firewalls take time to fix.
    "connect_failed": Rule(2, 60, 4),
    "connect_timeout": Rule(2, 60, 4),
    # The same handshake would fail again; the host's other scheme may work.
    "tls_failed": Rule(0, 10, 8),
    # The server is overloaded; an answer that came too slowly will take as long again.
    "first_byte_timeout": Rule(2, 30, 8),
    "timeout": Rule(1, 30, 8),
    "too_slow": Rule(1, 30, 8),
    "connection_lost": Rule(2, 10, 8),
    "incomplete": Rule(2, 0, 0),
    "http_408": Rule(2, 10, 0),
    # The answer is about this crawler, not about the URL.
    "http_429": Rule(4, 30, 8),
    "http_503": Rule(2, 10, 8),
    # Waiting does not pass a challenge, and each request is one more sign of a robot.
    CHALLENGED: Rule(1, 300, 3),
    # Some pages of a host are for members only. The host is slowed down, but never given up.
    WALLED: _FINAL,
    # The server does not support the request, and will not learn to.
    "http_501": _FINAL,
    "http_505": _FINAL,
    # A server behind a gateway does not answer, but others behind it may.
    "http_502": Rule(2, 10, 0),
    "http_504": Rule(2, 10, 0),
    "http_5xx": Rule(2, 0, 0),
    "bad_answer": _FINAL,
    "header_too_large": _FINAL,
    BUG: Rule(1, 0, 0),
}

_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_RuleValues = tuple[_Whole, Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)], _Whole]

_HTTP = re.compile(r"http_[4-9](?:\d\d|xx)", re.ASCII)


class RetryPolicy:
    """The rules of all outcomes.

    *times* is how often a URL is usually retried, *backoff* the usual wait in seconds, and
    *max_failures* the number of consecutive failures a host may have. *rules* override what follows
    from these.
    """

    def __init__(
        self,
        *,
        times: int,
        backoff: float,
        max_failures: int,
        rules: Mapping[str, Rule] | None = None,
    ) -> None:
        self.times = times
        self._max_failures = max_failures
        self._rules = {
            name: Rule(
                # One try stays one, however many tries the settings allow.
                min(tries, times) if tries < _TIMES else tries * times // _TIMES,
                wait * backoff / _BACKOFF,
                math.ceil(failures * max_failures / _FAILURES),
            )
            for name, (tries, wait, failures) in _TABLE.items()
        }
        self._rules.update(rules or {})
        # Rules of the outcomes that were asked for, which may have three digits.
        self._by_outcome: dict[str, Rule] = {}

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Build from the FRONTIER_RETRY_TIMES, POLITENESS_* and RETRY_POLICY settings.

        The two are POLITENESS_BACKOFF_SECS and POLITENESS_MAX_FAILURES. Raises FatalError for a bad
        value.
        """
        return cls(
            times=whole(settings, "FRONTIER_RETRY_TIMES", at_least=0),
            backoff=number(settings, "POLITENESS_BACKOFF_SECS", at_least=0),
            max_failures=whole(settings, "POLITENESS_MAX_FAILURES", at_least=1),
            rules=_rules_from_settings(settings),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The outcomes that have a rule of their own."""
        return tuple(self._rules)

    def rule(self, outcome: str) -> Rule:
        """Return the rule for *outcome*, a name of webcrawl.crawl.lease.outcome_log."""
        rule = self._by_outcome.get(outcome)
        if rule is None:
            of_class = f"{outcome[:6]}xx" if outcome.startswith("http_") else ""
            rule = self._rules.get(outcome) or self._rules.get(of_class, _FINAL)
            self._by_outcome[outcome] = rule
        return rule

    def most_failures(self, outcome: str) -> int:
        """Return the number of consecutive failures after which a host is given up.

        They may be of any kind, the last with *outcome*; for some outcomes the number is higher
        than usual.
        """
        return max(self._max_failures, self.rule(outcome).failures)


def _rules_from_settings(settings: BaseSettings) -> dict[str, Rule]:
    """Return the rules of RETRY_POLICY; raises FatalError for a bad value."""
    given = dictionary(settings, "RETRY_POLICY")
    return {name: _rule(name, values) for name, values in given.items()}


def _rule(name: Any, values: Any) -> Rule:
    settable = [known for known in _TABLE if known != BUG and not known.startswith("http_")]
    if name not in settable and not (isinstance(name, str) and _HTTP.fullmatch(name)):
        raise FatalError(
            f"RETRY_POLICY has {name!r}, which is not an outcome that can be retried. Use "
            f"{', '.join(settable)}, or a status such as http_429, http_4xx or http_5xx."
        )
    try:
        return Rule(*msgspec.convert(values, _RuleValues))
    except msgspec.ValidationError:
        raise FatalError(
            f"RETRY_POLICY for {name} must be [tries, seconds, failures], none of them negative, "
            f"tries and failures whole numbers, not {values!r}."
        ) from None
