"""Which packages are packed, for scrapyd and for pip; pyproject.toml has the rest."""

import sys
from pathlib import Path

from setuptools import find_packages, setup

if {"bdist_egg", "bdist_uberegg"} & {*sys.argv}:
    # The user's project, for scrapyd: with packages and modules that are beside webcrawl.
    packages = find_packages(exclude=["build*", "crawls*", "tests*", "benchmarks*"])
    modules = [path.stem for path in Path().glob("*.py") if path.stem != "setup"]
    build_directory = "build"
else:
    packages = find_packages(include=["webcrawl", "webcrawl.*"])
    modules = []
    # Not where an egg was built: everything in that directory would be packed.
    build_directory = "build/package"
setup(
    packages=packages,
    py_modules=modules,
    options={"build": {"build_base": build_directory}},
)
