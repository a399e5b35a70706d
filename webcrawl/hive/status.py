"""Status of a hive as a table: a line for each drone, and one for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webcrawl.hive.supervisor import Supervisor


async def local_table(supervisor: Supervisor, secs: float) -> Sequence[str]:
    """The table of the drones of *supervisor*, which has run for *secs*."""
    minutes, seconds = divmod(int(secs), 60)
    head = f"{supervisor.hive.name}  {minutes // 60}:{minutes % 60:02}:{seconds:02}"
    rows = [
        f"{drone.name:>9}  {drone.progress if drone.pid and drone.progress else drone.state}"
        for drone in supervisor.drones
    ]
    return [f"hive {head}  {len(rows)} drones; Ctrl-C stops them, with checkpoints", *rows]
