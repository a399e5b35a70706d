"""Report about a crawl in words, numbers and charts, as a static file or a live page.

::

    logs/info.jsonl*  ─► log_totals, totals_file    one pass, bounded memory
    stats.json, logs/stats.jsonl, checkpoint ─► sources    a job, or a hive's drones on one machine
                            ▼
  breakdowns, now, tables ─► sections   figures: words, numbers and charts
                                ▼
    a server ──────────────► model.ReportPage ─► page, chart (SVG), templates/   HTML

``tables`` also writes its tables as CSV and JSON, and ``heritrix_log`` the log of finished URLs as
Heritrix' crawl.log.

A job is read as it is, running, stopped or killed: nothing is locked or changed. All numbers are
also in tables, so that tests need no pictures. Memory does not grow with the crawl: values over
time are summed up in at most 120 intervals, and totals by host, content type and seed are in a
temporary SQLite file.
"""
