"""Simulated web in a child process, so that it runs on a different core from the crawler."""

from __future__ import annotations

import contextlib
import pickle
import sys
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import TYPE_CHECKING, Self

from webcrawl.simweb.world import SimWebError, World

if TYPE_CHECKING:
    from webcrawl.simweb.server import Served

_STOP_SECS = 10.0
_ROOT = Path(__file__).resolve().parents[2]


class SimWebProcess:
    """Running simulated web, started by ``start_in_process``.

    As a context manager, it stops the server at the end.
    """

    def __init__(self, process: Popen[bytes], served: Served, log_path: Path | None) -> None:
        # The file of the certificate exists while the server runs.
        self.world, self.dns, self.ca_path = served
        self.log_path = log_path
        self.pid = process.pid
        self._process = process

    @property
    def running(self) -> bool:
        """Whether the server is still running."""
        return self._process.poll() is None

    def wait(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds; return whether the server ended, which it should not."""
        with contextlib.suppress(TimeoutExpired):
            self._process.wait(timeout)
        return not self.running

    def stop(self) -> None:
        """Stop the server and wait until it has ended; the log is then complete. Idempotent."""
        try:
            self._process.communicate(timeout=_STOP_SECS)
        except TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def start_in_process(world: World, *, log_path: Path | None, **options: float) -> SimWebProcess:
    """Serve *world* in a child process; return when all of its sockets are open.

    The child ends when ``stop`` is called, or when this process ends for any reason. It has its own
    session, so a Ctrl-C at the terminal does not reach it. *options* are those of ``serve``, and
    the same errors are raised.
    """
    process = Popen(
        [sys.executable, "-m", "webcrawl.simweb"],
        stdin=PIPE,
        stdout=PIPE,
        cwd=_ROOT,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        pickle.dump(
            (world, {"log_path": log_path.resolve() if log_path else None} | options), process.stdin
        )
        process.stdin.flush()
        answer = pickle.load(process.stdout)  # noqa: S301  # from the child
    except (BrokenPipeError, EOFError):
        answer = SimWebError("the process of the simulated web ended before it served anything")
    if isinstance(answer, SimWebError):
        process.communicate()
        raise answer
    return SimWebProcess(process, answer, log_path)
