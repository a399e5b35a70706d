"""Tests of the table of outcomes: its defaults, its setting, and its copy in the documentation."""

import re
from pathlib import Path

from scrapy.settings import Settings

from webcrawl.crawl.lease.outcome_log import NAMES
from webcrawl.hosts.retry_policy import RetryPolicy, Rule
from webcrawl.net.outcomes import OUTCOMES

ROOT = Path(__file__).resolve().parents[2]
FINAL = Rule(0, 0.0, 0)


def policy(**changes):
    settings = Settings()
    settings.setmodule("webcrawl.settings")
    settings.setdict(changes)
    return RetryPolicy.from_settings(settings)


def documented_table():
    """Return the rows of the documented table: names and the four other cells."""
    text = (ROOT / "docs" / "reference" / "stats.md").read_text(encoding="utf-8")
    table = text.partition("Each URL ends in one of these outcomes")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`(\w+)`", row[0]), [cell.strip() for cell in row[1:]]) for row in rows]


def number(cell):
    return float(cell.removesuffix(" s") or 0)


def test_the_documented_table_of_outcomes_is_that_of_the_code():
    rules = policy()
    told = set()
    for names, (meaning, tries, wait, failures) in documented_table():
        assert meaning
        for name in names:
            assert name not in told
            told.add(name)
            assert rules.rule(name) == (number(tries), number(wait), number(failures)), name
    families = {"http_NNN", "excluded_CATEGORY"}
    assert told == NAMES | families | {name for name in rules.names if name[:5] == "http_"}


def test_every_outcome_that_the_program_gives_a_url_is_named():
    """Fetches end with what ``outcome_of`` returns; others are decided without a request."""
    source = "".join(
        (ROOT / "webcrawl" / name).read_text(encoding="utf-8")
        for name in (
            "hosts/politeness/preconditions.py",
            "hosts/politeness/delays.py",
            "crawl/lease/fetch.py",
            "hosts/robots/lookup.py",
            "hosts/host_rules.py",
        )
    )
    decided = set(re.findall(r'FetchAction\.RE(?:FUSE|TRY), "(\w+)"', source))
    decided |= set(re.findall(r'outcome(?:, line)? = "(\w+)"', source))
    decided |= set(re.findall(r'(?:_UNREACHABLE|EXCLUDED) = "(\w+)"', source))
    decided |= set(re.findall(r'return failed.failed_with\n +return "(\w+)"', source))
    assert len(decided) == 10
    # Of subresources; the others are by commands, and by the owner's preferences.
    others = {"over_budget", "private_address", "dropped", "purged", "rights_refused"}
    assert decided | OUTCOMES | others == NAMES


def test_general_settings_scale_the_table():
    rules = policy(FRONTIER_RETRY_TIMES=3, POLITENESS_BACKOFF_SECS=0.5, POLITENESS_MAX_FAILURES=5)
    assert rules.rule("connect_refused") == (3, 0.5, 5)
    assert rules.rule("connect_timeout") == (3, 3.0, 3)
    assert rules.rule("http_429") == (6, 1.5, 5)
    assert rules.rule("timeout") == (1, 1.5, 5)
    none = policy(FRONTIER_RETRY_TIMES=0)
    assert not any(none.rule(name).tries for name in none.names)


def test_a_status_follows_its_own_rule_or_that_of_its_class():
    rules = policy()
    assert rules.rule("http_500") == rules.rule("http_599") == (2, 0.0, 0)
    assert rules.rule("http_501") == FINAL
    for outcome in ("http_200", "http_301", "http_404", "http_999", "", "http_", "whatever"):
        assert rules.rule(outcome) == FINAL
