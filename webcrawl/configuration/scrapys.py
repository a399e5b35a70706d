"""Settings of Scrapy and scrapy-redis with their defaults, and those that have no effect here."""

from __future__ import annotations

from itertools import chain
from typing import Any

from scrapy.settings import default_settings

#: Scrapy's settings with its defaults.
SCRAPYS: dict[str, Any] = {
    name: getattr(default_settings, name) for name in dir(default_settings) if name.isupper()
}

#: Settings without effect with the Mercator frontier, for all crawls and for those of the web
#: spider. Names, separated by spaces, with what to use instead.
WITHOUT_EFFECT = {
    "all": {
        "CONCURRENT_REQUESTS_PER_DOMAIN CONCURRENT_REQUESTS_PER_IP DOWNLOAD_SLOTS": (
            "one request at a time per host, domain or address, as POLITENESS_KEY says"
        ),
        "AUTOTHROTTLE_ENABLED": "POLITENESS_DELAY_FACTOR gives slow hosts longer pauses",
        "DOWNLOAD_DELAY_JITTER RANDOMIZE_DOWNLOAD_DELAY": "POLITENESS_JITTER",
        "DEPTH_PRIORITY SCHEDULER_PRIORITY_QUEUE SCHEDULER_DISK_QUEUE SCHEDULER_MEMORY_QUEUE "
        "SCHEDULER_START_DISK_QUEUE SCHEDULER_START_MEMORY_QUEUE": (
            "FRONTIER_PRIORITIZER and FRONTIER_SELECTOR order the waiting URLs"
        ),
        "DUPEFILTER_CLASS DUPEFILTER_DEBUG": "SEEN_ELIMINATOR filters duplicates",
        "ROBOTSTXT_PARSER": "robots.txt is parsed as RFC 9309 says",
        "DNS_RESOLVER TWISTED_DNS_RESOLVER DNS_TIMEOUT DNS_CLIENT_CLASS": (
            "DNS_SERVERS and DNS_QUERY_TIMEOUT_SECS"
        ),
        "DNSCACHE_ENABLED DNSCACHE_SIZE": "the DNS cache has a share of MEMORY_BUDGET",
        "DOWNLOADER_CLIENTCONTEXTFACTORY DOWNLOADER_CLIENT_TLS_METHOD "
        "DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING": (
            "DOWNLOAD_TLS_MIN_VERSION and DOWNLOAD_TLS_MAX_VERSION, DOWNLOADER_CLIENT_TLS_CIPHERS"
            " and DOWNLOAD_VERIFY_CERTIFICATES"
        ),
        "DOWNLOAD_MAXSIZE DOWNLOAD_WARNSIZE": "bodies are cut at PAGE_MAX_BYTES",
        "COMPRESSION_ENABLED": "bodies are always decoded",
        # Settings of scrapy-redis.
        "SCHEDULER_PERSIST SCHEDULER_FLUSH_ON_START SCHEDULER_SERIALIZER SCHEDULER_QUEUE_KEY "
        "SCHEDULER_QUEUE_CLASS SCHEDULER_DUPEFILTER_KEY SCHEDULER_DUPEFILTER_CLASS": (
            "JOBDIR keeps the queues and the seen URLs; the same command resumes the crawl"
        ),
        "SCHEDULER_IDLE_BEFORE_CLOSE MAX_IDLE_TIME_BEFORE_CLOSE": (
            "KEEP_OPEN=1 waits for live seeds, and CLOSESPIDER_FEW_HOSTS=1 ends the wait after "
            "CLOSESPIDER_FEW_HOSTS_SECS"
        ),
        "REDIS_ENCODING": "live seeds are read as UTF-8",
    },
    "web": {
        "DEPTH_LIMIT": "URL_MAX_DEPTH",
        "URLLENGTH_LIMIT": "URL_MAX_LENGTH_BYTES",
        "RETRY_ENABLED RETRY_TIMES RETRY_HTTP_CODES RETRY_EXCEPTIONS": (
            "FRONTIER_RETRY_TIMES for links"
        ),
        "REDIRECT_ENABLED": "the frontier follows redirects, up to REDIRECT_MAX_TIMES",
        "HTTPERROR_ALLOW_ALL HTTPERROR_ALLOWED_CODES": "responses of every status become a Page",
        "REFERER_ENABLED REFERRER_POLICY HTTPAUTH_USER HTTPAUTH_PASS HTTPAUTH_DOMAIN": (
            "links are fetched without a referrer and without a password"
        ),
    },
}

#: Settings and arguments of other crawlers, with what to use instead.
OF_OTHER_CRAWLERS = {
    name: replacement
    for names, replacement in {
        "MAX_PAGES PAGE_LIMIT MAX_REQUESTS MAX_REQUESTS_PER_CRAWL": (
            "CLOSESPIDER_PAGECOUNT for the crawl, BUDGET_HOST_PAGES for a host"
        ),
        "MAX_DEPTH DEPTH MAX_CRAWL_DEPTH": "URL_MAX_DEPTH",
        "CRAWL_DELAY DELAY REQUEST_DELAY": "POLITENESS_MIN_DELAY",
        "MAX_CONCURRENCY CONCURRENCY THREADS WORKERS": "CONCURRENT_REQUESTS",
        "TIMEOUT REQUEST_TIMEOUT": "DOWNLOAD_TIMEOUT",
        "MAX_TIME MAX_RUNTIME": "CLOSESPIDER_TIMEOUT",
        "MAX_RETRIES RETRIES": "FRONTIER_RETRY_TIMES",
        "OBEY_ROBOTS RESPECT_ROBOTS RESPECT_ROBOTS_TXT_FILE": "ROBOTSTXT_OBEY",
        "ALLOWED_DOMAINS DOMAINS": "URL_SCOPE=seeds, or URL_RESTRICT_TO",
        "START_URLS URLS": "-a seeds=",
    }.items()
    for name in names.split()
}

#: All settings of Scrapy and scrapy-redis, and the one that Scrapy sets itself.
OF_OTHERS = frozenset(
    {
        "SETTINGS_MODULE",
        *SCRAPYS,
        *(name for names in chain(*WITHOUT_EFFECT.values()) for name in names.split()),
    }
    | {"REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_ITEMS_KEY", "REDIS_ITEMS_SERIALIZER"}
    | {"REDIS_START_URLS_KEY", "REDIS_START_URLS_AS_SET", "REDIS_START_URLS_AS_ZSET"}
)
