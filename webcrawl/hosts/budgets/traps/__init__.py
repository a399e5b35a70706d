"""Traps: URL patterns that give content already seen, and hosts whose URLs outgrow their pages.

How a trap is learned
=====================

::

    content-seen test ──► learn(url, seen)     counts by pattern, per host             learned.py
                               │ enough recent pages had been seen before
                               ▼
                     the pattern is parked     a line in the log
                               │
    every new URL ─────────► holds(url)        does it have a parked pattern?          learned.py
                               ▲
    TRAP_EXCEPTIONS_FILE ──────┘               patterns, hosts   exception_rules.py

A held URL waits on disk, in the frontier; nothing is dropped. The next run admits it and learns its
traps again. Traps whose URLs follow no pattern are recognized by their result: url_space.py holds
the URLs of a host that outgrow its pages.

Invariants
==========

1. Only documents count for a pattern: answers with status 200 and a body. Redirects, errors,
   refusals and pages that were never finished say nothing about it.
2. The first page of a server is never parked. A pattern that may cover a whole site (a branch, a
   path of placeholders only) needs four times the evidence.
3. Memory: a bounded number of hosts, each with a bounded number of patterns, of bounded length. A
   page of new content creates no entry.
"""

from webcrawl.hosts.budgets.traps.exception_rules import ExceptionRules
from webcrawl.hosts.budgets.traps.learned import LearnedTraps
from webcrawl.hosts.budgets.traps.url_space import UrlSpace
