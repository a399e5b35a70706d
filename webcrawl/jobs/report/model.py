"""View model of the report, filled from a job's files or by the server of a running crawl.

The templates turn it into a static file or a live page. No text in it is escaped or shortened:
texts may come from strangers, and the templates escape them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from webcrawl.doctor.diagnosis import Cause
from webcrawl.jobs.inspect.examination import Examination  # msgspec reads it
from webcrawl.jobs.report.figures import Figure  # as above
from webcrawl.states import CrawlState
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOW_TO = "docs/howto/when-something-is-wrong.md#a-processing-module-fails"
_BAD_CAUSES = (Cause.OUTAGE, Cause.DISK, Cause.NAME_SERVERS)
# How the reasons of a stop that the user requested begin.
_REQUESTED = ("shutdown", "hive_stopped", "control_stopped", "closespider_")


class NextCommand(msgspec.Struct, frozen=True):
    """Command that the page can send to the crawl with a form.

    The form is posted to ``commands/NAME``. *effect* says what the command does, and *line* is the
    command line that does the same, to be copied. *labels* has the labels of its arguments, by
    name. If there is a *question*, the user must answer yes before the form can be sent.
    """

    name: str
    effect: str
    line: str
    labels: dict[str, str]
    question: str = ""


class Live(msgspec.Struct, frozen=True):
    """Fields that only the page of a running crawl has.

    token: hidden value of its forms; "" if the reader may not send commands. Then there is a link
        to ``token``, where the browser asks for the token.
    answer: answer to the last command.
    question: URL or host that the reader asked about, from ``?url=``.
    why: the answer, as ``scrapy why`` prints it.
    can_search: whether there is a search index.
    settings: values of the settings of the crawl that sentences name, by name.
    host: host that the reader asked about, or that of the URL.
    now: the present time, epoch seconds.
    range: name of the range of the charts.
    drone: name of the drone that the charts show; "" for all.
    """

    token: str
    commands: list[NextCommand]
    answer: str = ""
    question: str = ""
    why: str = ""
    can_search: bool = False
    settings: Mapping[str, object] = {}
    host: str = ""
    now: float = 0.0
    range: str = ""
    drone: str = ""


class ReportPage(msgspec.Struct, frozen=True, kw_only=True):
    """View model of the report.

    title: name of the crawl.
    at: time of the report, epoch seconds.
    head: sentences about the whole crawl.
    alarms: sentences about what needs attention.
    compared: sentences that compare the last hour with the time before.
    processes: diagnoses of the crawl's processes, one or a hive's drones.
    summary: pairs of a label and a number with its unit.
    rates: figures over time.
    runs: table of when the crawl was started and ended, and why.
    commands: table of the commands that were sent.
    outcomes: tables of URLs by outcome, with examples: of those that failed, and of the others.
    sections: further figures, by the title of their section.

    live: fields of a live page.

    Everything before *sections* is the first screen. All figures have different names.
    """

    title: str
    at: float
    head: list[str]
    alarms: list[str]
    compared: list[str]
    processes: list[Examination]
    summary: list[tuple[str, str]]
    rates: list[Figure]
    runs: Figure
    commands: Figure
    outcomes: tuple[Figure, Figure]
    sections: dict[str, list[Figure]]
    live: Live | None = None


def alarms_of(
    processes: list[Examination],
    modules: Mapping[str, int],
    denied: Mapping[str, int],
) -> list[str]:
    """Return sentences about what needs the user's attention.

    *modules* has the number of pages on which each module failed. *denied* has the number of pages
    of each host that were fetched before, but that robots.txt now denies.
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
    hosts = [host for host, number in denied.items() if number > 0]
    if hosts:
        pages = counted(sum(denied[host] for host in hosts), "page")
        alarms.append(f"robots.txt now denies {pages} fetched before, such as on {hosts[0]}")
    return alarms + [
        f"{name} failed on {counted(number, 'page')}: see logs/critical.jsonl and {_HOW_TO}"
        for name, number in modules.items()
    ]
