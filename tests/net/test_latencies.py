"""Histograms of latencies."""

from webcrawl.net.latencies import Histogram, bound


def test_a_histogram_counts_in_powers_of_two():
    histogram = Histogram()
    for secs in (0.0, -1.0, 0.0005, 0.001, 0.5, 1.0, 1e9):
        histogram.add(secs)
    assert sum(histogram.counts) == 7
    assert histogram.total == sum((0.0005, 0.001, 0.5, 1.0, 1e9))
    assert histogram.counts[0] == 3
    assert histogram.counts[-1] == 1
    for place, count in enumerate(histogram.counts[1:-1], 1):
        inside = [one for one in (0.001, 0.5, 1.0) if bound(place - 1) <= one < bound(place)]
        assert count == len(inside)
    assert histogram.quantile(0.5) == bound(1)
    assert Histogram().quantile(0.5) == 0.0
