"""Questions to name servers over UDP: sending, repeating, and knowing the answer again.

Called by the resolver only. A question is a small state machine on the event loop's callbacks
instead of a task with a future and a timeout: ten thousand may wait at once, and one costs
little more than its two system calls.

Invariant: `done` of every question is called exactly once, within the time-outs, and after it
nothing of the question is left behind: no timer, no message id, no task.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from webcrawl.net import dnswire

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Sequence

    from webcrawl.net.dnsservers import Address, SystemServers

# Questions under way; the others wait their turn. A name server drops what it has no room for:
# unbound takes 1,024 for each of its threads, and its socket holds fewer. At 200 ms each these are
# 5,000 answers a second.
_MAX_UNDER_WAY: Final = 1024
# Connections under way, each for one answer that was truncated.
_MAX_OVER_TCP: Final = 64
# Seconds after which a name server that fell silent is asked one question again.
_PROBE_EVERY: Final = 30.0
# Messages that answer no open question and come to one port before another port is taken. To
# guess the id of an open question takes a forger 2**15 on average (RFC 5452, section 4.5).
_MAX_UNWANTED: Final = 1000
# Ids are drawn at random; with more in flight to one server the draw would take long.
_MAX_IN_FLIGHT: Final = 2**15
# Then the loop has its turn again.
_MESSAGES_PER_WAKE: Final = 64
# Answers to a thousand questions sent in one go fit into the socket.
_RECEIVE_BUFFER: Final = 1 << 20
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
_RCODES: Final = {1: "FORMERR", 2: "SERVFAIL", 4: "NOTIMP", 5: "REFUSED"}


class Unanswered(NamedTuple):
    """No server gave a usable answer; *timed_out* if none of them said anything."""

    why: str
    timed_out: bool


@dataclass(slots=True)
class QueryCounts:
    """What was sent and came of it."""

    sent: int = 0
    timed_out: int = 0
    over_tcp: int = 0
    unwanted: int = 0


class NameServers:
    """The name servers, each behind one connected socket.

    A connected socket takes messages from its server only and learns at once that nobody
    listens there. An answer must carry the id (random) and repeat the question.

    The first server is preferred. One that fell silent is not asked while another answers, but
    for a question now and then.
    """

    def __init__(
        self,
        *,
        servers: Sequence[Address],
        system: SystemServers | None,
        timeout: float,
        tries: int,
        rng: random.Random,
    ) -> None:
        """*timeout*, in seconds, is for the first of the *tries* and doubles with each.

        With *system* its servers are used as they change.
        """
        self.counts = QueryCounts()
        self._servers = servers
        self._system = system
        self._timeout = timeout
        self._tries = tries
        self._rng = rng
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channels: list[_Channel] = []
        self._open: set[_Question] = set()
        self._queue: deque[_Question] = deque()
        self._beginning = False
        self._over_tcp = asyncio.Semaphore(_MAX_OVER_TCP)
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(
        self, name: bytes, qtype: int, done: Callable[[dnswire.Answer | Unanswered], None]
    ) -> None:
        """Ask for *name* (wire form) and call *done* with the answer, perhaps at once.

        The sockets are opened by the first question, on the loop that runs it.
        """
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._channels = [_Channel(self, server) for server in self._servers]
        if self._system is not None:
            self._use(self._system.current())
        self._queue.append(_Question(self, dnswire.question(name, qtype), done))
        self.begin()

    async def close(self) -> None:
        """Answer every open question with Unanswered and close the sockets."""
        questions = [*self._open, *self._queue]
        self._queue.clear()
        for question in questions:
            question.finish(Unanswered("the resolver was closed", timed_out=False))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in self._channels:
            channel.close()
        self._channels = []

    def _use(self, servers: Sequence[Address]) -> None:
        """Ask *servers* from now on; what those that are gone were asked goes to them."""
        if servers is self._servers:
            return
        self._servers = servers
        older = {channel.address: channel for channel in self._channels}
        self._channels = [
            older.pop(address) if address in older else _Channel(self, address)
            for address in servers
        ]
        for channel in older.values():
            channel.abandon("is a name server no more")
            channel.close()

    # The rest is for the questions and channels of this module.

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    @property
    def tries(self) -> int:
        return self._tries

    def timeout_of(self, attempt: int) -> float:
        return self._timeout * 2.0**attempt

    @property
    def over_tcp(self) -> asyncio.Semaphore:
        return self._over_tcp

    def begin(self) -> None:
        """Ask the questions that wait, as many as may be under way.

        Not again from within: where nothing can be sent a thousand of them end at once.
        """
        if self._beginning:
            return
        self._beginning = True
        try:
            while self._queue and len(self._open) < _MAX_UNDER_WAY:
                question = self._queue.popleft()
                self._open.add(question)
                question.ask()
        finally:
            self._beginning = False

    def next_channel(self, last: _Channel | None, useless: set[_Channel]) -> _Channel | None:
        """Return the preferred server that is of use, another than *last* if there is one."""
        usable = [channel for channel in self._channels if channel not in useless]
        usable = [channel for channel in usable if channel is not last] or usable
        if len(usable) < 2:
            return usable[0] if usable else None
        best = min(usable, key=_silences)  # the first of equals
        if last is None and best is not usable[0]:
            now = self.loop.time()
            for channel in usable[: usable.index(best)]:
                if now >= channel.probe_at:
                    channel.probe_at = now + _PROBE_EVERY
                    return channel
        return best

    def draw_id(self) -> int:
        return self._rng.getrandbits(16)

    def start(self, coroutine: Coroutine[None, None, None]) -> None:
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, question: _Question) -> None:
        self._open.discard(question)


class _Question:
    """One question until it is answered: the servers asked so far and the time-out running."""

    __slots__ = (
        "_asked",
        "_attempt",
        "_done",
        "_ids",
        "_over_tcp",
        "_servers",
        "_timer",
        "_useless",
        "_why",
    )

    def __init__(
        self,
        servers: NameServers,
        asked: bytes,
        done: Callable[[dnswire.Answer | Unanswered], None],
    ) -> None:
        self._servers = servers
        self._asked = asked
        self._done: Callable[[dnswire.Answer | Unanswered], None] | None = done
        self._attempt = 0
        self._ids: list[tuple[_Channel, int]] = []
        self._useless: set[_Channel] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._why = ""
        self._over_tcp = False

    def ask(self) -> None:
        """Send the next attempt; ids of earlier ones stay valid, for late answers count too."""
        servers = self._servers
        while True:
            last = self._ids[-1][0] if self._ids else None
            channel = servers.next_channel(last, self._useless)
            if channel is None or self._attempt >= servers.tries:
                why = self._why or "no name server answered"
                self.finish(Unanswered(why, timed_out=not self._why))
                return
            ident = channel.send(self._asked, self)
            if ident is not None:
                break
            self._useless.add(channel)
            self._why = f"cannot send to {channel.name}"
        servers.counts.sent += 1
        self._ids.append((channel, ident))
        delay = servers.timeout_of(self._attempt)
        self._attempt += 1
        self._timer = servers.loop.call_later(delay, self._timed_out, channel)

    def _timed_out(self, channel: _Channel) -> None:
        self._servers.counts.timed_out += 1
        channel.fell_silent()
        self.ask()

    def ask_again(self, channel: _Channel) -> None:
        """Send the same to *channel* once more: it has another port, and knows no id of before."""
        self._ids = [(other, ident) for other, ident in self._ids if other is not channel]
        ident = channel.send(self._asked, self)
        if ident is None:
            self.give_up_on(channel, f"cannot send to {channel.name}")
        else:
            self._servers.counts.sent += 1
            self._ids.append((channel, ident))

    def answered(self, channel: _Channel, message: bytes) -> bool:
        """Take a message with one of this question's ids; return whether it answers it."""
        try:
            answer = dnswire.read_answer(message, self._asked)
        except dnswire.MalformedAnswerError:
            return False
        if answer.truncated:
            if self._over_tcp:
                return True  # said twice, or sent twice
            self._over_tcp = True
            self._stop_timer()
            self._servers.counts.over_tcp += 1
            self._servers.start(self._ask_over_tcp(channel))
        else:
            self._judge(channel, answer)
        return True

    def _judge(self, channel: _Channel, answer: dnswire.Answer) -> None:
        if answer.rcode in {dnswire.NOERROR, dnswire.NXDOMAIN}:
            self.finish(answer)
        else:
            rcode = _RCODES.get(answer.rcode, f"code {answer.rcode}")
            self.give_up_on(channel, f"{channel.name} says {rcode}")

    def give_up_on(self, channel: _Channel, why: str) -> None:
        """Ask the servers that are left, unless one of them is being asked already."""
        self._useless.add(channel)
        self._why = why
        if not self._ids or self._ids[-1][0] is channel:
            self._stop_timer()
            self.ask()

    async def _ask_over_tcp(self, channel: _Channel) -> None:
        try:
            async with asyncio.timeout(self._servers.timeout_of(1)), self._servers.over_tcp:
                message = await channel.ask_over_tcp(dnswire.query(0, self._asked))
            answer = dnswire.read_answer(message, self._asked)
        except (OSError, EOFError, dnswire.MalformedAnswerError) as e:
            self._over_tcp = False
            if self._done is not None:
                self.give_up_on(channel, f"{channel.name} over TCP: {e or type(e).__name__}")
            return
        if self._done is not None:
            self._judge(channel, answer)

    def finish(self, result: dnswire.Answer | Unanswered) -> None:
        """Say *result* to whoever asked, once."""
        done, self._done = self._done, None
        if done is None:
            return
        self._stop_timer()
        for channel, ident in self._ids:
            channel.forget(ident)
        self._servers.forget(self)
        done(result)
        self._servers.begin()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Channel:
    """One name server: its socket, and the questions by message id that wait for it."""

    def __init__(self, servers: NameServers, address: Address) -> None:
        host, port = address
        self.address = address
        self.name = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
        # Questions that timed out since the last answer, and when one of them may be tried again.
        self.silences = 0
        self.probe_at = 0.0
        self._servers = servers
        self._waiting: dict[int, _Question] = {}
        self._unwanted = 0
        self._socket: socket.socket | None = None
        self._connect()

    def _connect(self) -> None:
        """Open a socket, on a port that the system draws at random."""
        host, port = self.address
        sock = None
        try:
            # Nothing is looked up: this reads the scope of a link-local address ("fe80::1%eth0").
            family, kind, proto, _, there = socket.getaddrinfo(
                host, port, type=socket.SOCK_DGRAM, flags=_NUMERIC
            )[0]
            sock = socket.socket(family, kind, proto)
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            sock.connect(there)
        except OSError:  # no way there, as to an IPv6 server from a host without IPv6
            if sock is not None:
                sock.close()
        else:
            self._socket = sock
            self._listen(sock)

    def _listen(self, sock: socket.socket) -> None:
        """Be told of messages, and of errors; to be called again after each error.

        libuv, beneath uvloop, stops watching a socket that has reported one.
        """
        self._servers.loop.remove_reader(sock.fileno())
        self._servers.loop.add_reader(sock.fileno(), self._readable, sock)

    def send(self, asked: bytes, question: _Question) -> int | None:
        """Send and return the message id, or None when nothing can be sent there."""
        if self._socket is None or len(self._waiting) >= _MAX_IN_FLIGHT:
            return None
        ident = self._servers.draw_id()
        while ident in self._waiting:
            ident = self._servers.draw_id()
        message = dnswire.query(ident, asked)
        try:
            self._socket.send(message)
        except BlockingIOError:
            pass  # as good as lost on the way: the time-out repeats it
        except OSError:
            # This may be the report of an earlier message (nobody listens): it is not sent.
            self._listen(self._socket)
            try:
                self._socket.send(message)
            except BlockingIOError:
                pass
            except OSError:
                self.fell_silent()
                return None
        self._waiting[ident] = question
        return ident

    def _readable(self, sock: socket.socket) -> None:
        for n in range(_MESSAGES_PER_WAKE):
            try:
                message = sock.recv(65535)
            except BlockingIOError:
                if n == 0:  # woken by an error that sending has met already
                    self._listen(sock)
                return
            except OSError as e:  # nobody listens there, or no way to it
                self._listen(sock)
                self.fell_silent()
                self.abandon(str(e.strerror))
                return
            asker = self._waiting.get(int.from_bytes(message[:2], "big"))
            if asker is not None and asker.answered(self, message):
                self.silences = 0
            elif self._is_flooded():
                return

    def _is_flooded(self) -> bool:
        """Count a message that nobody asked for; with too many, go on at another port."""
        self._servers.counts.unwanted += 1
        self._unwanted += 1
        if self._unwanted < _MAX_UNWANTED:
            return False
        questions = set(self._waiting.values())
        self._waiting.clear()
        self._unwanted = 0
        self.close()
        self._connect()
        for question in questions:
            question.ask_again(self)
        return True

    def fell_silent(self) -> None:
        """A question has timed out, or nobody listens."""
        self.silences += 1
        self.probe_at = self._servers.loop.time() + _PROBE_EVERY

    def abandon(self, why: str) -> None:
        """Nothing will come from here: what waits for it asks the other servers."""
        for question in set(self._waiting.values()):
            question.give_up_on(self, f"{self.name}: {why}")

    async def ask_over_tcp(self, message: bytes) -> bytes:
        """Return the answer to one message over a connection of its own."""
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            writer.write(struct.pack(">H", len(message)) + message)
            size = int.from_bytes(await reader.readexactly(2), "big")
            return await reader.readexactly(size)
        finally:
            writer.close()

    def forget(self, ident: int) -> None:
        self._waiting.pop(ident, None)

    def close(self) -> None:
        if self._socket is not None:
            self._servers.loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None


def _silences(channel: _Channel) -> int:
    return channel.silences
