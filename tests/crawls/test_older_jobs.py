"""Jobs of each older release, and of 65b8699f (2026-11-28), resumed by this version.

Those of 0.1 (1404b57) are killed jobs of the web spider and of tests/rigs/loaded/link_spider.py,
whose Requests are pickled, and a stopped hive of four shards. The others are killed jobs of the web
spider, as tests/rigs/crawls/release_job.py makes them. Each had asked for half of the pages.
"""

import tarfile

import pytest
from crawling import (
    ROOT,
    USER_AGENT,
    access_log,
    damage_in,
    finish,
    impolite,
    pages_asked_for,
    simulated,
)
from hive_crawl import HiveCrawl
from release_job import MIN_DELAY, SETTINGS, WORLD
from scrapy.linkextractors import IGNORED_EXTENSIONS
from scrapy.utils.misc import load_object
from text_tables import each
from web_truth import allowed_urls

import webcrawl

DATA = ROOT / "tests" / "data"
VERSIONS = ("1404b57", "0.2", "0.3", "0.4", "0.5", "65b8699f")
# Dotted paths that its settings, documents and jobs name.
PATHS = """
webcrawl.items.Page webcrawl.signals.checkpoint
webcrawl.scheduler.MercatorScheduler webcrawl.dupefilter.MercatorDupeFilter
webcrawl.crawl.downloader.MercatorDownloader webcrawl.crawl._engine.PlainStats
webcrawl.crawl._engine.PlainMetaRefreshMiddleware
webcrawl.crawl._engine.PlainRedirectMiddleware
webcrawl.extensions.checkpoints.Checkpoints webcrawl.extensions.critical_errors.CriticalErrors
webcrawl.extensions.disk_guard.DiskGuard webcrawl.extensions.identification.Identification
webcrawl.extensions.log_formatter.QuietLogFormatter
webcrawl.extensions.output_store.OutputStore webcrawl.extensions.process_limits.ProcessLimits
webcrawl.extensions.remote_control.RemoteControl
webcrawl.extensions.repeated_lines.RepeatedLines
webcrawl.extensions.scrapy_settings.ScrapySettings webcrawl.extensions.statistics.Statistics
webcrawl.extensions.stats_file.StatsFile webcrawl.extensions.summary.Summary
webcrawl.extensions.url_trace.UrlTraceRecorder
webcrawl.frontier.LargestDelay webcrawl.frontier.prioritizer.DepthRankPrioritizer
webcrawl.frontier.prioritizer.RankPrioritizer webcrawl.frontier.selector.GeometricSelector
webcrawl.net.ftp.FtpDownloadHandler webcrawl.net.gopher.GopherDownloadHandler
webcrawl.net.http.HttpDownloadHandler webcrawl.net.http.decoding.ContentDecodingMiddleware
webcrawl.pipelines.larm.LarmPipeline webcrawl.pipelines.link_feed.LinksExporter
webcrawl.pipelines.link_graph.LinkGraph webcrawl.pipelines.redis_pages.RedisPages
webcrawl.pipelines.search_index.SearchIndex webcrawl.pipelines.statistics.ContentTypes
webcrawl.pipelines.statistics.ImageStatistics webcrawl.pipelines.statistics.TagCounter
webcrawl.pipelines.text.TextDataset webcrawl.pipelines.warc.WarcPipeline
webcrawl.seen.bloom.BloomEliminator webcrawl.seen.eliminator.DiskEliminator
webcrawl.urls.extraction.css.iter_css_links webcrawl.urls.extraction.feeds.iter_feed
webcrawl.urls.extraction.pdf.iter_pdf webcrawl.urls.extraction.sitemap_reader.iter_sitemap
"""


@pytest.fixture
def old(tmp_path):
    """The directory of the old jobs, each version's in one of its own."""
    for version in VERSIONS:
        with tarfile.open(DATA / f"jobs-{version}.tar.xz") as archive:
            # The tarfile of Debian's 3.11.2 has no filters.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(tmp_path / version)
    for log in tmp_path.glob("*/*/access.log"):
        log.rename(log.with_name("before.log"))
    return tmp_path


def judge(web, directory, *, ignored=()):
    """All pages were asked for, before and now, but for those with *ignored* endings; hosts were
    left in peace, pages asked for before the last checkpoint came once."""
    before = pages_asked_for(access_log(directory / "before.log"))
    hits = web.hits()
    again = pages_asked_for(hits)
    missing = allowed_urls(web.world, USER_AGENT) - {*before, *again}
    assert [url for url in missing if url.rpartition(".")[2] not in ignored] == []
    assert impolite(hits, min_delay=MIN_DELAY) == []
    # On another boot of the machine the jobs go on from their last checkpoint.
    assert len(set(before) - set(again)) >= 30


@each(
    "name",
    "1404b57/links",
    long=("0.3/web", "1404b57/web", "0.2/web", "0.4/web", "0.5/web", "65b8699f/web"),
)
def test_a_killed_job_goes_on(old, name):
    with simulated(old / name, **WORLD) as web:
        command = web.command(**SETTINGS)
        if "links" in name:
            at = command.index("crawl")
            spider = str(ROOT / "tests/rigs/loaded/link_spider.py")
            command[at : at + 2] = ["runspider", spider]
        said = finish(command)
        assert "Resuming the crawl" in said
        judge(web, old / name, ignored=IGNORED_EXTENSIONS if "links" in name else ())
    assert damage_in(web.job) == []


@pytest.mark.long
def test_a_hive_goes_on_from_its_store(old):
    directory = old / "1404b57" / "hive"
    with simulated(directory, **WORLD) as web:
        rest = SETTINGS | {"HIVE_SHARDS": 4}
        with HiveCrawl(web, directory, **rest) as hive:
            hive.join(2)
            hive.end()
        judge(web, directory)


def test_there_is_a_job_of_each_older_release():
    lines = (ROOT / "docs/releases.txt").read_text().splitlines()
    releases = dict(line.split() for line in lines if not line.startswith("#"))
    releases.pop(webcrawl.__version__, None)
    found = [{version, commit[:7]} & {*VERSIONS} for version, commit in releases.items()]
    assert all(found), releases


def test_paths_of_old_settings_still_lead_somewhere():
    assert [path for path in PATHS.split() if load_object(path) is None] == []
