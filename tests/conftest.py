"""What all tests share: a clock that moves when told, an empty job directory, a private TMPDIR."""

import asyncio
import atexit
import contextlib
import functools
import gc
import inspect
import itertools
import os
import re
import tempfile
import threading
from pathlib import Path

import psutil
import pytest
import pytest_timeout
import uvloop
import warm
from hypothesis import HealthCheck, settings
from obstore.store import MemoryStore
from patience import LIMIT_SECS, SLOWNESS

from webcrawl.urls.hash_seed import use_seed

pytest_plugins = ["testers"]

# A machine with other work takes its time now and then, and that is no failure.
settings.register_profile(
    "every run",
    max_examples=25,
    derandomize=True,  # the same examples each time; the long profile looks for others
    deadline=None,
    # The tests of a contract are those of each part that has to fulfil it.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
settings.register_profile(
    "long", settings.get_profile("every run"), max_examples=100, derandomize=False
)


def pytest_addoption(parser):
    help_ = "leave out the files that start crawls or commands, as `make check` does"
    parser.addoption("--no-crawls", action="store_true", help=help_)
    help_ = "seeds of the nightly tests that disturb hives by lot, such as 20-59"
    parser.addoption("--seeds", metavar="FIRST-LAST", help=help_)
    parser.addoption("--part", metavar="N/M", help="only the Nth of M parts of the files of tests")


def pytest_generate_tests(metafunc):
    """A test with the mark ``seeds`` runs once for each *seed*."""
    if mark := metafunc.definition.get_closest_marker("seeds"):
        given = metafunc.config.option.seeds or f"0-{mark.args[0] - 1}"
        first, last = map(int, given.split("-"))
        metafunc.parametrize("seed", range(first, last + 1))


def pytest_configure():
    """``--hypothesis-profile`` comes later."""
    settings.load_profile("every run")


_IMPORT = re.compile(r"^ *(?:from|import) (\w+)", re.MULTILINE)


@functools.cache
def starts_crawls(file):
    """Whether the tests or the rig in *file* start processes as crawls are started."""
    text = file.read_text()
    names = set(_IMPORT.findall(text))
    folder = Path(__file__).parent / "rigs"
    rigs = (rig for name in names for rig in folder.glob(f"*/{name}.py"))
    return "warm" in names or '"crawl", "web"' in text or any(map(starts_crawls, rigs))


def pytest_ignore_collect(collection_path, config):
    """With ``--no-crawls`` files that start some are not even imported."""
    is_file = collection_path.suffix == ".py"
    return (config.option.no_crawls and is_file and starts_crawls(collection_path)) or None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine on an event loop of its own."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    names = inspect.signature(test).parameters
    asyncio.run(test(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def _no_seed():
    """No test goes by the seed of a job that another has opened."""
    use_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item, settings):
    """Limit a test to the time that it may take on this machine."""
    scaled = settings._replace(timeout=settings.timeout * SLOWNESS)
    return pytest_timeout.pytest_timeout_set_timer(item, scaled)


class FakeClock:
    """A clock to inject: call it for the time, `advance` it by hand."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now

    def advance(self, seconds):
        """Move the clock forward; a clock never goes back."""
        assert seconds >= 0
        self.now += seconds


class Resources:
    """What this process holds of the system's resources at one moment."""

    def __init__(self):
        self.threads = set(threading.enumerate())
        self.processes = set(psutil.Process().children(recursive=True))
        self.descriptors = set(_open_descriptors())
        self.temporary = set(Path(tempfile.gettempdir()).iterdir())

    def beyond(self, earlier):
        """What is held now and was not *earlier*, by kind, readable."""
        return {
            "threads": sorted(thread.name for thread in self.threads - earlier.threads),
            "processes": sorted(map(_told, self.processes - earlier.processes)),
            "descriptors": sorted(map(str, self.descriptors - earlier.descriptors)),
            "temporary": sorted(map(str, self.temporary - earlier.temporary)),
        }


def _told(process):
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} {process.status()}: {process.cmdline()}"
    return str(process)


def _open_descriptors():
    """The open descriptors and what they lead to; none where the system has no /proc."""
    directory = Path("/proc/self/fd")
    for link in directory.iterdir() if directory.is_dir() else ():
        try:
            yield int(link.name), str(link.readlink())
        except FileNotFoundError:  # the descriptor of this listing
            continue


# The folders of tests whose coverage `make test-long` asks for: elsewhere it costs much time.
_MEASURED = {"storage", "seen", "frontier", "hosts", "urls", "models"}


# The folders and files whose tests wait most of their time, those that take longest first.
_WAITING = ("crawls", "crawl", "jobs", "extensions", "commands")


def _path(file):
    """The path of *file* below the folder of all tests."""
    return file.relative_to(Path(__file__).parent).as_posix()


def _waits(path):
    """The place in _WAITING of what *path* is or is in."""
    places = (n for n, name in enumerate(_WAITING) if f"{path}/".startswith(f"{name}/"))
    return next(places, None)


@pytest.hookimpl(tryfirst=True)  # before the markers are looked at
def pytest_collection_modifyitems(config, items):
    """Coverage is measured in the folders that need it; what is in nightly/ takes long. Beside each
    file that waits goes one that computes, so that no core is idle. With ``--part``, only some."""
    files = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
        folder = _path(item.path).partition("/")[0]
        if folder not in _MEASURED:
            item.add_marker(pytest.mark.no_cover)
        if folder == "nightly":
            item.add_marker(pytest.mark.long)
    places = {file: _waits(_path(file)) for file in files}
    waiting = sorted((file for file in files if places[file] is not None), key=places.get)
    computing = [file for file in files if places[file] is None]
    pairs = itertools.zip_longest(waiting, computing)
    ordered = [file for pair in pairs for file in pair if file]
    number, parts = map(int, (config.option.part or "1/1").split("/"))
    items[:] = [item for file in ordered[number - 1 :: parts] for item in files[file]]


def pytest_collection():
    """Nothing becomes garbage while tests are collected."""
    gc.disable()


def pytest_collection_finish():
    """The collector of garbage passes over all tests from now on: 0.1 s each time."""
    gc.enable()
    gc.freeze()
    # At the end extension modules say what was never freed, duckdb's for one.
    atexit.register(gc.unfreeze)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def jobdir(tmp_path):
    """An empty job directory."""
    path = tmp_path / "job"
    path.mkdir()
    return path


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """Writes a module of a user's, which crawls can import."""

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return write


@pytest.fixture(scope="session", autouse=True)
def everything_is_given_back(tmp_path_factory):
    """What the tests of this process took from the system they have given back when it ends.

    The tests and their processes get a TMPDIR of their own, so that what they forget there shows.
    """
    # libuv makes one pipe for signals with the first loop of a process, and keeps it.
    uvloop.new_event_loop().close()
    # So does obstore with the queue of its events.
    MemoryStore().put("x", b"")
    directory = str(tmp_path_factory.mktemp("TMPDIR"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", directory)
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        patch.setattr(tempfile, "tempdir", directory)
        patch.setattr("webcrawl.simweb.process.Popen", warm.Popen)
        # Nothing is read after a failure of this machine's power.
        patch.setattr(os, "fsync", lambda fd: None)
        before = Resources()
        yield
        warm.stop()
        gc.collect()
        for thread in set(threading.enumerate()) - before.threads:
            thread.join(LIMIT_SECS)  # one that was told to end may be at it
        left = Resources().beyond(before)
        assert not any(left.values()), left
