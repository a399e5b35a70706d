"""One drone's way to Redis, a TCP proxy that can be cut: the partition of one process.

Cut as a ``BLACK_HOLE``, nothing passes and nothing is said of it: connections stay, new ones are
taken and never answered. What was on the way passes when the way is mended, late, as TCP would send
it again. Cut as ``REFUSED``, connections are reset and new ones refused.
"""

import asyncio
import contextlib
import enum
import socket
import threading

from patience import SLOWNESS

_CHUNK = 1 << 16
_CALL_SECS = 10.0 * SLOWNESS
_LOOK_SECS = 0.05


class Cut(enum.Enum):
    """How a way is cut."""

    BLACK_HOLE = "black hole"
    REFUSED = "connection refused"


class RedisProxy:
    """The way to the Redis at the unix socket *target*. A context manager. Its port is the same as
    long as it lives. Runs in a thread of its own; its methods return when what they say holds."""

    def __init__(self, target):
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="way to Redis")
        self._passes = asyncio.Event()
        self._server = None
        self._talks = {}
        self.port = 0
        self.connections = 0  # taken so far
        self.late_secs = 0.0  # by which what passes is late

    def __enter__(self):
        self._thread.start()
        self.mend()
        return self

    def __exit__(self, *_):
        self._call(self._refuse())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self):
        """For REDIS_URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def cut(self, how):
        """From now on nothing passes."""
        if how is Cut.REFUSED:
            self._call(self._refuse())
        else:
            self._loop.call_soon_threadsafe(self._passes.clear)

    def mend(self):
        """All passes again."""
        self._call(self._mend())

    def _call(self, job):
        asyncio.run_coroutine_threadsafe(job, self._loop).result(_CALL_SECS)

    async def _refuse(self):
        if self._server is not None:
            for listening in self._server.sockets:
                self._loop.remove_reader(listening.fileno())
            # Whose connection has come is taken in this turn of the loop: a closed server fails.
            await asyncio.sleep(0)
            self._server.close()
            self._server = None
        # Who was taken just now has tasks of the loop's own first, and begins to talk after them.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for talk, writer in self._talks.items():
                writer.transport.abort()
                talk.cancel()
            await asyncio.wait(others, timeout=_LOOK_SECS)
        await asyncio.sleep(0)  # transports close

    async def _mend(self):
        self._passes.set()
        if self._server is None:
            self._server = await asyncio.start_server(
                self._take, "127.0.0.1", self.port, family=socket.AF_INET
            )
            self.port = self._server.sockets[0].getsockname()[1]

    async def _take(self, reader, writer):
        talk = asyncio.current_task()
        self._talks[talk] = writer
        self.connections += 1
        try:
            # StreamReaderProtocol complains of a task that was cancelled.
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._passes.wait()
                await self._talk(reader, writer)
        finally:
            writer.transport.abort()
            del self._talks[talk]

    async def _talk(self, reader, writer):
        from_redis, to_redis = await asyncio.open_unix_connection(self._target)
        ways = [
            asyncio.ensure_future(self._pass_on(*way))
            for way in ((reader, to_redis), (from_redis, writer))
        ]
        try:
            # Who hangs up has said all, but the answers to it may be on the way.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            to_redis.close()  # it still sends what was written; another cut may end what follows
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass_on(self, reader, writer):
        while data := await reader.read(_CHUNK):
            await self._passes.wait()
            await asyncio.sleep(self.late_secs)
            writer.write(data)
            await writer.drain()
