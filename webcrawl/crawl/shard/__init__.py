"""Shard: all state of a set of registered domains, in one directory.

A `Shard` has a frontier, a duplicate URL eliminator, a content-seen test, and host records with the
rules about hosts. `Shards` holds the shards of this process and serves them in turn. `Feeder` moves
new URLs from the eliminator through admission to the frontier. `MergeTurns` lets the eliminators of
a process merge one at a time. `Shard.resize` divides MEMORY_BUDGET among the shards. Settings that
can change during a crawl are in `LiveSettings` and RANKS_FILE.
"""
