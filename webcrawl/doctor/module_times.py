"""Measures how long each processing module holds the event loop.

An item pipeline runs in the event loop unless it says otherwise. If it blocks there, for instance
with ``time.sleep`` or ``requests.get``, everything else stops: downloads time out and timers are
late. Measuring costs 1 us for each call of a module and each time that its coroutine waits.
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
    """The event loop time of the processing modules of a process. *clock* returns seconds."""

    def __init__(self, *, clock: TimeSource) -> None:
        self._clock = clock
        self._since = clock()
        self._secs: defaultdict[str, float] = defaultdict(float)

    def watch(self, process: Any) -> Any:
        """Wrap *process*, the ``process_item`` of a module, so that its time is measured."""
        module = getattr(process, "__self__", None)
        if getattr(module, "off_loop", False):
            return process  # such a module only passes the page to a thread
        name = path_of(module)

        @functools.wraps(process)
        def measure_and_run(*item: Any) -> Any:
            result = self._measure(name, process, *item)
            return self._run(result, name) if inspect.iscoroutine(result) else result

        return measure_and_run

    def take(self) -> tuple[str, float]:
        """Return (module, share of the time) for the module that held the event loop longest.

        Covers the time since the last call. All times start again at 0.
        """
        time = self._clock()
        name = max(self._secs, key=self._secs.__getitem__, default="")
        share = self._secs[name] / (time - self._since or 1.0)  # 1.0 if no time has passed
        self._since = time
        self._secs.clear()
        return name, share

    def _measure(self, name: str, call: Any, *values: Any) -> Any:
        """Call *call* with *values*, and add the time to that of the module *name*."""
        began = self._clock()
        try:
            return call(*values)
        finally:
            self._secs[name] += self._clock() - began

    @types.coroutine
    def _run(self, work: Any, name: str) -> Any:
        """Run the coroutine *work* like ``await``, and measure the time between its waits."""
        # How the coroutine continues: with the value that it has waited for, or with an error.
        resume: Any = work.send
        value: Any = None
        while True:
            try:
                awaited = self._measure(name, resume, value)
            except StopIteration as end:
                return end.value
            try:
                resume = work.send
                value = yield awaited
            except BaseException as error:  # noqa: BLE001  # the module must see a cancellation, too
                resume = work.throw
                value = error
