"""Whose value of a setting holds: the web spider's, the user's, Scrapy's; what is said of it."""

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import Settings, default_settings
from text_tables import each

from webcrawl.extensions.scrapy_settings import ScrapySettings, without_effect
from webcrawl.settings import web_spider
from webcrawl.spiders.web import WebSpider

OFFSITE = "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware"
HTTP_ERROR = "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware"


class UsersSpider(Spider):
    name = "users"


class UsersWebSpider(WebSpider):
    name = "users_web"
    custom_settings = {"COOKIES_ENABLED": True}  # noqa: RUF012  # as users write it


def settings_of(spider, priority="project", **given):
    """Of a crawl by *spider* in this project, in which the user has *given* some."""
    project = Settings()
    project.setmodule("webcrawl.settings", priority="project")
    project.setdict(given, priority=priority)
    settings = Crawler(spider, project).settings
    settings.update(project)  # as Scrapy does when it is given a crawler to run
    return settings


def middlewares(settings, kind="DOWNLOADER"):
    return settings.get_component_priority_dict_with_base(f"{kind}_MIDDLEWARES")


def test_the_web_spider_has_its_own_defaults():
    settings = settings_of(WebSpider)
    for name, value in web_spider.items():
        found = settings[name] if not isinstance(value, dict) else settings.getdict(name)
        assert found == value, name
    assert middlewares(settings)[OFFSITE] is None
    assert not middlewares(settings, "SPIDER")


def test_other_spiders_have_scrapy_s():
    settings = settings_of(UsersSpider)
    changed = {"EXTENSIONS_BASE", "DOWNLOADER_MIDDLEWARES_BASE"}
    for name in web_spider.keys() - changed:
        assert settings[name] == Settings()[name], name
    assert middlewares(settings)[OFFSITE] == default_settings.DOWNLOADER_MIDDLEWARES_BASE[OFFSITE]


@each("priority", "addon", "project", "cmdline")
def test_what_a_user_sets_goes_before_the_web_spider_s_defaults(priority):
    mine = {"JOBDIR": "mine", "ITEM_PIPELINES": {"my.Pipeline": 1}, "REDIRECT_MAX_TIMES": 7}
    settings = settings_of(WebSpider, priority, **mine)
    if priority == "addon":  # which come after it
        settings.setdict(mine, priority)
    assert {name: settings[name] for name in mine} == mine
    settings = settings_of(WebSpider, SPIDER_MIDDLEWARES={HTTP_ERROR: 50})
    assert dict(middlewares(settings, "SPIDER")) == {HTTP_ERROR: 50}


def test_custom_settings_of_a_spider_made_of_it_come_on_top():
    settings = settings_of(UsersWebSpider)
    assert settings["COOKIES_ENABLED"] is True
    assert settings["JOBDIR"] == web_spider["JOBDIR"]


@each("spider", WebSpider, UsersSpider)
def test_a_crawl_with_its_defaults_has_nothing_without_effect(spider):
    web = spider is WebSpider
    assert [*without_effect(settings_of(spider), web=web)] == []
    settings = settings_of(spider, CONCURRENT_REQUESTS_PER_DOMAIN=1, DOWNLOAD_DELAY=3)
    assert [*without_effect(settings, web=web)] == []


def test_request_attributes_without_effect_are_warned_of_once(caplog):
    extension = ScrapySettings(sentences=[])
    spider = UsersSpider()
    plain = Request("http://a.test/", meta={"depth": 1})
    retried = plain.replace(priority=-1, meta={"retry_times": 1})
    asking = plain.replace(priority=5, meta={"download_slot": "x", "dont_obey_robotstxt": True})
    whole, cut = Response(plain.url), Response(plain.url, flags=["truncated"])
    for request in (plain, retried):
        extension.request_scheduled(request, spider)
    extension.response_received(whole, spider)
    assert not caplog.messages
    for _ in range(2):
        extension.request_scheduled(asking, spider)
        extension.response_received(cut, spider)
    assert sorted(message.partition(" ")[0] for message in caplog.messages) == [
        "Request.priority",
        "Responses",
        'meta["dont_obey_robotstxt"]',
        'meta["download_slot"]',
    ]


def test_settings_without_effect_are_named_with_their_replacement():
    settings = settings_of(
        UsersSpider,
        "cmdline",
        CONCURRENT_REQUESTS_PER_DOMAIN="4",
        DOWNLOAD_SLOTS='{"a.test": {"delay": 1}}',
        AUTOTHROTTLE_ENABLED="1",
        DUPEFILTER_CLASS="scrapy.dupefilters.BaseDupeFilter",
        DEPTH_LIMIT="2",
        DOWNLOADER_CLIENTCONTEXTFACTORY="a.Factory",
    )
    told = [*without_effect(settings, web=False)]
    assert [sentence.partition(" ha")[0] for sentence in told] == [
        "CONCURRENT_REQUESTS_PER_DOMAIN, DOWNLOAD_SLOTS",
        "AUTOTHROTTLE_ENABLED",
        "DUPEFILTER_CLASS",
        "DOWNLOADER_CLIENTCONTEXTFACTORY",
    ]
    assert told[1].endswith("instead: POLITENESS_DELAY_FACTOR gives slow hosts longer pauses")
    from_redis = settings_of(
        Spider, SCHEDULER_PERSIST=True, MAX_IDLE_TIME_BEFORE_CLOSE=9, REDIS_START_URLS_AS_SET=True
    )
    assert [one.split()[0] for one in without_effect(from_redis, web=False)] == [
        *("SCHEDULER_PERSIST", "MAX_IDLE_TIME_BEFORE_CLOSE", "REDIS_START_URLS_AS_SET"),
    ]
    in_web = [*without_effect(settings_of(WebSpider, DEPTH_LIMIT=2), web=True)]
    assert in_web == ["DEPTH_LIMIT has no effect in this crawl; instead: URL_MAX_DEPTH"]
