"""How well URL caches of each policy and size do: `python benchmarks/cachelab.py TRACE`

TRACE is a file that a crawl with -s URL_TRACE=TRACE has written, or crawl_graph.py. It is replayed
into caches of each policy and size. Prints the miss rates, and the critical region of LRU: below it
a cache is much worse, above it hardly better.

--csv FILE gets policy, size, requests and hits. FILE-cross.csv gets the same for the URLs that
leave the page's host only. After Broder, Najork and Wiener, "Efficient URL Caching for World Wide
Web Crawling"; docs/why/caches.md says more.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cache_replays import REPLAYS, stack_distances

from webcrawl.commands import progress
from webcrawl.errors import FatalError
from webcrawl.seen.url_trace import read_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

#: The policies, in the order of the columns. "static" holds the most popular URLs of the
#: same trace; as in the paper, loading them is free. "static-charged" counts a miss for each.
POLICIES = "infinite", "min", "lru", "clock", "random", "static", "static-charged"
_MAX_SIZE = 1 << 28
#: The two traces of the paper, the full trace and the cross sub-trace, by suffix of the file name.
STREAMS = {"": "all links", "-cross": "links that leave the page's host"}


class Measurement(NamedTuple):
    """How many of the *requests* in a trace a cache of this policy and size *hits*."""

    policy: str
    size: int
    requests: int
    hits: int

    @property
    def miss_rate(self) -> float:
        """The share of requests that miss."""
        return 1 - self.hits / self.requests


class CacheSimulation:
    """Simulated caches for one trace, which is given by the fingerprints *fps* of its requests."""

    def __init__(self, fps: NDArray[np.uint64]) -> None:
        numbered = pa.array(fps).dictionary_encode()
        self._ids = numbered.indices.to_numpy()  # for each request, the number of its URL
        self._distinct = len(numbered.dictionary)
        # The number of requests for each URL, the most popular first.
        self._counts: NDArray[np.int64] = np.sort(np.bincount(self._ids))[::-1]
        # The number of requests, by how many other URLs came since the last one for the same URL.
        self._distances: NDArray[np.int64] = stack_distances(self._ids, self._distinct)

    def measure(
        self,
        policies: Iterable[str],
        sizes: Sequence[int],
        *,
        on_progress: Callable[[int], object],
    ) -> list[Measurement]:
        """Replay the trace into a cache of each of *policies* and *sizes*, and return the hits.

        *on_progress* is called with the number of requests replayed so far.
        """
        requests = len(self._ids)
        measurements = []
        for number, (policy, size) in enumerate(((p, s) for p in policies for s in sizes), 1):
            measurements.append(Measurement(policy, size, requests, self._hits(policy, size)))
            on_progress(number * requests)
        return measurements

    def _hits(self, policy: str, size: int) -> int:
        """Return the hits of a cache with this *policy* and *size*."""
        distinct = self._distinct
        if policy == "static":
            return int(self._counts[:size].sum())
        if policy == "static-charged":  # loading each of its URLs is a miss
            return int(self._counts[:size].sum()) - min(size, distinct)
        if policy == "infinite" or size >= distinct:  # only the first request for a URL misses
            return len(self._ids) - distinct
        if policy == "lru":  # a request hits if fewer than *size* other URLs came in between
            return int(self._distances[:size].sum())
        return int(REPLAYS[policy](self._ids, distinct, size))

    def critical_region(self) -> tuple[int, int] | None:
        """Return the two cache sizes between which LRU's hit rate rises most steeply.

        Plotted over the logarithm of the size, the hit rate is compared with a straight line from
        size 1 to a cache that holds all URLs. The region is from the size where the rate is
        farthest below the line to the size where it is farthest above, the knee. In the paper's
        words, a substantially smaller cache is much less effective, and a substantially larger one
        brings little. Returns None if the rate is nowhere above the line.
        """
        max_log = np.log2(max(self._distinct, 2))
        # At least eight sizes for each doubling of the size.
        log_sizes = np.linspace(0, max_log, 8 * int(max_log) + 9)
        sizes = np.minimum(np.exp2(log_sizes).astype(np.int64), self._distinct)
        hits = np.cumsum(self._distances)[sizes - 1]
        # Both the curve and the line are scaled to rise from 0 to 1.
        height_above_line = (hits - hits[0]) / max(1, hits[-1] - hits[0]) - log_sizes / max_log

        knee = int(np.argmax(height_above_line))
        if not knee:  # the highest point is the first one, which is on the line
            return None
        return int(sizes[np.argmin(height_above_line[: knee + 1])]), int(sizes[knee])


def region_text(region: tuple[int, int] | None) -> str:
    """Return a sentence about *region*, the result of ``critical_region``."""
    if region is None:
        return (
            "LRU has no critical region: its hit rates never rise above the straight line between "
            "the smallest and the largest cache."
        )
    return f"Critical region of LRU: from {region[0]:,} entries to the knee at {region[1]:,}."


def policies_of(text: str) -> list[str]:
    """Parse *text*, which is ``all`` or policies separated by commas. Raises FatalError."""
    names = [*POLICIES] if text == "all" else text.split(",")
    for name in names:
        if name not in POLICIES:
            raise FatalError(f"Unknown policy {name!r}: use all, or some of {', '.join(POLICIES)}.")
    return names


def sizes_of(text: str) -> list[int]:
    """Parse *text*, sizes such as ``2^0..2^25`` (powers of two) or ``1000,2^16``.

    >>> sizes_of("2^0..2^3,100")
    [1, 2, 4, 8, 100]
    """
    sizes = []
    for part in text.split(","):
        if match := re.fullmatch(r"2\^(\d{1,2})\.\.2\^(\d{1,2})", part):
            sizes += [1 << power for power in range(int(match[1]), int(match[2]) + 1)]
        elif match := re.fullmatch(r"(2\^)?(\d{1,9})", part):
            # A power above 2^28 is refused below, so a huge one is not computed.
            sizes.append(1 << min(int(match[2]), 64) if match[1] else int(match[2]))
    if not sizes or "" in text.split(",") or not all(1 <= size <= _MAX_SIZE for size in sizes):
        raise FatalError(
            f"--sizes must be like 2^0..2^25 or 1000,2^16, each from 1 to 2^28, not {text!r}."
        )
    return sorted({*sizes})


def stream_file(path: Path, suffix: str) -> Path:
    """Return the file of the trace with *suffix*; *path* is the file of the full trace."""
    return path.with_name(f"{path.stem}{suffix}{path.suffix}")


def write_csv(measurements: Iterable[Measurement], path: Path) -> None:
    """Write *measurements* to the file *path*. Raises OSError."""
    with path.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Measurement._fields)
        writer.writerows(measurements)


def text_of(measurements: Sequence[Measurement]) -> str:
    """Format the miss rates of *measurements*, in percent, as a table with one line per size."""
    policies = [*dict.fromkeys(entry.policy for entry in measurements)]
    rates = {(entry.policy, entry.size): entry.miss_rate for entry in measurements}
    lines = ["      size" + "".join(f" {policy:>14}" for policy in policies)]
    for size in dict.fromkeys(entry.size for entry in measurements):
        cells = (f" {rates[policy, size]:>14.2%}" for policy in policies)
        lines.append(f"{size:>10,}" + "".join(cells))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Replay the trace that the command line names, and print the miss rates."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--policies", default="all", help=f"all (default), or some of {POLICIES}")
    parser.add_argument("--sizes", default="2^0..2^25", help="such as 2^0..2^25 or 1000,2^16")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the hits to FILE")
    options = parser.parse_args()
    try:
        measure_trace(options)
    except (FatalError, OSError) as error:
        sys.exit(f"cachelab: {error}")


def measure_trace(options: argparse.Namespace) -> None:
    """Replay the trace in *options*, and print the miss rates."""
    policies = policies_of(options.policies)
    sizes = sizes_of(options.sizes)
    trace = read_trace(options.trace)
    texts = []
    with progress("requests") as on_progress:
        for suffix, stream in STREAMS.items():
            fps = trace.fps[trace.leaves] if suffix else trace.fps
            if not len(fps):
                continue
            simulation = CacheSimulation(fps)
            results = simulation.measure(policies, sizes, on_progress=on_progress)
            if options.csv:
                write_csv(results, stream_file(options.csv, suffix))
            heading = f"{len(fps):,} requests, {stream}; misses by policy and number of entries:"
            region = region_text(simulation.critical_region())
            texts.append(f"{heading}\n{text_of(results)}\n{region}\n")
    print("\n".join(texts), end="")


if __name__ == "__main__":
    main()
