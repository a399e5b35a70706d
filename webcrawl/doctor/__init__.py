"""Doctor: what binds a crawl now, and since when.

    crawl ─► CrawlActivity ─┐
    ProcessMeter ───────────┴─► cause_of ─► Doctor ─► Diagnosis ─► progress line, stats, metrics
    protocol modules ─► Latencies

Once a second the crawl's activity is judged: one cause of `Cause` holds it back then. The doctor
sums the seconds of each, and names the one that held most of the last 20 s, with what shows it and,
where that is known, what would change it. Nothing of it is kept over a restart but the seconds,
which are in the crawl's totals. Numbers in, sentences out: this room knows nothing of Scrapy.
"""
