"""Politeness audit of a crawl, by the access log of the simulated web or by its own log.

Used by ``scrapy politeness-audit`` and by the tests. It shares no code with the crawler: the result
depends only on the log.

The life of a line
==================

::

    log, log ...                  access_logs.py    opened, decompressed, read with a line limit
         |
    LoggedRequest                 log_line.py       simweb's access log, a job's own log
         |
    merged by end                 access_logs.py    several logs, each in order of the ends
         |
    sorted by start               access_logs.py    a bounded window
         |
    Auditor                       auditor.py        a few numbers for each politeness key
         |
    report                        report.py         a table, or JSON

What is a violation
===================

After each contact of a politeness key, a delay is required: the one for all hosts, or the one to
which the host's owner has agreed (``RequiredDelays``). A contact that begins earlier is a
violation. It does not matter what was requested: robots.txt, a redirect, a URL that fails. If
another contact is still under way, it is a violation even if the delay is 0.

Memory: the window of access_logs.py and about 700 bytes per politeness key. It does not depend on
the number of lines.
"""
