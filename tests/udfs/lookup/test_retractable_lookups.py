"""Lookups of rows that are retracted, against a model that goes row by row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.changes.stored_results import StoredResults
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import IGNORED, KEY_HASH, ROW_KIND
from sqlstream.udfs.lookup.deferred import RetractableLookups
from sqlstream.udfs.state.time_to_live import TimeToLive

SECOND = 1_000_000
SCHEMA = pa.schema([
    (KEY_HASH, pa.int64()),
    ("k", pa.string()),
    ("x", pa.float64()),
    ("clock", pa.int64()),
    ("found", pa.list_(pa.struct([("v", pa.string())]))),
    ("error", pa.string()),
    (ROW_KIND, pa.string()),
])  # fmt: skip
Row = tuple[str | None, float | None]


def harness_of(ttl: int = 0, **more: Any) -> KernelHarness:
    remembered = StoredResults(SCHEMA, ("k", "x"), TimeToLive(ttl), "error")
    return KernelHarness(RetractableLookups(remembered), SCHEMA, ["k"], **more)


def row(
    k: str | None, x: float | None = 0.0, found: str | None = None, kind: str = "+I", **more: Any
) -> dict[str, Any]:
    answers = None if found is None else [{"v": found}]
    return {"k": k, "x": x, "clock": 0, "found": answers, "error": None, ROW_KIND: kind, **more}


def told(harness: KernelHarness) -> list[str]:
    return [f"{f[ROW_KIND]} {f['k']} {f['x']} {f['found'][0]['v']}" for f in harness.output()]


ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0.0, 1.5, float("inf"), None]))


@settings(max_examples=60)
@given(st.data())
def test_each_row_goes_with_the_answers_of_one_that_came(data):
    harness = harness_of(groups=data.draw(st.sampled_from([1, 3])), restarts=data.draw(st.booleans()))
    held: list[Row] = []
    result: Counter[tuple[Any, ...]] = Counter()
    asked = 0
    for _ in range(data.draw(st.integers(1, 5))):
        batch = []
        for _ in range(data.draw(st.integers(0, 6))):
            if held and data.draw(st.booleans()):
                gone = held.pop(data.draw(st.integers(0, len(held) - 1)))
                batch.append(row(*gone, kind=data.draw(st.sampled_from(["-U", "-D"]))))
            else:
                held.append(data.draw(ROWS))
                asked += 1
                batch.append(row(*held[-1], found=f"answer {asked}", kind=data.draw(st.sampled_from(["+I", "+U"]))))
        harness.rows(batch)
        for found in harness.output():
            came = (found["k"], found["x"], found["found"][0]["v"])
            result[came] += -1 if found[ROW_KIND] == "-D" else 1
            assert result[came] >= 0, "only what came out is retracted"
        assert Counter((k, x) for k, x, _ in (+result).elements()) == Counter(held)
    assert harness.counters[IGNORED] == 0
    if not held:
        assert not any(store.size for store in harness.stores)


def test_the_first_of_equal_rows_goes_first():
    harness = harness_of()
    harness.rows([row("a", found="one"), row("a", found="two")])
    harness.rows([row("a", kind="-U"), row("b", found="three", kind="+U")])
    assert told(harness) == ["+I a 0.0 one", "+I a 0.0 two", "-D a 0.0 one", "+I b 0.0 three"]


def test_a_row_goes_with_all_that_it_came_with():
    """Its clock has moved on when it is retracted."""
    harness = harness_of()
    harness.rows([row("a", found="one", clock=5)])
    harness.rows([row("a", kind="-D", clock=9)])
    assert [(found[ROW_KIND], found["clock"]) for found in harness.output()] == [("+I", 5), ("-D", 5)]


def test_what_comes_and_goes_in_one_batch_does_not_come_out():
    harness = harness_of()
    harness.rows([row("a", found="one"), row("a", kind="-D"), row("b", found="two")])
    harness.rows([row("b", kind="-U"), row("b", found="three", kind="+U")])
    assert told(harness) == ["+I b 0.0 two"]


def test_rows_that_are_not_there_are_counted():
    harness = harness_of()
    harness.rows([row("a", kind="-D"), row("a", 1.0, kind="-U")])
    assert told(harness) == []
    assert harness.counters[IGNORED] == 2


def test_nothing_is_retracted_with_rows_whose_lookup_failed():
    harness = harness_of()
    harness.rows([row("a", found="", error="no answer"), row("b", found="two")])
    harness.output()
    harness.rows([row("a", kind="-D"), row("b", kind="-D")])
    assert told(harness) == ["-D b 0.0 two"]
    assert harness.counters[IGNORED] == 0
    assert harness.stores[0].size == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_answers_are_forgotten_after_their_time_and_kept_by_rows_that_come_again(restarts):
    harness = harness_of(ttl=10 * SECOND, restarts=restarts)
    harness.batch([row("a", found="one"), row("b", found="two"), row("c", found="three")], processing_time=SECOND)
    harness.batch([row("a", kind="-U"), row("a", found="later", kind="+U")], processing_time=8 * SECOND)
    harness.output()
    harness.batch(
        [row("a", kind="-D"), row("b", kind="-D"), row("c", kind="-U"), row("c", found="new", kind="+U")],
        processing_time=15 * SECOND,
    )
    assert told(harness) == ["-D a 0.0 one", "+I c 0.0 new"]
    assert harness.counters[IGNORED] == 1
    harness.processing_time(40 * SECOND)
    assert harness.stores[0].size == 0
