"""Metrics of a crawl for Prometheus, read off its stats, its activity and the doctor.

Names are those of OpenMetrics, units are seconds and bytes. Labels are of small closed sets, such
as outcomes and processing modules, never of hosts. What is a counter counts this run.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    StateSetMetricFamily,
)
from prometheus_client.registry import Collector

from webcrawl import __version__
from webcrawl.crawl.figures.counts import Counts
from webcrawl.doctor.diagnosis import Cause
from webcrawl.doctor.histogram import PLACES, bound, latencies_of
from webcrawl.doctor.states import CrawlState, HostState, UrlState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from webcrawl.crawl.process import Process
    from webcrawl.doctor.histogram import Histogram


class _Row(NamedTuple):
    """A metric of the number *stat*, or with a *label* of all that fit the pattern *stat*."""

    name: str
    text: str
    stat: str
    label: str = ""


_ROWS: Final = (
    _Row("contacts_total", "Requests to hosts, robots.txt too", "contacts"),
    _Row("outcomes_total", "URLs by how they ended", "outcome/(.+)", "outcome"),
    _Row("retries_total", "Failures to be tried again", "retry/(.+)", "outcome"),
    _Row("visits_total", "Visits by what they found", "visits/(.+)", "found"),
    _Row("received_bytes_total", "Bytes of bodies as received", "fetch/bytes"),
    _Row("sent_bytes_total", "Bytes of requests", "fetch/sent_bytes"),
    _Row("duplicates_total", "Documents seen under another URL", "content/duplicates"),
    _Row("links_submitted_total", "Links given to the eliminator", "seen/submitted"),
    _Row("links_new_total", "Links that were new", "seen/new"),
    _Row("links_refused_total", "Links that filters refused", "urls/refused/(.+)", "filter"),
    _Row("dns_lookups_total", "Names looked up", "dns/lookups"),
    _Row("dns_query_timeouts_total", "Questions without an answer", "dns/query_timeouts"),
    _Row("outages_total", "Outages of the network or the name servers", "outage/count"),
    _Row("pause_seconds_total", "Time without contacts, by reason", "pauses/(.+)_secs", "pause"),
    _Row("cause_seconds_total", "Time by what bound the crawl", "doctor/(.+)_secs", "cause"),
    _Row("critical_errors_total", "Unforeseen errors", "critical/(.+)", "module"),
    _Row("log_messages_total", "Messages of the log", "log_count/(.+)", "level"),
    _Row("module_pages_total", "Pages that modules got", "modules/(.+)/pages", "module"),
    _Row("module_cpu_seconds_total", "CPU of modules", "modules/(.+)/cpu_seconds", "module"),
    _Row("warc_bytes_total", "Bytes written to WARC files", "warc/bytes"),
    _Row("output_store_errors_total", "Moves of files that failed", "output_store/errors"),
    _Row("checkpoints_total", "Checkpoints made", "checkpoint/count"),
    _Row("checkpoint_failures_total", "Checkpoints that failed", "checkpoint/failed"),
    _Row("hive_links_sent_total", "Links sent to other shards", "hive/links/sent"),
    _Row("hive_links_received_total", "Links that other shards sent", "hive/links/received"),
    _Row("hive_lag_seconds", "Time in Redis of what came last", "hive/lag/secs"),
    _Row("hive_unsent_bytes", "Bytes in outboxes, not in Redis", "hive/outbox/unsent"),
    _Row("urls", "URLs", "(?:frontier/)?(waiting|seen/waiting|leased|parked|due)", "state"),
    _Row("urls_parked", "URLs that are parked", "frontier/parked/(.+)", "reason"),
    _Row("hosts", "Hosts", "frontier/hosts/(ready|held|snoozed|in_process)", "state"),
    _Row("seen_urls", "URLs that are known", "seen/fingerprints"),
)
_PATTERNS: Final = {row.name: re.compile(row.stat) for row in _ROWS if row.label}
# What the states are called elsewhere.
_WORDS: Final = {"seen/waiting": str(UrlState.UNDECIDED), "snoozed": str(HostState.RESTING)}
_STATUS: Final = re.compile(r"http_(\d)\d\d")
_BOUNDS: Final = (*(str(bound(place)) for place in range(PLACES - 1)), "+Inf")


class CrawlCollector(Collector):
    """The metrics of *process*'s crawl, brought up to date with each ``collect``."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def collect(self) -> Iterator[Metric]:
        """All of them. To be called in the reactor thread."""
        process = self._process
        process.health.publish()
        crawler = process.parts.services.crawler
        stats = dict(crawler.stats.get_stats())  # modules count in threads
        yield InfoMetricFamily("webcrawl", "The crawler", {"version": __version__})
        pages = Counts.of(stats).pages
        yield CounterMetricFamily("webcrawl_pages_total", "URLs that gave a document", pages)
        yield from _of_stats(stats)
        if process.stop.is_open:
            now = process.health.activity()
            yield GaugeMetricFamily("webcrawl_workers", "Workers", now.workers)
            yield GaugeMetricFamily("webcrawl_workers_busy", "Workers with a request", now.on_wire)
        state, cause = process.health.state().name, process.health.diagnosis().cause
        states = {str(one): one == state for one in CrawlState}
        yield StateSetMetricFamily("webcrawl_state", "What the process does", states)
        causes = {str(one): one is cause for one in Cause}
        yield StateSetMetricFamily("webcrawl_cause", "What binds the crawl", causes)
        yield _histograms(latencies_of(crawler).items())


def _of_stats(stats: Mapping[str, object]) -> Iterator[Metric]:
    numbers = {name: value for name, value in stats.items() if isinstance(value, int | float)}
    for name, text, stat, label in _ROWS:
        family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        if not label:
            yield family(f"webcrawl_{name}", text, numbers.get(stat, 0))
            continue
        sums: dict[str, float] = {}
        for one, number in numbers.items():
            if found := _PATTERNS[name].fullmatch(one):
                word = _STATUS.sub(r"http_\1xx", found[1])
                word = _WORDS.get(word, word)
                sums[word] = sums.get(word, 0) + number
        metric = family(f"webcrawl_{name}", text, labels=[label])
        for word, number in sums.items():
            metric.add_metric([word], number)
        yield metric


def _histograms(latencies: Iterable[tuple[str, Histogram]]) -> Metric:
    family = HistogramMetricFamily(
        "webcrawl_latency_seconds", "Durations of what contacts consist of", labels=["of"]
    )
    for name, histogram in latencies:
        sums = accumulate(histogram.counts)
        family.add_metric([name], [*zip(_BOUNDS, sums, strict=True)], histogram.total)
    return family
