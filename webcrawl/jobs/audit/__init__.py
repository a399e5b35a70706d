"""Politeness audit: judges a crawler by the access log of the simulated web, or by its own log.

Used by ``scrapy politeness-audit`` and by the tests. It shares no code with the crawler: the
verdict rests on the log alone.

The life of a line
==================

::

    log, log ...                  access_logs.py    opened, decompressed, read in bounded lines
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

After each contact of a politeness key a delay is due: the one for all hosts, or what the host's
owner has agreed to (``RequiredDelays``). A contact that begins earlier is a violation, whatever was
requested: robots.txt, a redirect, a URL that fails. A contact that begins while another one is
under way is a violation even if the delay is 0.

Memory: the window of access_logs.py and about 700 bytes for each politeness key, whatever the
number of lines.
"""
