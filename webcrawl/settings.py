"""Settings of the project: the components and their defaults, each with its unit and reason.

docs/settings.md says what each does. A setting of Scrapy's is here only if all spiders of the
project need another value than Scrapy's; those of the web spider alone are in ``web_spider``.

Handlers, middlewares and extensions are in the settings that end in ``_BASE``. Those without it are
the user's: what a spider sets there is added, and removes none of the crawl's own.
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
    # None for one of the four: its URLs are refused, as are those of all other schemes.
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
# Scrapy's own: they listen on a port for code to run, and what that does is in no journal.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
STATS_CLASS = "webcrawl.crawl.engine._engine.PlainStats"
# They are in JOBDIR/stats.json, and the summary has those that matter.
STATS_DUMP = False
LOG_LEVEL = "INFO"
# Whether the log of a crawl is of JSON lines, for programs that collect logs.
LOG_JSON = False

# --- the job (JOBDIR: see web_spider) ----------------------------------------------------------

# Take commands by a unix socket of this user's: docs/control.md.
CONTROL_ENABLED = True
# Seconds between two checkpoints; 0: only the last one. kill -9 loses nothing whatever this is;
# after a power loss the pages since the last checkpoint are fetched again.
CHECKPOINT_INTERVAL_SECS = 60.0
# Older checkpoints that can be copied and resumed, and the seconds between two of them. Each has a
# copy of the host records (200 MB for a million hosts). 0: none are made.
CHECKPOINTS_KEPT = 3
CHECKPOINTS_KEPT_INTERVAL_SECS = 3600.0
# Bytes at which logs/info.jsonl is ended and a new file begun: a quarter of a million URLs.
INFO_LOG_MAX_FILE_BYTES = 1 << 26
# Days after which full files of the logs are deleted: docs/revisits.md. 0: never.
KEEP_DAYS = 0.0
# Bytes that must be free on the disks, or the crawl pauses; 0: it goes on until a disk is full. A
# large checkpoint takes 100 MB.
DISK_MIN_FREE_BYTES = 1 << 28
# Bytes of memory for caches and buffers (webcrawl/configuration/memory_budget.py has their shares;
# None in a setting stands for its share). What else there is takes 150 to 400 MB besides.
MEMORY_BUDGET = 1 << 29
# Seconds that downloads under way get when the crawl is stopped; then their URLs go back.
SHUTDOWN_GRACE_SECS = 4.0
# Seconds that an item may take in processing modules, once those that came before it have left. Not
# while modules wait for downloads of their own. When the crawl is stopped, one second after the
# grace.
ITEM_TIMEOUT_SECS = 120.0
# The circuit breaker: so many unforeseen errors within a minute end the crawl; 0: never.
BREAKER_MAX_ERRORS = 50
# So many pages in a row that one processing module failed on end the crawl likewise. At most 1,000;
# 0: never.
MODULE_MAX_FAILURES = 100
# The other breaker: so many hosts in a row that fail, or cannot be looked up, are an outage here:
# the crawl pauses and tries again every five seconds; 0: never.
OUTAGE_HOSTS = 20
# A job none of whose runs has had an answer from any host ends when it has paused for so long, with
# exit code 5: its network or DNS_SERVERS may be wrong, and a service starts it again; 0: never.
OUTAGE_END_SECS = 600.0
# With fewer hosts than this that have URLs waiting for so many seconds the crawl ends, and what is
# left goes to JOBDIR/remainder.csv; 0: never. For the long tail of a few hosts.
CLOSESPIDER_FEW_HOSTS = 0
CLOSESPIDER_FEW_HOSTS_SECS = 600.0
# Seconds between two progress lines in the log; 0: none (Mercator: 10).
STATISTICS_INTERVAL_SECS = 10.0
# Seconds between two writes of JOBDIR/stats.json, and lines of its history; 0: only at the end.
STATS_FILE_INTERVAL_SECS = 60.0
# The port of /metrics, /live and /ready, drone i of `scrapy hive` takes METRICS_PORT + i, and the
# address that they are served at: who reaches it is asked for no password. 0: none.
METRICS_PORT = 0
METRICS_HOST = "127.0.0.1"
# The port and the address of the monitor: a page of the crawl, and an API. 0: none. Beyond this
# machine it needs the file of a token of yours; else JOBDIR/monitor.token is made.
MONITOR_PORT = 0
MONITOR_HOST = "127.0.0.1"
MONITOR_TOKEN_FILE = ""
# Print the web spider's summary at the end.
SUMMARY_ENABLED = True

# --- the frontier (Mercator, section 3.1) ------------------------------------------------------

# Workers: requests under way at once, each to another host.
CONCURRENT_REQUESTS = 200
# k, the number of front-end queues.
FRONTIER_LEVELS = 16
FRONTIER_PRIORITIZER = "webcrawl.frontier.prioritizer.DepthRankPrioritizer"
FRONTIER_SELECTOR = "webcrawl.frontier.selector.GeometricSelector"
# Which URL is next, by the two of these or by other rules: docs/parts.md.
FRONTIER_FRONT_END = "webcrawl.frontier.front_end.MercatorFrontEnd"
# A file of rank,host or rank,URL lines, read again when it changes: they go before the ranks of the
# seed list, for URLs that are new from then on. 12 bytes of memory a line, twice while it is read
# again; the first 4,194,304 lines count. Empty: none.
RANKS_FILE = ""
# n, the number of back-end queues to begin with, of all shards together; 0: three for each worker,
# as Mercator had. While workers are idle it grows as far as MEMORY_BUDGET allows.
FRONTIER_BACK_QUEUES = 0
# Seconds after which a lease expires: a safety net, far above any download's timeout.
FRONTIER_LEASE_SECS = 900.0
# How often a URL is tried again, where the table of outcomes (hosts/retry_policy.py) has no number.
FRONTIER_RETRY_TIMES = 2
# Changes of that table, as {"connect_timeout": [1, 120, 3]}: tries, seconds, failures of an origin.
RETRY_POLICY: dict[str, list[float]] = {}

# --- politeness --------------------------------------------------------------------------------

# Ready-made politeness: "mercator" (10 times the download's time), "nielsen" (70 s for each domain)
# or "mischel" (the last five downloads' average, at least 15 s). The next four are its unless they
# are set.
POLITENESS_PROFILE = "mercator"
# What is never contacted twice at once: "host", "domain" (the registered one), or "address".
POLITENESS_KEY = None
# The pause after a contact: the first times the average of the last five downloads, of which at
# most the third counts; at least the second, and DOWNLOAD_DELAY.
POLITENESS_DELAY_FACTOR = None
POLITENESS_MIN_DELAY = None
POLITENESS_MAX_DELAY = None
# Any object with frontier.politeness.DelayPolicy's one method.
POLITENESS_POLICY = "webcrawl.frontier.LargestDelay"
# Up to this share of a pause is added to it at random: hosts must not fall into step.
POLITENESS_JITTER = 0.1
# Crawl-delay is honoured in full up to so many seconds; beyond: "skip", "cap" or "obey".
POLITENESS_MAX_CRAWL_DELAY = 300.0
POLITENESS_LONG_CRAWL_DELAY = "skip"
# Retry-After is honoured up to so many seconds; some servers name dates decades away.
POLITENESS_MAX_RETRY_AFTER_SECS = 24 * 3600.0
# The pause after 429, 503 and connection failures: seconds after the first, doubled with each one
# that follows on the same origin, up to the second.
POLITENESS_BACKOFF_SECS = 10.0
POLITENESS_BACKOFF_MAX_SECS = 3600.0
# After so many failures in a row an origin's URLs are given up for so many seconds; a host's after
# 16 times as many if none of its origins answers.
POLITENESS_MAX_FAILURES = 8
POLITENESS_PENALTY_SECS = 3600.0
ROBOTSTXT_OBEY = True
# Seconds after an answer until robots.txt is fetched again (RFC 9309: a day).
ROBOTS_EXPIRE_SECS = 24 * 3600.0
# The contacts that the process begins, and the bits that it receives, in a second; a hive's drones
# share them equally. 0: as many as there are.
CONTACTS_MAX = 0
BANDWIDTH_MAX = 0
# A TOML file of what was agreed on with owners of hosts, read again when it changes:
# docs/politeness.md.
HOSTS_POLICY_FILE = ""
# A file of hosts, domains, networks and /expressions/ of URLs that asked not to be crawled, read
# again when it changes.
EXCLUSION_FILE = ""
# The product, by which robots.txt files know the crawler.
USER_AGENT = f"webcrawl/{__version__}"
# The page about the crawl, or a mail address: operators who find no contact block the crawler.
CRAWLER_CONTACT = ""

# --- the duplicate URL eliminator (Mercator, section 3.2) ------------------------------------

# DiskEliminator is exact; webcrawl.seen.bloom.BloomEliminator (Nielsen) loses a few URLs.
SEEN_ELIMINATOR = "webcrawl.seen.eliminator.DiskEliminator"
# Which fingerprints the cache keeps: docs/caches.md compares the policies.
SEEN_CACHE = "clock"
# Fingerprints: the cache of popular and recent ones, and the buffer T. None: 4 % of MEMORY_BUDGET,
# 0.16 kB each, at most 65,536, and 20 % of it, 80 bytes each while T is merged, a power of two.
SEEN_CACHE_SIZE = None
SEEN_BUFFER_SIZE = None
# For the Bloom filter: URLs that it begins with, and the share of new URLs that may be lost.
SEEN_BLOOM_CAPACITY = 10_000_000
SEEN_BLOOM_ERROR_RATE = 0.001
# A file to which the fingerprints of all links are written, 8 bytes each; empty: none.
URL_TRACE = ""

# --- pages -----------------------------------------------------------------------------------

# Bytes of a body, on the wire and decoded, that are kept. None: 5 MiB, as Common Crawl does; with
# the profile nielsen 200 kB. No more than 16 pages beyond 1 MiB are held at once.
PAGE_MAX_BYTES = None
# Content types to receive, as text/html or text/ for all of a kind, and those not to; empty: all.
PAGE_CONTENT_TYPES: list[str] = []
PAGE_REFUSED_CONTENT_TYPES: list[str] = []
# Links of one page that are followed.
PAGE_MAX_LINKS = 5000
# Kinds of links that are followed. Elements of HTML: a, area, frame, iframe; img, source, script,
# embed, object, video, audio, track; form (targets by GET); refresh; css (url() in style sheets).
# Relations of <link> and the Link header: canonical, next, prev, alternate; stylesheet, icon,
# manifest; link for all others. The entries of feeds: item. Sitemaps that robots.txt, a page or
# another sitemap names: sitemap, and the pages in them: loc.
LINK_KINDS = [
    *("a", "area", "frame", "iframe", "refresh", "canonical", "next", "prev", "alternate"),
    *("item", "sitemap", "loc"),
]
# Link extractors by content type, besides those for style sheets, feeds, sitemaps and PDF; None for
# one: no links of it. HTML is always read by the crawl's own, too. Feeds and sitemaps are known by
# their root element (docs/guide.md).
LINK_EXTRACTORS: dict[str, str | None] = {}
# Leave alone what a page asks not to follow: rel=nofollow, and nofollow in its robots meta element
# or X-Robots-Tag.
NOFOLLOW_OBEY = True
# Content types that processing modules get in place of those that they ask for, by class path.
MODULE_CONTENT_TYPES: dict[str, list[str]] = {}
# The text dataset and the search index take pages with flags, too, which may not be documents.
FLAGGED_PAGES = False
# Where WARC files go; empty: JOBDIR/warc. Their names begin with WARC_PREFIX.
WARC_DIR = ""
WARC_PREFIX = "webcrawl"
# Bytes at which a file is ended (the WARC standard recommends 1 GB).
WARC_MAX_FILE_BYTES = 1 << 30
# Of JOBDIR/warc/payloads.sqlite, by which documents seen under another URL become revisit records,
# 110 bytes each. 0: documents seen are stored whole.
WARC_REVISIT_MAX_BYTES = 2 << 30
# Who crawls, and what for: the first record of each file says it, beside CRAWLER_CONTACT.
WARC_OPERATOR = ""
WARC_DESCRIPTION = ""
# The text dataset of TextDataset; empty: JOBDIR/text. parquet or jsonl; characters of a page.
TEXT_DIR = ""
TEXT_FORMAT = "parquet"
TEXT_MAX_CHARS = 200_000
# What finds the main text of a page, there and for SearchIndex: resiliparse, 2 ms of CPU, or
# trafilatura, 12 ms, which leaves out more of what is not the text.
TEXT_EXTRACTOR = "resiliparse"
# The full-text index of SearchIndex; empty: JOBDIR/search.
SEARCH_DIR = ""
# The log storage of LarmPipeline; empty: JOBDIR/larm.
LARM_DIR = ""

# Where finished WARC and Parquet files are moved to, a directory or a URL of fsspec; what fsspec is
# given besides.
OUTPUT_STORE = ""
OUTPUT_STORE_OPTIONS: dict[str, Any] = {}

# --- URLs ------------------------------------------------------------------------------------

# Under which equivalences URLs are compared (webcrawl/urls/equivalence.py says what each risks);
# what is fetched stays as it was found. Off: index_names, lower_case, which would lose pages.
URL_EQUIVALENCES = [
    *("percent_case", "unreserved", "session_ids", "duplicate_slashes"),
    *("tracking", "empty_query", "sorted_query"),
]
# A file of LARM's host rules (startsWith, endsWith, synonym) for the comparison; empty: none.
URL_HOST_RULES_FILE = ""
# open: the web; seeds: the sites of the seeds; domain: links within the page's own site, if it is
# one of the seeds' (Nielsen). A site is a registered domain, or a name in one that gives them away.
URL_SCOPE = "open"
# The public suffix list, by which hosts belong to domains and sites, for new crawls; one that has
# begun keeps its own. Not there: the list of the package tldextract. `scrapy suffixlist`.
SUFFIX_LIST_FILE = "seeds/public_suffix_list.dat"
# Regular expressions, at most 100: a URL must match one as a whole (LARM's -restrictto), and none
# of the others may be found in it; each takes about 0.3 us of a link.
URL_RESTRICT_TO: list[str] = []
URL_REFUSE: list[str] = []
# Filters of one's own, classes with their places among the built-in ones, in the order of numbers
# as Scrapy's components; None switches one off. docs/parts.md.
URL_FILTERS: dict[str, Any] = {}
# Bytes; longer URLs are refused.
URL_MAX_LENGTH_BYTES = 2048
# Levels below the seeds; 0: no limit, here and below. With one the prioritizer and the selector of
# the project take depths in their order: else many pages were found by a detour first, too deep.
URL_MAX_DEPTH = 0
# Names of segments that are refused, in any case; thousands cost no more than one.
URL_REFUSED_SEGMENTS: list[str] = []
# Extensions that are refused. Off: a page may be called anything, and is known by its content type
# (PAGE_CONTENT_TYPES).
URL_REFUSED_EXTENSIONS: list[str] = []
# Ports besides the scheme's own; empty: all for seeds, and for links all but those that browsers
# refuse and those of databases and Docker.
URL_PORTS: list[int] = []
# Traps are learned: a pattern of a host's URLs is parked when so many of its pages, and nine in ten
# of the recent ones, had content already seen: what a trap costs before it is found out. 0: never.
TRAP_MIN_DUPLICATES = 30
# How many URLs of a host may wait or have been fetched for nothing, and 10 more for each new page:
# a site is crawled to its end if one in ten of its URLs leads to something new. 0: no limit.
URL_SPACE_BASE_URLS = 1000
# A file of patterns, as the log has them, and hosts to which neither applies.
TRAP_EXCEPTIONS_FILE = ""

# --- budgets -----------------------------------------------------------------------------------

# Pages, and bytes of bodies, that a host name and a registered domain may have of the whole crawl;
# 0: any number. What is over budget waits for a run with a larger one.
BUDGET_HOST_PAGES = 0
BUDGET_HOST_BYTES = 0
BUDGET_DOMAIN_PAGES = 0
BUDGET_DOMAIN_BYTES = 0
# With URL_SCOPE open: pages that a registered domain has at once for each other domain linking to
# it, and for itself (IRLbot: 10); 0: any number.
REPUTATION_BASE_PAGES = 4
# How often all these are doubled when everything within them was fetched. 12: 32,768 pages even of
# a site with one link to it.
REPUTATION_ROUNDS = 12

# --- network -----------------------------------------------------------------------------------

# Whether loopback, private, link-local and other special addresses may be contacted: for intranets
# and simulations only. Otherwise any page could make the crawler read its own network.
ALLOW_PRIVATE_ADDRESSES = False
# Seconds for the whole download. What has come of a page by then is kept, as truncated.
DOWNLOAD_TIMEOUT = 60
# Seconds for each address that is tried, TLS handshake included.
NET_CONNECT_TIMEOUT_SECS = 10.0
# Seconds from the request to the end of the answer's header.
NET_FIRST_BYTE_TIMEOUT_SECS = 30.0
# OpenSSL's ciphers less the key exchange in finite fields: a made-up group of 8,192 bits costs
# 0.24 s of CPU a handshake.
DOWNLOADER_CLIENT_TLS_CIPHERS = "DEFAULT:!kDHE"
# Bytes a second that a body must come at on the average of so many seconds, or it is cut off there:
# a worker is worth more than the end of such a page. 0: any rate.
NET_MIN_BYTES_PER_SEC = 100.0
NET_MIN_RATE_SECS = 15.0
# Connections that wait for another request to their host, ten seconds each: so many at once by
# https, and four times as many by http. None: 24 % of MEMORY_BUDGET, at most 512.
NET_KEEPALIVE_CONNECTIONS = None
# Guests of FTP servers say whom to write to; empty: CRAWLER_CONTACT, or else "guest".
FTP_PASSWORD = ""
# Ports that may be asked by Gopher: a link must not make the crawler say a line of its author's
# choice to another service. 70 is the protocol's own, 7070 the usual one for a second server.
GOPHER_PORTS = [70, 7070]
# Name servers as address or address:port; empty: those of the system.
DNS_SERVERS: list[str] = []
# A class with async addresses(name) in their place: docs/parts.md.
DNS_CLIENT_CLASS = ""
# Lines of an address and names, before those of /etc/hosts; read once, at the start.
HOSTS_FILE = ""
# Seconds until a question is asked again, doubled each time: it is asked three times.
DNS_QUERY_TIMEOUT_SECS = 2.0

# --- the hive ----------------------------------------------------------------------------------

# The name of a hive: all crawls with the same name, Redis and HIVE_STORE are one, over many
# processes and machines. Empty: a crawl is one process and uses no Redis.
HIVE = ""
# Into how many shards hosts are divided, at most 4096; fixed for a crawl. There cannot be more
# processes than shards, and a process that has several can give some to one that joins.
HIVE_SHARDS = 64
# Seconds after which the shards of a process that was not heard of go to others. A shorter time
# stops crawls at hiccups of the network, a longer one leaves hosts alone for longer after a crash.
HIVE_LEASE_SECS = 10.0
# As SEEN_CACHE, for the links to other shards that a drone remembers to have sent.
HIVE_CACHE = "clock"
# Where the drones of a hive publish their checkpoints: a directory that all of them see, or a URL
# of fsspec. Empty: the directory HIVE.store beside JOBDIR, for drones of one machine.
HIVE_STORE = ""
# As in scrapy-redis, and redis+cluster://, redis+sentinel:// (hive/membership/connection.py).
# Empty: REDIS_HOST, REDIS_PORT, REDIS_DB, or localhost. REDIS_PARAMS are more arguments for the
# client.
REDIS_URL = ""
REDIS_PARAMS: dict[str, Any] = {}
# Whether URLs that are pushed to Redis join a crawl of one process; a hive always takes them.
LIVE_SEEDS = False
# How many live seeds are taken at a time from the list, set or sorted set of scrapy-redis'
# REDIS_START_URLS_KEY.
REDIS_START_URLS_BATCH_SIZE = 500
# Wait for more when nothing is left to fetch.
KEEP_OPEN = False

# Visits of URLs that were finished before, until the crawl is stopped: docs/revisits.md.
REVISIT = False
# When a URL is visited again, by the history of its document: docs/revisits.md.
REVISIT_POLICY = "webcrawl.revisit.policies.Greedy"
# The interval of a URL of whose changes nothing is known yet, and the bounds of all.
REVISIT_FIRST_SECS = 7 * 86_400.0
REVISIT_MIN_SECS = 86_400.0
REVISIT_MAX_SECS = 90 * 86_400.0

# --- Scrapy, tuned ---------------------------------------------------------------------------

# Take a page from the scheduler to the last pipeline in one task, past some of Scrapy's own parts:
# a sixth of all CPU time. Off, and with another Scrapy than 2.19: the same pages, Scrapy's ways.
FAST_PATH_ENABLED = True
ASYNCIO_EVENT_LOOP = "uvloop.Loop"
DOWNLOADER_MIDDLEWARES_BASE = default_settings.DOWNLOADER_MIDDLEWARES_BASE | {
    # The frontier asks for robots.txt, in its host's turn.
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "webcrawl.net.http.decoding.ContentDecodingMiddleware": 590,
    # No redirect leads where no link may: to a mail server's port.
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "webcrawl.crawl.engine._engine.PlainMetaRefreshMiddleware": 580,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "webcrawl.crawl.engine._engine.PlainRedirectMiddleware": 600,
}

# --- the web spider ----------------------------------------------------------------------------

# What only the web spider needs: other spiders have these as in Scrapy. No settings by their names,
# but its defaults: what this file or an add-on sets goes before, as does all that is more special.
web_spider: dict[str, Any] = {
    # Everything the crawl knows. Running the same command again resumes. Crawls of other spiders
    # that set none keep what they know in a temporary directory, until they end.
    "JOBDIR": "crawls/web",
    # Processing modules (Mercator, section 3), by content type; users add theirs after the WARC.
    "ITEM_PIPELINES": {
        "webcrawl.pipelines.warc.WarcPipeline": 100,
        "webcrawl.pipelines.statistics.ContentTypes": 110,
    },
    "EXTENSIONS_BASE": EXTENSIONS_BASE
    | {
        "webcrawl.extensions.repeated_lines.RepeatedLines": 0,
        # Statistics says more.
        "scrapy.extensions.logstats.LogStats": None,
        # A pickle in JOBDIR that is written on a clean stop only: a checkpoint has nothing of it.
        "scrapy.extensions.spiderstate.SpiderState": None,
    },
    "LOG_FORMATTER": "webcrawl.extensions.log_formatter.QuietLogFormatter",
    # The default of 100 starts 100 tasks for each page: half of all CPU time in a broad crawl.
    "CONCURRENT_ITEMS": 1,
    "COOKIES_ENABLED": False,
    "HTTPPROXY_ENABLED": False,
    "METAREFRESH_ENABLED": False,
    # Without the error of Scrapy's own handler: to import that takes 0.2 s.
    "RETRY_EXCEPTIONS": [
        one for one in default_settings.RETRY_EXCEPTIONS if "TunnelError" not in str(one)
    ],
    # The crawl's own counts are per outcome; these measure each request and answer again.
    "DOWNLOADER_STATS": False,
    # Redirects that may follow one another, of links and of ordinary Requests; Scrapy's is 20.
    "REDIRECT_MAX_TIMES": 3,
    # A body that ends before its Content-Length is kept and marked, as browsers do.
    "DOWNLOAD_FAIL_ON_DATALOSS": False,
    # Retry and Redirect serve ordinary Requests; for links the frontier does both.
    "DOWNLOADER_MIDDLEWARES_BASE": DOWNLOADER_MIDDLEWARES_BASE
    | {
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
        "scrapy.downloadermiddlewares.downloadtimeout.DownloadTimeoutMiddleware": None,
    },
    # A broken page is a page too: the outcome of every status is counted, and the Page is kept.
    "SPIDER_MIDDLEWARES_BASE": {},
}
