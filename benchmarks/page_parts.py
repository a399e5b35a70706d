"""Where the CPU time of a page goes: ``PYTHONPATH=. python benchmarks/page_parts.py``.

Crawls the web ``broad`` (webs.py; 3,000 hosts, 9,000 pages) as ``make bench`` does, and looks each
millisecond of CPU time which module of the crawler is at work: the innermost frame that is of
webcrawl/, whatever library that has called. Prints microseconds a page for each part. Beside it
stands what the same work takes on such a page in the bare library, without the crawler's bounds,
rules and records. A minute and a half.
"""

from __future__ import annotations

import atexit
import collections
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_HERE = Path(__file__).resolve().parent
_HOSTS, _PAGES = 3000, 9000
_ROUNDS = 3
_EVERY = 0.001

# Parts by what the names of their modules begin with; the longest name counts.
PARTS = {
    "crawl/scheduler": "scheduler and leases",
    "crawl/lease": "scheduler and leases",
    "crawl/shard": "scheduler and leases",
    "frontier": "frontier",
    "net/http": "request, HTTP, response",
    "net/dns": "DNS, connections",
    "net/dialer": "DNS, connections",
    "net": "middlewares",
    "urls/extraction": "extraction of links",
    "crawl/links/link_extractor": "extraction of links",
    "urls": "filters, forms of URLs",
    "seen": "eliminator",
    "crawl/links": "intake of links",
    "crawl/intake": "intake of links",
    "net/walls": "walls",
    "hosts/politeness/walls": "walls",
    "hosts": "politeness, robots.txt, host records",
    "hosts/budgets": "gates and budgets",
    "crawl/lease/outcome_log": "logs of the job",
    "pipelines": "modules, WARC",
    "crawl/engine": "Scrapy's engine, signals, tasks",
    "spiders": "Scrapy's engine, signals, tasks",
    "revisit": "scheduler and leases",
    "extensions": "statistics, checkpoints",
    "doctor": "statistics, checkpoints",
    "crawl/job": "statistics, checkpoints",
}
# Modules that work for whoever calls them.
_TOOLS = ("storage/", "clock", "configuration/", "signals", "items")


def part_of(frame: FrameType | None) -> str:
    """The part that *frame* is of, or the innermost one around it."""
    while frame is not None:
        _, found, module = frame.f_code.co_filename.rpartition("/webcrawl/")
        if found and not module.startswith(_TOOLS):
            names = [name for name in PARTS if module.startswith(name)]
            return PARTS[max(names, key=len)] if names else "other"
        frame = frame.f_back
    return "event loop"


def sample(out: str) -> None:
    """Run the command line in this process, and write its samples to *out* at the end."""
    counts: collections.Counter[str] = collections.Counter()

    def look(_: int, frame: FrameType | None) -> None:
        counts[part_of(frame)] += 1

    def done() -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        Path(out).write_text(json.dumps(counts), encoding="utf-8")

    atexit.register(done)
    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _EVERY, _EVERY)
    runpy.run_path(sys.argv[0], run_name="__main__")


def bare() -> dict[str, float]:
    """Microseconds that the work of a part takes in libraries alone, on a page of that web."""
    import ada_url
    import msgspec
    from isal import isal_zlib
    from scrapy import Request
    from scrapy.http import HtmlResponse
    from selectolax.lexbor import LexborHTMLParser
    from xxhash import xxh3_64_intdigest

    from webcrawl.simweb import bodies, pages, preset

    world = preset("broad", hosts=_HOSTS)
    host = world.host(0)
    page = pages.page(world, host, 0)
    body = b"".join(bodies.body_of(world, page))
    url = f"http://{host.name}/"
    seen: set[int] = set()

    def links() -> list[str]:
        anchors = LexborHTMLParser(body).css("a[href]")
        return [ada_url.join_url(url, one.attributes["href"] or "") + one.text() for one in anchors]

    found = [ada_url.join_url(url, href) for href in bodies.hrefs_of(world, page)]
    line = {"url": url, "host": host.name, "status": 200, "took": 0.1, "via": url, "kind": "a"}
    works: dict[str, Callable[[], object]] = {
        "extraction of links": links,
        "eliminator": lambda: seen.update(xxh3_64_intdigest(one.encode()) for one in found),
        "modules, WARC": lambda: isal_zlib.compress(body, 2),
        "logs of the job": lambda: msgspec.json.encode(line),
        "Scrapy's engine, signals, tasks": lambda: (
            Request(url, meta={"depth": 1}),
            HtmlResponse(url, headers={"Content-Type": "text/html"}, body=body),
        ),
    }
    return {part: _microseconds(work) for part, work in works.items()}


def _microseconds(work: Callable[[], object]) -> float:
    def once() -> float:
        began = time.process_time()
        for _ in range(1000):
            work()
        return time.process_time() - began

    return min(once() for _ in range(5)) * 1000


def main() -> None:
    from rows import ROWS, task_of
    from webs import Web

    web = Web(name="parts", preset="broad", pages=_PAGES, changes={"hosts": _HOSTS})
    counts: collections.Counter[str] = collections.Counter()
    pages, cpu = 0, 0.0
    with task_of(web, pages=_PAGES) as task:
        os.sched_setaffinity(0, {task.core})
        for _ in range(_ROUNDS):
            with tempfile.TemporaryDirectory(prefix="job-", dir=task.log.parent) as job:
                out = Path(job) / "samples"
                command = [sys.executable, __file__, str(out), str(_HERE / "crawl_once.py")]
                command += ["webcrawl", "--seeds", str(task.web.seeds), "--names"]
                command += [str(task.web.names), "--dns", task.web.dns, "--pages", str(_PAGES)]
                command += ["--jobdir", str(Path(job) / "job")]
                done = subprocess.run(command, capture_output=True, check=True, cwd=_HERE.parent)
                result = json.loads(done.stdout.splitlines()[-1])
                pages += result["pages"]
                cpu += result["cpu"]
                counts.update(json.loads(out.read_bytes()))
        urls = dict(task.web.pages_served())
        task.urls.write_text("\n".join([*urls][:_PAGES]), encoding="utf-8")
        (floor,) = [row for row in ROWS if row.name == "floor"]
        floor_rate = floor.run(task).rate
    alone = bare() | {"request, HTTP, response": 1e6 / floor_rate}
    per_page = 1e6 * cpu / pages
    print(f"{per_page:,.0f} us a page")
    for part, count in counts.most_common():
        own = per_page * count / counts.total()
        library = f"{alone[part]:6.0f}" if part in alone else "      "
        print(f"{own:6.0f} {library}  {part}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _, destination, *sys.argv = sys.argv
        sys.path[0] = str(_HERE)
        sample(destination)
    else:
        main()
