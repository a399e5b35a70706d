"""Politeness audit: judges a crawler by the access logs of the servers that it contacted.

Used by ``scrapy politeness-audit`` and by the tests. It shares no code with the crawler: the
verdict rests on the server's record alone.

The life of a line
==================

::

    access log, access log ...    access_logs.py    opened, decompressed, read in bounded lines
         |
    LoggedRequest                 log_line.py       simweb's, any combined format, a job's own
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

After each contact of a politeness key a delay is due: the larger of the one for all hosts and the
one for this host (``RequiredDelays``). After a robots.txt that redirects only the former is due. A
contact that begins earlier is a violation, whatever was requested: robots.txt, a redirect, a URL
that fails. A contact that begins while another one is under way is a violation even if no delay is
due.

With simweb's microseconds this is exact. A combined format has one moment of each request, in whole
seconds: a violation is reported only if it is certain at both ends of the two seconds, and
concurrency is not measured.

Memory: the window of access_logs.py and about 700 bytes for each politeness key, whatever the
number of lines.
"""
