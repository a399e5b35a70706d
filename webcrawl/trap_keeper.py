"""The traps of a crawl: the parts of ``webcrawl.traps`` with their files and settings.

Held by HostKnowledge, whose records they are kept in. The content-seen test tells ``judged`` what
it thought of each document; ``work`` is called with every slice of background work.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from webcrawl.rules_file import RulesFile
from webcrawl.setting_values import number, share, whole
from webcrawl.traps import ExceptionRules, LearnedTraps
from webcrawl.traps.noted import Notes

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from webcrawl.traps.learned import Store


class TrapKeeper:
    """*jobdir* gets ``traps.txt``; *exceptions* is the file of what is never parked, or None."""

    def __init__(
        self,
        *,
        store: Store,
        jobdir: Path,
        exceptions: Path | None,
        min_duplicates: int,
        min_share: float,
        retry_secs: float,
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.exceptions = RulesFile(
            path=exceptions,
            setting="TRAP_EXCEPTIONS_FILE",
            idle="frees no pattern",
            make=lambda _: ExceptionRules(),
            clock=clock,
        )
        self.learned = LearnedTraps(
            store=store,
            exceptions=self.exceptions,
            notes=Notes(jobdir / "traps.txt"),
            min_duplicates=min_duplicates,
            min_share=min_share,
            retry_secs=retry_secs,
            wall=wall,
        )

    @classmethod
    def from_settings(cls, settings: BaseSettings, *, store: Store) -> Self:
        """Read TRAP_* and JOBDIR. Raises FatalError with one sentence for what cannot be."""
        name = settings.get("TRAP_EXCEPTIONS_FILE") or ""
        return cls(
            store=store,
            jobdir=Path(settings["JOBDIR"]),
            exceptions=Path(name) if name else None,
            min_duplicates=whole(settings, "TRAP_MIN_DUPLICATES", at_least=0),
            min_share=share(settings, "TRAP_MIN_SHARE"),
            retry_secs=number(settings, "TRAP_RETRY_SECS", at_least=0),
            wall=time.time,
            clock=time.monotonic,
        )

    def open(self) -> None:
        """The store is open. Raises FatalError when the file cannot be read, and what the store
        raises."""
        self.exceptions.open()
        self.learned.open()

    def work(self) -> None:
        """A moment's work now and then."""
        self.exceptions.reload_if_changed()

    def close(self) -> None:
        """Stop reading the file. Idempotent."""
        self.exceptions.close()

    def stats(self) -> dict[str, int]:
        """Under their names in the crawl's statistics."""
        rules = {f"exceptions/{name}": count for name, count in self.exceptions.stats().items()}
        return {f"traps/{name}": count for name, count in (self.learned.stats() | rules).items()}
