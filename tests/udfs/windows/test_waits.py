"""How many rows wait in open windows, and until when: each kernel against the rows of a plain model."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners import Cumulate, Global, Hop, Session, Tumble
from sqlstream.udfs.evictors import KeepRows
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import KEY_HASH, Domain, Kernel, Pending, Wait
from sqlstream.udfs.triggers import AtWatermark, EveryRows, Or, Purging
from sqlstream.udfs.windows.aligned import AlignedWindows
from sqlstream.udfs.windows.cut_sessions import CutSessionKernel
from sqlstream.udfs.windows.emission import Lateness, LateRows
from sqlstream.udfs.windows.operator import WindowKernel
from sqlstream.udfs.windows.row_measured import LastRows, RowMeasuredKernel
from sqlstream.udfs.windows.sessions import SessionKernel

MS = 1000
SCHEMA = pa.schema([(KEY_HASH, pa.int64()), ("k", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
COUNT = Aggregates((AggregateCall("n", "count", ("k",), pa.int64()),), SCHEMA)
KEYS = ("k",)
GAP = 4 * MS
TUMBLE, HOP, CUMULATE = Tumble("ts", 10 * MS), Hop("ts", 4 * MS, 10 * MS), Cumulate("ts", 5 * MS, 10 * MS)
SESSION = Session("ts", GAP)

Rows = list[tuple[str, int]]


def general(assigner, evictor=None, lateness: int = 0) -> Kernel:
    return WindowKernel(SCHEMA, KEYS, assigner, AtWatermark(), COUNT, evictor, Lateness(lateness * MS, LateRows.DROP))


def aligned(assigner) -> Kernel:
    return AlignedWindows(KEYS, assigner, COUNT)


def last_end(assigner, time: int) -> int:
    """The end of the last window that holds a time, in milliseconds."""
    size, step = assigner.size // MS, {Tumble: 10, Hop: 4, Cumulate: 10}[type(assigner)]
    return int(time - time % step + size)


def open_until(assigner, rows: Rows) -> list[int]:
    """For each row the watermark that closes its last window, all rows having come in time."""
    if not isinstance(assigner, Session):
        return [last_end(assigner, time) - 1 for _, time in rows]
    by_key: dict[str, list[int]] = defaultdict(list)
    for key, time in rows:
        by_key[key].append(time)
    collected = []
    for times in by_key.values():
        members: list[int] = []
        for time in sorted(times):
            if members and time > members[-1] + GAP // MS:
                collected += [members[-1] + GAP // MS - 1] * len(members)
                members = []
            members.append(time)
        collected += [members[-1] + GAP // MS - 1] * len(members)
    return collected


KERNELS = {
    "aligned tumble": (aligned(TUMBLE), TUMBLE),
    "aligned hop": (aligned(HOP), HOP),
    "aligned cumulate": (aligned(CUMULATE), CUMULATE),
    "general tumble": (general(TUMBLE), TUMBLE),
    "general hop": (general(HOP), HOP),
    "general cumulate": (general(CUMULATE), CUMULATE),
    "general hop, rows kept": (general(HOP, KeepRows(2)), HOP),
    "general tumble, late rows allowed": (general(TUMBLE, lateness=100), TUMBLE),
    "sessions": (SessionKernel(SCHEMA, KEYS, SESSION, COUNT), SESSION),
    "general sessions": (general(SESSION), SESSION),
    "cut sessions": (CutSessionKernel(SCHEMA, KEYS, SESSION, COUNT), SESSION),
}


@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=12)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=12),
    watermark=st.integers(0, 70),
    cut=st.integers(0, 12),
    restarts=st.booleans(),
)
def test_rows_wait_until_their_last_window_closes(name, rows, watermark, cut, restarts):
    kernel, assigner = KERNELS[name]
    harness = KernelHarness(kernel, SCHEMA, KEYS, groups=2, restarts=restarts)
    for part in (rows[:cut], rows[cut:]):
        harness.rows([{"k": key, "ts": time * MS} for key, time in part])
    harness.watermark(watermark * MS)
    waiting = [time for time in open_until(assigner, rows) if time > watermark]
    actual = harness.waits()
    assert sum(wait.count for wait in actual) == len(waiting)
    for wait in actual:
        assert (wait.what, wait.domain, wait.last) == (Pending.ROWS_IN_WINDOWS, Domain.EVENT, max(waiting) * MS)
        assert watermark * MS < wait.first <= min(waiting) * MS
    harness.finish()
    assert harness.waits() == ()


def test_rows_that_a_firing_has_purged_wait_no_more():
    trigger = Or(Purging(EveryRows(3)), AtWatermark())
    kernel = WindowKernel(SCHEMA, KEYS, HOP, trigger, COUNT)
    harness = KernelHarness(kernel, SCHEMA, KEYS)
    for count, waiting in [(2, 2), (2, 1), (4, 2), (1, 0)]:
        harness.rows([{"k": "a", "ts": 9 * MS}] * count)
        assert sum(wait.count for wait in harness.waits()) == waiting
        harness.restart()


def test_a_window_without_end_waits_for_no_time():
    kernel = WindowKernel(SCHEMA, KEYS, Global(), EveryRows(3), COUNT)
    harness = KernelHarness(kernel, SCHEMA, KEYS)
    harness.rows([{"k": "a", "ts": 9 * MS}])
    assert harness.waits() == ()


def test_rows_of_the_last_rows_wait_until_the_clock_has_counted_them():
    kernel = RowMeasuredKernel(SCHEMA, KEYS, "ts", LastRows(2, 10 * MS), COUNT)
    harness = KernelHarness(kernel, SCHEMA, KEYS)
    harness.rows([{"k": "a", "ts": time * MS} for time in (1, 12, 14)])
    assert harness.waits() == (Wait(Pending.ROWS_IN_WINDOWS, Domain.EVENT, 3, 9 * MS, 19 * MS),)
    harness.watermark(9 * MS)
    assert harness.waits() == (Wait(Pending.ROWS_IN_WINDOWS, Domain.EVENT, 2, 19 * MS, 19 * MS),)


def test_windows_of_processing_time_wait_for_the_clock():
    kernel = AlignedWindows(KEYS, Tumble(None, 10 * MS, domain=Domain.PROCESSING), COUNT)
    harness = KernelHarness(kernel, SCHEMA, KEYS, processing_time=3 * MS)
    harness.rows([{"k": "a", "ts": 0}, {"k": "a", "ts": 0}])
    assert harness.waits() == (Wait(Pending.ROWS_IN_WINDOWS, Domain.PROCESSING, 2, 9 * MS, 9 * MS),)
