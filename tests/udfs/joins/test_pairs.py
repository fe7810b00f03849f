"""Which rows match, against a loop over all of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.udfs.joins import pairs
from sqlstream.udfs.joins.pairs import Bounds, equal, joinable, matching, numbered

KEYS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2)), max_size=12)
FAR = 2**62


def table(keys):
    return pa.table({"k": pa.array([k for k, _ in keys], pa.string()), "n": pa.array([n for _, n in keys], pa.int64())})


def found(left, right, keys, times=None, bounds=None):
    parts = equal(*numbered(left, right, keys)) if times is None else matching(left, right, keys, times, bounds)
    return [pair for part in parts for pair in zip(part.left.tolist(), part.right.tolist(), strict=True)]


@given(KEYS, KEYS)
def test_rows_with_equal_keys_match(left, right):
    wanted = [(i, j) for i, one in enumerate(left) for j, other in enumerate(right) if one == other]
    assert found(table(left), table(right), ["k", "n"]) == wanted


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-5, 5)), max_size=12),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-5, 5)), max_size=12),
    st.integers(-4, 4),
    st.integers(-4, 4),
    st.sampled_from([1, FAR // 8]),
)
def test_times_keep_their_bounds_however_far_apart(left, right, lower, upper, unit):
    times = tuple(np.array([t * unit for _, t in rows], np.int64) for rows in (left, right))
    bounds = Bounds(lower * unit, upper * unit)
    wanted = {
        (i, j)
        for i, (k, t) in enumerate(left)
        for j, (other, u) in enumerate(right)
        if k == other and lower <= t - u <= upper
    }
    got = found(table(left), table(right), ["k"], times, bounds)
    assert len(got) == len(wanted)
    assert set(got) == wanted


def test_many_pairs_come_in_parts(monkeypatch):
    monkeypatch.setattr(pairs, "MOST_PAIRS", 10)
    rows = table([("a", 0)] * 6)
    parts = list(equal(*numbered(rows, rows, ["k"])))
    assert [len(part.left) for part in parts] == [6] * 6
    assert found(rows, rows, ["k"]) == [(i, j) for i in range(6) for j in range(6)]
    one = table([("a", 0)])
    assert [len(part.left) for part in equal(*numbered(one, table([("a", 0)] * 30), ["k"]))] == [30]


def test_without_keys_all_rows_match():
    rows = table([("a", 0), (None, 1)])
    assert found(rows, rows, []) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_null_equals_nothing_but_where_it_is_safe():
    rows = table([("a", 0), (None, 1)])
    assert joinable(rows, ["k", "n"], [False, False]).tolist() == [True, False]
    assert joinable(rows, ["k", "n"], [True, False]).tolist() == [True, True]
