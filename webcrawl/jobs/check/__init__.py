"""Checks a job directory, and restores kept checkpoints: ``scrapy job``.

A check reads all files that the current states of the job and its shards refer to, and the logs
written since. It changes nothing. The parts are checked by these modules::

    whole        CURRENT, manifest, snapshot;         files     ranks of the seeds, host records,
                 with --warc also stored pages                  lines of JSON
    frontier     queues, log of finished URLs         seen      runs, filter, URL log; content

Damage is reported as a ``Finding`` (findings.py): the file, the byte, what is wrong, and the
consequence for the crawl. A torn end of a log is not damage, because a killed process leaves it
behind, and the next start cuts it off. It is only noted. A check does not repair damage; to repair
a job, restore a kept checkpoint (restore.py).

Invariants:

1. The first damaged record of each file is found wherever it is; nothing after it in that file is
   read, because the crawl does not read it either. Only in the log of host records is damage taken
   for a torn end, because SQLite does the same.
2. Memory does not grow with the job: it holds one record, and the first ``MOST`` findings.
3. If the process dies during a restore, the job can be restored again.
"""
