"""Metrics of a crawl for Prometheus, from its stats, its activity and the doctor.

Names follow OpenMetrics; units are seconds and bytes. Labels have few possible values, such as
outcomes or processing modules, never hosts. Counters start at 0 in each run.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING

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
from webcrawl.net.latencies import BUCKETS, Histogram, bound, latencies_of
from webcrawl.states import CrawlState, HostState, UrlState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client import Metric

    from webcrawl.crawl.process import Process

# Name of the metric, stat (a pattern whose group is the label), and help text. They are separated
# by two or more spaces.
_FAMILIES = """
contacts_total             contacts                      Requests to hosts, including robots.txt
outcomes_total             outcome/(?P<outcome>.+)       Finished URLs by outcome
retries_total              retry/(?P<outcome>.+)         Failures that will be retried
refusals_total             refused/(?P<refusal>.+)       Answers by how they refuse the crawler
visits_total               visits/(?P<found>.+)          Visits by result
received_bytes_total       fetch/bytes                   Bytes of response bodies as received
sent_bytes_total           fetch/sent_bytes              Bytes of requests
duplicates_total           content/duplicates            Documents already seen under another URL
links_submitted_total      seen/submitted                Links in scope, ordinary Requests
links_new_total            seen/new                      Links not seen before
links_refused_total        urls/refused/(?P<filter>.+)   Links refused by filters
dns_lookups_total          dns/lookups                   Host names looked up
dns_query_timeouts_total   dns/query_timeouts            DNS queries that timed out
outages_total              outage/count                  Outages of the network or the name servers
pause_seconds_total        pauses/(?P<pause>.+)_secs     Seconds in pauses, by reason
cause_seconds_total        doctor/(?P<cause>.+)_secs     Seconds by what limited the crawl
critical_errors_total      critical/(?P<module>.+)       Unexpected errors
log_messages_total         log_count/(?P<level>.+)       Log messages by level
module_pages_total         modules/(?P<module>.+)/pages  Pages processed by modules
module_cpu_seconds_total   modules/(?P<module>.+)/cpu_seconds  CPU seconds of modules
warc_bytes_total           warc/bytes                    Bytes written to WARC files
output_store_errors_total  output_store/errors           Failed moves of files to OUTPUT_STORE
rendered_pages_total       render/rendered               Pages rendered
render_passes_total        render/ended/(?P<end>.+)      Passes over pages, by how they ended
checkpoints_total          checkpoint/count              Checkpoints made
checkpoint_failures_total  checkpoint/failed             Checkpoints that failed
hive_links_sent_total      hive/links/sent               Links sent to other processes
hive_links_received_total  hive/links/received           Links received from other processes
hive_lag_seconds           hive/lag/secs                 Seconds the last message was in Redis
hive_unsent_bytes          hive/outbox/unsent            Bytes in outboxes, not yet in Redis
urls                       (?:frontier/)?(?P<state>waiting|seen/waiting|leased|parked|due)  URLs
urls_parked                frontier/parked/(?P<reason>.+)  Parked URLs by reason
hosts                      frontier/hosts/(?P<state>ready|held|snoozed|in_process)  Hosts by state
seen_urls                  seen/fingerprints             Known URLs
"""
_ROWS = [re.split("  +", line) for line in _FAMILIES.strip().splitlines()]
# Labels for states that have another name in the stats.
_STATE_LABELS = {"seen/waiting": str(UrlState.UNDECIDED), "snoozed": str(HostState.PAUSED)}
_STATUS = re.compile(r"http_(\d)\d\d")
_BOUNDS = (*(str(bound(place)) for place in range(BUCKETS - 1)), "+Inf")


class CrawlCollector(Collector):
    """Collects the metrics of the crawl in *process*."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics. Must be called in the reactor thread."""
        process = self._process
        process.health.publish()
        crawler = process.parts.services.crawler
        stats = dict(crawler.stats.get_stats())  # a copy, because modules count in threads

        yield InfoMetricFamily("webcrawl", "The crawler", {"version": __version__})
        pages = Counts.of(stats).pages
        yield CounterMetricFamily(
            "webcrawl_pages_total", "Pages: URLs that returned a document", pages
        )
        yield from _metrics_of_stats(stats)

        if process.stop.is_open:
            now = process.health.activity()
            yield GaugeMetricFamily("webcrawl_workers", "Workers", now.workers)
            yield GaugeMetricFamily("webcrawl_workers_busy", "Workers with a request", now.on_wire)

        # A state set has a value for each name: 1 for the present one, 0 for the others.
        state = process.health.state().name
        states = {str(name): name == state for name in CrawlState}
        yield StateSetMetricFamily("webcrawl_state", "State of the process", states)
        if (doctor := process.health.doctor) is not None:
            cause = doctor.diagnosis().cause
            causes = {str(name): name is cause for name in type(cause)}
            yield StateSetMetricFamily("webcrawl_cause", "What limits the crawl", causes)
        yield _latency_metric(latencies_of(crawler).items())


def _metrics_of_stats(stats: Mapping[str, object]) -> Iterator[Metric]:
    """Yield the metrics in ``_FAMILIES``, computed from *stats*.

    Each row there has the name of a metric, a pattern of stats, and the help text. A pattern
    without a group is the name of one stat. Otherwise the group is the label, and stats with equal
    labels are added up.
    """
    numbers = {name: value for name, value in stats.items() if isinstance(value, int | float)}
    for name, stat, text in _ROWS:
        family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        pattern = re.compile(stat)
        if not pattern.groups:
            yield family(f"webcrawl_{name}", text, numbers.get(stat, 0))
            continue

        sums: dict[str, float] = {}
        for stat_name, number in numbers.items():
            if match := pattern.fullmatch(stat_name):
                label = _STATUS.sub(r"http_\1xx", match[1])
                label = _STATE_LABELS.get(label, label)
                sums[label] = sums.get(label, 0) + number

        metric = family(f"webcrawl_{name}", text, labels=[*pattern.groupindex])
        for label, number in sums.items():
            metric.add_metric([label], number)
        yield metric


def _latency_metric(latencies: Iterable[tuple[str, Histogram]]) -> Metric:
    """Return the metric with all *latencies*: pairs of name and histogram."""
    family = HistogramMetricFamily(
        "webcrawl_latency_seconds", "Durations of the parts of a request", labels=["of"]
    )
    for name, histogram in latencies:
        cumulative = accumulate(histogram.counts)
        family.add_metric([name], [*zip(_BOUNDS, cumulative, strict=True)], histogram.total)
    return family
