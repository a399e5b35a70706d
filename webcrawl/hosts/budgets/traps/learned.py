"""Learned traps: URL patterns whose pages keep having content already seen.

``learn`` is called for each document that the content-seen test has judged. ``hold`` holds the
URLs of patterns of whose recent pages nine in ten had been seen before. The counts are in memory,
for recent hosts. So the next run admits held URLs, and learns its traps again at the cost of as
many pages. A site that temporarily answered "back soon" to every request is thus crawled later.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

import msgspec

from webcrawl.frontier import Entry, Supply
from webcrawl.frontier.admission import Gate
from webcrawl.hosts.budgets.traps.exception_rules import ExceptionRules
from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls import host_of
from webcrawl.urls.filters.pattern import is_broad, is_root, patterns_of
from webcrawl.urls.host import host_and_origin

logger = logging.getLogger(__name__)

# Hosts with pages seen before, and patterns kept for each of them: 30 MB in all.
_HOSTS = 4096
_PATTERNS_PER_HOST = 32
_LONGEST_EXAMPLE = 300
# The fraction of a pattern's recent pages whose content must have been seen before.
_MIN_SHARE = 0.9
# Patterns that may cover a whole site need this many times the evidence.
_BROAD = 4
# The counts are halved when there are this many times as many pages as needed. So recent pages
# decide, and a list that has no new content after 1,000 pages is noticed.
_RECENT = 4


class _Counts(msgspec.Struct, gc=False):
    """Recent documents of a pattern: with content seen before, and with new content."""

    seen: int = 0
    fresh: int = 0
    is_parked: bool = False


# The counts of a host by pattern, least recently used first.
_Host = OrderedDict[str, _Counts]


class LearnedTraps(Gate):
    """Patterns of hosts with pages seen before, and the gate that holds URLs of parked ones.

    *min_duplicates* pages with content seen before park a pattern; 0 disables it. Requests that a
    spider made itself (they have an ``extra``) are always admitted.
    """

    name = "learned_trap"

    def __init__(self, *, exceptions: RulesFile[ExceptionRules], min_duplicates: int) -> None:
        self._exceptions = exceptions
        self._reloads_seen = exceptions.reloads
        self._min_duplicates = min_duplicates
        # The least recently used host comes first.
        self._hosts: OrderedDict[str, _Host] = OrderedDict()
        self._learned = 0

    def stats(self) -> dict[str, int]:
        return {"traps/learned": self._learned}

    def learn(self, url: str, *, seen: bool) -> None:
        """Note whether the document of *url*, normalized, was *seen* at another URL before.

        Takes 0.4 us for new content on a host without duplicates, 5 to 20 us otherwise.
        """
        host = host_of(url)
        known = self._find_host(host)
        if known is None:
            if not seen or not self._min_duplicates:
                return
            known = OrderedDict()
            self._hosts[host] = known
            if len(self._hosts) > _HOSTS:
                self._hosts.popitem(last=False)
        patterns = patterns_of(url)
        is_excepted = self._exceptions.rules.is_exempt(host, *patterns)
        # New content is counted only for patterns that have had content seen before.
        for pattern in patterns:
            if not pattern or is_root(pattern) or not (seen or pattern in known):
                continue
            counts = known.setdefault(pattern, _Counts())
            known.move_to_end(pattern)
            if not counts.is_parked:
                counts.seen += seen
                counts.fresh += not seen
                self._judge(pattern, counts, url, is_excepted=is_excepted)
        while len(known) > _PATTERNS_PER_HOST:
            known.popitem(last=False)

    def _judge(self, pattern: str, counts: _Counts, url: str, *, is_excepted: bool) -> None:
        """Park *pattern* if its *counts* are sufficient; halve them if there are many.

        *url*, the last page, is shown as an example.
        """
        enough = self._min_duplicates * (_BROAD if is_broad(pattern) else 1)
        pages = counts.seen + counts.fresh
        if not is_excepted and counts.seen >= max(enough, _MIN_SHARE * pages):
            counts.is_parked = True
            self._learned += 1
            logger.info(
                "Trap learned: %d of the last %d pages of %s had content already seen, such as %s; "
                "more of its URLs now wait, unless TRAP_EXCEPTIONS_FILE has the pattern",
                counts.seen, pages, pattern, url[:_LONGEST_EXAMPLE],
            )  # fmt: skip
        elif pages >= _RECENT * enough:
            counts.seen //= 2
            counts.fresh //= 2

    def tells_apart(self, entry: Entry) -> bool:
        """Return whether the host of *entry* has patterns."""
        return host_and_origin(entry.url)[0] in self._hosts

    def must_wait(self, entry: Entry) -> bool:
        """Return whether the URL *entry* has a parked pattern and is not exempt.

        Takes 0.4 us for a host without patterns, 4 us for others.
        """
        if entry.extra or not self._hosts:
            return False
        host, _ = host_and_origin(entry.url)
        known = self._find_host(host)
        if known is None:
            return False
        patterns = patterns_of(entry.url)
        for pattern in patterns:
            counts = known.get(pattern)
            if counts is not None and counts.is_parked:
                known.move_to_end(pattern)
                return not self._exceptions.rules.is_exempt(host, *patterns)
        return False

    def advance(self, supply: Supply) -> bool:  # noqa: ARG002  part of the interface
        """Return whether the exceptions have changed."""
        has_changed = self._exceptions.reloads != self._reloads_seen
        self._reloads_seen = self._exceptions.reloads
        return has_changed

    def _find_host(self, host: str) -> _Host | None:
        known = self._hosts.get(host)
        if known is not None:
            self._hosts.move_to_end(host)
        return known
