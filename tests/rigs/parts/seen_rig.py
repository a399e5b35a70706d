"""An eliminator in the hands of a test: its worker, its snapshots, its death and return."""

import shutil
from collections import deque
from concurrent.futures import Executor, Future
from typing import Any

from webcrawl.jobs.check.findings import Findings
from webcrawl.jobs.check.seen import check_content, check_seen
from webcrawl.seen import BloomEliminator
from webcrawl.seen.caches.clock import ClockCache
from webcrawl.seen.content import ContentSeen
from webcrawl.seen.eliminator import DiskEliminator
from webcrawl.seen.fingerprint import fingerprints
from webcrawl.storage.atomic import sync_paths


def damage_of(part):
    """What ``scrapy job check`` finds wrong in the directory of *part* as it is now."""
    path = part._path
    findings = Findings(jobdir=path, on_progress=lambda _: None)
    findings.begin("")
    check = check_content if isinstance(part, ContentSeen) else check_seen
    check(path, part.snapshot(), findings)
    return [one.what for one in findings.damage]


class HeldExecutor(Executor):
    """Works when it is told to, or when a result is waited for."""

    def __init__(self):
        self._held = deque()

    def __len__(self):
        return len(self._held)

    def submit(self, fn, /, *args, **kwargs):
        future = _HeldFuture(self, lambda: fn(*args, **kwargs))
        self._held.append(future)
        return future

    def step(self):
        """Do the oldest piece of work; False when there is none."""
        if not self._held:
            return False
        self._held.popleft().work()
        return True

    def run(self):
        """Do all that waits."""
        while self.step():
            pass

    def forget(self):
        """The process died: what was to be done never is."""
        self._held.clear()

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.run()


class InlineExecutor(HeldExecutor):
    """Work is done before ``submit`` returns."""

    def submit(self, fn, /, *args, **kwargs):
        future = super().submit(fn, *args, **kwargs)
        self.step()
        return future


class _HeldFuture(Future[Any]):
    def __init__(self, executor, do):
        super().__init__()
        self._executor = executor
        self._do = do

    def work(self):
        try:
            result = self._do()
        except Exception as error:  # noqa: BLE001  # as an executor does
            self.set_exception(error)
        else:
            self.set_result(result)

    def result(self, timeout=None):
        while not self.done():
            assert self._executor.step()
        return super().result(timeout)


def disk_eliminator(
    path,
    executor=None,
    *,
    cache_size=4,
    buffer_size=8,
    log_file_bytes=400,
    **more,
):
    """A disk eliminator so small that everything happens often."""
    return DiskEliminator(
        path=path,
        executor=InlineExecutor() if executor is None else executor,
        cache=ClockCache(size=cache_size),
        buffer_size=buffer_size,
        log_file_bytes=log_file_bytes,
        **{"tells_own": False} | more,
    )


def bloom_eliminator(
    path,
    executor=None,
    *,
    capacity=100,
    save_after=150,
    log_file_bytes=300,
):
    """A Bloom eliminator that saves and grows often and yet loses none of a few hundred URLs."""
    return BloomEliminator(
        path=path,
        executor=InlineExecutor() if executor is None else executor,
        capacity=capacity,
        error_rate=1e-9,
        log_file_bytes=log_file_bytes,
        save_after=save_after,
    )


def submit(eliminator, urls):
    """Submit a page with links to *urls*; a payload is the URL's bytes."""
    return eliminator.submit(fingerprints(urls), lambda i: urls[i].encode())


def drain(eliminator, limit=3):
    """Everything that comes out until nothing waits, with the work done inline."""
    out = []
    while eliminator.waiting:
        eliminator.merge()
        out += [payload.decode() for payload in eliminator.take(limit)]
    return out


def publish(eliminator):
    """A whole checkpoint of the eliminator alone."""
    snapshot = eliminator.snapshot()
    sync_paths(eliminator.written())
    eliminator.forget()
    return snapshot


def count_lines(stats):
    """Return the counts in *stats* as lines, sorted by name."""
    counts = {name: value for name, value in stats.items() if not name.endswith("seconds")}
    return [f"{name} {counts[name]}" for name in sorted(counts)]


def names(count, first=0):
    return [f"http://host{n % 7}.test/{n}" for n in range(first, first + count)]


def unique(urls):
    """*urls* in first-seen order."""
    return list(dict.fromkeys(urls))


def as_found_after_a_kill(path, copy):
    """The directory as a process that is killed now leaves it."""
    shutil.copytree(path, copy)
    return copy
