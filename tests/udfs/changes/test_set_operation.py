"""INTERSECT and EXCEPT against multisets of rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.changes import SetKind
from sqlstream.udfs.changes.kernels import SetOperationKernel
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND
from sqlstream.udfs.state.time_to_live import TimeToLive

SECOND = 1_000_000
FIELDS = pa.schema([("k", pa.string()), ("x", pa.float64())])
Row = tuple[str | None, float | None]


def harness_of(kind: SetKind, updating: tuple[bool, bool] = (False, False), ttl: int = 0, **more: Any) -> KernelHarness:
    updates = any(updating) or not kind.intersects
    schemas = [
        pa.schema([(KEY_HASH, pa.int64()), *FIELDS, *([(ROW_KIND, pa.string())] if own else [])]) for own in updating
    ]
    return KernelHarness(SetOperationKernel(kind, FIELDS, TimeToLive(ttl), updates), schemas, ["k", "x"], **more)


def row(k: str | None, x: float | None = 0.0, kind: str | None = None) -> dict[str, Any]:
    return {"k": k, "x": x, **({ROW_KIND: kind} if kind else {})}


def told(harness: KernelHarness) -> list[str]:
    return [f"{output.get(ROW_KIND, '+I')} {output['k']}" for output in harness.output()]


def compared(kind: SetKind, left: Counter[Row], right: Counter[Row]) -> Counter[Row]:
    match kind:
        case SetKind.INTERSECT_ALL:
            return left & right
        case SetKind.EXCEPT_ALL:
            return left - right
        case SetKind.INTERSECT:
            return Counter((left & right).keys())
    return Counter(left.keys() - right.keys())


ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0.0, 1.5, float("inf"), None]))


@pytest.mark.parametrize("updating", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("kind", SetKind, ids=lambda kind: kind.name)
@settings(max_examples=8)
@given(st.data())
def test_the_sum_of_changes_compares_both_inputs(kind, updating, data):
    more = {"groups": data.draw(st.sampled_from([1, 3])), "restarts": data.draw(st.booleans())}
    harness = harness_of(kind, updating, **more)
    held: tuple[list[Row], list[Row]] = ([], [])
    result: Counter[Row] = Counter()
    for _ in range(data.draw(st.integers(1, 4))):
        batch: dict[int, list[dict[str, Any]]] = {}
        for port in range(2):
            for _ in range(data.draw(st.integers(0, 5))):
                if updating[port] and held[port] and data.draw(st.booleans()):
                    gone = held[port].pop(data.draw(st.integers(0, len(held[port]) - 1)))
                    batch.setdefault(port, []).append(row(*gone, data.draw(st.sampled_from(["-U", "-D"]))))
                else:
                    held[port].append(data.draw(ROWS))
                    batch.setdefault(port, []).append(row(*held[port][-1], "+I" if updating[port] else None))
        harness.rows(batch)
        for output in harness.output():
            sign = -1 if output.get(ROW_KIND) == "-D" else 1
            result[output["k"], output["x"]] += sign
            assert result[output["k"], output["x"]] >= 0, "only what came out is withdrawn"
        assert +result == compared(kind, Counter(held[0]), Counter(held[1]))
    assert harness.counters[IGNORED] == 0
    if not any(held):
        assert not any(store.size for store in harness.stores)


def test_rows_that_are_in_both_come_out_once_and_without_a_kind():
    harness = harness_of(SetKind.INTERSECT)
    harness.rows({0: [row("a"), row("a"), row(None)], 1: [row("a")]})
    harness.rows([row(None)], port=1)
    assert ROW_KIND not in harness.output_table().schema.names
    harness.rows([row("a")], port=1)
    assert told(harness) == []


def test_what_the_right_side_gets_is_withdrawn_and_comes_again():
    harness = harness_of(SetKind.EXCEPT_ALL, (False, True))
    harness.rows([row("a"), row("a")])
    harness.rows([row("a", kind="+I"), row("b", kind="+I")], port=1)
    harness.rows([row("a", kind="-D")], port=1)
    assert told(harness) == ["+I a", "+I a", "-D a", "+I a"]


def test_rows_that_go_and_are_not_there_are_counted():
    harness = harness_of(SetKind.EXCEPT, (True, True))
    harness.rows({0: [row("a", kind="-D")], 1: [row("a", kind="-U"), row("a", kind="-U")]})
    assert told(harness) == []
    assert harness.counters[IGNORED] == 3


def test_rows_are_forgotten_after_their_time():
    harness = harness_of(SetKind.INTERSECT, ttl=10 * SECOND)
    harness.batch({0: [row("a"), row("b")]}, processing_time=SECOND)
    harness.batch({0: [row("a")]}, processing_time=8 * SECOND)
    harness.batch({1: [row("a"), row("b")]}, processing_time=12 * SECOND)
    assert told(harness) == ["+I a"]
    harness.processing_time(30 * SECOND)
    assert harness.stores[0].size == 0
