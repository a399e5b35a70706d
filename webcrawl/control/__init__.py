"""Commands to a running crawl, defined in one table.

    table.py         the commands: their arguments with limits, and what each of them does
    control.py       checks, journals, carries out and answers commands
    unix_socket.py   receives commands from ``scrapy control``
    hive.py          receives commands to a hive, from a journal in Redis that all drones read
    sending.py       sends commands to a crawl or a hive, and finds the URLs to visit again

A command is checked, then appended to the job's journal and fsynced
(crawl/job/control_journal.py), then takes effect, then is answered. There are two kinds:

* a lasting command changes one thing (a pause, a setting, a rule for hosts) until another command
  ends it. The journal is the only record of commands in force; each start applies them again;
* a one-time command can be repeated safely. It is answered once a checkpoint has saved its effect;
  if it has no answer, the next process carries it out again.

Users who may send commands may also read and write the job. So commands are checked for mistakes,
but not for attacks.
"""
