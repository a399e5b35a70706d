"""``scrapy`` commands of this project (COMMANDS_MODULE).

Scrapy loads all of them for each of its commands, so a module here imports what it needs when it is
run. Scrapy's tools (shell, fetch, view, parse, check, bench) have modules of their names here, in
place of Scrapy's own, only to run on Scrapy's scheduler.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError as UsageError
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.settings import Settings as Settings

from webcrawl.configuration.secrets import masked_url
from webcrawl.errors import FatalError
from webcrawl.settings import web_spider
from webcrawl.wording import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrapy.crawler import Crawler

#: What each command is given, beside its arguments and its ``Settings``.
Group: TypeAlias = argparse._ArgumentGroup
Options: TypeAlias = argparse.Namespace
# Above what a spider sets for its crawls; the command line says what it wants.
_PRIORITY = (SETTINGS_PRIORITIES["spider"] + SETTINGS_PRIORITIES["cmdline"]) // 2
# Here a user names the URL, not a page.
_SCHEMES = ("file", "data", "s3")
_PROGRESS_SECS = 0.2
_PROGRESS_COLUMNS = 40
# Those of Scrapy that log failed downloads.
_LOGGERS = ("scrapy.downloadermiddlewares.robotstxt", "scrapy.core.scraper")


class VisibleRecord(logging.LogRecord):
    """Log record without control characters and without credentials of URLs.

    Files, hosts and URLs may have the former in their names.
    """

    def getMessage(self) -> str:  # noqa: N802  # the library's name
        return visible(masked_url(super().getMessage()))

    @property
    def exc_text(self) -> str | None:
        """The traceback, which formatters put here and take from here."""
        return self._exc_text

    @exc_text.setter
    def exc_text(self, text: str | None) -> None:
        self._exc_text = text and visible(masked_url(text))


def on_scrapys_scheduler(
    command: type[ScrapyCommand], module: str, **given: object
) -> type[ScrapyCommand]:
    """*command* as one of *module*, on Scrapy's scheduler and with the settings *given*: a tool
    fetches a page or two and needs no job directory."""

    def process_options(self: ScrapyCommand, args: list[str], opts: Options) -> None:
        logging.setLogRecordFactory(VisibleRecord)
        check_dictionaries(opts)
        command.process_options(self, args, opts)
        settings = self.settings
        assert settings is not None
        settings.setdict(given, priority="cmdline")
        for name in ("SCHEDULER", "DUPEFILTER_CLASS", "JOBDIR"):
            value = self.default_settings.get(name, getattr(default_settings, name))
            settings.set(name, value, priority=_PRIORITY)
        handlers = {name: default_settings.DOWNLOAD_HANDLERS_BASE[name] for name in _SCHEMES}
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_in_a_sentence)
        name = "DOWNLOAD_HANDLERS_BASE"
        settings.set(name, {**settings.getdict(name), **handlers}, priority=_PRIORITY)

    return type("Command", (command,), {"__module__": module, "process_options": process_options})


def _in_a_sentence(record: logging.LogRecord) -> bool:
    """Log a foreseen failure of a download without its traceback, and what robots.txt denies."""
    error = record.exc_info[1] if record.exc_info else None
    if hasattr(error, "outcome"):
        record.msg, record.args, record.exc_info = "%s", (str(error),), None
    elif str(record.msg).startswith("Forbidden by robots.txt"):
        record.levelno, record.levelname = logging.ERROR, "ERROR"
    return True


def check_dictionaries(opts: Options) -> None:
    """UsageError for a dictionary of the command line that is not one: Scrapy would not say so."""
    from webcrawl.configuration.setting_check import DICTIONARIES
    from webcrawl.configuration.values import dictionary

    for name, _, value in (option.partition("=") for option in opts.set):
        try:
            dictionary(BaseSettings({name: value} if name in DICTIONARIES else {}), name)
        except FatalError as error:
            raise UsageError(str(error)) from error


def offline(
    run: Callable[[list[str], Options, Settings], int],
    *,
    syntax: str,
    options: Callable[[Group], None] = lambda _: None,
    json: bool = False,
    logs: bool = False,
) -> type[ScrapyCommand]:
    """The command without a crawl that *run* makes: it returns the exit code, and FatalError or
    OSError is a sentence and exit code 2. The docstring of its module is its help. *json*: whether
    it has the option --json; *logs*: whether the log is printed."""
    module = run.__module__
    name = module.rpartition(".")[2]
    short, _, long = (sys.modules[module].__doc__ or "").partition("\n\n")

    def add_options(self: ScrapyCommand, parser: argparse.ArgumentParser) -> None:
        ScrapyCommand.add_options(self, parser)
        group = parser.add_argument_group(name.capitalize())
        options(group)
        if json:
            group.add_argument("--json", action="store_true", help="for machines")

    def process_options(self: ScrapyCommand, args: list[str], opts: Options) -> None:
        check_dictionaries(opts)
        ScrapyCommand.process_options(self, args, opts)

    def run_command(self: ScrapyCommand, args: list[str], opts: Options) -> None:
        assert self.settings is not None
        logging.setLogRecordFactory(VisibleRecord)
        try:
            self.exitcode = run(args, opts, self.settings)
        except (FatalError, OSError) as error:
            file, why = getattr(error, "filename", None), getattr(error, "strerror", None)
            text = masked_url(f"{file}: {why}" if file else str(error))
            sys.stderr.write(f"{name}: {visible(text)}\n")
            self.exitcode = 2

    attributes = {
        "__module__": module,
        "requires_project": True,
        "requires_crawler_process": False,
        "default_settings": {**web_spider, "LOG_ENABLED": logs},
        "syntax": lambda _: syntax,
        "short_desc": lambda _: short.removesuffix("."),
        "long_desc": lambda _: long,
        "add_options": add_options,
        "process_options": process_options,
        "run": run_command,
    }
    return type("Command", (ScrapyCommand,), attributes)


def job_first(
    args: Sequence[str], settings: Settings, *, alone: bool = False, paths: bool = False
) -> list[str]:
    """*args* without the job: the first of them is JOBDIR if it is a directory with a job or a hive
    in it, or stands *alone*; ``--`` ends that. FatalError if it looks like another directory and
    the others are no *paths*, UsageError."""
    from webcrawl.hive.launch.job_directories import is_crawl

    words, beside = [*args], Path(settings["JOBDIR"] or "").parent
    if words and words[0] != "--" and (alone or is_crawl(Path(words[0]))):
        settings.set("JOBDIR", words.pop(0), priority="cmdline")
    elif not paths and words and words[0].startswith(("/", "./", "../", f"{beside}/")):
        raise FatalError(f"There is no crawl in {words[0]}.")
    if words[:1] == ["--"]:
        del words[0]
    if (words and alone) or not (words or settings["JOBDIR"]):
        raise UsageError("name one job directory")
    return words


def sources_or_job(args: Sequence[str], settings: Settings) -> list[str]:
    """The names of stored pages among *args*; without one JOBDIR, which stands for its own."""
    return [word for word in args if word != "--"] or [str(settings["JOBDIR"])]


def web_crawler(settings: Settings) -> Crawler:
    """What is handed the job of the spider web; it runs nothing."""
    from scrapy.crawler import Crawler
    from scrapy.spiderloader import get_spider_loader

    return Crawler(get_spider_loader(settings).load("web"), settings)


@contextlib.contextmanager
def progress(unit: str) -> Iterator[Callable[..., None]]:
    """``on_progress(count)`` or ``on_progress(count, unit)``: a count on the terminal, erased at
    the end; silent if stderr is no terminal."""
    from webcrawl.clock import now
    from webcrawl.crawl.engine.user_messages import give_up

    stream, shown_at = sys.stderr, 0.0
    shows = stream.isatty()

    def show(text: str) -> None:
        nonlocal shows
        try:
            stream.write(f"\r{text:<{_PROGRESS_COLUMNS}}\r")
            stream.flush()
        except OSError:
            shows = False
            give_up(stream)

    def on_progress(count: int, unit: str = unit) -> None:
        nonlocal shown_at
        if shows and (at := now()) - shown_at >= _PROGRESS_SECS:
            shown_at = at
            show(f"{count:,} {unit}")

    try:
        yield on_progress
    finally:
        if shows and shown_at:
            show("")


@contextlib.contextmanager
def progress_of(total: int) -> Iterator[Callable[[int], None]]:
    """``on_progress(number)``: likewise, so many more of *total* bytes, and how long they take."""
    from webcrawl.clock import now
    from webcrawl.crawl.figures.counts import elapsed, size

    began, done = now(), 0

    with progress("") as show:

        def on_progress(number: int) -> None:
            nonlocal done
            done += number
            left = (now() - began) * max(total - done, 0) / max(done, 1)
            show(100 * done // max(total, 1), f"% of {size(total)}, {elapsed(left)} left")

        yield on_progress


def print_answer(
    result: object, text: Callable[[], str], *, as_json: bool, is_visible: bool = False
) -> None:
    """Print *result* as JSON, or *text* of it. A closed pipe is no error.

    Much of a result is text from strangers, and a terminal obeys control characters: in text they
    are escaped as Python would write them, unless the text *is_visible* already, as are characters
    that its encoding does not have.
    """
    import msgspec

    if as_json:
        data = msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"
    else:
        shown = text() if is_visible else visible(text())
        data = shown.encode(sys.stdout.encoding, "backslashreplace")
    print_bytes(data)


def print_bytes(data: bytes) -> None:
    """Write *data* to the standard output. A closed pipe is no error."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nothing may be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
