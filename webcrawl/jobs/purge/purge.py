"""Purges a whole job or hive: excludes the pages, reports them as gone, and changes its files."""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from xxhash import xxh3_64_hexdigest

from webcrawl.crawl.job.jobdir import Job
from webcrawl.crawl.lease.outcome_log import INFO_LOG, PURGED, OutcomeLine
from webcrawl.errors import FatalError
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.hosts.host_rules import PURGED as RULES
from webcrawl.hosts.politeness.exclusions import rules_in
from webcrawl.jobs.inspect.job_view import running
from webcrawl.jobs.inspect.last_lines import last_lines, lines_at, logs_of
from webcrawl.jobs.purge.outputs import (
    purge_index,
    purge_lines,
    purge_parquet,
    without_facts,
    without_line,
)
from webcrawl.jobs.purge.warc_files import plan, purge_warc
from webcrawl.pipelines.search_index import LOG
from webcrawl.pipelines.warc.payloads import forget_payloads
from webcrawl.revisit.history import GONE
from webcrawl.storage.atomic import make_directory, write_atomic
from webcrawl.storage.line_log import LineLog
from webcrawl.storage.record_log import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import BaseSettings

    from webcrawl.hosts.politeness.exclusions import ExclusionRules
    from webcrawl.jobs.inspect.last_lines import OnProgress

#: The log of what was removed, below the job directory.
PURGE_LOG = "logs/purge.jsonl"


def purge(
    path: Path,
    lines: list[str],
    settings: BaseSettings,
    *,
    dry_run: bool,
    at: float,
    on_progress: OnProgress,
) -> Counter[str]:
    """Remove the pages that the rules in *lines* cover from the stopped job or hive in *path*.

    Returns how many records, rows and lines were removed or changed, by pattern of their files.
    With *dry_run* they are only counted. *at* is the time for the logs, in epoch seconds.
    *on_progress* is called with a count and its unit. Raises FatalError if the crawl is running, was
    killed and not resumed, or has a damaged file, and OSError or sqlite3.Error. The same command
    then continues.
    """
    jobdirs, counts, rules = jobdirs_of(path), Counter[str](), rules_in(lines)
    text = "".join(f"{line}\n" for line in lines).encode()
    key = xxh3_64_hexdigest(text)
    progress, log = jobdirs[0] / RULES / f"{key}.sqlite", jobdirs[0] / PURGE_LOG

    def begin(pattern: str, file: Path, count: int) -> bool:
        """Count and log what is removed from *file*; return False in a dry run."""
        counts[pattern] += count
        if not dry_run:
            line = {"at": at, "purge": key, "file": str(file), "removed": count}
            LineLog(path=log, max_bytes=sys.maxsize).append_once(msgspec.json.encode(line))
        return not dry_run

    with ExitStack() as stack:
        for process in running(jobdirs):
            raise FatalError(f"{path} is in use by process {process}: stop the crawl first.")
        for jobdir in () if dry_run else jobdirs:
            job = Job(path=jobdir)
            job.lock()
            stack.callback(job.close)
        files = [file for jobdir in jobdirs for file in _files(jobdir, settings)]
        for other in {*progress.parent.glob("*.sqlite")} - {progress}:
            raise FatalError(
                "An earlier purge is not finished. Run it first: "
                f"scrapy purge {path} --list {other.with_suffix('.txt')}"
            )

        for jobdir in () if dry_run else jobdirs:
            make_directory(jobdir / RULES)
            write_atomic(jobdir / RULES / f"{key}.txt", text)
            _report_gone(jobdir, rules, at, on_progress)
            forget_payloads(jobdir / "warc", rules.covers)
        db = sqlite3.connect("" if dry_run else progress, isolation_level=None)
        stack.enter_context(closing(db))
        done = plan((file for _, file, work in files if work is purge_warc), rules, db)
        for number, (pattern, file, work) in enumerate(files):
            on_progress(number, "files read")
            if str(file) not in done:
                more = {"db": db} if work is purge_warc else {}
                work(file, rules, partial(begin, pattern), **more)
                db.execute("INSERT OR IGNORE INTO done VALUES (?)", (str(file),))
        if not dry_run:
            progress.unlink()
    return counts


def _files(jobdir: Path, settings: BaseSettings) -> Iterator[tuple[str, Path, Callable[..., None]]]:
    """Yield the files that may have pages, with the pattern of each and its function.

    Raises FatalError if one of the files is not complete, because the crawl was killed.
    """
    rows = partial(purge_parquet, column="url")
    drop = partial(purge_lines, edit=without_line)
    patterns: dict[str, tuple[str, Callable[..., None]]] = {
        "warc/*.warc.gz": ("WARC_DIR", purge_warc),
        "critical/*.warc.gz": ("", purge_warc),
        "text/*.parquet": ("TEXT_DIR", rows),
        "text/*.json*[lz]": ("TEXT_DIR", drop),
        "graph/nodes/*.parquet": ("", rows),
        "graph/edges/*.parquet": ("", partial(purge_parquet, column="source")),
        "search/meta.json": ("SEARCH_DIR", purge_index),
        "logs/critical*.json*[lz]": ("", drop),
        "critical/urls.txt": ("", drop),
        "logs/info*.json*[lz]": ("", partial(purge_lines, edit=without_facts)),
    }
    for pattern, (setting, work) in patterns.items():
        folder, _, names = pattern.partition("/")
        directory = Path(settings[setting] or jobdir / folder)
        logs = [log for log in directory.glob(LOG) if log.stat().st_size > HEADER_SIZE]
        for path in [*directory.rglob("*.open"), *logs]:
            raise FatalError(
                f"{path} is not complete, because the crawl was killed: run the crawl's command "
                "again, stop it with Ctrl-C, then purge."
            )
        for path in sorted(directory.glob(names)):
            yield pattern, path, work


def _report_gone(jobdir: Path, rules: ExclusionRules, at: float, on_progress: OnProgress) -> None:
    """Append a line to the log of finished URLs for each document that *rules* cover."""

    def has_document(line: OutcomeLine) -> bool:
        return line.outcome != PURGED and bool(line.history.stored_at)

    logs, log = logs_of(jobdir), LineLog(path=jobdir / INFO_LOG, max_bytes=sys.maxsize)
    parts = last_lines(
        logs, has_document, among=lambda line: rules.covers(line.url), on_progress=on_progress
    )
    with closing(log):
        log.open()
        for numbers, _ in parts:
            for old in lines_at(logs, numbers):
                stored = old.history.stored_at
                line = OutcomeLine(
                    at, old.url, old.host, PURGED, old.form, visit=GONE, stored=stored
                )
                log.append(msgspec.json.encode(line))
        log.sync()
