"""The job of a release: killed when it has asked for half of the pages of `WORLD`, and has a
checkpoint with some of them, from which it goes on on other machines.

Run as a script, it makes one by this checkout, or by an older one in DIRECTORY with a .venv of its
own, and packs it into tests/data/jobs-VERSION.tar.xz, for tests/crawls/test_older_jobs.py:

    PYTHONPATH=. .venv/bin/python tests/rigs/crawls/release_job.py VERSION [DIRECTORY]
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WORLD = {
    "http_port": 18138,
    "https_port": 18139,
    "hosts": 16,
    "mean_pages": 12.0,
    "max_pages": 40,
    "seed_share": 0.5,
    "seed": 38,
}
MIN_DELAY = 0.2
SETTINGS = {
    "POLITENESS_MIN_DELAY": MIN_DELAY,
    "POLITENESS_DELAY_FACTOR": 0,
    "POLITENESS_MAX_DELAY": 1.0,
    "ITEM_PIPELINES": "{}",
}
# URLs that are finished in the last checkpoint: more than the test wants to be asked for once.
_MIN_FINISHED = 60


def finished_in(job):
    """How many URLs the last checkpoint of *job* counts as finished."""
    manifest = job / (job / "CURRENT").read_text().strip()
    return json.loads(manifest.read_text())["facts"]["finished"]


def main(version, checkout=ROOT):
    sys.path[:0] = map(str, ROOT.glob("tests/rigs/*/"))
    from crawling import (  # not before their path is known
        USER_AGENT,
        access_log,
        pages_asked_for,
        simulated,
        wait_until,
    )
    from web_truth import allowed_urls

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with simulated(directory, **WORLD) as web:
            half = len(allowed_urls(web.world, USER_AGENT)) // 2
            command = web.command(**SETTINGS, CHECKPOINT_INTERVAL_SECS=2)
            python = Path(checkout, ".venv/bin/python").absolute()
            crawl = subprocess.Popen([python, *command[1:]], cwd=checkout)
            wait_until(lambda: len({*pages_asked_for(access_log(web.log))}) >= half)
            wait_until(lambda: finished_in(web.job) >= _MIN_FINISHED)
            crawl.kill()
            crawl.wait()
        path = ROOT / f"tests/data/jobs-{version}.tar.xz"
        with tarfile.open(path, "w:xz", preset=9) as archive:
            archive.add(directory, "web")
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
