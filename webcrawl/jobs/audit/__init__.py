"""The judge of politeness: reads a server's access log and says who was contacted too early.

Used by ``scrapy politeness-audit`` and by the tests; the crawler imports nothing of it, and it
knows nothing of the crawler: what it says rests on the server's record alone.

The life of a line
==================

::

    access log, access log ...    logs.py     opened, decompressed, read in bounded lines
         |
    Contact                       lines.py    simweb's format, or any combined format
         |
    merged by time                logs.py     several logs, each in order of the ends
         |
    sorted by start               logs.py     a bounded window
         |
    Auditor                       auditor.py  a few numbers for each politeness key
         |
    report                        report.py   a table for people, JSON for machines

What is a violation
===================

After each contact of a politeness key a pause is due: the larger of what is asked for all hosts
and of what is asked for the host (delays.py; not after a robots.txt that redirects elsewhere, as
nobody has read it then). A contact that begins before the pause is over is a
violation, whatever was asked for: robots.txt, a redirect, an answer that failed. So is one that
begins while another is under way, even where no pause is due. With simweb's microseconds that is
exact. A combined format has no more than the second of one moment of each request: there a
violation is reported only if it is certain, that is if the pause would have been too short even
with both moments at the far ends of their seconds; concurrency cannot be told at all.

Memory: the window of logs.py, and about 700 bytes for each politeness key; it does not grow with
the number of lines.
"""

from webcrawl.jobs.audit.auditor import Auditor, KeyRecord, Violation
from webcrawl.jobs.audit.delays import Pauses, read_delays
from webcrawl.jobs.audit.lines import Contact
from webcrawl.jobs.audit.logs import KEYS, audit_logs
from webcrawl.jobs.audit.report import as_json, as_text

__all__ = [
    "KEYS",
    "Auditor",
    "Contact",
    "KeyRecord",
    "Pauses",
    "Violation",
    "as_json",
    "as_text",
    "audit_logs",
    "read_delays",
]
