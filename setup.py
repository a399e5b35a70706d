"""Packs the project for scrapyd: ``scrapyd-deploy`` calls this. Nothing else installs it."""

from setuptools import find_packages, setup

from webcrawl import __version__

setup(
    name="webcrawl",
    version=__version__,
    packages=find_packages(include=["webcrawl", "webcrawl.*"]),
    entry_points={"scrapy": ["settings = webcrawl.settings"]},
)
