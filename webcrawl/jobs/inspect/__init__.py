"""Inspection of a job while its crawl runs or afterwards: ``scrapy why`` and ``scrapy frontier``.

A job directory is read as it is, whether its crawl is running, was stopped or was killed. No lock
is taken and nothing is changed, so inspecting does no harm. These files are read::

    CURRENT ─► manifest ─► snapshot   frontier/view.py, seen/seen_view.py  as of the checkpoint
                             + done log    finished, requeued and released since then
                             + URL log     submitted since then
    hosts/records.sqlite              hosts/records/records_reader.py  at most two seconds old
    logs/info.jsonl                   info_log.py  outcomes, up to the last one

A running crawl also moves URLs in memory: one that was in a front-end queue at the checkpoint may
be in a host's queue by now. Each answer says of what time it is.

Invariant: an answer describes a single checkpoint. Files of a checkpoint may be deleted when the
next one is published; then that one is read instead (``job_view.ask``).

Modules: job_view (the shards of a job, read-only), info_log (search in the log of finished URLs),
last_lines (the last line of each URL), explanation (one URL), host_state (its host), why_text (both
as text), overview (the frontier and a host in numbers), answers (which of these a question is
about), examination (the doctor's diagnosis), delta (changes since a time), seeds_file (the frontier
as a seed list), stopped_job (a job opened to add to it), requeueing (putting URLs back in line).
"""
