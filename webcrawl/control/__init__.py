"""Commands to a running crawl, defined in one table.

    table.py         the commands: their arguments with limits, and what each changes or does
    control.py       the life of a command: checked, journaled, carried out, answered
    unix_socket.py   the entrance for ``scrapy control``
    hive.py          the entrance of a hive: a journal in Redis, read by all drones
    sending.py       the other end of both, and visits of finished URLs

A command is checked, then appended to the job's journal and fsynced
(crawl/job/control_journal.py), then takes effect, then is answered. There are two kinds:

* a lasting command changes one thing (a pause, a setting, a rule for hosts) until another command
  ends it. Only the journal has what is in force, and each start puts it in force again;
* a one-time command can be repeated safely. It is answered once a checkpoint has saved its effect;
  without an answer, the next process does it again.

Users who may send commands may also read and write the job, so commands are checked for mistakes,
not for malice.
"""
