"""Rows with the watermark that holds when they come."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sqlstream.udfs.current_watermark import NOW, CurrentWatermarkKernel
from sqlstream.udfs.event_times import END_OF_INPUT
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import EMITTED_AHEAD, END_OF_TIME, KEY_HASH

SCHEMA = pa.schema([(KEY_HASH, pa.int64()), ("v", pa.int64()), (EMITTED_AHEAD, pa.bool_())])


def rows(*values: int, ahead: bool = False) -> list[dict[str, Any]]:
    return [{KEY_HASH: 0, "v": v, EMITTED_AHEAD: ahead} for v in values]


def came(kernel: KernelHarness) -> list[tuple[int, int | None]]:
    return [(row["v"], row[NOW]) for row in kernel.output()]


@pytest.mark.parametrize("restarts", [False, True])
def test_rows_have_the_watermark_of_the_micro_batches_before(restarts: bool) -> None:
    kernel = KernelHarness(CurrentWatermarkKernel(SCHEMA, ("v",)), SCHEMA, restarts=restarts)
    kernel.rows(rows(1, 2))
    kernel.batch(rows(3), watermark=5_000)
    kernel.rows(rows(4))
    assert came(kernel) == [(1, None), (2, None), (3, 5_000), (4, 5_000)]


def test_rows_that_leave_ahead_have_the_watermark_before() -> None:
    kernel = KernelHarness(CurrentWatermarkKernel(SCHEMA, ("v",)), SCHEMA)
    kernel.batch(rows(1), watermark=5_000)
    kernel.batch([*rows(2, ahead=True), *rows(3)], watermark=9_000)
    assert came(kernel) == [(1, 5_000), (2, 5_000), (3, 9_000)]


def test_the_end_of_the_input_is_a_time_of_sql() -> None:
    kernel = KernelHarness(CurrentWatermarkKernel(SCHEMA, ("v",)), SCHEMA)
    kernel.batch(rows(1), watermark=END_OF_TIME)
    assert came(kernel) == [(1, END_OF_INPUT)]
