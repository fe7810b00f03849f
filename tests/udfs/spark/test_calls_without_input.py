"""Kernels that may hold the watermark are called in every micro-batch; a call without input skips no timer."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from sqlstream.udfs.exchange import Blob, Content, to_bytes
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.spark import Watermark
from sqlstream.udfs.spark.adapter import KernelProcessor
from sqlstream.udfs.spark.call import Clocks
from tests.udfs.spark.one_key_group import OneKeyGroup
from tests.udfs.spark.recorder import Recorder

SHIFT, END, SECOND = 1_000_000, 5_000_000, 1_000_000
CALL = Blob(0, 0, 0, Content.TICK, None)


@dataclass(frozen=True)
class Deferring(Recorder):
    """A kernel that may hold the watermark, and does not."""

    @property
    def deferring(self) -> bool:
        return True


def key_group(kernel: Recorder) -> OneKeyGroup:
    return OneKeyGroup(lambda: KernelProcessor(kernel, Clocks(Watermark.EVENT_TIME, SHIFT, END)))


def row(event_timer: int) -> Blob:
    columns = [pa.array([0]), pa.array([1], pa.int32()), pa.array([event_timer]), pa.array([None], pa.int64())]
    rows = to_bytes(pa.table(columns, [KEY_HASH, "v", "event_timer", "processing_timer"]))
    return Blob(0, 0, 0, Content.ROWS, None, None, rows)


def calls(group: OneKeyGroup, blobs: list[Blob], watermark_ms: int) -> list[tuple[bool, str]]:
    return [(ahead, values["call"]) for ahead, values in group.batch(blobs, SHIFT + watermark_ms).rows]


@pytest.mark.parametrize("kernel", [Recorder(), Deferring()], ids=["holds nothing", "may hold"])
@pytest.mark.parametrize("called", [[], [CALL], [CALL, CALL]], ids=["timer alone", "call", "two calls"])
def test_a_timer_that_is_due_fires_in_its_micro_batch_and_ahead_of_the_watermark(kernel, called):
    group = key_group(kernel)
    assert calls(group, [row(2 * SECOND), *called], 1000) == [(False, "rows 1")]
    assert calls(group, called, 1999) == []
    assert calls(group, called, 2000) == [(True, "event time")]
    assert calls(group, called, 3000) == []
    assert group.timers == set()


def test_a_call_without_input_costs_one_read_where_nothing_is_due():
    group = key_group(Deferring())
    group.batch([row(2 * SECOND)], SHIFT)
    group.asked.clear()
    assert calls(group, [CALL], 1000) == []
    assert len(group.asked) == 1


def test_a_timer_that_an_earlier_build_let_pass_fires_at_the_next_call():
    """It called the kernel for no timer of Spark, which forgot them; the entry still has them."""
    group = key_group(Deferring())
    group.batch([row(2 * SECOND)], SHIFT)
    group.timers.clear()
    group.forgets = True
    assert calls(group, [CALL], 3000) == [(True, "event time")]
