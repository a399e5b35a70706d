"""What gates cost: all of them per new URL and per parked one that is looked at again; those of
traps per URL on its way, and per page whose content was judged.

    python benchmarks/bench_traps.py [--hosts 20_000] [--rounds 7] [--parked 1_000_000]

200,000 new URLs of 10,000 hosts are admitted as encoded entries, in batches of the eliminator, with
all gates on: budgets of pages and bytes for hosts and domains, traps, reputation. So many more that
a million are parked, and a pass over these. CPU time, and the longest slice of the pass.

Then 20,000 hosts (seeded); a third of them has had pages with content seen before, and a tenth a
parked pattern. 200,000 URLs go through the gates of traps as they come from the eliminator: from
pages of 10 new links, 70 % to the page's own host, 300 of which are in flight. Then 50,000 pages
are judged, one in ten of them a duplicate. The records are in SQLite, as in a crawl. CPU time,
median and range of the rounds.
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from webcrawl.frontier import (
    DepthRankPrioritizer,
    Entry,
    Frontier,
    FrontierPolicies,
    FrontierSizes,
    GeometricSelector,
    LargestDelay,
    Supply,
    encode,
)
from webcrawl.frontier.admission import Admission
from webcrawl.hosts.budgets.quotas import Quota, budgets_of
from webcrawl.hosts.budgets.reputation import ReputationBudget, ReputationGate
from webcrawl.hosts.budgets.traps import LearnedTraps, UrlSpace
from webcrawl.hosts.budgets.traps.keeper import TrapKeeper, exceptions_in
from webcrawl.hosts.budgets.traps.trap_files import Notes
from webcrawl.hosts.records import HostRecords

URLS, PAGES = 200_000, 50_000
# As the eliminator gives them, see crawl/shard/feeder.py.
BATCH = 256
HOST, DOMAIN = Quota(1000, 10**9), Quota(5000, 10**9)


def keeper_of(records: HostRecords, directory: Path) -> TrapKeeper:
    exceptions = exceptions_in(None, clock=time.monotonic)
    return TrapKeeper(
        learned=LearnedTraps(
            store=records.traps,
            exceptions=exceptions,
            notes=Notes(directory / "traps.txt"),
            min_duplicates=30,
            retry_secs=86_400.0,
            clock=time.time,
        ),
        space=UrlSpace(records=records, exceptions=exceptions, base=1000, clock=time.monotonic),
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


def records_in(directory: Path, executor: ThreadPoolExecutor) -> HostRecords:
    records = HostRecords(
        path=directory / "hosts",
        size=1 << 18,
        robots_size=1,
        executor=executor,
    )
    records.open()
    return records


def new_urls(start: int, count: int) -> list[bytes]:
    """Encoded entries of 10,000 hosts in turns."""
    found = []
    for number in range(start, start + count):
        host = f"www.site{number * 7919 % 10_000}.com"
        url = f"https://{host}/list/{number}/x.html"
        found.append(encode(Entry(url=url, host=host, depth=3, via="https://www.a.com/page.html")))
    return found


def admission(directory: Path, executor: ThreadPoolExecutor, parked: int) -> None:
    """Print what all gates cost per URL, and a pass over *parked* of them."""
    records = records_in(directory, executor)
    keeper = keeper_of(records, directory)
    keeper.open()
    frontier = Frontier(
        path=directory / "frontier",
        clock=time.time,
        policies=FrontierPolicies(
            prioritizer=DepthRankPrioritizer(levels=8),
            selector=GeometricSelector(rng=random.Random(4)),
            delay=LargestDelay(factor=10.0, floor=1.0, ceiling=60.0),
        ),
        sizes=FrontierSizes(queues=300, max_queues=3000),
    )
    frontier.open(None)
    _, budgets = budgets_of(records, host=HOST, domain=DOMAIN)
    gates = [
        *budgets,
        *keeper.gates(),
        ReputationGate(
            domains=records.domains,
            budget=ReputationBudget(4, 0),
            is_far=frontier.is_far,
            clock=time.monotonic,
        ),
    ]
    gate = Admission(frontier=frontier, gates=gates)
    spent = 0.0
    admitted = 0
    while frontier.parked.size < parked:
        batch = new_urls(admitted, BATCH)
        started = time.process_time()
        gate.push(batch)
        if admitted < URLS:
            spent += time.process_time() - started
        admitted += len(batch)
        if admitted % (100 * BATCH) == 0:
            records.flush()
        if abs(admitted - URLS) < BATCH / 2:
            print(f"{1e6 * spent / admitted:.2f} µs a URL, all gates: {len(frontier):,} let in")
    gate.open()
    started, longest, more = time.process_time(), 0.0, True
    while more:
        began = time.perf_counter()
        more = gate.work(Supply.NOW)
        longest = max(longest, time.perf_counter() - began)
    took = time.process_time() - started
    print(
        f"{1e6 * took / parked:.2f} µs a URL for a pass over {frontier.parked.size:,} parked ones, "
        f"{1000 * longest:.1f} ms at once at most"
    )
    frontier.close()
    keeper.close()
    records.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hosts", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--parked", type=int, default=1_000_000)
    options = parser.parse_args()
    # First, before there is much for the garbage collector to look at.
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as executor:
        admission(Path(name), executor, options.parked)
    rng = random.Random(4)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as executor:
        directory = Path(name)
        records = records_in(directory, executor)
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
                keeper.space.let_out(entry)
            started = time.process_time()
            for entry, seen in pages:
                keeper.learned.learn(entry.url, seen=seen)
                keeper.space.ended(entry, fresh=not seen, fruitless=seen)
            judged.append(1e6 * (time.process_time() - started) / PAGES)
            records.flush()
        for what, spent in (("URL", asked), ("page", judged)):
            print(
                f"{statistics.median(spent):.2f} µs a {what} ({min(spent):.2f} to {max(spent):.2f})"
            )
        print(f"{held / URLS / options.rounds:.1%} held; {keeper.learned.stats()}")
        keeper.close()
        records.close()


if __name__ == "__main__":
    main()
