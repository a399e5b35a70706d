"""What settings need to have an effect, and sentences about those that lack it.

Without the part of the crawl that it needs, a setting would be ignored silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy.settings import BaseSettings

from webcrawl import settings as own_settings
from webcrawl.configuration.scrapys import SCRAPYS
from webcrawl.configuration.values import component, dictionary
from webcrawl.settings import web_spider

_MODULES = "ITEM_PIPELINES"
_WARC = f"{_MODULES}=webcrawl.pipelines.warc.WarcPipeline"
_TEXT = f"{_MODULES}=webcrawl.pipelines.text.TextDataset"
_SEARCH = f"{_MODULES}=webcrawl.pipelines.search_index.SearchIndex"
_SCORE = f"{_MODULES}=webcrawl.pipelines.page_score.PageScore"
_DISK_SEEN = "SEEN_ELIMINATOR=webcrawl.seen.eliminator.DiskEliminator"
#: Spiders other than those derived from ``WebSpider`` find their links themselves.
WEB_SPIDER = "the spider web"
# Needs, and the settings, or settings with a value, that have an effect only with them. A need is
# a setting that is neither empty nor 0, or one with a value, which may be a class, or a class in
# ITEM_PIPELINES. A class may also be derived from it. With " or ", one of several needs is enough.
NEEDS = {
    WEB_SPIDER: (
        "LINK_KINDS LINK_EXTRACTORS NOFOLLOW_OBEY PAGE_MAX_LINKS SUMMARY_ENABLED WEBSUB_PORT"
    ),
    "JOBDIR": (
        "CHECKPOINT_INTERVAL_SECS CHECKPOINTS_KEPT CHECKPOINTS_KEPT_INTERVAL_SECS KEEP_DAYS"
        " INFO_LOG_MAX_FILE_BYTES STATS_FILE_INTERVAL_SECS CONTROL_ENABLED MONITOR_PORT"
        " WEBSUB_PORT"
    ),
    "CHECKPOINTS_KEPT": "CHECKPOINTS_KEPT_INTERVAL_SECS",
    "OUTAGE_HOSTS": "OUTAGE_END_SECS",
    "CLOSESPIDER_FEW_HOSTS": "CLOSESPIDER_FEW_HOSTS_SECS",
    "METRICS_PORT": "METRICS_HOST",
    "MONITOR_PORT": "MONITOR_HOST MONITOR_TOKEN_FILE",
    "WEBSUB_PORT": "WEBSUB_URL",
    "WEBSUB_URL": "WEBSUB_PORT",
    "ROBOTSTXT_OBEY": "POLITENESS_MAX_CRAWL_DELAY POLITENESS_LONG_CRAWL_DELAY ROBOTS_EXPIRE_SECS",
    "CRAWL_PURPOSE": "RIGHTS_POLICY",
    "CRAWLER_KEY_FILE": "CRAWLER_SIGNATURE_AGENT CRAWLER_SIGNATURE_FORM",
    _DISK_SEEN: "SEEN_CACHE SEEN_CACHE_SIZE SEEN_BUFFER_SIZE",
    "SEEN_ELIMINATOR=webcrawl.seen.bloom.BloomEliminator": (
        "SEEN_BLOOM_CAPACITY SEEN_BLOOM_ERROR_RATE"
    ),
    "RENDER": "RENDER_ENGINE RENDER_WAIT_SECS RENDER_SHARE RENDER_PROCESSES",
    _MODULES: "MODULE_CONTENT_TYPES FLAGGED_PAGES",
    _WARC: (
        "WARC_DIR WARC_PREFIX WARC_MAX_FILE_BYTES WARC_REVISIT_MAX_BYTES WARC_DEDUP_FROM"
        " WARC_TEXT WARC_OPERATOR WARC_DESCRIPTION"
    ),
    _TEXT: "TEXT_DIR TEXT_FORMAT TEXT_MARKDOWN TEXT_REPLACE_ADDRESSES",
    f"{_TEXT} or {_SEARCH} or {_SCORE} or WARC_TEXT": "TEXT_MAX_CHARS",
    f"{_SCORE} or {_TEXT}": "SCORE_MODEL SCORE_LABEL",
    _SCORE: "FRONTIER_PRIORITIZER=webcrawl.frontier.prioritizer.ScorePrioritizer",
    _SEARCH: "SEARCH_DIR",
    f"{_MODULES}=webcrawl.pipelines.larm.LarmPipeline": "LARM_DIR",
    "OUTPUT_STORE": "OUTPUT_STORE_OPTIONS",
    "TRAP_MIN_DUPLICATES or URL_SPACE_BASE_URLS": "TRAP_EXCEPTIONS_FILE",
    "URL_SCOPE=open": "REPUTATION_BASE_PAGES REPUTATION_ROUNDS",
    "REPUTATION_BASE_PAGES": "REPUTATION_ROUNDS",
    "NET_MIN_BYTES_PER_SEC": "NET_MIN_RATE_SECS",
    "HIVE": "HIVE_SHARDS HIVE_LEASE_SECS HIVE_CACHE HIVE_STORE",
    f"HIVE or LIVE_SEEDS or {_MODULES}=webcrawl.pipelines.redis_pages.RedisPages": (
        "REDIS_URL REDIS_PARAMS"
    ),
    "HIVE or LIVE_SEEDS": (
        "REDIS_START_URLS_KEY REDIS_START_URLS_AS_SET REDIS_START_URLS_AS_ZSET"
        " REDIS_START_URLS_BATCH_SIZE"
    ),
    "REVISIT": "REVISIT_POLICY REVISIT_FIRST_SECS REVISIT_MIN_SECS REVISIT_MAX_SECS",
}
# Values of settings that switch something off.
_OFF = frozenset({"", "0", "0.0", "False", "false", "None", "{}", "[]"})


def without_needs(settings: BaseSettings, *, web: bool) -> Iterator[tuple[str, str]]:
    """Yield settings that were set and lack what they need: a name, and the need in words.

    *web* tells whether the crawl uses the web spider.
    """
    for need, names in NEEDS.items():
        for name in names.split():
            if _is_changed(settings, name) and not _is_met(settings, need, web=web):
                yield name.partition("=")[0], _in_words(need)
    for path in dictionary(settings, "MODULE_CONTENT_TYPES"):
        if not _has_value(settings, _MODULES, path):
            yield f"MODULE_CONTENT_TYPES of {path}", f"the module in {_MODULES}"


def is_set(settings: BaseSettings, name: str) -> bool:
    """Return whether the setting *name* was set, to a value that is not a default."""
    if not settings.getpriority(name):
        return False  # reading a deprecated setting would warn
    of_all = (SCRAPYS, web_spider, vars(own_settings))
    defaults = [defaults[name] for defaults in of_all if name in defaults]
    return not any(_are_equal(settings[name], default) for default in defaults)


def _are_equal(value: Any, default: Any) -> bool:
    """Return whether *value* is *default*, or the text of it as on the command line."""
    is_off = _is_off(value) and _is_off(default)
    return bool(value == default) or str(value) == str(default) or is_off


def _is_off(value: Any) -> bool:
    return not value or str(value) in _OFF


def _is_changed(settings: BaseSettings, name: str) -> bool:
    """Return whether *name*, a setting or a setting with a value, was set."""
    name, _, value = name.partition("=")
    return is_set(settings, name) and (not value or _has_value(settings, name, value))


def _is_met(settings: BaseSettings, need: str, *, web: bool) -> bool:
    """Return whether the crawl has one of the parts in *need*."""
    if need == WEB_SPIDER:
        return web
    # Each is a name and a value, or a name alone.
    parts = (part.partition("=") for part in need.split(" or "))
    return any(_is_on(settings, name, value) for name, _, value in parts)


def _is_on(settings: BaseSettings, name: str, value: str) -> bool:
    """Return whether the setting *name* has *value* or, if that is empty, any but "off"."""
    return not _is_off(settings.get(name)) and (not value or _has_value(settings, name, value))


def _has_value(settings: BaseSettings, name: str, value: str) -> bool:
    """Return whether the setting *name* is *value* or, if that is a class, one derived from it."""
    found: list[Any] = [settings[name]]
    if name == _MODULES:
        found = [key for key, place in dictionary(settings, name).items() if place is not None]
    if value in found or "." not in value:
        return value in found
    base = component(name, value)
    return any(issubclass(component(name, each), base) for each in found)


def _in_words(need: str) -> str:
    """Return *need* as a sentence has it."""
    parts = [part.partition("=") for part in need.split(" or ")]
    return " or ".join(
        f"{value} in {name}" if name == _MODULES and value else f"{name}{sign}{value}"
        for name, sign, value in parts
    )
