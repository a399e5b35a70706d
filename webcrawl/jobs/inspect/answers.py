"""Answers a question about a URL or a host, for ``scrapy why`` and the monitor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webcrawl.clock import wall_time
from webcrawl.errors import FatalError
from webcrawl.jobs import arguments
from webcrawl.jobs.inspect.explanation import Explanation, explain
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.overview import HostOverview, host_overview, host_overview_text
from webcrawl.jobs.inspect.why_text import why_text
from webcrawl.states import HostState

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.settings import BaseSettings


class Answer(NamedTuple):
    """Answer as data and as *text*. *state* is that of the URL or the host."""

    data: Explanation | HostOverview
    text: str
    state: str


def answer_about(question: str, path: Path, settings: BaseSettings) -> Answer:
    """Answer about the crawl in *path* what *question* names: a host if it has no slash, or a URL.

    Raises FatalError with one sentence.
    """
    if "/" in question:
        arguments.url(question, needs_scheme=False)  # only to check it before the job
        explanation = ask(path, lambda view: explain(question, view, settings))
        return Answer(explanation, why_text(explanation, now=wall_time()), explanation.state)
    arguments.host(question)
    figures = ask(path, lambda view: host_overview(view, question, settings))
    if figures.host.state == HostState.UNKNOWN and not {*".:"} & {*question}:
        raise FatalError(f"{question!r} is not a URL, and not a host of this crawl.")
    text = host_overview_text(figures, now=wall_time())
    return Answer(figures, text, figures.host.state)
