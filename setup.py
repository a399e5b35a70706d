"""Which packages are packed, for scrapyd and for pip; pyproject.toml has the rest."""

from pathlib import Path

from setuptools import find_packages, setup

setup(
    # With packages and modules that users put beside webcrawl.
    packages=find_packages(exclude=["build*", "crawls*", "tests*", "benchmarks*"]),
    py_modules=[path.stem for path in Path().glob("*.py") if path.stem != "setup"],
)
