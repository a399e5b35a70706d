"""Packs the project for scrapyd: ``scrapyd-deploy`` calls this. Nothing else installs it."""

from pathlib import Path

from setuptools import find_packages, setup

from webcrawl import __version__

setup(
    name="webcrawl",
    version=__version__,
    python_requires=">=3.11",
    # With packages and modules that users put beside webcrawl.
    packages=find_packages(exclude=["build*", "crawls*", "tests*", "benchmarks*"]),
    py_modules=[path.stem for path in Path().glob("*.py") if path.stem != "setup"],
    entry_points={"scrapy": ["settings = webcrawl.settings"]},
)
