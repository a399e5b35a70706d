"""What RENDER=auto adds to a crawl of which a tenth needs a browser, in virtual time.

Usage: python benchmarks/bench_render_crawl.py [NAME=VALUE...]

The simulated web is that of ``scrapy simweb --profile partly-rendered --hosts 100 --world
max_pages=12``. It is crawled without and with RENDER=auto, with the default pauses and with those
of POLITENESS_PROFILE=nielsen. NAME=VALUE are further settings, such as RENDER_ENGINE. Pauses and
latencies take no real time, and Chromium takes no virtual time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scrapy.cmdline import execute
from scrapy.utils.project import get_project_settings

from webcrawl.frontier import SUBRESOURCE
from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.sim.loop import BEGAN
from webcrawl.sim.process import SETTINGS, simulate
from webcrawl.sim.web import SimulatedWeb
from webcrawl.simweb import preset

_SEED = 1


def _crawl(directory: Path, settings: list[str]) -> None:
    """Turn this process into a crawl of the simulated web, in *directory*."""
    world = preset(
        "partly-rendered", hosts=100, max_pages=12, network=44, http_port=80, https_port=443
    )
    seeds = directory / "seeds.txt"
    seeds.write_text("\n".join(world.seeds()) + "\n")
    log = (directory / "access.log").open("wb", buffering=0)
    simulate(_SEED, SimulatedWeb(world, log=log, roots=set()))
    project = get_project_settings()
    for name, value in SETTINGS.items():
        project.set(name, value, priority=50)
    options = [f"JOBDIR={directory}/job", "LOG_LEVEL=WARNING", *settings]
    words = [word for option in options for word in ("-s", option)]
    execute(["scrapy", "crawl", "web", "-a", f"seeds={seeds}", *words], settings=project)


def _figures(directory: Path) -> str:
    """Return what the crawl in *directory* took."""
    job = directory / "job"
    stats = json.loads((job / "stats.json").read_text())
    lines = [*outcome_lines(job)]
    rendered = [line for line in lines if line.passes]
    parts = sum(line.kind == SUBRESOURCE for line in lines)
    text = (
        f"{stats['contacts']:,} requests, {parts} of them for scripts and data; "
        f"{max(line.at for line in lines) - BEGAN:.0f} s"
    )
    if rendered:
        times = [line.at - line.sent for line in rendered]
        passes = sum(line.passes for line in rendered) / len(rendered)
        text += (
            f"; {len(rendered)} pages rendered in {passes:.2f} passes each; from request to end "
            f"{statistics.median(times):.0f} s (median), {max(times):.0f} s (most)"
        )
    return text


def main(*settings: str) -> None:
    """Crawl four times, each in a process of its own."""
    for profile in ("mercator", "nielsen"):
        for render in ("0", "auto"):
            with tempfile.TemporaryDirectory() as directory:
                given = [f"POLITENESS_PROFILE={profile}", f"RENDER={render}", *settings]
                command = [sys.executable, __file__, "--crawl", directory, *given]
                environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
                subprocess.run(command, env=environment, check=True)
                print(f"{profile}, RENDER={render}: {_figures(Path(directory))}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--crawl"]:
        _crawl(Path(sys.argv[2]), sys.argv[3:])
    else:
        main(*sys.argv[1:])
