"""Watch: the current page of a crawl, questions to its job, and commands to it.

One thread reads the files of the job, and of the log of finished URLs only the new lines. It uses
at most a hundredth of a core, and only while someone looks.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import fields, replace

from webcrawl.clock import now, wall_time
from webcrawl.control.sending import send_to_crawl
from webcrawl.control.table import COMMANDS, Drop, is_list, usage
from webcrawl.errors import FatalError
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.jobs.inspect.explanation import explain
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.why_text import why_text
from webcrawl.jobs.report.checkpoint_facts import hosts_of
from webcrawl.jobs.report.figures import Figure, Table
from webcrawl.jobs.report.model import Field, Live, NextCommand
from webcrawl.jobs.report.sections import report
from webcrawl.jobs.report.sources import CrawlReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy.settings import Settings

    from webcrawl.control.control import CommandAnswer
    from webcrawl.crawl.job.control_journal import Request
    from webcrawl.jobs.report.model import ReportPage

# The pause between two looks is at least this long, and this many times the duration of the last.
_MIN_PAUSE_SECS = 4.0
_PAUSE_FACTOR = 100
# One look reads a long log for at most this long.
_READING_SECS = 2.0
_MAX_SENDERS = 4


class Watch:
    """Watch of the crawl with *settings*; *given* are the rows to show: name, value, origin."""

    def __init__(self, settings: Settings, given: Sequence[tuple[str, str, str]]) -> None:
        self._settings = settings
        self._path = Path(settings["JOBDIR"])
        table = Table(("setting", "value", "from"), given)
        lead = "Settings that differ from Scrapy's defaults; credentials are hidden."
        self._given = Figure("settings", "Settings", lead, table)
        self._reader: CrawlReader | None = None
        self._thread = ThreadPoolExecutor(1)
        # Commands have their own threads: a crawl that hangs must not keep pages waiting.
        self._senders = ThreadPoolExecutor(_MAX_SENDERS)
        self._page: ReportPage | None = None
        self._parked: Mapping[str, int] = {}
        self._looking: asyncio.Future[None] | None = None
        self._next = 0.0
        self._asking = asyncio.Lock()

    async def page(self) -> ReportPage:
        """Return the last page, without its live part, and begin a newer one if it is time.

        Raises FatalError, OSError or sqlite3.Error.
        """
        if self._looking is None or self._looking.done():
            last, self._looking = self._looking, None
            if now() >= self._next:
                loop = asyncio.get_running_loop()
                self._looking = loop.run_in_executor(self._thread, self._look)
            if last is not None and self._page is not None:
                last.result()  # raises the exception of the last look
        if self._page is None and self._looking is not None:
            await asyncio.shield(self._looking)  # others wait for it, too
        assert self._page is not None
        return self._page

    def _look(self) -> None:
        began, jobdirs = now(), jobdirs_of(self._path)
        if self._reader is None or self._reader.jobdirs != jobdirs:
            if self._reader is not None:
                self._reader.close()
            self._reader = CrawlReader(self._path, jobdirs, self._settings)
        is_whole = self._reader.add(lambda _: None, until=began + _READING_SECS)
        crawl = self._reader.crawl()
        self._parked = crawl.counts("frontier/parked/")
        page = report(crawl, price=None, at=wall_time())
        if not is_whole:
            page = replace(page, head=[*page.head, "Still reading the log: the figures will grow."])
        self._page = replace(page, sections={**page.sections, "Settings": [self._given]})
        self._next = now() + (
            max(_MIN_PAUSE_SECS, _PAUSE_FACTOR * (now() - began)) if is_whole else 0.0
        )

    async def live(self, *, form: str, answer: str, url: str, host: str) -> Live:
        """Return the part that only the live page has; its forms carry the value *form*."""
        why, hosts = "", None
        if url:
            why = await self._answer(partial(self._why, url))
        if host:
            hosts = await self._answer(partial(self._host, host))
        live = Live(form, self._commands(), answer=answer, url=url, why=why, host=host)
        if isinstance(hosts, Figure):
            return replace(live, hosts=hosts)
        return replace(live, answer=hosts or answer)

    async def _answer(self, question: Any) -> Any:
        """Return the answer to *question*, or the error. One at a time: it may read a long log."""
        try:
            async with self._asking:
                return await asyncio.to_thread(question)
        except (FatalError, OSError) as error:
            return str(error)

    def _why(self, url: str) -> str:
        found = ask(self._path, lambda view: explain(url, view, self._settings))
        return why_text(found, now=wall_time())

    def _host(self, host: str) -> Figure:
        table = ask(self._path, lambda view: hosts_of(view, self._settings, [host]))
        return Figure("asked", host, "As of the last checkpoint (UTC).", table)

    def _commands(self) -> list[NextCommand]:
        found = []
        for name, kind in COMMANDS.items():
            if name != "state":
                asked = [
                    Field(field.name, _label(field.name, is_list(field))) for field in fields(kind)
                ]
                asked.append(Field("why", "Reason, for the journal", is_needed=False))
                line = f"scrapy control {self._path} {usage(name)}"
                effect = kind.__doc__ or ""
                question = self._question() if kind is Drop else ""
                found.append(NextCommand(name, name.capitalize(), effect, line, asked, question))
        return found

    def _question(self) -> str:
        """Return the question to confirm ``drop``, which cannot be undone."""
        counts = [f"{number:,} for {reason}" for reason, number in self._parked.items()]
        return f"Give up these URLs for good? Parked now: {', '.join(counts) or 'none'}"

    async def send(self, request: Request) -> list[CommandAnswer]:
        """Send *request* to the crawl and return its answers. Raises FatalError."""
        sending = partial(send_to_crawl, self._settings.copy(), request)
        return await asyncio.get_running_loop().run_in_executor(self._senders, sending)


def arguments_of(name: str, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of the command *name* in a *form*. FatalError for an unknown command."""
    if name not in COMMANDS:
        raise FatalError(f"{name[:40]!r} is not a command.")
    return {
        field.name: given.split() if is_list(field) else given
        for field in fields(COMMANDS[name])
        if (given := form.get(field.name, "").strip())
    }


def _label(name: str, is_many: bool) -> str:
    return f"{name.capitalize()}{', separated by spaces' * is_many}"
