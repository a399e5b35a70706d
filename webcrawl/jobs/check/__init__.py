"""Check of a job directory, and the way back to a kept checkpoint: ``scrapy job``.

A check reads everything that the live states of the job and its shards name and what was logged
since, each part by the module of its name, and changes not a byte::

    whole        CURRENT, manifest, snapshot;         files     ranks of the seeds, host records,
                 stored pages, with --warc                      lines of JSON
    frontier     queues, done log                     seen      runs, filter, URL log; content

Damage is a ``Finding`` (findings.py): file, byte, what, and its consequence for the crawl. The torn
end of a log is no damage, as a process that is killed leaves it, and the next start cuts it. It is
noted all the same. Damage is not mended: a damaged job goes back to a kept checkpoint (restore.py).

Invariants:

1. A damaged record is found wherever it is, and so is every good one behind it (storage/scan.py).
   Only in the log of host records damage is taken for a torn end, as SQLite does.
2. Memory does not grow with the job: one record, and the first ``MOST`` findings.
3. Dying while a job goes back leaves one from which it goes back again.
"""
