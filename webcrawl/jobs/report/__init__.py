"""The crawl report: one page of figures about a crawl, from its job directory.

::

    logs/info.jsonl*   ─► log_totals, timeline, host_totals   one pass, bounded memory
    logs/stats.jsonl*  ─┐
    stats.json          ├► sources    a job, or the drones of a hive on one machine
    checkpoint         ─┘
                            ▼
    over_time, breakdowns, host_figures ─► sections   what is to be seen, in words and numbers
                                             ▼
                      drawing (matplotlib: SVG, PNG) ─► page (HTML, style)

A job is looked at as it is, running, stopped or killed: nothing is locked or changed. Figures are
data until they are drawn, so their numbers are tested without a picture. Memory does not grow with
the crawl: times are summed in at most 2,000 intervals, hosts beyond 200,000 in a temporary SQLite
file.
"""
