"""DNS queries: name servers, repetition, and evaluation of the answers.

Called by the resolver only. A question is a small state machine on the event loop's callbacks
instead of a task with a future and a timeout: ten thousand may wait at once, and one costs little
more than its two system calls.

Invariants: `done` of every question is called exactly once, within the time-outs, and after it
nothing of the question is left behind: no timer, no message id, no task. An id belongs to one
question, drawn at random, until that question is done.
"""

from __future__ import annotations

import asyncio
import socket
from array import array
from collections import Counter, deque
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from webcrawl.clock import now
from webcrawl.net.dns import wire as dnswire

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Sequence

    from webcrawl.net.dns.servers import Address

# Drawn at once for message ids.
_RANDOM_BYTES = 1024
# Seconds after which a name server that fell silent is asked one question again, and through
# another socket if it has said nothing at all: this machine may have another address now.
_PROBE_EVERY = 30.0
#: Questions under way; the others wait their turn. A name server drops what it has no room for:
# unbound takes 1,024 for each of its threads, and its socket holds fewer. At 200 ms each these are
# 5,000 answers a second.
MAX_UNDER_WAY = 1024
# Connections under way, each for one answer that was truncated.
_MAX_OVER_TCP = 64
# Messages that answer no open question and come to one port before another port is taken. To
# guess the id of an open question takes a forger 2**15 on average (RFC 5452, section 4.5).
_MAX_UNWANTED = 1000
# Then the loop has its turn again.
_MESSAGES_PER_WAKE = 64
# Answers to a thousand questions sent in one go fit into the socket.
_RECEIVE_BUFFER = 1 << 20
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
# What a name server says of a name; anything else is of itself.
_SAYS = (dnswire.NOERROR, dnswire.NXDOMAIN)
_RCODES = {1: "FORMERR", 2: "SERVFAIL", 4: "NOTIMP", 5: "REFUSED"}


class Unanswered(NamedTuple):
    """No server gave a usable answer; *timed_out* if none of them said anything."""

    why: str
    timed_out: bool


DnsResult: TypeAlias = dnswire.DnsAnswer | Unanswered
Done: TypeAlias = "Callable[[DnsResult], None]"


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class NameServers:
    """The name servers and the questions to them.

    The first server is preferred. One that fell silent is not asked while another answers, but
    for a question now and then.

    *servers* are used as they change. *timeout*, in seconds, is for the first of the *tries* and
    doubles with each.
    """

    servers: Callable[[], Sequence[Address]]
    timeout: float
    tries: int
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    over_tcp: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_OVER_TCP))
    #: The questions under way by message id.
    open: dict[int, _Question] = field(default_factory=dict)
    _idents: array[int] = field(default_factory=lambda: array("H"))
    _channels: dict[Address, _Channel] = field(default_factory=dict)
    _queue: deque[_Question] = field(default_factory=deque)
    _beginning: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def ask(self, name: bytes, qtype: int, done: Done) -> None:
        """Ask for *name* (wire form) and call *done* with the answer, perhaps at once."""
        self._queue.append(_Question(self, dnswire.question(name, qtype), done))
        self.begin()

    async def close(self) -> None:
        """Answer every open question with Unanswered and close the sockets."""
        questions = [*self.open.values(), *self._queue]
        self._queue.clear()
        for question in questions:
            question.finish(Unanswered("the resolver was closed", timed_out=False))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in self._channels.values():
            channel.close()

    # The rest is for the questions and channels.

    def begin(self) -> None:
        """Ask the questions that wait, as many as may be under way.

        Not again from within: where nothing can be sent a thousand of them end at once.
        """
        if self._beginning:
            return
        self._beginning = True
        try:
            while self._queue and len(self.open) < MAX_UNDER_WAY:
                ident = self._new_ident()
                self.open[ident] = question = self._queue.popleft()
                question.begin(ident)
        finally:
            self._beginning = False

    def _new_ident(self) -> int:
        """A message id that no question under way has."""
        while True:
            if not self._idents:  # many at once: a system call for each is dear
                self._idents.frombytes(self.rng.randbytes(_RANDOM_BYTES))
            ident = self._idents.pop()
            if ident not in self.open:
                return ident

    def next_channel(self, last: _Channel | None, useless: Sequence[_Channel]) -> _Channel | None:
        """The preferred server that is of use, another than *last* if there is one."""
        servers = self.servers()
        first = self._channels.get(servers[0]) if servers else None
        if first is not None and last is None and not (first.silences or useless):
            return first
        channels = [
            self._channels.get(server) or self._channels.setdefault(server, _Channel(server, self))
            for server in servers
        ]
        usable = [channel for channel in channels if channel not in useless]
        usable = [channel for channel in usable if channel is not last] or usable
        if len(usable) < 2:
            return usable[0] if usable else None
        best = min(usable, key=lambda channel: channel.silences)  # the first of equals
        if last is None and best is not usable[0]:
            at = now()
            for channel in usable[: usable.index(best)]:
                if at >= channel.probe_at:
                    channel.probe_at = at + _PROBE_EVERY
                    return channel
        return best

    def start(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Channel:
    """A name server and the socket to it, opened when something is to be sent.

    A connected socket takes messages from its server only and learns at once that nothing listens
    there. What was asked over a socket that is given up for another one is asked again after its
    time-out.
    """

    def __init__(self, address: Address, servers: NameServers) -> None:
        host, port = address
        self.address = address
        self.name = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
        # Questions that timed out since the last answer, and when one of them may be tried again.
        self.silences = 0
        self.probe_at = 0.0
        self._servers = servers
        self._socket: socket.socket | None = None
        self.loop = asyncio.get_running_loop()
        self._unwanted = 0
        self._heard_at = 0.0

    def send(self, message: bytes) -> None:
        """Send *message*; OSError where that cannot be."""
        try:
            sock = self._socket or self._connect()
            sock.send(message)
        except BlockingIOError:
            pass  # as good as lost on the way: the time-out repeats it
        except OSError as e:
            # This may be the report of an earlier message: nothing listens there.
            self.loop.call_soon(self._abandon, e)
            raise

    def fell_silent(self) -> None:
        """Note that a question has timed out, or that nothing listens."""
        at = now()
        self.silences += 1
        self.probe_at = at + _PROBE_EVERY
        if at - self._heard_at >= _PROBE_EVERY:
            self.close()

    def close(self) -> None:
        """Close the socket; the next message opens another one, on another port."""
        if self._socket is not None:
            self.loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _connect(self) -> socket.socket:
        self._socket = sock = connected_socket(self.address)
        self.loop.add_reader(sock.fileno(), self._readable)
        self._unwanted = 0
        self._heard_at = now()
        return sock

    def _readable(self) -> None:
        for _ in range(_MESSAGES_PER_WAKE):
            if self._socket is None:
                return
            try:
                message = self._socket.recv(65535)
            except BlockingIOError:
                return
            except OSError as e:  # nothing listens there, or no way to it
                self.fell_silent()
                self._abandon(e)
                return
            question = self._servers.open.get(int.from_bytes(message[:2], "big"))
            if question is not None and question.answered(self, message):
                self.silences = 0
                self._heard_at = now()
            else:
                self._servers.counts["unwanted_answers"] += 1
                self._unwanted += 1
                if self._unwanted >= _MAX_UNWANTED:
                    self.close()

    def _abandon(self, error: OSError) -> None:
        """Nothing will come from here: the questions to it go to the other servers."""
        self.close()
        for question in list(self._servers.open.values()):
            question.give_up_on(self, f"{self.name}: {error.strerror}")


@dataclass(slots=True, eq=False, repr=False)
class _Question:
    """One question until it is answered: the servers asked so far and the time-out running."""

    _servers: NameServers
    _asked: bytes
    _done: Done | None
    _ident: int = -1
    _attempt: int = 0
    _last: _Channel | None = None
    _sent_to: tuple[_Channel, ...] = ()
    _useless: tuple[_Channel, ...] = ()
    _timer: asyncio.TimerHandle | None = None
    _why: str = ""
    _over_tcp: bool = False

    def begin(self, ident: int) -> None:
        self._ident = ident
        self._ask()

    def _ask(self) -> None:
        """Send the next attempt; servers asked before may still answer, for that counts too."""
        servers = self._servers
        message = dnswire.query(self._ident, self._asked)
        while True:
            channel = servers.next_channel(self._last, self._useless)
            if channel is None or self._attempt >= servers.tries:
                why = self._why or "no name server answered"
                self.finish(Unanswered(why, timed_out=not self._why))
                return
            try:
                channel.send(message)
                break
            except OSError:
                self._useless += (channel,)
                self._why = f"cannot send to {channel.name}"
        servers.counts["queries"] += 1
        self._last = channel
        self._sent_to += (channel,)
        delay = servers.timeout * 2.0**self._attempt
        self._attempt += 1
        self._timer = channel.loop.call_later(delay, self._timed_out, channel)

    def _timed_out(self, channel: _Channel) -> None:
        self._servers.counts["query_timeouts"] += 1
        channel.fell_silent()
        self._ask()

    def answered(self, channel: _Channel, message: bytes) -> bool:
        """Take a message with this question's id; return whether it answers it."""
        if channel not in self._sent_to:
            return False
        try:
            answer = dnswire.read_answer(message, self._asked)
        except dnswire.MalformedAnswerError:
            return False
        if not answer.truncated:
            self._judge(channel, answer)
        elif not self._over_tcp:  # else said twice, or sent twice
            self._over_tcp = True
            self._stop_timer()
            self._servers.counts["over_tcp"] += 1
            self._servers.start(self._ask_over_tcp(channel, answer))
        return True

    def _judge(self, channel: _Channel, answer: dnswire.DnsAnswer) -> None:
        if answer.rcode in _SAYS:
            self.finish(answer)
        else:
            rcode = _RCODES.get(answer.rcode, f"code {answer.rcode}")
            self.give_up_on(channel, f"{channel.name} says {rcode}")

    def give_up_on(self, channel: _Channel, why: str) -> None:
        """Ask the servers that are left, unless one of them is being asked already."""
        if channel not in self._sent_to:
            return
        self._useless += (channel,)
        self._why = why
        if self._last is channel:
            self._stop_timer()
            self._ask()

    async def _ask_over_tcp(self, channel: _Channel, part: dnswire.DnsAnswer) -> None:
        """Get the whole answer, or make do with *part* of it: some firewalls pass no DNS by TCP."""
        why = f"{channel.name} truncates over TCP, too"
        try:
            async with asyncio.timeout(2 * self._servers.timeout), self._servers.over_tcp:
                message = await _answer_over_tcp(
                    channel.address, dnswire.query(self._ident, self._asked)
                )
            answer = dnswire.read_answer(message, self._asked)
        except (OSError, EOFError, dnswire.MalformedAnswerError) as e:
            answer, why = part, f"{channel.name} over TCP: {e or type(e).__name__}"
        if self._done is None:
            return
        self._over_tcp = False
        if answer.truncated and not answer.addresses:
            self.give_up_on(channel, why)
        else:
            self._judge(channel, answer)

    def finish(self, result: DnsResult) -> None:
        """Call `done` with *result*, once."""
        done, self._done = self._done, None
        if done is None:
            return
        self._stop_timer()
        self._servers.open.pop(self._ident, None)
        done(result)
        self._servers.begin()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def connected_socket(address: Address) -> socket.socket:
    """A new socket to *address*, not blocking; OSError where there is no way."""
    host, port = address
    # Nothing is looked up: this reads the scope of a link-local address ("fe80::1%eth0").
    family, kind, proto, _, there = socket.getaddrinfo(
        host, port, type=socket.SOCK_DGRAM, flags=_NUMERIC
    )[0]
    sock = socket.socket(family, kind, proto)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    try:
        sock.connect(there)
    except OSError:
        sock.close()
        raise
    return sock


async def _answer_over_tcp(server: Address, message: bytes) -> bytes:
    """The answer of *server* to *message*, over a connection of its own."""
    reader, writer = await asyncio.open_connection(*server)
    with closing(writer):
        writer.write(len(message).to_bytes(2, "big") + message)
        size = int.from_bytes(await reader.readexactly(2), "big")
        return await reader.readexactly(size)
