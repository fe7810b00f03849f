"""The state that a kernel writes, as ``make bench-checkpoints`` counts it."""

from __future__ import annotations

from examples.throughput.state_bytes import table_of, written


def test_what_is_written_follows_the_keys_that_are_touched():
    few, many = written(200, 2), written(2_000, 2)
    assert many.bytes_ < 2 * few.bytes_
    assert many.most < 20 * few.bytes_
    assert table_of([2_000], 0.01).row_count == 2
