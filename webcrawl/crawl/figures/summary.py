"""Summary of a crawl for its end: results, files, the command to go on, from its stats."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from webcrawl.crawl.figures.counts import Counts, behind, module_failures, refused_seeds
from webcrawl.crawl.job.totals import CUT_OFF, PREFIX
from webcrawl.crawl.seeds.few_hosts import HAS_FEW_HOSTS
from webcrawl.doctor.diagnosis import BUDGETS, shares_of
from webcrawl.hosts.politeness.outage import OF_OUTAGES
from webcrawl.net.walls import WALLS
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Columns of a line.
_WIDTH = 100
_ENDS = {
    "shutdown": "stopped by a signal",
    "hive_stopped": "stopped by scrapy hive stop",
    "control_stopped": "stopped by scrapy control stop",
    "closespider_timeout": "stopped: the time set by CLOSESPIDER_TIMEOUT is over",
    "closespider_itemcount": "stopped: CLOSESPIDER_ITEMCOUNT pages are there",
    "closespider_pagecount": "stopped: CLOSESPIDER_PAGECOUNT answers are there",
    "closespider_errorcount": "stopped: CLOSESPIDER_ERRORCOUNT errors of callbacks are there",
    "memusage_exceeded": "stopped: MEMUSAGE_LIMIT_MB of memory are used",
    HAS_FEW_HOSTS: "stopped: few hosts are left, as CLOSESPIDER_FEW_HOSTS or min_hosts says",
    "no_answer": "stopped: no host has ever answered; look at the network and at DNS_SERVERS",
    "start_error": "the spider's start() raised: the log has the traceback",
}


def summary(
    stats: Mapping[str, Any],
    *,
    jobdir: str,
    places: Mapping[str, str],
    files: str = "",
    may_resume: bool = True,
) -> str:
    """The summary, from *stats*, of the whole crawl and of this run of it, as text. *places* are
    the directories of what modules stored, *files* that of log and stats, if not *jobdir*; that
    is empty if nothing of the crawl is kept."""
    run, run_secs = Counts.of(stats), float(stats.get("elapsed_time_seconds", 0.0))
    resumed = "job/resumed" in stats
    prefix = PREFIX if f"{PREFIX}elapsed_time_seconds" in stats else ""

    def count(name: str) -> int:
        return int(stats.get(prefix + name, 0))

    crawl = Counts.of(stats, prefix)
    errors = crawl.given_up
    seconds = float(stats.get(f"{prefix}elapsed_time_seconds", run_secs))
    reason, held = stats.get("finish_reason", "unknown"), behind("frontier/parked/", stats)
    # Those of the web spider are its pages.
    items = 0 if "seeds/read" in stats else count("item_scraped_count")
    repeated, flagged = (
        count("content/duplicates"),
        count("walls/flagged") + count("walls/soft_errors"),
    )
    now, received = stats.get("control/now", ""), count("fetch/bytes")
    written = f", {count('warc/bytes'):,} written to WARC"
    # Of what a process counts itself, the last minute before a kill is not known.
    is_whole = not count(CUT_OFF)
    waiting = int(stats.get("frontier/waiting", 0)) + int(stats.get("seen/waiting", 0))
    # Those without a text are left out.
    rows = [
        ("end", finished(held) if reason == "finished" else _ENDS.get(reason, reason)),
        ("seeds", _seeds(stats, prefix)),
        ("seeds", stats.get("seeds/damaged", "")),
        ("pages", f"{crawl.pages:,}, of them {repeated:,} with content seen before"),
        ("redirects", f"{crawl.redirects:,}"),
        ("visits", _visits(behind(f"{prefix}visits/", stats))),
        ("freshness", _freshness(stats.get("frontier/due", 0), stats.get("frontier/fresh", 0))),
        ("lost", _lost(behind(f"{prefix}robots/lost/", stats))),
        ("contacts", f"{counted(count('contacts'), 'request')}: each try of a URL, and robots.txt"),
        ("hosts", f"{count('robots/origins'):,} asked for robots.txt" * is_whole),
        ("walls", _walls(crawl.given_up, count("walls/hosts"))),
        ("", f"{counted(flagged, 'page')} stored that may be one" if flagged else ""),
        ("speed", _speed(crawl, seconds) if is_whole else ""),
        *_bound(stats, prefix),
        *_paused(stats, prefix),
        ("changed", now and f"in force: {now}"),
        ("bytes", f"{received:,} received{written * is_whole}"),
        ("", _volume(received, count("fetch/decoded_bytes"), count("fetch/sent_bytes")) * is_whole),
        ("links", _links(count("links/submitted") * is_whole, crawl, waiting, held)),
        (
            "" if is_whole else "links",
            _links_per_page(
                count("links/pages"), count("links/found"), count("links/found_unique")
            ),
        ),
        ("waiting", counted(waiting, "URL")),
        *[("", line) for line in parked(held)],
        ("items", f"{items:,}" if items else ""),
        ("errors", f"{counted(sum(errors.values()), 'URL')} given up" if errors else "none"),
    ]
    rows += [
        ("", f"{number:>8,}  {name}{REMEDIES.get(name, '')}")
        for name, number in sorted(errors.items(), key=lambda item: (-item[1], item[0]))
    ]
    has_failed = count("outage/count") or not count("contacts")
    of_outages = sorted(OF_OUTAGES & errors.keys()) if has_failed else []
    again = [*(name for name in _REFUSALS if name in errors), *of_outages]
    if again and jobdir and not files:  # a hive takes nothing from outside
        what = "what was refused, or failed around an outage" if of_outages else "what was refused"
        rows += [("again", f"{what}, when the reason is gone, before the next run:")]
        rows += [("", f"scrapy frontier {jobdir} --retry {','.join(again)}")]
    rows += [
        ("modules", f"{counted(number, 'page')} that {name} failed on: logs/critical.jsonl has why")
        for name, number in module_failures(stats, prefix).items()
    ]
    rows.append(("get again", stats.get("finish/again", "")))
    if resumed:
        tried = counted(int(stats.get("contacts", 0)), "contact")
        lost = counted(sum(run.given_up.values()), "URL")
        done = f"{counted(run.pages, 'page')}, {tried}, {lost} given up"
        rows.append(("this run", f"{done}; {_speed(run, run_secs)}"))
    if not jobdir:
        return _text(rows)
    warc = f"{places['WARC']}/*.warc.gz" if count("warc/bytes") else ""
    rows.append(("WARC", warc))
    rows += [(name, place) for name, place in places.items() if name != "WARC"]
    if "output_store/files" in stats:
        left = stats.get("output_store/pending", 0)
        here = f"; {left:,} are still here" if left else ""
        moved = counted(stats["output_store/files"], "file")
        rows.append(("moved", f"{moved} to OUTPUT_STORE{here}"))
    files = files or jobdir
    if count("links/submitted") or count("contacts"):
        rows += [
            ("log", f"{files}/logs/info.jsonl: the outcome of each URL"),
            ("stats", f"{files}/stats.json"),
            ("report", f"scrapy report {jobdir}: a page of figures"),
            ("why", f"scrapy why {jobdir} URL: what became of a URL"),
        ]
    if not may_resume:
        return _text(rows)
    if reason == "finished":
        rows.append(("resume", "with more seeds in the list, run the same command again"))
        rows.append(("anew", f"remove {jobdir}, or choose another with -s JOBDIR=DIR"))
    else:
        rows.append(("resume", "run the same command again: it goes on where this one stopped"))
    return _text(rows)


def _text(rows: Sequence[tuple[str, str]]) -> str:
    return "\n=== crawl summary ===\n" + "".join(_lines(*row) for row in rows if row[1])


def _lines(name: str, value: str) -> str:
    """The lines of a row; a command, or a word that is too long, is not broken."""
    head = f"{name:>10}  "
    if value.startswith("scrapy "):
        return f"{head}{value}\n"
    filled = textwrap.fill(
        value,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{filled}\n"


# What URLs wait for.
_HELD = {
    "host_budget": "over their host's budget",
    "domain_budget": "over their domain's budget",
    "reputation": "over their domain's reputation",
}
# Outcomes whose reason is a setting or a rule of the site, which may be gone tomorrow.
_REFUSALS = ("address_forbidden", "excluded", "robots_denied")
#: What is said besides of an outcome.
REMEDIES = {"address_forbidden": ": no public address; -s ALLOW_PRIVATE_ADDRESSES=1 allows it"}


def finished(held: Mapping[str, int]) -> str:
    """The end, in words, of a finished crawl in which URLs are *held* back, by reason."""
    if not any(held.values()):
        return "finished: nothing is left to fetch"
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in held.items() if count)
    return f"finished but for {counted(sum(held.values()), 'URL')} held back: {reasons}"


def parked(held: Mapping[str, int]) -> list[str]:
    """A line for each reason for which URLs are *held* back, and how to release them."""
    return [
        f"{_HELD.get(reason, reason)}: {counted(count, 'URL')}"
        + (f"; raise {BUDGETS[reason]}, run again" if reason in BUDGETS else "")
        for reason, count in held.items()
        if count
    ]


def _seeds(stats: Mapping[str, Any], prefix: str) -> str:
    """On the seeds if filters have refused some."""
    refused = refused_seeds(stats, prefix)
    return f"{stats.get('seeds/read', 0):,} read; refused by filters: {refused}" if refused else ""


def _walls(given_up: Mapping[str, int], hosts: int) -> str:
    """On *hosts* that gave something else than documents, if some did."""
    found = ", ".join(f"{given_up[name]:,} {name}" for name in WALLS if given_up.get(name))
    return f"of {counted(hosts, 'host')}; URLs: {found or 'none'}" if hosts else ""


def _visits(found: Mapping[str, int]) -> str:
    """On visits of URLs that were finished before, if there were any."""
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(found.items()))
    return f"{sum(found.values()):,} of URLs fetched before: {kinds}" if found else ""


def _lost(found: Mapping[str, int]) -> str:
    """On pages that were fetched and that robots.txt denies now, by host, if there are any."""
    names = [f"{number:,} of {host}" for host, number in sorted(found.items()) if number > 0]
    now = "their robots.txt denies them now; they come back once it allows them"
    return f"pages fetched before: {', '.join(names)}; {now}" if names else ""


def _freshness(due: int, fresh: int) -> str:
    """On the URLs that are visited again, if there are any."""
    seen = f"{counted(fresh, 'URL')} seen within 7 days"
    return f"{seen}; {due:,} wait for their next visit" if due or fresh else ""


def _speed(counts: Counts, secs: float) -> str:
    """On the pages and visits in *secs*."""
    visits = f", {counts.visits / secs:.1f} visits/s" if counts.visits and secs else ""
    return f"{counts.pages / secs if secs else 0:.1f} pages/s{visits} over {secs:.0f} s"


def _links(submitted: int, crawl: Counts, waiting: int, held: Mapping[str, int]) -> str:
    """On links, if any were counted; new are those that the crawl knows."""
    ended = crawl.pages + crawl.redirects + sum(crawl.given_up.values())
    known = ended + waiting + sum(held.values())
    return f"{submitted:,} to the eliminator, {known:,} of them new" if submitted else ""


def _volume(received: int, decoded: int, sent: int) -> str:
    """On bytes *decoded* and *sent*, if any were counted."""
    if not (received and decoded):
        return ""
    return f"{decoded:,} decoded, {decoded / received:.1f} times as many; {sent:,} sent"


def _links_per_page(pages: int, found: int, unique: int) -> str:
    """On the links of a page, if any were counted."""
    if not pages:
        return ""
    return f"{found / pages:.1f} links per page, {unique / pages:.1f} of them distinct"


def _bound(stats: Mapping[str, Any], prefix: str) -> list[tuple[str, str]]:
    """A row on what the crawl was bound by, and for one that is not finished rows on what it is
    bound by, and when it would end."""
    if not (shares := shares_of(stats, prefix)):
        return []
    rows = [("bound by", f"{shares} of the time")]
    if stats.get("finish_reason") != "finished":
        end = stats.get("projection/now", "")
        rows += [("", f"at last {stats['doctor/now']}"), ("", end and f"projected then: {end}")]
    return rows


def _paused(stats: Mapping[str, Any], prefix: str) -> list[tuple[str, str]]:
    """A row for each reason for which the crawl has paused, and for those that still hold."""
    prefix, suffix = f"{prefix}pauses/", "_secs"

    def reason(name: str) -> str:
        return name.removeprefix(prefix).removesuffix(suffix).replace("_", " ")

    rows = [
        ("", f"paused for {value:.0f} s: {reason(name)}")
        for name, value in sorted(stats.items())
        if name.startswith(prefix) and name.endswith(suffix)
    ]
    now = stats.get("pauses/now")
    return [*rows, ("", f"and still when it ended: {now}")] if now else rows
