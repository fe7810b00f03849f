"""The kernel of ALIGN BARRIERS in the harness, against a model item by item."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import ExecutionError
from sqlstream.udfs.barriers.alignment import MarkKind
from sqlstream.udfs.barriers.kernel import ALIGNED, Barriers
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import BARRIER, END_OF_TIME, KEY_HASH
from tests.udfs.barriers.model import Aligning, Tracking

SCHEMA = pa.schema([
    ("v", pa.int64()), ("__time", pa.int64()), ("__channel", pa.string()), ("__kind", pa.int32()),
    ("__barrier_id", pa.int64()), (KEY_HASH, pa.int64()),
])  # fmt: skip
KINDS = {"row": MarkKind.ROW, "marker": MarkKind.MARKER, "cancel": MarkKind.CANCEL, "end": MarkKind.END}


def barriers(channels=2, **options):
    return Barriers(SCHEMA, channels, **{"time": "__time", "emits_barriers": True, **options})


def harness(kernel, **options):
    return KernelHarness(kernel, SCHEMA, **options)


def rows_of(items, time=None):
    return [
        {
            "v": value if kind == "row" else None,
            "__time": value if kind == "row" and time is None else time,
            "__channel": f"c{channel}",
            "__kind": int(KINDS[kind]),
            "__barrier_id": None if kind in ("row", "end") else value,
        }
        for kind, channel, value in items
    ]


def out(actual):
    """As the models write it."""
    return [("aligned", r[BARRIER]) if r[BARRIER] is not None else (r["v"], r[ALIGNED]) for r in actual.output()]


def row(channel, value):
    return "row", channel, value


def marker(channel, barrier):
    return "marker", channel, barrier


def cancel(channel, barrier):
    return "cancel", channel, barrier


# --- against models -------------------------------------------------------------------------------------------


CHANNELS = 3
ITEMS = st.tuples(
    st.sampled_from(["row", "row", "row", "marker", "marker", "cancel", "end"]),
    st.integers(0, CHANNELS - 1),
    st.integers(1, 6),
)
STEPS = st.lists(st.lists(ITEMS, max_size=14) | st.just("time out"), max_size=6)


def with_ends(steps):
    """Channels end in few examples, as all is aligned behind their ends; one that has ended brings nothing more."""
    ended: set[int] = set()
    return [step if step == "time out" else list(_until_ends(step, ended)) for step in steps]


def _until_ends(step, ended):
    for kind, channel, value in step:
        if channel in ended or (kind == "end" and value != 1):
            continue
        if kind == "end":
            ended.add(channel)
        yield kind, channel, value


def compare(model, kernel, steps, restarts):
    driven = harness(kernel, restarts=restarts)
    clock = 0
    for step in steps:
        if step == "time out":
            clock += 100
            driven.processing_time(clock)
            model.time_out()
        elif step:
            driven.rows(rows_of(step))
            model.batch(step)
    driven.finish()
    model.finish()
    assert out(driven) == model.out


@settings(max_examples=300)
@given(STEPS.map(with_ends), st.booleans())
def test_alignment_is_that_of_the_model(steps, restarts):
    compare(Aligning(CHANNELS), barriers(CHANNELS, timeout=50), steps, restarts)


@settings(max_examples=300)
@given(STEPS.map(with_ends), st.booleans())
def test_tracking_is_that_of_the_model(steps, restarts):
    compare(Tracking(CHANNELS), barriers(CHANNELS, exactly_once=False, timeout=50), steps, restarts)


def test_of_more_than_fifty_pending_barriers_the_oldest_is_forgotten():
    items = [marker(0, barrier) for barrier in range(1, 52)] + [marker(1, 1), marker(1, 2)]
    compare(model := Tracking(2), barriers(exactly_once=False), [items], restarts=False)
    assert model.out == [("aligned", 2)]


# --- what is held ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
def test_rows_behind_a_marker_wait_for_the_others(restarts):
    driven = harness(barriers(), restarts=restarts)
    driven.rows(rows_of([row(0, 1), marker(0, 7), row(0, 2), row(1, 3)]))
    assert out(driven) == [(1, None), (3, None)]
    driven.rows(rows_of([row(0, 4), row(1, 5)]))
    assert out(driven) == [(5, None)]
    driven.rows(rows_of([marker(1, 7), row(1, 6)]))
    assert out(driven) == [("aligned", 7), (2, 7), (4, 7), (6, 7)]


def test_held_rows_hold_the_watermark_until_the_micro_batch_after_they_went_on():
    driven = harness(barriers())
    driven.rows(rows_of([marker(0, 1), row(0, 50), row(0, 40), row(1, 10)]))
    driven.watermark(100)
    assert (driven.watermark_above, driven.held_rows) == (39, 2)
    driven.rows(rows_of([marker(1, 1)]))
    assert out(driven) == [(10, None), ("aligned", 1), (50, 1), (40, 1)]
    assert driven.watermark_above == 39  # they come behind the watermark of their micro-batch
    driven.batch()
    assert (driven.watermark_above, driven.held_rows) == (100, 0)


def test_a_row_that_was_late_already_holds_no_watermark_back():
    driven = harness(barriers())
    driven.rows(rows_of([marker(0, 1)]))
    driven.watermark(100)
    driven.rows(rows_of([row(0, 40)]))
    driven.watermark(200)
    assert driven.watermark_above == 100


def test_a_marker_alone_holds_no_watermark():
    driven = harness(barriers())
    driven.rows(rows_of([marker(0, 1), marker(0, 2)], time=5))
    driven.watermark(100)
    assert driven.watermark_above == 100


def test_nothing_is_held_when_the_input_has_ended():
    driven = harness(barriers())
    driven.rows(rows_of([marker(0, 1), row(0, 4), marker(0, 2), row(0, 5)]))
    assert out(driven) == []
    driven.watermark(END_OF_TIME)
    assert out(driven) == [(4, None), (5, None)]
    assert (driven.watermark_above, driven.held_rows) == (END_OF_TIME, 0)


def test_at_least_once_holds_nothing():
    driven = harness(barriers(exactly_once=False))
    driven.rows(rows_of([marker(0, 1), row(0, 4)]))
    assert out(driven) == [(4, None)]
    driven.rows(rows_of([marker(0, 2), marker(1, 1), row(0, 5), marker(1, 2), row(0, 6)]))
    assert out(driven) == [("aligned", 1), (5, 1), ("aligned", 2), (6, 2)]


def test_barriers_are_not_told_where_nobody_asks():
    driven = harness(barriers(1, emits_barriers=False))
    driven.rows(rows_of([row(0, 1), marker(0, 7), row(0, 2)]))
    assert driven.output() == [{"v": 1, ALIGNED: None}, {"v": 2, ALIGNED: 7}]


def test_a_time_out_begins_with_the_first_marker():
    driven = harness(barriers(timeout=50))
    driven.batch(rows_of([marker(0, 1), row(0, 2)]), processing_time=10)
    driven.processing_time(59)
    assert out(driven) == []
    driven.processing_time(60)
    assert out(driven) == [(2, None)]
    driven.rows(rows_of([marker(1, 1), row(1, 3)]))
    assert out(driven) == [(3, None)]


def test_appending_to_what_is_held_reads_none_of_it():
    driven = harness(barriers())
    driven.rows(rows_of([marker(0, 1), *(row(0, v) for v in range(10_000))]))
    before = driven.traffic.bytes_read
    driven.rows(rows_of([row(0, 1), row(1, 2)]))
    assert driven.traffic.bytes_read - before < 1_000


# --- errors ---------------------------------------------------------------------------------------------------


def refused(actual, items):
    with pytest.raises(ExecutionError) as error:
        actual.rows(items)
    return str(error.value)


def test_more_channels_than_declared_are_an_error():
    message = refused(harness(barriers()), rows_of([row(0, 1), row(1, 1), row(2, 1)]))
    assert message.startswith('SS445: "c2" is another channel than the 2 of ALIGN BARRIERS: c0, c1')


def test_a_row_without_a_channel_is_an_error():
    items = rows_of([row(0, 1)])
    assert refused(harness(barriers()), [{**items[0], "__channel": None}]).startswith(
        "SS445: the CHANNEL of a row is NULL"
    )


@pytest.mark.parametrize("kind", ["marker", "cancel"])
def test_a_mark_without_an_id_is_an_error(kind):
    assert refused(harness(barriers()), rows_of([(kind, 0, None)])).startswith("SS446: the ID of a barrier is NULL")


def test_the_bound_on_held_rows_fails_and_keeps_the_state():
    driven = harness(barriers(3, most_held=3))
    driven.rows(rows_of([row(2, 0), marker(0, 5), row(0, 1), row(0, 2), row(0, 3)]))
    kept = driven.snapshot()
    message = refused(driven, rows_of([row(0, 4)]))
    assert message.startswith("SS447: 4 rows are held while channels are aligned, more than 3: barrier 5 waits for c2")
    assert "sqlstream.barriers.max-buffered-rows" in message
    driven.restore(kept)
    driven.rows(rows_of([cancel(1, 5)]))
    assert out(driven) == [(0, None), (1, None), (2, None), (3, None)]
