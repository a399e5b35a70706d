"""What a new host costs: ``PYTHONPATH=. python benchmarks/bench_hosts.py [--scheme NAME ...]
[--per-host N ...] [--pages N] [--rounds N] [--against DIR]``.

Crawls of simulated webs whose hosts have 1, 3, 10 or 100 pages each, all of them seeds, by http
and by https, from the first seed to the last page. Pages have 20 kB and 40 links (webs.py), names
are looked up at the simulated web's name server, and everything is on but the pauses. Crawler and
server have a core each. Figures are pages per CPU-second of the crawler's process (user and
system, all threads), medians over the rounds.

A host's milliseconds are ten ninths of what a page costs more with one page a host than with ten.
(With a hundred there are too few hosts at once for a busy crawl.) ``--against`` takes turns with
another checkout, round by round, and gives the ratios.
"""

from __future__ import annotations

import argparse
import resource
import statistics
from pathlib import Path

from rows import Result, scrapy, task_of
from webs import Web

_PER_HOST = (1, 3, 10, 100)
_HTTPS = {"http": 0.0, "https": 1.0}
_HERE = Path(__file__).resolve().parents[1]


def web_of(scheme: str, per_host: int, *, pages: int) -> Web:
    """A web of *pages* on hosts that have *per_host* each."""
    world = {"hosts": pages // per_host, "mean_pages": per_host, "max_pages": per_host}
    changes = {**world, "https_share": _HTTPS[scheme]}
    return Web(name=f"{scheme}-{per_host}", preset="bench", pages=pages, changes=changes)


def measured(scheme: str, per_host: int, *, pages: int, trees: list[Path]) -> list[Result]:
    """One crawl by each of *trees*."""
    with task_of(web_of(scheme, per_host, pages=pages), pages=pages) as task:
        return [scrapy("webcrawl", tree=tree)(task) for tree in trees]


def report(rows: dict[tuple[str, int], list[list[Result]]], trees: list[Path]) -> None:
    """Print medians and spread, what a host costs, and the ratios to the first of *trees*."""
    print(f"\n{'pages a host':24}{'pages/CPU-s':>24}{'ms a page':>11}{'ratio':>8}")
    for which, tree in enumerate(trees):
        for (scheme, per_host), found in rows.items():
            rates = [one[which].rate for one in found]
            ratio = statistics.median(one[which].rate / one[0].rate for one in found)
            spread = f"{statistics.median(rates):.0f} ({min(rates):.0f} to {max(rates):.0f})"
            title = f"{tree.name}: {scheme}, {per_host}"
            print(f"{title:24}{spread:>24}{1000 / statistics.median(rates):11.2f}{ratio:8.2f}")
        for scheme in _HTTPS:
            pairs = zip(rows.get((scheme, 1), []), rows.get((scheme, 10), []), strict=False)
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
    add("--pages", type=int, default=12_000, help="of each crawl")
    add("--rounds", type=int, default=3)
    add("--against", type=Path, help="another checkout")
    options = parser.parse_args()
    trees = [options.against.absolute()] if options.against else []
    trees.append(_HERE)
    rows: dict[tuple[str, int], list[list[Result]]] = {
        (scheme, per_host): []
        for scheme in options.scheme or _HTTPS
        for per_host in options.per_host
    }
    for number in range(1, options.rounds + 1):
        for (scheme, per_host), found in rows.items():
            order = trees if number % 2 else trees[::-1]
            results = measured(scheme, per_host, pages=options.pages, trees=order)
            found.append(results if number % 2 else results[::-1])
            rates = ", ".join(f"{one.rate:.1f}" for one in found[-1])
            print(
                f"round {number}: {scheme}, {per_host} pages a host: {found[-1][-1].pages} pages, "
                f"{rates} pages/CPU-s, {found[-1][-1].rss_mb:.0f} MB",
                flush=True,
            )
    report(rows, trees)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    main()
