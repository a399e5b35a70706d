"""Shard: all state of a set of registered domains, in one directory.

`Shard` has the frontier, the duplicate URL eliminator, the content-seen test, the records of hosts
and what judges them; `Shards` are those that the process holds, and takes turns between them. New
URLs go from the eliminator by way of admission to the frontier (`Feeder`); eliminators that share
the memory of a process merge one at a time (`MergeTurns`). `Shard.resize` divides MEMORY_BUDGET.
What may change while a crawl runs is in `LiveSettings` and RANKS_FILE.
"""
