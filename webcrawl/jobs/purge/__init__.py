"""Removal of stored pages from a job that is not running: ``scrapy purge``.

Modules: purge (the whole job), files (each kind of file).

What to remove is written as in EXCLUSION_FILE. The steps, in this order::

    1. exclude      the text is added to JOBDIR/purged.txt, in a hive that of the first drone, so
                    the next run does not fetch the pages (hosts/host_rules.py)
    2. report gone  a line for each document in logs/info.jsonl; the next delta reports it as gone
    3. forget       rows of payloads.sqlite, so that no new revisit record refers to a removed
                    record, and the records of excluded hosts, which have texts of their pages
    4. pass on      payloads to which records of other pages refer
    5. remove       from one file after another: the new file is written next to the old one,
                    fsynced and renamed

In the steps 4 and 5, a line in logs/purge.jsonl says what is done to a file before it is done. If
the process dies, run the same command again: each step finds what is left to do. The crawl may be
resumed in between, because the pages are already excluded. In memory are the text, 200 bytes for
each URL in it, and one record or row group. Reading the WARC files twice takes 13 s of CPU per GB.
"""
