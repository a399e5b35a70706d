"""Audits the politeness of a crawl, from the access log of the simulated web or its own log.

Used by ``scrapy politeness-audit`` and by the tests. It shares no code with the crawler, so the
result depends only on the log.

The life of a line
==================

::

    log, log ...                  access_logs.py    opened, decompressed, read with a line limit
         |
    LoggedRequest                 log_line.py       from simweb's access log or a job's own log
         |
    merged by end                 access_logs.py    several logs, each sorted by the ends
         |
    sorted by start               access_logs.py    within a bounded window
         |
    Auditor                       auditor.py        a few numbers for each politeness key
         |
    report                        report.py         a table, or JSON

What is a violation
===================

After each contact with a politeness key, a delay is required: the delay for all hosts, or the one
to which the host's owner has agreed (``RequiredDelays``). A contact that begins earlier is a
violation. It does not matter what was requested: robots.txt, a redirect, or a URL that fails. A
contact that begins while another one is under way is a violation even if the delay is 0.

Memory: the window of access_logs.py, and about 700 bytes per politeness key. It does not depend on
the number of lines.
"""
