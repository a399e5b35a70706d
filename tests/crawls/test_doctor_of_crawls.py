"""What the doctor says of whole crawls in virtual time."""

from text_tables import cases
from virtual_crawl import VirtualCrawl

from webcrawl.doctor.record import decode_line

DAY = 86_400.0
WEB = {"hosts": 12, "mean_pages": 8, "max_pages": 16, "errors": 0.0, "seed_share": 1.0}
REVISIT = {"REVISIT": 1, "REVISIT_FIRST_SECS": "48h"}


@cases(
    "web settings cause advice",
    """
        # The last host that waits answers to robots.txt with 503.
        {}                   | {} | refusals | add hosts, and set a longer delay
        {"restricting": 0.0} | {"BUDGET_HOST_PAGES": 2} | budgets | raise BUDGET_HOST_PAGES
        {"restricting": 0.0} | {} | nothing_left | add seeds
    """,
)
def test_what_holds_a_crawl_back_is_named(tmp_path, web, settings, cause, advice):
    crawl = VirtualCrawl(tmp_path, **WEB, **web)
    crawl.run(60 / DAY, STATISTICS_INTERVAL_SECS=10, REPUTATION_BASE_PAGES=0, **REVISIT, **settings)
    lines = (crawl.job / "logs/stats.jsonl").read_bytes().splitlines()
    said = [one.doctor.diagnosis for line in lines if (one := decode_line(line)).doctor]
    assert said[-1].cause == cause, said
    assert said[-1].advice.startswith(advice)
