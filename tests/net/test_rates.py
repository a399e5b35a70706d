"""CONTACTS_MAX and BANDWIDTH_MAX, by the servers' record of crawls in virtual time."""

from bisect import bisect_left
from itertools import accumulate

import pytest
from crawling import access_log
from fault_rig import LONG_SETTINGS, Fault, FaultRig, Scenario
from text_tables import each

from webcrawl.net.rates import Rates

_WORLD = {"hosts": 40, "mean_pages": 12.0, "max_pages": 25, "restricting": 0.0}
_SETTINGS = {
    **LONG_SETTINGS,
    "CHECKPOINT_INTERVAL_SECS": 600,
    "FRONTIER_BACK_QUEUES": 40,
    "INFO_LOG_MAX_FILE_BYTES": 10_000_000,
    "WARC_MAX_FILE_BYTES": 100_000_000,
}
_MINUTE = 60.0


def _record(directory, **settings):
    """The hits of a crawl, in the order of their ends."""
    scenario = Scenario(1, _WORLD, _SETTINGS | settings, has_faults=False)
    with FaultRig(directory, scenario) as rig:
        assert rig.live(Fault())[0]
    return sorted(access_log(directory / "access.log"), key=lambda hit: hit.end)


def _per_minute(hits, amount):
    """What every whole minute has, but of the last tenth of the crawl, when hosts run out."""
    ends = [hit.end for hit in hits]
    sums = [0.0, *accumulate(map(amount, hits))]
    last = ends[len(ends) * 9 // 10]
    assert last - ends[0] > _MINUTE
    starts = [at for at in ends if at + _MINUTE <= last]
    return [sums[bisect_left(ends, at + _MINUTE)] - sums[bisect_left(ends, at)] for at in starts]


def test_contacts_a_second_are_held_within_5_percent_in_every_minute(tmp_path):
    minutes = _per_minute(_record(tmp_path, CONTACTS_MAX=5), lambda _: 1)
    assert min(minutes) >= 0.95 * 5 * _MINUTE
    assert max(minutes) <= 1.05 * 5 * _MINUTE


def test_bits_a_second_are_held_within_5_percent_in_every_minute(tmp_path):
    rate = 700_000
    hits = _record(tmp_path, BANDWIDTH_MAX=rate, URL_REFUSE=r"\.gif")  # of which one is too large
    # The record has bodies; simweb's headers have about 300 bytes.
    minutes = _per_minute(hits, lambda hit: 8 * (hit.size + 300))
    assert min(minutes) >= 0.95 * rate * _MINUTE
    assert max(minutes) <= 1.05 * rate * _MINUTE


@each("processes", 1, 4)
def test_processes_share_the_rates_equally(processes):
    time = 100.0
    rates = Rates(contacts=8, bits=0, clock=lambda: time)
    rates.processes = lambda: processes
    begun = 0
    while time < 160.0:
        if rates.ready_at <= time:
            rates.note_start()
            begun += 1
        else:
            time = rates.ready_at
    assert begun == pytest.approx(8 * 60 / processes, rel=0.05)


def test_bytes_that_were_expected_and_did_not_come_are_given_back():
    rates = Rates(contacts=0, bits=8_000, clock=lambda: 100.0)
    expected = rates.expected_bytes
    for _ in range(2):
        rates.note_start()
    assert rates.ready_at > 100.0
    for _ in range(2):
        rates.note_end(expected)
    assert rates.ready_at <= 100.0
