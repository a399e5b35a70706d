"""Time and memory of finding near-duplicates among random signatures.

    PYTHONPATH=. python benchmarks/bench_clusters.py [ROWS [DIRECTORY]]

Three rows in ten have one bucket in common with an earlier row of their file. The files, 0.9 GB for
each million rows, are made in DIRECTORY and deleted at the end.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from webcrawl.jobs.dataset import LIMITS
from webcrawl.pipelines.datasets.clusters import Clusters

BUCKETS = 14
BUCKET = 8
ROWS_PER_FILE = 100_000
SHARE = 0.3


def write(path: Path, start: int, rows: int, rng: np.random.Generator) -> int:
    """Write a file with *rows*, numbered from *start*; return how many are like another one."""
    values = rng.integers(0, 1 << 61, (rows, BUCKETS, BUCKET), dtype=np.uint64)
    alike = 1 + np.flatnonzero(rng.random(rows - 1) < SHARE)
    # A bucket is copied from an earlier row, as it was then: this can only make further pairs.
    earlier = (rng.random(alike.size) * alike).astype(int)
    buckets = rng.integers(0, BUCKETS, alike.size)
    for row, other, bucket in zip(alike, earlier, buckets, strict=True):
        values[row, bucket] = values[other, bucket]
    numbers = range(start, start + rows)
    offsets = pa.array(np.arange(rows + 1) * BUCKETS * BUCKET, pa.int32())
    columns = {
        "url": [f"http://host{number % 1000}.test/{number}" for number in numbers],
        "id": [f"<urn:uuid:{number:036x}>" for number in numbers],
        "fetched_at": pa.array(numbers, pa.timestamp("us", tz="UTC")),
        "minhash": pa.ListArray.from_arrays(offsets, pa.array(values.ravel())),
    }
    pq.write_table(pa.table(columns), path, compression="zstd")
    return int(alike.size)


def main(rows: int, directory: str | None = None) -> None:
    rng = np.random.default_rng(1)
    with TemporaryDirectory(dir=directory) as work:
        starts = range(0, rows, ROWS_PER_FILE)
        files = [Path(work, f"{start:012}.parquet") for start in starts]
        alike = [
            write(path, start, min(rows - start, ROWS_PER_FILE), rng)
            for path, start in zip(files, starts, strict=True)
        ]
        refused = Path(work, "refused.jsonl")
        refused.touch()
        db = duckdb.connect(config=LIMITS | {"temp_directory": work})
        began = perf_counter()
        cpu_began = process_time()
        clusters = Clusters(db, files, refused=[refused])
        secs = perf_counter() - began
        cpu_secs = process_time() - cpu_began
        db.close()
    assert clusters.near_duplicates == sum(alike)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{rows:,} rows, {clusters.near_duplicates:,} near-duplicates: {secs:,.0f} s")
    print(f"{cpu_secs:,.0f} s of CPU, {peak / 1e6:.2f} GB of memory at most")


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["1000000"])[0]), *sys.argv[2:3])
