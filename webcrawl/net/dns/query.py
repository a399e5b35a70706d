"""DNS queries: choice of the name server, repetition, and evaluation of the answers.

Called by the resolver only; the sockets are in `dnschannel`. A question is a small state machine
on the event loop's callbacks instead of a task with a future and a timeout: ten thousand may wait
at once, and one costs little more than its two system calls.

Invariant: `done` of every question is called exactly once, within the time-outs, and after it
nothing of the question is left behind: no timer, no message id, no task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from webcrawl.clock import now
from webcrawl.net.dns import wire as dnswire
from webcrawl.net.dns.channel import PROBE_EVERY, Channel, QueryCounts

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Sequence

    from webcrawl.net.dns.servers import Address

# Questions under way; the others wait their turn. A name server drops what it has no room for:
# unbound takes 1,024 for each of its threads, and its socket holds fewer. At 200 ms each these are
# 5,000 answers a second.
_MAX_UNDER_WAY: Final = 1024
# Connections under way, each for one answer that was truncated.
_MAX_OVER_TCP: Final = 64
_RCODES: Final = {1: "FORMERR", 2: "SERVFAIL", 4: "NOTIMP", 5: "REFUSED"}


class Unanswered(NamedTuple):
    """No server gave a usable answer; *timed_out* if none of them said anything."""

    why: str
    timed_out: bool


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
        servers: Callable[[], Sequence[Address]],
        timeout: float,
        tries: int,
        rng: random.Random,
    ) -> None:
        """*servers* are used as they change. *timeout*, in seconds, is for the first of the
        *tries* and doubles with each."""
        self.counts = QueryCounts()
        self.timeout = timeout
        self.tries = tries
        self.over_tcp = asyncio.Semaphore(_MAX_OVER_TCP)
        self.open: set[_Question] = set()
        self.loop: asyncio.AbstractEventLoop  # since the first question
        self._servers = servers
        self._rng = rng
        self._in_use: Sequence[Address] = ()
        self._channels: list[Channel] = []
        self._queue: deque[_Question] = deque()
        self._beginning = False
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(
        self, name: bytes, qtype: int, done: Callable[[dnswire.Answer | Unanswered], None]
    ) -> None:
        """Ask for *name* (wire form) and call *done* with the answer, perhaps at once.

        The sockets are opened by the first question, on the loop that runs it.
        """
        self.loop = asyncio.get_running_loop()
        servers = self._servers()
        if servers != self._in_use:
            self._use(servers)
        self._queue.append(_Question(self, dnswire.question(name, qtype), done))
        self.begin()

    async def close(self) -> None:
        """Answer every open question with Unanswered and close the sockets."""
        questions = [*self.open, *self._queue]
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

    def _channel(self, address: Address) -> Channel:
        return Channel(address=address, loop=self.loop, counts=self.counts, rng=self._rng)

    def _use(self, servers: Sequence[Address]) -> None:
        """Ask *servers* from now on; what those that are gone were asked goes to them."""
        self._in_use = servers
        older = {channel.address: channel for channel in self._channels}
        self._channels = [
            older.pop(address) if address in older else self._channel(address)
            for address in servers
        ]
        for channel in older.values():
            channel.abandon("is a name server no more")
            channel.close()

    # The rest is for the questions and channels of this module.

    def begin(self) -> None:
        """Ask the questions that wait, as many as may be under way.

        Not again from within: where nothing can be sent a thousand of them end at once.
        """
        if self._beginning:
            return
        self._beginning = True
        try:
            while self._queue and len(self.open) < _MAX_UNDER_WAY:
                question = self._queue.popleft()
                self.open.add(question)
                question.ask()
        finally:
            self._beginning = False

    def next_channel(self, last: Channel | None, useless: set[Channel]) -> Channel | None:
        """Return the preferred server that is of use, another than *last* if there is one."""
        usable = [channel for channel in self._channels if channel not in useless]
        usable = [channel for channel in usable if channel is not last] or usable
        if len(usable) < 2:
            return usable[0] if usable else None
        best = min(usable, key=lambda channel: channel.silences)  # the first of equals
        if last is None and best is not usable[0]:
            at = now()
            for channel in usable[: usable.index(best)]:
                if at >= channel.probe_at:
                    channel.probe_at = at + PROBE_EVERY
                    return channel
        return best

    def start(self, coroutine: Coroutine[None, None, None]) -> None:
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


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
        self._ids: list[tuple[Channel, int]] = []
        self._useless: set[Channel] = set()
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
        delay = servers.timeout * 2.0**self._attempt
        self._attempt += 1
        self._timer = servers.loop.call_later(delay, self._timed_out, channel)

    def _timed_out(self, channel: Channel) -> None:
        self._servers.counts.timed_out += 1
        channel.fell_silent()
        self.ask()

    def ask_again(self, channel: Channel) -> None:
        """Send the same to *channel* once more: it has another port, and knows no id of before."""
        self._ids = [(other, ident) for other, ident in self._ids if other is not channel]
        ident = channel.send(self._asked, self)
        if ident is None:
            self.give_up_on(channel, f"cannot send to {channel.name}")
        else:
            self._servers.counts.sent += 1
            self._ids.append((channel, ident))

    def answered(self, channel: Channel, message: bytes) -> bool:
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
            self._servers.start(self._ask_over_tcp(channel, answer))
        else:
            self._judge(channel, answer)
        return True

    def _judge(self, channel: Channel, answer: dnswire.Answer) -> None:
        if answer.rcode in {dnswire.NOERROR, dnswire.NXDOMAIN}:
            self.finish(answer)
        else:
            rcode = _RCODES.get(answer.rcode, f"code {answer.rcode}")
            self.give_up_on(channel, f"{channel.name} says {rcode}")

    def give_up_on(self, channel: Channel, why: str) -> None:
        """Ask the servers that are left, unless one of them is being asked already."""
        self._useless.add(channel)
        self._why = why
        if not self._ids or self._ids[-1][0] is channel:
            self._stop_timer()
            self.ask()

    async def _ask_over_tcp(self, channel: Channel, part: dnswire.Answer) -> None:
        """Get the whole answer, or make do with *part* of it: some firewalls pass no DNS by TCP."""
        try:
            async with asyncio.timeout(2 * self._servers.timeout), self._servers.over_tcp:
                message = await channel.ask_over_tcp(dnswire.query(0, self._asked))
            answer = dnswire.read_answer(message, self._asked)
        except (OSError, EOFError, dnswire.MalformedAnswerError) as e:
            self._over_tcp = False
            if self._done is not None and part.addresses:
                self._judge(channel, part)
            elif self._done is not None:
                self.give_up_on(channel, f"{channel.name} over TCP: {e or type(e).__name__}")
            return
        if self._done is None:
            return
        if answer.truncated and not answer.addresses:
            self._over_tcp = False
            self.give_up_on(channel, f"{channel.name} truncates over TCP, too")
        else:
            self._judge(channel, answer)

    def finish(self, result: dnswire.Answer | Unanswered) -> None:
        """Say *result* to whoever asked, once."""
        done, self._done = self._done, None
        if done is None:
            return
        self._stop_timer()
        for channel, ident in self._ids:
            channel.forget(ident)
        self._servers.open.discard(self)
        done(result)
        self._servers.begin()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
