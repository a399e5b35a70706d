"""The server process: the child that `webcrawl.simweb.process` starts.

Reads one line of JSON with its parameters from standard input, writes one line of JSON with the
ports or the error, and serves until standard input ends or SIGTERM comes. So it never outlives its
parent, even one that was killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import uvloop

from webcrawl.simweb.server import SimWeb
from webcrawl.simweb.world import SimWebError, World


async def _serve(orders: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin.fileno(), stop.set)
    web = SimWeb(
        World.from_json(orders["world"]),
        log_path=Path(orders["log_path"]) if orders["log_path"] else None,
        dns_port=orders["dns_port"],
        dns_latency=orders["dns_latency"],
        pool_bytes=orders["pool_bytes"],
    )
    async with web:
        _tell({"world": web.world.to_json(), "dns": web.dns, "ca_path": str(web.ca_path or "")})
        await stop.wait()
    loop.remove_reader(sys.stdin.fileno())


def _tell(answer: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Unbuffered: nothing may wait in a buffer of Python when the loop watches the descriptor.
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1 << 16)
        if not byte:
            return 1
        line += byte
    try:
        uvloop.run(_serve(json.loads(line)))
    except SimWebError as error:
        _tell({"error": str(error)})
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main())
