"""Start or resume a crawl: scrapy crawl web -a seeds=FILE.

Runs a spider of this project, normally "web". The state of the crawl is kept in a job directory
(JOBDIR). Press Ctrl-C once to stop with a checkpoint, and run the same command again to resume.

Arguments of the spider web:
  -a seeds=SEED[,...]  where to start: files with seeds, URLs, domains, or - for
                       standard input; at least one
  -a offline=1         fetch the URLs of a queue and follow no links; seeds= is
                       the queue (default: 0)
  -a min_hosts=N       with offline=1: read the next segment of the queue when
                       fewer than N hosts are left (default: 1)

Frequent settings:
  -s JOBDIR=DIR        job directory (default for web: crawls/web; other spiders:
                       none, nothing is kept)
  -s URL_SCOPE=seeds   stay on the sites of the seeds
  -s CRAWLER_CONTACT=  an email address or a web page of yours, for site owners

Examples:
  scrapy crawl web -a seeds=https://example.org/ -s URL_SCOPE=seeds
  scrapy crawl web -a seeds=seeds.txt -s JOBDIR=crawls/first

Exit codes:
  0  finished, or stopped by a signal or a limit; everything is saved
  1  an error in the program; the log has the traceback
  2  unusable input (seeds, a setting, the job directory), or nothing to fetch;
     a message says what to do
  3  the disk is full or broken; fix it and run the same command again
  4  too many unexpected errors, or a processing module failed too often;
     everything is saved
  5  no host has ever answered: check the network and the name servers;
     everything is saved
  6  Redis does not answer: start it and run the same command again
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import re
import sys
from pathlib import Path
from shlex import quote
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
    add_epilog,
    check_dictionaries,
    check_words,
    help_of,
    progress,
)
from webcrawl.configuration.secrets import mask
from webcrawl.configuration.setting_check import check_crawl, check_process
from webcrawl.configuration.values import plain_value
from webcrawl.crawl.engine.json_log import log_json
from webcrawl.crawl.engine.user_messages import print_and_log, print_error
from webcrawl.crawl.figures.counts import Counts, is_unused, refused_seeds
from webcrawl.errors import DiskError, FatalError, UnreachableError, module_of, path_of
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from scrapy.crawler import Crawler, CrawlerProcessBase

    from webcrawl.crawl.job.jobdir import Job
    from webcrawl.crawl.seeds.segments import SegmentQueue

logger = logging.getLogger(__name__)

#: Exit codes by the reason for which the crawl ended; 0 for every other reason.
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
    "unreachable": 6,
}


class Command(crawl.Command):
    """Scrapy's crawl command; it also checks settings first and returns an exit code."""

    def short_desc(self) -> str:
        return help_of(__name__)[0]

    def long_desc(self) -> str:
        return help_of(__name__)[1]

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add_epilog(self, parser, __name__)

    def process_options(self, args: list[str], opts: Options) -> None:
        """Process the options, check the settings that are used early, and set up logging.

        Prints a sentence and exits if a setting is invalid. Raises UsageError for a spider argument
        that is given twice.
        """
        names = [argument.partition("=")[0] for argument in opts.spargs]
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            # Scrapy would silently take the last one.
            raise UsageError(f"-a {repeated} is given more than once")

        check_words(self, args, "crawl")
        check_dictionaries(opts)
        super().process_options(args, opts)
        logging.setLogRecordFactory(VisibleRecord)
        assert self.settings is not None

        try:
            check_process(self.settings)
        except FatalError as error:
            with contextlib.suppress(OSError):  # the wrong setting may be LOG_FILE itself
                configure_logging({"LOG_FILE": self.settings["LOG_FILE"]})
            sys.exit(_report_bad_input(error))

        if self.settings.getbool("LOG_JSON"):
            log_json()
        quiet_lists()
        event_loop = self.settings.get("ASYNCIO_EVENT_LOOP")
        if event_loop and not is_reactor_installed():
            # Otherwise Scrapy would first create one of Python's loops and drop it, which causes a
            # warning when it is garbage-collected.
            asyncio.set_event_loop(load_object(event_loop)())

    def run(self, args: list[str], opts: Options) -> None:
        """Run the crawl of the spider in *args*, and set the exit code."""
        if len(args) != 1:
            raise UsageError(f"give one spider, for example: {COMMAND} crawl web -a seeds=FILE")
        assert self.crawler_process is not None

        try:
            crawler = self.crawler_process.create_crawler(args[0])
        except KeyError:
            known = ", ".join(self.crawler_process.spider_loader.list())
            raise UsageError(f"there is no spider {args[0]}; choose from: {known}") from None

        try:
            check_crawl(crawler.settings)
        except FatalError as error:
            logger.debug("The crawl could not start", exc_info=error)
            self.exitcode = _report_bad_input(error)
            return
        if not self._prepare_revisits(crawler.settings.copy()):
            return

        arguments = _describe_arguments(crawler, opts.spargs)
        logger.info("webcrawl %s, spider %s%s", __version__, args[0], arguments)

        from webcrawl.signals import JOB_IS_VOID

        # Gets the job if this run began it and ended before any URL was submitted. Nothing in it
        # must then be kept.
        void_jobs: list[Job] = []
        crawler.signals.connect(lambda job: void_jobs.append(job), signal=JOB_IS_VOID, weak=False)  # noqa: PLW0108  # a builtin has no signature
        self.exitcode = crawl_to_end(self.crawler_process, crawler, **opts.spargs)
        for job in void_jobs:
            job.discard()
        if self.exitcode == 0:
            self._set_exit_code(crawler)
        if crawler.settings.get("HIVE") and "webcrawl.hive" in sys.modules:  # it could be loaded
            _end_redis_of_hive(crawler)
        # At exit Python would collect garbage three times, among everything that the crawl holds.
        # That can take seconds, and a service has only ten seconds to stop.
        gc.freeze()

    def _prepare_revisits(self, settings: Settings) -> bool:
        """Make finished URLs due for a visit if REVISIT is set for the first time in this job.

        Returns False if the crawl cannot start; then an error was printed. Blocks.
        """
        from webcrawl.commands.frontier import crawler_for_job
        from webcrawl.configuration.values import flag
        from webcrawl.crawl.job.state_directory import read_state
        from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError

        try:
            if not (flag(settings, "REVISIT") and settings["JOBDIR"]):
                return True
            job_state = read_state(Path(settings["JOBDIR"]))
            # The job is new, or has had REVISIT before.
            if job_state is None or job_state.facts.get("revisits"):
                return True
            if settings.get("HIVE"):  # its URLs may belong to other drones by now
                logger.warning(
                    "REVISIT: pages that this hive fetched before REVISIT was set are not visited "
                    "again automatically. To revisit them, run: %s frontier JOBDIR --refetch all "
                    "(also while the hive is running)",
                    COMMAND,
                )
                return True
            from webcrawl.jobs.inspect.requeueing import postpone_finished

            with progress("URLs") as on_progress:
                result = postpone_finished(crawler_for_job(settings), on_progress=on_progress)
            logger.info("REVISIT: finished URLs that are now due for a visit: %d", result.urls)
        except (CorruptRecordError, NewerFormatError):
            return True  # reported when the job is opened
        except FatalError as error:
            self.exitcode = _report_bad_input(error)
            return False
        return True

    def _set_exit_code(self, crawler: Crawler) -> None:
        """Set the exit code by the reason for which the crawl ended, and print a message if due."""
        from webcrawl.crawl.seeds.few_hosts import HAS_FEW_HOSTS

        stats = crawler.stats
        # An error while closing counts more than the reason for which the crawl was closed.
        reason = stats.get_value("finish/cause") or stats.get_value("finish_reason", "")
        self.exitcode = EXIT_CODES.get(reason, 0)
        error = stats.get_value("finish/error")
        if error:
            print_error(f"webcrawl: {error}\n")  # it was logged before
        elif crawler.settings.get("HIVE"):
            pass  # one drone without work says nothing about the crawl
        elif reason == "finished" and (explanation := _why_nothing_was_fetched(stats.get_stats())):
            print_and_log(f"webcrawl: {explanation}\n")
            # Either the name servers did not answer, or the seeds are of no use.
            self.exitcode = 5 if stats.get_value("crawl/outcome/dns_failed") else 2
        elif crawler.settings["JOBDIR"] and reason in {"finished", HAS_FEW_HOSTS}:
            self._report_offline_end(crawler, has_remainder=reason == HAS_FEW_HOSTS)

    def _report_offline_end(self, crawler: Crawler, *, has_remainder: bool) -> None:
        """Print how an offline crawl ended; with *has_remainder*, write its last URLs to a file.

        Such a crawl has a queue of segments. Without one, only the file is reported.
        """
        from webcrawl.crawl.seeds.few_hosts import REMAINDER

        jobdir = Path(crawler.settings["JOBDIR"])
        queue: SegmentQueue | None = getattr(crawler.spider, "segment_queue", None)
        text = "" if queue is None else f"All segments in {queue.directory} were fetched."
        try:
            if has_remainder:
                from webcrawl.jobs.inspect.job_view import ask
                from webcrawl.jobs.inspect.seeds_file import export

                path = jobdir / REMAINDER if queue is None else queue.remainder(jobdir)
                urls = ask(jobdir, lambda view: export(view, path, on_progress=lambda _: None)).urls
                text = f"Few hosts are left; their {urls:,} URLs were written to {path}."
        except FatalError as error:
            self.exitcode = _report_bad_input(error)
            return
        if queue is None:
            if text:
                print_and_log(f"webcrawl: {text}\n")
            return
        # The job directory stands for the pages in it, which may be stored elsewhere.
        source = crawler.settings["WARC_DIR"] or crawler.settings["LARM_DIR"] or jobdir
        print_and_log(
            f"webcrawl: {text} Build the next segment, then run the same command again: "
            f"{COMMAND} queue-build --queue {quote(str(queue.directory))} {quote(str(source))}\n"
        )


def _report_bad_input(error: ValueError) -> int:
    """Print the sentence of *error*, about bad input, and return the exit code."""
    print_and_log(f"webcrawl: {error}\n")
    if isinstance(error, UnreachableError):
        return 6
    return 3 if isinstance(error, DiskError) else 2


def _end_redis_of_hive(crawler: Crawler) -> None:
    """Stop the hive's own Redis if its supervisor was killed and this was the last drone."""
    from webcrawl.hive.launch.supervisor import end_leftover_redis
    from webcrawl.hive.membership.embedded_redis import EmbeddedRedis

    hive = Path(crawler.settings["JOBDIR"]).parent.parent
    if crawler.settings["REDIS_URL"] == EmbeddedRedis(directory=hive / "redis").url:
        asyncio.run(end_leftover_redis(hive))


def crawl_to_end(process: CrawlerProcessBase, crawler: Crawler, **arguments: Any) -> int:
    """Run *crawler* with spider *arguments* until it ends; return an exit code for its start.

    The code is 0 if the crawl could start; 2, 3 or 6 if not, after printing one sentence; 1 for
    an error in the program, after logging its traceback.
    """
    from webcrawl.crawl.engine._engine import stop_when_opened

    codes: list[int] = []  # gets one code when the task is done; none if it is never done
    stop_when_opened(crawler)
    task = process.crawl(crawler, **arguments)
    assert isinstance(task, asyncio.Task)
    task.add_done_callback(lambda task: codes.append(_exit_code_of_start(task)))
    process.start()
    # While Python shuts down, PyDispatcher would print a traceback for each remaining receiver.
    dispatcher.connections.clear()
    dispatcher.sendersBack.clear()
    return max(codes, default=0)


def _exit_code_of_start(task: asyncio.Task[None]) -> int:
    """Return the exit code for the start of the crawl of *task*, after reporting an error."""
    error = None if task.cancelled() else task.exception()
    if error is None:
        return 0
    # While the engine cleans up after the first error, it raises others. Find the first one.
    causes: list[BaseException] = [error]
    while causes[-1].__context__ is not None:
        causes.append(causes[-1].__context__)

    # Errors in settings and seeds are ValueErrors. A FatalError has the best sentence, so it is
    # put first.
    bad_input = [cause for cause in causes if isinstance(cause, ValueError)]
    bad_input.sort(key=lambda cause: not isinstance(cause, FatalError))

    failure = ""
    if (module := module_of(causes[-1], "open_spider")) is not None:
        failure = f"The module {path_of(module)} failed in open"
    elif (path := module_of(causes[-1], "from_crawler", "clspath")) is not None:
        failure = f"{path} could not be created"

    # A ValueError that is not fatal may be a bug in the module or extension that raised it.
    if not bad_input or (failure and not isinstance(bad_input[0], FatalError)):
        failure = failure or "The crawl could not start"
        logger.error("The crawl could not start", exc_info=error)
        print_and_log(f"webcrawl: {failure}: {causes[-1]!r}; the log has the traceback.\n")
        return 1
    logger.debug("The crawl could not start", exc_info=error)
    return _report_bad_input(bad_input[0])


def _why_nothing_was_fetched(stats: Mapping[str, Any]) -> str:
    """Return a sentence that says why a crawl with seeds never contacted a host in any run.

    Returns "" if it has contacted one.
    """
    from webcrawl.crawl.figures.summary import REMEDIES
    from webcrawl.crawl.job.totals import PREFIX

    if not is_unused(stats, PREFIX):  # the stats with this prefix are the totals of all runs
        return ""
    remedies = {
        **REMEDIES,
        "dns_failed": ": check the network and DNS_SERVERS",
        "dns_not_found": ": no such host, check the spelling of the seeds",
    }
    given_up = sorted(Counts.of(stats, PREFIX).given_up.items())
    reasons = [f"{name} {number:,}{remedies.get(name, '')}" for name, number in given_up]
    if refused := refused_seeds(stats, PREFIX):
        reasons.insert(0, f"seeds refused by filters: {refused}")
    all_reasons = "; ".join(reasons) or "no seeds"
    return f"Nothing was fetched, because there was nothing to fetch ({all_reasons})."


# When Scrapy starts, it logs versions, settings and components in about sixty lines. Of these, only
# the list of processing modules stays at INFO.
_STARTUP_LISTS = re.compile(r"Versions:|Enabled (?!item pipelines)")
_MAX_CHARACTERS = 2000


def quiet_lists() -> None:
    """Make Scrapy log its lists at start-up only with ``-L DEBUG``."""
    for name in ("scrapy.utils.log", "scrapy.addons", "scrapy.middleware"):
        logging.getLogger(name).addFilter(_lower_list_to_debug)


def _lower_list_to_debug(record: logging.LogRecord) -> bool:
    """Change the level of *record* to DEBUG if it is one of Scrapy's lists at start-up.

    This is a logging filter that always keeps the record.
    """
    if record.levelno == logging.INFO and _STARTUP_LISTS.match(record.getMessage()):
        record.levelno = logging.DEBUG
        record.levelname = "DEBUG"
    return True


def _describe_arguments(crawler: Crawler, arguments: dict[str, str]) -> str:
    """Describe the spider *arguments* and the settings of the command line, for the log."""
    priority = crawler.settings.getpriority
    given = {
        str(name): plain_value(value)
        for name, value in crawler.settings.items()
        if (priority(name) or 0) >= SETTINGS_PRIORITIES["cmdline"]
    }
    values = arguments | dict(sorted(given.items()))
    text = ", ".join(f"{name}={mask(name, value)}" for name, value in values.items())
    return f", with {text[:_MAX_CHARACTERS]}" if text else ""
