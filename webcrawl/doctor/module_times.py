"""Time of the event loop that each processing module takes.

An item pipeline runs in the event loop unless it says otherwise. If it blocks there, for instance
by ``time.sleep`` or ``requests.get``, nothing else happens meanwhile: downloads time out, timers
are late. Costs 1 us for each call of a module, and another one for each wait of a coroutine.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from webcrawl.errors import path_of

if TYPE_CHECKING:
    from webcrawl.clock import TimeSource


class ModuleTimes:
    """Times of all processing modules of a process. *clock* gives seconds."""

    def __init__(self, *, clock: TimeSource) -> None:
        self._clock = clock
        self._since = clock()
        self._secs: defaultdict[str, float] = defaultdict(float)

    def watch(self, process: Any) -> Any:
        """Return *process*, the ``process_item`` of a module, with its time measured."""
        module = getattr(process, "__self__", None)
        if getattr(module, "off_loop", False):
            return process  # it only hands over to a thread
        name = path_of(module)

        @functools.wraps(process)
        def measured(*item: Any) -> Any:
            made = self._measure(name, process, *item)
            return self._run(made, name) if inspect.iscoroutine(made) else made

        return measured

    def take(self) -> tuple[str, float]:
        """The module that held the event loop longest since the last call, and for which share of
        that time."""
        at = self._clock()
        name = max(self._secs, key=self._secs.__getitem__, default="")
        share = self._secs[name] / (at - self._since or 1.0)
        self._since = at
        self._secs.clear()
        return name, share

    def _measure(self, name: str, call: Any, *values: Any) -> Any:
        began = self._clock()
        try:
            return call(*values)
        finally:
            self._secs[name] += self._clock() - began

    @types.coroutine
    def _run(self, work: Any, name: str) -> Any:
        """Run *work* as ``await`` would, and measure what lies between its waits."""
        resume: Any = work.send
        value: Any = None
        while True:
            try:
                awaited = self._measure(name, resume, value)
            except StopIteration as end:
                return end.value
            try:
                resume, value = work.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001  # a cancellation, too, is for the module
                resume, value = work.throw, error
