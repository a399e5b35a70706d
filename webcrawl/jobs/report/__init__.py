"""The crawl report: one page of figures about a crawl, from its job directory.

::

    logs/info.jsonl*  ─► log_totals, host_totals    one pass, bounded memory
    stats.json        ─► sources    a job, or the drones of a hive on one machine
                            ▼
               breakdowns ─► sections   what is to be seen, in words and numbers: figures
                                ▼
                      drawing (matplotlib: SVG, PNG) ─► page (HTML, style)

A job is looked at as it is, running, stopped or killed: nothing is locked or changed. Numbers are
in tables, too, so they are tested without a picture. Memory does not grow with the crawl: times are
summed in at most 120 intervals, hosts in a temporary SQLite file.
"""
