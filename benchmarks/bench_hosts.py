"""What a new host costs: ``PYTHONPATH=. python benchmarks/bench_hosts.py [--scheme NAME ...]
[--per-host N ...] [--web NAME ...] [--pages N] [--rounds N] [--against DIR]``.

Crawls of simulated webs whose hosts have 1, 3, 10 or 100 pages each, all of them seeds, by http
and by https, from the first seed to the last page. Pages have 20 kB and 40 links (webs.py), names
are looked up at the simulated web's name server, and everything is on but the pauses. Crawler and
server have a core each. Figures are pages per CPU-second of the crawler's process (user and
system, all threads), medians over the rounds.

A host's milliseconds are ten ninths of what a page costs more with one page a host than with ten.
(With a hundred there are too few hosts at once for a busy crawl.) ``--web`` takes webs of webs.py
in place of these. ``--against`` takes turns with another checkout, round by round, and gives the
ratios.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import statistics
from pathlib import Path

from rows import Result, scrapy, task_of
from webs import WEBS, Web, webs_named

_PER_HOST = (1, 3, 10, 100)
_HTTPS = {"http": 0.0, "https": 1.0}
_HERE = Path(__file__).resolve().parents[1]


def web_of(scheme: str, per_host: int, *, pages: int) -> Web:
    """A web of *pages* on hosts that have *per_host* each."""
    world = {"hosts": pages // per_host, "mean_pages": per_host, "max_pages": per_host}
    changes = {**world, "https_share": _HTTPS[scheme]}
    return Web(name=f"{scheme}, {per_host}", preset="bench", pages=pages, changes=changes)


def measured(web: Web, *, pages: int, trees: list[Path]) -> list[Result]:
    """One crawl by each of *trees*."""
    with task_of(web, pages=pages) as task:
        return [scrapy("webcrawl", tree=tree)(task) for tree in trees]


def report(rows: dict[str, list[list[Result]]], trees: list[Path]) -> None:
    """Print medians and spread, what a host costs, and the ratios to the first of *trees*."""
    print(f"\n{'pages a host':24}{'pages/CPU-s':>24}{'ms a page':>11}{'ratio':>8}")
    for which, tree in enumerate(trees):
        for name, found in rows.items():
            rates = [one[which].rate for one in found]
            ratio = statistics.median(one[which].rate / one[0].rate for one in found)
            spread = f"{statistics.median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})"
            title = f"{tree.name}: {name}"
            print(f"{title:24}{spread:>24}{1000 / statistics.median(rates):11.2f}{ratio:8.2f}")
        for scheme in _HTTPS:
            pairs = zip(rows.get(f"{scheme}, 1", []), rows.get(f"{scheme}, 10", []), strict=False)
            costs = [
                (1000 / alone[which].rate - 1000 / among[which].rate) / 0.9
                for alone, among in pairs
            ]
            if costs:
                spread = f"{statistics.median(costs):.2f} ({min(costs):.2f} to {max(costs):.2f})"
                print(f"{tree.name}: a host by {scheme}, in ms: {spread}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--scheme", action="append", choices=_HTTPS, help="(default: both)")
    add("--per-host", type=int, nargs="*", default=_PER_HOST)
    add("--web", action="append", choices=WEBS, help="in place of hosts by number of pages")
    add("--pages", type=int, help="of each crawl (default: 12,000, or as the web has it)")
    add("--rounds", type=int, default=3)
    add("--against", type=Path, help="another checkout")
    options = parser.parse_args()
    trees = [options.against.absolute()] if options.against else []
    trees.append(_HERE)
    webs = list(itertools.chain.from_iterable(map(webs_named, options.web or ())))
    if not webs:
        kinds = itertools.product(options.scheme or _HTTPS, options.per_host)
        webs = [web_of(*kind, pages=options.pages or 12_000) for kind in kinds]
    rows: dict[str, list[list[Result]]] = {web.name: [] for web in webs}
    for number in range(1, options.rounds + 1):
        for web in webs:
            order = trees if number % 2 else trees[::-1]
            results = measured(web, pages=options.pages or web.pages, trees=order)
            found = rows[web.name]
            found.append(results if number % 2 else results[::-1])
            rates = ", ".join(f"{one.rate:.1f}" for one in found[-1])
            print(
                f"round {number}: {web.name}: {found[-1][-1].pages} pages, "
                f"{rates} pages/CPU-s, {found[-1][-1].rss_mb:.0f} MB",
                flush=True,
            )
    report(rows, trees)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    main()
