"""Pages per second of the simulated web: ``python benchmarks/bench_simweb.py [preset]``.

One server process, one client process that only counts bytes; prints pages per second and, because
both share the machine with others, pages per CPU-second of the server alone.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import uvloop

from webcrawl.simweb import HostSpec, SimWebProcess, preset, start_in_process
from webcrawl.simweb.pages import page

SECONDS = 5.0
CONNECTIONS = 100


async def _client(web: SimWebProcess, host: HostSpec, end: float) -> tuple[int, int]:
    world = web.world
    reader, writer = await asyncio.open_connection(host.address, world.http_port)
    pages = size = 0
    name = host.origin.removeprefix("http://")
    while time.monotonic() < end:
        path = page(world, host, pages % host.pages).path
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {name}\r\nUser-Agent: bench\r\n"
            "Accept-Encoding: gzip\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"Content-Length: ")[2].partition(b"\r")[0])
        await reader.readexactly(length)
        pages += 1
        size += length
    writer.close()
    return pages, size


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _measure(web: SimWebProcess, label: str) -> None:
    before = _cpu(web.pid)
    begin = time.monotonic()
    hosts = (web.world.host(index) for index in range(web.world.hosts))
    simple = itertools.islice((host for host in hosts if host.framing == "length"), CONNECTIONS)
    counts = await asyncio.gather(*(_client(web, host, begin + SECONDS) for host in simple))
    took = time.monotonic() - begin
    cpu = _cpu(web.pid) - before
    pages = sum(count for count, _ in counts)
    size = sum(size for _, size in counts)
    print(
        f"{label}: {pages / took:,.0f} pages/s, {pages / cpu:,.0f} pages per CPU-second of the "
        f"server, mean {size / pages / 1000:.1f} kB on the wire, server at {cpu / took:.0%}"
    )


def _main() -> None:
    names = sys.argv[1:] or ["bench"]
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            changes = {"http_port": 0, "https_port": 0, "https_share": 0.0}
            if name != "bench":
                changes |= {"faults": preset("clean").faults, "large_files": 0.0}
            world = preset(name, **changes)
            with start_in_process(world, log_path=Path(directory, "access.log")) as web:
                uvloop.run(_measure(web, name))


if __name__ == "__main__":
    _main()
