"""Terminal output of a hive on one machine: messages, a table at intervals, a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from msgspec.structs import replace

from webcrawl.crawl.engine.user_messages import give_up
from webcrawl.crawl.figures.summary import summary
from webcrawl.errors import FatalError
from webcrawl.hive.launch.crawl_stats import crawl_stats
from webcrawl.hive.launch.status import DroneStatus, HiveStatus, look, table
from webcrawl.hive.membership.connection import UNREACHABLE, RedisClient, close
from webcrawl.states import CrawlState
from webcrawl.wording import escape_controls

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
            self._stream.write(f"{escape_controls(text)}\n")
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

    Drones that have not reported yet are shown with what the supervisor knows about them. *keys*
    are those of the hive in Redis, *connect* returns a client for a REDIS_URL, *clock* returns
    seconds.
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
        # None until the address of Redis is known, with the first table.
        self._client: RedisClient | None = None
        # The last shown status of each drone, by name.
        self._drones: dict[str, DroneStatus] = {}

    async def lines(self, supervisor: Supervisor) -> list[str]:
        """Return the lines of the table. Waits at most a few seconds for Redis."""
        if self._client is None:
            self._client = self._connect(supervisor.redis_url)
        try:
            status = await look(self._client, self._keys)
        except UNREACHABLE:
            status = HiveStatus(0, 0, 0, (), "Redis does not answer")
        except FatalError:  # no drone has created the hive yet
            status = HiveStatus(0, 0, 0, (), CrawlState.STARTING)

        # First all drones by what the supervisor knows; those in Redis replace that. While some
        # drones live, ended ones show no figures: other drones count their shards.
        self._show_children(supervisor, with_figures=bool(status.note or not status.drones))
        self._drones |= {drone.name: drone for drone in status.drones}
        status = replace(
            status,
            secs=self._clock() - self._began,
            drones=[*self._drones.values()],
            orphans=status.orphans if status.drones else 0,  # not shown when all drones have ended
        )
        return table(supervisor.hive.name, status)

    def _show_children(self, supervisor: Supervisor, *, with_figures: bool) -> None:
        """Show the child processes of *supervisor*, as if none had reported to Redis."""
        shown = {}
        for child in supervisor.drones:
            last_status = self._drones.get(child.name)
            figures = last_status.figures if last_status and with_figures else None
            note = (child.progress if child.pid else "") or child.state
            shown[child.name] = DroneStatus(child.name, figures=figures, note=note)
        self._drones = shown

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
