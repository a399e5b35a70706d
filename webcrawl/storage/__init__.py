"""Files that survive crashes: record logs, queues on disk, atomic replacement, the manifest.

There are five kinds of files. Each makes a promise for any content:

* ``RecordLog`` (record_log.py): a record survives ``kill -9`` once ``append`` has returned. A torn
  tail is cut off at the next open. Damage before a known end is reported with its offset, never
  skipped. A file that checkpoints also link to is copied before it is truncated or appended to.
* ``DiskFifo`` (fifo.py): a queue of any length, with its head and tail in memory and its middle in
  append-only segments. A snapshot takes a few kilobytes, however long the queue is.
* ``write_atomic`` (atomic.py): a file has its old content or its new content, nothing in between.
* ``LineLog`` (line_log.py): lines of text in files of limited size; only the last line may be torn.
* ``ManifestStore`` (manifest.py): one pointer, ``CURRENT``, decides which state is the live one.
  Files that the live manifest does not name are disposable.

A checkpoint is made from these files as follows. During the crawl, every part appends to its logs
with plain ``write``. ``snapshot()`` returns the state that has been written, and ``written()``
lists the files that must be fsynced before that snapshot is published. Once it is published,
``forget()`` deletes the files that it no longer refers to. Files are deleted after publishing,
never before.
"""
