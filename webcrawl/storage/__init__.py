"""Files that survive crashes: record logs, queues on disk, atomic replacement, the manifest.

There are five kinds of files, whatever they contain, each with its promise:

* ``RecordLog`` (record_log.py): a record survives ``kill -9`` once ``append`` has returned. A torn
  tail is cut at the next open. Damage before a known end is reported with its place, never skipped.
  A file with other names (hard links of checkpoints) is copied before it is cut or appended to.
* ``DiskFifo`` (fifo.py): a queue of any length, with its head and tail in memory and its middle in
  append-only segments. A snapshot takes a few kilobytes, whatever the length of the queue.
* ``write_atomic`` (atomic.py): a file has its old content or its new one, nothing in between.
* ``LineLog`` (line_log.py): lines of text in files of limited size; only the last one may be torn.
* ``ManifestStore`` (manifest.py): one pointer, ``CURRENT``, decides which state is the live one.
  Files that the live manifest does not name are disposable.

A checkpoint is made of them as follows. Every part writes its logs with plain ``write`` as it goes.
``snapshot()`` returns what has been written, and ``written()`` lists the files that must be fsynced
before that snapshot is published. Then ``forget()`` deletes what the published snapshot no longer
names: files are deleted after publishing, never before.
"""
