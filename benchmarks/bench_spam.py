"""What a spam farm and endless calendars take of a crawl, with reputation budgets and without.

    PYTHONPATH=. python benchmarks/bench_spam.py [HOSTS] [SECONDS]

400 hosts if nothing is said, each crawl stopped after 120 seconds: without budgets it has no end.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.extend(map(str, Path(__file__).parents[1].glob("tests/rigs/*/")))

from crawling import USER_AGENT, run_crawl
from spam_crawl import share, shares, spam_web
from web_truth import allowed_urls

CRAWLS = {
    "without budgets": {"REPUTATION_BASE_PAGES": 0},
    "base 4, 0 rounds": {"REPUTATION_ROUNDS": 0},
    "base 4, 12 rounds (the defaults)": {},
    "base 10, 0 rounds": {"REPUTATION_BASE_PAGES": 10, "REPUTATION_ROUNDS": 0},
}


def main() -> None:
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 120.0
    print(
        "| crawl | allowed URLs missed | requests until then | farm | calendars | share | at end |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, settings in CRAWLS.items():
        with (
            tempfile.TemporaryDirectory() as directory,
            spam_web(Path(directory), hosts=hosts) as web,
        ):
            command = web.command(CLOSESPIDER_TIMEOUT=seconds, **settings)
            done = run_crawl(command, timeout=10 * seconds)
            assert done.returncode == 0, done.stdout
            found = shares(web.world, web.hits())
        allowed = len(allowed_urls(web.world, USER_AGENT))
        then = found.then
        print(
            f"| {name} | {len(found.missing)} of {allowed:,} | {then.total():,} "
            f"| {then['farm']:,} | {then['calendar']:,} | {share(then):.1%} "
            f"| {share(found.whole):.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
