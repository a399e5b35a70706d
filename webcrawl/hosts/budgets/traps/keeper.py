"""Trap keeper: the traps of a crawl with their files, settings and gates.

The records are kept in the host records. ``ended`` takes in the end of each URL; ``work`` is called
with every slice of background work.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from webcrawl.configuration.values import number, whole
from webcrawl.frontier.admission import Gate
from webcrawl.hosts.budgets.traps import ExceptionRules, LearnedTraps, UrlSpace
from webcrawl.hosts.budgets.traps.trap_files import Notes
from webcrawl.storage.watched_rules import RulesFile
from webcrawl.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

    from webcrawl.frontier import Entry, Supply
    from webcrawl.hosts.budgets.traps.learned import Exceptions
    from webcrawl.hosts.records import HostRecords


def exceptions_in(path: Path | None, *, clock: Callable[[], float]) -> RulesFile[ExceptionRules]:
    """The rules of TRAP_EXCEPTIONS_FILE *path*, not read yet; none if it is None."""
    return RulesFile(
        path=path,
        setting="TRAP_EXCEPTIONS_FILE",
        idle="frees no pattern",
        make=ExceptionRules,
        clock=clock,
    )


# Of 4xx, these do not say that there is nothing.
_LATER = frozenset({"http_408", "http_429"})


class TrapKeeper:
    """The traps of a crawl: patterns, URL space, their files and their gates.

    *exceptions* are the patterns and hosts to which nothing of this applies.
    """

    def __init__(
        self,
        *,
        exceptions: RulesFile[ExceptionRules],
        learned: LearnedTraps,
        space: UrlSpace,
    ) -> None:
        self._exceptions = exceptions
        self.learned = learned
        self.space = space

    @classmethod
    def from_settings(
        cls,
        settings: BaseSettings,
        *,
        jobdir: Path,
        records: HostRecords,
        clock: Callable[[], float],
    ) -> Self:
        """Read TRAP_* and URL_SPACE_*. FatalError with one sentence for what cannot be."""
        name = settings.get("TRAP_EXCEPTIONS_FILE") or ""
        exceptions = exceptions_in(Path(name) if name else None, clock=clock)
        return cls(
            exceptions=exceptions,
            learned=LearnedTraps(
                store=records.traps,
                exceptions=exceptions,
                notes=Notes(jobdir / "traps.txt"),
                min_duplicates=whole(settings, "TRAP_MIN_DUPLICATES", at_least=0),
                retry_secs=number(settings, "TRAP_RETRY_SECS", at_least=0),
                clock=clock,
            ),
            space=UrlSpace(
                records=records,
                base=whole(settings, "URL_SPACE_BASE_URLS", at_least=0),
                clock=clock,
            ),
        )

    def gates(self) -> list[Gate]:
        """The gates that each new URL passes."""
        return [LearnedTrapGate(self.learned), UrlSpaceGate(self.space, self._exceptions)]

    def ended(self, entry: Entry, outcome: str, *, tested: bool, seen: bool) -> None:
        """Note that *entry* has ended, with a document that the content-seen test has *tested*, or
        without; *seen*: the same bytes had been seen before.

        Raises what the records raise.
        """
        if entry.extra:
            return
        if tested:
            self.learned.learn(entry.url, seen=seen)
        missing = outcome.startswith("http_4") and outcome not in _LATER
        host = host_of(entry.url)
        self.space.ended(host, fresh=tested and not seen, fruitless=seen or missing)

    def open(self) -> None:
        """Open it, with an open store. FatalError if the file cannot be read, and what the store
        raises."""
        self._exceptions.open()
        self.learned.open()

    def work(self) -> None:
        """Do a slice of background work."""
        self._exceptions.reload_if_changed()

    def close(self) -> None:
        """Stop reading the file. Idempotent."""
        self._exceptions.close()

    def stats(self) -> dict[str, int]:
        """Counts by their names in the crawl's statistics."""
        rules = {f"exceptions/{name}": count for name, count in self._exceptions.stats().items()}
        return {f"traps/{name}": count for name, count in (self.learned.stats() | rules).items()}


class LearnedTrapGate(Gate):
    """Gate of learned traps: holds the URLs of a parked pattern until it is tried again or freed.

    Requests that a spider made itself (they have an ``extra``) pass both gates.
    """

    name = "learned_trap"

    def __init__(self, traps: LearnedTraps) -> None:
        self._traps = traps

    def holds(self, entry: Entry) -> bool:
        """0.4 us for a host without patterns, 3 us for others."""
        return not entry.extra and self._traps.holds(entry.url)

    def news(self, supply: Supply) -> bool:  # noqa: ARG002  part of the protocol
        """Whether a pattern is due, or the exceptions have changed."""
        return self._traps.news()

    @property
    def may_relent(self) -> bool:
        """Whether a pattern is due."""
        return self._traps.may_relent

    def relent(self) -> None:
        """Note that a pass over the held URLs begins."""
        self._traps.relent()


class UrlSpaceGate(Gate):
    """Gate of URL space: holds the URLs of a host beyond what its pages have earned.

    By the host's name, whatever its politeness key is; hosts of the exceptions pass.
    """

    name = "url_space"

    def __init__(self, space: UrlSpace, exceptions: Exceptions) -> None:
        self._space = space
        self._exceptions = exceptions
        self._heard_of = exceptions.reloads

    def holds(self, entry: Entry) -> bool:
        """0.8 us."""
        if entry.extra:
            return False
        host = host_of(entry.url)
        return self._space.holds(host) and not self._exceptions.rules.excepts(host)

    def stops(self, entry: Entry) -> bool:  # noqa: ARG002  part of the protocol
        """False: a URL that was let in is on its host's account."""
        return False

    def let_in(self, entry: Entry) -> None:
        """Add a waiting URL to its host's account."""
        if not entry.extra:
            self._space.let_in(host_of(entry.url))

    def let_out(self, entry: Entry) -> None:
        """Take off a URL that another gate has stopped."""
        if not entry.extra:
            self._space.let_out(host_of(entry.url))

    def news(self, supply: Supply) -> bool:  # noqa: ARG002  part of the protocol
        """Whether there is room again where there was none, or the exceptions have changed."""
        changed = self._exceptions.reloads != self._heard_of
        self._heard_of = self._exceptions.reloads
        return self._space.news() or changed

    @property
    def may_relent(self) -> bool:
        """Whether there is room once all that waited has ended."""
        return self._space.may_relent

    def relent(self) -> None:
        """Note that a pass over the held URLs begins."""
        self._space.relent()
