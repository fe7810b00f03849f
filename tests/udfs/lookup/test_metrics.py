from __future__ import annotations

import pytest

from sqlstream.udfs.lookup.metrics import Meter, latency_bucket, percentile, percentiles


@pytest.mark.parametrize(
    ("ms", "bucket"), [(0, "le_1"), (1, "le_1"), (1.1, "le_2"), (30_000, "le_30000"), (30_001, "more")]
)
def test_latencies_are_counted_by_their_bucket(ms, bucket):
    assert latency_bucket(ms) == f"latency_{bucket}"


def test_percentiles_are_interpolated_in_their_bucket():
    counts = {"latency_le_10": 50, "latency_le_20": 50}
    assert percentile(counts, 0.25) == pytest.approx(7.5)
    assert percentile(counts, 0.5) == pytest.approx(10)
    assert percentile(counts, 0.75) == pytest.approx(15)
    assert percentiles(counts) == pytest.approx({"p50": 10, "p95": 19, "p99": 19.8})


def test_of_the_slowest_only_a_lower_bound_is_known():
    assert percentile({"latency_more": 3}, 0.5) == 30_000


def test_without_requests_there_are_no_percentiles():
    assert percentiles({}) == {}


def test_the_most_requests_in_flight_are_kept():
    meter = Meter()
    for in_flight in (1, 3, 2):
        meter.sent(in_flight)
    assert (meter.counts["requests"], meter.counts["max_in_flight"]) == (3, 3)
