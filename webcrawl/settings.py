"""Settings of the project: the components and their defaults, each with its unit and reason.

docs/reference/settings.md describes each setting. A setting of Scrapy is here only if all spiders
of the project need another value than Scrapy's default; those that only the web spider needs are in
``web_spider``.

Handlers, middlewares and extensions are in the settings that end in ``_BASE``. The settings without
this suffix belong to users and spiders: they add components, and cannot remove the crawl's own.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

from scrapy.settings import default_settings

from webcrawl import __version__


def _report_error(kind: type[BaseException], error: BaseException, *trace: Any) -> None:
    """Print an error that ends the process; for Ctrl-C a sentence, as a traceback says no more."""
    # Python replaces what __set_name__ raises, so Ctrl-C in an import may be a cause.
    if KeyboardInterrupt in {kind, type(error.__cause__)}:
        sys.stderr.write("Stopped by Ctrl-C. Run the same command again to continue.\n")
    else:
        _report_other_error(kind, error, *trace)


# This is the first module of this project that a command of Scrapy imports.
_report_other_error = sys.excepthook
sys.excepthook = _report_error

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
    # None for one of these four schemes: its URLs are refused, as are those of all other schemes.
    "ftp": "webcrawl.net.ftp.FtpDownloadHandler",
    "gopher": "webcrawl.net.gopher.GopherDownloadHandler",
    # Links must not make the crawler read files of its own machine or access paid storage.
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
    "webcrawl.extensions.websub.WebSub": 0,
    "webcrawl.extensions.url_trace.UrlTraceRecorder": 0,
    "webcrawl.extensions.stats_file.StatsFile": 900,
    # It ends before the summary is printed.
    "webcrawl.extensions.summary.Summary": 1000,
}
FEED_EXPORTERS_BASE = default_settings.FEED_EXPORTERS_BASE | {
    "csv": "webcrawl.pipelines.csv_feed.CsvExporter",
    "links": "webcrawl.pipelines.link_feed.LinksExporter",
}
# Scrapy's own consoles listen on a port and run any code, without a record of it.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
STATS_CLASS = "webcrawl.crawl.engine._engine.PlainStats"
# Do not log the stats at the end: they are in JOBDIR/stats.json, the important ones in the summary.
STATS_DUMP = False
LOG_LEVEL = "INFO"
# Log in JSON lines, for programs that collect logs.
LOG_JSON = False

# --- add-ons -----------------------------------------------------------------------------------

# The core imports none of these parts. Each is loaded when it is needed.

# Class that finds out what limits the speed of the crawl. Empty: none, as without that package.
DOCTOR_CLASS = "webcrawl.doctor.crawl_doctor.CrawlDoctor" if find_spec("webcrawl.doctor") else ""
# Function that connects a process to Redis, for HIVE and LIVE_SEEDS.
HIVE_BUILDER = "webcrawl.hive.builder.companion_of"
# Function that makes Scrapy's feeds continue their files when a job is resumed.
JOB_FEEDS = "webcrawl.pipelines.job_feeds.open_feeds"
# Function that builds what renders pages, for RENDER.
RENDER_BUILDER = "webcrawl.render.builder.rendering_of"
# Function that ranks the pages visited by the spider walk.
WALK_PAGERANK = "webcrawl.pipelines.pagerank.rank"

# --- the job (JOBDIR: see web_spider) ----------------------------------------------------------

# Accept commands over a unix socket that only this user can open:
# docs/howto/steer-a-running-crawl.md.
CONTROL_ENABLED = True
# Seconds between two checkpoints; 0: only one at the end. kill -9 never loses anything; after a
# power loss the pages fetched since the last checkpoint are fetched again.
CHECKPOINT_INTERVAL_SECS = 60.0
# Number of older checkpoints to keep, which can be copied and resumed, and the seconds between two
# of them. Each contains the host records (200 MB for a million hosts). 0: none.
CHECKPOINTS_KEPT = 3
CHECKPOINTS_KEPT_INTERVAL_SECS = 3600.0
# Bytes after which logs/info.jsonl is continued in a new file: a quarter of a million URLs.
INFO_LOG_MAX_FILE_BYTES = 1 << 26
# Days after which full log files are deleted: docs/howto/keep-an-index-fresh.md. 0: never.
KEEP_DAYS = 0.0
# The crawl pauses if a disk has fewer bytes free; 0: it continues until a disk is full. A large
# checkpoint takes 100 MB.
DISK_MIN_FREE_BYTES = 1 << 28
# Bytes of memory for caches and buffers (webcrawl/configuration/memory_budget.py has their shares;
# None in a setting means its share). Everything else takes another 150 to 400 MB.
MEMORY_BUDGET = 1 << 29
# Seconds that running downloads get when the crawl is stopped; then they are aborted, and their
# URLs stay in the frontier.
SHUTDOWN_GRACE_SECS = 4.0
# Seconds that an item may take in processing modules, counted from when the items before it have
# left them. It does not apply while modules wait for downloads of their own. When the crawl is
# stopped, items get one second after the grace period.
ITEM_TIMEOUT_SECS = 120.0
# The circuit breaker: this many unexpected errors within a minute end the crawl; 0: never.
BREAKER_MAX_ERRORS = 50
# The crawl also ends if one processing module fails on this many pages in a row. At most 1,000;
# 0: never.
MODULE_MAX_FAILURES = 100
# If this many hosts in a row fail, or cannot be looked up, the cause is assumed to be an outage of
# this machine's network. The crawl pauses and tries again every five seconds; 0: never.
OUTAGE_HOSTS = 20
# If no host has ever answered, the crawl ends when such a pause has taken this many seconds, with
# exit code 5: the network or DNS_SERVERS may be wrong, and a service manager can restart it. 0:
# never.
OUTAGE_END_SECS = 600.0
# If fewer hosts than the first setting have URLs waiting, for as many seconds as the second one
# says, the crawl ends and writes the remaining URLs to JOBDIR/remainder.csv; 0: never. This avoids
# waiting long for a few hosts with many URLs.
CLOSESPIDER_FEW_HOSTS = 0
CLOSESPIDER_FEW_HOSTS_SECS = 600.0
# Seconds between two progress lines in the log; 0: none (Mercator: 10).
STATISTICS_INTERVAL_SECS = 10.0
# Seconds between two writes of JOBDIR/stats.json; 0: only at the end.
STATS_FILE_INTERVAL_SECS = 60.0
# Port of /metrics, /live and /ready (drone i of `scrapy hive` uses METRICS_PORT + i), and the
# address to serve them at. They need no password. 0: none.
METRICS_PORT = 0
METRICS_HOST = "127.0.0.1"
# Port and address of the monitor: a page about the crawl, and an API. 0: none. If other machines
# can reach the address, the file with your token is required; otherwise JOBDIR/monitor.token is
# created.
MONITOR_PORT = 0
MONITOR_HOST = "127.0.0.1"
MONITOR_TOKEN_FILE = ""
# Port, on loopback, for the hubs that push changed feeds (WebSub), and the URL that they call: that
# of a proxy, which forwards its requests to this port. 0: none.
WEBSUB_PORT = 0
WEBSUB_URL = ""
# Print the web spider's summary at the end.
SUMMARY_ENABLED = True

# --- the frontier (Mercator, section 3.1) ------------------------------------------------------

# Number of workers: requests at the same time, each to a different host.
CONCURRENT_REQUESTS = 200
# k, the number of front-end queues.
FRONTIER_LEVELS = 16
FRONTIER_PRIORITIZER = "webcrawl.frontier.prioritizer.DepthRankPrioritizer"
FRONTIER_SELECTOR = "webcrawl.frontier.selector.GeometricSelector"
# Decides which URL is next, with the two settings above or by its own rules:
# docs/howto/write-a-part.md.
FRONTIER_FRONT_END = "webcrawl.frontier.front_end.MercatorFrontEnd"
# A file of rank,host or rank,URL lines, read again when it changes. They take precedence over the
# ranks of the seed list, for URLs found after that. Each line takes 12 bytes of memory, twice that
# while the file is read again; only the first 4,194,304 lines are used. Empty: none.
RANKS_FILE = ""
# n, the initial number of back-end queues of all shards together; 0: three for each worker, as in
# Mercator. While workers are idle, the number grows as far as MEMORY_BUDGET allows.
FRONTIER_BACK_QUEUES = 0
# Seconds after which a lease expires: a safety net, much longer than any download may take.
FRONTIER_LEASE_SECS = 900.0
# How often a URL is retried, where the table of outcomes (hosts/retry_policy.py) has no number.
FRONTIER_RETRY_TIMES = 2

# --- politeness --------------------------------------------------------------------------------

# Ready-made politeness: "mercator" (10 times the download's time), "nielsen" (70 s for each domain)
# or "mischel" (the last five downloads' average, at least 15 s). The next four settings take its
# values unless they are set.
POLITENESS_PROFILE = "mercator"
# Unit that gets only one request at a time: "host", "domain" (the registered domain) or "address".
POLITENESS_KEY = None
# The pause after a contact: the average time of the last five downloads, multiplied by the first
# setting, but not more than the third. It is never less than the second, or than DOWNLOAD_DELAY.
POLITENESS_DELAY_FACTOR = None
POLITENESS_MIN_DELAY = None
POLITENESS_MAX_DELAY = None
# Any object with the one method of frontier.politeness.DelayPolicy.
POLITENESS_POLICY = "webcrawl.frontier.LargestDelay"
# A random share of the pause, up to this one, is added to it, so that hosts do not synchronize.
POLITENESS_JITTER = 0.1
# Crawl-delay is obeyed up to this many seconds. If it is longer: "skip" the host, "cap" the delay,
# or "obey".
POLITENESS_MAX_CRAWL_DELAY = 300.0
POLITENESS_LONG_CRAWL_DELAY = "skip"
# Retry-After is obeyed up to this many seconds; some servers name dates decades ahead.
POLITENESS_MAX_RETRY_AFTER_SECS = 24 * 3600.0
# The pause after 429, 503 and connection failures: the first setting in seconds, doubled for each
# further failure of the same origin, up to the second.
POLITENESS_BACKOFF_SECS = 10.0
POLITENESS_BACKOFF_MAX_SECS = 3600.0
# After this many failures in a row, URLs of an origin are given up for as many seconds as the
# second setting says; after 16 times as many failures, all URLs of a host if none of its origins
# answers.
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
# Files like EXCLUSION_FILE, or directories in the layout of the UT1 blacklists, by category.
BLOCKLISTS: dict[str, str] = {}
# Contains the product name by which robots.txt files address the crawler.
USER_AGENT = f"webcrawl/{__version__}"
# URL of a page about the crawl, or a mail address. Site operators may block crawlers without one.
CRAWLER_CONTACT = ""
# What the crawl is for: search, agent, train, archive or research; empty: not stated. Sites treat a
# crawler with several purposes by the strictest rule of all, so a crawl has one.
CRAWL_PURPOSE = ""
# Name of the crawler, as in robots.txt files; empty: that in USER_AGENT, or webcrawl-PURPOSE.
CRAWLER_NAME = ""
# File of the key that signs https requests; empty: they are not signed. `scrapy identity init`
# makes it, and the files for the site that publishes the public key, whose origin is the second
# setting. The third one is the form of the signatures: string, or dictionary as in the draft.
CRAWLER_KEY_FILE = ""
CRAWLER_SIGNATURE_AGENT = ""
CRAWLER_SIGNATURE_FORM = "string"

# --- the duplicate URL eliminator (Mercator, section 3.2) ------------------------------------

# DiskEliminator is exact; webcrawl.seen.bloom.BloomEliminator (Nielsen) loses a few URLs.
SEEN_ELIMINATOR = "webcrawl.seen.eliminator.DiskEliminator"
# Which fingerprints the cache keeps: docs/why/caches.md compares the policies.
SEEN_CACHE = "clock"
# Number of fingerprints in the cache of popular and recent ones, and in the buffer T. With None,
# the cache gets 4 % of MEMORY_BUDGET (0.16 kB each, at most 65,536) and the buffer 20 % (80 bytes
# each while T is merged, rounded down to a power of two).
SEEN_CACHE_SIZE = None
SEEN_BUFFER_SIZE = None
# For the Bloom filter: its initial capacity in URLs, and the share of new URLs that may be lost.
SEEN_BLOOM_CAPACITY = 10_000_000
SEEN_BLOOM_ERROR_RATE = 0.001
# A file to which the fingerprints of all links are written, 8 bytes each; empty: none.
URL_TRACE = ""

# --- pages -----------------------------------------------------------------------------------

# Maximum bytes of a body to keep, both as received and decoded. None: 5 MiB, as in Common Crawl, or
# 200 kB with the profile nielsen. At most 16 pages larger than 1 MiB are held at the same time.
PAGE_MAX_BYTES = None
# Content types to receive, such as text/html, or text/ for all that begin with it; empty: all. The
# second setting lists types to refuse.
PAGE_CONTENT_TYPES: list[str] = []
PAGE_REFUSED_CONTENT_TYPES: list[str] = []
# Maximum number of links of one page that are followed.
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
# Render pages in a browser without a network: 0, all, or auto for those that show more that way.
# What they need is fetched like any URL (docs/howto/pages-that-need-javascript.md).
RENDER = "0"
# chromium in PATH, or the path of its program.
RENDER_ENGINE = "chromium"
# Seconds that a page waits for scripts and data. Then it is rendered with what there is.
RENDER_WAIT_SECS = 3600.0
# Largest share of the requests that may be for scripts and data, for each registered domain; with
# auto, for the whole crawl, too.
RENDER_SHARE = 0.2
# Engines that run at the same time; 0: half as many as the machine has cores.
RENDER_PROCESSES = 0
# Do not follow links that a page asks not to: rel=nofollow, and nofollow in its robots meta element
# or X-Robots-Tag.
NOFOLLOW_OBEY = True
# Content types that processing modules get, by class path, instead of those that they declare.
MODULE_CONTENT_TYPES: dict[str, list[str]] = {}
# Let the text dataset and the search index include flagged pages, which may not be documents.
FLAGGED_PAGES = False
# What becomes of pages whose owner refuses the purpose of the crawl (CRAWL_PURPOSE). use: they are
# stored, and left out of datasets, the search index, feeds and deltas; strict: not fetched, or not
# kept; record: like all others.
RIGHTS_POLICY = "use"
# Directory of WARC files; empty: JOBDIR/warc. Their names begin with WARC_PREFIX.
WARC_DIR = ""
WARC_PREFIX = "webcrawl"
# Bytes after which a new file is started (the WARC standard recommends 1 GB).
WARC_MAX_FILE_BYTES = 1 << 30
# Size limit of JOBDIR/warc/payloads.sqlite, 110 bytes for each document. With it, a document seen
# under another URL becomes a revisit record. 0: such documents are stored in full.
WARC_REVISIT_MAX_BYTES = 2 << 30
# Earlier crawls whose documents are not stored again but referred to: job directories, hives, and
# CDXJ files, separated by commas. Their table takes 110 bytes for each document.
WARC_DEDUP_FROM = ""
# Also store the main text of each page, as a conversion record like those of Common Crawl's WET
# files. TEXT_MAX_CHARS applies.
WARC_TEXT = False
# Who is crawling, and why: written to the first record of each file, with CRAWLER_CONTACT.
WARC_OPERATOR = ""
WARC_DESCRIPTION = ""
# Directory of the text dataset that TextDataset writes (empty: JOBDIR/text), its format (parquet or
# jsonl), and the maximum number of characters of a page.
TEXT_DIR = ""
TEXT_FORMAT = "parquet"
TEXT_MAX_CHARS = 200_000
# Also write the main text as Markdown, to the column markdown.
TEXT_MARKDOWN = False
# Replace email and public IP addresses in the text dataset.
TEXT_REPLACE_ADDRESSES = False
# File of the fastText model with which PageScore scores pages, and TextDataset its rows, and the
# model's label for good pages.
SCORE_MODEL = ""
SCORE_LABEL = "__label__hq"
# Directory of the full-text index of SearchIndex; empty: JOBDIR/search.
SEARCH_DIR = ""
# Directory of the log storage of LarmPipeline; empty: JOBDIR/larm.
LARM_DIR = ""

# Directory or bucket to which finished WARC and Parquet files are moved, and options for obstore's
# client of the bucket.
OUTPUT_STORE = ""
OUTPUT_STORE_OPTIONS: dict[str, Any] = {}

# --- URLs ------------------------------------------------------------------------------------

# Equivalences for comparing URLs (webcrawl/urls/equivalence.py describes the risk of each); URLs
# are fetched as they were found. Not used by default are index_names and lower_case, which would
# lose pages.
URL_EQUIVALENCES = [
    *("percent_case", "unreserved", "session_ids", "duplicate_slashes"),
    *("tracking", "empty_query", "sorted_query"),
]
# A file of LARM's host rules (startsWith, endsWith, synonym) for comparing URLs; empty: none.
URL_HOST_RULES_FILE = ""
# open: the whole web; seeds: all sites of the seeds; domain: only links within the site of the
# page, if it is a site of a seed (Nielsen). A site is a registered domain, or a name below a domain
# that assigns names to others.
URL_SCOPE = "open"
# The public suffix list, which assigns hosts to domains and sites, for new crawls; existing crawls
# keep theirs. If the file is missing, the list in the package tldextract is used.
SUFFIX_LIST_FILE = "seeds/public_suffix_list.dat"
# Regular expressions, at most 100. A URL must match one of the first list as a whole (LARM's
# -restrictto), and none of the second may be found in it. Each takes about 0.3 us per link.
URL_RESTRICT_TO: list[str] = []
URL_REFUSE: list[str] = []
# Custom filters: classes with their place among the built-in ones, ordered by number like Scrapy's
# components; None disables one. docs/howto/write-a-part.md.
URL_FILTERS: dict[str, Any] = {}
# Maximum length in bytes; longer URLs are refused.
URL_MAX_LENGTH_BYTES = 2048
# Maximum depth below the seeds; 0: no limit (also in the settings below). With a limit, the
# built-in prioritizer and selector fetch nearer pages first. Otherwise many pages would first be
# found on a longer path, and seem too deep.
URL_MAX_DEPTH = 0
# File extensions that are refused. Empty by default: any URL may be a page, and its content type
# decides (PAGE_CONTENT_TYPES).
URL_REFUSED_EXTENSIONS: list[str] = []
# Ports allowed in addition to the scheme's own; empty: any port for seeds, and for links any port
# except those that browsers refuse and those of databases and Docker.
URL_PORTS: list[int] = []
# Crawler traps are learned: a URL pattern of a host is parked when this many of its pages, and nine
# in ten of the recent ones, had content that was seen before. So each trap costs this many fetches.
# 0: never.
TRAP_MIN_DUPLICATES = 30
# How many URLs of a host may wait, or be fetched without new content; each page with new content
# adds 10. So a site is crawled completely if at least one in ten of its URLs has new content. 0: no
# limit.
URL_SPACE_BASE_URLS = 1000
# A file of patterns, as logged, and hosts that the two settings above do not apply to.
TRAP_EXCEPTIONS_FILE = ""

# --- aliases -----------------------------------------------------------------------------------

# Find hosts that serve the same site, and fetch its pages from one of them:
# docs/howto/crawl-the-web.md.
ALIASES = False

# --- budgets -----------------------------------------------------------------------------------

# Pages, and bytes of bodies, allowed for a host name and for a registered domain in the whole
# crawl; 0: no limit. URLs over the limit wait for a run with a higher one.
BUDGET_HOST_PAGES = 0
BUDGET_HOST_BYTES = 0
BUDGET_DOMAIN_PAGES = 0
BUDGET_DOMAIN_BYTES = 0
# With URL_SCOPE=open: the initial page budget of a registered domain, once for itself and once more
# for each other domain that links to it (IRLbot: 10); 0: no limit.
REPUTATION_BASE_PAGES = 4
# How often these budgets are doubled, each time after everything within them was fetched. With 12,
# even a site with one link to it can get 32,768 pages.
REPUTATION_ROUNDS = 12

# --- network -----------------------------------------------------------------------------------

# Allow contacts to loopback, private, link-local and other special addresses: for intranets and
# simulations only. Otherwise any page could make the crawler read its own network.
ALLOW_PRIVATE_ADDRESSES = False
# Maximum seconds for a whole download. The part received by then is kept, marked as truncated.
DOWNLOAD_TIMEOUT = 60
# Maximum seconds to connect to one address, including the TLS handshake.
NET_CONNECT_TIMEOUT_SECS = 10.0
# Maximum seconds from the request to the end of the response header.
NET_FIRST_BYTE_TIMEOUT_SECS = 30.0
# OpenSSL's default ciphers without key exchange in finite fields: servers may choose a group of
# 8,192 bits, which costs 0.24 s of CPU per handshake.
DOWNLOADER_CLIENT_TLS_CIPHERS = "DEFAULT:!kDHE"
# Minimum bytes per second of a body, on average over as many seconds as the second setting says.
# The rest of a slower body is cut off, because it would occupy a worker for too long. 0: no
# minimum.
NET_MIN_BYTES_PER_SEC = 100.0
NET_MIN_RATE_SECS = 15.0
# Number of idle https connections that are kept for another request to their host, for ten seconds
# each; four times as many are kept for http. None: 24 % of MEMORY_BUDGET, at most 512.
NET_KEEPALIVE_CONNECTIONS = None
# Password for anonymous FTP, usually a mail address; empty: CRAWLER_CONTACT, or else "guest".
FTP_PASSWORD = ""
# Ports that may be contacted with Gopher: otherwise a link could make the crawler send a line of
# its author's choice to another service. 70 is the standard port, 7070 is common for a second
# server.
GOPHER_PORTS = [70, 7070]
# Name servers, each as address or address:port; empty: those of the system.
DNS_SERVERS: list[str] = []
# A file like /etc/hosts that takes precedence over it; read once, at the start.
HOSTS_FILE = ""
# Seconds without an answer until a query is repeated, doubled each time. It is sent three times.
DNS_QUERY_TIMEOUT_SECS = 2.0

# --- the hive ----------------------------------------------------------------------------------

# The name of a hive: all processes with the same name, Redis and HIVE_STORE form one crawl,
# possibly on many machines. Empty: a crawl is one process and uses no Redis.
HIVE = ""
# Number of shards into which hosts are divided, at most 4096; it cannot change during a crawl.
# There cannot be more processes than shards. A process with several shards can give some to one
# that joins.
HIVE_SHARDS = 64
# Seconds after which the shards of a process that does not report go to other processes. With a
# shorter time, brief network failures stop crawls; with a longer one, hosts wait longer after a
# crash.
HIVE_LEASE_SECS = 10.0
# Like SEEN_CACHE, for the links to other shards that a drone remembers having sent.
HIVE_CACHE = "clock"
# Where the drones of a hive publish their checkpoints: a directory that all of them can reach, or
# the URL of a bucket. Empty: the directory HIVE.store next to JOBDIR, for drones on one machine.
HIVE_STORE = ""
# As in scrapy-redis. Empty: REDIS_HOST, REDIS_PORT, REDIS_DB, or localhost. REDIS_PARAMS are
# further arguments for the client.
REDIS_URL = ""
REDIS_PARAMS: dict[str, Any] = {}
# Add URLs that are pushed to Redis to a crawl of one process; a hive always does.
LIVE_SEEDS = False
# Number of live seeds taken at a time from the list, set or sorted set of scrapy-redis'
# REDIS_START_URLS_KEY.
REDIS_START_URLS_BATCH_SIZE = 500
# When nothing is left to fetch, keep the crawl open and wait for more URLs.
KEEP_OPEN = False

# Visit finished URLs again, until the crawl is stopped: docs/howto/keep-an-index-fresh.md.
REVISIT = False
# Class that decides when a URL is visited again, from the history of its document:
# docs/howto/keep-an-index-fresh.md.
REVISIT_POLICY = "webcrawl.revisit.policies.Greedy"
# The interval for a URL with no known changes yet, and the limits for all intervals.
REVISIT_FIRST_SECS = 7 * 86_400.0
REVISIT_MIN_SECS = 86_400.0
REVISIT_MAX_SECS = 90 * 86_400.0

# --- Scrapy, tuned ---------------------------------------------------------------------------

# Process each page in one task, from the scheduler to the last pipeline, bypassing some parts of
# Scrapy. This saves a sixth of all CPU time. If it is off, or with a Scrapy other than 2.19, the
# same pages take Scrapy's own path.
FAST_PATH_ENABLED = True
ASYNCIO_EVENT_LOOP = "uvloop.Loop"
DOWNLOADER_MIDDLEWARES_BASE = default_settings.DOWNLOADER_MIDDLEWARES_BASE | {
    # The frontier itself fetches robots.txt, when it is the turn of the host.
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "webcrawl.net.http.decoding.ContentDecodingMiddleware": 590,
    # These do not follow redirects to URLs that no link may have, such as a mail server's port.
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "webcrawl.crawl.engine._engine.PlainMetaRefreshMiddleware": 580,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "webcrawl.crawl.engine._engine.PlainRedirectMiddleware": 600,
}

# --- the web spider ----------------------------------------------------------------------------

# Settings for the web spider only: other spiders have Scrapy's values. They are defaults of the
# spider, so this file, add-ons and everything more specific override them.
web_spider: dict[str, Any] = {
    # Directory of the state of the crawl. Running the same command again resumes the crawl. Other
    # spiders have no default; without a JOBDIR, they use a temporary directory until they end.
    "JOBDIR": "crawls/web",
    # Processing modules (Mercator, section 3), by content type; users add theirs after WARC.
    "ITEM_PIPELINES": {
        "webcrawl.pipelines.warc.WarcPipeline": 100,
        "webcrawl.pipelines.statistics.ContentTypes": 110,
    },
    "EXTENSIONS_BASE": EXTENSIONS_BASE
    | {
        "webcrawl.extensions.repeated_lines.RepeatedLines": 0,
        # The extension Statistics logs more.
        "scrapy.extensions.logstats.LogStats": None,
        # SpiderState writes a pickle to JOBDIR, but only on a clean stop, and checkpoints do not
        # include it.
        "scrapy.extensions.spiderstate.SpiderState": None,
    },
    "LOG_FORMATTER": "webcrawl.extensions.log_formatter.QuietLogFormatter",
    # Scrapy's default of 100 starts 100 tasks for each page: half of all CPU time in a broad crawl.
    "CONCURRENT_ITEMS": 1,
    "COOKIES_ENABLED": False,
    "HTTPPROXY_ENABLED": False,
    "METAREFRESH_ENABLED": False,
    # Scrapy's default without the error of its own handler, whose import takes 0.2 s.
    "RETRY_EXCEPTIONS": [
        error for error in default_settings.RETRY_EXCEPTIONS if "TunnelError" not in str(error)
    ],
    # The crawl has its own counts by outcome; these stats would measure each request and response
    # again.
    "DOWNLOADER_STATS": False,
    # Maximum number of redirects in a row, for links and for ordinary Requests; Scrapy's is 20.
    "REDIRECT_MAX_TIMES": 3,
    # A body that is shorter than its Content-Length is kept, as in browsers, and marked.
    "DOWNLOAD_FAIL_ON_DATALOSS": False,
    # Scrapy's retry and redirect middlewares are for ordinary Requests; the frontier retries and
    # redirects links.
    "DOWNLOADER_MIDDLEWARES_BASE": DOWNLOADER_MIDDLEWARES_BASE
    | {
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
        "scrapy.downloadermiddlewares.downloadtimeout.DownloadTimeoutMiddleware": None,
    },
    # No HttpError middleware: error pages are also kept, and each status is counted as an outcome.
    "SPIDER_MIDDLEWARES_BASE": {},
}
