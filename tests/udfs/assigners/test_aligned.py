from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.errors import ExecutionError
from sqlstream.udfs.assigners import Cumulate, GivenWindows, Global, Hop, Tumble
from sqlstream.udfs.assigners.assigner import Assigner
from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK

times = st.lists(st.integers(-50_000, 50_000), min_size=1, max_size=20)
offsets = st.integers(-3000, 3000)


def rows_at(values: list[int]) -> pa.Table:
    return pa.table({"ts": pa.array(values, pa.timestamp("us", "UTC"))})


def windows(assigner: Assigner, rows: pa.Table, now: int = 0) -> list[tuple[int, int, int]]:
    """(row, start, end) of all pairs."""
    frame = assigner.assign(rows, SimpleNamespace(processing_time=now))
    return list(zip(frame.row.tolist(), frame.start.tolist(), frame.end.tolist(), strict=True))


@given(times, st.integers(1, 5000), offsets)
def test_tumble_is_the_one_window_that_holds_the_row(values, size, offset):
    for (row, start, end), time in zip(windows(Tumble("ts", size, offset), rows_at(values)), values, strict=True):
        assert values[row] == time
        assert start <= time < end == start + size
        assert (start - offset) % size == 0


@given(times, st.integers(1, 900), st.integers(1, 5000), offsets)
def test_hop_finds_every_window_that_holds_the_row(values, slide, size, offset):
    expected = [
        (row, start, start + size)
        for row, time in enumerate(values)
        for start in range(time - size + 1, time + 1)
        if (start - offset) % slide == 0
    ]
    assert windows(Hop("ts", slide, size, offset), rows_at(values)) == expected


@given(times, st.integers(1, 500), st.integers(1, 12), offsets)
def test_cumulate_finds_every_step_that_ends_after_the_row(values, step, steps, offset):
    size = step * steps
    expected = []
    for row, time in enumerate(values):
        start = next(s for s in range(time, time - size, -1) if (s - offset) % size == 0)
        expected += [(row, start, start + i * step) for i in range(1, steps + 1) if start + i * step > time]
    assert windows(Cumulate("ts", step, size, offset), rows_at(values)) == expected


BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000_000


def instant(*wall: int, fold: int = 0) -> int:
    moment = datetime(*wall, tzinfo=BERLIN, fold=fold)  # type: ignore[arg-type,misc]
    return (moment - datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))) // timedelta(microseconds=1)


@pytest.mark.parametrize(("month", "day", "hours"), [(3, 27, 23), (10, 30, 25), (7, 1, 24)])
@pytest.mark.parametrize("year", [2022, 2050])  # of which days have the same names; Arrow knows the clocks until 2037
def test_a_day_of_a_zone_is_as_long_as_its_clock_says(year, month, day, hours):
    rows = rows_at([instant(year, month, day, 15)])
    assert windows(Tumble("ts", 24 * HOUR, zone="Europe/Berlin"), rows) == [
        (0, instant(year, month, day), instant(year, month, day) + hours * HOUR)
    ]


def test_an_hour_that_the_clock_shows_twice_is_one_window():
    first, second = instant(2022, 10, 30, 2, 30), instant(2022, 10, 30, 2, 30, fold=1)
    assert second - first == HOUR
    window = (instant(2022, 10, 30, 2), instant(2022, 10, 30, 3))
    assert windows(Tumble("ts", HOUR, zone="Europe/Berlin"), rows_at([first, second])) == [(0, *window), (1, *window)]


def test_the_hour_before_one_that_the_clock_shows_twice_ends_with_the_first():
    window = (0, instant(2022, 10, 30, 1), instant(2022, 10, 30, 2))
    assert windows(Tumble("ts", HOUR, zone="Europe/Berlin"), rows_at([instant(2022, 10, 30, 1, 59)])) == [window]


def test_a_bound_that_the_clock_skips_is_the_instant_of_the_skip():
    before = instant(2022, 3, 27, 1, 45)
    window = (0, instant(2022, 3, 27, 1), instant(2022, 3, 27, 3))
    assert windows(Tumble("ts", HOUR, zone="Europe/Berlin"), rows_at([before])) == [window]


def test_windows_of_a_cumulate_that_end_in_a_skipped_hour_are_one():
    start, skip, step = instant(2022, 3, 27, 1, 45), instant(2022, 3, 27, 3), HOUR // 4
    rows = rows_at([start, skip])
    assert windows(Cumulate("ts", step, 2 * step, 3 * step, "Europe/Berlin"), rows) == [
        (0, start, skip),
        (1, skip, skip + step),
    ]


def test_without_a_time_column_rows_are_now():
    rows = pa.table({"v": [1, 2]})
    assert windows(Tumble(None, 10), rows, now=25) == [(0, 20, 30), (1, 20, 30)]


def test_the_global_window_has_no_bounds():
    assert windows(Global(), rows_at([5])) == [(0, NO_WATERMARK, END_OF_TIME)]


def test_given_windows_are_those_in_the_rows():
    bounds = {name: pa.array([value], pa.timestamp("ms")) for name, value in (("window_start", 1), ("window_end", 3))}
    assert windows(GivenWindows(), pa.table(bounds)) == [(0, 1000, 3000)]


def test_a_row_without_time_is_an_error():
    with pytest.raises(ExecutionError, match="SS401"):
        windows(Tumble("ts", 10), pa.table({"ts": pa.array([1, None], pa.timestamp("us"))}))


@pytest.mark.parametrize(
    "assigner", [Tumble("ts", 10), Hop("ts", 5, 12), Cumulate("ts", 5, 10), GivenWindows("ts", "ts")]
)
def test_no_rows_have_no_windows(assigner):
    assert windows(assigner, rows_at([])) == []
