"""Terminal output of a hive on one machine: messages, a table at intervals, a summary."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TextIO

from webcrawl.crawl.engine.user_messages import give_up
from webcrawl.crawl.figures.summary import summary
from webcrawl.doctor.states import CrawlState
from webcrawl.errors import FatalError
from webcrawl.hive.launch.crawl_stats import crawl_stats
from webcrawl.hive.launch.status import DroneStatus, HiveStatus, look, table
from webcrawl.hive.membership.connection import UNREACHABLE, RedisClient, close
from webcrawl.wording import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from webcrawl.clock import TimeSource
    from webcrawl.hive.launch.supervisor import Supervisor
    from webcrawl.hive.membership.keys import Keys


class TerminalView:
    """Prints messages to *stream*, and a table at most every *every* seconds."""

    def __init__(self, *, stream: TextIO, every: float, clock: TimeSource) -> None:
        self._stream = stream
        self._every = every
        self._clock = clock
        self._printed_at = clock()

    def say(self, text: str) -> None:
        """Print *text*, one or more lines. A closed terminal is not an error."""
        try:
            self._stream.write(f"{visible(text)}\n")
            self._stream.flush()
        except OSError:
            give_up(self._stream)

    def show(self, table: Sequence[str]) -> None:
        """Print the lines of *table*, if the last table was printed long enough ago."""
        if self._clock() - self._printed_at >= self._every:
            self._printed_at = self._clock()
            self.say("\n".join(table))


class LocalTable:
    """The table of a supervisor's hive, from the hive's Redis and its child processes.

    Drones that have not reported yet are shown with what the supervisor knows about them.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        connect: Callable[[str], RedisClient],
        clock: TimeSource,
    ) -> None:
        self._keys = keys
        self._connect = connect
        self._clock = clock
        self._began = clock()
        self._client: RedisClient | None = None
        # The last shown status of each drone, by name.
        self._drones: dict[str, DroneStatus] = {}

    async def __call__(self, supervisor: Supervisor) -> list[str]:
        """Return the lines of the table. Waits at most a few seconds for Redis."""
        if self._client is None:
            self._client = self._connect(supervisor.redis_url)
        try:
            status = await look(self._client, self._keys)
        except UNREACHABLE:
            status = HiveStatus(0, 0, 0, (), "Redis does not answer")
        except FatalError:  # no drone has created the hive yet
            status = HiveStatus(0, 0, 0, (), CrawlState.STARTING)

        shown = {}
        # While some drones live, ended drones show no figures: other drones count their shards.
        keeps_figures = bool(status.note or not status.drones)
        for child in supervisor.drones:
            last_status = self._drones.get(child.name) or DroneStatus(child.name)
            figures = last_status.figures if keeps_figures else None
            note = (child.progress if child.pid else "") or child.state
            shown[child.name] = DroneStatus(child.name, figures=figures, note=note)
        shown |= {drone.name: drone for drone in status.drones}
        self._drones = shown
        orphans = status.orphans if status.drones else 0  # not shown when all drones have ended
        status = dataclasses.replace(
            status,
            secs=self._clock() - self._began,
            drones=[*shown.values()],
            orphans=orphans,
        )
        return table(supervisor.hive.name, status)

    async def close(self) -> None:
        """Close the connection to Redis."""
        if self._client is not None:
            await close(self._client)


def hive_summary(jobdir: Path, drones: Iterable[Path]) -> str:
    """Return the summary of the hive in *jobdir*; *drones* are its drones' job directories.

    Returns "" if no drone has stats. Blocks.
    """
    stats = crawl_stats([*drones])
    if not stats:
        return ""
    return summary(
        stats,
        jobdir=str(jobdir),
        places={"WARC": f"{jobdir}/drones/*/warc"},
        files=f"{jobdir}/drones/*",
    )
