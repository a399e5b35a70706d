"""Trap keeper: the traps of a crawl with their files, settings and gates.

Its counts are kept in the host records. ``ended`` is called at the end of each URL.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from webcrawl.clock import TimeSource
from webcrawl.configuration.values import whole_number
from webcrawl.hosts.budgets.traps import ExceptionRules, LearnedTraps, UrlSpace
from webcrawl.net.walls import SOFT_ERROR
from webcrawl.storage.watched_rules import RulesFile

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from webcrawl.frontier import Entry
    from webcrawl.frontier.admission import Gate
    from webcrawl.hosts.records import HostRecords


def exceptions_in(path: Path | str | None, *, clock: TimeSource) -> RulesFile[ExceptionRules]:
    """Return the rules of TRAP_EXCEPTIONS_FILE *path*, not read yet."""
    return RulesFile(
        path=path,
        setting="TRAP_EXCEPTIONS_FILE",
        no_effect="exempts no pattern",
        make_rules=ExceptionRules,
        clock=clock,
    )


# The 4xx answers that do not mean that there is no document.
_TEMPORARY = frozenset({"http_408", "http_429"})


@dataclass(kw_only=True, eq=False)
class TrapKeeper:
    """The traps of a crawl: learned patterns and URL space, with their files and gates."""

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
        """Build from the TRAP_* and URL_SPACE_* settings.

        *exceptions* are the patterns and hosts that are exempt. Raises FatalError for a bad value.
        """
        return cls(
            learned=LearnedTraps(
                exceptions=exceptions,
                min_duplicates=whole_number(settings, "TRAP_MIN_DUPLICATES", at_least=0),
            ),
            space=UrlSpace(
                records=records,
                exceptions=exceptions,
                base=whole_number(settings, "URL_SPACE_BASE_URLS", at_least=0),
                clock=clock,
            ),
        )

    def gates(self) -> list[Gate]:
        """Return the gates that each new URL passes."""
        return [self.learned, self.space]

    def note_end(self, entry: Entry, outcome: str, *, tested: bool, seen: bool) -> None:
        """Note that *entry* has ended.

        *tested* says whether it had a document that the content-seen test judged, *seen* whether
        the same bytes had been seen before. Raises what the records raise.
        """
        if entry.extra:  # a spider made this request itself
            return
        if tested:
            self.learned.learn(entry.url, seen=seen)
        missing = (
            outcome.startswith("http_4") and outcome not in _TEMPORARY
        ) or outcome == SOFT_ERROR
        self.space.note_end(entry, fresh=tested and not seen, fruitless=seen or missing)
