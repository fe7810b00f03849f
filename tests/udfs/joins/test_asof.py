"""ASOF joins of updating rows against a loop over all rows of both sides."""

from __future__ import annotations

from collections import Counter
from operator import ge, gt, le, lt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.expressions.tree import Column, Compared, Comparison
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.joins.asof import VALUE, AsofJoinKernel
from sqlstream.udfs.joins.pairs import Side
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND

INT = pa.int64()
LESS = Compared(Comparison.LESS, Column("n", 0), Column("n", 1))
COMPARISONS = {">=": ge, ">": gt, "<=": le, "<": lt}


def side(name, kind=INT):
    columns = [("key", pa.string()), (VALUE, kind), ("n", INT), (KEY_HASH, INT), (ROW_KIND, pa.string())]
    return Side(pa.schema(columns), tuple((name + own, own) for own in ("key", VALUE, "n")))


def kernel(comparison=">=", kind=INT, **options):
    options = {"outer": True, "keys": ("key",), "null_safe": (False,), "first_by": ("n",), **options}
    above, strict = comparison in ("<", "<="), comparison in ("<", ">")
    return AsofJoinKernel((side("l", kind), side("r", kind)), above=above, strict=strict, **options)


def harness_of(join, **options):
    return KernelHarness(join, [of_side.input for of_side in join.sides], join.keys, **options)


def row(key, value, n=0, kind="+I"):
    return {"key": key, VALUE: value, "n": n, ROW_KIND: kind}


def told(harness):
    """What came out, each row as text: its kind, what tells the left row, what tells the right one."""
    return [f"{r[ROW_KIND]} {r['l' + VALUE]} {r['r' + VALUE]} {r['rn']}" for r in harness.output()]


# --- against the model ----------------------------------------------------------------------------------------

ROWS = st.tuples(
    st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, 1, 2, 3, None]), st.sampled_from([0, 1, 2, 3, None])
)


@st.composite
def scripts(draw):
    """Micro-batches by port: inserts, and withdrawals of rows that are there by then."""
    held: tuple[list, list] = ([], [])
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        batch = {}
        for port in range(2):
            changes = []
            for _ in range(draw(st.integers(0, 6))):
                if held[port] and draw(st.integers(0, 2)) == 0:
                    gone = held[port].pop(draw(st.integers(0, len(held[port]) - 1)))
                    changes.append((gone, draw(st.sampled_from(["-D", "-U"]))))
                else:
                    come = draw(ROWS)
                    held[port].append(come)
                    changes.append((come, draw(st.sampled_from(["+I", "+U"]))))
            if changes:
                batch[port] = changes
        batches.append(batch)
    return batches


def joined(left, right, comparison, *, outer, null_safe, condition, keyed):
    for one in left:
        partners = [
            other
            for other in right
            if None not in (one[1], other[1])
            and COMPARISONS[comparison](one[1], other[1])
            and (not keyed or (one[0] == other[0] and (null_safe or one[0] is not None)))
            and (not condition or (None not in (one[2], other[2]) and one[2] < other[2]))
        ]
        sign = 1 if comparison in ("<", "<=") else -1
        best = min(partners, key=lambda r: (sign * r[1], r[2] is not None, r[2] or 0, r[0] or ""), default=None)
        if best is not None or outer:
            yield one + (best or (None, None, None))


@pytest.mark.parametrize("comparison", COMPARISONS)
@settings(max_examples=60)
@given(scripts(), *(st.booleans() for _ in range(4)), st.sampled_from([1, 3]), st.booleans())
def test_the_sum_of_changes_is_the_join_of_both_inputs(
    comparison, batches, outer, null_safe, condition, keyed, groups, restarts
):
    told_apart = ("n",) if keyed else ("n", "key")
    join = kernel(
        comparison,
        outer=outer,
        keys=("key",) if keyed else (),
        null_safe=(null_safe,) if keyed else (),
        condition=LESS if condition else None,
        first_by=told_apart,
    )
    harness = harness_of(join, groups=groups if keyed else 1, restarts=restarts)
    held: tuple[list, list] = ([], [])
    result: Counter = Counter()
    for batch in batches:
        for port, changes in batch.items():
            for values, kind in changes:
                held[port].append(values) if kind[0] == "+" else held[port].remove(values)
        harness.rows({port: [row(v[0], v[1], v[2], kind) for v, kind in changes] for port, changes in batch.items()})
        withdrawn: Counter = Counter()
        added: Counter = Counter()
        for found in harness.output():
            sign = found.pop(ROW_KIND)
            (withdrawn if sign == "-D" else added)[tuple(found.values())] += 1
        assert not withdrawn - result, "only what came out is withdrawn"
        result = result - withdrawn + added
        options = {"outer": outer, "null_safe": null_safe, "condition": condition, "keyed": keyed}
        assert result == Counter(joined(*held, comparison, **options))


# --- examples -------------------------------------------------------------------------------------------------


def test_a_nearer_row_takes_the_left_rows_of_another_and_gives_them_back():
    harness = harness_of(kernel())
    harness.rows({0: [row("a", 5), row("a", 9)]})
    assert told(harness) == ["+I 5 None None", "+I 9 None None"]
    harness.rows({1: [row("a", 3, 1)]})
    assert told(harness) == ["-D 5 None None", "-D 9 None None", "+I 5 3 1", "+I 9 3 1"]
    harness.rows({1: [row("a", 7, 2), row("b", 8, 3)]})
    assert told(harness) == ["-D 9 3 1", "+I 9 7 2"]
    harness.rows({1: [row("a", 7, 2, "-D")]})
    assert told(harness) == ["-D 9 7 2", "+I 9 3 1"]


def test_of_equal_values_the_first_in_order_counts_then_the_first_that_came():
    harness = harness_of(kernel())
    harness.rows({0: [row("a", 5)], 1: [row("a", 5, 2), row("a", 5, 1), row("a", 5, 3)]})
    assert told(harness) == ["+I 5 5 1"]
    by_arrival = harness_of(kernel(first_by=()))
    by_arrival.rows({0: [row("a", 5)], 1: [row("a", 5, 2), row("a", 5, 1)]})
    by_arrival.rows({1: [row("a", 5, 0)]})
    assert told(by_arrival) == ["+I 5 5 2"]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.string(), ["", "a", "ab", "ä"], "ab"),
        (pa.float64(), [-1.5, -0.0, 2.0, float("nan")], 2.0),
        (pa.bool_(), [False, True], False),
        (pa.date32(), [-5, 0, 3, 7], 3),
    ],
    ids=str,
)
def test_values_of_all_types_that_have_an_order_are_compared(kind, values, expected):
    harness = harness_of(kernel(">", kind))
    harness.rows({0: [row("a", values[-1])], 1: [row("a", value, n) for n, value in enumerate(values)]})
    (found,) = harness.output()
    assert found["rn"] == values.index(expected)


def test_a_condition_that_few_rows_fulfil_is_looked_for_further_back():
    harness = harness_of(kernel(condition=LESS))
    harness.rows({0: [row("a", 900, 5)], 1: [row("a", value, 6 if value in (3, 4) else 0) for value in range(800)]})
    assert told(harness) == ["+I 900 4 6"]


def test_rows_that_are_not_there_are_counted_when_they_are_withdrawn():
    harness = harness_of(kernel())
    harness.rows({1: [row("a", 1, 1, "-D")]})
    assert harness.counters[IGNORED] == 1
    assert told(harness) == []


# --- how long -------------------------------------------------------------------------------------------------

SECOND = 1_000_000


def test_the_rows_of_a_key_are_forgotten_together_a_while_after_the_last_of_them():
    harness = harness_of(kernel(ttl=10 * SECOND), restarts=True)
    harness.rows({0: [row("a", 5), row("b", 5)], 1: [row("a", 3, 1), row("b", 3, 1)]})
    assert told(harness) == ["+I 5 3 1", "+I 5 3 1"]
    harness.processing_time(9 * SECOND)
    harness.rows({1: [row("a", 4, 2)]})
    assert told(harness) == ["-D 5 3 1", "+I 5 4 2"]
    harness.processing_time(11 * SECOND)
    harness.rows({1: [row("a", 4, 2, "-D"), row("b", 4, 2)]})
    assert told(harness) == ["-D 5 4 2", "+I 5 3 1"]
    harness.rows({0: [row("b", 9), row("b", 5, kind="-D")]})
    assert told(harness) == ["+I 9 4 2"]
    assert harness.counters[IGNORED] == 1
    harness.processing_time(40 * SECOND)
    harness.rows({0: [row("a", 9), row("b", 7)]})
    assert told(harness) == ["+I 9 None None", "+I 7 None None"]
