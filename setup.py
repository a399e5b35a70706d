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
    # With the script that fetches a list of seeds, but not the list, which has 20 MB.
    packages = [*find_packages(include=["webcrawl", "webcrawl.*"]), "webcrawl_seeds"]
    packages.append("webcrawl_docs")  # guides that the monitor shows
    modules = []
    # Not where an egg was built: everything in that directory would be packed.
    build_directory = "build/package"
setup(
    packages=packages,
    package_dir={"webcrawl_seeds": "seeds", "webcrawl_docs": "docs/howto"},
    py_modules=modules,
    options={"build": {"build_base": build_directory}},
)
