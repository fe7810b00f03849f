"""How many rows micro-batches read so that they take no longer than is wanted, by a clock of the test."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sqlstream.sources.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Backlog:
    """A source with rows that never end, whose micro-batches take ``fixed`` seconds and some for each row."""

    def __init__(self, most: int, wanted_ms: int, fixed: float = 0.0) -> None:
        self.clock, self.fixed, self.last = Clock(), fixed, 0.0
        self.pace = Pace(most, wanted_ms, self.clock)

    def batch(self, per_row: float, waiting: int = 1 << 40) -> int:
        rows = min(self.pace.room(), waiting)
        self.pace.reads(rows)
        self.last = self.fixed + rows * per_row
        self.clock.now += self.last
        return rows


def test_a_slow_micro_batch_is_followed_by_shorter_ones_and_a_quick_one_by_the_bound():
    source = Backlog(100_000, 10_000)
    assert source.batch(0.001) == 100_000  # a hundred seconds
    assert source.batch(0.001) == 10_000
    assert source.batch(0.0005) == 10_000
    assert source.batch(0.0005) == 20_000
    assert source.batch(0.00001) == 20_000
    assert source.batch(0.00001) == 100_000


def test_few_rows_that_waited_say_nothing_of_how_many_fit():
    source = Backlog(100_000, 10_000, fixed=1.0)
    source.batch(0.0, waiting=3)
    assert source.batch(0.0) == 100_000


def test_without_a_duration_a_micro_batch_takes_as_long_as_it_needs():
    source = Backlog(100_000, 0)
    assert [source.batch(1.0) for _ in range(3)] == [100_000] * 3


def test_however_slow_some_rows_are_read():
    source = Backlog(1000, 10)
    assert [source.batch(60.0) for _ in range(3)] == [1000, 100, 100]
    assert Backlog(7, 10).batch(60.0) == 7


@given(st.integers(1, 10**7), st.floats(1e-8, 1e-2), st.floats(0, 5), st.integers(6_000, 60_000))
def test_a_steady_speed_is_met(most: int, per_row: float, fixed: float, wanted_ms: int):
    source, wanted = Backlog(most, wanted_ms, fixed), wanted_ms / 1000
    rows = [source.batch(per_row) for _ in range(100)][-1]
    fits = min(most, max(100, (wanted - fixed) / per_row))
    assert 0.99 * fits - 1 <= rows <= 1.01 * fits
