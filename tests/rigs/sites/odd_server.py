"""A server on loopback that sends the exact bytes of an answer and ends as that says."""

import asyncio
import contextlib
import ipaddress
import socket
import struct
import threading
from typing import NamedTuple

from patience import SLOWNESS

#: Seconds before a reset, in which a client reads what was sent: a reset may overtake it.
_BEFORE_RESET = 0.2
#: Seconds that an open connection is kept: longer than any client here waits.
_KEPT_OPEN = 12 * SLOWNESS
_BETWEEN_PIECES = 0.004
_FIRST_ADDRESS = int(ipaddress.IPv4Address("127.8.0.0"))


class Answer(NamedTuple):
    """What a server sends to one request.

    ending: "fin" closes the connection after the last piece, "rst" breaks it, "open" keeps it.
    """

    pieces: tuple
    ending: str = "fin"


class OddServer:
    """Sends to each request for ``/NUMBER`` the answer of that number."""

    def __init__(self, answers):
        self._answers = answers
        self.port = 0

    def url(self, number):
        """Return the URL of an answer. Each has an address of its own, so that no connection,
        cookie or limit of a host is shared."""
        address = ipaddress.IPv4Address(_FIRST_ADDRESS + number % (1 << 18))
        return f"http://{address}:{self.port}/{number}"

    async def talk(self, reader, writer):
        """Answer one request and end the connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            name = head.split(b" ", 2)[1].strip(b"/")
            answer = self._answers.get(int(name)) if name.isdigit() else _HOME
            await self._send(answer or _HOME, reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client closed the connection
        finally:
            writer.close()

    async def _send(self, answer, reader, writer):
        for number, piece in enumerate(answer.pieces):
            if number:
                await asyncio.sleep(_BETWEEN_PIECES)
            writer.write(piece)
            await writer.drain()
        if answer.ending == "rst":
            await asyncio.sleep(_BEFORE_RESET)
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        elif answer.ending == "open":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(), _KEPT_OPEN)


#: A page for a browser to ask from.
_HOME = Answer(
    (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<!DOCTYPE html>",)
)


@contextlib.contextmanager
def odd_server(answers):
    """Serve *answers* from a thread, at every address of the loopback network."""
    server = OddServer(answers)
    loop = asyncio.new_event_loop()
    tasks = set()

    def connected(reader, writer):
        task = loop.create_task(server.talk(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = loop.run_until_complete(asyncio.start_server(connected, "0.0.0.0", backlog=1024))
    server.port = listening.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def close():
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
