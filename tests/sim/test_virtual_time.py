"""Virtual time: what a simulated process has of it, and that it is the same each time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from crawling import ROOT, USER_AGENT, access_log, impolite, pages_asked_for

from webcrawl.simweb import allowed_urls, preset

_CRAWL = ROOT / "tests" / "rigs" / "simulated_crawl.py"
