"""Features of Scrapy and add-ons that users bring along, in this project, each in a real crawl."""

import base64
import csv
import io
import json
import re
import sys

import pytest
from crawling import RIGS, finish
from http_site import HttpSite, serving
from PIL import Image
from redis_server import RedisServer
from text_tables import each

NAMES = ["apple", "pear", "plum"]
ALLOWED = ["apple", "pear"]


def png():
    file = io.BytesIO()
    Image.new("RGB", (60, 60), "red").save(file, "PNG")
    return file.getvalue()


PAGES = {
    "/": ("text/html", "".join(f"<a href=/{name}>{name}</a>" for name in NAMES).encode()),
    "/scripted": (
        "text/html",
        b"<body><script>document.body.innerHTML = '<a href=/apple>apple</a>'</script>",
    ),
    "/robots.txt": ("text/plain", b"User-agent: *\nDisallow: /plum"),
    "/file.txt": ("text/plain", b"a file"),
    "/image.png": ("image/png", png()),
} | {f"/{name}": ("text/html", f"<title>{name}</title>".encode()) for name in NAMES}


PLAYWRIGHT = {
    "DOWNLOAD_HANDLERS": {"http": "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"},
    "PLAYWRIGHT_LAUNCH_OPTIONS": {
        "executable_path": "/usr/bin/chromium",
        "args": ["--no-sandbox"],  # root has none
    },
    "POLITENESS_MAX_DELAY": 0.1,  # to start the browser takes seconds
}


def answer(request):
    """The shop, and the API of Zyte that fetches its pages."""
    server = request.server
    if request.command == "GET":
        kind, body = PAGES[request.path]
        return 200, {"Content-Type": kind}, body
    wanted = json.loads(request.rfile.read(int(request.headers["Content-Length"])))["url"]
    path = wanted.removeprefix(server.url)
    server.asked[-1] = f"api {path}"
    kind, body = PAGES[path]
    fetched = {
        "url": wanted,
        "statusCode": 200,
        "httpResponseBody": base64.b64encode(body).decode(),
        "httpResponseHeaders": [{"name": "Content-Type", "value": kind}],
    }
    return 200, {"Content-Type": "application/json"}, json.dumps(fetched).encode()


@pytest.fixture(scope="module")
def served():
    with serving(HttpSite(answer)) as server:
        yield server


@pytest.fixture
def site(served):
    served.asked = []
    return served


@pytest.fixture(autouse=True)
def spider_path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)


def crawl(spider, site, jobdir, *arguments, **settings):
    """The log of a crawl with *settings*, which ends well."""
    options = {
        "SPIDER_MODULES": "addon_spider,webcrawl.spiders",
        "JOBDIR": jobdir,
        "POLITENESS_MIN_DELAY": 0.02,
        "ALLOW_PRIVATE_ADDRESSES": 1,
        **settings,
    }
    line = [sys.executable, "-m", "scrapy", "crawl", spider]
    if spider != "web":
        line += ["-a", f"start={site.url}/"]
    for name, value in options.items():
        line += ["-s", f"{name}={json.dumps(value) if isinstance(value, dict) else value}"]
    return finish([*line, *arguments])


def items_of(spider, site, directory, **options):
    """The names of the items of a crawl, and its log."""
    feed = directory / "items.jsonl"
    log = crawl(spider, site, directory / "job", "-O", str(feed), **options)
    return sorted(json.loads(line)["name"] for line in feed.read_text().splitlines()), log


def test_files_images_http_cache_csv_feed_and_spidermon(site, tmp_path):
    feed, pipelines = tmp_path / "items.csv", "scrapy.pipelines"
    options = {
        "ITEM_PIPELINES": {
            f"{pipelines}.files.FilesPipeline": 1,
            f"{pipelines}.images.ImagesPipeline": 2,
        },
        "FILES_STORE": tmp_path / "files",
        "IMAGES_STORE": tmp_path / "images",
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": tmp_path / "cache",
    }
    monitored = crawl(
        *("shop", site, tmp_path / "one"),
        **options,
        EXTENSIONS={"spidermon.contrib.scrapy.extensions.Spidermon": 500},
        SPIDERMON_ENABLED=True,
        SPIDERMON_SPIDER_CLOSE_MONITORS="addon_spider.Suite",
        SPIDERMON_MIN_ITEMS=len(ALLOWED),
        SPIDERMON_MAX_ERRORS=0,
        SPIDERMON_UNWANTED_HTTP_CODES="[404]",
        SPIDERMON_MAX_DOWNLOADER_EXCEPTIONS=0,
        SPIDERMON_MIN_SUCCESSFUL_REQUESTS=1 + len(ALLOWED),
        SPIDERMON_MAX_REQUESTS_ALLOWED=20,
        DOWNLOADER_STATS=False,  # as the web spider has it
    )
    judged = dict(re.findall(r"\[Spidermon\] (.+) [Mm]onitor/.*\.\.\. (\w+)", monitored))
    assert judged == {
        **dict.fromkeys(["Extracted Items", "Finish Reason", "Unwanted HTTP codes"], "OK"),
        **dict.fromkeys(["Successful Requests", "Total Requests"], "OK"),
        # Scrapy counts them when there are some.
        **dict.fromkeys(["Error Count", "Downloader Exceptions"], "SKIPPED"),
    }
    assert sorted(site.asked) == sorted(
        ["/", "/robots.txt", "/file.txt", "/image.png", *(f"/{name}" for name in ALLOWED)]
    )
    assert [path.read_bytes() for path in (tmp_path / "files").rglob("*.txt")] == [b"a file"]
    assert len(list((tmp_path / "images").rglob("*.jpg"))) == 1
    site.asked.clear()
    crawl("shop", site, tmp_path / "two", "-O", str(feed), **options)
    assert site.asked == []
    rows = list(csv.DictReader(feed.read_text().splitlines()))
    assert sorted(row["name"] for row in rows) == ALLOWED
    assert all("full/" in row["files"] and "full/" in row["images"] for row in rows)


def test_the_telnet_console_shows_the_engine(site, tmp_path):
    options = {"TELNETCONSOLE_ENABLED": True, "TELNETCONSOLE_PORT": 0}
    (name,), _ = items_of("telnet", site, tmp_path, **options)
    assert re.search(r"engine\.spider\.name +: telnet", name)


def test_zyte_api_fetches_all_when_its_addon_is_enabled(site, tmp_path):
    names, log = items_of(
        *("shop", site, tmp_path),
        ADDONS={"scrapy_zyte_api.Addon": 500},
        ZYTE_API_KEY="a secret that is long",
        ZYTE_API_URL=f"{site.url}/v1/",
    )
    assert names == ALLOWED
    assert set(site.asked) == {f"api /{name}" for name in ["robots.txt", "", *ALLOWED]}
    assert "that is long" not in log


@each("kind", "scrapy-redis", "Scrapy's own")
def test_another_scheduler_uses_scrapy_s_downloader_and_robots_txt(kind, site, tmp_path):
    server = RedisServer(tmp_path / "redis")
    options = {
        "scrapy-redis": {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "REDIS_URL": server.url,
        },
        "Scrapy's own": {
            "SCHEDULER": "scrapy.core.scheduler.Scheduler",
            "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
            "AUTOTHROTTLE_ENABLED": True,
            "AUTOTHROTTLE_DEBUG": True,
            "AUTOTHROTTLE_START_DELAY": 0.05,
        },
    }[kind]
    with server:
        names, log = items_of("shop", site, tmp_path, **options)
    assert names == ALLOWED
    assert "/plum" not in site.asked
    assert ("slot: 127.0.0.1" in log) == ("AUTOTHROTTLE_ENABLED" in options)


@pytest.mark.long
def test_the_web_spider_follows_the_links_of_rendered_pages(site, tmp_path):
    (tmp_path / "seeds.txt").write_text(f"{site.url}/scripted\n")
    feed = tmp_path / "pages.jsonl"
    options = {**PLAYWRIGHT, "DOWNLOADER_MIDDLEWARES": {"addon_spider.Rendered": 1}}
    line = ["-a", f"seeds={tmp_path / 'seeds.txt'}", "-O", str(feed)]
    crawl("web", site, tmp_path / "job", *line, **options)
    pages = map(json.loads, feed.read_text().splitlines())
    assert sorted(page["url"] for page in pages) == [
        f"{site.url}/{n}" for n in ("apple", "scripted")
    ]


@pytest.mark.long
def test_playwright_renders_pages_in_debian_s_chromium(site, tmp_path):
    names, _ = items_of("browser", site, tmp_path, **PLAYWRIGHT)
    assert names == ["apple"]
