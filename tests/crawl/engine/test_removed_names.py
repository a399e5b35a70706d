"""Crawls with a later Scrapy that lacks a name: they go on, or one sentence says what to do."""

import re
import subprocess
import sys

import pytest
from http_site import HttpSite, serving
from test_imports import ROOT, modules
from text_tables import each

# A crawl by Scrapy 2.20, whose own modules have what they need, and nobody else gets it.
CRAWL = """
import sys, scrapy, scrapy.cmdline, scrapy.core.engine, scrapy.core.scraper, scrapy.crawler
import scrapy.core.downloader.handlers, scrapy.core.downloader.middleware, scrapy.core.spidermw
import scrapy.core.scheduler, scrapy.pipelines, scrapy.utils.ssl, scrapy.utils._download_handlers
from scrapy.utils.misc import load_object
scrapy.__version__ = "2.20.0"
for name in sys.argv.pop(1).split(","):
    place, _, name = name.rpartition(".")
    delattr(sys.modules.get(place) or load_object(place), name)
scrapy.cmdline.execute()
"""
# Names that net has borrowed, or that Scrapy deprecates (its pull request 6931).
FORMER = (
    "scrapy.utils.ssl._STDLIB_VERSION_MAP",
    "scrapy.utils.ssl._get_tls_version_limits",
    "scrapy.utils.ssl._set_keylog_callback",
    "scrapy.utils._download_handlers.check_stop_download",
    "scrapy.core.downloader.Slot",
)
ENGINE, SCRAPER = "scrapy.core.engine.ExecutionEngine", "scrapy.core.scraper.Scraper"
USED = (
    f"{ENGINE}.needs_backout",
    f"{SCRAPER}.start_itemproc_async",
    f"{SCRAPER}.close_spider_async",
    "scrapy.pipelines.ItemPipelineManager.process_item_async",
    "scrapy.core.spidermw.SpiderMiddlewareManager.scrape_response_async",
)


@pytest.fixture
def seed():
    with serving(HttpSite(lambda request: (200, {}, b"<p>a page" * (request.path == "/")))) as site:
        yield f"{site.url}/"


def crawl_without(names, seed, jobdir):
    command = [sys.executable, "-c", CRAWL, names, "crawl", "web", "-a", f"seeds={seed}"]
    settings = {"JOBDIR": jobdir, "ALLOW_PRIVATE_ADDRESSES": 1}
    for name, value in settings.items():
        command += ["-s", f"{name}={value}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def borrowed():
    """Private names of Scrapy that our modules import."""
    private = re.compile(r"from scrapy\S* import (\([^)]*|.*)\b_")
    touching = (module for module in modules() if private.search(module.text))
    names = {name for module in touching for name in module.loads if name.startswith("scrapy.")}
    return {name for name in names if "._" in name}


@each("names", ",".join(FORMER), long=sorted(borrowed()))
def test_a_crawl_does_without_a_borrowed_name(names, seed, tmp_path):
    run = crawl_without(names, seed, tmp_path)
    assert run.returncode == 0, run.stderr
    assert "Scrapy is 2.20.0, not 2.19: the crawl takes Scrapy's own path" in run.stderr
    assert '"outcome":"http_200"' in (tmp_path / "logs" / "info.jsonl").read_text()


@each("name", f"{SCRAPER}._check_if_closing", long=USED)
def test_a_scrapy_without_a_name_that_is_needed_is_refused(name, seed, tmp_path):
    run = crawl_without(name, seed, tmp_path)
    assert run.returncode == 2, run.stderr
    assert name.rpartition(".")[2] in run.stderr
    assert "Scrapy 2.20.0 cannot be used" in run.stderr
    assert "DOWNLOADER" not in run.stderr
