"""How long `scrapy why` and `scrapy frontier` take beside a large crawl.

    python benchmarks/bench_inspect.py --urls 1000000

Makes a job with so many URLs over 10,000 hosts, of each of which one is done, and a log of so many
finished URLs, and asks for URLs at the beginning and the end of both, and for an export. Times are
of the whole command, by the clock and of the CPU; starting Python and Scrapy is the first row.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from bench_restart import make, url

from webcrawl.crawl.lease.outcome_log import INFO_LOG, OutcomeLine
from webcrawl.seen.fingerprint import fingerprint, hexadecimal
from webcrawl.storage.line_log import LineLog

ROOT = Path(__file__).parents[1]
_HOSTS = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        job = Path(directory) / "job"
        per_host = max(1, options.urls // _HOSTS)
        make(job, options.urls, per_host, 0)
        done, waiting = (
            [url(kind, n, per_host)[0] for n in (2, options.urls - 1)]
            for kind in ("done", "waiting")
        )
        make_log(job, options.urls, per_host)
        log = sum(path.stat().st_size for path in (job / "logs").iterdir())
        print(f"{options.urls:,} waiting, {options.urls:,} lines of {log / 1e6:,.0f} MB in all")
        run("nothing but to start", "version", jobdir=job)
        run("nobody's URL (all is read)", "why", "http://nobody.test/", jobdir=job)
        run("the first line", "why", done[0], jobdir=job)
        run("the last line", "why", done[1], jobdir=job)
        run("a URL at the front", "why", waiting[0], jobdir=job)
        run("the last URL in line", "why", waiting[1], jobdir=job)
        run("the summary", "frontier", jobdir=job)
        run("one host", "frontier", "--host", "www.h7.bench-0.test", jobdir=job)
        run("an export", "frontier", "--export", f"{directory}/out.txt", jobdir=job)
        run("an export, gzip", "frontier", "--export", f"{directory}/out.txt.gz", jobdir=job)


def make_log(path: Path, urls: int, per_host: int) -> None:
    log = LineLog(path=path / INFO_LOG, max_bytes=1 << 26)
    log.open()
    encode_line = msgspec.json.Encoder().encode
    for n in range(urls):
        one, host = url("done", n, per_host)
        line = OutcomeLine(
            at=1.0 + n,
            url=one,
            host=host,
            outcome="http_200",
            form=hexadecimal(fingerprint(one)),
            status=200,
            took=0.123,
            bytes=20_000,
            content=hexadecimal(fingerprint(one + "content")),
            depth=3,
            kind="a",
            via=url("done", n // 2, per_host)[0],
        )
        log.append(encode_line(line))
    log.close()


def run(what: str, *command: str, jobdir: Path) -> None:
    started, used = time.perf_counter(), _cpu()
    line = [sys.executable, "-m", "scrapy", *command, "-s", f"JOBDIR={jobdir}"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    took = time.perf_counter() - started
    first = (done.stdout or done.stderr).splitlines()[0].strip()
    print(f"{what:>28}  {took:6.2f} s  {_cpu() - used:6.2f} s CPU  {first}")


def _cpu() -> float:
    """Seconds of CPU that the children so far have used."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
