"""Builds the figures about outcomes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from webcrawl.doctor.history import FAULTS, kind_of
from webcrawl.jobs.report.figures import Figure, Table, ask_about, share
from webcrawl.jobs.report.outcome_words import meaning_of, whose_fault
from webcrawl.wording import counted as plural

if TYPE_CHECKING:
    from webcrawl.jobs.report.sources import Crawl

# Sentence added to the table of outcomes if some URLs were visited again.
_BEFORE_VISITS = " Each URL is counted once, by its first result; later visits are not included."
# For each outcome: the number of hosts with failures, and the one with most of them.
_FAILED_HOSTS = (
    "SELECT outcome, hosts, host FROM "
    "(SELECT outcome, count(*) AS hosts, host, max(urls) FROM faults GROUP BY outcome)"
)


def outcomes(crawl: Crawl) -> tuple[Figure, Figure]:
    """Return the table of failed URLs, and that of the others."""
    results = crawl.results
    # Heritrix' codes are only in the tables for programs.
    counts: Counter[str] = Counter()
    for (_, outcome), number in crawl.log.answers.items():
        counts[outcome] += number
    ranked = sorted(counts, key=lambda outcome: (-counts[outcome], outcome))
    hosts = {outcome: (number, host) for outcome, number, host in crawl.file.select(_FAILED_HOSTS)}

    failed_rows = []
    other_rows = []
    for outcome in ranked:
        example = ask_about(crawl.log.examples[outcome])
        if kind_of(outcome) in FAULTS:
            number, host = hosts.get(outcome, (0, ""))
            about = (whose_fault(outcome), meaning_of(outcome))
            failed_rows.append(
                (outcome, counts[outcome], number, ask_about(host), *about, example),
            )
        else:
            other_rows.append((outcome, counts[outcome], meaning_of(outcome), example))

    failed = sum(row[1] for row in failed_rows)
    lead = f"{share(failed, results.urls)} of {results.urls:,} URLs failed after all tries"
    ((number,),) = crawl.file.select("SELECT count(DISTINCT host) FROM faults")
    lead += f", on {number:,} of {plural(crawl.hosts, 'host')}." if failed else "."
    head = (
        "outcome",
        "URLs",
        "hosts",
        "most of them on",
        "whose fault",
        "what it means",
        "example",
    )
    table = Table(head, failed_rows) if failed_rows else None
    failures = Figure("faults", "What failed", lead, table, bars=1)

    pages = share(results.pages, results.urls)
    lead = f"Of {results.urls:,} URLs, {pages} gave a document."
    lead += " Others are not there, or robots.txt, a setting or a command denies them."
    lead += _BEFORE_VISITS * bool(results.visits)
    table = Table(("outcome", "URLs", "what it means", "example"), other_rows)
    return failures, Figure("responsecode-report", "What did not fail", lead, table, bars=1)
