"""Inspection of a job beside its crawl: ``scrapy why`` and ``scrapy frontier``.

A job directory is looked at as it is, whether its crawl is running, was stopped or was killed. No
lock is taken and not a byte is changed, so looking can do no harm. What is seen::

    CURRENT ─► manifest ─► snapshot        frontier/view.py, seen/seen_view.py  as of the checkpoint
                             + done log    what was finished, requeued, released since
                             + URL log     what was submitted since
    hosts/records.sqlite                   hosts/records/records_reader.py  two seconds old
    at most logs/info.jsonl                        outcomes, up to the last one

A crawl that runs moves URLs in its memory, too: one that was waiting in a front-end queue at the
checkpoint may stand in a host's queue by now. Each answer says as of when it is.

Invariant: an answer is of one checkpoint. Files that a checkpoint names may vanish when the next
one is published; then the question is asked again of that one (``job_view.ask``).

Modules: job_view (the shards of a job, read-only), info_log (searching the log of finished URLs),
last_lines (the last one of each URL), explanation (all about one URL), host_state (all about its
host), why_text (both for people), overview (the frontier in figures), examination (what the doctor
has said), delta (what has changed since a time), seeds_file (the frontier as a seed list),
stopped_job (a job opened to add to it), importing (a seed list), requeueing (URLs put back in
line).
"""
