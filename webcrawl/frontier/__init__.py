"""The URL frontier: decides which URL is fetched next, and when (Mercator, section 3.1, figure 3).

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
    refill                 the router moves one entry at a time, in slices
         |
    BackEnd                n FIFO queues of one host each, found by the host table T
         |
    HostLine               snoozed hosts in a heap; when their time comes, they are ready
         |
    acquire() -> Lease     the host is in process, the URL is leased
         |
    contacts.release()     the host rests: DelayPolicy
    finish(lease)          the URL is done

Entries travel through every queue as bytes (``entry.encode``). A URL is *unknown* (never pushed),
*waiting* (in the front end or the back end), *leased*, *finished* or *parked*. A parked URL waits
next to the queues, for a reason such as a budget or a trap, until a pass over the parked URLs lets
it into the front end. A subresource of a page that is rendered skips the front end, and waits next
to the pages of its host (askers.py). While a host has a back-end queue it is *ready*, *held*
(domain_share.py), *snoozed* or *in process*; otherwise the frontier only remembers when its rest
ends. Hosts with the same address may share a clock, which they claim for each contact (shared.py).
Release and finish are separate: a host is released after the download, a URL is finished after it
was processed, and the host may be acquired again in between.

How many queues
===============

Mercator has a fixed number n of queues, three for each worker thread. Here n starts at that and
grows by one whenever ``acquire`` finds all n hosts busy or resting while the front end has more
URLs. There are never more queues than it takes to keep the workers busy, because a URL that has
left the front end is no longer ordered by priority. A queue that runs empty while its host is not
in process is given to the next host.

Invariants
==========

1. Every ready or snoozed queue is non-empty; a host in process is neither ready nor snoozed.
2. A host is never handed out before its ``ready_at``, and never for two contacts at a time. This
   holds after ``kill -9`` too, because a contact is journaled before it begins. The same is true
   of shared clocks.
3. Every pushed entry is acquired exactly once, unless it is put back or its lease expires. After a
   crash an entry that was not finished may be acquired again; none is lost.
4. Every URL in a front-end queue is reached eventually: each level has a positive probability, or
   stands for one depth in a crawl with a maximum depth.
5. One call moves at most a slice of entries. If one host floods the frontier, the remaining URLs
   stay on disk, in the front end or in the overflow of that host's queue.
6. Memory is bounded: up to 512 entries per level and 48 per back-end queue, a fixed number of
   rests of hosts without a queue (the others are in the rest store), and the leases. It does not
   grow with the number of waiting URLs or hosts. Foreign pages and subresources take up to 32
   entries for each host and domain that asks, of at most 8,192 pairs, and as many for each host.

On disk
=======

::

    front/<level>/<segment>.log         the level's queue                storage/fifo.py
    parked/<reason>/<segment>.log       URLs parked for that reason      parked.py
    back/<nn>/<segment>.log             back-end queues that spilled     overflow.py
    done/<number>.log                   events since the last snapshot   done_log.py

A snapshot (``FrontierParts.snapshot``) names ranges of these files and includes everything that is
in memory: heads and tails, short queues, leased entries, the times of hosts. It shows the state at
one moment, but is encoded in pieces while the frontier keeps working (back_queue.py). Files that
it does not name can be deleted. Rests in the files of the rest store (the host records) are in no
snapshot, since they stay valid until they end. ``Frontier.open`` restores the published snapshot
and replays the done log:

=====================================  ==========================================================
lost with the process                  recovered from
=====================================  ==========================================================
entries pushed or parked since the     the caller, which submits its discoveries again
snapshot
entries admitted since, or parked      the snapshot: they are where they were, and are
after being handed out                 checked again
requeued entries                       the done log, which stores them in full
subresources that wait                 the renderer, which asks for them again
leased, unfinished entries             the snapshot or the caller; they are handed out again
finished entries that reappear         the done log: entries with its keys are skipped
ends of contacts that were cut off     assumptions: the host rests as if the contact had lasted
                                       until now, at least as long as was promised (robots.txt,
                                       its record), and until the server must have finished
contacts that were never recorded      assumptions: all hosts rest for the policy's maximum, or
(an older state was restored, or a     their Crawl-delay, from then on
power failure)
leases and their IDs                   nothing: callers do not keep them across a restart
=====================================  ==========================================================

A power failure may destroy data written since the last fsync but keep the done log. Finished
entries are then fetched again (``trust_done=False``).

Other processes read all of this through ``view.py``, without changing it.

The core does not depend on Scrapy: clock, random generator, front end, prioritizer, selector and
delay policy are passed in. Nothing here is thread-safe.
"""

from webcrawl.frontier.back_end import FrontierSizes
from webcrawl.frontier.delay_policy import DelayPolicy, HostFacts, LargestDelay
from webcrawl.frontier.done_log import NOTHING, Result
from webcrawl.frontier.entry import (
    ASIDE,
    HUB,
    NO_URLS,
    ROBOTS_REDIRECT,
    SUBRESOURCE,
    Entry,
    decode,
    encode,
    key,
)
from webcrawl.frontier.front_end import LevelQueues
from webcrawl.frontier.frontier import Frontier
from webcrawl.frontier.leases import Lease
from webcrawl.frontier.parts import FrontierParts, FrontierPolicies
from webcrawl.frontier.prioritizer import DepthRankPrioritizer, Prioritizer
from webcrawl.frontier.selector import GeometricSelector, Selector
from webcrawl.frontier.supply import Supply
