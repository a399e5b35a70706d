"""View model of the report, filled from a job's files or by the server of a running crawl.

The templates turn it into a static file or a live page. No text in it is escaped or shortened:
texts may come from strangers, and the templates escape them.
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
# How the reasons of a stop that the user requested begin.
_REQUESTED = ("shutdown", "hive_stopped", "control_stopped", "closespider_")
# An alarm is shown if at least this share of the finished URLs was given up.
_MAX_GIVEN_UP_SHARE = 0.1
# With fewer finished URLs, that alarm is not shown.
_MIN_URLS = 100


class Field(msgspec.Struct, frozen=True):
    """Field *name* of a command's form, shown with a *label*."""

    name: str
    label: str
    is_needed: bool = True


class NextCommand(msgspec.Struct, frozen=True):
    """Command that the page can send to the crawl with a form.

    The form is posted to ``commands/NAME``. *effect* says what the command does, and *line* is the
    command line that does the same, to be copied. If there is a *question*, the user must answer
    yes before the form can be sent.
    """

    name: str
    title: str
    effect: str
    line: str
    fields: list[Field] = []
    question: str = ""


class Live(msgspec.Struct, frozen=True):
    """Fields that only the page of a running crawl has.

    token: hidden value of its forms; "" if the reader may not send commands. Then there is a link
        to ``token``, where the browser asks for the token.
    answer: answer to the last command.
    url: URL that the reader asked about, from ``?url=``.
    why: answer about that URL, as ``scrapy why`` prints it.
    host: host that the reader asked about, from ``?host=``.
    hosts: answer about that host.
    can_search: whether there is a search index.
    """

    token: str
    commands: list[NextCommand]
    answer: str = ""
    url: str = ""
    why: str = ""
    host: str = ""
    hosts: Figure | None = None
    can_search: bool = False


class ReportPage(msgspec.Struct, frozen=True, kw_only=True):
    """View model of the report.

    title: name of the crawl.
    at: time of the report, epoch seconds.
    head: sentences about the whole crawl.
    alarms: sentences about what needs attention.
    processes: diagnoses of the crawl's processes, one or a hive's drones.
    summary: pairs of a label and a number with its unit.
    rates: figures over time.
    held: figure of waiting URLs, hosts paused between requests, and parked URLs.
    failures: figures of failed URLs and modules, with examples.
    sections: further figures, by the title of their section.

    live: fields of a live page.

    Everything before *sections* is the first screen. All figures have different names.
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
        """Return all figures in the order in which they are on the page."""
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
    """Return sentences about what needs the user's attention.

    *modules* has the number of pages on which each module failed. Of *urls* finished URLs,
    *given_up* were given up. *denied* are pages that were fetched before, but that robots.txt now
    denies.
    """
    alarms = []
    for process in processes:
        label = f"{process.name}: " if process.name else ""
        state = process.state
        has_ended = state.name in {CrawlState.FINISHED, CrawlState.STOPPED}
        if state.name == CrawlState.STOPPED and state.reason.startswith(_REQUESTED):
            continue
        if state.name in {CrawlState.PAUSED, CrawlState.STOPPED}:
            alarms.append(f"{label}{state.in_words()}")
        elif not has_ended and process.diagnosis.cause in _BAD_CAUSES:
            alarms.append(f"{label}{process.diagnosis.brief}")
    if urls >= _MIN_URLS and given_up >= _MAX_GIVEN_UP_SHARE * urls:
        alarms.append(f"{given_up / urls:.0%} of {urls:,} URLs were given up")
    if denied:
        pages = counted(len(denied), "page")
        alarms.append(f"robots.txt now denies {pages} fetched before, such as {denied[-1]}")
    return alarms + [f"{name} failed on {number:,} pages" for name, number in modules.items()]
