"""Random windows as kernels, and random streams to feed them: all windows, triggers, evictors and kinds of lateness.

Everything is drawn by number, so that a case is known by its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from sqlstream.udfs import assigners, evictors, triggers
from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.assigners import Assigner
from sqlstream.udfs.assigners.user import AssignerContext, Window
from sqlstream.udfs.evictors import Evictor, EvictorContext
from sqlstream.udfs.harness import key_hashes
from sqlstream.udfs.kernel import KEY_HASH, Domain, Kernel
from sqlstream.udfs.triggers.user import TriggerContext, TriggerResult
from sqlstream.udfs.windows.aligned import AlignedWindows
from sqlstream.udfs.windows.counted import CountWindows
from sqlstream.udfs.windows.cut_sessions import CutSessionKernel
from sqlstream.udfs.windows.emission import Lateness, LateRows
from sqlstream.udfs.windows.operator import WindowKernel
from sqlstream.udfs.windows.ranges import AllRows
from sqlstream.udfs.windows.row_measured import EveryRows, LastRows, RowMeasuredKernel
from sqlstream.udfs.windows.sessions import SessionKernel

MS = 1000
TIME = "ts"
COLUMNS = pa.schema(
    [
        ("k", pa.string()),
        (TIME, pa.int64()),
        ("v", pa.int64()),
        ("n", pa.int64()),
        ("text", pa.string()),
        ("gap", pa.int64()),
        ("opens", pa.bool_()),
        ("closes", pa.bool_()),
        ("high", pa.bool_()),
        ("limit", pa.int64()),
    ]
)
INPUT = COLUMNS.append(pa.field(KEY_HASH, pa.int64()))
KEYS = ("k",)

# --- classes of users -------------------------------------------------------------------------------------------


class Texts:
    """An aggregate that shows the order of its rows."""

    def create(self) -> str:
        return ""

    def accumulate(self, state: str, value: int | None) -> str:
        return f"{state}/{value}"

    def merge(self, state: str, other: str) -> str:
        return state + other

    def finish(self, state: str) -> str:
        return state


class Gap:
    """Sessions whose gap is the row's own."""

    merging = True

    def assign(self, row: Any, time: int, context: AssignerContext) -> list[Window]:
        return [Window(time, time + row.gap // MS)]


class TwoWindows:
    """Windows that do not merge, two for each row but those of no key."""

    def assign(self, row: Any, time: int, context: AssignerContext) -> list[Window]:
        if row.k is None:
            return []
        start = time - time % 4
        return [Window(start, start + 4), Window(start, start + 9)]


class Threshold:
    """Fires when the values add up, and at the window's end and at a time in between."""

    def __init__(self, total: int) -> None:
        self.total = total

    def on_element(self, row: Any, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.end - 1)
        ctx.register_event_time_timer(time + 2)
        ctx.state["sum"] = ctx.state.get("sum", 0) + row.v
        if ctx.state["sum"] < self.total:
            return TriggerResult.CONTINUE
        ctx.state["sum"] = 0
        return TriggerResult.FIRE_AND_PURGE if row.high else TriggerResult.FIRE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_merge(self, window: Window, ctx: Any) -> None:
        ctx.state["sum"] = sum(state.get("sum", 0) for state in ctx.merged_states)
        ctx.register_event_time_timer(window.end - 1)


class Middle:
    """Evicts the first row."""

    def evict(self, rows: list[Any], window: Window, ctx: EvictorContext) -> list[Any]:
        return rows[1:] if len(rows) > 2 else rows


# --- parts ------------------------------------------------------------------------------------------------------

_CALLS = (
    AggregateCall("c", "count", (), pa.int64()),
    AggregateCall("s", "sum", ("v",), pa.int64()),
    AggregateCall("hi", "max", ("v",), pa.int64()),
    AggregateCall("f", "first_value", ("n",), pa.int64()),
    AggregateCall("l", "last_value", ("n",), pa.int64()),
    AggregateCall("ft", "first_value", ("text",), pa.string(), ignore_nulls=True),
    AggregateCall("ns", "collect_list", ("n",), pa.list_(pa.int64())),
    AggregateCall("set", "collect_set", ("v",), pa.list_(pa.int64())),
    AggregateCall("agg", "listagg", ("text",), pa.string(), constants=(",",)),
    AggregateCall("dis", "listagg", ("text",), pa.string(), distinct=True, constants=(",",)),
    AggregateCall("mb", "max_by", ("n", "v"), pa.int64()),
    AggregateCall("m", "mode", ("v",), pa.int64()),
    AggregateCall("hc", "count", ("v",), pa.int64(), filter="high", distinct=True),
    AggregateCall("u", "texts", ("n",), pa.string(), implementation=Texts),
)


def _function(random: Random) -> Aggregates:
    return Aggregates(tuple(random.sample(_CALLS, random.randint(1, 3))), INPUT)


def _function_or_rows(random: Random) -> Aggregates | AllRows:
    return AllRows(("k", "n")) if random.random() < 0.1 else _function(random)


def _lateness(random: Random, *, allows: bool = True) -> Lateness:
    allowed = random.choice([0, 0, 3, 10]) * MS if allows else 0
    return Lateness(allowed, LateRows.EMIT, ("k", "n")) if random.random() < 0.3 else Lateness(allowed)


def _aligned(random: Random) -> assigners.Tumble | assigners.Hop | assigners.Cumulate:
    match random.randrange(3):
        case 0:
            return assigners.Tumble(TIME, random.randint(2, 12) * MS, random.randint(-1, 1) * MS)
        case 1:
            return assigners.Hop(TIME, random.randint(2, 6) * MS, random.randint(6, 14) * MS)
    step = random.randint(2, 5)
    return assigners.Cumulate(TIME, step * MS, step * random.randint(1, 4) * MS)


def _session(random: Random) -> assigners.Session:
    return assigners.Session(TIME, "gap" if random.random() < 0.6 else random.randint(1, 8) * MS)


def _assigner(random: Random) -> Assigner:
    match random.randrange(12):
        case 0:
            return assigners.Global()
        case 1:
            # No window ends with the millisecond in which rows come: real clocks go on between micro-batches.
            return assigners.Tumble(None, random.randrange(2, 14, 2) * MS, MS, domain=Domain.PROCESSING)
        case 2:
            gap: int | str = "gap" if random.random() < 0.5 else random.randint(2, 8) * MS
            return assigners.Session(None, gap, Domain.PROCESSING)
        case 3:
            kind = random.choice([Gap, TwoWindows])
            return assigners.User("assign", kind, (), tuple(COLUMNS.names), TIME)
        case number if number < 7:
            return _aligned(random)
    return _session(random)


def _pulse(random: Random) -> triggers.Trigger:
    match random.randrange(3):
        case 0:
            return triggers.EveryRows(random.randint(1, 4))
        case 1:
            return triggers.When("high")
    return triggers.AfterDelay(random.randint(2, 9) * MS)


def _simple_trigger(random: Random) -> triggers.Trigger:
    match random.randrange(9):
        case 0:
            return triggers.EveryRows(random.randint(1, 4))
        case 1:
            return triggers.When("high")
        case 2:
            return triggers.Delta("v", "limit", random.random() < 0.5)
        case 3 | 4:
            return triggers.EveryInterval(random.randint(2, 9) * MS, Domain.EVENT, TIME)
        case 5:
            return triggers.EveryInterval(random.randint(2, 9) * MS, Domain.PROCESSING)
        case 6:
            return triggers.AfterDelay(random.randint(1, 9) * MS, renewed=True)
        case 7:
            return triggers.User("fires", Threshold, (random.randint(3, 15),), tuple(COLUMNS.names), TIME)
    early, late = (_pulse(random) if random.random() < 0.5 else None for _ in range(2))
    return triggers.AfterWatermark(early or triggers.Never(), late or triggers.AtOnce())


def _trigger(random: Random) -> triggers.Trigger:
    match random.randrange(8):
        case 0:
            pair: Callable[..., triggers.Trigger] = random.choice([triggers.Or, triggers.And, triggers.Then])
            return pair(_trigger(random), _trigger(random))
        case 1:
            return triggers.Purging(_trigger(random))
        case 2:
            return triggers.AtWatermark()
    return _simple_trigger(random)


def _clock_trigger(random: Random) -> triggers.Trigger:
    """For windows on processing time."""
    simple = (
        triggers.AfterProcessingTime(),
        triggers.EveryRows(random.randint(1, 4)),
        triggers.When("high"),
        triggers.EveryInterval(random.randint(2, 9) * MS, Domain.PROCESSING),
        triggers.AfterDelay(random.randint(1, 9) * MS, renewed=True),
    )
    actual = random.choice(simple)
    return triggers.Or(actual, random.choice(simple)) if random.random() < 0.2 else actual


def _evictor(random: Random) -> Evictor | None:
    after = random.random() < 0.4
    match random.randrange(10):
        case 0:
            return evictors.KeepRows(random.randint(1, 4), after)
        case 1:
            return evictors.KeepInterval(random.randint(1, 6) * MS, TIME, after)
        case 2:
            return evictors.EvictDelta("v", "limit", random.random() < 0.5, after)
        case 3:
            return evictors.User("middle", Middle, (), tuple(COLUMNS.names), after)
    return None


# --- kernels ----------------------------------------------------------------------------------------------------


def _general(random: Random) -> Kernel:
    assigner = _assigner(random)
    clock = assigner.domain is Domain.PROCESSING
    function = _function_or_rows(random)
    trigger = _clock_trigger(random) if clock else _trigger(random)
    kernel = WindowKernel(
        INPUT,
        KEYS,
        assigner,
        triggers.Purging(trigger) if random.random() < 0.3 else trigger,
        function,
        _evictor(random),
        _lateness(random, allows=not clock),
        TIME if isinstance(assigner, assigners.Global) else None,
        panes=random.random() < 0.3,
    )
    if isinstance(function, Aggregates) and not isinstance(trigger, triggers.Purging) and random.random() < 0.3:
        return replace(kernel, trigger=trigger, retracting=True, row_kinds=True)
    return kernel


def _sessions(random: Random) -> Kernel:
    return SessionKernel(INPUT, KEYS, _session(random), _function(random), _lateness(random, allows=False))


def _cut_sessions(random: Random) -> Kernel:
    return CutSessionKernel(
        INPUT,
        KEYS,
        _session(random),
        _function_or_rows(random),
        random.choice([None, random.randint(1, 20) * MS]),
        random.choice([None, "opens"]),
        random.choice([None, "closes"]),
        _lateness(random),
    )


def _panes(random: Random) -> Kernel:
    calls = tuple(call for call in _CALLS if call.name in ("c", "s", "hi", "hc"))
    assigner = _aligned(random)
    in_order = isinstance(assigner, assigners.Tumble)
    function = _function(random) if in_order else Aggregates(tuple(random.sample(calls, 2)), INPUT)
    return AlignedWindows(KEYS, assigner, function, random.choice([None, ("k", "n")]))


def _counted(random: Random) -> Kernel:
    size, slide = random.randint(1, 6), random.randint(1, 6)
    return CountWindows(INPUT, KEYS, TIME, size, slide, _function_or_rows(random), random.random() < 0.5)


def _row_measured(random: Random) -> Kernel:
    rows, interval = random.randint(1, 4), random.randint(1, 9) * MS
    measure = EveryRows(rows, interval) if random.random() < 0.5 else LastRows(rows, interval)
    function, lateness = _function_or_rows(random), _lateness(random, allows=False)
    return RowMeasuredKernel(INPUT, KEYS, TIME, measure, function, lateness=lateness)


_KINDS = (*[_general] * 12, *[_sessions] * 2, *[_cut_sessions] * 2, _panes, _counted, _row_measured)


def kernel(random: Random) -> Kernel:
    return random.choice(_KINDS)(random)


# --- streams ----------------------------------------------------------------------------------------------------

STREAMS = tuple("abcdefghijk")
"""The keys, each of which has a stream of its own; NULL is one more."""


@dataclass(frozen=True)
class Stretch:
    """Rows of all keys, and then a clock that advances, in milliseconds. ``turns``: the number of rows by turn; in a
    turn each key has a row at most."""

    rows: pa.Table
    turns: tuple[int, ...]
    watermark: int | None = None
    processing_time: int | None = None


def stream(random: Random) -> list[Stretch]:
    """Rows are out of order, some late; clocks only rise, that of processing time to even milliseconds."""
    watermark, clock, number, stretches = 0, 0, 0, []
    for _ in range(random.randint(1, 4)):
        lengths = {key: random.randint(0, 6) for key in (*STREAMS, None)}
        turns = [[key for key, length in lengths.items() if turn < length] for turn in range(max(lengths.values()))]
        arriving = [key for turn in turns for key in turn]
        table = pa.Table.from_pylist([_row(random, k, watermark, number + i) for i, k in enumerate(arriving)], COLUMNS)
        table = table.append_column(KEY_HASH, key_hashes(table, KEYS))
        number += len(arriving)
        stretch = Stretch(table, tuple(map(len, turns)))
        if random.random() < 0.7:
            watermark += random.randint(1, 12)
            stretches.append(replace(stretch, watermark=watermark))
        else:
            clock += random.randrange(2, 14, 2)
            stretches.append(replace(stretch, processing_time=clock))
    return stretches


def _row(random: Random, key: str | None, watermark: int, number: int) -> dict[str, Any]:
    value = random.randint(0, 6)
    return {
        "k": key,
        TIME: random.randint(watermark - 10, watermark + 16) * MS,
        "v": value,
        "n": number,
        "text": None if value == 3 else "xyzxyzz"[value],
        "gap": random.randint(2, 9) * MS,
        "opens": random.random() < 0.6,
        "closes": random.random() < 0.2,
        "high": value > 4,
        "limit": 2,
    }
