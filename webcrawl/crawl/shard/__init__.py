"""Shard: all state of a set of registered domains, in one directory.

A `Shard` has the frontier, the duplicate URL eliminator, the content-seen test, and the records of
hosts with the rules about them. `Shards` are those that the process holds; it takes turns between
them. New URLs pass from the eliminator through admission to the frontier (`Feeder`). Eliminators
that share the memory of a process merge one at a time (`MergeTurns`). `Shard.resize` divides
MEMORY_BUDGET. Settings that can change during a crawl are in `LiveSettings` and RANKS_FILE.
"""
