"""Old name of benchmarks/cachelab.py; it goes with webcrawl 0.5.

Examples:
  scrapy cachelab crawls/web/trace --csv hits.csv

Exit codes:
  those of the script: 0 the miss rates were printed, 1 or 2 unusable input
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from webcrawl.commands import AddOption, Options, Settings, make_command

_SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/cachelab.py"
_OPTIONS = ("policies", "sizes", "csv")


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy cachelab``."""
    for name in (*_OPTIONS, "figures"):
        add(f"--{name}")


def _run(args: list[str], opts: Options, _: Settings) -> int:
    """Run the script and return its exit code."""
    sys.stderr.write(
        "scrapy cachelab is now python benchmarks/cachelab.py; to draw figures, plot its --csv\n"
    )
    options = [f"--{name}={value}" for name in _OPTIONS if (value := getattr(opts, name))]
    return subprocess.run([sys.executable, _SCRIPT, *options, *args], check=False).returncode  # noqa: S603  # our own


Command = make_command(_run, _options, syntax="[options] TRACE")
