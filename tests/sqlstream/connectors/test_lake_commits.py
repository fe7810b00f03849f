"""How long commits are repeated, with a clock that stands still unless somebody waits; and ranges of keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.connectors.lakes.commits import CommitRetry
from sqlstream.connectors.lakes.keys import MOST_RANGES, key_ranges
from sqlstream.errors import ConnectorError, SqlStreamError


class Store:
    """A table whose version is all that it has. ``attempt_s``: how long an attempt takes."""

    def __init__(self, timeout_ms: int = 120_000, attempt_s: float = 0.0, chance: float = 1.0) -> None:
        self.now, self.pauses, self.attempts = 0.0, [], 0  # type: float, list[float], int
        self.epoch, self.is_down, self._attempt_s = -1, False, attempt_s
        self.is_back_at = float("inf")
        self.retry = CommitRetry(timeout_ms, lambda: self.now, self._sleep, lambda: chance)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        self.is_down = self.is_down and self.now < self.is_back_at

    def opened(self) -> int:
        if self.is_down:
            raise ConnectorError("SS545", "the store does not answer")
        return self.epoch

    def commit(self, fails: Callable[[int], Exception | None]) -> None:
        def attempt(epoch: int) -> None:
            self.attempts += 1
            self.now += self._attempt_s
            failure = fails(self.attempts)
            if failure is not None:
                raise failure
            self.epoch = 0

        passing: Any = lambda error: isinstance(error, OSError)  # noqa: E731
        self.retry.commit('Delta table "t"', self.opened, lambda epoch: epoch >= 0, attempt, passing)


def test_a_commit_is_repeated_as_long_as_the_time_lasts() -> None:
    store = Store()
    store.commit(lambda attempt: OSError("branch main has changed") if attempt < 50 else None)
    assert (store.attempts, store.epoch) == (50, 0)
    assert store.pauses[:8] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert max(store.pauses) == 2.0


def test_a_random_half_of_a_pause_is_left_out() -> None:
    store = Store(chance=0.0)
    store.commit(lambda attempt: OSError("later") if attempt < 9 else None)
    assert store.pauses == [0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.parametrize(("attempt_s", "seconds", "attempts"), [(0.0, 10, 11), (4.0, 12, 3), (60.0, 60, 1)])
def test_after_the_time_the_error_says_what_to_do(attempt_s: float, seconds: int, attempts: int) -> None:
    """The last attempt begins when the time is over at the latest."""
    store = Store(10_000, attempt_s)
    with pytest.raises(SqlStreamError) as raised:
        store.commit(lambda _: OSError("branch main has changed"))
    tried = f"{attempts} attempts" if attempts > 1 else "one attempt"
    assert raised.value.diagnostic.render() == (
        f'SS550: rows are not committed to Delta table "t" after {tried} in {seconds} s: branch main has changed\n'
        "HINT: Let other writers commit less often, or raise 'sink.commit-timeout'; then start again."
    )
    assert store.attempts == attempts


def test_other_errors_fail_at_once() -> None:
    store = Store()
    with pytest.raises(ConnectorError) as raised:
        store.commit(lambda _: ValueError("no such column"))
    assert raised.value.diagnostic.render() == 'SS550: rows are not committed to Delta table "t": no such column'
    assert store.pauses == []


@pytest.mark.parametrize("lost_at", [1, 3, 5])
@pytest.mark.parametrize("error", [OSError("connection reset"), ValueError("what is this answer")])
def test_a_commit_whose_answer_is_lost_is_not_repeated(lost_at: int, error: Exception) -> None:
    """After the last attempt, too: the time ends with the fifth."""
    store = Store(1_000, attempt_s=0.05)

    def losing(attempt: int) -> Exception:
        if attempt == lost_at:
            store.epoch = 0
            return error
        return OSError("branch main has changed")

    store.commit(losing)
    assert store.attempts == lost_at


def test_no_attempt_is_made_while_the_table_cannot_be_read() -> None:
    """It might repeat a commit whose answer is lost."""
    store = Store()

    def losing(_: int) -> Exception:
        store.epoch, store.is_down = 0, True
        return OSError("connection reset")

    store.is_back_at = 30.0
    store.commit(losing)
    assert store.attempts == 1
    assert store.now >= 30


def test_a_table_that_cannot_be_read_at_first_fails_at_once() -> None:
    store = Store()
    store.is_down = True
    with pytest.raises(ConnectorError, match="SS545"):
        store.commit(lambda _: None)
    assert store.pauses == []


# --- ranges of keys -------------------------------------------------------------------------------------------

_DAYS = st.dates(date(1900, 1, 1), date(2100, 1, 1))
_INTEGERS = st.integers(-(2**63), 2**63 - 1)


def _chunked(values: st.SearchStrategy[Any], kind: pa.DataType) -> st.SearchStrategy[pa.ChunkedArray]:
    return st.lists(st.none() | values, max_size=120).map(lambda keys: pa.chunked_array([keys], kind))


@given(
    st.one_of(
        _chunked(_INTEGERS | st.integers(0, 100), pa.int64()),
        _chunked(_DAYS, pa.date32()),
        _chunked(st.text(), pa.string()),
        _chunked(st.text(), pa.large_string()),
    )
)
def test_ranges_hold_all_keys(keys: pa.ChunkedArray) -> None:
    own = {key for key in keys.to_pylist() if key is not None}
    ranges = key_ranges(keys)
    if not own:
        assert ranges is None
        return
    assert ranges is not None
    assert len(ranges) <= MOST_RANGES
    assert all(any(low <= key <= high for low, high in ranges) for key in own)
    assert own.issuperset(bound for pair in ranges for bound in pair)
    if len(own) <= MOST_RANGES:
        assert ranges == [(key, key) for key in sorted(own)]


def test_ranges_are_divided_at_the_greatest_gaps() -> None:
    near = [n * 1000 + m for n in range(MOST_RANGES) for m in (0, 1, 2)]
    assert key_ranges(pa.chunked_array([near], pa.int32())) == [(n * 1000, n * 1000 + 2) for n in range(MOST_RANGES)]
    first = date(1969, 12, 1)
    days = [first, *(first + timedelta(days=400 + n) for n in range(40))]
    ranges = key_ranges(pa.chunked_array([days], pa.date32()))
    assert ranges is not None
    assert ranges[0] == (first, first)


def test_types_without_exact_bounds_have_no_ranges() -> None:
    for kind in (pa.timestamp("us"), pa.float64(), pa.bool_(), pa.decimal128(5, 2), pa.binary()):
        assert key_ranges(pa.chunked_array([[]], kind)) is None
