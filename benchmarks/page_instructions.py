"""Instructions that a page takes: ``PYTHONPATH=. python benchmarks/page_instructions.py
[--against DIR]``.

Crawls the web ``broad`` (webs.py) with a tenth of the bench's pages and hosts, once to the 200th
and once to the 2,200th page, in virtual time, so that chance and other work on the machine change
nothing, and counts with callgrind (``valgrind`` must be there). What 2,000 pages more take is the
figure, with what the simulated servers do for them, which are in the same process. Everything is
on but the pauses. Ten minutes. ``--against`` counts those of another checkout, too. ``--signed``
counts those of https pages, without and with a key (CRAWLER_KEY_FILE); ``--pages`` counts fewer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_HOSTS = 700
_BEFORE, _PAGES = 200, 2_000
_HERE = Path(__file__).resolve().parents[1]


def crawl(pages: int, https: str) -> None:
    """Crawl that many pages in this process, which is a simulated one from now on. Prints how many
    there were. *https* is "" for http, "plain" or "signed" for https."""
    from crawl_once import OURS
    from scrapy.cmdline import execute
    from scrapy.utils.project import get_project_settings

    from webcrawl.sim.process import SETTINGS, simulate
    from webcrawl.sim.web import SimulatedWeb
    from webcrawl.simweb import preset, write_seeds

    scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=os.environ["SCRATCH"]))
    seeds = scratch / "seeds.txt"
    world = preset(
        "broad",
        hosts=_HOSTS,
        network=44,
        http_port=80,
        https_port=443,
        https_share=float(https != ""),
    )
    write_seeds(world, seeds)
    simulate(1, SimulatedWeb(world, log=None))
    settings = get_project_settings()
    own = {"JOBDIR": str(scratch / "job"), "CLOSESPIDER_ITEMCOUNT": pages}
    if https == "signed":
        from webcrawl.identity.keys import write_new_key  # older checkouts have none

        write_new_key(scratch / "key.pem")
        own["CRAWLER_KEY_FILE"] = str(scratch / "key.pem")
        own["CRAWLER_SIGNATURE_AGENT"] = "https://bot.example.org"
    for name, value in {**OURS, **SETTINGS, **own}.items():
        settings.set(name, value, priority="cmdline")
    try:
        execute(["scrapy", "crawl", "web", "-a", f"seeds={seeds}"], settings=settings)
    finally:
        print(json.loads((scratch / "job/stats.json").read_bytes())["item_scraped_count"])


def instructions(tree: Path, pages: int, https: str) -> tuple[int, int]:
    """Those of a crawl of *pages* with the code of *tree*, and how many pages it had."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command += [sys.executable, __file__, "--crawl", str(pages), "--https", https]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        environment = {
            **os.environ,
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": str(tree),
            "SCRATCH": scratch,
            # Its threads would be started, and wait.
            "OPENBLAS_NUM_THREADS": "1",
        }
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment, cwd=tree
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1]), int(done.stdout)


def per_page(tree: Path, pages: int, https: str) -> float:
    """Instructions a page with the code of *tree*."""
    few, few_pages = instructions(tree, _BEFORE, https)
    many, many_pages = instructions(tree, _BEFORE + pages, https)
    return (many - few) / (many_pages - few_pages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--signed", action="store_true", help="https, without and with a key")
    parser.add_argument("--pages", type=int, default=_PAGES)
    parser.add_argument("--https", default="", help=argparse.SUPPRESS)
    parser.add_argument("--crawl", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.crawl:
        crawl(options.crawl, options.https)
        return
    for tree in filter(None, (options.against, _HERE)):
        for https in ("plain", "signed") if options.signed else ("",):
            millions = per_page(tree.absolute(), options.pages, https) / 1e6
            print(f"{tree.name} {https}: {millions:.3f} million instructions a page", flush=True)


if __name__ == "__main__":
    main()
