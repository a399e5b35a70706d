"""The frontier: which URL is fetched next, and when (Mercator, section 3.1, figure 3).

The life of a URL
=================

::

    push(entries), requeue(entry)
         |
    Prioritizer            level 1..k by depth and by the host's rank in the seed list
         |
    FrontEnd               k FIFO queues on disk, one for each level
         |
    Selector               a random level, biased towards the urgent ones
         |
    refill                 the router: one entry at a time, in slices
         |
    BackEnd                n FIFO queues of one host each, found by the host table T
         |
    heap by ready_at       snoozed hosts; those whose time has come stand in line
         |
    acquire() -> Lease     the host is in process, the URL is leased
         |
    release(host, ...)     the host rests: DelayPolicy
    finish(lease)          the URL is done

Entries travel as bytes (``entry.encode``) through every queue. A URL is *unknown* (never pushed),
*waiting* (front end or back end), *leased*, finished, or *parked*: beside the queues, for a reason
(a budget, a trap), until a pass over what is parked lets it into the front end. A host is *ready*,
*held* (domain_share.py), *snoozed* or *in process* while it has a back-end queue; otherwise the
frontier only remembers until when it rests.
Hosts of one address may share a clock, which they claim for each contact (shared.py).
Release and finish are separate: the host is given back after the download, the URL is finished
after its processing, and the host may be acquired again in between.

How many queues
===============

Mercator has a fixed n of three queues for each worker thread. Here n begins like that and grows
by one whenever ``acquire`` finds all n hosts busy or resting while the front end has more: as
many queues as keep the workers busy, and no more, because what has left the front end is no
longer subject to priority. A queue that runs empty while its host is not in process is given to
the next host.

Invariants
==========

1. Every queue that is ready or snoozed is non-empty; a host in process is neither.
2. A host is never handed out before its ``ready_at``, nor by two contacts at once; not after
   ``kill -9`` either: a contact is journaled before it begins. The same holds for shared clocks.
3. Every pushed entry is acquired exactly once, or is put back, or expires. After a crash an entry
   may be acquired again unless it was finished before; none is lost.
4. A URL in a non-empty front-end queue is always reached in the end: each level has a positive
   probability, or is of one depth of a crawl with a largest one.
5. One call moves at most a slice of entries; the rest of a flood of one host's URLs stays behind
   on disk, at the front or in the overflow of that host's queue.
6. Memory: up to 512 entries for each level and 48 for each back-end queue, a bounded number of
   rests of hosts without a queue (the others are in the rest store), the leases. Nothing grows
   with the number of waiting URLs, or of hosts.

On disk
=======

::

    front/<level>/<segment>.log         the level's queue                storage/fifo.py
    parked/<reason>/<segment>.log       what waits for that reason       parked.py
    back/<nn>/<segment>.log             back-end queues that spilled     overflow.py
    done/<number>.log                   what happened since a snapshot   done_log.py

A snapshot (``Frontier.snapshot``) names ranges of these files and holds inline what is in memory:
heads and tails, short queues, leased entries, the hosts' times. It is of one moment, and encoded
in pieces while the frontier goes on (back_queue.py). What it does not name is disposable. Rests
that are in the files of the rest store (the host records) are in no snapshot: they are true until
they are over. ``Frontier.open`` takes up the published snapshot and replays the done log:

=====================================  ==========================================================
lost with the process                  made good by
=====================================  ==========================================================
entries pushed since the snapshot,     the caller, who re-submits what it discovered since
or parked instead
entries let in since, or handed out    the snapshot: they are where they were, and judged again
and parked
requeued entries                       the done log, which has them in full
leased, unfinished entries             the snapshot or the caller; handed out again
finished entries met again             skipped, by their keys in the done log
the ends of contacts that were cut     the host rests as if the contact had lasted until now,
                                       no less than was promised (robots.txt, its record), and
                                       until the server must be through with it
contacts that are on no record: back   all hosts rest for the longest that the policy has, or
at an older state, or after a power    their Crawl-delay, from then on
failure
leases, ids                            nothing: callers do not keep them across a restart
=====================================  ==========================================================

After a power failure, data written since the last fsync may be gone while the done log's is
not, so then finished entries are fetched again (``trust_done=False``).

Readers beside the process see all of this through ``view.py``, without touching it.

The core knows no Scrapy: clock, chance, front end, prioritizer, selector and delay policy are
handed in. Nothing here is thread-safe.
"""

from webcrawl.frontier.back_end import FrontierSizes
from webcrawl.frontier.delay_policy import DelayPolicy, HostFacts, LargestDelay
from webcrawl.frontier.done_log import NOTHING, Result
from webcrawl.frontier.entry import ASIDE, NO_URLS, ROBOTS_REDIRECT, Entry, decode, encode
from webcrawl.frontier.front_end import LevelQueues
from webcrawl.frontier.frontier import Frontier
from webcrawl.frontier.leases import Lease
from webcrawl.frontier.parts import FrontierPolicies
from webcrawl.frontier.prioritizer import DepthRankPrioritizer, Prioritizer
from webcrawl.frontier.selector import GeometricSelector, Selector
from webcrawl.frontier.supply import Supply

__all__ = [
    "ASIDE",
    "NOTHING",
    "NO_URLS",
    "ROBOTS_REDIRECT",
    "DelayPolicy",
    "DepthRankPrioritizer",
    "Entry",
    "Frontier",
    "FrontierPolicies",
    "FrontierSizes",
    "GeometricSelector",
    "HostFacts",
    "LargestDelay",
    "Lease",
    "LevelQueues",
    "Prioritizer",
    "Result",
    "Selector",
    "Supply",
    "decode",
    "encode",
]
