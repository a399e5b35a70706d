"""What the gates of traps cost per URL on its way, and per page whose content was judged.

    python tests/benchmarks/bench_traps.py [--hosts 20_000] [--rounds 7]

20,000 hosts (seeded); a third of them has had pages with content seen before, and a tenth a parked
pattern. 200,000 URLs go through both gates as they come from the eliminator: from pages of 10 new
links, 70 % to the page's own host, 300 of which are in flight. Then 50,000 pages are judged, one in
ten of them a duplicate. The records are in SQLite, as in a crawl. CPU time, median and range of the
rounds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from webcrawl.frontier import Entry
from webcrawl.hosts import HostRecords
from webcrawl.trap_keeper import TrapKeeper, exceptions_in
from webcrawl.traps import LearnedTraps, UrlSpace
from webcrawl.traps.noted import Notes

URLS, PAGES = 200_000, 50_000


def keeper_of(records: HostRecords, directory: Path) -> TrapKeeper:
    exceptions = exceptions_in(None, clock=time.monotonic)
    return TrapKeeper(
        exceptions=exceptions,
        learned=LearnedTraps(
            store=records.traps,
            exceptions=exceptions,
            notes=Notes(directory / "traps.txt"),
            min_duplicates=30,
            min_share=0.9,
            retry_secs=86_400.0,
            wall=time.time,
        ),
        space=UrlSpace(records=records, base=1000, per_page=10, clock=time.monotonic),
    )


def entries(rng: random.Random, hosts: int, count: int) -> list[Entry]:
    in_flight = [rng.randrange(hosts) for _ in range(300)]
    made = []
    own = 0
    for number in range(count):
        if number % 10 == 0:
            own = rng.choice(in_flight)
        host = f"www.site{own if rng.random() < 0.7 else rng.randrange(hosts)}.com"
        kind = rng.choice(("list", "article", "cal"))
        url = f"https://{host}/{kind}/{rng.randrange(10**6)}/x.html"
        made.append(
            Entry(url=url + rng.choice(("", f"?visit={rng.randrange(10**9):x}")), host=host)
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hosts", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rng = random.Random(4)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as executor:
        directory = Path(name)
        records = HostRecords(
            path=directory / "hosts",
            size=1 << 18,
            robots_size=1,
            robots_bytes=1,
            executor=executor,
        )
        records.open()
        keeper = keeper_of(records, directory)
        keeper.open()
        for host in range(0, options.hosts, 3):
            for number in range(30 if host % 10 == 0 else 3):
                url = f"https://www.site{host}.com/cal/{number}/x.html?visit={number}"
                keeper.learned.learn(url, seen=True)
        urls = entries(rng, options.hosts, URLS)
        pages = [(entry, rng.random() < 0.1) for entry in entries(rng, options.hosts, PAGES)]
        gates = keeper.gates()
        asked: list[float] = []
        judged: list[float] = []
        held = 0
        for _ in range(options.rounds):
            waiting: list[Entry] = []
            started = time.process_time()
            for entry in urls:
                for gate in gates:
                    if gate.holds(entry):
                        break
                else:
                    for gate in gates:
                        gate.let_in(entry)
                    waiting.append(entry)
            asked.append(1e6 * (time.process_time() - started) / URLS)
            held += URLS - len(waiting)
            for entry in waiting:
                keeper.space.let_out(entry.host)
            started = time.process_time()
            for entry, seen in pages:
                keeper.learned.learn(entry.url, seen=seen)
                keeper.space.ended(entry.host, fresh=not seen, fruitless=seen)
            judged.append(1e6 * (time.process_time() - started) / PAGES)
            records.flush()
        for what, spent in (("URL", asked), ("page", judged)):
            print(
                f"{statistics.median(spent):.2f} µs a {what} ({min(spent):.2f} to {max(spent):.2f})"
            )
        print(f"{held / URLS / options.rounds:.1%} held; {keeper.stats()}")
        keeper.close()
        records.close()


if __name__ == "__main__":
    main()
