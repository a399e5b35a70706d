"""DNS queries: choose a name server, send questions, retry, and evaluate the answers.

Called by the resolver only. A question is a small state machine that runs on callbacks of the event
loop, not a task with a future and a timeout. So ten thousand questions may wait at a time, and each
costs little more than its two system calls.

Invariants: `done` of every question is called exactly once, within the timeouts. After that nothing
of the question is left: no timer, message id or task. A message id is drawn at random and belongs
to one question until that is done.
"""

from __future__ import annotations

import asyncio
import random
import socket
from array import array
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from webcrawl.clock import now
from webcrawl.net.dns import wire as dnswire
from webcrawl.net.dns.servers import Address

# Number of random bytes that are drawn at a time for message ids.
_RANDOM_BYTES = 1024
# Seconds after which a name server that stopped answering is tried with one question. If it has not
# answered for that long, another socket is used, as this machine may have a new address.
_PROBE_EVERY = 30.0
#: Maximum number of questions in progress; others wait for their turn. A name server drops
#: questions for which it has no room: unbound accepts 1,024 per thread, and its socket holds fewer.
#: At 200 ms each this allows 5,000 answers per second.
MAX_IN_PROGRESS = 1024
# Maximum number of TCP connections at a time, each for one truncated answer.
_MAX_OVER_TCP = 64
# After this many messages to one port that answer no open question, another port is used. A forger
# needs 2**15 messages on average to guess the id of an open question (RFC 5452, section 4.5).
_MAX_UNWANTED = 1000
# Number of messages that are read before the event loop continues.
_MESSAGES_PER_WAKE = 64
# Large enough for the answers to a thousand questions.
_RECEIVE_BUFFER = 1 << 20
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
# Response codes that say something about the name; all others concern the name server.
_ABOUT_NAMES = (dnswire.NOERROR, dnswire.NXDOMAIN)
_RCODES = {1: "FORMERR", 2: "SERVFAIL", 4: "NOTIMP", 5: "REFUSED"}


class Unanswered(NamedTuple):
    """The result if no server returned a usable answer: *why*, and whether none answered at all."""

    why: str
    timed_out: bool


DnsResult = dnswire.DnsAnswer | Unanswered
Done = Callable[[DnsResult], None]


@dataclass(kw_only=True, eq=False, repr=False)
class NameServers:
    """Sends questions to the name servers.

    The first server is preferred. A server that stopped answering is not used while another one
    answers, except for one question now and then.

    *servers* returns the name servers and is called for each question, as they may change. A
    question is tried up to *tries* times. The first try has *timeout* seconds, and each further try
    twice as many as the one before.
    """

    servers: Callable[[], Sequence[Address]]
    timeout: float
    tries: int
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    over_tcp: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_OVER_TCP))
    #: The questions in progress, by message id.
    open: dict[int, _Question] = field(default_factory=dict)
    # Random message ids that were not used yet.
    _idents: array[int] = field(default_factory=lambda: array("H"))
    _channels: dict[Address, _Channel] = field(default_factory=dict)
    # Questions that wait until fewer are in progress.
    _queue: deque[_Question] = field(default_factory=deque)
    _is_sending: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def ask(self, name: bytes, qtype: int, done: Done) -> None:
        """Ask for the *qtype* records of *name* (wire form), and call *done* with the answer.

        *done* may be called before this returns.
        """
        self._queue.append(_Question(self, dnswire.question(name, qtype), done))
        self.send_waiting()

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

    # Used by the questions and channels.

    def send_waiting(self) -> None:
        """Send waiting questions, as many as may be in progress.

        A nested call does nothing: if no question can be sent, a thousand of them fail in one call,
        and each of these calls this method again.
        """
        if self._is_sending:
            return

        self._is_sending = True
        try:
            while self._queue and len(self.open) < MAX_IN_PROGRESS:
                ident = self._new_ident()
                question = self._queue.popleft()
                self.open[ident] = question
                question.begin(ident)
        finally:
            self._is_sending = False

    def _new_ident(self) -> int:
        """Return a random message id that no question in progress has."""
        while True:
            if not self._idents:  # in batches, as a system call for each is costly
                self._idents.frombytes(self.rng.randbytes(_RANDOM_BYTES))
            ident = self._idents.pop()
            if ident not in self.open:
                return ident

    def next_channel(self, last: _Channel | None, failed: Sequence[_Channel]) -> _Channel | None:
        """Return the channel to the server to use next; None if all of them have *failed*.

        It is another one than *last*, the server that was used last, if there are several.
        """
        servers = self.servers()
        first = self._channels.get(servers[0]) if servers else None
        # The usual case: the preferred server answers.
        if first is not None and last is None and not (first.timeouts or failed):
            return first

        channels = [
            self._channels.get(server) or self._channels.setdefault(server, _Channel(server, self))
            for server in servers
        ]
        usable = [channel for channel in channels if channel not in failed]
        usable = [channel for channel in usable if channel is not last] or usable
        if len(usable) < 2:
            return usable[0] if usable else None

        # The one that answered best; of several, the preferred one.
        best = min(usable, key=lambda channel: channel.timeouts)
        # Servers that are preferred to it, but stopped answering, are tried now and then.
        if last is None and best is not usable[0]:
            time = now()
            for channel in usable[: usable.index(best)]:
                if time >= channel.probe_at:
                    channel.probe_at = time + _PROBE_EVERY
                    return channel
        return best

    def start(self, coroutine: Coroutine[None, None, None]) -> None:
        """Run *coroutine* as a task, which ``close`` cancels."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Channel:
    """A name server, and the socket to it, which is opened when a message is sent.

    A connected socket receives messages from its server only, and reports immediately if no server
    listens there. If a socket is replaced, questions sent over the old one are sent again after
    their timeout.
    """

    def __init__(self, address: Address, servers: NameServers) -> None:
        host, port = address
        self.address = address
        self.name = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
        # Number of questions that timed out since the last answer.
        self.timeouts = 0
        # When the server may be tried again although it stopped answering.
        self.probe_at = 0.0
        self._servers = servers
        # None until a message is sent, and after it was closed.
        self._socket: socket.socket | None = None
        self.loop = asyncio.get_running_loop()
        # Number of messages that this socket received and that answer no open question.
        self._unwanted = 0
        # Time of the last answer over this socket, or when it was opened if there was none.
        self._answered_at = 0.0

    def send(self, message: bytes) -> None:
        """Send *message*; raise OSError if that is not possible."""
        try:
            sock = self._socket or self._connect()
            sock.send(message)
        except BlockingIOError:
            pass  # like a lost packet: it is sent again after the timeout
        except OSError as e:
            # The error may concern an earlier message, if no server listens there. Then all
            # questions to this server are sent elsewhere, but only after this one.
            self.loop.call_soon(self._abandon, e)
            raise

    def note_timeout(self) -> None:
        """Record that a question has timed out, or that no server listens there."""
        time = now()
        self.timeouts += 1
        self.probe_at = time + _PROBE_EVERY
        if time - self._answered_at >= _PROBE_EVERY:
            self.close()  # a new socket helps if this machine has a new address

    def close(self) -> None:
        """Close the socket; the next message will open another one, on another port."""
        if self._socket is not None:
            self.loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _connect(self) -> socket.socket:
        """Open a socket, have the event loop read from it, and return it. Raises OSError."""
        sock = connected_socket(self.address)
        self._socket = sock
        self.loop.add_reader(sock.fileno(), self._read_messages)
        self._unwanted = 0
        self._answered_at = now()
        return sock

    def _read_messages(self) -> None:
        """Read messages from the socket, and pass them to their questions."""
        for _ in range(_MESSAGES_PER_WAKE):
            if self._socket is None:
                return

            try:
                message = self._socket.recv(65535)
            except BlockingIOError:
                return
            except OSError as e:  # no server listens there, or there is no route
                self.note_timeout()
                self._abandon(e)
                return

            # A message begins with the id of its question.
            question = self._servers.open.get(int.from_bytes(message[:2], "big"))
            if question is not None and question.process_answer(self, message):
                self.timeouts = 0
                self._answered_at = now()
            else:
                self._servers.counts["unwanted_answers"] += 1
                self._unwanted += 1
                if self._unwanted >= _MAX_UNWANTED:
                    self.close()

    def _abandon(self, error: OSError) -> None:
        """Close the socket after *error*, and send this server's questions to other servers."""
        self.close()
        for question in list(self._servers.open.values()):
            question.give_up_on(self, f"{self.name}: {error.strerror}")


@dataclass(slots=True, eq=False, repr=False)
class _Question:
    """An open question: the servers to which it was sent so far, and the current timeout."""

    _servers: NameServers
    # The question section of the message.
    _asked: bytes
    # None after it was called.
    _done: Done | None
    # The message id; -1 while the question waits for its turn.
    _ident: int = -1
    # Number of times that it was sent.
    _attempt: int = 0
    # The channel over which it was sent last, all over which it was sent, and those that have
    # reported an error.
    _last: _Channel | None = None
    _sent_to: tuple[_Channel, ...] = ()
    _failed: tuple[_Channel, ...] = ()
    _timer: asyncio.TimerHandle | None = None
    # The last reported error; empty if all servers were merely silent.
    _why: str = ""
    # Whether the answer is being fetched over TCP.
    _over_tcp: bool = False

    def begin(self, ident: int) -> None:
        """Send the question for the first time, with the message id *ident*."""
        self._ident = ident
        self._ask()

    def _ask(self) -> None:
        """Send the question to the next server, or finish it if there were enough attempts.

        An answer from a server to which it was sent earlier is accepted, too.
        """
        servers = self._servers
        message = dnswire.query(self._ident, self._asked)
        while True:
            channel = servers.next_channel(self._last, self._failed)
            if channel is None or self._attempt >= servers.tries:
                # If no server has reported an error, all of them were silent.
                why = self._why or "no name server answered"
                self.finish(Unanswered(why, timed_out=not self._why))
                return
            try:
                channel.send(message)
                break
            except OSError:
                self._failed += (channel,)
                self._why = f"cannot send to {channel.name}"

        servers.counts["queries"] += 1
        self._last = channel
        self._sent_to += (channel,)
        delay = servers.timeout * 2.0**self._attempt
        self._attempt += 1
        self._timer = channel.loop.call_later(delay, self._handle_timeout, channel)

    def _handle_timeout(self, channel: _Channel) -> None:
        """Try again, as *channel* did not answer in time."""
        self._servers.counts["query_timeouts"] += 1
        channel.note_timeout()
        self._ask()

    def process_answer(self, channel: _Channel, message: bytes) -> bool:
        """Process *message* from *channel*, which has the id of this question.

        Returns whether it is an answer to the question.
        """
        if channel not in self._sent_to:
            return False
        try:
            answer = dnswire.read_answer(message, self._asked)
        except dnswire.MalformedAnswerError:
            return False

        if not answer.truncated:
            self._accept(channel, answer)
        elif not self._over_tcp:  # otherwise the truncated answer was received twice
            self._over_tcp = True
            self._stop_timer()
            self._servers.counts["over_tcp"] += 1
            self._servers.start(self._ask_over_tcp(channel, answer))
        return True

    def _accept(self, channel: _Channel, answer: dnswire.DnsAnswer) -> None:
        """Finish with *answer*, or try another server if *channel* reports an error of its own."""
        if answer.rcode in _ABOUT_NAMES:
            self.finish(answer)
        else:
            rcode = _RCODES.get(answer.rcode, f"code {answer.rcode}")
            self.give_up_on(channel, f"{channel.name} answered {rcode}")

    def give_up_on(self, channel: _Channel, why: str) -> None:
        """Do not wait for *channel* any longer; try other servers unless one is being tried."""
        if channel not in self._sent_to:
            return
        self._failed += (channel,)
        self._why = why
        if self._last is channel:
            self._stop_timer()
            self._ask()

    async def _ask_over_tcp(self, channel: _Channel, part: dnswire.DnsAnswer) -> None:
        """Fetch the whole answer over TCP, or use *part*, its beginning, if that fails.

        Some firewalls block DNS over TCP.
        """
        why = f"{channel.name} truncates its answer over TCP, too"
        try:
            async with asyncio.timeout(2 * self._servers.timeout), self._servers.over_tcp:
                message = await _answer_over_tcp(
                    channel.address, dnswire.query(self._ident, self._asked)
                )
            answer = dnswire.read_answer(message, self._asked)
        except (OSError, EOFError, dnswire.MalformedAnswerError) as e:
            answer = part
            why = f"{channel.name} over TCP: {e or type(e).__name__}"

        if self._done is None:  # another server has answered meanwhile
            return
        self._over_tcp = False
        # A truncated answer with some of the addresses is good enough.
        if answer.truncated and not answer.addresses:
            self.give_up_on(channel, why)
        else:
            self._accept(channel, answer)

    def finish(self, result: DnsResult) -> None:
        """Call `done` with *result*, unless it was called before, and begin other questions."""
        done = self._done
        self._done = None
        if done is None:
            return

        self._stop_timer()
        self._servers.open.pop(self._ident, None)
        done(result)
        self._servers.send_waiting()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def connected_socket(address: Address) -> socket.socket:
    """Return a new non-blocking socket to *address*; raise OSError if there is no route."""
    host, port = address
    # Nothing is looked up here: this parses the scope of a link-local address ("fe80::1%eth0").
    family, kind, proto, _, socket_address = socket.getaddrinfo(
        host, port, type=socket.SOCK_DGRAM, flags=_NUMERIC
    )[0]

    sock = socket.socket(family, kind, proto)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    try:
        sock.connect(socket_address)
    except OSError:
        sock.close()
        raise
    return sock


async def _answer_over_tcp(server: Address, message: bytes) -> bytes:
    """Send *message* to *server* over a new TCP connection, and return the answer."""
    reader, writer = await asyncio.open_connection(*server)
    with closing(writer):
        writer.write(len(message).to_bytes(2, "big") + message)
        size = int.from_bytes(await reader.readexactly(2), "big")
        return await reader.readexactly(size)
