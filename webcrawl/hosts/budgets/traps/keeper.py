"""Trap keeper: the traps of a crawl with their files, settings and gates.

The records are kept in the host records. ``ended`` takes in the end of each URL.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Self

from webcrawl.configuration.values import whole
from webcrawl.hosts.budgets.traps import ExceptionRules, LearnedTraps, UrlSpace
from webcrawl.net.walls import SOFT_ERROR
from webcrawl.storage.watched_rules import RulesFile

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from webcrawl.clock import TimeSource
    from webcrawl.frontier import Entry
    from webcrawl.frontier.admission import Gate
    from webcrawl.hosts.records import HostRecords


def exceptions_in(path: Path | str | None, *, clock: TimeSource) -> RulesFile[ExceptionRules]:
    """The rules of TRAP_EXCEPTIONS_FILE *path*, not read yet."""
    return RulesFile(
        path=path,
        setting="TRAP_EXCEPTIONS_FILE",
        idle="frees no pattern",
        make=ExceptionRules,
        clock=clock,
    )


# Of 4xx, these do not say that there is nothing.
_LATER = frozenset({"http_408", "http_429"})


@dataclasses.dataclass(kw_only=True, eq=False)
class TrapKeeper:
    """The traps of a crawl: patterns, URL space, their files and their gates."""

    learned: LearnedTraps
    space: UrlSpace

    @classmethod
    def from_settings(
        cls,
        settings: BaseSettings,
        *,
        exceptions: RulesFile[ExceptionRules],
        records: HostRecords,
        clock: TimeSource,
    ) -> Self:
        """Read TRAP_* and URL_SPACE_*; *exceptions* are the patterns and hosts to which nothing of
        this applies. FatalError with one sentence for what cannot be."""
        return cls(
            learned=LearnedTraps(
                exceptions=exceptions,
                min_duplicates=whole(settings, "TRAP_MIN_DUPLICATES", at_least=0),
            ),
            space=UrlSpace(
                records=records,
                exceptions=exceptions,
                base=whole(settings, "URL_SPACE_BASE_URLS", at_least=0),
                clock=clock,
            ),
        )

    def gates(self) -> list[Gate]:
        """The gates that each new URL passes."""
        return [self.learned, self.space]

    def ended(self, entry: Entry, outcome: str, *, tested: bool, seen: bool) -> None:
        """Note that *entry* has ended, with a document that the content-seen test has *tested*, or
        without; *seen*: the same bytes had been seen before.

        Raises what the records raise.
        """
        if entry.extra:
            return
        if tested:
            self.learned.learn(entry.url, seen=seen)
        missing = (outcome.startswith("http_4") and outcome not in _LATER) or outcome == SOFT_ERROR
        self.space.ended(entry, fresh=tested and not seen, fruitless=seen or missing)
