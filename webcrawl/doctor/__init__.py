"""Doctor: diagnoses what limits the speed of a crawl, and since when.

    Health ─► CrawlActivity ─┐
    ProcessMeter ────────────┴─► cause_of ─► Doctor ─► Diagnosis ─► progress line, stats, metrics

The core does not import this package: the setting DOCTOR_CLASS names ``CrawlDoctor``, and a crawl
runs without it.

Once a second the crawl's activity is examined, to find the one `Cause` that limits it at that
moment. The doctor adds up the seconds of each cause. It names the cause that held for most of the
last 20 s, with the evidence and, if possible, with advice. Causes that depend on which hosts are
paused change in turns, so there it takes minutes. Only the seconds survive a restart, as totals of
the crawl. This package takes numbers, returns sentences, and does not use Scrapy.
"""
