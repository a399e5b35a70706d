"""Which settings have an effect only with another part of the crawl, and what is said of others."""

from contextlib import nullcontext

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings, default_settings
from text_tables import each

import webcrawl.settings as own_settings
from webcrawl.configuration.needs import NEEDS, WEB_SPIDER, without_needs
from webcrawl.errors import FatalError
from webcrawl.extensions.scrapy_settings import without_effect
from webcrawl.spiders.web import WebSpider

# Settings that have an effect in every crawl.
ALWAYS = set(
    """
ALIASES BANDWIDTH_MAX BLOCKLISTS BREAKER_MAX_ERRORS BUDGET_DOMAIN_BYTES BUDGET_DOMAIN_PAGES
BUDGET_HOST_BYTES BUDGET_HOST_PAGES ALLOW_PRIVATE_ADDRESSES CLOSESPIDER_FEW_HOSTS CONTACTS_MAX
CRAWLER_CONTACT CRAWLER_KEY_FILE CRAWLER_NAME CRAWL_PURPOSE DISK_MIN_FREE_BYTES DNS_SERVERS
DNS_QUERY_TIMEOUT_SECS DOCTOR_CLASS EXCLUSION_FILE FAST_PATH_ENABLED FRONTIER_BACK_QUEUES
FRONTIER_FRONT_END FRONTIER_LEASE_SECS FRONTIER_LEVELS FRONTIER_PRIORITIZER FRONTIER_RETRY_TIMES
FRONTIER_SELECTOR GOPHER_PORTS HIVE HIVE_BUILDER HOSTS_FILE HOSTS_POLICY_FILE ITEM_TIMEOUT_SECS
JOB_FEEDS KEEP_OPEN LIVE_SEEDS LOG_JSON MEMORY_BUDGET METRICS_PORT MODULE_MAX_FAILURES
NET_CONNECT_TIMEOUT_SECS NET_FIRST_BYTE_TIMEOUT_SECS NET_KEEPALIVE_CONNECTIONS
NET_MIN_BYTES_PER_SEC OUTAGE_HOSTS OUTPUT_STORE PAGE_CONTENT_TYPES PAGE_MAX_BYTES
PAGE_REFUSED_CONTENT_TYPES POLITENESS_BACKOFF_MAX_SECS POLITENESS_BACKOFF_SECS
POLITENESS_DELAY_FACTOR POLITENESS_JITTER POLITENESS_KEY POLITENESS_MAX_DELAY
POLITENESS_MAX_FAILURES POLITENESS_MAX_RETRY_AFTER_SECS POLITENESS_MIN_DELAY
POLITENESS_PENALTY_SECS POLITENESS_POLICY POLITENESS_PROFILE RANKS_FILE RENDER RENDER_BUILDER
REVISIT SEEN_ELIMINATOR SHUTDOWN_GRACE_SECS STATISTICS_INTERVAL_SECS SUFFIX_LIST_FILE
TRAP_MIN_DUPLICATES URL_EQUIVALENCES URL_FILTERS URL_HOST_RULES_FILE URL_MAX_DEPTH
URL_MAX_LENGTH_BYTES URL_PORTS URL_REFUSE URL_REFUSED_EXTENSIONS URL_RESTRICT_TO URL_SCOPE
URL_SPACE_BASE_URLS URL_TRACE WALK_PAGERANK
""".split()  # noqa: SIM905  # a list would have a line for each
)
ROWS = [(need, name) for need, names in NEEDS.items() for name in names.split()]


class OtherSpider(Spider):
    name = "other"


def settings_of(given, *, spider=WebSpider, own=()):
    """The settings of a crawl with those *given* on the command line and the spider's *own*."""
    project = Settings()
    project.setmodule("webcrawl.settings", priority="project")
    project.setdict(given, priority="cmdline")
    settings = Crawler(spider, project).settings
    settings.update(project)  # as Scrapy does when it is given a crawler to run
    settings.setdict(dict(own), priority="spider")
    return settings


def another_value(name):
    """The setting *name*, or one with a value, with a value that is no default."""
    name, _, value = name.partition("=")
    default = getattr(own_settings, name, None)
    if isinstance(default, bool):
        value = value or str(int(not default))
    elif isinstance(default, (list, dict)):
        value = '{"webcrawl.pipelines.text.TextDataset": null}' if default == {} else "a"
    return {name: value or "7"}


def without(need):
    """Settings without the parts in *need*."""
    off = {"RENDER": "0", "URL_SCOPE": "seeds", "ITEM_PIPELINES": {}, "JOBDIR": ""}
    off["SEEN_ELIMINATOR"] = "webcrawl.seen.Eliminator"
    names = [part.partition("=")[0] for part in need.split(" or ") if need != WEB_SPIDER]
    return {name: off.get(name, 0) for name in names}


def part(need):
    """Settings with the first part in *need*."""
    name, _, value = need.split(" or ")[0].partition("=")
    if name == "ITEM_PIPELINES":
        return {name: {value or "webcrawl.pipelines.warc.WarcPipeline": 1}}
    return {} if need == WEB_SPIDER else {name: value or "1"}


def test_every_setting_has_a_row():
    internal = {name for name in vars(own_settings) if name.endswith(("_BASE", "_MODULE"))}
    ours = {name for name in vars(own_settings) if name.isupper()} - internal
    of_scrapy = {name for name in ours if hasattr(default_settings, name)}
    named = {name for _, name in ROWS if "=" not in name and name in vars(own_settings)}
    assert named | ALWAYS == ours - of_scrapy | (of_scrapy & (named | ALWAYS))
    assert named & ALWAYS == set()


@each("need name", *ROWS)
def test_a_setting_that_lacks_what_it_needs_is_named(need, name):
    spider = OtherSpider if need == WEB_SPIDER else WebSpider
    given = another_value(name)
    bare = settings_of(given, spider=spider, own=without(need))
    short = name.partition("=")[0]
    assert short in [found for found, _ in without_needs(bare, web=spider is WebSpider)]
    whole = settings_of(given, own=without(need) | part(need))
    needs = [words for found, words in without_needs(whole, web=True) if found == short]
    assert need.partition("=")[2] not in needs


@each("web", True, False)
def test_defaults_need_nothing(web):
    settings = settings_of({}, spider=WebSpider if web else OtherSpider)
    assert [*without_needs(settings, web=web)] == []


class TextOfMine:
    """A module that is no dataset."""


def test_a_module_derived_from_the_needed_one_is_enough():
    from webcrawl.pipelines.text import TextDataset

    class Mine(TextDataset):
        pass

    for module, found in ((Mine, []), (TextOfMine, ["TEXT_DIR"])):
        settings = settings_of({"TEXT_DIR": "x"}, own={"ITEM_PIPELINES": {module: 1}})
        assert [name for name, _ in without_needs(settings, web=True)] == found


def test_types_for_a_module_that_is_not_there_are_named():
    path = "webcrawl.pipelines.larm.LarmPipeline"
    settings = settings_of({"MODULE_CONTENT_TYPES": f'{{"{path}": []}}'})
    found = [name for name, _ in without_needs(settings, web=True)]
    assert found == [f"MODULE_CONTENT_TYPES of {path}"]


@each(
    "given refused",
    ({"CRAWLER_SIGNATURE_AGENT": "https://a.test"}, True),
    ({"CRAWLER_SIGNATURE_AGENT": "https://a.test", "CRAWLER_KEY_FILE": "key"}, False),
    ({"RIGHTS_POLICY": "strict"}, True),
    ({"RIGHTS_POLICY": "strict", "CRAWL_PURPOSE": "search"}, False),
    ({"RIGHTS_POLICY": "record"}, False),
    ({"SCORE_MODEL": "x"}, False),
)
def test_a_crawl_that_would_send_or_store_what_it_should_not_is_refused(given, refused):
    with pytest.raises(FatalError) if refused else nullcontext():
        sentences = [*without_effect(settings_of(given), web=True)]
        assert len(sentences) == (len(given) == 1)
