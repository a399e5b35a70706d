"""The hosts that asked not to be crawled: a file that is read again whenever it changes.

Made by the wiring; the scheduler asks `excludes` for the host of every URL it is about to hand out
and calls `reload_if_changed` every second, so a line added to the file acts on what is queued. How
it is read, and what happens if it cannot be, is the business of storage/watched_rules.py.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from webcrawl.hosts.politeness.exclusion_rules import ExclusionRules
from webcrawl.storage.watched_rules import RulesFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings


class Exclusions(RulesFile[ExclusionRules]):
    """The rules of *path*, none if it is None."""

    def __init__(self, *, path: Path | None, clock: Callable[[], float]) -> None:
        super().__init__(
            path=path,
            setting="EXCLUSION_FILE",
            idle="excludes nobody",
            make=lambda lines: ExclusionRules(expected=lines),
            clock=clock,
        )

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Build from EXCLUSION_FILE; empty means that nobody is excluded."""
        name = settings.get("EXCLUSION_FILE") or ""
        return cls(path=Path(name) if name else None, clock=time.monotonic)

    def excludes(self, host: str) -> bool:
        """Whether *host*, as `host_of` gives it, or an address is not to be contacted."""
        older = self.older
        return self.rules.excludes(host) or (older is not None and older.excludes(host))
