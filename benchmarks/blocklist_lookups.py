"""BLOCKLISTS with a list as long as UT1's adult list: time to read it, memory, time for a host.

python benchmarks/blocklist_lookups.py [DOMAINS]
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from scrapy.settings import Settings

from webcrawl.hosts.politeness.exclusions import blocklists

HOSTS = 100_000


def peak_mb() -> int:
    """Return the peak memory of the process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main(count: str = "5000000") -> None:
    """Print the figures for a list of *count* domains."""
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "domains")
        with path.open("w") as file:
            for number in range(int(count)):
                file.write(f"{rng.getrandbits(40):x}-site{number}.com\n")
        size, before = path.stat().st_size / 1e6, peak_mb()
        lists = blocklists(Settings({"BLOCKLISTS": json.dumps({"adult": directory})}))
        began = time.process_time()
        lists["adult/domains"].open()
        took, memory = time.process_time() - began, peak_mb() - before
    rules = lists["adult/domains"].rules
    hosts = [f"www.{rng.getrandbits(40):x}.co.uk" for _ in range(HOSTS)]
    began = time.process_time()
    found = sum(map(rules.is_excluded, hosts))
    each = (time.process_time() - began) / HOSTS
    print(
        f"{int(count):,} domains, {size:.0f} MB: read in {took:.1f} s of CPU, {memory} MB at most; "
        f"{1e6 * each:.2f} us a host with 3 dots, {found} found"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
