"""Background work, run one piece at a time in a worker thread whose results the owner installs.

Only the owner changes its state, so the state needs no lock. Each piece of work is given
everything it needs. The owner calls ``settle`` at the start of its own methods to install the
result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, TypeVar

from webcrawl.errors import is_disk_failing

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Background:
    """Runs one piece of work at a time in a thread of *executor*.

    ``on_done`` is called in the worker when a piece of work has ended. It must only arrange that
    the owner is called soon (``call_soon_threadsafe``).
    """

    def __init__(self, *, executor: Executor) -> None:
        #: Set by the owner; see the class.
        self.on_done: Callable[[], object] = lambda: None
        self._executor = executor
        # The work whose result has not been installed yet, and the function that will install it.
        # Both are None if there is no such work.
        self._future: Future[Any] | None = None
        self._install: Callable[[Any], None] | None = None
        # The latest call of ``run_in_worker``, for which ``close`` waits.
        self._last_task: Future[None] | None = None
        # Whether ``close`` was called.
        self._closing = False

    @property
    def busy(self) -> bool:
        """Whether work has been started whose result has not been installed yet."""
        return self._future is not None

    @property
    def ended(self) -> bool:
        """Whether there is a result for ``settle`` to install."""
        return self._future is not None and self._future.done()

    def start(self, work: Callable[[], T], install: Callable[[T], None]) -> None:
        """Run *work* in the worker; ``settle`` passes its result to *install*."""
        future = self._executor.submit(work)
        self._future = future
        self._install = install
        future.add_done_callback(lambda _: self.on_done())

    def settle(self, *, wait: bool = False) -> None:
        """Install the result of the work if it has ended; with *wait*, block until it has.

        If the work raised an exception, raises that exception and installs nothing.
        """
        future = self._future
        install = self._install
        if future is None or install is None or not (wait or future.done()):
            return
        try:
            result = future.result()
        finally:
            # Before ``install`` is called, which may start the next piece of work.
            self._future = None
            self._install = None
        install(result)

    def run_in_worker(self, work: Callable[[], None]) -> None:
        """Run *work* in the worker and ignore its result; it may block and must not raise."""
        if self._closing:  # the executor may have been shut down already
            work()
        else:
            self._last_task = self._executor.submit(work)

    def delete(self, paths: Sequence[Path]) -> None:
        """Delete *paths* in the worker, because freeing gigabytes takes a file system some time."""
        if paths:
            self.run_in_worker(lambda: _delete_files(paths))

    def close(self, consequence: str) -> None:
        """Wait until the work has ended. The executor may have been shut down before.

        If the work failed, its error is logged together with *consequence*, a clause that tells the
        user what follows. There is no traceback if the disk failed, because another part of the
        crawl reports that and ends the crawl.
        """
        self._closing = True
        try:
            self.settle(wait=True)
        except Exception as error:
            is_disk_error = is_disk_failing(error)
            logger.log(logging.ERROR, "%s: %s", consequence, error, exc_info=not is_disk_error)
        finally:
            if self._last_task is not None:
                self._last_task.result()
                self._last_task = None


def _delete_files(paths: Sequence[Path]) -> None:
    """Delete *paths*; log a warning for each that cannot be deleted."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            # The next open deletes it.
            logger.warning("Could not delete %s: %s", path, error)
