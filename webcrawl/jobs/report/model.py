"""Page of a crawl as data: what a job's files, or the server of a running crawl, have to give.

The templates show a `Page` frozen into one file, or live. Nothing here is escaped or shortened:
texts may come from strangers, and the templates see to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from webcrawl.doctor.diagnosis import Cause
from webcrawl.doctor.states import CrawlState
from webcrawl.jobs.inspect.examination import Examination  # noqa: TC001  # msgspec reads it
from webcrawl.jobs.report.figures import Figure  # noqa: TC001  # as above
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BAD_CAUSES = (Cause.OUTAGE, Cause.DISK, Cause.NAME_SERVERS)
# What a stop that was asked for has as its reason.
_ASKED_FOR = ("shutdown", "hive_stopped", "control_stopped", "closespider_")
# This share of the URLs given up is too many, once so many have come to their end.
_MOST_GIVEN_UP, _FEWEST_URLS = 0.1, 100


class Field(msgspec.Struct, frozen=True):
    """A field of a command's form, with the *label* that people read."""

    name: str
    label: str
    is_needed: bool = True


class NextCommand(msgspec.Struct, frozen=True):
    """A command that the page has a button for.

    *name* is that of its form, which is posted to ``commands/NAME``; *effect* says what it does,
    *line* is the command line that does the same, to be copied. A *question* must be answered with
    yes before the form can be sent.
    """

    name: str
    title: str
    effect: str
    line: str
    fields: list[Field] = []
    question: str = ""


class Live(msgspec.Struct, frozen=True):
    """What only the page of a running crawl has.

    *token* is the hidden value of its forms, "" if the reader may only look: then there is a link
    to ``token``, where the token is asked for. *said* is the answer to the last command. *url* and
    *host* are what was asked of the page itself, as ``?url=`` and ``?host=``; *why* is the answer
    to the former, as ``scrapy why`` prints it, *hosts* that to the latter.
    """

    token: str
    commands: list[NextCommand]
    said: str = ""
    url: str = ""
    why: str = ""
    host: str = ""
    hosts: Figure | None = None


class ReportPage(msgspec.Struct, frozen=True, kw_only=True):
    """All that stands on the page.

    Of the crawl called *title* at *at*, epoch seconds. *head* are sentences on the whole, *alarms*
    those on what needs somebody. *processes* are the crawl's, one or a hive's drones, as their
    doctors see them. *summary* are pairs of a word and a number with its unit, *rates* figures over
    time, *held* what waits, rests and is parked, *failures* what went wrong, with examples: they
    are the first screen. *sections* are figures that belong together, by their title, the names of
    all figures differ.
    """

    title: str
    at: float
    head: list[str]
    alarms: list[str]
    processes: list[Examination]
    summary: list[tuple[str, str]]
    rates: list[Figure]
    held: Figure
    failures: list[Figure]
    sections: dict[str, list[Figure]]
    live: Live | None = None

    def figures(self) -> list[Figure]:
        """All figures, from the top."""
        below = [figure for section in self.sections.values() for figure in section]
        return [*self.rates, self.held, *self.failures, *below]


def alarms_of(
    processes: list[Examination],
    modules: Mapping[str, int],
    *,
    given_up: int,
    urls: int,
    denied: Sequence[str],
) -> list[str]:
    """Sentences on what needs somebody.

    *modules* are numbers of pages that each failed on. Of *urls* that have come to their end some
    were *given_up*. *denied* are pages that were fetched before, and robots.txt denies now.
    """
    found = []
    for one in processes:
        of = f"{one.name}: " if one.name else ""
        ended = one.state.name in {CrawlState.FINISHED, CrawlState.STOPPED}
        was_asked = one.state.name == CrawlState.STOPPED and one.state.reason.startswith(_ASKED_FOR)
        if was_asked:
            continue
        if one.state.name in {CrawlState.PAUSED, CrawlState.STOPPED}:
            found.append(f"{of}{one.state.told()}")
        elif not ended and one.diagnosis.cause in _BAD_CAUSES:
            found.append(f"{of}{one.diagnosis.brief}")
    if urls >= _FEWEST_URLS and given_up >= _MOST_GIVEN_UP * urls:
        found.append(f"{given_up / urls:.0%} of {urls:,} URLs were given up")
    if denied:
        pages = counted(len(denied), "page")
        found.append(f"robots.txt now denies {pages} fetched before, such as {denied[-1]}")
    return found + [f"{name} failed on {number:,} pages" for name, number in modules.items()]
