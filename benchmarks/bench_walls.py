"""What `Walls` cost on a web of many hosts: ``python benchmarks/bench_walls.py [--against DIR]``.

Judges 2,000 pages of 700 hosts as a crawl does and counts instructions, by callgrind (``valgrind``
must be there), less those of a run that only makes the pages. Pages have 20 kB and 40 links. Half
of the hosts have titles that differ by a number alone, a quarter one title, a quarter titles of
words. ``--against`` counts those of another checkout, too. Takes some minutes.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import re
import subprocess
import sys
from pathlib import Path

_PAGES, _HOSTS, _BYTES, _LINKS = 2_000, 700, 20_000, 40
_HERE = Path(__file__).resolve().parents[1]
_LETTERS = "abcdefghijklmnoprstuvwy"


def pages(rng: random.Random) -> list[tuple[str, bytes]]:
    """The URLs and bodies of all pages, in the order in which they come."""
    words = ["".join(rng.choices(_LETTERS, k=rng.randint(2, 10))) for _ in range(4_000)]

    def text(count: int) -> str:
        return " ".join(rng.choices(words, k=count))

    made = []
    for number in range(_PAGES):
        host = rng.randrange(_HOSTS)
        title = (text(3), "Home of all", f"Entry {number}", f"Entry {number}")[host % 4]
        body = f"<!DOCTYPE html><html><head><title>{title}</title></head><body><h1>{title}</h1>"
        for _ in range(_LINKS):
            link = f"/{rng.choice(words)}/{rng.choice(words)}-{rng.randrange(999)}.html"
            body += f'<p>{text(60)} <a href="{link}">{text(2)}</a> {text(5)}.</p>\n'
        url = f"http://host{host}.test/{rng.choice(words)}/{rng.choice(words)}-{number}.html"
        made.append((url, body.encode()[: _BYTES - 14] + b"</body></html>"))
    return made


def judge_all(tree: str, *, only_make: bool) -> None:
    """Judge all pages with the code of *tree*."""
    sys.path[:0] = [tree, f"{tree}/tests/rigs", f"{tree}/tests/rigs/parts"]
    from host_rig import Records
    from scrapy.http import HtmlResponse

    from webcrawl.hosts.politeness.walls import Walls
    from webcrawl.urls import host_of

    # A collection takes as long as a thousand pages, and comes by chance.
    gc.disable()
    records = Records()
    walls = Walls(records=records, count=lambda _: None)
    for url, body in pages(random.Random(7)):
        response = HtmlResponse(url, body=body, headers={"Content-Type": "text/html"})
        if not only_make:
            walls.judge(url, response)
        record = records.get(host_of(url))
        record.pages += 1
        records.put(record)


def instructions(tree: Path, what: str) -> int:
    """Those of a process that does *what* with the code of *tree*."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command += [sys.executable, __file__, "--run", str(tree), what]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        judge_all(options.run[0], only_make=options.run[1] == "make")
        return
    for tree in filter(None, (options.against, _HERE)):
        judged, made = (instructions(tree.absolute(), what) for what in ("judge", "make"))
        print(f"{tree.name}: {(judged - made) / _PAGES:,.0f} instructions a page")


if __name__ == "__main__":
    main()
