"""Windows of fixed size against a model that tries every window."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sqlstream.errors import UnsupportedError
from sqlstream.planner.firing import EveryRows, Eviction, Firing, KeepRows, LateData
from sqlstream.planner.lowering.windows import with_windows
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.windows import CountWindow, Cumulate, Hop, Session, Tumble, WindowColumns
from tests.streams import item, scan, table, timed

pytestmark = pytest.mark.spark

WINDOWS = (
    Tumble(1000),
    Tumble(1000, 300),
    Tumble(7, -3),
    Hop(1000, 3000),
    Hop(2000, 3000),
    Hop(700, 3000, 100),
    Hop(3000, 3000),
    Hop(7, 20, -3),
    Cumulate(1000, 3000),
    Cumulate(1000, 3000, -500),
    Cumulate(3000, 3000),
)
INSTANTS = [*range(-7_000_000, 7_000_000, 499_999), -1, 0, 1, 999_999, 1_000_000, -62_135_596_800_000_000]


def expected(window: Tumble | Hop | Cumulate, ts: int) -> set[tuple[int, int]]:
    """All windows whose [start, end) holds ``ts``, in microseconds, found by enumeration."""
    offset = window.offset_ms * 1000
    match window:
        case Tumble(size):
            period, lengths = size, [size]
        case Hop(slide, size):
            period, lengths = slide, [size]
        case Cumulate(step, size):
            period, lengths = size, list(range(step, size + 1, step))
    first = (Fraction(ts - offset, period * 1000)).__floor__()
    starts = [(first - i) * period * 1000 + offset for i in range(max(lengths) // period + 1)]
    return {(s, s + length * 1000) for s in starts for length in lengths if s <= ts < s + length * 1000}


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_each_instant_is_in_exactly_the_windows_that_hold_it(spark, window):
    rows = spark.createDataFrame([(i,) for i in INSTANTS], "ts BIGINT").selectExpr("timestamp_micros(ts) AS ts")
    events = scan(table("events", ts="TIMESTAMP"))
    windows = with_windows(rows, AssignWindows(events, window, "ts", (), WindowColumns("s", "e", "t")))
    actual = windows.selectExpr(*(f"unix_micros({name})" for name in windows.columns)).collect()
    assert sorted((ts, start, end) for ts, start, end, _ in actual) == sorted(
        (ts, start, end) for ts in INSTANTS for start, end in expected(window, ts)
    )
    assert all(time == end - 1000 for _, _, end, time in actual)


@pytest.mark.parametrize(
    ("options", "clause"),
    [
        ({"window": CountWindow(3, 3)}, "COUNT WINDOW"),
        ({"window": Tumble(1000, zone="Europe/Berlin")}, "a window on the clock of a time zone"),
        ({"window": Session(1000, max_duration_ms=5000)}, "SESSION with"),
        ({"firing": Firing(trigger=EveryRows(2))}, "TRIGGER"),
        ({"firing": Firing(eviction=Eviction(KeepRows(2)))}, "EVICT"),
        ({"firing": Firing(late=LateData(allow_ms=1))}, "LATE DATA"),
        ({"pane": "p"}, "window_pane"),
    ],
)
def test_the_native_engine_names_the_clause_that_needs_the_columnar_one(streams, options, clause):
    events = table("events", bounded=False, v="INT", ts="TIMESTAMP")
    options = {"window": Tumble(1000), "time": "ts"} | options
    plan = WindowAggregate(timed(events), (), (item("n", "COUNT(*)"),), **options)
    with pytest.raises(UnsupportedError, match=clause) as raised:
        streams.lower(plan)
    assert raised.value.diagnostic.code == "SS390"
    assert "auto" in (raised.value.diagnostic.hint or "")
