"""Several processes, one crawl: a hive of drones, which divide the hosts between them.

The host space is divided into shards by registered domain, and each process, a drone, holds some of
them by leases in Redis. Links of a page to another shard go to the outbox of the page's shard, from
there to the stream of the target in Redis, and are acknowledged when a published checkpoint of the
target has them. A drone whose lease ends loses its shards; others adopt them from their newest
checkpoint in HIVE_STORE. One drone at a time is the queen, by a lease, too: it finds out when the
crawl has ended, and sees to an even division. What Redis has may be lost at any moment: the shards
are in the store and with their holders, links that are in no checkpoint yet in the outboxes.

::

    drone_of    --> Drone              beats: what it holds, what is due, whether the crawl is over
                      |-- Exchange     claims and adopts shards, hands them over, abandons them
                      |-- Publication  checkpoints go to the store, then are acknowledged
                      |-- bus/         links and Requests between shards
                      |-- store/       checkpoints of shards
                      +-- membership/  leases, the queen, reports
    launch/           starts and ends drones, on one machine or by scrapyd on many

Rooms, from the lowest: membership, store; bus; launch; and the modules beside them.

What always holds
=================

1. A host is contacted, a checkpoint published and a position acknowledged only under leases that
   are good.
2. A shard is taken only when the lease of its holder has ended, and its token rises with each
   claim: what an earlier holder writes later is refused.
3. A link is in the outbox of its page's shard until a published checkpoint of its target has it.
"""
