"""The webs on which the bench measures crawlers, each served by simweb on a core of its own.

``small``: pages of 20 kB with 40 links, plain HTTP; a host's connection is kept alive.

``today``: HTML of 240 kB in the mean (log-normal, 2 kB to 1 MB, 40 to 200 links) that gzip makes
four to five times smaller, as it does real pages, on the wire too; HTTPS with certificates of an
authority that nobody knows, so no crawler verifies them; and a connection that ends with its page
(robots.txt may come before it), so that all rows pay for as many handshakes. In a broad crawl the
connection is gone when a host's next turn comes; here, with no pauses, it would last. A crawl
takes one page of nearly each host, but wget2, which goes through one host after the other, fifteen
of each. All crawlers take the same numbers of ``few``, the same pages on 100 hosts, and of
``single``, where each host has one page.

``broad``: the pages of ``small`` on 20,000 hosts, of which a crawl takes three each, breadth first.
Four in five links stay on their host, nearly all are new, and titles are as real hosts have them
(distributions.py): of half of the hosts they differ by a number alone. ``broad-numbers``,
``broad-one`` and ``broad-words`` have one kind of title each.

``graph``: a hundred pages a host, of 2.5 kB with eleven links, of which one in five leaves it;
``crossing``: the same, but three in five leave.

The first two have a million pages on 2,000 hosts; all have robots.txt files that forbid nothing,
and no errors. Bodies are put together from a stock of text and come from a pool: who asks second
gets bytes that lie ready. The pool is warm after the first crawl, which the bench does not count.

A crawl takes six pages of a host of ``small``, so that what is done once for a host (robots.txt,
its records) has a weight more like that in a crawl of weeks than at the beginning of one.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from webcrawl.simweb import preset, start_in_process, write_seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

_POOL_BYTES = 1 << 30
# The server flushes its access log ten times a second.
_FLUSHED_SECS = 0.3
_PAGE = re.compile(
    rb'"GET (?!/robots\.txt )(\S+) HTTP/[\d.]+" 200 (\d+) .* (https?://\S+) \S+ ok\n'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """A kind of web, with *changes* of its preset, and how many pages of it a crawl takes by
    default."""

    name: str
    preset: str
    pages: int
    changes: dict[str, Any] = field(default_factory=dict)


WEBS = {
    web.name: web
    for web in (
        Web(name="small", preset="bench", pages=12_000),
        Web(name="today", preset="bench-today", pages=1500),
        Web(
            name="few",
            preset="bench-today",
            pages=1500,
            changes={"hosts": 100, "mean_pages": 500.0, "max_pages": 500},
        ),
        Web(
            name="single",
            preset="bench-today",
            pages=1000,
            changes={"mean_pages": 1.0, "max_pages": 1},
        ),
        Web(name="broad", preset="broad", pages=60_000),
        *(
            Web(
                name=f"broad-{titles}",
                preset="broad",
                pages=15_000,
                changes={"hosts": 5000, "profile": f"broad-{titles}"},
            )
            for titles in ("numbers", "one", "words")
        ),
        Web(name="graph", preset="graph", pages=40_000, changes={"hosts": 1000}),
        Web(
            name="crossing",
            preset="graph",
            pages=40_000,
            changes={"hosts": 1000, "local_links": 0.4},
        ),
    )
}


def webs_named(name: str) -> list[Web]:
    """The web *name*, and what is called after it: ``broad-one`` after ``broad``."""
    return [web for web in WEBS.values() if f"{web.name}-".startswith(f"{name}-")]


class Served:
    """A web while it is served on *core*, or any. A context manager; its files in *directory*:

    ``seeds.txt``, ``names.json`` (host name to address) and ``hosts``, the same as /etc/hosts.
    """

    def __init__(self, web: Web, *, directory: Path, core: int | None) -> None:
        self.seeds = directory / "seeds.txt"
        self.names = directory / "names.json"
        self.hosts = directory / "hosts"
        self._log = directory / "access.log"
        self._read = 0  # bytes of the log
        self._core = core
        world = preset(web.preset, http_port=0, https_port=0, **web.changes)
        self._process = start_in_process(world, log_path=self._log, pool_bytes=_POOL_BYTES)
        self.dns = self._process.dns

    def __enter__(self) -> Self:
        if self._core is not None:
            os.sched_setaffinity(self._process.pid, {self._core})
        world = self._process.world
        write_seeds(world, self.seeds)
        names = {host.name: host.address for host in map(world.host, range(world.hosts))}
        self.names.write_text(json.dumps(names), encoding="utf-8")
        lines = [f"{address} {name}\n" for name, address in names.items()]
        self.hosts.write_text("127.0.0.1 localhost\n" + "".join(lines), encoding="utf-8")
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.stop()

    def cpu(self) -> float:
        """User and system seconds that the server has used."""
        return cpu_seconds(self._process.pid)

    def pages_served(self) -> Iterator[tuple[str, int]]:
        """The pages that were served whole since the last call, with their bytes on the wire."""
        time.sleep(_FLUSHED_SECS)
        for target, size, origin in _PAGE.findall(self._unread()):
            yield (origin + target).decode(), int(size)

    def count_served(self) -> int:
        """How many pages were served since the last call of this or ``pages_served``; at once."""
        return len(_PAGE.findall(self._unread()))

    def _unread(self) -> bytes:
        with self._log.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self._read += len(data)
        return data


def cpu_seconds(pid: int) -> float:
    """User and system time of a running process, all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
