"""What all tests share: a clock that moves when told, an empty job directory, session resources."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest


class FakeClock:
    """A clock to inject: call it for the time, `advance` it by hand."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock forward; a clock never goes back."""
        assert seconds >= 0
        self.now += seconds


class Resources:
    """What this process holds from the system: threads, descriptors and temporary names."""

    def __init__(self) -> None:
        self.threads = {thread.name for thread in threading.enumerate()}
        self.descriptors = _open_descriptors()
        self.temporary = {path.name for path in Path(tempfile.gettempdir()).iterdir()}


def _open_descriptors() -> dict[int, str]:
    """The open descriptors and what they lead to; empty where the system has no /proc."""
    found = {}
    directory = Path("/proc/self/fd")
    for link in directory.iterdir() if directory.is_dir() else ():
        try:
            found[int(link.name)] = str(link.readlink())
        except FileNotFoundError:  # the descriptor of this listing
            continue
    return found


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def jobdir(tmp_path: Path) -> Path:
    """An empty job directory."""
    path = tmp_path / "job"
    path.mkdir()
    return path


@pytest.fixture(scope="session", autouse=True)
def at_session_start() -> Resources:
    """What was held before the first test; `test_zz_resources` compares with it."""
    return Resources()
