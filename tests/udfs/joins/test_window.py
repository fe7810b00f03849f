"""The window join against a loop over all rows."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.expressions.tree import Column, Compared, Comparison
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.pairs import Side
from sqlstream.udfs.joins.window import END, WindowJoinKernel
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, LATE_ROWS, Domain, Pending

MS = 1000


def side(name):
    columns = [(KEY_HASH, pa.int64()), ("key", pa.string()), ("window", pa.int64()), (END, pa.int64())]
    return Side(pa.schema([*columns, (name, pa.int64())]), ((name, name),))


LEFT, RIGHT = side("l"), side("r")
CONDITION = Compared(Comparison.LESS_OR_EQUAL, Column("l", 0), Column("r", 1))


def harness(kind=JoinKind.INNER, null_safe=False, condition=None, **options):
    joining = WindowJoinKernel(kind, (LEFT, RIGHT), ("key", "window"), (null_safe, False), condition)
    return KernelHarness(joining, [LEFT.input, RIGHT.input], ["key", "window"], **options)


def row(name, key, end, value):
    return {"key": key, "window": end, END: end * MS, name: value}


def results(actual):
    return Counter(tuple(r.values()) for r in actual.output())


def expected(kind, sides, null_safe, condition):
    """Of rows (key, end, value) of one or more closed windows."""
    pairs = [
        (i, j)
        for i, left in enumerate(sides[0])
        for j, right in enumerate(sides[1])
        if left[:2] == right[:2] and (left[0] is not None or null_safe) and (not condition or left[2] <= right[2])
    ]
    met = [{pair[port] for pair in pairs} for port in (0, 1)]
    alone = [[rows[i][2] for i in range(len(rows)) if i not in met[port]] for port, rows in enumerate(sides)]
    if kind is JoinKind.SEMI:
        return Counter((sides[0][i][2],) for i in met[0])
    if kind is JoinKind.ANTI:
        return Counter((value,) for value in alone[0])
    counts = Counter((sides[0][i][2], sides[1][j][2]) for i, j in pairs)
    pads = kind.padded
    return counts + Counter((v, None) for v in alone[0] * pads[0]) + Counter((None, v) for v in alone[1] * pads[1])


ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 5), st.integers(0, 4)), max_size=5)
STEPS = st.lists(st.tuples(ROWS, ROWS, st.integers(0, 2)), max_size=6)


@settings(max_examples=80)
@given(STEPS, st.sampled_from(JoinKind), st.booleans(), st.booleans(), st.booleans())
def test_closed_windows_give_what_the_model_gives(steps, kind, null_safe, condition, restarts):
    joining = harness(kind, null_safe, CONDITION if condition else None, groups=3, restarts=restarts)
    open_rows: tuple[list, list] = ([], [])
    watermark = late = 0
    for left, right, moved in [*steps, ([], [], None)]:
        watermark = END_OF_TIME if moved is None else watermark + moved * MS
        rows = {0: [row("l", *one) for one in left], 1: [row("r", *one) for one in right]}
        joining.batch({port: of_port for port, of_port in rows.items() if of_port}, watermark=watermark)
        closed = [[one for one in of_port if (one[1] - 1) * MS <= watermark] for of_port in open_rows]
        assert results(joining) == expected(kind, closed, null_safe, condition)
        for port, came in enumerate((left, right)):
            on_time = [one for one in came if (one[1] - 1) * MS > watermark]
            late += len(came) - len(on_time)
            open_rows[port][:] = [one for one in open_rows[port] if one not in closed[port]] + on_time
    assert joining.counters[LATE_ROWS] == late
    assert not any(store.entries for store in joining.stores)


def test_rows_wait_for_the_end_of_their_window():
    joining = harness()
    joining.rows({0: [row("l", "a", 5, 1)], 1: [row("r", "a", 5, 2), row("r", "b", 7, 3)]})
    (wait,) = joining.waits()
    assert (wait.what, wait.domain, wait.count) == (Pending.ROWS_IN_WINDOWS, Domain.EVENT, 3)
    assert (wait.first, wait.last) == (4 * MS, 6 * MS)
    joining.watermark(4 * MS - 1)
    assert not results(joining)
    joining.watermark(4 * MS)
    assert results(joining) == Counter([(1, 2)])
