"""Several processes, one crawl: membership, messages and checkpoint store of a hive.

The host space is divided into shards by registered domain, and each process, a drone, holds some of
them by leases in Redis. Links of a page to another shard go to the outbox of the page's shard, from
there to the stream of the target in Redis, and are acknowledged when a published checkpoint of the
target has them. Whose lease ends loses its shards; others adopt them from their newest checkpoint
in HIVE_STORE. One drone at a time is the queen, by a lease, too: it finds out when the crawl has
ended, and sees to an even division. What Redis has may be lost at any moment: the shards are in the
store and with their holders, links that are in no checkpoint yet in the outboxes.
"""
