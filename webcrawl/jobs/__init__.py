"""Tools for a job directory: what a command without a crawl does.

A job is what a crawl leaves: state that its manifest names, logs of what it did, and the outputs of
its processing modules. The tools read these files beside the crawl, and each has a command::

    JOBDIR                          room         command
    CURRENT ─► manifest ─► shards
       │ ├──────────────────────►   inspect      scrapy why, frontier, delta, doctor
       │ └──────────────────────►   check        scrapy job check
       └─► frontier --import,
           --retry, --refetch ──►   inspect      by stopped_job.py: under the lock of the job
    logs/info.jsonl
       ├────────────────────────►   inspect      scrapy why, delta
       ├────────────────────────►   report       scrapy report; also the monitor's page
       └────────────────────────►   audit        scrapy politeness-audit
    warc/, larm/
       ├────────────────────────►   replay       scrapy replay
       ├────────────────────────►   wacz         scrapy wacz
       └────────────────────────►   queue        scrapy queue-build: the next segment of seeds
    graph/ ─────────────────────►   pagerank     scrapy pagerank
    search/ ────────────────────►   search.py    scrapy search
    a trace by URL_TRACE ───────►   caches       scrapy urltrace, cachelab

A hive on one machine is a directory of such directories; ``hive/launch/job_directories.py`` names
them, and a tool reads them as one crawl.

Invariants
==========

1. A reader takes no lock and changes no byte, so it can do no harm to a crawl that runs. What it
   says is as of a checkpoint, and of the logs since.
2. A tool that changes a job takes its lock, and ends with a checkpoint. If it dies before, the same
   command does the rest.
3. A result comes to stand under its name when it is complete, or not at all.
4. Memory does not grow with the crawl. What has to be sorted goes to temporary files.
5. A damaged file is named in one sentence, with what could not be read of it.

Rooms use two others: queue and wacz read stored pages by replay, report and check read the job by
inspect.
"""
