"""Summary printed when a crawl ends: its result, waiting URLs, failures, and next steps."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from shlex import quote
from typing import Any, NamedTuple

from webcrawl.crawl.figures.counts import (
    Counts,
    count_waiting,
    is_unused,
    module_failures,
    refused_seeds,
    shares_of,
    with_prefix,
)
from webcrawl.crawl.job.totals import CUT_OFF, PREFIX
from webcrawl.crawl.seeds.few_hosts import HAS_FEW_HOSTS
from webcrawl.hosts.politeness.outage import OF_OUTAGES
from webcrawl.net.walls import WALLS
from webcrawl.wording import COMMAND, counted

# Maximum width of a line.
_WIDTH = 80
# Text for each finish reason.
_ENDS = {
    "shutdown": "stopped by a signal",
    "hive_stopped": f"stopped by {COMMAND} hive stop",
    "control_stopped": f"stopped by {COMMAND} control stop",
    "closespider_timeout": "stopped: CLOSESPIDER_TIMEOUT was reached",
    "closespider_itemcount": "stopped: CLOSESPIDER_ITEMCOUNT was reached",
    "closespider_pagecount": "stopped: CLOSESPIDER_PAGECOUNT was reached",
    "closespider_errorcount": "stopped: CLOSESPIDER_ERRORCOUNT was reached",
    "memusage_exceeded": "stopped: MEMUSAGE_LIMIT_MB was reached",
    HAS_FEW_HOSTS: "stopped: fewer hosts are left than CLOSESPIDER_FEW_HOSTS or min_hosts",
    "no_answer": "stopped: no host has ever answered; check the network and DNS_SERVERS",
    "unreachable": "not started: Redis does not answer",
    "start_error": "the spider's start() raised an exception; the log has the traceback",
}
_PARTIAL = (
    "hosts and speed are not known, and links, items, pauses, walls and failed modules lack the "
    "last minute of {} without a last checkpoint"
)
#: Reasons why URLs are parked, and the settings that release them.
BUDGETS = {
    "host_budget": "BUDGET_HOST_PAGES or _BYTES",
    "domain_budget": "BUDGET_DOMAIN_PAGES or _BYTES",
    "reputation": "REPUTATION_ROUNDS",
}
# The name of a row, and its text; rows without a text are left out.
_Rows = list[tuple[str, str]]


class _CrawlStats(NamedTuple):
    """Statistics of the whole crawl, from *stats*, where their names begin with *prefix*."""

    stats: Mapping[str, Any]
    prefix: str
    crawl: Counts

    @classmethod
    def of(cls, stats: Mapping[str, Any]) -> _CrawlStats:
        """Read *stats*: the totals of the whole crawl, or those of this run if there are none."""
        prefix = PREFIX if f"{PREFIX}elapsed_time_seconds" in stats else ""
        return cls(stats, prefix, Counts.of(stats, prefix))

    def count(self, name: str) -> int:
        """Return the count *name* of the whole crawl; 0 if there is none."""
        return int(self.stats.get(self.prefix + name, 0))

    @property
    def seconds(self) -> float:
        """Return how long all runs of the crawl took."""
        return float(self.stats.get(f"{self.prefix}elapsed_time_seconds", 0.0))

    @property
    def is_complete(self) -> bool:
        """Return whether the counts are complete; a kill loses those of the last minute."""
        return not self.count(CUT_OFF)

    @property
    def reason(self) -> str:
        """Return the finish reason, as in the stats."""
        return str(self.stats.get("finish_reason", "unknown"))

    @property
    def held(self) -> Mapping[str, int]:
        """Return the number of parked URLs, by reason."""
        return with_prefix("frontier/parked/", self.stats)


def summary(
    stats: Mapping[str, Any],
    *,
    jobdir: str,
    places: Mapping[str, str],
    files: str = "",
    may_resume: bool = True,
    is_drone: bool = False,
) -> str:
    """Return the summary of the whole crawl and of this run as text.

    *places* has the directories in which modules stored pages, by the names of the modules. *files*
    is the directory of the log and the stats, if it is not *jobdir*, as in a hive. *jobdir* is
    empty if nothing of the crawl is kept. *may_resume* says whether the same command may be run
    again, *is_drone* whether *stats* are those of one process of a hive.
    """
    figures = _CrawlStats.of(stats)
    result = _result(figures, is_drone=is_drone)
    groups = {
        "Result": result + (_storage_rows(figures, places) if jobdir else []),
        "Waiting": _waiting_rows(figures),
        "Failed": _failure_rows(figures),
        "Next": _next(figures, jobdir, files, may_resume=may_resume),
    }
    return "\n=== crawl summary ===\n" + "".join(
        f"{name}\n{lines}"
        for name, rows in groups.items()
        if (lines := "".join(_lines(label, text) for label, text in rows if text))
    )


def _result(figures: _CrawlStats, *, is_drone: bool) -> _Rows:
    """Return the rows about what the crawl has done."""
    stats = figures.stats
    count = figures.count
    crawl = figures.crawl
    is_complete = figures.is_complete
    has_own_rates = is_complete and not is_drone
    ended = describe_end(figures.held) if figures.reason == "finished" else ""
    # The items of the web spider are its pages.
    items = 0 if "seeds/read" in stats else count("item_scraped_count")
    in_force = stats.get("control/now", "")
    received = count("fetch/bytes")
    written = f", {count('warc/bytes'):,} written to WARC"
    decompressed = _volume(received, count("fetch/decoded_bytes"), count("fetch/sent_bytes"))

    # Rows without a text are left out: a text times False is empty. If the counts are not complete,
    # only those of links on pages are shown of the links.
    return [
        ("end", ended or reason_in_words(figures.reason)),
        *(_drone(stats) if is_drone else []),
        ("seeds", _seeds(stats, figures.prefix)),
        ("seeds", stats.get("seeds/damaged", "")),
        ("pages", f"{crawl.pages:,} ({count('content/duplicates'):,} of them duplicates)"),
        ("redirects", f"{crawl.redirects:,}"),
        ("visits", _visits(with_prefix(f"{figures.prefix}visits/", stats))),
        ("requests", f"{count('contacts'):,}, including retries and robots.txt"),
        ("hosts", f"{count('hosts/contacted'):,} contacted" * has_own_rates),
        ("speed", _speed(crawl, figures.seconds) if has_own_rates else ""),
        *_bound(stats, figures.prefix),
        *_pause_rows(stats, figures.prefix),
        ("changed", in_force and f"in force: {in_force}"),
        ("bytes", f"{received:,} received{written * is_complete}"),
        ("", decompressed * is_complete),
        ("links", _links(figures) if is_complete else ""),
        (
            "" if is_complete else "links",
            _links_per_page(
                count("links/pages"), count("links/found"), count("links/found_unique")
            ),
        ),
        ("items", f"{items:,}" if items else ""),
        ("partial", "" if is_complete else _PARTIAL.format(counted(count(CUT_OFF), "run"))),
        ("this run", _this_run(stats) if "job/resumed" in stats and not is_drone else ""),
    ]


def _storage_rows(figures: _CrawlStats, places: Mapping[str, str]) -> _Rows:
    """Return the rows about where modules stored the pages and what they made from them."""
    rows = [("WARC", f"{places['WARC']}/*.warc.gz" if figures.count("warc/bytes") else "")]
    rows += [(name, path) for name, path in places.items() if name != "WARC"]
    if "output_store/files" in figures.stats:
        pending = figures.stats.get("output_store/pending", 0)
        remaining = f"; {pending:,} are still here" if pending else ""
        moved = counted(figures.stats["output_store/files"], "file")
        rows.append(("moved", f"{moved} to OUTPUT_STORE{remaining}"))
    return rows


def _waiting_rows(figures: _CrawlStats) -> _Rows:
    """Return the rows about URLs that wait or are parked."""
    stats = figures.stats
    return [
        ("waiting", counted(count_waiting(stats), "URL")),
        *[
            ("", line)
            for line in parked_lines(figures.held, has_finished=figures.reason == "finished")
        ],
        ("freshness", _freshness(stats.get("frontier/due", 0), stats.get("frontier/fresh", 0))),
        ("denied", _describe_denied(with_prefix(f"{figures.prefix}robots/lost/", stats))),
    ]


def _failure_rows(figures: _CrawlStats) -> _Rows:
    """Return the rows about URLs given up and failed modules."""
    errors = figures.crawl.given_up
    count = figures.count
    flagged = count("walls/flagged") + count("walls/soft_errors")
    return [
        ("given up", counted(sum(errors.values()), "URL") if errors else "none"),
        # The largest number comes first.
        *[
            ("", f"{number:>8,}  {name}{REMEDIES.get(name, '')}")
            for name, number in sorted(errors.items(), key=lambda item: (-item[1], item[0]))
        ],
        ("walls", _walls(errors, count("walls/hosts"))),
        (
            "flagged",
            f"{counted(flagged, 'stored page')} that may not be real documents" if flagged else "",
        ),
        *[
            ("modules", f"{name} failed on {counted(number, 'page')}: see logs/critical.jsonl")
            for name, number in module_failures(figures.stats, figures.prefix).items()
        ],
    ]


def _next(figures: _CrawlStats, jobdir: str, files: str, *, may_resume: bool) -> _Rows:
    """Return the rows about what the user can do next. Rows with an empty text are not printed.

    *jobdir* is empty if nothing of the crawl is kept. *files* is the directory of the log and the
    stats if that is not *jobdir*, which is the case only in a hive. *may_resume* tells whether the
    same command may be run again.
    """
    has_used_seeds = not is_unused(figures.stats, figures.prefix)
    # The command that retries works on one job directory, and a hive has several.
    is_hive = bool(files)
    rows = [*_retry(figures, jobdir)] if jobdir and not is_hive and has_used_seeds else []
    # If a processing module failed on every page, this is the command that processes them again.
    rows.append(("reprocess", figures.stats.get("finish/again", "")))
    if not jobdir:
        return rows
    job = quote(jobdir)

    # Without any of these the log and the report would be empty.
    has_found_or_fetched = figures.count("links/submitted") or figures.count("contacts")
    if has_found_or_fetched:
        log_directory = files or jobdir
        rows += [
            ("log", f"{log_directory}/logs/info.jsonl: the outcome of each URL"),
            ("stats", f"{log_directory}/stats.json"),
            ("report", f"{COMMAND} report {job}: charts and tables of this crawl"),
            ("why", f"{COMMAND} why {job} URL: what happened to a URL"),
        ]
    if may_resume and figures.reason == "finished":
        change = "add seeds to the list" if has_used_seeds else "correct the seeds or settings"
        rows.append(("continue", f"{change} and run the same command again"))
        rows.append(("start over", f"delete {jobdir}, or choose another with -s JOBDIR=DIR"))
    elif may_resume:
        rows.append(("resume", "run the same command again; it continues where this one stopped"))
    return rows


def _retry(figures: _CrawlStats, jobdir: str) -> _Rows:
    """Return rows with a command that retries URLs that were refused or failed in an outage."""
    errors = figures.crawl.given_up
    had_outage = figures.count("outage/count")
    failed_in_outage = sorted(OF_OUTAGES & errors.keys()) if had_outage else []
    outcomes = [*(name for name in _REFUSALS if name in errors), *failed_in_outage]
    is_robots = outcomes == ["robots_denied"]
    condition = "if robots.txt has changed" if is_robots else "once the reason is gone"
    advice = f"{condition}, run this before the next crawl:"
    command = f"{COMMAND} frontier {quote(jobdir)} --retry {','.join(outcomes)}"
    return [("retry", advice), ("", command)] if outcomes else []


def _lines(name: str, value: str) -> str:
    """Format a row; long text is wrapped, but commands and long words are not."""
    label = f"{name:>10}  "
    if value.startswith(f"{COMMAND} "):
        return f"{label}{value}\n"

    filled = textwrap.fill(
        value,
        _WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{filled}\n"


# What holds URLs back, by the reason for which they are parked.
_HELD = {
    "host_budget": "their host's limit",
    "domain_budget": "their domain's limit",
    "reputation": "their domain's page budget",
    "depth": "nearer pages, which go first",
    "failing_origin": "a failing server",
    "rendering": "the rendering of their pages",
    "unverified": "unverified servers (verify and proxy_verify in HOSTS_POLICY_FILE)",
    "learned_trap": "a crawler trap",
    "alias_of": "other names of sites, which are fetched under one",
    "url_space": "their host's URL_SPACE_BASE_URLS",
}
# What releases parked URLs while the crawl runs, by their reason.
_RELEASED = {
    "reputation": "it is REPUTATION_BASE_PAGES pages, plus as many for each domain that links to "
    "it, and is doubled, up to REPUTATION_ROUNDS times, when nothing else can be fetched soon",
    "depth": "fetched after these",
    "failing_origin": "tried again after its pause",
    "rendering": "rendered after RENDER_WAIT_SECS at the latest",
    "learned_trap": "released by the next run, or by TRAP_EXCEPTIONS_FILE",
    "alias_of": "released if their pages differ, or by the command free",
    "url_space": "released by more pages with new content, or by TRAP_EXCEPTIONS_FILE",
}
# Outcomes caused by a setting or by a rule of the site, either of which may change.
_REFUSALS = ("address_forbidden", "excluded", "rights_refused", "robots_denied")
#: Advice that follows the name of an outcome.
REMEDIES = {"address_forbidden": ": not a public address; -s ALLOW_PRIVATE_ADDRESSES=1 allows it"}


def reason_in_words(reason: str) -> str:
    """Describe the finish *reason* of a run."""
    return _ENDS.get(reason, reason)


def describe_end(held: Mapping[str, int]) -> str:
    """Describe the end of a finished crawl with the parked URLs *held*, by reason."""
    if not any(held.values()):
        return "finished: nothing is left to fetch"
    reasons = " and ".join(held_in_words(reason) for reason, count in held.items() if count)
    return f"finished; {counted(sum(held.values()), 'URL')} parked because of {reasons}"


def held_in_words(reason: str) -> str:
    """Describe what holds URLs back that are parked for *reason*."""
    return _HELD.get(reason, reason)


def parked_lines(held: Mapping[str, int], *, has_finished: bool) -> list[str]:
    """Return a line for each reason in *held*: how many URLs, and how to release them.

    Until the crawl *has_finished*, it releases some of them itself.
    """
    advice = {
        reason: f"to fetch them, raise {setting} and run again"
        for reason, setting in BUDGETS.items()
    }
    if not has_finished:
        advice |= _RELEASED
    return [
        f"{counted(count, 'URL')} parked because of {held_in_words(reason)}; "
        f"{advice.get(reason, '')}".removesuffix("; ")
        for reason, count in held.items()
        if count
    ]


def _seeds(stats: Mapping[str, Any], prefix: str) -> str:
    """Describe how many seeds were read and refused; "" if filters refused none."""
    refused = refused_seeds(stats, prefix)
    return f"{stats.get('seeds/read', 0):,} read; refused by filters: {refused}" if refused else ""


def _walls(given_up: Mapping[str, int], hosts: int) -> str:
    """Describe how many *hosts* answered with a challenge, a login or a consent page."""
    by_wall = ", ".join(f"{given_up[name]:,} {name}" for name in WALLS if given_up.get(name))
    sent = f"{counted(hosts, 'host')} sent challenge, login or consent pages"
    return f"{sent}; URLs: {by_wall or 'none'}" if hosts else ""


def _visits(counts: Mapping[str, int]) -> str:
    """Describe the repeat visits, whose *counts* are by their result."""
    by_result = ", ".join(f"{number:,} {result}" for result, number in sorted(counts.items()))
    return f"{sum(counts.values()):,} of URLs fetched before: {by_result}" if counts else ""


def _describe_denied(counts: Mapping[str, int]) -> str:
    """Describe how many pages fetched earlier are now denied by robots.txt, by host."""
    names = [f"{number:,} of {host}" for host, number in sorted(counts.items()) if number > 0]
    explanation = "pages fetched before that robots.txt now denies, until it allows them again: "
    return explanation + ", ".join(names) if names else ""


def _freshness(due: int, fresh: int) -> str:
    """Describe the URLs that are visited repeatedly: *fresh* ones, and those *due* for a visit."""
    recent = f"{counted(fresh, 'URL')} seen within 7 days"
    return f"{recent}; {due:,} wait for their next visit" if due or fresh else ""


def _speed(counts: Counts, secs: float) -> str:
    """Describe the rates of pages and repeat visits over *secs*."""
    visits = f", {counts.visits / secs:.1f} visits/s" if counts.visits and secs else ""
    return f"{counts.pages / secs if secs else 0:.1f} pages/s{visits} over {secs:.0f} s"


def _this_run(stats: Mapping[str, Any]) -> str:
    """Describe the last run of a crawl that was resumed."""
    run = Counts.of(stats)
    secs = float(stats.get("elapsed_time_seconds", 0.0))
    requests = counted(int(stats.get("contacts", 0)), "request")
    lost = counted(run.total_given_up, "URL")
    return f"{counted(run.pages, 'page')}, {requests}, {lost} given up; {_speed(run, secs)}"


def _drone(stats: Mapping[str, Any]) -> _Rows:
    """Return the rows about a hive and one of its drones, whose *stats* mix both."""
    hosts = counted(int(stats.get("hosts/contacted", 0)), "host")
    run = " (this run)" if "job/resumed" in stats else ""
    of_shards = "pages, redirects, visits, requests and bytes, whichever drone fetched them"
    return [
        ("the hive", stats.get("hive/now", "")),
        ("this drone", f"{_this_run(stats)}; {hosts} contacted{run}"),
        ("its shards", f"below are their {of_shards}"),
    ]


def _links(figures: _CrawlStats) -> str:
    """Describe how many links were in scope, and how many different URLs the crawl knows."""
    submitted = figures.count("links/submitted")
    known = figures.crawl.urls + count_waiting(figures.stats) + sum(figures.held.values())
    return f"{submitted:,} in scope, {known:,} of them not seen before" if submitted else ""


def _volume(received: int, decoded: int, sent: int) -> str:
    """Describe the number of bytes after decompression, and of bytes sent."""
    if not (received and decoded):
        return ""
    ratio = f"{decoded / received:.1f} times as many"
    return f"{decoded:,} after decompression, {ratio}; {sent:,} sent"


def _links_per_page(pages: int, total: int, unique: int) -> str:
    """Describe how many links were found in all, and on average per page; "" without pages."""
    if not pages:
        return ""
    mean = f"{total / pages:.1f} per page, {unique / pages:.1f} of them distinct"
    return f"{total:,} found on {counted(pages, 'page')}: {mean}"


def _bound(stats: Mapping[str, Any], prefix: str) -> _Rows:
    """Return rows about what has limited the crawl and, if it is unfinished, its projection."""
    if not (shares := shares_of(stats, prefix)):
        return []
    rows = [("limited by", f"{shares} of the time")]
    if stats.get("finish_reason") != "finished":
        cause, end = (stats.get(name, "") for name in ("doctor/now", "projection/now"))
        rows += [("", cause and f"at the end: {cause}"), ("", end and f"projected: {end}")]
    return rows


def _pause_rows(stats: Mapping[str, Any], prefix: str) -> _Rows:
    """Return a row for each reason the crawl paused for, and one for a pause at the end."""
    prefix = f"{prefix}pauses/"
    suffix = "_secs"

    def reason(name: str) -> str:
        return name.removeprefix(prefix).removesuffix(suffix).replace("_", " ")

    rows = [
        ("", f"paused for {value:.0f} s: {reason(name)}")
        for name, value in sorted(stats.items())
        if name.startswith(prefix) and name.endswith(suffix) and value >= 0.5
    ]
    now = stats.get("pauses/now")
    return [*rows, ("", f"still paused at the end: {now}")] if now else rows
