"""The multi-way join against the SQL join of what all inputs hold by then, and against the chain of regular joins."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.joins import pairs
from sqlstream.udfs.joins.multi import MultiJoinKernel
from sqlstream.udfs.joins.pairs import Side
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND
from tests.depth import depth

Row = tuple[object, ...]
ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0, 0, 1, None]), st.integers(0, 2))


def kernel(*updating: bool) -> MultiJoinKernel:
    sides = []
    for number, updates in enumerate(updating):
        kind = [(ROW_KIND, pa.string())] if updates else []
        schema = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.int64()), (KEY_HASH, pa.int64()), *kind])
        sides.append(Side(schema, tuple((f"{name}{number}", name) for name in "knv")))
    return MultiJoinKernel(tuple(sides), ("k", "n"))


def harness_of(join: MultiJoinKernel, **options) -> KernelHarness:
    return KernelHarness(join, [side.input for side in join.sides], ["k", "n"], **options)


def row(values: Row, kind: str | None = None) -> dict[str, object]:
    return {**dict(zip("knv", values, strict=True)), **({ROW_KIND: kind} if kind else {})}


def joined(held: list[list[Row]]) -> Counter[Row]:
    """Each combination of a row of each input with equal keys, none of which is NULL."""
    found: Counter[Row] = Counter()
    for rows in product(*held):
        keys = {values[:2] for values in rows}
        if len(keys) == 1 and None not in rows[0][:2]:
            found[tuple(value for values in rows for value in values)] += 1
    return found


@pytest.mark.parametrize("updating", [(False,) * 3, (True, False, False), (False, True, True, False), (True,) * 3])
@settings(max_examples=depth(25, 100))
@given(st.data())
def test_the_sum_of_changes_is_the_join_of_all_inputs(updating, data):
    join = kernel(*updating)
    harness = harness_of(join, groups=data.draw(st.sampled_from([1, 3])), restarts=data.draw(st.booleans()))
    held: list[list[Row]] = [[] for _ in updating]
    result: Counter[Row] = Counter()
    for _ in range(data.draw(st.integers(1, 4))):
        batch: dict[int, list[dict[str, object]]] = {}
        for port, updates in enumerate(updating):
            for _ in range(data.draw(st.integers(0, 4))):
                if updates and held[port] and data.draw(st.booleans()):
                    gone = held[port].pop(data.draw(st.integers(0, len(held[port]) - 1)))
                    batch.setdefault(port, []).append(row(gone, data.draw(st.sampled_from(["-D", "-U"]))))
                else:
                    come = data.draw(ROWS)
                    held[port].append(come)
                    batch.setdefault(port, []).append(row(come, "+I" if updates else None))
        if batch:
            harness.rows(batch)
        withdrawn: Counter[Row] = Counter()
        added: Counter[Row] = Counter()
        for output in harness.output():
            (withdrawn if output.pop(ROW_KIND, "+I") == "-D" else added)[tuple(output.values())] += 1
        assert not withdrawn - result, "only what came out is withdrawn"
        result = result - withdrawn + added
        assert result == joined(held)
    assert harness.counters[IGNORED] == 0


def test_each_row_is_stored_once_and_no_result_is():
    harness = harness_of(kernel(False, False, False))
    harness.rows({port: [row(("a", 0, v)) for v in range(20)] for port in range(3)})
    assert harness.output_table().num_rows == 20**3
    harness.rows([row(("a", 0, 99))], port=1)
    assert harness.output_table().num_rows == 20**2


def test_a_row_that_lacks_partners_in_one_input_waits_for_them():
    harness = harness_of(kernel(False, False, False))
    harness.rows({0: [row(("a", 0, 1)), row((None, 0, 2))], 2: [row(("a", 0, 3)), row(("b", 0, 4))]})
    assert not harness.output()
    harness.rows([row(("a", 0, 5)), row((None, 0, 6))], port=1)
    assert harness.output() == [{
        "k0": "a", "n0": 0, "v0": 1, "k1": "a", "n1": 0, "v1": 5, "k2": "a", "n2": 0, "v2": 3,
    }]  # fmt: skip
    assert ROW_KIND not in harness.output_table().schema.names


def test_a_retraction_of_no_row_is_counted():
    harness = harness_of(kernel(True, False, False))
    harness.rows([row(("a", 0, 1), "-D")])
    assert (harness.output(), harness.counters[IGNORED]) == ([], 1)


def test_results_come_in_blocks_of_bounded_size(monkeypatch):
    monkeypatch.setattr(pairs, "MOST_PAIRS", 10)
    found = [(block.start, block.stop) for block in pairs.blocks(np.array([4, 0, 7, 3, 100, 0, 1, 0]))]
    assert found == [(0, 2), (2, 4), (4, 5), (5, 8)], "a row alone may have more"
    assert not [*pairs.blocks(np.zeros(3, np.int64))]
    harness = harness_of(kernel(False, False, False))
    harness.rows({port: [row((k, 0, v)) for k in "ab" for v in range(3)] for port in range(3)})
    assert Counter(tuple(output.values()) for output in harness.output()) == joined(
        [[(k, 0, v) for k in "ab" for v in range(3)]] * 3
    )
