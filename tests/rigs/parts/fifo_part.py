"""A queue on disk as a part of a job."""

import msgspec

from webcrawl.storage.fifo import DiskFifo, FifoSnapshot


class FifoPart:
    """The part ``queue`` of the shard 00 of *job*."""

    def __init__(self, job):
        shard = job.shard("00")
        saved = shard.saved_snapshot("queue")
        snapshot = None if saved is None else msgspec.msgpack.decode(saved, type=FifoSnapshot)
        self.queue = DiskFifo(path=shard.path / "queue", chunk_items=2, segment_bytes=100)
        self.queue.open(snapshot)
        self.written = self.queue.written
        self.forget = self.queue.forget
        shard.attach("queue", self)

    def snapshot(self):
        return msgspec.msgpack.encode(self.queue.snapshot())
