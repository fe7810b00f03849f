"""The regular join against the SQL join of what both inputs hold by then."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.expressions.tree import Column, Compared, Comparison
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.joins.pairs import Side
from sqlstream.udfs.joins.regular import RegularJoinKernel
from sqlstream.udfs.kernel import END_OF_TIME, IGNORED, KEY_HASH, NO_WATERMARK, ROW_KIND, Domain
from tests.depth import depth
from tests.udfs.joins.regular_model import Row, joined

KINDS = list(JoinKind)
LESS = Compared(Comparison.LESS, Column("v", 0), Column("v", 1))
SECOND = 1_000_000


def schema(*, updates):
    kind = [(ROW_KIND, pa.string())] if updates else []
    return pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.int64()), (KEY_HASH, pa.int64()), *kind])


def kernel(kind, updating=(False, False), condition=None, null_safe=False, ttl=(0, 0)):
    left, right = (
        Side(schema(updates=updates), tuple((f"{name}{c}", c) for c in "knv"), life)
        for name, updates, life in zip("lr", updating, ttl, strict=True)
    )
    return RegularJoinKernel(kind, (left, right), ("k", "n"), (null_safe, False), condition)


def harness_of(join, **options):
    return KernelHarness(join, [side.input for side in join.sides], ["k", "n"], **options)


def row(k: str | None, n: int | None = 0, v: int | None = 0, kind: str | None = None) -> dict[str, object]:
    return {"k": k, "n": n, "v": v, **({ROW_KIND: kind} if kind else {})}


def told(harness):
    """What came out, each row as text: its kind and its values."""
    return [" ".join(str(v) for v in (actual.pop(ROW_KIND, "+I"), *actual.values())) for actual in harness.output()]


# --- against the model ----------------------------------------------------------------------------------------

ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0, 0, 1, None]), st.sampled_from([0, 1, 2, None]))


@st.composite
def scripts(draw, updating):
    """Micro-batches by port: inserts, and withdrawals of rows that are there by then."""
    held: tuple[list[Row], list[Row]] = ([], [])
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        batch = {}
        for port in range(2):
            changes = []
            for _ in range(draw(st.integers(0, 5))):
                if updating[port] and held[port] and draw(st.booleans()):
                    gone = held[port].pop(draw(st.integers(0, len(held[port]) - 1)))
                    changes.append((draw(st.sampled_from(["-D", "-U"])), gone))
                else:
                    come = draw(ROWS)
                    held[port].append(come)
                    changes.append((draw(st.sampled_from(["+I", "+U"])) if updating[port] else "+I", come))
            if changes:
                batch[port] = changes
        batches.append(batch)
    return batches


def take(changes, rows):
    for kind, item in changes:
        if kind[0] == "+":
            rows.append(item)
        else:
            rows.remove(item)


@pytest.mark.parametrize("null_safe", [False, True], ids=["", "null-safe"])
@pytest.mark.parametrize("condition", [None, LESS], ids=["", "condition"])
@pytest.mark.parametrize("updating", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@settings(max_examples=depth(8, 15))
@given(st.data())
def test_the_sum_of_changes_is_the_join_of_both_inputs(kind, updating, condition, null_safe, data):
    def matches(left, right):
        same = (null_safe or left[0] is not None) and left[0] == right[0] and None is not left[1] == right[1]
        return same and (condition is None or (None not in (left[2], right[2]) and left[2] < right[2]))

    batches = data.draw(scripts(updating))
    join = kernel(kind, updating, condition, null_safe)
    harness = harness_of(join, groups=data.draw(st.sampled_from([1, 3])), restarts=data.draw(st.booleans()))
    held: tuple[list[Row], list[Row]] = ([], [])
    result: Counter[Row] = Counter()
    for batch in batches:
        for port, changes in batch.items():
            take(changes, held[port])
        harness.rows(
            {p: [row(v[0], v[1], v[2], k if updating[p] else None) for k, v in output] for p, output in batch.items()}
        )
        withdrawn: Counter[Row] = Counter()
        added: Counter[Row] = Counter()
        for output in harness.output():
            sign = output.pop(ROW_KIND, "+I")
            (withdrawn if sign == "-D" else added)[tuple(output.values())] += 1
        assert not withdrawn - result, "only what came out is withdrawn"
        repeated = {v for of_side in held for v in of_side if of_side.count(v) > 1}
        if not repeated:
            # A row of NULLs alone may be one of either side, padded: the one goes, the other comes.
            in_vain = {row for row in withdrawn & added if any(value is not None for value in row)}
            assert not in_vain, "nothing comes and goes in vain"
        result = result - withdrawn + added
        assert result == joined(kind, *held, matches, (3, 3))
    assert harness.counters[IGNORED] == 0


# --- one by one -----------------------------------------------------------------------------------------------


def test_pairs_of_inserts_are_inserts_without_a_kind():
    harness = harness_of(kernel(JoinKind.INNER))
    harness.rows({0: [row("a", v=1), row("b")], 1: [row("a", v=2)]})
    harness.rows([row("b", v=3)], port=1)
    assert ROW_KIND not in harness.output_table().schema.names
    harness.rows([row("a", v=4)])
    assert told(harness) == ["+I a 0 4 a 0 2"]


def test_an_update_of_one_side_withdraws_and_adds_once():
    harness = harness_of(kernel(JoinKind.LEFT, (False, True)))
    harness.rows([row("a", v=1)])
    assert told(harness) == ["+I a 0 1 None None None"]
    harness.rows([row("a", v=2, kind="+I")], port=1)
    assert told(harness) == ["-D a 0 1 None None None", "+I a 0 1 a 0 2"]
    harness.rows([row("a", v=2, kind="-U"), row("a", v=3, kind="+U")], port=1)
    assert told(harness) == ["-D a 0 1 a 0 2", "+I a 0 1 a 0 3"]
    harness.rows([row("a", v=3, kind="-U"), row("a", v=3, kind="+U")], port=1)
    assert told(harness) == []


def test_a_row_and_its_first_partner_in_one_batch_come_out_once():
    harness = harness_of(kernel(JoinKind.FULL))
    harness.rows({0: [row("a", v=1)], 1: [row("a", v=2)]})
    assert told(harness) == ["+I a 0 1 a 0 2"]


def test_deletions_of_rows_that_are_not_there_are_counted():
    harness = harness_of(kernel(JoinKind.LEFT, (True, True)))
    harness.rows([row("a", v=1, kind="+I")])
    told(harness)
    harness.rows({0: [row("a", v=2, kind="-D")], 1: [row("a", v=2, kind="-U")]})
    assert told(harness) == []
    assert harness.counters[IGNORED] == 2


@pytest.mark.parametrize("kind", [JoinKind.SEMI, JoinKind.ANTI])
def test_rows_that_are_done_are_not_kept(kind):
    harness = harness_of(kernel(kind))
    harness.rows({0: [row("a", v=1)] * 1000, 1: [row("a", v=2)]})
    size = harness.stores[0].size
    harness.rows([row("a", v=1)] * 1000)
    assert harness.stores[0].size == size


# --- what a batch costs ---------------------------------------------------------------------------------------


def test_inserts_do_not_read_their_own_side():
    harness = harness_of(kernel(JoinKind.INNER))
    harness.rows([row(str(i)) for i in range(5000)])
    harness.restart()
    harness.rows([row(str(i)) for i in range(5000)])
    read = harness.traffic.bytes_read
    assert read < 1000, "nothing but the indices"
    harness.rows([row("7")], port=1)
    assert harness.traffic.bytes_read > 10_000


def test_rows_of_other_keys_are_not_read(monkeypatch):
    monkeypatch.setattr("sqlstream.udfs.state.keyed.LARGER", 1)
    harness = harness_of(kernel(JoinKind.FULL, (True, True)))
    rows = [row(str(i), v=i, kind="+I") for i in range(20_000)]
    harness.rows({0: rows, 1: rows})
    harness.rows({0: rows[:1], 1: rows[:1]})
    harness.restart()
    harness.rows([row("3", v=3, kind="-U"), row("3", v=4, kind="+U")], port=1)
    traffic = harness.traffic
    assert (traffic.gets, traffic.puts) == (4, 1), "index and buckets of each side, then what is new"
    assert traffic.bytes_read < harness.stores[0].size / 5


def test_rows_without_a_key_are_not_kept():
    harness = harness_of(kernel(JoinKind.FULL, (True, True)))
    harness.rows({0: [row(None, v=1, kind="+I")], 1: [row(None, v=2, kind="+I")]})
    assert told(harness) == ["+I None 0 1 None None None", "+I None None None None 0 2"]
    assert harness.stores[0].size == 0
    harness.rows([row(None, v=1, kind="-D")])
    assert told(harness) == ["-D None 0 1 None None None"]


# --- time to live ---------------------------------------------------------------------------------------------


def test_rows_whose_time_is_up_are_no_partners():
    harness = harness_of(kernel(JoinKind.INNER, ttl=(10 * SECOND, 0)), restarts=True)
    harness.batch({0: [row("a", v=1)]}, processing_time=SECOND)
    harness.batch({0: [row("a", v=2)]}, processing_time=5 * SECOND)
    harness.batch({1: [row("a", v=7)]}, processing_time=11 * SECOND)
    assert told(harness) == ["+I a 0 2 a 0 7"]
    harness.batch({0: [row("a", v=3)]}, processing_time=1000 * SECOND)
    assert told(harness) == ["+I a 0 3 a 0 7"], "the other side lives for ever"


def test_rows_whose_time_is_up_leave_the_state_without_results():
    harness = harness_of(kernel(JoinKind.LEFT, (False, True), ttl=(10 * SECOND, 10 * SECOND)))
    rows = [row(str(i)) for i in range(100)]
    harness.batch({0: rows, 1: [{**r, ROW_KIND: "+I"} for r in rows]}, processing_time=SECOND)
    assert len(told(harness)) == 100
    timer = harness.next_timer(Domain.PROCESSING)
    assert 11 * SECOND <= timer < 12 * SECOND
    harness.processing_time(timer)
    assert harness.stores[0].size == 0
    assert harness.next_timer(Domain.PROCESSING) == END_OF_TIME
    assert told(harness) == []


def test_results_with_rows_whose_time_is_up_stay():
    harness = harness_of(kernel(JoinKind.LEFT, (True, True), ttl=(0, 10 * SECOND)))
    harness.batch({0: [row("a", v=1, kind="+I")], 1: [row("a", v=2, kind="+I")]}, processing_time=0)
    told(harness)
    harness.batch({1: [row("a", v=3, kind="+I")]}, processing_time=20 * SECOND)
    assert told(harness) == ["+I a 0 1 a 0 3"], "the row had a partner, so no padded one is withdrawn"
    harness.batch({1: [row("a", v=3, kind="-D")]})
    assert told(harness) == ["-D a 0 1 a 0 3"], "the first result stays"


def test_rows_that_come_again_live_longer():
    harness = harness_of(kernel(JoinKind.INNER, (True, False), ttl=(10 * SECOND, 0)))
    harness.batch({0: [row("a", v=1, kind="+I"), row("b", kind="+I")]}, processing_time=0)
    harness.batch({0: [row("a", v=1, kind="-U"), row("a", v=1, kind="+U")]}, processing_time=8 * SECOND)
    harness.batch({1: [row("a"), row("b")]}, processing_time=15 * SECOND)
    assert told(harness) == ["+I a 0 1 a 0 0"]
    harness.batch({0: [row("b", kind="-U"), row("b", kind="+U")]})
    assert told(harness) == ["+I b 0 0 b 0 0"], "its time was up, so it is new"


def test_no_time_passes_at_the_end_of_the_input():
    harness = harness_of(kernel(JoinKind.INNER, ttl=(10 * SECOND, 10 * SECOND)))
    harness.batch({0: [row("a", v=1)]}, processing_time=0)
    harness.finish()
    harness.rows([row("a", v=2)], port=1)
    assert told(harness) == ["+I a 0 1 a 0 2"]


def test_rows_that_come_before_the_clock_is_known_have_all_their_time():
    harness = harness_of(kernel(JoinKind.INNER, ttl=(10 * SECOND, 0)), processing_time=NO_WATERMARK)
    harness.batch({0: [row("a", v=1)]})
    harness.batch({1: [row("a", v=7)]}, processing_time=50 * SECOND)
    harness.batch({1: [row("a", v=8)]}, processing_time=59 * SECOND)
    assert told(harness) == ["+I a 0 1 a 0 7", "+I a 0 1 a 0 8"]
    harness.batch({1: [row("a", v=9)]}, processing_time=60 * SECOND)
    assert told(harness) == []
