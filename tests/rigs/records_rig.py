"""Host records in the hands of a test: an executor that works when told, and a killed process."""

from __future__ import annotations

import shutil
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

from webcrawl.hosts.records import HostRecords

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class PatientExecutor(Executor):
    """Runs what was submitted when ``run`` is called, in the caller's thread."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        """Do all that waits, its errors told as an executor tells them."""
        for future, work in self._waiting:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  # the future's reader gets it
                future.set_exception(error)
        self._waiting.clear()

    def forget(self) -> None:
        """The process died: what was to be done never is."""
        self._waiting.clear()


def records_in(
    path: Path,
    executor: Executor,
    *,
    size: int = 1000,
    robots_size: int = 1000,
) -> HostRecords:
    """Host records, not open yet."""
    return HostRecords(
        path=path,
        size=size,
        robots_size=robots_size,
        executor=executor,
    )


def opened(path: Path, executor: Executor, **sizes: int) -> HostRecords:
    """Host records, open; the caller closes them."""
    records = records_in(path, executor, **sizes)
    records.open()
    return records


def left_behind(path: Path, copy: Path) -> Path:
    """The files of *path* as they are, as a process that is killed now leaves them."""
    return shutil.copytree(path, copy)


def save(records: HostRecords, executor: PatientExecutor) -> None:
    """Write all that was put, as flush and the executor do it in a second or two."""
    records.flush()
    executor.run()
    records.flush()
