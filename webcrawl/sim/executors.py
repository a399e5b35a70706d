"""Executors in virtual time: work of theirs takes a drawn time, and is done by the loop's thread.

What is submitted waits until its time has come, or until somebody asks for the result; work of one
executor is done in its order. So the state that a thread would share changes at drawn moments, the
same for the same seed.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from webcrawl.sim.loop import VirtualLoop


class _Work(Future[Any]):
    """Work that is done when its result is asked for, at the latest."""

    def __init__(self, queue: deque[_Work], call: Callable[[], Any]) -> None:
        super().__init__()
        self._queue = queue
        self._call = call
        queue.append(self)

    def do(self) -> None:
        """Do it, after what was submitted before."""
        while not self.done() and self._queue:
            self._queue.popleft()._do()

    def _do(self) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = self._call()
        except BaseException as error:  # noqa: BLE001  # raised where the result is asked for
            self.set_exception(error)
        else:
            self.set_result(result)

    def result(self, timeout: float | None = None) -> Any:
        self.do()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.do()
        return super().exception(timeout)


def replace_threads(loop: VirtualLoop, rng: random.Random, *, most_secs: float) -> None:
    """Let all executors of this process work in the time of *loop*, up to *most_secs* for each
    piece of work. For good: the process must be a simulated one."""

    def queue_of(executor: ThreadPoolExecutor) -> deque[_Work]:
        queue: deque[_Work] = executor.__dict__.setdefault("simulated", deque())
        return queue

    def submit(
        self: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        if self._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        work = _Work(queue_of(self), lambda: call(*args, **kwargs))
        loop.call_later(rng.random() * most_secs, work.do)
        return work

    def shutdown(
        self: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False
    ) -> None:
        self._shutdown = True
        queue = queue_of(self)
        while queue and cancel_futures:
            queue.popleft().cancel()
        if queue and wait:
            queue[-1].do()

    ThreadPoolExecutor.submit = submit  # type: ignore[method-assign,assignment]  # the seam
    ThreadPoolExecutor.shutdown = shutdown  # type: ignore[method-assign,assignment]  # the seam
