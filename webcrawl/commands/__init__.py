"""``scrapy`` commands of this project (COMMANDS_MODULE).

Scrapy loads every command module whenever any command runs. Modules here therefore import most of
what they need inside their functions. Scrapy's own tools (shell, fetch, view, parse, check, bench)
are redefined here so that they run on Scrapy's scheduler.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from scrapy.commands import ScrapyCommand, ScrapyHelpFormatter
from scrapy.exceptions import UsageError as UsageError
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.settings import Settings as Settings

from webcrawl.configuration.secrets import masked_url
from webcrawl.errors import FatalError
from webcrawl.settings import web_spider
from webcrawl.wording import COMMAND, escape_controls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy.crawler import Crawler

#: Types of the function that adds an option to a command (``add_argument``), and of its options.
AddOption: TypeAlias = "Callable[..., object]"
Options: TypeAlias = argparse.Namespace
# Priority above settings that a spider sets for its crawls, and below the command line.
_PRIORITY = (SETTINGS_PRIORITIES["spider"] + SETTINGS_PRIORITIES["cmdline"]) // 2
# Schemes that only tools allow: there the user chooses the URL, in a crawl the pages do.
_TOOL_SCHEMES = ("file", "data", "s3")
_OPTION = re.compile(r"--?[a-zA-Z][a-zA-Z-]*")
_PROGRESS_SECS = 0.2
_PROGRESS_WIDTH = 40
# Scrapy's loggers that report failed downloads.
_FAILURE_LOGGERS = ("scrapy.downloadermiddlewares.robotstxt", "scrapy.core.scraper")


class VisibleRecord(logging.LogRecord):
    """Log record without control characters and without credentials in URLs.

    Names of files, hosts and URLs may contain control characters.
    """

    def getMessage(self) -> str:  # noqa: N802  # the library's name
        return escape_controls(masked_url(super().getMessage()))

    @property
    def exc_text(self) -> str | None:
        """Return the formatted traceback, which formatters store here and read back."""
        return self._exc_text

    @exc_text.setter
    def exc_text(self, text: str | None) -> None:
        self._exc_text = text and escape_controls(masked_url(text))


class HelpFormatter(ScrapyHelpFormatter):
    """Formats help texts so that paragraphs and indented lists keep their layout."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        parts = text.strip().split("\n\n")
        return "\n\n".join(part if "\n  " in part else fill(part, width, indent) for part in parts)

    def _split_lines(self, text: str, width: int) -> list[str]:
        # The space at the end prevents Scrapy from printing a line with a colon as a heading.
        lines = super()._split_lines(text, width)
        return [f"{line} " if line.endswith(":") else line for line in lines]


def help_of(module: str) -> tuple[str, str, str]:
    """Return summary, description and epilog of a command, from the docstring of its *module*.

    The epilog starts at the paragraph "Examples:".
    """
    text = (sys.modules[module].__doc__ or "").replace("scrapy ", f"{COMMAND} ")
    description, heading, epilog = text.partition("Examples:\n")
    return description.partition("\n\n")[0].removesuffix("."), description, heading + epilog


def add_epilog(command: ScrapyCommand, parser: argparse.ArgumentParser, module: str) -> None:
    """Add the examples and exit codes in the docstring of *module* to the end of the help.

    Keeps the names of the options of *command*, for ``check_words``.
    """
    parser.formatter_class = HelpFormatter
    # Scrapy takes unknown options for arguments.
    command.options = frozenset(_OPTION.findall(parser.format_help()))  # type: ignore[attr-defined]  # ours
    parser.usage = (parser.usage or "").replace("scrapy", COMMAND, 1)
    _, _, parser.epilog = help_of(module)


def scrapy_tool(
    command: type[ScrapyCommand], module: str, **extra_settings: object
) -> type[ScrapyCommand]:
    """Return a version of Scrapy's *command* that runs on Scrapy's scheduler, for *module*.

    Such a tool fetches a page or two and needs no job directory. *extra_settings* override others.
    """

    def add_options(self: ScrapyCommand, parser: argparse.ArgumentParser) -> None:
        command.add_options(self, parser)
        add_epilog(self, parser, module)

    def process_options(self: ScrapyCommand, args: list[str], opts: Options) -> None:
        """Process the options, then set what a tool needs: scheduler, handlers, log filters."""
        from webcrawl.identity.signatures import signer_of

        logging.setLogRecordFactory(VisibleRecord)
        check_words(self, args, module.rpartition(".")[2])
        if self.syntax().endswith("<url>") and not (len(args) == 1 and "://" in args[0]):
            raise UsageError("give one URL, such as https://example.com/")
        check_dictionaries(opts)
        command.process_options(self, args, opts)
        settings = self.settings
        assert settings is not None
        try:
            signer_of(settings)  # only to check the key before Scrapy starts
        except FatalError as error:
            raise UsageError(str(error)) from error
        settings.setdict(extra_settings, priority="cmdline")
        # Those of the project are for crawls: use what the tool or else Scrapy has as the default.
        for name in ("SCHEDULER", "DUPEFILTER_CLASS", "JOBDIR"):
            value = self.default_settings.get(name, getattr(default_settings, name))
            settings.set(name, value, priority=_PRIORITY)

        for name in _FAILURE_LOGGERS:
            logging.getLogger(name).addFilter(_shorten_failure)
        # Add Scrapy's handlers of the schemes that a crawl does not allow.
        handlers = {name: default_settings.DOWNLOAD_HANDLERS_BASE[name] for name in _TOOL_SCHEMES}
        name = "DOWNLOAD_HANDLERS_BASE"
        settings.set(name, {**settings.getdict(name), **handlers}, priority=_PRIORITY)

    attributes = {
        "__module__": module,
        "add_options": add_options,
        "process_options": process_options,
    }
    return type("Command", (command,), attributes)


def _shorten_failure(record: logging.LogRecord) -> bool:
    """Remove the traceback of an expected download failure; make a robots.txt denial an error.

    This is a logging filter that changes *record* and always keeps it.
    """
    error = record.exc_info[1] if record.exc_info else None
    if hasattr(error, "outcome"):  # a failure that crawls count by its outcome
        record.msg = "%s"
        record.args = (str(error),)
        record.exc_info = None
    elif str(record.msg).startswith("Forbidden by robots.txt"):
        record.levelno = logging.ERROR
        record.levelname = "ERROR"
    return True


def check_words(command: ScrapyCommand, args: Sequence[str], name: str) -> None:
    """Raise UsageError if one of *args* is an option that the *command* called *name* lacks."""
    from webcrawl.configuration.old_names import unknown

    words = itertools.takewhile(lambda word: word != "--", args)
    if (option := next(filter(_OPTION.match, words), None)) is not None:
        known = command.options  # type: ignore[attr-defined]  # as above
        raise UsageError(unknown("option", option.partition("=")[0], known, command=name))


def refuse_options(opts: Options, use: str, names: Iterable[str]) -> None:
    """Raise UsageError if an option in *names* is given, as it has no effect with *use*."""
    for name in names:
        if getattr(opts, name):
            option = "-a" if name == "spargs" else f"--{name}"
            raise UsageError(f"{option} has no effect with {use}")


def check_dictionaries(opts: Options) -> None:
    """Raise UsageError if -s sets a dictionary to something else, which Scrapy would ignore."""
    from webcrawl.configuration.setting_check import DICTIONARIES
    from webcrawl.configuration.values import dictionary

    for option in opts.set:
        name, _, value = option.partition("=")
        if name in DICTIONARIES:
            try:
                dictionary(BaseSettings({name: value}), name)
            except FatalError as error:
                raise UsageError(str(error)) from error


def make_command(
    run: Callable[[list[str], Options, Settings], int],
    options: Callable[[AddOption], None] = lambda _: None,
    *,
    syntax: str = "[options] [JOBDIR]",
    json: bool = False,
    logs: bool = False,
    output: tuple[str, str] | None = None,
) -> type[ScrapyCommand]:
    """Return a command that calls *run*, without a crawler process.

    run: gets the arguments, options and settings, and returns the exit code. If it raises
        FatalError or OSError, one sentence is printed and the exit code is 2. The name and the
        docstring of its module are the name and the help of the command.
    options: adds options with the function that it gets.
    syntax: the arguments, for the help.
    json: whether the command has the option --json.
    logs: whether it prints the log.
    output: what the option -o names, FILE or DIR, and its help, if the command has that option.
    """
    module = run.__module__
    name = module.rpartition(".")[2]
    summary, description, _ = help_of(module)
    if "[JOBDIR" in syntax:
        description += "JOBDIR defaults to the setting JOBDIR (crawls/web).\n"

    def add_options(self: ScrapyCommand, parser: argparse.ArgumentParser) -> None:
        # An option that was removed must not be taken for another one that begins like it.
        parser.allow_abbrev = False
        group = parser.add_argument_group(f"{name.capitalize()} options")
        ScrapyCommand.add_options(self, parser)
        # simweb replaces Scrapy's --profile, but Scrapy still reads the value of its own option.
        parser.set_defaults(profile=None)
        options(group.add_argument)
        if output:
            from webcrawl.jobs.arguments import output_file

            place, text = output
            kind = output_file if place == "FILE" else Path
            group.add_argument("-o", "--output", type=kind, metavar=place, help=text)
        if json:
            group.add_argument("--json", action="store_true", help="print JSON")
        add_epilog(self, parser, module)

    def process_options(self: ScrapyCommand, args: list[str], opts: Options) -> None:
        check_words(self, args, name)
        check_dictionaries(opts)
        ScrapyCommand.process_options(self, args, opts)

    def run_command(self: ScrapyCommand, args: list[str], opts: Options) -> None:
        """Call *run* and set the exit code; print an error as one sentence."""
        assert self.settings is not None
        logging.setLogRecordFactory(VisibleRecord)
        try:
            self.exitcode = run(args, opts, self.settings)
        except (FatalError, OSError) as error:
            filename = getattr(error, "filename", None)
            reason = getattr(error, "strerror", None)
            message = masked_url(f"{filename}: {reason}" if filename else str(error))
            sys.stderr.write(f"{name}: {escape_controls(message)}\n")
            self.exitcode = 2

    attributes = {
        "__module__": module,
        "requires_project": True,
        "requires_crawler_process": False,
        "default_settings": {**web_spider, "LOG_ENABLED": logs},
        "syntax": lambda _: syntax,
        "short_desc": lambda _: summary,
        "long_desc": lambda _: description,
        "add_options": add_options,
        "process_options": process_options,
        "run": run_command,
    }
    return type("Command", (ScrapyCommand,), attributes)


def take_job(args: Sequence[str], settings: Settings, *, are_paths: bool = False) -> list[str]:
    """Set JOBDIR if the first of *args* names a job, and return the other arguments.

    The first argument names a job if it is a directory with a job or a hive in it; an argument
    after ``--`` never does. Raises FatalError if it looks like a directory but has no job, unless
    the arguments *are_paths*. Raises UsageError if nothing is given.
    """
    from webcrawl.hive.launch.job_directories import is_crawl

    words = [*args]
    # Jobs usually are in this directory, so a word that begins with it must name a job.
    default_parent = Path(settings["JOBDIR"] or "").parent

    if words and words[0] != "--" and is_crawl(Path(words[0])):
        settings.set("JOBDIR", words.pop(0), priority="cmdline")
    elif not are_paths and words and words[0].startswith(("/", "./", "../", f"{default_parent}/")):
        raise FatalError(f"There is no crawl in {words[0]}.")
    if words[:1] == ["--"]:
        del words[0]
    if not (words or settings["JOBDIR"]):
        raise UsageError("name one job directory")
    return words


def choose_job(args: Sequence[str], settings: Settings) -> Path:
    """Set JOBDIR to the job directory that *args* name, if any; return JOBDIR.

    Raises UsageError if there is none, or more than one.
    """
    if len(args) > 1 or not (args or settings["JOBDIR"]):
        raise UsageError("name one job directory")
    for name in args:
        settings.set("JOBDIR", name, priority="cmdline")
    return Path(settings["JOBDIR"])


def sources_or_job(args: Sequence[str], settings: Settings) -> list[str]:
    """Return *args* without "--"; if none is left, return JOBDIR, for its stored pages."""
    return [word for word in args if word != "--"] or [str(settings["JOBDIR"])]


def warn_of_moved_files(command: str, directories: Iterable[Path]) -> None:
    """Write a sentence for each of *directories* with files that *command* cannot read.

    These were moved to OUTPUT_STORE.
    """
    from webcrawl.storage.object_store import moved_file_notices

    for sentence in moved_file_notices(directories):
        sys.stderr.write(f"{command}: {sentence}\n")


def web_crawler(settings: Settings) -> Crawler:
    """Return a Crawler of the spider "web" for tools that read a job; it never runs."""
    from scrapy.crawler import Crawler
    from scrapy.spiderloader import get_spider_loader

    return Crawler(get_spider_loader(settings).load("web"), settings)


@contextlib.contextmanager
def progress(unit: str) -> Iterator[Callable[..., None]]:
    """Show a running count of *unit* on the terminal.

    Yields a function to be called as ``on_progress(count)`` or ``on_progress(count, unit)``. The
    line is erased at the end. Nothing is shown if stderr is not a terminal.
    """
    from webcrawl.clock import now
    from webcrawl.crawl.engine.user_messages import give_up

    stream = sys.stderr
    shown_at = 0.0
    is_shown = stream.isatty()

    def show(text: str) -> None:
        """Write *text* over the last one; stop showing progress if the terminal is gone."""
        nonlocal is_shown
        try:
            stream.write(f"\r{text:<{_PROGRESS_WIDTH}}\r")
            stream.flush()
        except OSError:
            is_shown = False
            give_up(stream)

    def on_progress(count: int, unit: str = unit) -> None:
        nonlocal shown_at
        if is_shown and (time_now := now()) - shown_at >= _PROGRESS_SECS:
            shown_at = time_now
            show(f"{count:,} {unit}")

    try:
        yield on_progress
    finally:
        if is_shown and shown_at:  # something stands on the line
            show("")


@contextlib.contextmanager
def progress_in_bytes() -> Iterator[Callable[[int], None]]:
    """Show on the terminal how many bytes are done.

    Yields a function ``on_progress(number)`` that adds *number* bytes to those done.
    """
    bytes_done = 0

    with progress("bytes") as show:

        def on_progress(number: int) -> None:
            nonlocal bytes_done
            bytes_done += number
            show(bytes_done)

        yield on_progress


def print_answer(result: object, text: str, *, as_json: bool, is_visible: bool = False) -> None:
    """Print *result* as JSON if *as_json*, otherwise *text*.

    Results contain text from other people, and a terminal executes control characters. These are
    escaped as in Python, unless the text *is_visible* already. Characters that the encoding of the
    output lacks are also escaped. A closed pipe is not an error.
    """
    import msgspec

    if as_json:
        data = msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"
    else:
        visible_text = text if is_visible else escape_controls(text)
        data = visible_text.encode(sys.stdout.encoding, "backslashreplace")
    print_bytes(data)


def print_bytes(data: bytes) -> None:
    """Write *data* to standard output. A closed pipe is not an error."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise Python would flush into the closed pipe at exit, and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
