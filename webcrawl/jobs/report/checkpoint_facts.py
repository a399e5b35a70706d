"""Reads the last checkpoint of a crawl for tables of its hosts and of kept checkpoints."""

from __future__ import annotations

from heapq import nlargest
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.clock import wall_time
from webcrawl.configuration.values import whole
from webcrawl.crawl.job.control_journal import apply_host_rules, in_force
from webcrawl.crawl.job.kept_checkpoints import DIRECTORY
from webcrawl.crawl.job.saved_settings import with_saved
from webcrawl.doctor.states import State
from webcrawl.errors import FatalError
from webcrawl.hosts.host_rules import HostRules
from webcrawl.hosts.records import HostRecord
from webcrawl.jobs.inspect.host_state import host_state, robots_state
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.report.figures import Table, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from webcrawl.jobs.inspect.job_view import JobView
    from webcrawl.jobs.report.figures import Cell

# Number of hosts shown because they have the longest queues.
_MAX_HOSTS = 15


class CheckpointFacts(NamedTuple):
    """Tables of hosts and of checkpoints.

    *checkpoints* has the current checkpoint and the kept ones, the newest first.
    """

    hosts: Table
    checkpoints: Table


def read_facts(
    path: Path, settings: BaseSettings, *, hosts: Iterable[str]
) -> CheckpointFacts | None:
    """Read the facts about the crawl in *path*; return None if no checkpoint can be read.

    The table of hosts has those in *hosts* and those with the longest queues.
    """

    def facts(view: JobView) -> CheckpointFacts:
        names = dict.fromkeys([*_with_longest_queues(view), *hosts])
        return CheckpointFacts(hosts_of(view, settings, names), _checkpoints(view))

    try:
        return ask(path, facts)
    except FatalError:
        return None


def hosts_of(view: JobView, settings: BaseSettings, names: Iterable[str]) -> Table:
    """Return the table of the hosts *names*. Raises FatalError if a rules file cannot be read."""
    settings = with_saved(settings, view.own.facts)
    rules = HostRules.from_settings(settings)
    rules.open("")
    apply_host_rules(rules, in_force(view.jobdirs))
    default_budget, now = whole(settings, "BUDGET_HOST_PAGES", at_least=0), wall_time()
    rows: list[dict[str, Cell]] = []
    for name in names:
        shard = view.shard_of(name)
        record = shard.records.record(name) or HostRecord(name)
        url = f"{record.answered or f'http://{name}'}/"
        robots = robots_state(shard, url, settings=settings)
        delay, parts = robots.crawl_delay, rules.parts_of(name)
        state = host_state(shard, name, url=url, parts=parts, crawl_delay=delay)
        budget = rules.host_policy(name).budget
        budget = default_budget if budget is None else budget
        until = state.ready_at if state.ready_at > now else 0.0
        row: dict[str, Cell] = {"host": name, "waiting": state.waiting, "downloads": record.pages}
        row["state"] = State(state.state, state.because, until).in_words(stamp(until))
        row["robots.txt"] = f"{robots.verdict}{f', Crawl-delay {delay:g}' if delay else ''}"
        row["last request"] = stamp(record.ended_at) if record.ended_at else "none"
        failed = f"{state.failures:,} in a row: {record.failed_with}"
        row["errors"] = failed if state.failures else "none"
        row["budget"] = f"{record.begun:,} of {budget:,}" if budget else "no limit"
        row["rule"] = "excluded" if rules.excluded_by(name) else rules.table_of(name) or "none"
        rows.append(row)
    return Table((*rows[0],) if rows else (), [(*row.values(),) for row in rows])


def _with_longest_queues(view: JobView) -> list[str]:
    """Return the names of the hosts with the longest queues."""
    hosts = chain.from_iterable(shard.frontier.hosts() for shard in view.shards)
    longest = nlargest(_MAX_HOSTS, hosts, key=lambda host: host[1].length)
    return [name for name, times in longest if times.length]


def _checkpoints(view: JobView) -> Table:
    """Return the table of the current checkpoint and the kept ones."""
    written_at = view.own.written_at.replace("T", " ").removesuffix("Z")
    rows = [(f"{view.own.sequence}", written_at, "current")]
    kept = [path for job in view.jobdirs for path in (job / DIRECTORY).glob("*/CURRENT")]
    times_and_names = ((path.stat().st_mtime, path.parent.name) for path in kept)
    for at, name in sorted(times_and_names, reverse=True):
        rows.append((name.lstrip("0"), stamp(at), "kept"))
    return Table(("checkpoint", "written (UTC)", ""), rows)
