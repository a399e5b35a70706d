"""One running process of a crawl: joins frontier, hosts and network to Scrapy's engine.

The life of a URL in a process
==============================

::

    seed lists          pages, redirects, sitemaps          Requests of spiders
    seeds/                    links/                                |
        \\                       |                                   |
         +----- LinkBatch: one for each page ----> Shard.submit <---+       shard/
                                                       |
                                     Feeder: eliminator -> admission -> frontier
                                                       |
                 Shards.acquire() -> Lease: whose turn it is, and the host is ready
                                                       |
    Dispatcher          preconditions, robots.txt first                     lease/
         |
    MercatorDownloader  middlewares, download handler; then HostRelease: the host rests
         |
    spider              page_of -> Page -> PageIntake: links back to the top; item pipelines
         |
    Completion          outcome logged, then finished, tried again or put back

The `Agent` (agent.py) is what a process has once; a `Shard` is what it has of some registered
domains, and every lease carries its shard. By `ShardLifecycle` (shard_lifecycle.py) shards come and
go while the crawl goes on. `AgentBuilder` (builder.py) makes agent and shards from settings,
`JobState` (job_state.py) is what a crawl has in common with an import.

Rooms, from the lowest; each imports only those above it in this list at run time
================================================================================

========  ========================================================================================
seeds     seed lists: lines, ranks, the cursor, segments of an offline queue
figures   counts and totals of the crawl, its summary
engine    what touches Scrapy's private attributes, the fast path, the end of a crawl by an error
links     from a document to the URLs that are submitted; what may be submitted
job       the job directory: checkpoints, the states that they save, kept checkpoints
shard     shards, their eliminators' merges, the way of URLs from eliminator to frontier
lease     a URL on its way out and back
========  ========================================================================================

What always holds
=================

1. A lease has one way out, `Dispatcher.dispatch`, and one way back, `Completion.end`.
2. A host is released at the end of its contact, before its page is processed; a URL is finished
   when all that came of it is on disk.
3. All of it runs in the reactor's thread, but for merges, fsync, compression and records, each in
   the thread of an executor that the shards share.
4. A crawl that loses its disk stops (`engine.stop`), and the URLs under way are fetched again.
"""
