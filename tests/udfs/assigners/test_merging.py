from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sqlstream.testing.case_format import load_case
from sqlstream.udfs.assigners.assigner import LATE, NEVER, Intervals, Windows, earliest_meeting, merge_sessions
from sqlstream.udfs.kernel import NO_WATERMARK
from tests.peers import MISSING, PEERS, files_of
from tests.peers.below_sql import run_kernel_case

CASES = files_of("flink-merging-window-set")

Triple = tuple[int, int, int]
"""Key, start, end."""


def windows(triples: list[Triple]) -> Windows:
    return Windows(*np.array(triples, np.int64).reshape(-1, 3).T)


def one_by_one(stored: list[Triple], rows: list[Triple], watermark: int, allowed: int):
    """The sessions after each row was merged into those before it, and which rows (or stored) each is made of."""
    live = [(key, start, end, [("stored", i)]) for i, (key, start, end) in enumerate(stored)]
    for row, (key, start, end) in enumerate(rows):
        met = [s for s in live if s[0] == key and s[1] <= end and start <= s[2]]
        last = max([end, *(s[2] for s in met)])
        if watermark >= last - 1000 + allowed:
            continue
        first = min([start, *(s[1] for s in met)])
        live = [s for s in live if s not in met]
        live.append((key, first, last, [*(member for s in met for member in s[3]), ("row", row)]))
    return sorted((key, start, end, sorted(members)) for key, start, end, members in live)


def at_once(stored: list[Triple], rows: list[Triple], watermark: int, allowed: int):
    sessions = merge_sessions(windows(stored), windows(rows), watermark, allowed)
    members: list[list[tuple[str, int]]] = [[] for _ in sessions.windows.key]
    for kind, numbers in (("row", sessions.row), ("stored", sessions.stored)):
        for member, session in enumerate(numbers.tolist()):
            if session != LATE:
                members[session].append((kind, member))
    bounds = zip(*(part.tolist() for part in sessions.windows), strict=True)
    return [(*bound, sorted(of)) for bound, of in zip(bounds, members, strict=True)]


rows_of = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 6)).map(
        lambda row: (row[0], row[1] * 1000, (row[1] + row[2]) * 1000)
    ),
    max_size=25,
)


@given(st.lists(st.tuples(rows_of, st.integers(0, 20)), min_size=1, max_size=4), st.integers(0, 5))
def test_sessions_of_batches_are_those_of_rows_one_by_one(batches, allowed_ms):
    stored: list[Triple] = []
    watermark, allowed = NO_WATERMARK, allowed_ms * 1000
    for rows, step in batches:
        expected = one_by_one(stored, rows, watermark, allowed)
        assert at_once(stored, rows, watermark, allowed) == expected
        watermark = max(watermark, 0) + step * 1000
        stored = [session[:3] for session in expected if watermark < session[2] - 1000 + allowed]


FAR = 2**61


@given(rows_of, st.lists(st.integers(-2, 2), min_size=25, max_size=25))
def test_times_centuries_apart_merge_alike(rows, eras):
    far = [(key, start + era * FAR, end + era * FAR) for (key, start, end), era in zip(rows, eras, strict=False)]
    assert at_once([], far, NO_WATERMARK, 0) == one_by_one([], far, NO_WATERMARK, 0)


def test_a_late_row_is_dropped_even_where_a_later_row_would_have_joined_it():
    late, bridge, live = (0, 1000, 4000), (0, 3000, 6000), (0, 5000, 9000)
    assert merge_sessions(windows([]), windows([late, bridge, live]), watermark=5500).row.tolist() == [LATE, LATE, 0]
    assert merge_sessions(windows([]), windows([live, late, bridge]), watermark=5500).row.tolist() == [0, LATE, 0]
    assert merge_sessions(windows([]), windows([live, bridge, late]), watermark=5500).row.tolist() == [0, 0, 0]


def test_touching_sessions_merge_and_those_a_microsecond_apart_do_not():
    sessions = merge_sessions(windows([(0, 0, 10)]), windows([(0, 10, 20), (0, 21, 30), (1, 20, 21)]), NO_WATERMARK)
    assert sessions.windows.start.tolist() == [0, 21, 20]
    assert sessions.row.tolist() == [0, 1, 2]


intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda i: (i[0], i[0] + i[1])), max_size=40)


def line(pairs: list[tuple[int, int]]) -> Intervals:
    return Intervals(*np.array(pairs, np.int64).reshape(-1, 2).T)


@given(intervals, intervals)
@example([(0, 0)], [(0, 0)])
def test_earliest_meeting_is_that_of_all_pairs(asked, others):
    expected = [
        min([i for i, other in enumerate(others) if other[0] <= one[1] and one[0] <= other[1]], default=NEVER)
        for one in asked
    ]
    actual = earliest_meeting(line(asked), line(others), np.arange(len(others)))
    assert actual.tolist() == expected


@pytest.mark.skipif(not CASES, reason=MISSING)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_flinks_merging_window_set(path):
    run_kernel_case(load_case(path, PEERS))
