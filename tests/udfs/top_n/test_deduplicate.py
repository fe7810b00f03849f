"""First and last rows of keys, against a dict that takes rows one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.driver import GroupContext, unfolded
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, Domain, MemoryStore
from sqlstream.udfs.state.chunked import StateSchemaError
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.top_n.deduplicate import DeduplicateKernel

SCHEMA = pa.schema([(KEY_HASH, pa.int64()), ("k", pa.string()), ("ts", pa.int64()), ("v", pa.float64())])
Row = tuple[str | None, int, float | None]
Changes = list[tuple[str, str | None, int, float | None]]


def harness(*, last: bool, timed: bool, before: bool = True, ttl: int = 0, **options: Any) -> KernelHarness:
    kernel = DeduplicateKernel(SCHEMA, ("k",), ("k", "ts", "v"), "ts" if timed else None, last, before, ttl)
    return KernelHarness(kernel, SCHEMA, ["k"], **options)


def rows(*given: Row) -> list[dict[str, Any]]:
    return [{KEY_HASH: None, "k": k, "ts": ts, "v": v} for k, ts, v in given]


def came(kernel: KernelHarness) -> Changes:
    return [(row.get(ROW_KIND, "+I"), row["k"], row["ts"], row["v"]) for row in kernel.output()]


def test_the_first_row_as_it_comes_is_final():
    kernel = harness(last=False, timed=False)
    assert ROW_KIND not in kernel.kernel.output.names
    kernel.rows(rows(("a", 5, 1.0), ("b", 5, 2.0), ("a", 1, 3.0)))
    kernel.rows(rows(("b", 0, 4.0), ("c", 0, 5.0)))
    assert came(kernel) == [("+I", "a", 5, 1.0), ("+I", "b", 5, 2.0), ("+I", "c", 0, 5.0)]


def test_an_earlier_row_takes_the_place_of_the_first():
    kernel = harness(last=False, timed=True)
    kernel.rows(rows(("a", 5, 1.0)))
    kernel.rows(rows(("a", 5, 2.0), ("a", 6, 3.0)))
    kernel.rows(rows(("a", 4, 4.0)))
    assert came(kernel) == [("+I", "a", 5, 1.0), ("-U", "a", 5, 1.0), ("+U", "a", 4, 4.0)]


def test_a_later_row_takes_the_place_of_the_last():
    kernel = harness(last=True, timed=True)
    kernel.rows(rows(("a", 5, 1.0), ("a", 3, 0.0)))
    kernel.rows(rows(("a", 4, 2.0), ("a", 5, 3.0)))
    assert came(kernel) == [("+I", "a", 5, 1.0), ("-U", "a", 5, 1.0), ("+U", "a", 5, 3.0)]


def test_nobody_reads_what_was_there():
    kernel = harness(last=True, timed=False, before=False)
    kernel.rows(rows(("a", 5, 1.0)))
    kernel.rows(rows(("a", 4, 2.0), ("b", 0, 0.0)))
    assert came(kernel) == [("+I", "a", 5, 1.0), ("+U", "a", 4, 2.0), ("+I", "b", 0, 0.0)]


def test_no_time_is_before_all_times():
    for last, times in ((True, [5, 5]), (False, [5, None])):
        kernel = harness(last=last, timed=True)
        kernel.rows(rows(("a", 5, 1.0)))
        kernel.rows([{**row, "ts": None} for row in rows(("a", 0, 2.0), ("a", 0, 3.0))])
        assert [ts for kind, _, ts, _ in came(kernel) if kind != "-U"] == (times[:1] if last else times)


def test_an_equal_row_changes_nothing():
    kernel = harness(last=True, timed=False)
    for _ in range(2):
        kernel.rows(rows(("a", 5, float("nan")), ("b", 1, None)))
    assert len(came(kernel)) == 2


def test_keys_of_one_hash_are_told_apart():
    kernel = harness(last=True, timed=False)
    for v in (1.0, 2.0):
        kernel.rows([{**row, KEY_HASH: 7} for row in rows(("a", 0, v), ("b", 0, v))])
    assert [kind for kind, *_ in came(kernel)] == ["+I", "+I", "-U", "+U", "-U", "+U"]


STEPS = st.lists(
    st.tuples(
        st.integers(0, 4_000),
        st.lists(
            st.tuples(
                st.one_of(st.none(), st.sampled_from("abcd")), st.integers(0, 5), st.sampled_from([0.0, 1.5, None])
            ),
            max_size=12,
        ),
    ),
    max_size=8,
)


def model(steps: list[tuple[int, list[Row]]], last: bool, timed: bool, ttl: int) -> Iterator[Changes]:
    """What each step changes of the rows that are known; ``ttl`` 0: never forgotten."""
    known: dict[str | None, tuple[int, float | None, int]] = {}
    now = 0
    for passed, item in steps:
        now += passed
        known = {k: row for k, row in known.items() if not ttl or row[2] + ttl > now}
        before, taken = dict(known), set()
        for k, ts, v in item:
            was = known.get(k)
            later = was is None or (last if not timed else (ts >= was[0] if last else ts < was[0]))
            if later:
                known[k] = (ts, v, now)
                taken.add(k)
        changes: Changes = []
        for k in taken:
            old, new = before.get(k), known[k]
            if old is None:
                changes.append(("+I", k, *new[:2]))
            elif ttl or old[:2] != new[:2]:
                changes += [("-U", k, *old[:2]), ("+U", k, *new[:2])]
        yield changes


@pytest.mark.parametrize("ttl", [0, 5_000])
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("last", [False, True])
@settings(max_examples=40)
@given(steps=STEPS, groups=st.integers(1, 3), cut=st.integers(1, 15), restarts=st.booleans())
def test_any_rows_in_any_pieces(ttl, timed, last, steps, groups, cut, restarts) -> None:
    kernel = harness(last=last, timed=timed, ttl=ttl, groups=groups, arrow_rows=cut, restarts=restarts)
    now = 0
    for (passed, item), expected in zip(steps, model(steps, last, timed, ttl), strict=True):
        now += passed
        kernel.batch(rows(*item), processing_time=now)
        assert sorted(map(repr, came(kernel))) == sorted(map(repr, expected))


# --- keys of first rows in order of arrival, in the state -----------------------------------------------------


def first_by_key(key: str, others: tuple[str, ...]) -> DeduplicateKernel:
    """Keeps the first row of each ``key``; other columns of the query stand before it."""
    schema = pa.schema([(KEY_HASH, pa.int64()), *((name, pa.int64()) for name in others), (key, pa.string())])
    return DeduplicateKernel(schema, (key,), (*others, key), None, last=False)


def keys_emitted(kernel: DeduplicateKernel, store: MemoryStore, *keys: str) -> list[str]:
    context = GroupContext(store)
    (name,) = kernel.keys
    given = [{**dict.fromkeys(kernel.passed, 0), KEY_HASH: ord(key), name: key} for key in keys]
    kernel.on_rows(pa.Table.from_pylist(given, kernel.input), context)
    return [key for rows in unfolded(kernel, context.emitted[True]) for key in rows.column(name).to_pylist()]


def test_the_keys_that_came_are_stored_apart_from_the_other_columns_of_the_query():
    store = MemoryStore()
    assert keys_emitted(first_by_key("__field_0", ()), store, "a", "b") == ["a", "b"]
    assert keys_emitted(first_by_key("__field_2", ("__field_0", "__field_1")), store, "b", "c") == ["c"]


@pytest.mark.parametrize("count", [1, 20_000])
def test_keys_that_earlier_builds_stored_by_the_name_of_their_column_are_read(count):
    """They are there by the new names from then on, however few buckets change."""
    store, kernel = MemoryStore(), first_by_key("__field_0", ())
    state = KeyedState(store, "rows", pa.schema([(KEY_HASH, pa.int64()), ("__field_0", pa.string())]))
    hashes = np.concatenate([[ord("a")], np.arange(1_000, 1_000 + count - 1)])
    state.append(pa.table({KEY_HASH: hashes, "__field_0": ["a", *map(str, range(count - 1))]}, state.schema))
    state.flush()
    assert keys_emitted(kernel, store, "a", "b") == ["b"]
    changed = first_by_key("__field_1", ("__field_0",))
    assert keys_emitted(changed, store, "a", "b", "c") == ["c"]
    assert KeyedState(store, "rows", pa.schema([(KEY_HASH, pa.int64()), ("__key_0", pa.string())])).rows() == count + 2


def test_state_of_other_columns_is_none_of_earlier_builds():
    store = MemoryStore()
    state = KeyedState(store, "rows", pa.schema([(KEY_HASH, pa.int64()), ("other", pa.string())]))
    state.append(pa.table({KEY_HASH: [1], "other": ["a"]}, state.schema))
    state.flush()
    with pytest.raises(StateSchemaError, match="other columns than the query"):
        keys_emitted(first_by_key("__field_0", ()), store, "a")


# --- distinct rows below windows --------------------------------------------------------------------------------

DISTINCT = pa.schema([(KEY_HASH, pa.int64()), ("k", pa.string()), ("ts", pa.int64()), ("closes", pa.int64())])


def distinct(**options: Any) -> KernelHarness:
    kernel = DeduplicateKernel(DISTINCT, ("k", "ts"), ("k", "ts"), None, last=False, closes="closes")
    return KernelHarness(kernel, DISTINCT, ["k", "ts"], **options)


def stored(kernel: KernelHarness) -> int:
    assert isinstance(kernel.kernel, DeduplicateKernel)
    return sum(KeyedState(store, "rows", kernel.kernel._stored).load_all().num_rows for store in kernel.stores)


def test_distinct_rows_are_forgotten_when_their_windows_close():
    kernel = distinct()
    kernel.rows([{KEY_HASH: None, "k": "a", "ts": ts, "closes": ts + 10} for ts in (1, 2, 1)])
    kernel.watermark(11)
    assert (kernel.next_timer(Domain.EVENT), stored(kernel)) == (12, 1)
    kernel.rows([{KEY_HASH: None, "k": "a", "ts": ts, "closes": ts + 10} for ts in (1, 2, 3)])
    assert [(row["k"], row["ts"]) for row in kernel.output()] == [("a", 1), ("a", 2), ("a", 1), ("a", 3)]
    kernel.finish()
    assert stored(kernel) == 0


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.tuples(st.one_of(st.none(), st.sampled_from("ab")), st.integers(0, 30)), max_size=8),
            st.integers(0, 12),
        ),
        max_size=8,
    ),
    groups=st.integers(1, 3),
    cut=st.integers(1, 15),
    restarts=st.booleans(),
)
def test_each_distinct_row_comes_once_for_each_open_window(steps, groups, cut, restarts) -> None:
    kernel = distinct(groups=groups, arrow_rows=cut, restarts=restarts)
    known, watermark = set[tuple[str | None, int]](), -1
    for item, passed in steps:
        kernel.rows([{KEY_HASH: None, "k": k, "ts": ts, "closes": ts + 10} for k, ts in item])
        emitted = [(row["k"], row["ts"]) for row in kernel.output()]
        is_open = {row for row in item if row[1] + 10 > watermark}
        assert sorted(map(repr, (row for row in emitted if row in is_open))) == sorted(map(repr, is_open - known))
        assert {row for row in emitted if row not in is_open} == set(item) - is_open
        known |= is_open
        watermark += passed
        kernel.watermark(watermark)
        assert stored(kernel) == len({row for row in known if row[1] + 10 > watermark})
