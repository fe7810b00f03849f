"""Random window queries, each as SQL and as the model that says what comes out, and random streams to feed them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sqlstream.udfs import assigners, evictors
from sqlstream.udfs import triggers as kernels
from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.kernel import KEY_HASH, Domain, Kernel
from sqlstream.udfs.windows.emission import Lateness
from sqlstream.udfs.windows.operator import WindowKernel
from tests.model import triggers
from tests.model.operator import Evictor, Operator, Result, evict_delta, keep_interval, keep_rows
from tests.model.triggers import EVENT, PROCESSING, Row, Trigger
from tests.model.windows import Cumulate, Global, Hop, Session, Tumble, Window

TABLE = """
CREATE TABLE events (
    k STRING, ts TIMESTAMP_LTZ(3), v BIGINT, n BIGINT, WATERMARK FOR ts AS ts
) WITH ('connector' = 'test');
"""
COLUMNS = ("k", "ts", "v", "n")
SELECTED = "COUNT(*) AS c, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi, FIRST_VALUE(n) AS f, COLLECT_LIST(n) AS ns"


def selected(rows: list[Row]) -> Result:
    """What ``SELECTED`` is of the rows of a window."""
    values = [row["v"] for row in rows if row["v"] is not None]
    return (
        len(rows),
        sum(values) if values else None,
        min(values, default=None),
        max(values, default=None),
        rows[0]["n"],
        [row["n"] for row in rows],
    )


@dataclass(frozen=True)
class Clause:
    """A piece of SQL, what it stands for in the model, and the part of a kernel that it becomes."""

    text: str
    meaning: Any
    part: Any


@dataclass(frozen=True)
class Query:
    """``grouping`` follows the key in GROUP BY, ``clauses`` stand behind it."""

    grouping: str
    clauses: tuple[str, ...]
    model: Callable[[], Operator] = field(repr=False)
    kernel: Kernel = field(repr=False)

    @property
    def sql(self) -> str:
        select = f"SELECT k, window_start, window_end, {SELECTED} FROM events GROUP BY k"
        return " ".join([f"{select}{self.grouping}", *self.clauses])


TIME = "ts"
MS = 1000
"""Microseconds."""


def milliseconds(count: int) -> str:
    return f"INTERVAL '{count}' MILLISECOND"


# --- kernels --------------------------------------------------------------------------------------------------

_ABOVE = range(3, 10)
_NUMBERS = range(7)
INPUT = pa.schema(
    [
        ("k", pa.string()),
        (TIME, pa.int64()),
        ("v", pa.int64()),
        ("n", pa.int64()),
        *((f"above_{n}", pa.bool_()) for n in _ABOVE),
        *((f"number_{n}", pa.int64()) for n in _NUMBERS),
        (KEY_HASH, pa.int64()),
    ]
)
AGGREGATES = Aggregates(
    (
        AggregateCall("c", "count", (), pa.int64()),
        AggregateCall("s", "sum", ("v",), pa.int64()),
        AggregateCall("lo", "min", ("v",), pa.int64()),
        AggregateCall("hi", "max", ("v",), pa.int64()),
        AggregateCall("f", "first_value", ("n",), pa.int64()),
        AggregateCall("ns", "collect_list", ("n",), pa.list_(pa.int64())),
    ),
    INPUT,
)


def input_row(k: str | None, ts: int, v: int, n: int) -> dict[str, Any]:
    """A row as kernels get it: with the columns that Catalyst computes below them, in microseconds."""
    above = {f"above_{bound}": v > bound for bound in _ABOVE}
    return {"k": k, TIME: ts * 1000, "v": v, "n": n, **above, **{f"number_{i}": i for i in _NUMBERS}}


# --- windows --------------------------------------------------------------------------------------------------


TIME_WINDOWS = st.one_of(
    st.tuples(st.integers(2, 12), st.integers(-1, 1)).map(
        lambda a: Clause(
            f", TUMBLE(ts, {milliseconds(a[0])}, {milliseconds(a[1])})",
            Tumble(*a),
            assigners.Tumble(TIME, a[0] * MS, a[1] * MS),
        )
    ),
    st.tuples(st.integers(2, 6), st.integers(6, 14)).map(
        lambda a: Clause(
            f", HOP(ts, {milliseconds(a[0])}, {milliseconds(a[1])})", Hop(*a), assigners.Hop(TIME, a[0] * MS, a[1] * MS)
        )
    ),
    st.tuples(st.integers(2, 5), st.integers(1, 4)).map(lambda a: _cumulate(a[0], a[0] * a[1])),
)


def _cumulate(step: int, size: int) -> Clause:
    text = f", CUMULATE(ts, {milliseconds(step)}, {milliseconds(size)})"
    return Clause(text, Cumulate(step, size), assigners.Cumulate(TIME, step * MS, size * MS))


SESSIONS = st.integers(1, 8).map(
    lambda gap: Clause(f", SESSION(ts, {milliseconds(gap)})", Session(gap), assigners.Session(TIME, gap * MS))
)
GLOBAL = st.just(Clause(" GLOBAL WINDOW", Global(), assigners.Global()))

# --- triggers -------------------------------------------------------------------------------------------------

_every_rows = st.integers(1, 4).map(
    lambda n: Clause(f"EVERY {n} ROWS", lambda: triggers.EveryRows(n), kernels.EveryRows(n))
)
_when = st.integers(3, 9).map(
    lambda n: Clause(f"WHEN (v > {n})", lambda: triggers.When(lambda row: row["v"] > n), kernels.When(f"above_{n}"))
)
_delta = st.tuples(st.integers(0, 6), st.booleans()).map(
    lambda a: Clause(
        f"{'ABSOLUTE ' if a[1] else ''}DELTA (v) > {a[0]}",
        lambda: triggers.Delta(*a),
        kernels.Delta("v", f"number_{a[0]}", a[1]),
    )
)
_event = st.integers(2, 9).map(
    lambda i: Clause(
        f"EVERY {milliseconds(i)} EVENT TIME",
        lambda: triggers.EveryInterval(i, EVENT),
        kernels.EveryInterval(i * MS, Domain.EVENT, TIME),
    )
)
_processing = st.integers(2, 9).map(
    lambda i: Clause(
        f"EVERY {milliseconds(i)} PROCESSING TIME",
        lambda: triggers.EveryInterval(i, PROCESSING),
        kernels.EveryInterval(i * MS, Domain.PROCESSING),
    )
)
_silence = st.integers(1, 9).map(
    lambda i: Clause(
        f"AFTER {milliseconds(i)} OF SILENCE", lambda: triggers.AfterSilence(i), kernels.AfterDelay(i * MS, True)
    )
)
_pulse = st.one_of(
    _every_rows,
    _when,
    st.integers(2, 9).map(
        lambda i: Clause(f"EVERY {milliseconds(i)}", lambda: triggers.PaneInterval(i), kernels.AfterDelay(i * MS))
    ),
)


_PAIRS = {
    "OR": (triggers.Or, kernels.Or),
    "AND": (triggers.And, kernels.And),
    "THEN": (triggers.Then, kernels.Then),
}


def _combined(operands: tuple[Clause, Clause, str]) -> Clause:
    left, right, word = operands
    meaning, part = _PAIRS[word]
    return Clause(
        f"({left.text}) {word} ({right.text})",
        lambda: meaning(left.meaning(), right.meaning()),
        part(left.part, right.part),
    )


def _early_and_late(early: Clause | None, late: Clause | None) -> Clause:
    text = "AFTER WATERMARK" + (f" EARLY {early.text}" if early else "") + (f" LATE {late.text}" if late else "")
    return Clause(
        text,
        lambda: triggers.AfterWatermark(early.meaning() if early else None, late.meaning() if late else None),
        kernels.AfterWatermark(early.part if early else kernels.Never(), late.part if late else kernels.AtOnce()),
    )


_after_watermark = st.builds(_early_and_late, st.none() | _pulse, st.none() | _pulse)
_simple = st.one_of(_every_rows, _when, _delta, _silence)
_words = st.sampled_from([*_PAIRS])
ROW_TRIGGERS = st.one_of(_simple, st.tuples(_simple, _simple, _words).map(_combined))
TIME_TRIGGERS = st.one_of(ROW_TRIGGERS, _after_watermark, _event, _processing)

# --- evictors -------------------------------------------------------------------------------------------------

EVICTORS = st.one_of(
    st.integers(1, 4).map(
        lambda n: Clause(f"KEEP LAST {n} ROWS", keep_rows(n), lambda after: evictors.KeepRows(n, after))
    ),
    st.integers(1, 6).map(
        lambda i: Clause(
            f"KEEP LAST {milliseconds(i)}",
            keep_interval(i),
            lambda after: evictors.KeepInterval(i * MS, TIME, after),
        )
    ),
    st.integers(1, 5).map(
        lambda n: Clause(
            f"DELTA (v) >= {n}",
            evict_delta(n),
            lambda after: evictors.EvictDelta("v", f"number_{n}", False, after),
        )
    ),
)


# --- queries --------------------------------------------------------------------------------------------------


@st.composite
def windows_of_time(draw: st.DrawFn) -> Query:
    """Windows of time and global ones, with any trigger, accumulation, evictor and lateness."""
    window = draw(st.one_of(TIME_WINDOWS, TIME_WINDOWS, SESSIONS, GLOBAL))
    return _query(draw, window, _trigger_of(draw, window.meaning))


def _trigger_of(draw: st.DrawFn, window: Window) -> Clause | None:
    match window:
        case Global():
            return draw(ROW_TRIGGERS)
    return draw(st.none() | TIME_TRIGGERS)


def _query(draw: st.DrawFn, window: Clause, trigger: Clause | None) -> Query:
    discarding = trigger is not None and draw(st.booleans())
    evictor: Clause | None = draw(st.none() | EVICTORS)
    after = draw(st.booleans())
    allowed = 0 if isinstance(window.meaning, Global) else draw(st.sampled_from([0, 0, 3, 10]))
    clauses = []
    if trigger is not None:
        clauses.append(f"TRIGGER {trigger.text}{' DISCARDING' if discarding else ''}")
    if evictor is not None:
        clauses.append(f"EVICT {'AFTER ' if after else ''}{evictor.text}")
    if allowed:
        clauses.append(f"LATE DATA ALLOW {milliseconds(allowed)}")
    make: Callable[[], Trigger] = trigger.meaning if trigger is not None else triggers.AfterWatermark

    def model() -> Operator:
        evict: Evictor | None = evictor.meaning if evictor is not None else None
        return Operator(window.meaning, selected, make, allowed, discarding, evict, after)

    part = trigger.part if trigger is not None else kernels.AfterWatermark()
    kernel = WindowKernel(
        INPUT,
        ("k",),
        window.part,
        kernels.Purging(part) if discarding else part,
        AGGREGATES,
        evictor.part(after) if evictor is not None else None,
        Lateness(allowed * MS),
        TIME if isinstance(window.meaning, Global) else None,
    )
    return Query(window.text, tuple(clauses), model, kernel)


# --- streams --------------------------------------------------------------------------------------------------

Step = tuple[str, Any]


@st.composite
def streams(draw: st.DrawFn) -> list[Step]:
    """Steps: rows (out of order, some late), watermarks and clocks that only rise, and restarts, without the end.

    A restart has the partitions over which it spreads the state, or None.
    """
    steps: list[Step] = []
    watermark, clock, number = 0, 0, 0
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["rows", "rows", "rows", "watermark", "processing_time", "restart"]))
        if kind == "rows":
            rows = draw(
                st.lists(
                    st.tuples(
                        st.sampled_from(["a", "b", None]),
                        st.integers(watermark - 12, watermark + 25),
                        st.integers(0, 10),
                    ),
                    min_size=1,
                    max_size=9,
                )
            )
            steps.append((kind, [(k, ts, v, number + i) for i, (k, ts, v) in enumerate(rows)]))
            number += len(rows)
        elif kind == "watermark":
            watermark += draw(st.integers(1, 15))
            steps.append((kind, watermark))
        elif kind == "processing_time":
            clock += draw(st.integers(1, 12))
            steps.append((kind, clock))
        else:
            steps.append((kind, draw(st.sampled_from([3, 2, 1, None]))))
    return steps


def play(query: Query, steps: list[Step]) -> tuple[list[list[Result]], int]:
    """What comes out after each step of the stream, and how many rows were late for all their windows."""
    model = query.model()
    outputs: list[list[Result]] = []
    for kind, argument in steps:
        before = len(model.output)
        if kind == "rows":
            for values in argument:
                model.row(dict(zip(COLUMNS, values, strict=True)))
            model.reach_clock(model.clock)  # for timers set in the past: the rows of a batch come at one moment
        elif kind == "watermark":
            model.reach_watermark(argument)
        elif kind == "processing_time":
            model.reach_clock(argument)
        outputs.append(model.output[before:])
    return outputs, len(model.late)


def per_window(outputs: list[list[Result]]) -> list[dict[Result, list[Result]]]:
    """Across windows the order of results is free."""
    return [{key: [r for r in step if r[:3] == key] for key in {r[:3] for r in step}} for step in outputs]
