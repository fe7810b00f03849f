"""Results that are taken back: random streams give a changelog that only takes back what it has given."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.assigners import Global, Session, Tumble
from sqlstream.udfs.evictors import KeepRows
from sqlstream.udfs.triggers import AfterWatermark, EachBatch, EveryRows
from sqlstream.udfs.windows.emission import Lateness
from tests.udfs.windows.window_harness import MS, Windowed

ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 60)), max_size=6)
STEPS = st.lists(st.one_of(ROWS, st.integers(0, 15)), max_size=12)
ASSIGNERS = st.sampled_from([Tumble("ts", 10 * MS), Session("ts", 7 * MS), Global()])
TRIGGERS = st.sampled_from([AfterWatermark(EveryRows(2), EveryRows(1)), EveryRows(1), EachBatch(), AfterWatermark()])
OPTIONS = st.sampled_from([{}, {"lateness": Lateness(9 * MS)}, {"evictor": KeepRows(3)}])

Row = tuple[Any, ...]


def play(windowed: Windowed, steps: list[Any]) -> list[Row]:
    """Numbers move the watermark on by so much."""
    output, watermark = [], 0
    for step in steps:
        if isinstance(step, int):
            watermark += step
            output += windowed.watermark(watermark)
        elif step:
            output += windowed.rows(*step)
    return output + windowed.finish()


def standing(changes: list[Row]) -> Counter[Row]:
    """What is left of a changelog. Nothing is taken back that is not there."""
    counts: Counter[Row] = Counter()
    for *row, kind in changes:
        counts[tuple(row)] += 1 if kind in ("+I", "+U") else -1
        assert counts[tuple(row)] >= 0, (row, kind)
    return +counts


def newest(results: list[Row]) -> dict[Row, Row]:
    """The last result of each key and window."""
    return {row[:3]: row for row in results}


@settings(max_examples=150)
@given(ASSIGNERS, TRIGGERS, OPTIONS, STEPS)
def test_changes_take_back_only_what_stands(assigner, trigger, options, steps):
    changes = play(Windowed(assigner, trigger, time="ts", retracting=True, row_kinds=True, **options), steps)
    left = standing(changes)
    assert all(count == 1 for count in left.values())
    for before, after in pairwise(changes):
        assert before[-1] != "-U" or (after[-1] == "+U" and before[:-1] != after[:-1])


@settings(max_examples=100)
@given(st.sampled_from([AfterWatermark(EveryRows(2), EveryRows(1)), EveryRows(1), AfterWatermark()]), OPTIONS, STEPS)
def test_what_stands_in_the_end_is_the_newest_result_of_each_window(trigger, options, steps):
    changes = play(Windowed(Tumble("ts", 10 * MS), trigger, retracting=True, row_kinds=True, **options), steps)
    results = play(Windowed(Tumble("ts", 10 * MS), trigger, **options), steps)
    assert sorted(standing(changes)) == sorted(newest(results).values())
