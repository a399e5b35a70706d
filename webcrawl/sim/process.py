"""Turns this process into a simulated one, with simulated time, randomness and network."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from scrapy.utils.reactor import install_reactor

from webcrawl import clock, randomness
from webcrawl.net.dns import query
from webcrawl.net.http.tls import TlsContext
from webcrawl.sim.loop import BEGAN, VirtualLoop
from webcrawl.sim.network import Network, refuse_other_sockets
from webcrawl.spiders import web

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from webcrawl.sim.web import SimulatedWeb

_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
_LOOP = "webcrawl.sim.loop.VirtualLoop"
# Maximum delay until the work of a thread is done, in simulated seconds.
_WORK_SECS = 0.02


def simulate(seed: int, servers: SimulatedWeb, *, began: float = 0.0) -> VirtualLoop:
    """Turn this process into a simulated one until it ends; return its event loop.

    From now on, all connections lead to *servers*, and all randomness derives from *seed*. The time
    of the loop starts at *began* seconds. Scrapy's settings must include ``SETTINGS``.
    """
    randomness.draw_from(seed)
    network = Network(servers)
    loop = VirtualLoop(network, began=began)
    asyncio.set_event_loop(loop)
    clock.take_from(boot=loop.time, wall=lambda: BEGAN + loop.time())
    install_reactor(_REACTOR, _LOOP)
    from twisted.internet import reactor  # noqa: PLC0415  # it must be installed first

    _replace_threads(loop, randomness.generator("threads"))
    for owner, name, value in (
        (reactor, "seconds", loop.time),
        (query, "connected_socket", network.datagrams),
        (TlsContext, "new_layer", lambda _, protocol, _to: _Unencrypted(protocol)),
        (web, "_in_daemon_thread", _call_immediately),
        (signal, "setitimer", lambda *_: (0.0, 0.0)),  # it would measure real CPU time
        (time, "time", clock.wall_time),  # for Scrapy, logging and other people's code
        (time, "time_ns", lambda: int(clock.wall_time() * 1e9)),
        (time, "monotonic", loop.time),
        (time, "perf_counter", loop.time),
    ):
        setattr(owner, name, value)
    refuse_other_sockets()
    return loop


#: Settings that a simulated process needs.
SETTINGS: dict[str, Any] = {
    "TWISTED_REACTOR": _REACTOR,
    "ASYNCIO_EVENT_LOOP": _LOOP,
    "DNS_SERVERS": "192.0.2.53",
    "CONTROL_ENABLED": False,  # the loop has no sockets of this machine
}


async def _call_immediately(call: Callable[[], None]) -> None:
    """Call *call* in this thread, in place of a daemon thread."""
    call()


class _Unencrypted(asyncio.Protocol):
    """Replacement for TLS that sends everything unencrypted."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.set_protocol(self._protocol)
        self._protocol.connection_made(transport)

    async def wait_until_open(self) -> None:
        """Return immediately, because there is no TLS handshake."""


class _Work(Future[Any]):
    """Result of work submitted to an executor; the work is done when its result is requested.

    It may be done earlier. *queue* is that of the executor.
    """

    def __init__(self, queue: deque[_Work], call: Callable[[], Any]) -> None:
        super().__init__()
        self._queue = queue
        self._call = call
        queue.append(self)

    def do(self) -> None:
        """Do this work, after the work submitted to the same executor before it."""
        while not self.done() and self._queue:
            self._queue.popleft()._do_alone()

    def _do_alone(self) -> None:
        """Do only this work, and set its result or exception."""
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = self._call()
        except BaseException as error:  # noqa: BLE001  # raised where the result is requested
            self.set_exception(error)
        else:
            self.set_result(result)

    def result(self, timeout: float | None = None) -> Any:
        self.do()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.do()
        return super().exception(timeout)


def _replace_threads(loop: VirtualLoop, rng: random.Random) -> None:
    """Make the loop's thread do the work of all executors, at random times.

    Submitted work waits until its time has come, or until its result is requested. The work of one
    executor is done in the order of submission. So state that threads would share changes at random
    times, which are the same for the same seed. This cannot be undone: the process must be a
    simulated one.
    """

    def queue_of(executor: ThreadPoolExecutor) -> deque[_Work]:
        queue: deque[_Work] = executor.__dict__.setdefault("simulated", deque())
        return queue

    def submit(
        self: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        """Queue *call* for a random time; replaces the method of ThreadPoolExecutor."""
        if self._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        work = _Work(queue_of(self), lambda: call(*args, **kwargs))
        loop.call_later(rng.random() * _WORK_SECS, work.do)
        return work

    def shutdown(
        self: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False
    ) -> None:
        """Cancel or do the queued work; replaces the method of ThreadPoolExecutor."""
        self._shutdown = True
        queue = queue_of(self)
        while queue and cancel_futures:
            queue.popleft().cancel()
        if queue and wait:
            queue[-1].do()

    ThreadPoolExecutor.submit = submit  # type: ignore[method-assign,assignment]
    ThreadPoolExecutor.shutdown = shutdown  # type: ignore[method-assign,assignment]
