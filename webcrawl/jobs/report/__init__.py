"""The page of a crawl: how it stands, in words, numbers and charts, frozen or live.

::

    logs/info.jsonl*  ─► log_totals, host_totals    one pass, bounded memory
    stats.json, logs/stats.jsonl, checkpoint ─► sources    a job, or a hive's drones on one machine
                            ▼
          breakdowns, now ─► sections   what is to be seen, in words and numbers: figures
                                ▼
    a server ──────────────► model.Page ─► page, chart (SVG), templates/   HTML, frozen or live

A job is looked at as it is, running, stopped or killed: nothing is locked or changed. Numbers are
in tables, too, so they are tested without a picture. Memory does not grow with the crawl: times are
summed in at most 120 intervals, hosts in a temporary SQLite file.
"""
