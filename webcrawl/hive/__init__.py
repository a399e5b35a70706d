"""Hive: a crawl by several processes (drones), which divide the hosts among them.

The hosts are divided into shards by registered domain. Each process, called a drone, has leases on
some of the shards, which are stored in Redis. A link to another shard is written to the outbox of
its page's shard, then sent to the target shard's stream in Redis. It is acknowledged once a
published checkpoint of the target contains it. A drone whose lease expires loses its shards; other
drones adopt them from their newest checkpoint in HIVE_STORE. One drone at a time is the queen, also
by a lease: it detects the end of the crawl and says which shards move, by what waits in them. All
data in Redis may be lost at any moment: shards are in the store and on the disks of their holders,
and links that are not yet in a checkpoint are in the outboxes.

::

    drone_of    --> Drone              heartbeats: its shards, due checkpoints, end of the crawl
                      |-- Exchange     hands shards over, abandons lost ones
                      |     +-- Adoption     claims free shards, fetches and opens them
                      |-- Publication  uploads checkpoints to the store, then acknowledges them
                      |-- bus/         links, Requests and subresources between shards
                      |-- store/       checkpoints of shards
                      +-- membership/  leases, the queen, reports
    launch/           starts, shows and ends the drones of one machine

Layers, from the lowest: membership, store; bus; launch; then the modules in this package.

Invariants
==========

1. A drone contacts a host, publishes a checkpoint and acknowledges a position only while its leases
   are valid.
2. A shard is claimed only when the lease of its holder has ended. Its token rises with each claim,
   so later writes of an earlier holder are refused.
3. A link stays in the outbox of its page's shard until a published checkpoint of its target
   contains it.
"""
