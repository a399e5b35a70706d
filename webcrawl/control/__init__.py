"""Control: commands to a running crawl, from one table.

    table.py         the commands: arguments with their bounds, what each changes or does
    control.py       a command's life: checked, journaled, in effect, answered
    unix_socket.py   the way in for ``scrapy control``
    hive.py          that of a hive: a stream in Redis, to all drones
    sending.py       the other end of both, and visits of finished URLs

A command is checked, then appended to the job's journal and fsynced
(crawl/job/control_journal.py), then has its effect, then is answered. Of two kinds:

* what *lasts* changes one thing (a pause, a setting, a rule of hosts) until its opposite comes. The
  journal alone has what is in force, and each start puts it on again;
* what is done *once* may be done twice, changing nothing. It is answered when a checkpoint has what
  it did; without an answer the next process does it again.

Whoever may send commands may read and write the job: they are checked for mistakes, not for malice.
"""
