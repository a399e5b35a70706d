"""Removal of stored pages from a job that is not running: ``scrapy purge``.

Modules: warc_files, outputs (the other files), purge (the whole job).

What to remove is written as in EXCLUSION_FILE, and called a purge's rules. KEY is their digest. The
steps, in this order::

    1. exclude      the rules become JOBDIR/purged/KEY.txt, so the next run does not fetch the pages
    2. report gone  a line for each URL in logs/info.jsonl; the next delta reports it as gone
    3. forget       payloads.sqlite, so that no new revisit record refers to a removed record
    4. plan         which payloads must be kept, because other records refer to them; they are
                    copied to JOBDIR/purged/KEY.sqlite
    5. rewrite      one file after another: the new file is written next to the old one, fsynced
                    and renamed. Before that, a line in logs/purge.jsonl says how much goes
    6. end          KEY.sqlite is deleted

Each step can be repeated. If the process dies, the same command continues: KEY.sqlite says which
files are done. Another purge is refused until then; the crawl may be resumed, because the pages are
excluded already. In memory are 8 bytes for each URL in the rules, and one record or row group.
"""
