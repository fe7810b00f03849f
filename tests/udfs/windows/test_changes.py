"""Windows over rows that come and go, in all kernels that take them, against the plain model of windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs import assigners, triggers
from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, Domain, Kernel
from sqlstream.udfs.windows.aligned import AlignedWindows
from sqlstream.udfs.windows.emission import Lateness
from sqlstream.udfs.windows.operator import WindowKernel
from sqlstream.udfs.windows.sessions import SessionKernel
from tests.depth import depth
from tests.model import triggers as model_triggers
from tests.model.operator import Operator, Result
from tests.model.triggers import Row
from tests.model.windows import Cumulate, Hop, Session, Tumble, Window

MS = 1000
SCHEMA = pa.schema([
    ("k", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("t", pa.string()), (ROW_KIND, pa.string()),
    (KEY_HASH, pa.int64()),
])  # fmt: skip
CALLS = {
    "c": AggregateCall("c", "count", (), pa.int64()),
    "s": AggregateCall("s", "sum", ("v",), pa.int64()),
    "lo": AggregateCall("lo", "min", ("v",), pa.int64()),
    "hi": AggregateCall("hi", "max", ("t",), pa.string()),
    "d": AggregateCall("d", "count", ("v",), pa.int64(), distinct=True),
    "vs": AggregateCall("vs", "collect_list", ("v",), pa.list_(pa.int64())),
    "ts": AggregateCall("ts", "listagg", ("t",), pa.string(), constants=(",",), distinct=True),
    "f": AggregateCall("f", "first_value", ("t",), pa.string()),
}
ORDERED = {"vs", "ts", "f"}
AGGREGATES = Aggregates(tuple(CALLS.values()), SCHEMA, updating=True, identified_by=("ts",))
UNORDERED = Aggregates(tuple(c for c in CALLS.values() if c.name not in ORDERED), SCHEMA, updating=True)

# --- the model ------------------------------------------------------------------------------------------------


def left(rows: list[Row], column: str) -> list[Any]:
    """The values of rows that have come and not gone: of equal ones of a time the last goes."""
    found: list[Any] = []
    early: Counter[Any] = Counter()
    for row in rows:
        value = row[column], row["ts"]
        if row["kind"] in ("+I", "+U"):
            found.append(value)
        elif value in found:
            del found[max(i for i, other in enumerate(found) if other == value)]
        else:
            early[value] += 1
    for value, times in early.items():
        for _ in range(min(times, found.count(value))):
            found.remove(value)
    return [value for value, _ in found]


def expected(rows: list[Row]) -> Result:
    """Of ``CALLS``, in order."""
    signs = [1 if row["kind"] in ("+I", "+U") else -1 for row in rows]
    numbers = [(sign, row["v"]) for sign, row in zip(signs, rows, strict=True) if row["v"] is not None]
    values = [v for v in left(rows, "v") if v is not None]
    texts = left(rows, "t")
    times: Counter[Any] = Counter()
    for sign, row in zip(signs, rows, strict=True):
        times["v", row["v"]] += sign
        times["t", row["t"]] += sign
    there = {name: [value for of, value in +times if of == name and value is not None] for name in "vt"}
    return (
        sum(signs),
        sum(sign * v for sign, v in numbers) if sum(sign for sign, _ in numbers) > 0 else None,
        min(there["v"], default=None),
        max(there["t"], default=None),
        len(there["v"]),
        values,
        ",".join(dict.fromkeys(texts)) if texts else None,
        texts[0] if texts else None,
    )


@st.composite
def scripts(draw: Any) -> list[tuple[str, Any]]:
    """Micro-batches of rows, of which some withdraw earlier ones, and watermarks. Some withdraw what never came."""
    steps: list[tuple[str, Any]] = []
    held: list[tuple[Any, ...]] = []
    watermark, number = 0, 0
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 3)) == 0:
            watermark += draw(st.integers(1, 15))
            steps.append(("watermark", watermark))
            continue
        batch = []
        for _ in range(draw(st.integers(1, 8))):
            goes = bool(held) and draw(st.booleans())
            row = held.pop(draw(st.integers(0, len(held) - 1))) if goes else draw(_rows(watermark))
            goes = goes or draw(st.integers(0, 15)) == 0
            if not goes:
                held.append(row)
            kind = draw(st.sampled_from(["-U", "-D"] if goes else ["+I", "+U"]))
            batch.append(dict(zip(("k", "ts", "v", "t"), row, strict=True)) | {"kind": kind, "n": number})
            number += 1
        steps.append(("rows", batch))
    return steps


def _rows(watermark: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(watermark - 8, watermark + 20),
        st.sampled_from([0, 1, 2, None]),
        st.sampled_from(["p", "q", "r"]),
    )


def play(model: Operator, steps: list[tuple[str, Any]]) -> tuple[list[list[Result]], int]:
    outputs = []
    for kind, argument in [*steps, ("watermark", 10**6)]:
        before = len(model.output)
        if kind == "watermark":
            model.reach_watermark(argument)
        else:
            for row in argument:
                model.row(row)
        outputs.append([result for result in model.output[before:] if result[3] > 0])
    return outputs, len(model.late)


def run(kernel: Kernel, steps: list[tuple[str, Any]], **options: Any) -> tuple[list[list[Result]], int]:
    harness = KernelHarness(kernel, SCHEMA, ["k"], **options)
    outputs = []
    for kind, argument in [*steps, ("watermark", 10**6)]:
        if kind == "watermark":
            harness.watermark(argument * MS)
        else:
            harness.rows([input_row(row) for row in argument])
        outputs.append([tuple(_milliseconds(*value) for value in row.items()) for row in harness.output()])
    assert not any(store.size for store in harness.stores), "nothing stays of windows that are over"
    return outputs, harness.counters["late_rows"]


def input_row(row: Row) -> dict[str, Any]:
    return {"k": row["k"], "ts": row["ts"] * MS, "v": row["v"], "t": row["t"], ROW_KIND: row["kind"]}


def _milliseconds(name: str, value: Any) -> Any:
    return value // MS if name in ("window_start", "window_end") else value


def sorted_(outputs: list[list[Result]]) -> list[list[Result]]:
    return [sorted(step, key=repr) for step in outputs]


OPTIONS = st.fixed_dictionaries({
    "groups": st.sampled_from([1, 3]), "restarts": st.booleans(), "arrow_rows": st.sampled_from([1, 3, 10_000])
})  # fmt: skip

WINDOWS: dict[str, tuple[Window, Any]] = {
    "tumble": (Tumble(7, 1), assigners.Tumble("ts", 7 * MS, MS)),
    "hop": (Hop(3, 10), assigners.Hop("ts", 3 * MS, 10 * MS)),
    "cumulate": (Cumulate(4, 12), assigners.Cumulate("ts", 4 * MS, 12 * MS)),
    "session": (Session(4), assigners.Session("ts", 4 * MS)),
}
each_window = pytest.mark.parametrize("window", WINDOWS)


@pytest.mark.parametrize("window", ["tumble", "hop", "cumulate"])
@settings(max_examples=depth(12, 25))
@given(steps=scripts(), options=OPTIONS)
def test_panes_take_rows_back(window, steps, options):
    model, assigner = WINDOWS[window]
    function = AGGREGATES if window == "tumble" else UNORDERED
    outputs, late = run(AlignedWindows(("k",), assigner, function), steps, **options)
    wanted, counted = play(Operator(model, expected), steps)
    names = ["k", "start", "end", *CALLS]
    chosen = [i for i, name in enumerate(names) if window == "tumble" or name not in ORDERED]
    assert sorted_(outputs) == sorted_([[tuple(row[i] for i in chosen) for row in step] for step in wanted])
    assert late == counted


@settings(max_examples=depth(25, 50))
@given(steps=scripts(), options=OPTIONS)
def test_sessions_take_rows_back(steps, options):
    model, assigner = WINDOWS["session"]
    kernel = SessionKernel(SCHEMA, ("k",), assigner, AGGREGATES)
    outputs, late = run(kernel, steps, **options)
    wanted, counted = play(Operator(model, expected), steps)
    assert (sorted_(outputs), late) == (sorted_(wanted), counted)


FIRINGS: dict[str, tuple[Any, Any]] = {
    "at the end": (model_triggers.AfterWatermark, triggers.AfterWatermark()),
    "every 3 rows": (lambda: model_triggers.EveryRows(3), triggers.EveryRows(3)),
    "early": (
        lambda: model_triggers.AfterWatermark(model_triggers.EveryRows(2), None),
        triggers.AfterWatermark(triggers.EveryRows(2)),
    ),
}


@each_window
@pytest.mark.parametrize("firing", FIRINGS)
@settings(max_examples=depth(8, 15))
@given(steps=scripts(), options=OPTIONS, allowed=st.sampled_from([0, 0, 9]))
def test_any_trigger_sees_what_is_left(window, firing, steps, options, allowed):
    (model, assigner), (make, trigger) = WINDOWS[window], FIRINGS[firing]
    kernel = WindowKernel(SCHEMA, ("k",), assigner, trigger, AGGREGATES, lateness=Lateness(allowed * MS))
    outputs, late = run(kernel, steps, **options)
    wanted, counted = play(Operator(model, expected, make, allowed), steps)
    assert (sorted_(outputs), late) == (sorted_(wanted), counted)


@each_window
@settings(max_examples=depth(12, 25))
@given(steps=scripts(), options=OPTIONS)
def test_retracted_results_come_to_those_at_the_end(window, steps, options):
    """Each change withdraws what was there; results of windows that are empty go."""
    model, assigner = WINDOWS[window]
    kernel = WindowKernel(
        SCHEMA, ("k",), assigner, triggers.AfterWatermark(triggers.EveryRows(1)), AGGREGATES,
        lateness=Lateness(10**6 * MS), retracting=True, row_kinds=True,
    )  # fmt: skip
    harness = KernelHarness(kernel, SCHEMA, ["k"], **options)
    shown: Counter[str] = Counter()
    operator = Operator(model, expected, lambda: model_triggers.EveryRows(1), 10**6)
    for kind, argument in steps:
        if kind == "watermark":
            harness.watermark(argument * MS)
            operator.reach_watermark(argument)
        else:
            harness.rows([input_row(row) for row in argument])
            for row in argument:
                operator.row(row)
        for row in harness.output():
            kind = row.pop(ROW_KIND)
            result = repr([_milliseconds(*value) for value in row.items()])
            assert kind in ("+I", "+U") or shown[result] == 1, "what is withdrawn was there"
            shown[result] += 1 if kind in ("+I", "+U") else -1
        there = [(i.key, i.start, i.end, *expected(i.rows)) for i in operator.instances.values()]
        assert +shown == Counter(repr(list(result)) for result in there if result[3] > 0)


# --- processing time: what goes counts where it goes --------------------------------------------------------------


TICK = 10 * MS
"""The unit of clocks and windows: in the last millisecond of a window of processing time it takes no more rows."""

BY_CLOCK = Aggregates(tuple(CALLS.values()), SCHEMA, updating=True)
CLOCKED: dict[str, tuple[Window, Any]] = {
    "tumble": (Tumble(7, 1), assigners.Tumble(None, 7 * TICK, TICK, domain=Domain.PROCESSING)),
    "hop": (Hop(3, 10), assigners.Hop(None, 3 * TICK, 10 * TICK, domain=Domain.PROCESSING)),
    "cumulate": (Cumulate(4, 12), assigners.Cumulate(None, 4 * TICK, 12 * TICK, domain=Domain.PROCESSING)),
    "session": (Session(4), assigners.Session(None, 4 * TICK, Domain.PROCESSING)),
}


def kernels_of(window: str) -> Iterator[tuple[Kernel, bool]]:
    """Each kernel that computes the window, and whether it knows the order of rows."""
    assigner = CLOCKED[window][1]
    if window == "session":
        yield SessionKernel(SCHEMA, ("k",), assigner, BY_CLOCK), True
    else:
        function = BY_CLOCK if window == "tumble" else UNORDERED
        yield AlignedWindows(("k",), assigner, function), window == "tumble"
    yield WindowKernel(SCHEMA, ("k",), assigner, triggers.AfterProcessingTime(), BY_CLOCK), True


def at_arrival(steps: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The script with rows of the times at which they arrive, with a clock one tick ahead of the watermark."""
    clock, clocked = 0, list[tuple[str, Any]]()
    for kind, argument in steps:
        clock = argument + 1 if kind == "watermark" else clock
        clocked.append((kind, [row | {"ts": clock} for row in argument] if kind == "rows" else argument))
    return clocked


def of_equal_values(rows: list[Row]) -> Result:
    return expected([Row(row, ts=0) for row in rows])


def run_by_clock(kernel: Kernel, steps: list[tuple[str, Any]], **options: Any) -> list[list[Result]]:
    harness = KernelHarness(kernel, SCHEMA, ["k"], **options)
    outputs = []
    for kind, argument in [*steps, ("watermark", 10**6)]:
        if kind == "watermark":
            harness.processing_time((argument + 1) * TICK)
        else:
            harness.rows([input_row(row) for row in argument])
        outputs.append([tuple(_ticks(*value) for value in row.items()) for row in harness.output()])
    assert not any(store.size for store in harness.stores), "nothing stays of windows that are over"
    return outputs


def _ticks(name: str, value: Any) -> Any:
    return value // TICK if name in ("window_start", "window_end") else value


@pytest.mark.parametrize("window", CLOCKED)
@settings(max_examples=depth(10, 25))
@given(steps=scripts(), options=OPTIONS)
def test_in_processing_time_rows_go_in_the_windows_in_which_that_is_said(window, steps, options):
    steps = at_arrival(steps)
    wanted, _ = play(Operator(CLOCKED[window][0], of_equal_values), steps)
    names = ["k", "start", "end", *CALLS]
    for kernel, ordered in kernels_of(window):
        chosen = [i for i, name in enumerate(names) if ordered or name not in ORDERED]
        of_kernel = [[tuple(row[i] for i in chosen) for row in step] for step in wanted]
        assert sorted_(run_by_clock(kernel, steps, **options)) == sorted_(of_kernel), type(kernel).__name__


# --- facts ----------------------------------------------------------------------------------------------------


def harness_of(kernel: Kernel) -> KernelHarness:
    return KernelHarness(kernel, SCHEMA, ["k"], restarts=True)


def row(kind: str, ts: int, v: int = 1, t: str = "p") -> dict[str, Any]:
    return {"k": "a", "ts": ts * MS, "v": v, "t": t, ROW_KIND: kind}


def test_a_session_whose_rows_cancel_out_emits_nothing_and_holds_its_neighbours_together():
    harness = harness_of(SessionKernel(SCHEMA, ("k",), assigners.Session("ts", 5 * MS), UNORDERED))
    harness.rows([row("+I", 0), row("+I", 4, 2), row("+I", 8, 3), row("+I", 30)])
    harness.rows([row("-D", 4, 2), row("-D", 30)])
    harness.finish()
    (found,) = harness.output()
    assert (found["window_start"], found["window_end"], found["c"], found["s"]) == (0, 13 * MS, 2, 4)


def test_a_row_that_goes_behind_the_watermark_is_late():
    harness = harness_of(AlignedWindows(("k",), assigners.Tumble("ts", 10 * MS), UNORDERED))
    harness.rows([row("+I", 1), row("+I", 12)])
    harness.watermark(10 * MS)
    assert [found["c"] for found in harness.output()] == [1]
    harness.rows([row("-D", 1), row("-U", 12)])
    harness.finish()
    assert harness.output() == []
    assert harness.counters["late_rows"] == 1


def test_the_bounds_of_a_global_window_are_those_of_the_rows_that_are_left():
    kernel = WindowKernel(SCHEMA, ("k",), assigners.Global(), triggers.EveryRows(2), UNORDERED, time="ts")
    harness = harness_of(kernel)
    harness.rows([row("+I", 1), row("+I", 5), row("+I", 9), row("-D", 1)])
    found = [(r["window_start"] // MS, r["window_end"] // MS, r["c"]) for r in harness.output()]
    assert found == [(1, 6, 2), (5, 10, 2)]
    harness.rows([row("-D", 5), row("-D", 9)])
    assert harness.output() == []


def test_what_comes_again_stands_at_the_end_wherever_batches_end():
    kernel = AlignedWindows(("k",), assigners.Tumble("ts", 10 * MS), AGGREGATES)
    changes = [row("+I", 1, 1), row("+I", 1, 1), row("+I", 1, 2), row("-U", 1, 1), row("+U", 1, 1), row("+I", 1, 3)]
    for size in (1, 2, 3, 6):
        harness = harness_of(kernel)
        for begin in range(0, len(changes), size):
            harness.rows(changes[begin : begin + size])
        harness.finish()
        assert [found["vs"] for found in harness.output()] == [[1, 2, 1, 3]]
