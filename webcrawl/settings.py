"""Settings of the project: the components and their defaults, each with its unit and reason.

docs/reference/settings.md says what each does. A setting of Scrapy's is here only if all spiders of
the project need a value other than Scrapy's; those for the web spider alone are in ``web_spider``.

Handlers, middlewares and extensions are in the settings that end in ``_BASE``. The settings without
it are the user's: what a spider sets there is added, and removes nothing of the crawl's.
"""

from __future__ import annotations

from typing import Any

from scrapy.settings import default_settings

from webcrawl import __version__

BOT_NAME = "webcrawl"
SPIDER_MODULES = ["webcrawl.spiders"]
NEWSPIDER_MODULE = "webcrawl.spiders"
COMMANDS_MODULE = "webcrawl.commands"

# --- the parts -------------------------------------------------------------------------------

SCHEDULER = "webcrawl.scheduler.MercatorScheduler"
DUPEFILTER_CLASS = "webcrawl.dupefilter.MercatorDupeFilter"
DOWNLOADER = "webcrawl.crawl.lease.downloader.MercatorDownloader"
DOWNLOAD_HANDLERS_BASE = default_settings.DOWNLOAD_HANDLERS_BASE | {
    "http": "webcrawl.net.http.HttpDownloadHandler",
    "https": "webcrawl.net.http.HttpDownloadHandler",
    # None for one of the four: its URLs are refused, like those of all other schemes.
    "ftp": "webcrawl.net.ftp.FtpDownloadHandler",
    "gopher": "webcrawl.net.gopher.GopherDownloadHandler",
    # The crawl must not be led to files of its own machine or to paid storage.
    "file": None,
    "s3": None,
    "data": None,
}
EXTENSIONS_BASE = default_settings.EXTENSIONS_BASE | {
    "scrapy.extensions.remote_control.RemoteControl": None,
    "webcrawl.extensions.remote_control.RemoteControl": 0,
    "webcrawl.extensions.scrapy_settings.ScrapySettings": 0,
    "webcrawl.extensions.shown_settings.ShownSettings": 0,
    "webcrawl.extensions.identification.Identification": 0,
    "webcrawl.extensions.control.TakesCommands": 0,
    "webcrawl.extensions.statistics.Statistics": 0,
    "webcrawl.extensions.checkpoints.Checkpoints": 0,
    "webcrawl.extensions.critical_errors.CriticalErrors": 0,
    "webcrawl.extensions.disk_guard.DiskGuard": 0,
    "webcrawl.extensions.process_limits.ProcessLimits": 0,
    "webcrawl.extensions.few_hosts.CloseWithFewHosts": 0,
    "webcrawl.extensions.output_store.OutputStore": 0,
    "webcrawl.extensions.log_keeping.LogKeeping": 0,
    "webcrawl.extensions.metrics.Metrics": 0,
    "webcrawl.extensions.monitor.Monitor": 0,
    "webcrawl.extensions.url_trace.UrlTraceRecorder": 0,
    "webcrawl.extensions.stats_file.StatsFile": 900,
    # It ends before the summary is printed.
    "webcrawl.extensions.summary.Summary": 1000,
}
FEED_EXPORTERS_BASE = default_settings.FEED_EXPORTERS_BASE | {
    "links": "webcrawl.pipelines.link_feed.LinksExporter",
}
# Scrapy's own consoles listen on a port and run any code, which no journal records.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
STATS_CLASS = "webcrawl.crawl.engine._engine.PlainStats"
# The stats are in JOBDIR/stats.json, and the summary shows the important ones.
STATS_DUMP = False
LOG_LEVEL = "INFO"
# Log in JSON lines, for programs that collect logs.
LOG_JSON = False

# --- the job (JOBDIR: see web_spider) ----------------------------------------------------------

# Accept commands over a unix socket that only this user can open:
# docs/howto/steer-a-running-crawl.md.
CONTROL_ENABLED = True
# Seconds between two checkpoints; 0: only one at the end. kill -9 loses nothing in any case; after
# a power loss the pages since the last checkpoint are fetched again.
CHECKPOINT_INTERVAL_SECS = 60.0
# Older checkpoints to keep, which can be copied and resumed, and the seconds between two of them.
# Each contains the host records (200 MB for a million hosts). 0: none.
CHECKPOINTS_KEPT = 3
CHECKPOINTS_KEPT_INTERVAL_SECS = 3600.0
# Bytes after which logs/info.jsonl is continued in a new file: a quarter of a million URLs.
INFO_LOG_MAX_FILE_BYTES = 1 << 26
# Days after which full log files are deleted: docs/howto/keep-an-index-fresh.md. 0: never.
KEEP_DAYS = 0.0
# With fewer bytes free on a disk the crawl pauses; 0: it continues until a disk is full. A large
# checkpoint takes 100 MB.
DISK_MIN_FREE_BYTES = 1 << 28
# Bytes of memory for caches and buffers (webcrawl/configuration/memory_budget.py has their shares;
# None in a setting means its share). Everything else takes another 150 to 400 MB.
MEMORY_BUDGET = 1 << 29
# Seconds that running downloads get when the crawl is stopped; then their URLs go back.
SHUTDOWN_GRACE_SECS = 4.0
# Seconds that an item may take in processing modules, counted from when the items before it have
# left. It does not apply while modules wait for downloads of their own. When the crawl is stopped,
# items get one second after the grace period.
ITEM_TIMEOUT_SECS = 120.0
# The circuit breaker: this many unexpected errors within a minute end the crawl; 0: never.
BREAKER_MAX_ERRORS = 50
# This many pages in a row on which one processing module failed end the crawl, too. At most 1,000;
# 0: never.
MODULE_MAX_FAILURES = 100
# The other breaker: when this many hosts in a row fail, or cannot be looked up, the cause is an
# outage here. The crawl pauses and tries again every five seconds; 0: never.
OUTAGE_HOSTS = 20
# A job that has never had an answer from any host ends after this long a pause, with exit code 5:
# its network or DNS_SERVERS may be wrong, and a service manager can restart it; 0: never.
OUTAGE_END_SECS = 600.0
# When fewer hosts than this have had URLs waiting for so many seconds, the crawl ends, and the
# remaining URLs go to JOBDIR/remainder.csv; 0: never. For the long tail of a few hosts.
CLOSESPIDER_FEW_HOSTS = 0
CLOSESPIDER_FEW_HOSTS_SECS = 600.0
# Seconds between two progress lines in the log; 0: none (Mercator: 10).
STATISTICS_INTERVAL_SECS = 10.0
# Seconds between two writes of JOBDIR/stats.json, and lines of its history; 0: only at the end.
STATS_FILE_INTERVAL_SECS = 60.0
# Port of /metrics, /live and /ready (drone i of `scrapy hive` uses METRICS_PORT + i), and the
# address to serve them at. They need no password. 0: none.
METRICS_PORT = 0
METRICS_HOST = "127.0.0.1"
# Port and address of the monitor: a page about the crawl, and an API. 0: none. At an address that
# other machines can reach it needs the file of your token; otherwise JOBDIR/monitor.token is made.
MONITOR_PORT = 0
MONITOR_HOST = "127.0.0.1"
MONITOR_TOKEN_FILE = ""
# Print the web spider's summary at the end.
SUMMARY_ENABLED = True

# --- the frontier (Mercator, section 3.1) ------------------------------------------------------

# Workers: requests at the same time, each to another host.
CONCURRENT_REQUESTS = 200
# k, the number of front-end queues.
FRONTIER_LEVELS = 16
FRONTIER_PRIORITIZER = "webcrawl.frontier.prioritizer.DepthRankPrioritizer"
FRONTIER_SELECTOR = "webcrawl.frontier.selector.GeometricSelector"
# Which URL is next, by the two settings above or by other rules: docs/howto/write-a-part.md.
FRONTIER_FRONT_END = "webcrawl.frontier.front_end.MercatorFrontEnd"
# A file of rank,host or rank,URL lines, read again when it changes. They take precedence over the
# ranks of the seed list, for URLs found from then on. 12 bytes of memory a line, twice that while
# it is read again; the first 4,194,304 lines count. Empty: none.
RANKS_FILE = ""
# n, the initial number of back-end queues, of all shards together; 0: three for each worker, as in
# Mercator. While workers are idle it grows as far as MEMORY_BUDGET allows.
FRONTIER_BACK_QUEUES = 0
# Seconds after which a lease expires: a safety net, far above any download's timeout.
FRONTIER_LEASE_SECS = 900.0
# How often a URL is retried, where the table of outcomes (hosts/retry_policy.py) has no number.
FRONTIER_RETRY_TIMES = 2
# Changes to that table, as {"connect_timeout": [1, 120, 3]}: tries, seconds, failures of an origin.
RETRY_POLICY: dict[str, list[float]] = {}

# --- politeness --------------------------------------------------------------------------------

# Ready-made politeness: "mercator" (10 times the download's time), "nielsen" (70 s for each domain)
# or "mischel" (the last five downloads' average, at least 15 s). The next four settings take its
# values unless they are set.
POLITENESS_PROFILE = "mercator"
# What gets only one request at a time: "host", "domain" (the registered one), or "address".
POLITENESS_KEY = None
# The pause after a contact: the first setting times the average of the last five downloads, at most
# the third; in any case at least the second, and DOWNLOAD_DELAY.
POLITENESS_DELAY_FACTOR = None
POLITENESS_MIN_DELAY = None
POLITENESS_MAX_DELAY = None
# Any object with the one method of frontier.politeness.DelayPolicy.
POLITENESS_POLICY = "webcrawl.frontier.LargestDelay"
# A random share of the pause, up to this one, is added to it: hosts must not fall into step.
POLITENESS_JITTER = 0.1
# Crawl-delay is honoured in full up to this many seconds; beyond that: "skip", "cap" or "obey".
POLITENESS_MAX_CRAWL_DELAY = 300.0
POLITENESS_LONG_CRAWL_DELAY = "skip"
# Retry-After is honoured up to this many seconds; some servers name dates decades away.
POLITENESS_MAX_RETRY_AFTER_SECS = 24 * 3600.0
# The pause after 429, 503 and connection failures: the first setting in seconds, doubled for each
# further failure of the same origin, up to the second.
POLITENESS_BACKOFF_SECS = 10.0
POLITENESS_BACKOFF_MAX_SECS = 3600.0
# After this many failures in a row, the URLs of an origin are given up for the time below; those of
# a host after 16 times as many, if none of its origins answers.
POLITENESS_MAX_FAILURES = 8
POLITENESS_PENALTY_SECS = 3600.0
ROBOTSTXT_OBEY = True
# Seconds until robots.txt is fetched again (RFC 9309: a day).
ROBOTS_EXPIRE_SECS = 24 * 3600.0
# Requests started, and bits received, per second by this process; the drones of a hive share them
# equally. 0: no limit.
CONTACTS_MAX = 0
BANDWIDTH_MAX = 0
# A TOML file of agreements with owners of hosts, read again when it changes:
# docs/howto/agree-on-limits-with-owners.md.
HOSTS_POLICY_FILE = ""
# A file of hosts, domains, networks and /expressions/ of URLs not to be crawled, read again when it
# changes.
EXCLUSION_FILE = ""
# The product name that robots.txt files know the crawler by.
USER_AGENT = f"webcrawl/{__version__}"
# A page about the crawl, or a mail address: operators who find no contact block the crawler.
CRAWLER_CONTACT = ""

# --- the duplicate URL eliminator (Mercator, section 3.2) ------------------------------------

# DiskEliminator is exact; webcrawl.seen.bloom.BloomEliminator (Nielsen) loses a few URLs.
SEEN_ELIMINATOR = "webcrawl.seen.eliminator.DiskEliminator"
# Which fingerprints the cache keeps: docs/why/caches.md compares the policies.
SEEN_CACHE = "clock"
# Number of fingerprints in the cache of popular and recent ones, and in the buffer T. None: 4 % of
# MEMORY_BUDGET, at 0.16 kB each, at most 65,536; and 20 % of it, at 80 bytes each while T is
# merged, rounded to a power of two.
SEEN_CACHE_SIZE = None
SEEN_BUFFER_SIZE = None
# For the Bloom filter: its initial capacity in URLs, and the share of new URLs that may be lost.
SEEN_BLOOM_CAPACITY = 10_000_000
SEEN_BLOOM_ERROR_RATE = 0.001
# A file to which the fingerprints of all links are written, 8 bytes each; empty: none.
URL_TRACE = ""

# --- pages -----------------------------------------------------------------------------------

# Bytes of a body to keep, on the wire and decoded. None: 5 MiB, as Common Crawl does; with the
# profile nielsen 200 kB. At most 16 pages larger than 1 MiB are held at the same time.
PAGE_MAX_BYTES = None
# Content types to receive, as text/html, or text/ for a whole kind, and those to refuse; empty:
# all.
PAGE_CONTENT_TYPES: list[str] = []
PAGE_REFUSED_CONTENT_TYPES: list[str] = []
# Links of one page that are followed.
PAGE_MAX_LINKS = 5000
# Kinds of links that are followed. HTML elements: a, area, frame, iframe; img, source, script,
# embed, object, video, audio, track; form (targets by GET); refresh; css (url() in style sheets).
# Relations of <link> and the Link header: canonical, next, prev, alternate; stylesheet, icon,
# manifest; link for all others. Entries of feeds: item. Sitemaps named by robots.txt, a page or
# another sitemap: sitemap; the pages in them: loc.
LINK_KINDS = [
    *("a", "area", "frame", "iframe", "refresh", "canonical", "next", "prev", "alternate"),
    *("item", "sitemap", "loc"),
]
# Link extractors by content type, added to those for style sheets, feeds, sitemaps and PDF; None:
# no links of that type. HTML is always read by the built-in extractor as well. Feeds and sitemaps
# are recognized by their root element (docs/howto/find-links-in-other-formats.md).
LINK_EXTRACTORS: dict[str, str | None] = {}
# Do not follow links that a page asks not to: rel=nofollow, and nofollow in its robots meta element
# or X-Robots-Tag.
NOFOLLOW_OBEY = True
# Content types that processing modules get instead of those they ask for, by class path.
MODULE_CONTENT_TYPES: dict[str, list[str]] = {}
# Let the text dataset and the search index include flagged pages, which may not be documents.
FLAGGED_PAGES = False
# Directory of WARC files; empty: JOBDIR/warc. Their names begin with WARC_PREFIX.
WARC_DIR = ""
WARC_PREFIX = "webcrawl"
# Bytes after which a new file is begun (the WARC standard recommends 1 GB).
WARC_MAX_FILE_BYTES = 1 << 30
# Size limit of JOBDIR/warc/payloads.sqlite, 110 bytes for each document. With it, a document seen
# under another URL becomes a revisit record. 0: such documents are stored in full.
WARC_REVISIT_MAX_BYTES = 2 << 30
# Who crawls, and why: stated in the first record of each file, with CRAWLER_CONTACT.
WARC_OPERATOR = ""
WARC_DESCRIPTION = ""
# The text dataset of TextDataset; empty: JOBDIR/text. Format: parquet or jsonl. Maximum number of
# characters for a page.
TEXT_DIR = ""
TEXT_FORMAT = "parquet"
TEXT_MAX_CHARS = 200_000
# What extracts the main text of a page, here and for SearchIndex: resiliparse (2 ms of CPU), or
# trafilatura (12 ms), which leaves out more of the clutter.
TEXT_EXTRACTOR = "resiliparse"
# The full-text index of SearchIndex; empty: JOBDIR/search.
SEARCH_DIR = ""
# The log storage of LarmPipeline; empty: JOBDIR/larm.
LARM_DIR = ""

# Where finished WARC and Parquet files are moved to, a directory or an fsspec URL, and more options
# for fsspec.
OUTPUT_STORE = ""
OUTPUT_STORE_OPTIONS: dict[str, Any] = {}

# --- URLs ------------------------------------------------------------------------------------

# Equivalences for comparing URLs (webcrawl/urls/equivalence.py says what each risks); a URL is
# fetched as it was found. Not used by default: index_names, lower_case, which would lose pages.
URL_EQUIVALENCES = [
    *("percent_case", "unreserved", "session_ids", "duplicate_slashes"),
    *("tracking", "empty_query", "sorted_query"),
]
# A file of LARM's host rules (startsWith, endsWith, synonym) for comparing URLs; empty: none.
URL_HOST_RULES_FILE = ""
# open: the web; seeds: the sites of the seeds; domain: links within the page's own site, if it is
# one of the seeds' (Nielsen). A site is a registered domain, or a name below a domain that gives
# out names.
URL_SCOPE = "open"
# The public suffix list, which assigns hosts to domains and sites, for new crawls; an existing
# crawl keeps its own. If the file is missing: the list of the package tldextract. `scrapy
# suffixlist`.
SUFFIX_LIST_FILE = "seeds/public_suffix_list.dat"
# Regular expressions, at most 100. A URL must match one of the first list as a whole (LARM's
# -restrictto), and none of the second may be found in it. Each takes about 0.3 us per link.
URL_RESTRICT_TO: list[str] = []
URL_REFUSE: list[str] = []
# Custom filters: classes with their place among the built-in ones, ordered by number like Scrapy's
# components; None disables one. docs/howto/write-a-part.md.
URL_FILTERS: dict[str, Any] = {}
# Bytes; longer URLs are refused.
URL_MAX_LENGTH_BYTES = 2048
# Maximum depth below the seeds; 0: no limit, here and below. With a limit, the built-in prioritizer
# and selector take nearer pages first. Otherwise many pages would first be found by a detour, and
# be too deep.
URL_MAX_DEPTH = 0
# Path segments that are refused, ignoring case; thousands cost no more than one.
URL_REFUSED_SEGMENTS: list[str] = []
# File extensions that are refused. Empty by default: any URL may be a page, and its content type
# decides (PAGE_CONTENT_TYPES).
URL_REFUSED_EXTENSIONS: list[str] = []
# Ports allowed in addition to the scheme's own; empty: any port for seeds, and for links any port
# except those that browsers refuse and those of databases and Docker.
URL_PORTS: list[int] = []
# Crawler traps are learned: a URL pattern of a host is parked when this many of its pages, and nine
# in ten of the recent ones, had content already seen. A trap costs that many fetches. 0: never.
TRAP_MIN_DUPLICATES = 30
# How many URLs of a host may be waiting or fetched without new content; each new page adds 10. A
# site is crawled to its end if one in ten of its URLs leads to something new. 0: no limit.
URL_SPACE_BASE_URLS = 1000
# A file of patterns, as logged, and hosts that the two settings above do not apply to.
TRAP_EXCEPTIONS_FILE = ""

# --- budgets -----------------------------------------------------------------------------------

# Pages, and bytes of bodies, allowed for a host name and for a registered domain in the whole
# crawl; 0: no limit. URLs over the limit wait for a run with a higher one.
BUDGET_HOST_PAGES = 0
BUDGET_HOST_BYTES = 0
BUDGET_DOMAIN_PAGES = 0
BUDGET_DOMAIN_BYTES = 0
# With URL_SCOPE open: the first page budget of a registered domain, for itself and again for each
# other domain linking to it (IRLbot: 10); 0: no limit.
REPUTATION_BASE_PAGES = 4
# How often these budgets are doubled, each time when everything within them was fetched. 12: 32,768
# pages even for a site with one link to it.
REPUTATION_ROUNDS = 12

# --- network -----------------------------------------------------------------------------------

# Allow contacts to loopback, private, link-local and other special addresses: for intranets and
# simulations only. Otherwise any page could make the crawler read its own network.
ALLOW_PRIVATE_ADDRESSES = False
# Seconds for the whole download. What was received of a page by then is kept, as truncated.
DOWNLOAD_TIMEOUT = 60
# Seconds for each address that is tried, TLS handshake included.
NET_CONNECT_TIMEOUT_SECS = 10.0
# Seconds from the request to the end of the answer's header.
NET_FIRST_BYTE_TIMEOUT_SECS = 30.0
# OpenSSL's ciphers without key exchange in finite fields: a made-up group of 8,192 bits costs 0.24
# s of CPU per handshake.
DOWNLOADER_CLIENT_TLS_CIPHERS = "DEFAULT:!kDHE"
# Bytes per second that a body must average over this many seconds, or the rest is cut off: a worker
# is worth more than the end of such a page. 0: no minimum.
NET_MIN_BYTES_PER_SEC = 100.0
NET_MIN_RATE_SECS = 15.0
# Idle connections kept for another request to their host, ten seconds each: this many for https,
# and four times as many for http. None: 24 % of MEMORY_BUDGET, at most 512.
NET_KEEPALIVE_CONNECTIONS = None
# Password for anonymous FTP, by custom a mail address; empty: CRAWLER_CONTACT, or else "guest".
FTP_PASSWORD = ""
# Ports that may be contacted with Gopher: a link must not make the crawler send a line of its
# author's choice to another service. 70 is the protocol's own, 7070 the usual one for a second
# server.
GOPHER_PORTS = [70, 7070]
# Name servers as address or address:port; empty: those of the system.
DNS_SERVERS: list[str] = []
# A class with async addresses(name) that replaces them: docs/howto/write-a-part.md.
DNS_CLIENT_CLASS = ""
# A file like /etc/hosts, used before it; read once, at the start.
HOSTS_FILE = ""
# Seconds until a query is repeated, doubled each time: it is sent three times.
DNS_QUERY_TIMEOUT_SECS = 2.0

# --- the hive ----------------------------------------------------------------------------------

# The name of a hive: all crawls with the same name, Redis and HIVE_STORE form one crawl, over many
# processes and machines. Empty: a crawl is one process and uses no Redis.
HIVE = ""
# Number of shards that the hosts are divided into, at most 4096; fixed for a crawl. There cannot be
# more processes than shards. A process with several shards can give some to one that joins.
HIVE_SHARDS = 64
# Seconds after which the shards of a process that does not report go to others. A shorter time
# stops crawls at hiccups of the network, a longer one leaves hosts waiting longer after a crash.
HIVE_LEASE_SECS = 10.0
# Like SEEN_CACHE, for the links to other shards that a drone remembers having sent.
HIVE_CACHE = "clock"
# Where the drones of a hive publish their checkpoints: a directory that all of them can reach, or
# an fsspec URL. Empty: the directory HIVE.store next to JOBDIR, for drones on one machine.
HIVE_STORE = ""
# As in scrapy-redis, and redis+cluster://, redis+sentinel:// (hive/membership/connection.py).
# Empty: REDIS_HOST, REDIS_PORT, REDIS_DB, or localhost. REDIS_PARAMS are further arguments for the
# client.
REDIS_URL = ""
REDIS_PARAMS: dict[str, Any] = {}
# Let URLs pushed to Redis join a crawl of one process; a hive always takes them.
LIVE_SEEDS = False
# Number of live seeds taken at a time from the list, set or sorted set of scrapy-redis'
# REDIS_START_URLS_KEY.
REDIS_START_URLS_BATCH_SIZE = 500
# Keep the crawl open, waiting for more URLs, when nothing is left to fetch.
KEEP_OPEN = False

# Visit finished URLs again, until the crawl is stopped: docs/howto/keep-an-index-fresh.md.
REVISIT = False
# Decides when a URL is visited again, by the history of its document:
# docs/howto/keep-an-index-fresh.md.
REVISIT_POLICY = "webcrawl.revisit.policies.Greedy"
# The interval for a URL with no known changes yet, and the limits for all intervals.
REVISIT_FIRST_SECS = 7 * 86_400.0
REVISIT_MIN_SECS = 86_400.0
REVISIT_MAX_SECS = 90 * 86_400.0

# --- Scrapy, tuned ---------------------------------------------------------------------------

# Take a page from the scheduler to the last pipeline in one task, bypassing some parts of Scrapy:
# saves a sixth of all CPU time. When off, or with a Scrapy other than 2.19: the same pages, by
# Scrapy's own path.
FAST_PATH_ENABLED = True
ASYNCIO_EVENT_LOOP = "uvloop.Loop"
DOWNLOADER_MIDDLEWARES_BASE = default_settings.DOWNLOADER_MIDDLEWARES_BASE | {
    # The frontier fetches robots.txt itself, in its host's turn.
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "webcrawl.net.http.decoding.ContentDecodingMiddleware": 590,
    # These follow no redirect to where no link may lead, such as a mail server's port.
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "webcrawl.crawl.engine._engine.PlainMetaRefreshMiddleware": 580,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "webcrawl.crawl.engine._engine.PlainRedirectMiddleware": 600,
}

# --- the web spider ----------------------------------------------------------------------------

# Settings for the web spider only: other spiders have Scrapy's values. They are defaults of the
# spider, so this file, add-ons and everything more specific override them.
web_spider: dict[str, Any] = {
    # Everything the crawl knows. Running the same command again resumes. Crawls of other spiders
    # without a JOBDIR keep it in a temporary directory until they end.
    "JOBDIR": "crawls/web",
    # Processing modules (Mercator, section 3), by content type; users add theirs after WARC.
    "ITEM_PIPELINES": {
        "webcrawl.pipelines.warc.WarcPipeline": 100,
        "webcrawl.pipelines.statistics.ContentTypes": 110,
    },
    "EXTENSIONS_BASE": EXTENSIONS_BASE
    | {
        "webcrawl.extensions.repeated_lines.RepeatedLines": 0,
        # Statistics says more.
        "scrapy.extensions.logstats.LogStats": None,
        # SpiderState writes a pickle in JOBDIR on a clean stop only, and checkpoints do not include
        # it.
        "scrapy.extensions.spiderstate.SpiderState": None,
    },
    "LOG_FORMATTER": "webcrawl.extensions.log_formatter.QuietLogFormatter",
    # Scrapy's default of 100 starts 100 tasks for each page: half of all CPU time in a broad crawl.
    "CONCURRENT_ITEMS": 1,
    "COOKIES_ENABLED": False,
    "HTTPPROXY_ENABLED": False,
    "METAREFRESH_ENABLED": False,
    # Without the error of Scrapy's own handler, whose import takes 0.2 s.
    "RETRY_EXCEPTIONS": [
        one for one in default_settings.RETRY_EXCEPTIONS if "TunnelError" not in str(one)
    ],
    # The crawl counts by outcome; these stats would measure each request and response a second
    # time.
    "DOWNLOADER_STATS": False,
    # Maximum number of redirects in a row, for links and for ordinary Requests; Scrapy's is 20.
    "REDIRECT_MAX_TIMES": 3,
    # A body that is shorter than its Content-Length is kept and marked, as browsers do.
    "DOWNLOAD_FAIL_ON_DATALOSS": False,
    # Retry and Redirect serve ordinary Requests; the frontier retries and redirects links.
    "DOWNLOADER_MIDDLEWARES_BASE": DOWNLOADER_MIDDLEWARES_BASE
    | {
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
        "scrapy.downloadermiddlewares.downloadtimeout.DownloadTimeoutMiddleware": None,
    },
    # A broken page is a page, too: every status is counted as an outcome, and the Page is kept.
    "SPIDER_MIDDLEWARES_BASE": {},
}
