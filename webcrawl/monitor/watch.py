"""Provides the current page about a crawl, answers queries, and sends commands to the crawl.

One thread reads the files of the job; of the log of finished URLs it reads only new lines. It uses
at most a hundredth of a core, and only while someone looks at the page.
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
from webcrawl.jobs.search import indexes_of, search_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy.settings import Settings

    from webcrawl.control.control import CommandAnswer
    from webcrawl.crawl.job.control_journal import Request
    from webcrawl.jobs.report.model import ReportPage
    from webcrawl.jobs.search import SearchResult

# The pause between two updates of the page is at least _MIN_PAUSE_SECS, and at least _PAUSE_FACTOR
# times as long as the last update took.
_MIN_PAUSE_SECS = 4.0
_PAUSE_FACTOR = 100
# One update reads a long log for at most this long.
_READING_SECS = 2.0
_MAX_SENDERS = 4


class Watch:
    """Watches the crawl with *settings*.

    *shown_settings* are the rows of the table of settings: name, value and origin.
    """

    def __init__(self, settings: Settings, shown_settings: Sequence[tuple[str, str, str]]) -> None:
        self._settings = settings
        self._path = Path(settings["JOBDIR"])
        table = Table(("setting", "value", "from"), shown_settings)
        lead = "Settings that differ from Scrapy's defaults; credentials are hidden."
        self._settings_table = Figure("settings", "Settings", lead, table)
        self._reader: CrawlReader | None = None
        self._thread = ThreadPoolExecutor(1)
        # Commands have their own threads: a crawl that hangs must not keep pages waiting.
        self._senders = ThreadPoolExecutor(_MAX_SENDERS)
        self._page: ReportPage | None = None
        self._parked: Mapping[str, int] = {}
        self._update: asyncio.Future[None] | None = None
        # The next update may begin at this time of the monotonic clock.
        self._next_update_at = 0.0
        self._query_lock = asyncio.Lock()

    async def page(self) -> ReportPage:
        """Return the last page, without its live part, and start an update if one is due.

        Raises FatalError, OSError or sqlite3.Error if the last update failed.
        """
        if self._update is None or self._update.done():
            last_update, self._update = self._update, None
            if now() >= self._next_update_at:
                loop = asyncio.get_running_loop()
                self._update = loop.run_in_executor(self._thread, self._update_page)
            if last_update is not None and self._page is not None:
                last_update.result()  # raises its exception, if it failed
        if self._page is None and self._update is not None:
            await asyncio.shield(self._update)  # other requests may wait for it, too
        assert self._page is not None
        return self._page

    def _update_page(self) -> None:
        """Read what is new in the job and make a new page. Runs in the thread."""
        started_at, jobdirs = now(), jobdirs_of(self._path)
        if self._reader is None or self._reader.jobdirs != jobdirs:
            if self._reader is not None:
                self._reader.close()
            self._reader = CrawlReader(self._path, jobdirs, self._settings)

        is_complete = self._reader.add(lambda _: None, until=started_at + _READING_SECS)
        crawl = self._reader.crawl()
        self._parked = crawl.counts("frontier/parked/")
        page = report(crawl, price=None, at=wall_time())
        if not is_complete:
            page = replace(page, head=[*page.head, "Still reading the log: the figures will grow."])
        self._page = replace(page, sections={**page.sections, "Settings": [self._settings_table]})
        self._next_update_at = now() + (
            max(_MIN_PAUSE_SECS, _PAUSE_FACTOR * (now() - started_at)) if is_complete else 0.0
        )

    async def live(self, *, form: str, answer: str, url: str, host: str) -> Live:
        """Return the part that only the live page has.

        *form* is the hidden value of its forms, and *answer* the answer to the last command. *url*
        and *host* are what the reader asks about, or "".
        """
        why, hosts = "", None
        if url:
            why = await self._run_query(partial(self._explain, url))
        if host:
            hosts = await self._run_query(partial(self._host_table, host))
        live = Live(
            form,
            self._commands(),
            answer=answer,
            url=url,
            why=why,
            host=host,
            can_search=indexes_of(self._settings)[0].is_dir(),
        )
        if isinstance(hosts, Figure):
            return replace(live, hosts=hosts)
        return replace(live, answer=hosts or answer)

    async def search(self, words: str, *, limit: int, offset: int) -> SearchResult:
        """Search the pages of the crawl, as ``search_all`` does, in a thread. Raises FatalError."""
        indexes = indexes_of(self._settings)
        async with self._query_lock:
            return await asyncio.to_thread(search_all, indexes, words, limit=limit, offset=offset)

    async def _run_query(self, query: Any) -> Any:
        """Run *query* in a thread, and return its result or the text of its error.

        Queries run one at a time, because each may read a long log.
        """
        try:
            async with self._query_lock:
                return await asyncio.to_thread(query)
        except (FatalError, OSError) as error:
            return str(error)

    def _explain(self, url: str) -> str:
        """Return the explanation of *url* as text."""
        explanation = ask(self._path, lambda view: explain(url, view, self._settings))
        return why_text(explanation, now=wall_time())

    def _host_table(self, host: str) -> Figure:
        """Return the table with the state of *host*."""
        table = ask(self._path, lambda view: hosts_of(view, self._settings, [host]))
        return Figure("asked", host, "As of the last checkpoint (UTC).", table)

    def _commands(self) -> list[NextCommand]:
        """Return all commands that the page offers, with their forms."""
        commands = []
        for name, kind in COMMANDS.items():
            if name != "state":
                form_fields = [
                    Field(field.name, _label(field.name, is_list(field))) for field in fields(kind)
                ]
                form_fields.append(Field("why", "Reason, for the journal", is_needed=False))
                line = f"scrapy control {self._path} {usage(name)}"
                effect = kind.__doc__ or ""
                question = self._drop_question() if kind is Drop else ""
                commands.append(
                    NextCommand(name, name.capitalize(), effect, line, form_fields, question)
                )
        return commands

    def _drop_question(self) -> str:
        """Return the question that confirms the command ``drop``, which cannot be undone."""
        counts = [f"{number:,} for {reason}" for reason, number in self._parked.items()]
        return f"Give up these URLs for good? Parked now: {', '.join(counts) or 'none'}"

    async def send(self, request: Request) -> list[CommandAnswer]:
        """Send *request* to the crawl and return its answers. Raises FatalError."""
        sending = partial(send_to_crawl, self._settings.copy(), request)
        return await asyncio.get_running_loop().run_in_executor(self._senders, sending)


def arguments_of(name: str, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of the command *name* from the fields of a *form*.

    Raises FatalError if there is no such command.
    """
    if name not in COMMANDS:
        raise FatalError(f"{name[:40]!r} is not a command.")
    return {
        field.name: value.split() if is_list(field) else value
        for field in fields(COMMANDS[name])
        if (value := form.get(field.name, "").strip())
    }


def _label(name: str, is_many: bool) -> str:
    return f"{name.capitalize()}{', separated by spaces' * is_many}"
