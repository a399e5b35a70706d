"""Files that survive: framed record logs, queues on disk, atomic publication, the manifest.

Five kinds of files, whatever they hold, each with its promise:

* ``RecordLog`` (record_log.py): what ``append`` returned for survives ``kill -9``; a torn tail is
  cut at the next open; damage before a known end is reported with its place, never skipped.
  A file with other names, hard links of checkpoints, is copied before it is cut or appended to.
* ``DiskFifo`` (fifo.py): a queue of any length with its head and tail in memory and its middle in
  append-only segments; a snapshot of it is a few kilobytes whatever its length.
* ``write_atomic`` (atomic.py): a file has its old content or its new one, nothing between.
* ``LineLog`` (line_log.py): lines of text; only the last one may be torn; files of bounded size.
* ``ManifestStore`` (manifest.py): one pointer, ``CURRENT``, decides which state is the live one.
  Files the live manifest does not name are disposable.

How a checkpoint is made of them: every part writes its logs with plain ``write`` as it goes.
``snapshot()`` names what has been written, ``written()`` lists the files that must be fsynced
before that snapshot is published, and ``forget()`` deletes what the published snapshot no longer
names: delete after publish, never before.
"""
