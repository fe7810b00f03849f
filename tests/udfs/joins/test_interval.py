"""The interval join against a loop over all rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.expressions.tree import Column, Compared, Comparison
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.joins import JoinKind, interval
from sqlstream.udfs.joins.interval import TIME, IntervalJoinKernel
from sqlstream.udfs.joins.pairs import Bounds, Side
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, NO_WATERMARK, Domain, Pending


def side(name):
    columns = [(KEY_HASH, pa.int64()), ("key", pa.string()), (TIME, pa.int64()), (name, pa.int64())]
    return Side(pa.schema(columns), ((name, name),))


LEFT, RIGHT = side("l"), side("r")
SECOND = 1_000_000


def kernel(kind=JoinKind.INNER, lower=-2, upper=3, **options):
    options = {"null_safe": (False,), **options}
    return IntervalJoinKernel(LEFT, RIGHT, kind, ("key",), bounds=Bounds(lower, upper), **options)


def harness(joining, **options):
    return KernelHarness(joining, [LEFT.input, RIGHT.input], ["key"], **options)


def row(name, key, time, value):
    return {"key": key, TIME: time, name: value}


def results(actual):
    return Counter(tuple(r.values()) for r in actual.output())


# --- the model --------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """Rows as (key, time, value) with whether they have a partner; what is past its end is no partner any more."""

    kind: JoinKind
    bounds: Bounds
    null_safe: bool
    condition: bool
    now: int = NO_WATERMARK
    rows: tuple[list, list] = field(default_factory=lambda: ([], []))

    def step(self, new, watermark):
        out = self.advance(watermark)
        for port in (0, 1):
            for one in new[port]:
                out += self.arrive(port, one)
        out += self.leave(lambda row: row[0] is None and not self.null_safe)
        return out + self.advance(watermark)

    def advance(self, watermark):
        self.now = watermark
        return self.leave(lambda row: False)

    def end(self, port, row):
        return row[1] + (-self.bounds.lower if port == 0 else self.bounds.upper)

    def arrive(self, port, one):
        out, mine = [], [one, False]
        for other in self.rows[1 - port]:
            pair = (mine, other) if port == 0 else (other, mine)
            if self.match(*(entry[0] for entry in pair)):
                out += self.paired(*pair)
        self.rows[port].append(mine)
        return out

    def match(self, left, right):
        equal = left[0] == right[0] and (left[0] is not None or self.null_safe)
        near = self.bounds.lower <= left[1] - right[1] <= self.bounds.upper
        return equal and near and (not self.condition or left[2] <= right[2])

    def paired(self, left, right):
        first = not left[1]
        left[1] = right[1] = True
        if self.kind is JoinKind.SEMI:
            return [(left[0][2],)] if first else []
        return [] if self.kind is JoinKind.ANTI else [(left[0][2], right[0][2])]

    def leave(self, never):
        out = []
        for port in (0, 1):
            for one, matched in self.rows[port]:
                if (self.end(port, one) <= self.now or never(one)) and not matched and self.kind.padded[port]:
                    alone = (one[2], None) if port == 0 else (None, one[2])
                    out.append(alone if self.kind.pairs else alone[:1])
            self.rows[port][:] = [e for e in self.rows[port] if self.end(port, e[0]) > self.now and not never(e[0])]
        return out


ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(-6, 12), st.integers(0, 4)), max_size=5)
STEPS = st.lists(st.tuples(ROWS, ROWS, st.integers(0, 4)), max_size=6)


@settings(max_examples=150)
@given(
    STEPS,
    st.sampled_from(JoinKind),
    st.integers(-4, 3),
    st.integers(0, 5),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, SECOND]),
    st.sampled_from([1, interval.LEAST]),
)
def test_pairs_and_rows_alone_are_those_of_the_model(
    steps, kind, lower, width, null_safe, condition, restarts, unit, least
):
    bounds = Bounds(lower * unit, (lower + width) * unit)
    rest = Compared(Comparison.LESS_OR_EQUAL, Column("l", 0), Column("r", 1)) if condition else None
    model = Model(kind, bounds, null_safe, condition)
    joining = harness(kernel(kind, *bounds, null_safe=(null_safe,), condition=rest), groups=3, restarts=restarts)
    watermark = -10 * unit
    for left, right, moved in [*steps, ([], [], None)]:
        watermark = END_OF_TIME if moved is None else watermark + moved * unit
        new = [[(key, time * unit, value) for key, time, value in rows] for rows in (left, right)]
        given_rows = {port: [row("lr"[port], *one) for one in rows] for port, rows in enumerate(new) if rows}
        with patch.object(interval, "LEAST", least):
            joining.batch(given_rows, watermark=watermark)
        assert results(joining) == Counter(model.step(new, watermark))
    assert not any(store.entries for store in joining.stores)


# --- examples ---------------------------------------------------------------------------------------------------


def test_rows_that_nobody_can_match_any_more_are_not_kept():
    joining = harness(kernel(lower=-5 * SECOND, upper=5 * SECOND))
    joining.rows({0: [row("l", "a", 0, 1)], 1: [row("r", "a", 6 * SECOND, 2)]})
    joining.watermark(20 * SECOND)
    assert not any(store.entries for store in joining.stores)
    assert not results(joining)


def test_a_late_row_still_matches_what_is_kept():
    joining = harness(kernel(JoinKind.LEFT, lower=-5, upper=5))
    joining.batch({1: [row("r", "a", 10, 7)]}, watermark=9)
    joining.batch({0: [row("l", "a", 5, 1), row("l", "a", 1, 2)]}, watermark=9)
    assert results(joining) == {(1, 7): 1, (2, None): 1}


def test_processing_time_is_when_a_row_comes():
    joining = harness(kernel(JoinKind.LEFT, lower=-2, upper=2, domain=Domain.PROCESSING))
    joining.batch({0: [row("l", "a", 50, 1), row("l", "b", 50, 2)]}, processing_time=10)
    joining.batch({1: [row("r", "a", 50, 7)]}, processing_time=12)
    assert results(joining) == {(1, 7): 1}
    joining.batch({1: [row("r", "a", 50, 8)]}, processing_time=13)
    assert results(joining) == {(2, None): 1}


@pytest.mark.parametrize("kind", list(JoinKind))
def test_rows_that_wait_are_those_that_come_out_alone(kind):
    joining = harness(kernel(kind, lower=-5, upper=3))
    joining.rows({0: [row("l", "a", 0, 1), row("l", "b", 2, 2)], 1: [row("r", "a", 1, 1), row("r", "c", 1, 3)]})
    (left, right) = kind.padded
    collected = [(wait.what, wait.count, wait.last) for wait in joining.waits()]
    wanted = [*([(1, 7)] if left else []), *([(1, 4)] if right else [])]
    assert sum(count for _, count, _ in collected) == len(wanted)
    assert not collected or collected[0] == (Pending.ROWS, len(wanted), max(last for _, last in wanted))


def test_only_keys_that_rows_come_for_are_read():
    joining = harness(kernel(lower=-100 * SECOND, upper=100 * SECOND))
    many = [row("l", str(i), 0, i) for i in range(20_000)]
    joining.rows({0: many})
    read = joining.traffic.bytes_read
    joining.rows({1: [row("r", "7", 0, 1)]})
    assert results(joining) == {(7, 1): 1}
    assert joining.traffic.bytes_read - read < sum(store.size for store in joining.stores) / 5


def test_rows_that_the_watermark_passes_in_the_next_batch_are_not_read_again():
    joining = harness(kernel(lower=0, upper=2 * SECOND), groups=1)
    for batch in range(5):
        start = batch * 100 * SECOND
        joining.batch({0: bids(start)}, watermark=start - 4 * SECOND)
        read = joining.traffic.bytes_read
    joining.batch({1: [row("r", "7", start + 98 * SECOND, 1)]}, watermark=start + 96 * SECOND)
    assert results(joining)[7, 1] == 4
    assert joining.traffic.bytes_read - read < joining.traffic.bytes_written / 5 / 4  # of a batch


def test_rows_that_the_watermark_has_not_passed_as_expected_still_match():
    joining = harness(kernel(lower=0, upper=2 * SECOND), groups=1)
    joining.batch({0: bids(0)}, watermark=-4 * SECOND)
    joining.batch({0: bids(100 * SECOND)}, watermark=96 * SECOND)
    joining.batch({1: [row("r", "7", 110 * SECOND, 1)]}, watermark=105 * SECOND)
    assert results(joining)[7, 1] == 4


def bids(start):
    """50 per second and key 7 twice among them, over 100 seconds."""
    return [row("l", str(i % 25), start + i * SECOND // 50, i % 25) for i in range(5000)]


def test_a_pair_needs_its_condition_and_rows_without_one_come_alone():
    rest = Compared(Comparison.GREATER, Column("l", 0), Column("r", 1))
    joining = harness(replace(kernel(JoinKind.FULL), condition=rest))
    joining.rows({0: [row("l", "a", 0, 1), row("l", "a", 0, 5)], 1: [row("r", "a", 0, 3)]})
    joining.finish()
    assert results(joining) == {(5, 3): 1, (1, None): 1}
