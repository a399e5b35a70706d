"""Purges a whole job or hive: excludes the pages, reports them as gone, and changes its files."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections import Counter
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.job.state_directory import DRONES
from webcrawl.crawl.lease.outcome_log import INFO_LOG, PURGED, OutcomeLine
from webcrawl.errors import FatalError, ObjectStoreError
from webcrawl.hive.configuration import store_at
from webcrawl.hive.launch.job_directories import is_of_hive, jobdirs_of
from webcrawl.hive.store.store import CheckpointStore
from webcrawl.hosts.aliases import other_names
from webcrawl.hosts.politeness.exclusions import PURGED_RULES, purge_rules
from webcrawl.hosts.records.database import FILE, FORGET_HOSTS
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.jobs.inspect.aliases import aliases_of
from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.purge import files
from webcrawl.pipelines.search_index import LOG
from webcrawl.pipelines.warc.payloads import FORGET_PAYLOADS, file_names, forget_rows
from webcrawl.revisit.history import GONE
from webcrawl.storage.atomic import write_atomic
from webcrawl.storage.line_log import LineLog
from webcrawl.storage.record_log import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import BaseSettings

#: The log of what was removed, below the job directory.
PURGE_LOG = "logs/purge.jsonl"
_WARC = (files.purge_warc, "WARC record")
_ROWS = (partial(files.purge_parquet, column="url"), "row")
_LOG = (files.purge_lines, "log line")
# Patterns of the files that may have pages, below JOBDIR, with the function that removes them, and
# what such a file consists of. The settings WARC_DIR, TEXT_DIR and SEARCH_DIR may name other
# directories.
_FILES: dict[str, tuple[Callable[..., None], str]] = {
    "warc/*.warc.gz": _WARC,
    "critical/*.warc.gz": _WARC,
    "text/*.parquet": _ROWS,
    "text/*.json*[lz]": (files.purge_lines, "row"),
    "graph/nodes/*.parquet": _ROWS,
    "graph/edges/*.parquet": (partial(files.purge_parquet, column="source"), "row"),
    "search/meta.json": (files.purge_index, "indexed page"),
    "logs/critical*.json*[lz]": _LOG,
    "critical/urls.txt": _LOG,
    "logs/info*.json*[lz]": _LOG,
    "./websub.jsonl": (files.purge_lines, "subscription"),
}


def purge(
    path: Path,
    text: str,
    settings: BaseSettings,
    *,
    dry_run: bool,
    at: float,
    on_progress: Callable[[int], None],
) -> tuple[Counter[str], set[str], str]:
    """Remove the pages that the rules in *text* cover from the stopped job or hive in *path*.

    Returns how many pages, records, rows and lines were removed, the names of the WARC files that
    the crawl has written but that are not there, and why HIVE_STORE cannot be used. With *dry_run*
    nothing is removed, only counted. *at* is the time for the logs, in epoch seconds. *on_progress*
    is called with the number of files read. Raises FatalError for a line that is not a rule, or if
    the crawl is running, was killed and not resumed, or has a file that is damaged or cannot be
    changed. The same command then continues. If the crawl was killed, the pages are already
    excluded.
    """
    jobdirs = jobdirs_of(path)
    counts: Counter[str] = Counter()
    missing: set[str] = set()
    store_error = ""
    changed = [] if dry_run else jobdirs
    log = LineLog(path=jobdirs[0] / PURGE_LOG, max_bytes=sys.maxsize)

    def begin(what: str, file: Path, count: int) -> bool:
        """Count and log what is removed from *file*; return False in a dry run."""
        if what in _FILES:
            counts[_FILES[what][1]] += count
        if not dry_run:
            log.append_once(
                msgspec.json.encode({"at": at, "file": str(file), "what": what, "count": count})
            )
        return not dry_run

    place: object = "input"  # not all errors name a file
    try:
        with ExitStack() as stack:
            rules = purge_rules(text)
            is_covered = rules.is_url_excluded
            place = path
            for jobdir in changed:
                job = Job(path=jobdir)
                job.lock()
                stack.callback(job.close)
            if changed:
                excluded = jobdirs[0] / PURGED_RULES
                old = excluded.read_text("utf-8") if excluded.exists() else ""
                lines = dict.fromkeys(filter(None, f"{old}\n{text}".split("\n")))
                write_atomic(excluded, ("\n".join(lines) + "\n").encode())
                if is_of_hive(path):
                    store_error = _exclude_in_store(path, settings, text)
            # Drones may share a directory.
            found = dict.fromkeys(file for path in jobdirs for file in _files_of(path, settings))
            pages = {line.form for jobdir in jobdirs for line in _documents(jobdir, is_covered)}
            counts["page"] = len(pages)
            for jobdir in jobdirs:
                directory = Path(settings["WARC_DIR"] or jobdir / "warc")
                missing |= file_names(jobdir / "warc") - {file.name for file in directory.glob("*")}
            for jobdir in changed:
                _report_gone(jobdir, is_covered, at)
                forget_rows(place := jobdir / "warc", FORGET_PAYLOADS, is_covered)
                # The record of a host has texts of its pages.
                for place in jobdir.glob("shards/*/hosts"):
                    forget_rows(place, FORGET_HOSTS, rules.is_excluded)
                # The next run fetches pages that wait to be rendered again.
                shutil.rmtree(jobdir / "rendering", ignore_errors=True)
            warcs = (file for _, file, work in found if work is files.purge_warc)
            files.pass_on_payloads(warcs, is_covered, partial(begin, "payloads of other pages"))
            for number, (pattern, place, work) in enumerate(found):
                on_progress(number)
                work(place, is_covered, partial(begin, pattern, place))
    except FatalError:
        raise
    except (OSError, ValueError, sqlite3.Error) as error:
        raise FatalError(f"{place}: {error}. Fix that and run the same command again.") from error
    return counts, missing, store_error


def names_of_same_sites(path: Path, text: str) -> list[str]:
    """Return the other names of the sites whose hosts the rules in *text* cover.

    They are those of the last checkpoint of the job or hive in *path*. Raises FatalError for a line
    that is not a rule.
    """
    try:
        rules = purge_rules(text)
    except ValueError as error:
        place = "input"
        raise FatalError(f"{place}: {error}. Fix that and run the same command again.") from error
    with suppress(FatalError):  # without a checkpoint there are none
        return ask(path, lambda view: other_names(map(aliases_of, view.shards), rules.is_excluded))
    return []


def _exclude_in_store(path: Path, settings: BaseSettings, text: str) -> str:
    """Write the rules *text* to the HIVE_STORE of the hive in *path*; return why that fails, or "".

    Drones elsewhere read them there.
    """
    # *path* is the directory of the hive, or that of one of its drones.
    folder = path.absolute().parent
    hive = folder.parent if folder.name == DRONES else path
    try:
        store = CheckpointStore(url=store_at(hive, settings))
        store.commands.add(text, text.encode(), suffix=".txt")
    except ObjectStoreError as error:
        return str(error)
    return ""


def _files_of(
    jobdir: Path, settings: BaseSettings
) -> Iterator[tuple[str, Path, Callable[..., None]]]:
    """Yield the files of *jobdir* that may have pages, with the pattern and function of each.

    Raises FatalError if one of them is not complete.
    """
    # Files with a log of changes that are not in the file itself yet, so the crawl was killed.
    logs = []
    for directory in jobdir.glob("shards/*/hosts"):
        with RecordsReader(path=directory) as reader:
            if reader.has_log():
                logs.append(directory / FILE)
    for pattern, (work, _) in _FILES.items():
        folder, names = pattern.split("/", 1)
        # For example WARC_DIR; a folder without such a setting is always in the job directory.
        directory = Path(settings[f"{folder.upper()}_DIR"] or jobdir / folder)
        logs += [log for log in directory.glob(LOG) if log.stat().st_size > HEADER_SIZE]
        for path in [*directory.rglob("*.open"), *logs]:
            raise FatalError(
                f"{path} is not complete. Stop the crawl; if it was killed, run its command again "
                "and stop it with Ctrl-C. Then purge."
            )
        for path in sorted(directory.glob(names)):
            # The target of a symbolic link is replaced, not the link.
            yield pattern, path.resolve(), work


def _documents(jobdir: Path, is_covered: files.Covers) -> Iterator[OutcomeLine]:
    """Yield the lines about documents to be removed in the log of finished URLs."""
    for line in outcome_lines(jobdir):
        if is_covered(line.url) and line.history.stored_at:  # 0 if nothing was stored
            yield line


def _report_gone(jobdir: Path, is_covered: files.Covers, at: float) -> None:
    """Append a line to the log of finished URLs for each line about a document to be removed."""
    with closing(LineLog(path=jobdir / INFO_LOG, max_bytes=sys.maxsize)) as log:
        log.open()
        for old in _documents(jobdir, is_covered):
            stored = old.history.stored_at
            line = OutcomeLine(at, old.url, old.host, PURGED, old.form, visit=GONE, stored=stored)
            log.append(msgspec.json.encode(line))
        log.sync()
