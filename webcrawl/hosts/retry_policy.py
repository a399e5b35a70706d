"""Retry policy: the table of outcomes with their tries, waits and effect on the host.

The table has the numbers of the default settings; FRONTIER_RETRY_TIMES, POLITENESS_BACKOFF_SECS
and POLITENESS_MAX_FAILURES scale its columns. A failure that is over in a moment is retried soon,
one that needs an administrator waits longer, and one that costs a worker a minute is not retried
often. An outcome without a rule is final and says nothing about its host. docs/stats.md has the
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
    """The rule of one outcome: *tries* more tries, each no sooner than *wait* seconds later.

    After *failures* such failures in a row the host is given up for a while; 0: the outcome says
    nothing about the host.
    """

    tries: int
    wait: float
    failures: int


_FINAL = Rule(0, 0.0, 0)

#: An error of the program, which may be mended by the time the URL comes up again.
BUG = "other"

# The general settings that the table is written for.
_TIMES = 2
_BACKOFF = 10.0
_FAILURES = 8
# An outcome ``http_NNN`` that is not here goes by ``http_Nxx``, if that is.
_TABLE = {
    "dns_failed": Rule(2, 10, 8),
    "connect_refused": Rule(2, 10, 8),
    # Each try costs a worker the whole time-out, and a route or a firewall is not mended at once.
    "connect_failed": Rule(2, 60, 4),
    "connect_timeout": Rule(2, 60, 4),
    # The same handshake fails again; the host's other scheme may well do.
    "tls_failed": Rule(0, 10, 8),
    # A server that is overloaded; what comes too slowly takes as long again.
    "first_byte_timeout": Rule(2, 30, 8),
    "timeout": Rule(1, 30, 8),
    "too_slow": Rule(1, 30, 8),
    "connection_lost": Rule(2, 10, 8),
    "incomplete": Rule(2, 0, 0),
    "http_408": Rule(2, 10, 0),
    # Says something about us, nothing about the URL.
    "http_429": Rule(4, 30, 8),
    "http_503": Rule(2, 10, 8),
    # No patience passes a challenge, and each request is one more sign of a robot.
    CHALLENGED: Rule(1, 300, 3),
    # Some pages of a host are for members only: it is slower for them, and never given up.
    WALLED: _FINAL,
    # What the server cannot do it will not learn.
    "http_501": _FINAL,
    "http_505": _FINAL,
    # A gateway whose server does not answer; others behind it may.
    "http_502": Rule(2, 10, 0),
    "http_504": Rule(2, 10, 0),
    "http_5xx": Rule(2, 0, 0),
    "bad_answer": _FINAL,
    "header_too_large": _FINAL,
    BUG: Rule(1, 0, 0),
}

_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_GIVEN = tuple[_Whole, Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)], _Whole]

_HTTP = re.compile(r"http_[4-9](?:\d\d|xx)", re.ASCII)


class RetryPolicy:
    """The rules of all outcomes.

    *times* is how often a URL is usually tried again, *backoff* the usual wait in seconds, and
    *most* how many failures in a row a host may have; *rules* override what follows from these.
    """

    def __init__(
        self, *, times: int, backoff: float, most: int, rules: Mapping[str, Rule] | None = None
    ) -> None:
        self.times = times
        self._most = most
        self._rules = {
            name: Rule(
                # One try stays one, however often the others are tried.
                min(tries, times) if tries < _TIMES else tries * times // _TIMES,
                wait * backoff / _BACKOFF,
                math.ceil(failures * most / _FAILURES),
            )
            for name, (tries, wait, failures) in _TABLE.items()
        }
        self._rules.update(rules or {})
        # By all outcomes that were asked for: names of the table, and three digits.
        self._found: dict[str, Rule] = {}

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """By FRONTIER_RETRY_TIMES, POLITENESS_BACKOFF_SECS, POLITENESS_MAX_FAILURES and
        RETRY_POLICY. FatalError with one sentence."""
        return cls(
            times=whole(settings, "FRONTIER_RETRY_TIMES", at_least=0),
            backoff=number(settings, "POLITENESS_BACKOFF_SECS", at_least=0),
            most=whole(settings, "POLITENESS_MAX_FAILURES", at_least=1),
            rules=_set_rules(settings),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The outcomes that have a rule of their own."""
        return tuple(self._rules)

    def rule(self, outcome: str) -> Rule:
        """The rule for *outcome*, a name of webcrawl.crawl.lease.outcome_log."""
        rule = self._found.get(outcome)
        if rule is None:
            of_class = f"{outcome[:6]}xx" if outcome.startswith("http_") else ""
            rule = self._rules.get(outcome) or self._rules.get(of_class, _FINAL)
            self._found[outcome] = rule
        return rule

    def most_failures(self, outcome: str) -> int:
        """The number of failures in a row of any kind, the last of them with *outcome*, after which
        a host is given up: for one kind it may be higher than usual."""
        return max(self._most, self.rule(outcome).failures)


def _set_rules(settings: BaseSettings) -> dict[str, Rule]:
    """The rules of RETRY_POLICY; FatalError for a bad value."""
    given = dictionary(settings, "RETRY_POLICY")
    return {name: _rule(name, values) for name, values in given.items()}


def _rule(name: Any, values: Any) -> Rule:
    settable = [known for known in _TABLE if known != BUG and not known.startswith("http_")]
    if name not in settable and not (isinstance(name, str) and _HTTP.fullmatch(name)):
        raise FatalError(
            f"RETRY_POLICY names {name!r}, and must name outcomes that more tries may change: "
            f"{', '.join(settable)}, http_429 and the like, or http_4xx, http_5xx."
        )
    try:
        return Rule(*msgspec.convert(values, _GIVEN))
    except msgspec.ValidationError:
        raise FatalError(
            f"RETRY_POLICY for {name} must be three numbers, a whole number of tries, seconds, and "
            f"a whole number of failures, none below 0, not {values!r}."
        ) from None
