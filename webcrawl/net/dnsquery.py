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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from webcrawl.net import dnswire

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Sequence

# Ids are drawn at random; with more in flight to one server the draw would take long.
_MAX_IN_FLIGHT: Final = 2**15
# Then the loop has its turn again.
_MESSAGES_PER_WAKE: Final = 64
# Answers to a thousand questions sent in one go fit into the socket.
_RECEIVE_BUFFER: Final = 1 << 20
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


class NameServers:
    """The configured servers, each behind one connected socket.

    A connected socket takes messages from its server only and learns at once that nobody
    listens there. An answer must carry the id (random) and repeat the question.
    """

    def __init__(
        self, *, servers: Sequence[tuple[str, int]], timeout: float, tries: int, rng: random.Random
    ) -> None:
        """*timeout*, in seconds, is for the first of the *tries* and doubles with each."""
        self.counts = QueryCounts()
        self._servers = tuple(servers)
        self._timeout = timeout
        self._tries = tries
        self._rng = rng
        self._loop: asyncio.AbstractEventLoop | None = None
        self._channels: list[_Channel] = []
        # Where questions begin: moves on when the server there lets one time out.
        self._first = 0
        self._open: set[_Question] = set()
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
        question = _Question(self, dnswire.question(name, qtype), done)
        self._open.add(question)
        question.ask()

    async def close(self) -> None:
        """Answer every open question with Unanswered and close the sockets."""
        for question in list(self._open):
            question.finish(Unanswered("the resolver was closed", timed_out=False))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in self._channels:
            channel.close()
        self._channels = []

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

    def next_channel(self, last: _Channel | None, useless: set[_Channel]) -> _Channel | None:
        """Return the preferred server that is of use, another than *last* if there is one."""
        count = len(self._channels)
        order = [self._channels[(self._first + n) % count] for n in range(count)]
        usable = [channel for channel in order if channel not in useless]
        return next((c for c in usable if c is not last), usable[0] if usable else None)

    def say_silent(self, channel: _Channel) -> None:
        if self._channels[self._first] is channel:
            self._first = (self._first + 1) % len(self._channels)

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
        self._servers.say_silent(channel)
        self.ask()

    def answered(self, channel: _Channel, message: bytes) -> None:
        """Take a message with one of this question's ids; ignore it if it is no answer."""
        try:
            answer = dnswire.read_answer(message, self._asked)
        except dnswire.MalformedAnswerError:
            return
        if answer.truncated:
            if self._over_tcp:
                return  # said twice, or sent twice
            self._over_tcp = True
            self._stop_timer()
            self._servers.counts.over_tcp += 1
            self._servers.start(self._ask_over_tcp(channel))
        else:
            self._judge(channel, answer)

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
        if self._ids[-1][0] is channel:
            self._stop_timer()
            self.ask()

    async def _ask_over_tcp(self, channel: _Channel) -> None:
        try:
            async with asyncio.timeout(self._servers.timeout_of(1)):
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

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Channel:
    """One name server: its socket, and the questions by message id that wait for it."""

    def __init__(self, servers: NameServers, address: tuple[str, int]) -> None:
        host, port = address
        self.name = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
        self._servers = servers
        self._address = address
        self._waiting: dict[int, _Question] = {}
        self._socket: socket.socket | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            self._socket.connect(address)
        except OSError:  # no way there, as to an IPv6 server from a host without IPv6
            self.close()
        else:
            self._listen(self._socket)

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
                for question in set(self._waiting.values()):
                    question.give_up_on(self, f"{self.name}: {e.strerror}")
                return
            if len(message) >= 2:
                asker = self._waiting.get(int.from_bytes(message[:2], "big"))
                if asker is not None:
                    asker.answered(self, message)

    async def ask_over_tcp(self, message: bytes) -> bytes:
        """Return the answer to one message over a connection of its own."""
        reader, writer = await asyncio.open_connection(*self._address)
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
