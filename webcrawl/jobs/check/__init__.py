"""Check of a job directory, and restore of a kept checkpoint: ``scrapy job``.

A check reads everything that the current states of the job and its shards refer to, and the logs
since then. It changes nothing. Each part is checked by its own module::

    whole        CURRENT, manifest, snapshot;         files     ranks of the seeds, host records,
                 stored pages, with --warc                      lines of JSON
    frontier     queues, done log                     seen      runs, filter, URL log; content

Damage is a ``Finding`` (findings.py): file, byte, what is wrong, and the consequence for the crawl.
A torn end of a log is not damage: a killed process leaves it behind, and the next start cuts it
off. It is only noted. Damage is not repaired: a damaged job is restored to a kept checkpoint
(restore.py).

Invariants:

1. A damaged record is found wherever it is, and so is every good one after it (storage/scan.py).
   Only in the log of host records is damage taken for a torn end, as SQLite does.
2. Memory does not grow with the job: one record, and the first ``MOST`` findings.
3. If the process dies during a restore, the job can be restored again.
"""
