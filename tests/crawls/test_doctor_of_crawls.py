"""What the doctor says of whole crawls in virtual time, and what its advice does to them."""

import pytest
from faults import Episode
from text_tables import cases
from virtual_crawl import VirtualCrawl

from webcrawl.doctor.record import decode_line

DAY = 86_400.0
WEB = {"hosts": 12, "mean_pages": 8, "max_pages": 16, "errors": 0.0, "seed_share": 1.0}
REVISIT = {"REVISIT": 1, "REVISIT_FIRST_SECS": "48h"}
SETTINGS = {"STATISTICS_INTERVAL_SECS": 10, "REPUTATION_BASE_PAGES": 0}


def diagnoses(crawl):
    lines = (crawl.job / "logs/stats.jsonl").read_bytes().splitlines()
    return [decode_line(line).doctor.diagnosis for line in lines]


@pytest.mark.cures("add seeds")
def test_seeds_that_are_added_are_fetched(tmp_path):
    crawl = VirtualCrawl(tmp_path, **WEB, restricting=0.0)
    settings = SETTINGS | REVISIT | {"URL_SCOPE": "seeds"}
    first, *others = crawl.seeds.read_text().split()
    crawl.seeds.write_text(f"{first}\n")
    crawl.run(60 / DAY, **settings)
    said = diagnoses(crawl)
    assert (said[-1].cause, said[-1].advice) == ("nothing_left", "add seeds")

    crawl.seeds.write_text("\n".join([first, *others]))
    crawl.run(60 / DAY, **settings)
    assert diagnoses(crawl)[len(said)].cause != "nothing_left"


LARGE = {"mean_pages": 400, "max_pages": 500, "restricting": 0.0}
OPEN = {"restricting": 0.0}
NO_PAUSE = {"POLITENESS_MIN_DELAY": 0, "POLITENESS_MAX_DELAY": 0}
TWO_WORKERS = {"CONCURRENT_REQUESTS": 2, **NO_PAUSE}
SLOW = {"slow_secs": 2.0, **LARGE}
THROTTLED = {"throttle_secs": 30.0, **LARGE}
ALL = '["*"]\nowner_allows = true\n'


@pytest.mark.cures(
    "add hosts, or if owners agree, set delay in HOSTS_POLICY_FILE",
    "add hosts, or if owners agree, set parallel in HOSTS_POLICY_FILE",
    "set CONCURRENT_REQUESTS={workers}",
    "raise BANDWIDTH_MAX",
    "raise CONTACTS_MAX",
    "raise {budget}",
    "add hosts, and set a longer delay in HOSTS_POLICY_FILE",
    "add hosts, and check these hosts and your network",
)
@cases(
    "web settings fault cause advice policy cure",
    """
        LARGE | {"POLITENESS_MIN_DELAY": 4, "POLITENESS_MAX_DELAY": 9} | | politeness
        | add hosts, or if owners agree, set delay in HOSTS_POLICY_FILE | delay = 0.5 | {}
        SLOW | TWO_WORKERS | slow | workers | set CONCURRENT_REQUESTS=4
        | | {"CONCURRENT_REQUESTS": 4}
        LARGE | {"BANDWIDTH_MAX": 20_000} | | bandwidth | raise BANDWIDTH_MAX
        | | {"BANDWIDTH_MAX": 200_000}
        OPEN | {"BUDGET_HOST_PAGES": 2} | | budgets | raise BUDGET_HOST_PAGES or _BYTES
        | | {"BUDGET_HOST_PAGES": 400}
        THROTTLED | {} | throttle | refusals
        | add hosts, and set a longer delay in HOSTS_POLICY_FILE | delay = 40 | {}
    """,
    globals(),
    long="""
        SLOW | NO_PAUSE | slow | one_request_a_host
        | add hosts, or if owners agree, set parallel in HOSTS_POLICY_FILE
        | parallel = 8, delay = 0 | {}
        LARGE | {"CONTACTS_MAX": 1} | | contact_rate | raise CONTACTS_MAX | | {"CONTACTS_MAX": 10}
        OPEN | {"BUDGET_DOMAIN_PAGES": 2} | | budgets | raise BUDGET_DOMAIN_PAGES or _BYTES
        | | {"BUDGET_DOMAIN_PAGES": 400}
        LARGE | {} | reset | refusals | add hosts, and check these hosts and your network | | {}
        LARGE | {} | server_error | refusals
        | add hosts, and set a longer delay in HOSTS_POLICY_FILE | | {}
    """,
)
def test_advice_removes_the_cause_or_its_limit(  # noqa: PLR0917  # columns of the table
    tmp_path, web, settings, fault, cause, advice, policy, cure
):
    crawl = VirtualCrawl(tmp_path, **WEB | web)
    secs = 20 if web in (LARGE, SLOW) else 60
    script = [Episode(0.0, 1e9, "host", fault)] if fault else []
    crawl.run(secs / DAY, script=script, **SETTINGS | REVISIT | settings)
    pages = crawl.stats().get("crawl/item_scraped_count", 0)
    said = diagnoses(crawl)
    assert (said[-1].cause, said[-1].advice) == (cause, advice)

    if policy:
        (tmp_path / "hosts.toml").write_text(ALL + policy.replace(", ", "\n"))
        cure = {"HOSTS_POLICY_FILE": tmp_path / "hosts.toml"}
    crawl.run(
        secs / DAY,
        script=script if fault in {"slow", "throttle"} else [],
        **SETTINGS | REVISIT | settings | cure,
    )
    cured = diagnoses(crawl)[len(said) :]
    more = crawl.stats()["crawl/item_scraped_count"] - pages
    # A limit that was raised may be reached again, with more pages in the same time.
    assert cause not in {one.cause for one in cured} or more > 1.5 * pages, (cured, pages, more)
