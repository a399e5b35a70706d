"""Provides the current page about a crawl, answers queries, and sends commands to the crawl.

One thread reads the files of the job; of the log of finished URLs it reads only new lines. Once it
has read the whole log, it uses at most a hundredth of a core.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from msgspec.structs import fields, replace

from webcrawl.clock import now, wall_time
from webcrawl.configuration.secrets import mask
from webcrawl.control.sending import send_to_crawl
from webcrawl.control.table import COMMANDS, Drop, is_list, usage
from webcrawl.errors import FatalError
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.jobs.inspect.answers import answer_about
from webcrawl.jobs.inspect.why_text import moment
from webcrawl.jobs.report.figures import Figure, Table
from webcrawl.jobs.report.hosts_page import HostsPage, hosts_page
from webcrawl.jobs.report.model import Live, NextCommand, ReportPage
from webcrawl.jobs.report.over_time import RANGES, charts
from webcrawl.jobs.report.sections import report
from webcrawl.jobs.report.sources import CrawlReader
from webcrawl.jobs.search import SearchResult, indexes_of, search_all, stored_copy
from webcrawl.monitor.launch import SHOWN
from webcrawl.urls import host_of
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy.settings import Settings

    from webcrawl.control.control import CommandAnswer
    from webcrawl.crawl.job.control_journal import Request
    from webcrawl.items import Page

# The pause between two updates of the page is at least _MIN_PAUSE_SECS, and at least _PAUSE_FACTOR
# times as long as the last update took.
_MIN_PAUSE_SECS = 4.0
_PAUSE_FACTOR = 100
# One update reads a long log for at most this long.
_READING_SECS = 2.0
_MAX_SENDERS = 4
# An older page is updated before it is shown.
_MAX_AGE_SECS = 60.0


class Watch:
    """Watches the crawl with *settings*.

    *shown_settings* are the rows of the table of settings, with the columns ``SHOWN``.
    """

    def __init__(self, settings: Settings, shown_settings: Sequence[tuple[str, ...]]) -> None:
        self._settings = settings
        self._path = Path(settings["JOBDIR"])
        self._shown_settings = shown_settings
        self._reader: CrawlReader | None = None  # made by the first update
        self._thread = ThreadPoolExecutor(1)  # for updates
        # Commands have their own threads: a crawl that hangs must not keep pages waiting.
        self._senders = ThreadPoolExecutor(_MAX_SENDERS)
        self._page: ReportPage | None = None  # None until the first update has ended
        # The charts of that page that were asked for, by range and drone.
        self._charts: dict[tuple[str, str], list[Figure]] = {}
        # Values of settings that sentences of the page may name.
        self._values = {
            str(name): mask(name, value)
            for name, value in settings.items()
            if isinstance(value, (int, float, str)) and value != ""
        }
        self._update: asyncio.Future[None] | None = None  # the last update; it may be running
        # The next update may begin at this time of the monotonic clock.
        self._next_update_at = 0.0
        self._query_lock = asyncio.Lock()

    async def page(self) -> ReportPage:
        """Return the page, without its live part, and start an update if one is due.

        A page that is older than a minute is updated first. Raises FatalError, OSError or
        sqlite3.Error if the last update failed.
        """
        is_old = self._page is None or wall_time() - self._page.at > _MAX_AGE_SECS
        if self._update is None or self._update.done():
            # This request reports the failure of the last update, while the next one is running.
            last_update = self._update
            self._update = None
            if is_old or now() >= self._next_update_at:
                loop = asyncio.get_running_loop()
                self._update = loop.run_in_executor(self._thread, self._update_page)
            if last_update is not None and self._page is not None:
                last_update.result()  # raises its exception, if it failed
        if is_old and self._update is not None:
            await asyncio.shield(self._update)  # other requests may wait for it, too
        assert self._page is not None
        return self._page

    def _update_page(self) -> None:
        """Read what is new in the job and make a new page. Runs in the thread."""
        started_at = now()
        jobdirs = jobdirs_of(self._path)
        # When a drone joins, everything is read again.
        if self._reader is None or self._reader.jobdirs != jobdirs:
            if self._reader is not None:
                self._reader.close()
            self._reader = CrawlReader(self._path, jobdirs, self._settings)

        is_complete = self._reader.add(lambda _: None, until=started_at + _READING_SECS)
        crawl = self._reader.crawl()
        page = report(crawl, at=wall_time())
        if not is_complete:
            page = replace(page, head=[*page.head, "Still reading the log: the figures will grow."])
        lead = (
            "Settings that differ from the defaults of webcrawl or, if it has none, of Scrapy. "
            "Credentials are hidden. The table of runs says when values changed, and by whom."
        )
        settings = Figure("settings", "Settings", lead, Table(SHOWN, self._shown_settings))
        self._page = replace(page, sections={**page.sections, "Settings": [settings]})
        self._charts = {key: self._draw(*key, page.at) for key in self._charts}
        update_secs = now() - started_at
        pause = max(_MIN_PAUSE_SECS, _PAUSE_FACTOR * update_secs) if is_complete else 0.0
        self._next_update_at = now() + pause

    async def shown_page(self, live: Live) -> ReportPage:
        """Return the page with its *live* part and the charts that it names.

        Raises as ``page`` does.
        """
        model = await self.page()
        key = (live.range, live.drone)
        if key not in self._charts:
            self._charts[key] = await asyncio.to_thread(self._draw, *key, model.at)
        return replace(model, live=live, rates=self._charts[key])

    def _draw(self, period: str, drone: str, at: float) -> list[Figure]:
        """Return the charts of *period* until the epoch second *at*, of *drone* or of all."""
        assert self._reader is not None  # it has made a page
        jobdirs = [jobdir for jobdir in self._reader.jobdirs if drone in ("", jobdir.name)]
        return charts(jobdirs, secs=RANGES[period], until=at)

    async def live_part(
        self, *, form: str, answer: str, question: str, period: str, drone: str
    ) -> Live:
        """Return the part that only the live page has, with charts of *period* and *drone*.

        *form* is the hidden value of its forms, and *answer* the answer to the last command.
        *question* is the URL or host that the reader asks about, or "".
        """
        return Live(
            form,
            self._commands(),
            answer=answer,
            question=question,
            why=await self._answer_about(question) if question else "",
            can_search=indexes_of(self._settings)[0].is_dir(),
            settings=self._values,
            host=host_of(question) if "/" in question else question,
            now=wall_time(),
            range=period if period in RANGES else "day",
            drone=drone if drone in {jobdir.name for jobdir in jobdirs_of(self._path)} else "",
        )

    async def hosts(self, **question: Any) -> HostsPage:
        """Return the hosts of the crawl, as ``hosts_page`` does. Raises as ``page`` does."""
        at = (await self.page()).at
        assert self._reader is not None  # it has made that page
        page = await asyncio.to_thread(hosts_page, self._reader.file, **question)
        return page._replace(as_of=moment(at, wall_time()))

    async def search(self, words: str, *, limit: int, offset: int) -> SearchResult:
        """Search the pages of the crawl, as ``search_all`` does, in a thread. Raises FatalError."""
        indexes = indexes_of(self._settings)
        async with self._query_lock:
            return await asyncio.to_thread(search_all, indexes, words, limit=limit, offset=offset)

    async def stored_copy(self, url: str) -> Page | None:
        """Return the stored page of *url*, as ``stored_copy`` does, from a thread."""
        async with self._query_lock:
            return await asyncio.to_thread(stored_copy, indexes_of(self._settings), url)

    async def _answer_about(self, question: str) -> str:
        """Return the text of ``answer_about``, or of its error, from a thread.

        Questions are answered one at a time, because each may read a long log.
        """
        try:
            async with self._query_lock:
                answer = await asyncio.to_thread(answer_about, question, self._path, self._settings)
        except (FatalError, OSError) as error:
            return str(error)
        return answer.text

    def _commands(self) -> list[NextCommand]:
        """Return all commands that the page offers, with their forms."""
        commands = []
        for name, kind in COMMANDS.items():
            if name != "state":  # which the page always shows
                labels = {field.name: _label(field.name, is_list(field)) for field in fields(kind)}
                line = f"{COMMAND} control {quote(str(self._path))} {usage(name)}"
                effect = kind.__doc__ or ""
                question = "Give up these URLs for good?" if kind is Drop else ""
                commands.append(NextCommand(name, effect, line, labels, question))
        return commands

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
