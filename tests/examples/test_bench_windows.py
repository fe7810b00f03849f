"""What the benchmark of windows makes of its micro-batches."""

from __future__ import annotations

import pytest

from examples.throughput import windows
from examples.throughput.measure import Batches
from examples.throughput.processes import usage
from examples.throughput.windows import Steady, steady


def test_the_first_half_is_left_out_and_batches_without_rows_between_others_count():
    batches = Batches([100, 100, 0, 100, 0, 100, 0], [9, 9, 9, 4, 2, 4, 3], [9.0, 9.0, 9.0, 0.4, 0.2, 0.4, 9.0], 7)
    measured = steady(batches)
    assert measured.rows_per_second == 200 * 1000 / 19
    assert measured.processor_us == pytest.approx(10.0 * 1e6 / 200)
    assert measured.peak_mb == 7


def test_one_micro_batch_alone_counts():
    assert steady(Batches([100], [50], [0.1], 7)).rows_per_second == 2000


def test_targets_are_judged_beside_the_figures():
    measured = {"columnar": Steady(900.0, 1.0, 1, 2), "native": Steady(500.0, 2.0, 1, 2)}
    ours, native = windows._rows("TUMBLE 10 s", measured, windows.FEW_KEYS, {})
    assert ours[5] == ""
    assert native[4:6] == ["1.8 × (2.0 × by processor time)", "≥ 2 ×: missed"]
    (many,) = windows._rows(
        "TUMBLE 10 s", {"columnar": Steady(300.0, 1.0, 1, 2)}, 10**6, {"TUMBLE 10 s": measured["columnar"]}
    )
    assert many[4:6] == ["3.0 × slower than at 10,000 keys", "≤ 3 ×: holds"]
    (count,) = windows._rows("COUNT WINDOW 100", {"columnar": Steady(1.6e6, 1.0, 1, 2)}, windows.FEW_KEYS, {})
    assert count[5] == "≥ 1,500,000 rows/s: holds"
    assert count[6:] == ["1 MB", "2 MB"]
    (alone,) = windows._rows("TUMBLE 10 s", {"native": measured["native"]}, windows.FEW_KEYS, {})
    assert alone[4:6] == ["", ""]


def test_the_usage_of_this_process_is_seen():
    actual = usage()
    assert actual.resident_mb > 10
    assert actual.processor_seconds > 0
