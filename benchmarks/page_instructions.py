"""Instructions that a page takes: ``PYTHONPATH=. python benchmarks/page_instructions.py
[--parts] [--against DIR]``.

Crawls the web ``broad`` (webs.py) with a tenth of the bench's hosts to the 2,200th page, in virtual
time, so that chance and other work on the machine change nothing. callgrind counts from the 200th
page on, with what the simulated servers do, which are in the same process. Everything is on but
the pauses. Five minutes. Needs ``valgrind`` and ``cc``. ``--web today`` crawls today's pages, also
without TLS.

``--parts`` prints what each part of the crawler takes (parts.py). To tell parts apart makes each
call of a Python function some 600 instructions dearer, so that a page takes a twentieth more:
compare these figures only with each other. ``--against`` first counts another checkout, with the
Python of its own ``.venv`` if it has one. ``--signed`` counts https pages, without and with a key
(CRAWLER_KEY_FILE); ``--pages`` counts fewer.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import parts

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_HOSTS = {"broad": 700, "today": 100}
_BEFORE, _PAGES = 200, 2_000
_HERE = Path(__file__).resolve().parents[1]


def crawl(web: str, last: int, https: str, *, by_part: bool) -> None:
    """Crawl *web* to the page with the number *last* in this process, which is a simulated one from
    now on, and let callgrind count from the page with the number ``_BEFORE`` on. *https* is "" for
    http, "plain" or "signed" for https."""
    from crawl_once import OURS
    from scrapy import signals
    from scrapy.cmdline import execute
    from scrapy.utils.project import get_project_settings
    from webs import WEBS

    from webcrawl.sim.process import SETTINGS, simulate
    from webcrawl.sim.web import SimulatedWeb
    from webcrawl.simweb import preset, write_seeds

    scratch = Path(os.environ["SCRATCH"])
    seeds = scratch / "seeds.txt"
    world = preset(
        WEBS[web].preset,
        hosts=_HOSTS[web],
        network=44,
        http_port=80,
        https_port=443,
        https_share=float(https != ""),
    )
    write_seeds(world, seeds)
    simulate(1, SimulatedWeb(world, log=None))
    settings = get_project_settings()
    own = {"JOBDIR": str(scratch / "job"), "CLOSESPIDER_ITEMCOUNT": last}
    if https == "signed":
        from webcrawl.identity.keys import write_new_key  # older checkouts have none

        write_new_key(scratch / "key.pem")
        own["CRAWLER_KEY_FILE"] = str(scratch / "key.pem")
        own["CRAWLER_SIGNATURE_AGENT"] = "https://bot.example.org"
    for name, value in {**OURS, **SETTINGS, **own}.items():
        settings.set(name, value, priority="cmdline")

    counter = parts.compile_counter(scratch)
    if by_part:
        parts.tell_parts_apart(counter)
    pages = itertools.count(1)

    class PageCounter:
        """Extension that counts pages, and switches callgrind on and off."""

        @classmethod
        def from_crawler(cls, crawler: Crawler) -> Self:
            # A handler for all senders would make each signal take longer.
            crawler.signals.connect(count_page, signal=signals.item_scraped)
            return cls()

    def count_page() -> None:
        page = next(pages)
        if page == _BEFORE:
            counter.start_counting()
        elif page == last:
            counter.stop_counting()

    extensions = {**settings.getdict("EXTENSIONS"), PageCounter: 2000}
    settings.set("EXTENSIONS", extensions, priority="cmdline")
    execute(["scrapy", "crawl", "web", "-a", f"seeds={seeds}"], settings=settings)


def per_page(tree: Path, web: str, pages: int, https: str, *, by_part: bool) -> dict[str, float]:
    """Instructions a page of *web* with the code of *tree*, by part."""
    own = tree / ".venv/bin/python"
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        profile = Path(scratch) / "profile"
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-line=no"]
        command += [f"--callgrind-out-file={profile}"]
        command += [str(own) if own.exists() else sys.executable, __file__]
        command += ["--crawl", str(_BEFORE + pages), "--https", https, *["--parts"] * by_part]
        command += ["--web", web]
        environment = {
            **os.environ,
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": str(tree),
            "SCRATCH": scratch,
            # Its threads would be started, and wait.
            "OPENBLAS_NUM_THREADS": "1",
        }
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, cwd=tree
        )
        assert done.returncode == 0, done.stderr
        counts = parts.instructions_by_part(profile.read_text(encoding="utf-8"))
        return {part: instructions / pages for part, instructions in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--web", choices=_HOSTS, default="broad")
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--signed", action="store_true", help="https, without and with a key")
    parser.add_argument("--parts", action="store_true", help="instructions of each part")
    parser.add_argument("--pages", type=int, default=_PAGES)
    parser.add_argument("--https", default="", help=argparse.SUPPRESS)
    parser.add_argument("--crawl", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.crawl:
        crawl(options.web, options.crawl, options.https, by_part=options.parts)
        return
    for tree in filter(None, (options.against, _HERE)):
        for https in ("plain", "signed") if options.signed else ("",):
            counts = per_page(
                tree.absolute(), options.web, options.pages, https, by_part=options.parts
            )
            millions = sum(counts.values()) / 1e6
            print(f"{tree.name} {https}: {millions:.3f} million instructions a page", flush=True)
            for part in sorted(counts) if options.parts else ():
                print(f"{counts[part]:12,.0f} {part}", flush=True)


if __name__ == "__main__":
    main()
