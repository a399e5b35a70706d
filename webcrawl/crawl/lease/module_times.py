"""Time of the event loop that each processing module takes, and the pages that it has in hand.

An item pipeline runs in the event loop unless it says otherwise. If it blocks there, for instance
by ``time.sleep`` or ``requests.get``, nothing else happens meanwhile: downloads time out, timers
are late. Costs 1 us for each call of a module, and another one for a coroutine.
"""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from webcrawl.errors import path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from webcrawl.clock import TimeSource


class Hold(NamedTuple):
    """How much *module* held the event loop: a *share* of the time, and seconds for each page."""

    module: str = ""
    share: float = 0.0
    page_secs: float = 0.0


class _Use(msgspec.Struct):
    """Use of the event loop by *module*: seconds for *calls*. *pages* are in its coroutines now."""

    module: str
    secs: float = 0.0
    calls: int = 0
    pages: int = 0


class ModuleTimes:
    """Times of all processing modules of a process. *clock* gives seconds."""

    def __init__(self, *, clock: TimeSource) -> None:
        self._clock = clock
        self._since = clock()
        self._uses: list[_Use] = []

    def watch(self, process: Callable[..., Any]) -> Callable[..., Any]:
        """Return *process*, the ``process_item`` of a module, with its time measured."""
        module, clock = getattr(process, "__self__", None), self._clock
        if getattr(module, "off_loop", False):
            return process  # it takes the loop's time for nothing but to hand over
        use = _Use(path_of(module))
        self._uses.append(use)

        @functools.wraps(process)
        def measured(*item: Any) -> Any:
            began = clock()
            try:
                made = process(*item)
            finally:
                use.secs += clock() - began
                use.calls += 1
            return self._run(made, use) if inspect.iscoroutine(made) else made

        return measured

    def take(self) -> Hold:
        """The module that held the event loop longest since the last call."""
        at = self._clock()
        most = max(self._uses, key=lambda use: use.secs, default=None)
        hold = Hold()
        if most is not None and at > self._since:
            secs = most.secs / max(1, most.calls)
            hold = Hold(most.module, most.secs / (at - self._since), secs)
        for use in self._uses:
            use.secs, use.calls = 0.0, 0
        self._since = at
        return hold

    def module_with(self, pages: int) -> str:
        """The module whose coroutines have most of *pages*; "" if none has."""
        return next((use.module for use in self._uses if 2 * use.pages > pages), "")

    async def _run(self, work: Coroutine[Any, Any, Any], use: _Use) -> Any:
        use.pages += 1
        try:
            return await self._step(work, use)
        finally:
            use.pages -= 1

    @types.coroutine
    def _step(self, work: Coroutine[Any, Any, Any], use: _Use) -> Generator[Any, Any, Any]:
        """Run *work* as ``await`` would, and measure what lies between its waits."""
        resume, value = work.send, None
        while True:
            began = self._clock()
            try:
                awaited = resume(value)
            except StopIteration as end:
                return end.value
            finally:
                use.secs += self._clock() - began
            try:
                resume, value = work.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001  # a cancellation, too, is for the module
                resume, value = work.throw, error
