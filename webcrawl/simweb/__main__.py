"""Server process: the child that ``webcrawl.simweb.process`` starts.

It reads a World and the options of ``serve`` from standard input and writes a ``Served`` or a
SimWebError, all pickled. It serves until standard input is closed or SIGTERM arrives. So it ends
when its parent ends, even if the parent is killed.
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import sys
from typing import Any

import uvloop

from webcrawl.simweb.server import serve
from webcrawl.simweb.world import SimWebError, World


async def _serve(world: World, options: dict[str, Any]) -> None:
    """Serve *world* until standard input is closed or SIGTERM arrives."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin.fileno(), stop.set)
    async with serve(world, **options) as served:
        _answer(served)
        await stop.wait()
    loop.remove_reader(sys.stdin.fileno())


def _answer(answer: object) -> None:
    """Write *answer* to standard output, pickled."""
    pickle.dump(answer, sys.stdout.buffer)
    sys.stdout.flush()


def _main() -> int:
    """Read the World from standard input and serve it; return the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        world, options = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the parent
        uvloop.run(_serve(world, options))
    except EOFError:
        return 1
    except SimWebError as error:
        _answer(error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main())
