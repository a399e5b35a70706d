"""One running process of a crawl: connects frontier, hosts and network to Scrapy's engine.

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
    Dispatcher          its task, preconditions, robots.txt first             task/
         |
    MercatorDownloader  middlewares, download handler; then HostRelease       lease/
         |
    spider              Intake: the task's Pages, links back to the top; item pipelines
         |
    Completion          outcome logged, then finished, retried or put back

A `Process` (process.py) owns everything that exists once per process. `Intake` (intake.py) accepts
what spiders and modules submit; `Health` (health.py) is what doctor, monitor and metrics read.
`Dispatcher` (dispatcher.py) and `Completion` (completion.py) begin and end leases; the parts that
they share with the downloader are built in leases.py. What differs between pages, robots.txt and
others is asked from the task of each lease (task/task.py). A
`Shard` holds the state of some registered domains, and every lease carries its shard.
`ShardLifecycle` (shard_lifecycle.py) adopts and hands over shards while the crawl continues.
`ProcessBuilder` (builder.py) makes process and shards from settings. `JobState` (job_state.py) is
what a crawl and an import have in common.

Packages, from the lowest; each imports only those above it in this list at run time
====================================================================================

========  ========================================================================================
seeds     seed lists: their lines, ranks, reading position, and segments of an offline queue
figures   counts and totals of the crawl, its summary
engine    code that uses Scrapy's private attributes, the fast path, ending a crawl on an error
links     finds the URLs in a document, and decides which of them may be submitted
job       the job directory: checkpoints, the states that they save, kept checkpoints
shard     shards, their eliminators' merges, the path of URLs from eliminator to frontier
lease     downloads URLs: Requests, the facts of a contact, pauses of hosts, log of outcomes
task      what leases are for: pages, robots.txt files, side downloads, parts of pages
========  ========================================================================================

What always holds
=================

1. Only `Dispatcher.dispatch` hands out a lease, and only `Completion.end` completes it.
2. A host is released at the end of its contact, before its page is processed; a URL is finished
   when all its results are on disk.
3. All of it runs in the reactor's thread, except merges, fsync, compression and records. Each of
   these has the thread of an executor that the shards share.
4. A crawl that loses its disk stops (`engine.stop`), and the URLs in process are fetched again.
"""
