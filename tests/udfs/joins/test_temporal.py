"""Temporal joins against a loop over all rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.driver import GroupContext
from sqlstream.udfs.expressions.tree import Column, Compared, Comparison
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.joins.pairs import Side
from sqlstream.udfs.joins.temporal import SLACK, TIME, ProcessingTimeTemporalJoinKernel, TemporalJoinKernel
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, ROW_KIND, Domain, Pending

SECOND = 1_000_000


def side(name, *more):
    columns = [(KEY_HASH, pa.int64()), ("key", pa.string()), (TIME, pa.int64()), (name, pa.int64()), *more]
    return Side(pa.schema(columns), ((name, name),))


LEFT, RIGHT, CHANGES = side("l"), side("r"), side("r", (ROW_KIND, pa.string()))
CONDITION = Compared(Comparison.LESS_OR_EQUAL, Column("l", 0), Column("r", 1))


def harness(joining, **options):
    return KernelHarness(joining, [joining.sides[0].input, joining.sides[1].input], ["key"], **options)


def temporal(right=RIGHT, **options):
    options = {"outer": True, "null_safe": (False,), **options}
    return TemporalJoinKernel((LEFT, right), keys=("key",), **options)


def present(**options):
    options = {"outer": True, "null_safe": (False,), **options}
    return ProcessingTimeTemporalJoinKernel((LEFT, CHANGES), keys=("key",), **options)


def row(name, key, time, value, kind=None):
    collected = {"key": key, TIME: time, name: value}
    return collected if kind is None else {**collected, ROW_KIND: kind}


def results(actual):
    return [tuple(r.values()) for r in actual.output()]


# --- the model --------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """Left rows wait as (key, time, value); right rows are (key, time, value, kind), of which none is ever dropped."""

    outer: bool
    strict: bool
    first: bool
    null_safe: bool
    condition: bool
    waiting: list = field(default_factory=list)
    right: list = field(default_factory=list)

    def ready(self, watermark):
        due = [one for one in self.waiting if one[1] <= watermark]
        self.waiting = [one for one in self.waiting if one[1] > watermark]
        return [item for one in due for item in self.joined(one)]

    def joined(self, left):
        key, time, value = left
        comparable = key is not None or self.null_safe
        collected = [r for r in self.right if comparable and r[0] == key and r[1] <= time - self.strict]
        newest = [r for r in collected if r[1] == max(r[1] for r in collected)]
        if newest:
            one = min(newest, key=lambda r: r[2]) if self.first else newest[-1]
            if one[3] in ("+I", "+U") and (not self.condition or value <= one[2]):
                return [(value, one[2])]
        return [(value, None)] if self.outer else []


KEYS = st.sampled_from(["a", "b", None])
LEFT_ROWS = st.lists(st.tuples(KEYS, st.integers(0, 8), st.integers(0, 9)), max_size=5)
KINDS = st.sampled_from(["+I", "+U", "-D"])
RIGHT_ROWS = st.lists(st.tuples(KEYS, st.integers(-8, 8), st.integers(0, 9), KINDS), max_size=5)
STEPS = st.lists(st.tuples(LEFT_ROWS, RIGHT_ROWS, st.integers(0, 5)), max_size=6)


@settings(max_examples=80)
@given(
    STEPS, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans(),
    st.sampled_from([1, SLACK // 2]),
)  # fmt: skip
def test_left_rows_meet_the_version_of_their_time(steps, outer, strict, first, null_safe, condition, restarts, unit):
    """Left rows are on time; those of the right side come in any order, behind the watermark, too."""
    model = Model(outer, strict, first, null_safe, condition)
    options = {"first_by": ("r",) if first else None, "condition": CONDITION if condition else None}
    kernel = temporal(RIGHT if first else CHANGES, outer=outer, strict=strict, null_safe=(null_safe,), **options)
    joining = harness(kernel, groups=3, restarts=restarts)
    watermark = -1
    for left, right, moved in [*steps, ([], [], None)]:
        watermark = END_OF_TIME if moved is None else watermark + moved * unit
        new_left = [(key, watermark + 1 + time * unit, value) for key, time, value in left]
        new_right = [(key, watermark + time * unit, value, "+I" if first else kind) for key, time, value, kind in right]
        rows = {
            0: [row("l", *one) for one in new_left],
            1: [row("r", *one[: 3 if first else 4]) for one in new_right],
        }
        joining.batch({port: of_port for port, of_port in rows.items() if of_port}, watermark=watermark)
        assert Counter(results(joining)) == Counter(model.ready(watermark))
        model.waiting += new_left
        model.right += new_right


@settings(max_examples=60)
@given(STEPS, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_left_rows_meet_what_is_there_when_they_come(steps, outer, null_safe, condition, restarts):
    joining = harness(
        present(outer=outer, null_safe=(null_safe,), condition=CONDITION if condition else None),
        groups=3,
        restarts=restarts,
    )
    there: dict = {}
    for left, right, _ in steps:
        rows = {0: [row("l", *one) for one in left], 1: [row("r", *one) for one in right]}
        joining.batch({port: of_port for port, of_port in rows.items() if of_port})
        for key, _time, value, kind in right:
            there[key] = value if kind in ("+I", "+U") and (key is not None or null_safe) else None
        expected = []
        for key, _time, value in left:
            actual = there.get(key)
            meets = actual is not None and (not condition or value <= actual)
            expected += [(value, actual if meets else None)] if meets or outer else []
        assert Counter(results(joining)) == Counter(expected)


# --- examples ---------------------------------------------------------------------------------------------------


def test_results_come_in_order_of_time():
    joining = harness(temporal())
    joining.rows([row("l", "a", 5, 1), row("l", "b", 3, 2), row("l", "c", 5, 3), row("l", None, 4, 4)])
    assert results(joining) == []
    joining.watermark(4)
    assert results(joining) == [(2, None), (4, None)]
    joining.watermark(5)
    assert sorted(results(joining)) == [(1, None), (3, None)]


def test_versions_that_no_row_can_meet_are_dropped():
    joining = harness(temporal(CHANGES, outer=False))
    rows = [row("r", f"k{i % 3}", i * SECOND, i, "+I") for i in range(30)]
    joining.rows(rows, port=1)
    joining.watermark(SLACK)
    joining.rows([row("r", "k0", SLACK + 1, 100, "-D")], port=1)
    joining.watermark(SLACK + 2)
    assert kept(joining) == [(27, True), (28, True), (29, True), (100, False)]
    joining.watermark(2 * SLACK)
    assert kept(joining) == [(28, True), (29, True), (100, False)]
    assert joining.next_timer(Domain.EVENT) == END_OF_TIME


def kept(joining):
    (group,) = joining._groups
    context = GroupContext(group.store)
    rows = joining.kernel._right(context).load_all().to_pylist()
    return sorted((item["r"], item["__valid"]) for item in rows)


def test_late_rows_are_joined_at_once_with_what_is_kept():
    joining = harness(temporal())
    joining.rows([row("r", "a", 1, 10), row("r", "a", 5, 50)], port=1)
    joining.watermark(SLACK)
    joining.rows({0: [row("l", "a", 6, 1), row("l", "a", 2, 2), row("l", "b", 3, 3)], 1: [row("r", "b", 3, 30)]})
    assert results(joining) == [(2, None), (3, 30), (1, 50)]
    assert not joining.waits()


def test_left_rows_are_told_to_wait():
    joining = harness(temporal())
    joining.rows([row("l", "a", 7, 1), row("l", "b", 9, 2)])
    (wait,) = joining.waits()
    assert (wait.what, wait.domain, wait.count, wait.first, wait.last) == (Pending.ROWS, Domain.EVENT, 2, 7, 9)


@pytest.mark.parametrize("make", [temporal, present])
def test_versions_are_forgotten_after_their_time_to_live(make):
    right = {"right": CHANGES} if make is temporal else {}
    joining = harness(make(**right, ttl=5), processing_time=0)
    joining.rows([row("r", "a", 1, 10, "+I")], port=1)
    joining.batch([row("l", "a", 2, 1)], processing_time=4)
    joining.watermark(3)
    assert results(joining) == [(1, 10)]
    joining.processing_time(5)
    joining.batch([row("l", "a", 4, 2)])
    joining.watermark(9)
    assert results(joining) == [(2, None)]
    assert not any(store.entries for store in joining.stores)


# --- left rows that are retracted -------------------------------------------------------------------------------


CHANGING = side("l", (ROW_KIND, pa.string()))


def changing(kernel, **options):
    options = {"outer": True, "null_safe": (False,), "identified_by": ("key", TIME, "l"), **options}
    return kernel((options.pop("left", CHANGING), options.pop("right", CHANGES)), keys=("key",), **options)


@settings(max_examples=60)
@given(st.data(), st.booleans(), st.booleans())
def test_retracted_left_rows_take_their_results_with_them(data, outer, restarts):
    joining = changing(TemporalJoinKernel, outer=outer)
    run = harness(joining, groups=data.draw(st.sampled_from([1, 3])), restarts=restarts)
    versions = [(key, time, 10 * time) for key in "ab" for time in data.draw(st.sets(st.integers(0, 8)))]
    run.rows({1: [row("r", *version, "+I") for version in versions]})
    held: list[tuple[str | None, int, int]] = []
    net: Counter[tuple[int, int | None]] = Counter()
    watermark = 0
    for _ in range(data.draw(st.integers(1, 4))):
        batch = []
        for _ in range(data.draw(st.integers(0, 5))):
            if held and data.draw(st.booleans()):
                gone = held.pop(data.draw(st.integers(0, len(held) - 1)))
                batch.append(row("l", *gone, kind=data.draw(st.sampled_from(["-U", "-D"]))))
            else:
                time = data.draw(st.integers(watermark + 1, 12))
                held.append((data.draw(st.sampled_from(["a", "b", None])), time, data.draw(st.integers(0, 1))))
                batch.append(row("l", *held[-1], kind=data.draw(st.sampled_from(["+I", "+U"]))))
        run.rows({0: batch})
        watermark = data.draw(st.integers(watermark, 11))
        run.watermark(watermark)
        _add_up(net, run)
    run.watermark(END_OF_TIME)
    _add_up(net, run)
    expected: Counter[tuple[int, int | None]] = Counter()
    for key, time, value in held:
        known = [(at, rate) for of, at, rate in versions if of == key and at <= time]
        if known or outer:
            expected[value, max(known)[1] if known else None] += 1
    assert +net == expected


def _add_up(net, run):
    for *result, kind in results(run):
        net[tuple(result)] += -1 if kind == "-D" else 1
        assert net[tuple(result)] >= 0, "only what came out is retracted"


def test_a_row_goes_with_the_partner_that_it_came_with():
    run = harness(changing(ProcessingTimeTemporalJoinKernel, outer=False))
    run.rows({1: [row("r", "a", 0, 1, "+I")], 0: [row("l", "a", 0, 5, "+I"), row("l", "b", 0, 6, "+I")]})
    run.rows({1: [row("r", "a", 0, 2, "+U"), row("r", "b", 0, 3, "+I")]})
    run.rows({0: [row("l", "a", 0, 5, "-U"), row("l", "a", 0, 7, "+U"), row("l", "b", 0, 6, "-D")]})
    assert results(run) == [(5, 1, "+I"), (5, 1, "-D"), (7, 2, "+I")]


def test_partners_are_forgotten_after_the_time_of_the_left_side():
    left = Side(CHANGING.input, CHANGING.outputs, ttl=10 * SECOND)
    run = harness(changing(ProcessingTimeTemporalJoinKernel, outer=False, left=left))
    run.batch({1: [row("r", "a", 0, 1, "+I")], 0: [row("l", "a", 0, 5, "+I")]}, processing_time=SECOND)
    run.batch({0: [row("l", "a", 0, 5, "-D")]}, processing_time=12 * SECOND)
    assert results(run) == [(5, 1, "+I")]
