"""Real servers on the loopback interface that say exactly the bytes they are told to."""

import asyncio
import contextlib
import socket
import ssl
from types import SimpleNamespace

import dns.flags
import dns.message
import dns.rcode
import pytest
import trustme
import uvloop
from patience import LIMIT_SECS

from webcrawl.clock import now
from webcrawl.sim.loop import VirtualLoop
from webcrawl.sim.network import Network, Route


@pytest.fixture(autouse=True, params=[pytest.param("asyncio", marks=pytest.mark.long), "uvloop"])
def each_loop(request):
    """Run the tests of a module that imports this on uvloop, as crawls run; `make test-long` runs
    them on Python's own loop, too."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "uvloop":
            patch.setattr(asyncio, "run", run_on_uvloop)
        yield


def run_on_uvloop(main):
    """`uvloop.run`, which calls `asyncio.run` from Python 3.12 on, and so cannot stand for it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


@pytest.fixture
def virtual_time(monkeypatch):
    """Run what a test runs, its servers too, where timers take no time and nothing is late."""

    def refuse(*_):
        raise ConnectionRefusedError

    def run(main):
        others = SimpleNamespace(begin=id, route=lambda _: Route(), protocol=refuse)
        loop = VirtualLoop(Network(others))
        monkeypatch.setattr(now, "_boot", loop.time)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(main)

    monkeypatch.setattr(asyncio, "run", run)


in_virtual_time = pytest.mark.usefixtures("virtual_time")


async def head(raw, reader, writer):
    """Read one request without a body."""
    await raw.head(reader)


async def hold(raw, reader, writer):
    """Say nothing more until the client hangs up."""
    while await reader.read(65536):
        pass


async def reset(raw, reader, writer):
    """Break the connection, once what was sent has been read."""
    await until_read()
    # Linger for no time: what is unsent is thrown away, and the peer is told so.
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


def pieces(says, size):
    """What sends *says* in pieces of *size* bytes."""
    parts = (says[start : start + size] for start in range(0, len(says), size))
    return [act for part in parts for act in (part, 0.0005)]


class RawServer:
    """A TCP server: *talk* says what it likes on each connection; or bytes to every request; or a
    list: bytes to send, seconds to sleep, functions like ``head``, and tuples of these, which are
    repeated for ever."""

    def __init__(self, talk):
        self._talk = talk
        self._closed = asyncio.Event()
        self.connections = 0
        self.open = 0
        self.heads = []
        self.address = "127.0.0.1"
        self.port = 0

    @property
    def url(self):
        return f"http://{self.address}:{self.port}/"

    async def serve(self, reader, writer):
        self.connections += 1
        self.open += 1
        talk = [(head, self._talk)] if isinstance(self._talk, bytes) else self._talk
        try:
            await (talk(reader, writer) if callable(talk) else self._play(talk, reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is through
        finally:
            self.open -= 1
            writer.close()
            self._closed.set()

    async def _play(self, acts, reader, writer):
        for act in acts:
            if writer.transport.is_closing():
                return
            if isinstance(act, bytes):
                writer.write(act)
                await writer.drain()
            elif isinstance(act, tuple):
                while not writer.transport.is_closing():
                    await self._play(act, reader, writer)
            elif callable(act):
                await act(self, reader, writer)
            else:
                await asyncio.sleep(act)

    async def left(self, count):
        """Wait until no more than *count* connections are open."""
        async with asyncio.timeout(LIMIT_SECS):
            while self.open > count:
                self._closed.clear()
                await self._closed.wait()

    async def head(self, reader):
        """Read one request without a body."""
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        return self.heads[-1]


@contextlib.asynccontextmanager
async def raw_server(
    talk,
    *,
    tls=None,
    address="127.0.0.1",
    port=0,
):
    raw = RawServer(talk)
    tasks = set()

    def connected(reader, writer):
        task = asyncio.get_running_loop().create_task(raw.serve(reader, writer))
        task.add_done_callback(lambda _: writer.close())  # one cancelled before it began, too
        tasks.add(task)

    over = {"ssl": tls} if tls else {}
    server = await asyncio.start_server(connected, address, port, limit=1 << 20, **over)
    raw.address, raw.port = server.sockets[0].getsockname()[:2]
    try:
        yield raw
    finally:
        server.close()
        for _ in range(3):  # what was accepted in the last moment gets its task
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(3):  # the transports close
            await asyncio.sleep(0)
        for result in results:
            if isinstance(result, Exception):
                raise result


async def until_read():
    """Let the loop read what was sent: not in one sleep, of which a busy machine may take all."""
    for _ in range(4):
        await asyncio.sleep(0.01)


class NameServer(asyncio.DatagramProtocol):
    """A name server on UDP and TCP: *answer* gets each query, None is silence, a list several."""

    def __init__(self, answer):
        self._answer = answer
        self.asked = []  # "udp a.test. A"
        self.port = 0

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def connection_made(self, transport):
        self._transport = transport

    def datagram_received(self, data, addr):
        reply = self.reply("udp", data)
        for message in reply if isinstance(reply, list) else [reply]:
            if message is not None:
                self._transport.sendto(message, addr)

    def reply(self, how, data):
        query = dns.message.from_wire(data)
        question = query.question[0]
        kind = dns.rdatatype.to_text(question.rdtype)
        self.asked.append(f"{how} {question.name} {kind}")
        answer = self._answer(query)
        if answer is None or isinstance(answer, list):
            return answer
        wire = answer if isinstance(answer, bytes) else answer.to_wire()
        if how == "udp" and len(wire) > 512:
            return respond(query, is_truncated=True).to_wire()
        return wire


@contextlib.asynccontextmanager
async def name_server(answer):
    names = NameServer(answer)

    async def over_tcp(reader, writer):
        size = int.from_bytes(await reader.readexactly(2), "big")
        reply = names.reply("tcp", await reader.readexactly(size))
        if reply is not None:
            writer.write(len(reply).to_bytes(2, "big") + reply)
            await writer.drain()

    async with contextlib.AsyncExitStack() as stack:
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        while not names.port:
            tcp = await stack.enter_async_context(raw_server(over_tcp))
            with contextlib.suppress(OSError):  # it may be somebody else's: try the next one
                udp.bind(("127.0.0.1", tcp.port))
                names.port = tcp.port
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: names, sock=udp
        )
        try:
            yield names
        finally:
            transport.close()


def respond(query, *records, rcode="NOERROR", is_truncated=False):
    """A response with *records* such as ``@ 300 A 127.0.0.1``; @ is the name that was asked for."""
    response = dns.message.make_response(query)
    response.set_rcode(dns.rcode.from_text(rcode))
    if is_truncated:
        response.flags |= dns.flags.TC
    for record in records:
        name, ttl, *rest = record.replace("@", str(query.question[0].name)).split()
        response.answer.append(dns.rrset.from_text(name, int(ttl), "IN", *rest))
    return response


def zone(records):
    """Answer from *records*, such as ``{"a.test": ["300 A 127.0.0.1"]}``; NXDOMAIN else.

    Aliases are followed within the zone, as recursive servers do.
    """

    def answer(query):
        question = query.question[0]
        name, wanted = str(question.name).rstrip("."), dns.rdatatype.to_text(question.rdtype)
        found = []
        if name not in records:
            return respond(query, rcode="NXDOMAIN")
        while name in records:
            following = ""
            for record in records[name]:
                _, kind, value = record.split()
                if kind == "CNAME":
                    following = value.rstrip(".")
                if kind in ("CNAME", wanted):
                    found.append(f"{name}. {record}")
            name = following
        return respond(query, *found)

    return answer


def untrusted(
    host,
    *,
    authority=None,
    key_type=trustme.KeyType.ECDSA,
):
    """The server side of TLS with a certificate of *authority*, by default one unknown to all."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made = (authority or trustme.CA()).issue_cert(host, "127.0.0.1", key_type=key_type)
    made.configure_cert(context)
    return context
