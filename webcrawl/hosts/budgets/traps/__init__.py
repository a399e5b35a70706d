"""Traps: URL patterns that give content already seen, and hosts whose URLs outgrow their pages.

What becomes of a page
======================

::

    content-seen test ──► learn(url, seen)     counts by pattern, per host             learned.py
                               │ enough of the recent pages had been seen before
                               ▼
                     the pattern is parked     a line in the log
                               │
    every URL on its way ──► holds(url)        whether a parked pattern is its own     learned.py
                               ▲
    TRAP_EXCEPTIONS_FILE ──────┘               patterns, hosts   exception_rules.py

A URL that is held waits on disk, in the frontier; nothing is dropped. The next run lets it in and
learns its traps again. Traps of which no two URLs are alike show by what they come to: url_space.py
holds the URLs of a host that outgrow its pages.

Invariants
==========

1. Only documents count for a pattern: an answer with status 200 and a body. Redirects, errors,
   refusals and pages that were never finished say nothing about it.
2. The first page of a server is never parked, and a pattern into which a whole site may fit (a
   branch, a path of signs alone) takes four times the evidence.
3. Memory: a bounded number of hosts, each with a bounded number of patterns, of bounded length. A
   page of new content makes no entry.
"""

from webcrawl.hosts.budgets.traps.exception_rules import ExceptionRules
from webcrawl.hosts.budgets.traps.learned import LearnedTraps
from webcrawl.hosts.budgets.traps.url_space import UrlSpace

__all__ = ["ExceptionRules", "LearnedTraps", "UrlSpace"]
