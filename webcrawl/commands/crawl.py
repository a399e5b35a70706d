"""``scrapy crawl``, with an exit code for each way in which a crawl ends.

0  finished, or stopped by a signal or a limit, with everything saved
1  an error of the program: the log has the traceback
2  unusable input: seeds, a setting, the job directory; one sentence says what to do. Also when
   there was nothing at all to fetch
3  the disk is full or broken; mend it and run the same command again
4  too many unforeseen errors in close succession, or pages in a row that one processing module
   failed on, or a module failed on every page or in close; everything is saved
5  no host has ever answered this job: the network or the name servers are gone; everything is saved
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydispatch import dispatcher
from scrapy.commands import crawl
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.log import configure_logging
from scrapy.utils.misc import load_object
from scrapy.utils.reactor import is_reactor_installed

from webcrawl import __version__
from webcrawl.commands import (
    Options,
    Settings,
    UsageError,
    VisibleRecord,
    check_dictionaries,
    progress,
)
from webcrawl.configuration.secrets import masked
from webcrawl.configuration.setting_check import check_crawl, check_process
from webcrawl.crawl.engine.json_log import log_json
from webcrawl.crawl.engine.user_messages import print_error, tell
from webcrawl.crawl.figures.counts import Counts, refused_seeds
from webcrawl.errors import DiskError, FatalError, module_of, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler, CrawlerProcessBase

    from webcrawl.crawl.job.jobdir import Job
    from webcrawl.crawl.seeds.segments import SegmentQueue

logger = logging.getLogger(__name__)

#: By why the crawl ended; 0 for every other reason.
EXIT_CODES = {
    "start_error": 1,
    "program_error": 1,
    "unusable_seeds": 2,
    "unusable_settings": 2,
    "disk_full": 3,
    "disk_error": 3,
    "too_many_errors": 4,
    "module_failed": 4,
    "module_not_closed": 4,
    "no_answer": 5,
}


class Command(crawl.Command):
    """Scrapy's command, with checks of settings before the crawl and an exit code after it."""

    def short_desc(self) -> str:
        return "Begin or resume a crawl: scrapy crawl web -a seeds=FILE"

    def long_desc(self) -> str:
        return (
            "Run a spider of the project. The spider web takes -a seeds=SEED[,...]: seed lists, "
            "URLs, domains, or - for standard input, at least one; -a offline=1 (0 or 1, default "
            "0): seeds= names a queue, whose URLs are fetched and no links followed; -a "
            "min_hosts=N (1 or more, default 1), with offline=1: with fewer hosts left the next "
            "segment is read. The crawl lives in JOBDIR, a directory: -s JOBDIR=DIR (default "
            "crawls/web). The same command goes on with it."
        )

    def process_options(self, args: list[str], opts: Options) -> None:
        names = [argument.partition("=")[0] for argument in opts.spargs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            # Scrapy would take the last one without a message.
            raise UsageError(f"-a {twice} is given more than once")
        check_dictionaries(opts)
        super().process_options(args, opts)
        logging.setLogRecordFactory(VisibleRecord)
        assert self.settings is not None
        try:
            check_process(self.settings)
        except FatalError as error:
            with contextlib.suppress(OSError):  # LOG_FILE may be what cannot be
                configure_logging({"LOG_FILE": self.settings["LOG_FILE"]})
            sys.exit(_refused(error))
        if self.settings.getbool("LOG_JSON"):
            log_json()
        quiet_lists()
        loop = self.settings.get("ASYNCIO_EVENT_LOOP")
        if loop and not is_reactor_installed():
            # Scrapy would make one of Python's loops first and throw it away, which complains when
            # it is collected.
            asyncio.set_event_loop(load_object(loop)())

    def run(self, args: list[str], opts: Options) -> None:
        if len(args) != 1:
            raise UsageError("name one spider, for example: scrapy crawl web -a seeds=FILE")
        assert self.crawler_process is not None
        try:
            crawler = self.crawler_process.create_crawler(args[0])
        except KeyError:
            known = ", ".join(self.crawler_process.spider_loader.list())
            raise UsageError(f"there is no spider {args[0]}; there is: {known}") from None
        try:
            check_crawl(crawler.settings)
        except FatalError as error:
            logger.debug("The crawl could not start", exc_info=error)
            self.exitcode = _refused(error)
            return
        if not self._is_taken_up(crawler.settings.copy()):
            return
        # The version of the egg, if scrapyd runs one: scrapy hive up looks for it.
        egg = os.environ.get("SCRAPYD_EGG_VERSION")
        version = f"{__version__}, egg {egg}" if egg else __version__
        logger.info("webcrawl %s, spider %s%s", version, args[0], _given(crawler, opts.spargs))
        from webcrawl.signals import JOB_IS_VOID

        void: list[Job] = []
        crawler.signals.connect(lambda job: void.append(job), signal=JOB_IS_VOID, weak=False)  # noqa: PLW0108  # a builtin has no signature
        self.exitcode = crawl_to_end(self.crawler_process, crawler, **opts.spargs)
        for job in void:  # the next try begins anew
            job.discard()
        if self.exitcode == 0:
            self._note_end(crawler)
        if crawler.settings.get("HIVE"):
            _end_redis_of_hive(crawler)
        # At exit Python would collect garbage three times over all that the crawl still holds: 1.7
        # of the 10 seconds that a service has to stop (2026-11-20, 270 MB, busy).
        gc.freeze()

    def _is_taken_up(self, settings: Settings) -> bool:
        """Whether the crawl may begin, what it finished without REVISIT being due. Blocks."""
        from webcrawl.commands.frontier import crawler_of_job
        from webcrawl.configuration.values import flag
        from webcrawl.crawl.job.state_directory import read_state
        from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

        try:
            if not (flag(settings, "REVISIT") and settings["JOBDIR"]):
                return True
            own = read_state(Path(settings["JOBDIR"]))
            if own is None or own.facts.get("revisits"):
                return True
            if settings.get("HIVE"):  # its URLs may be other drones' by now
                logger.warning(
                    "REVISIT: what the hive has finished before is not due by itself: scrapy "
                    "frontier JOBDIR --refetch all makes it so, while the hive runs, too"
                )
                return True
            from webcrawl.jobs.inspect.requeueing import postpone_finished

            with progress("URLs") as on_progress:
                done = postpone_finished(crawler_of_job(settings), on_progress=on_progress)
            logger.info("REVISIT: URLs that were finished before, and are due: %d", done.urls)
        except (CorruptRecordError, NewerFormatError):
            return True  # said when the job is opened
        except FatalError as error:
            self.exitcode = _refused(error)
            return False
        return True

    def _note_end(self, crawler: Crawler) -> None:
        from webcrawl.crawl.seeds.few_hosts import HAS_FEW_HOSTS

        stats = crawler.stats
        # What went wrong while the crawl was being closed for another reason counts.
        reason = stats.get_value("finish/cause") or stats.get_value("finish_reason", "")
        self.exitcode = EXIT_CODES.get(reason, 0)
        sentence = stats.get_value("finish/error")
        if sentence:
            print_error(f"webcrawl: {sentence}\n")  # the log has it
        elif crawler.settings.get("HIVE"):
            pass  # what one drone had to do says nothing of the crawl
        elif reason == "finished" and (why := _nothing_fetched(stats.get_stats())):
            tell(f"webcrawl: {why}\n")
            self.exitcode = 2
        elif crawler.settings["JOBDIR"] and reason in {"finished", HAS_FEW_HOSTS}:
            self._hand_back(crawler, has_remainder=reason == HAS_FEW_HOSTS)

    def _hand_back(self, crawler: Crawler, *, has_remainder: bool) -> None:
        """A crawl has fetched all but the URLs of a few hosts, or an offline one its segments."""
        from webcrawl.crawl.seeds.few_hosts import REMAINDER
        from webcrawl.jobs.inspect.job_view import ask
        from webcrawl.jobs.inspect.seeds_file import export

        jobdir = Path(crawler.settings["JOBDIR"])
        queue: SegmentQueue | None = getattr(crawler.spider, "segment_queue", None)
        said = "" if queue is None else f"The segments in {queue.directory} are fetched."
        try:
            if has_remainder:
                path = jobdir / REMAINDER if queue is None else queue.remainder(jobdir)
                urls = ask(jobdir, lambda view: export(view, path, on_progress=lambda _: None)).urls
                said = f"Few hosts are left: URLs handed back to {path}: {urls:,}."
        except FatalError as error:
            self.exitcode = _refused(error)
            return
        if queue is None:
            if said:
                tell(f"webcrawl: {said}\n")
            return
        stored = {"WARC_DIR": ("warc", "/*.warc.gz"), "LARM_DIR": ("larm", "")}
        places = [
            (Path(crawler.settings[name] or jobdir / folder), files)
            for name, (folder, files) in stored.items()
        ]
        sources = " ".join(f"{place}{files}" for place, files in places if place.exists())
        tell(
            f"webcrawl: {said} Build the next segment and run the same command again: "
            f"scrapy queue-build --queue {queue.directory} {sources}\n"
        )


def _refused(error: ValueError) -> int:
    """The exit code after a bad input, whose sentence is printed."""
    tell(f"webcrawl: {error}\n")
    return 3 if isinstance(error, DiskError) else 2


def _end_redis_of_hive(crawler: Crawler) -> None:
    """The supervisor of a hive on this machine ends its Redis, or, if it was killed, the last
    drone."""
    from webcrawl.hive.launch.supervisor import end_left_redis
    from webcrawl.hive.membership.embedded_redis import EmbeddedRedis

    hive = Path(crawler.settings["JOBDIR"]).parent.parent
    if crawler.settings["REDIS_URL"] == EmbeddedRedis(directory=hive / "redis").url:
        asyncio.run(end_left_redis(hive))


def crawl_to_end(process: CrawlerProcessBase, crawler: Crawler, **arguments: Any) -> int:
    """Crawl until the end. The exit code of the start: 0; 2 or 3 for bad input, after printing one
    sentence; 1 for an error of the program, after logging its traceback."""
    from webcrawl.crawl.engine._engine import stop_when_opened

    codes: list[int] = []
    stop_when_opened(crawler)
    task = process.crawl(crawler, **arguments)
    assert isinstance(task, asyncio.Task)
    task.add_done_callback(lambda task: codes.append(_exit_code_of_start(task)))
    process.start()
    # When Python takes modules apart, PyDispatcher prints a traceback for each receiver left.
    dispatcher.connections.clear()
    dispatcher.sendersBack.clear()
    return max(codes, default=0)


def _exit_code_of_start(task: asyncio.Task[None]) -> int:
    error = None if task.cancelled() else task.exception()
    if error is None:
        return 0
    # The engine raises another error while it cleans up after the first.
    causes: list[BaseException] = [error]
    while causes[-1].__context__ is not None:
        causes.append(causes[-1].__context__)
    bad_input = [cause for cause in causes if isinstance(cause, ValueError)]
    bad_input.sort(key=lambda cause: not isinstance(cause, FatalError))
    failed = ""
    if (module := module_of(causes[-1], "open_spider")) is not None:
        failed = f"The module {path_of(module)} failed in open"
    elif (path := module_of(causes[-1], "from_crawler", "clspath")) is not None:
        failed = f"{path} could not be made"
    if not bad_input or (failed and not isinstance(bad_input[0], FatalError)):
        failed = failed or "The crawl could not start"
        logger.error("The crawl could not start", exc_info=error)
        tell(f"webcrawl: {failed}: {causes[-1]!r}; the log has the traceback.\n")
        return 1
    logger.debug("The crawl could not start", exc_info=error)
    return _refused(bad_input[0])


def _nothing_fetched(stats: Mapping[str, Any]) -> str:
    """The reason for which a crawl of seeds ended without contacting a host, in all of its runs; ""
    if it contacted one."""
    from webcrawl.crawl.figures.summary import REMEDIES
    from webcrawl.crawl.job.totals import PREFIX

    counts = Counts.of(stats, PREFIX)
    if "seeds/read" not in stats or stats.get(f"{PREFIX}contacts", 0) or counts.pages:
        return ""
    reasons = [f"{name} {number:,}" for name, number in sorted(counts.given_up.items())]
    if refused := refused_seeds(stats, PREFIX):
        reasons.insert(0, f"seeds refused by filters: {refused}")
    listed = "; ".join(reasons) or "no seeds"
    remedy = REMEDIES["address_forbidden"] if "address_forbidden" in counts.given_up else ""
    return f"Nothing was fetched, as there was nothing to fetch ({listed}{remedy})."


# What Scrapy lists when it starts, some sixty lines. Of its lists of components that of the
# processing modules stays.
_LISTS = re.compile(r"Versions:|Enabled (?!item pipelines)")
_MOST_CHARACTERS = 2000


def quiet_lists() -> None:
    """Have Scrapy's lists logged with ``-L DEBUG`` only."""
    for name in ("scrapy.utils.log", "scrapy.addons", "scrapy.middleware"):
        logging.getLogger(name).addFilter(_lists_at_debug)


def _lists_at_debug(record: logging.LogRecord) -> bool:
    """Log Scrapy's lists at DEBUG instead of INFO."""
    if record.levelno == logging.INFO and _LISTS.match(record.getMessage()):
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return True


def _given(crawler: Crawler, arguments: dict[str, str]) -> str:
    """The command line's arguments for the spider, and its settings."""
    priority = crawler.settings.getpriority
    given = arguments | {
        name: value
        for name, value in sorted(crawler.settings.copy_to_dict().items())
        if (priority(name) or 0) >= SETTINGS_PRIORITIES["cmdline"]
    }
    text = ", ".join(f"{name}={masked(name, value)}" for name, value in given.items())
    return f", with {text[:_MOST_CHARACTERS]}" if text else ""
