"""Learned traps: URL patterns whose pages keep having content already seen.

What becomes of a page
======================

::

    content-seen test ──► learn(url, seen)     counts by pattern, per host             learned.py
                               │ enough of the recent pages had been seen before
                               ▼
                     the pattern is parked     a line in the log and in traps.txt      trap_files.py
                               │
    every URL on its way ──► holds(url)        whether a parked pattern is its own     learned.py
                               ▲
    TRAP_EXCEPTIONS_FILE ──────┘               patterns and hosts never parked     trap_files.py

A URL that is held waits on disk, in the frontier; nothing is dropped. After a day a
parked pattern is tried again: a few pages decide whether it stays free or is parked for twice as
long. So a site that said "back soon" to every request for an hour comes back by itself.

Traps of which no two URLs are alike show by what they come to: url_space.py holds the URLs of a
host that outgrow its pages.

Invariants
==========

1. Only documents count: an answer with status 200 and a body. Redirects, errors, refusals and
   pages that were never finished say nothing about a pattern.
2. The first page of a server is never parked, and a pattern into which a whole site may fit (a
   branch, a path of signs alone) takes four times the evidence.
3. Memory: a bounded number of hosts, each with a bounded number of patterns, of bounded length;
   all other hosts are in the store. A page of new content makes no entry.
4. What is in the store survives ``kill -9`` but for its last two seconds: a few pages of a trap
   are then fetched to learn it again.

What must last is in the stores it is given (hosts/records/); times are epoch seconds.
"""

from webcrawl.hosts.budgets.traps.learned import LearnedTraps
from webcrawl.hosts.budgets.traps.trap_files import ExceptionRules
from webcrawl.hosts.budgets.traps.url_space import UrlSpace

__all__ = ["ExceptionRules", "LearnedTraps", "UrlSpace"]
