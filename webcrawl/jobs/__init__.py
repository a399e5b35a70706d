"""Tools for job directories, used by the commands that do not crawl.

A job is everything that a crawl writes: its saved state, logs, and the outputs of its processing
modules. The tools read these files, even while the crawl runs. Each tool has a command::

    JOBDIR                          package      command
    CURRENT ─► manifest ─► shards
       │ ├──────────────────────►   inspect      scrapy why, frontier, delta
       │ └──────────────────────►   check        scrapy job check
       ├──────────────────────►   purge        scrapy purge, which also changes logs and outputs
       └─► frontier --retry,
           --refetch, --due ────►   inspect      stopped_job.py, which holds the job's lock
    logs/info.jsonl
       ├────────────────────────►   inspect      scrapy why, delta
       ├────────────────────────►   report       scrapy report; also the monitor's page
       └────────────────────────►   audit        scrapy politeness-audit
    warc/, larm/
       ├────────────────────────►   replay       scrapy replay
       ├────────────────────────►   wacz         scrapy wacz
       └────────────────────────►   queue        scrapy queue-build: the next segment of seeds
    graph/ ─────────────────────►   pagerank     scrapy pagerank
    text/ ──────────────────────►   dataset.py   scrapy dataset
    search/ ────────────────────►   search.py    scrapy search
    a trace (URL_TRACE) ────────►   trace_properties.py    scrapy urltrace

A hive on one machine is a directory of job directories. ``hive/launch/job_directories.py`` finds
them, and the tools read them as one crawl.

Invariants
==========

1. A tool that only reads takes no lock and changes nothing, so it cannot harm a running crawl. It
   reads the last checkpoint, and the logs since then.
2. A tool that changes a job takes the job's lock. If it changes the job's state, it ends with a
   checkpoint. If it dies before the end, run the same command again to finish.
3. A result appears under its final name only when it is complete.
4. Memory does not grow with the crawl. Sorting uses temporary files.
5. A damaged file is reported in one sentence that says what could not be read.

Two of the packages are used by others: queue and wacz read stored pages with replay, and report and
check read the job with inspect.
"""
