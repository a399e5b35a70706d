"""View model of the report, filled from a job's files or by the server of a running crawl.

The templates turn it into a static file or a live page. Nothing here is escaped or shortened: texts
may come from strangers, and the templates take care of that.
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
# Beginnings of the reasons of a stop that the user requested.
_REQUESTED = ("shutdown", "hive_stopped", "control_stopped", "closespider_")
# An alarm is shown if this share of the URLs was given up, of at least so many.
_MAX_GIVEN_UP, _FEWEST_URLS = 0.1, 100


class Field(msgspec.Struct, frozen=True):
    """Field of a command's form, with the *label* that people read."""

    name: str
    label: str
    is_needed: bool = True


class NextCommand(msgspec.Struct, frozen=True):
    """Command for which the page has a button.

    *name* is that of its form, which is posted to ``commands/NAME``. *effect* says what it does,
    and *line* is the command line that does the same, to be copied. A *question* must be answered
    with yes before the form can be sent.
    """

    name: str
    title: str
    effect: str
    line: str
    fields: list[Field] = []
    question: str = ""


class Live(msgspec.Struct, frozen=True):
    """Fields that only the page of a running crawl has.

    token: hidden value of its forms; "" if the reader may only look. Then there is a link to
        ``token``, where the token is requested.
    answer: answer to the last command.
    url, host: what was asked on the page itself, as ``?url=`` and ``?host=``.
    why: answer about the URL, as ``scrapy why`` prints it.
    hosts: answer about the host.
    """

    token: str
    commands: list[NextCommand]
    answer: str = ""
    url: str = ""
    why: str = ""
    host: str = ""
    hosts: Figure | None = None


class ReportPage(msgspec.Struct, frozen=True, kw_only=True):
    """View model of the report.

    title: name of the crawl.
    at: time of the report, epoch seconds.
    head: sentences about the whole crawl.
    alarms: sentences about what needs attention.
    processes: diagnoses of the crawl's processes, one or a hive's drones.
    summary: pairs of a label and a number with its unit.
    rates: figures over time.
    held: figure of what waits, pauses and is parked.
    failures: figures of what went wrong, with examples.
    sections: further figures, by the title of their section.

    Everything before *sections* is the first screen. The names of all figures differ.
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
        """Return all figures, from the top."""
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
    """Return sentences about what needs attention.

    *modules* has the number of pages on which each module failed. Of *urls* finished URLs,
    *given_up* were given up. *denied* are pages that were fetched before and that robots.txt now
    denies.
    """
    alarms = []
    for one in processes:
        label = f"{one.name}: " if one.name else ""
        ended = one.state.name in {CrawlState.FINISHED, CrawlState.STOPPED}
        was_stopped = one.state.name == CrawlState.STOPPED
        if was_stopped and one.state.reason.startswith(_REQUESTED):
            continue
        if one.state.name in {CrawlState.PAUSED, CrawlState.STOPPED}:
            alarms.append(f"{label}{one.state.in_words()}")
        elif not ended and one.diagnosis.cause in _BAD_CAUSES:
            alarms.append(f"{label}{one.diagnosis.brief}")
    if urls >= _FEWEST_URLS and given_up >= _MAX_GIVEN_UP * urls:
        alarms.append(f"{given_up / urls:.0%} of {urls:,} URLs were given up")
    if denied:
        pages = counted(len(denied), "page")
        alarms.append(f"robots.txt now denies {pages} fetched before, such as {denied[-1]}")
    return alarms + [f"{name} failed on {number:,} pages" for name, number in modules.items()]
