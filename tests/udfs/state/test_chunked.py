"""Tables by number in a store."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.udfs.kernel import NO_WATERMARK, MemoryStore
from sqlstream.udfs.state import chunked
from sqlstream.udfs.state.chunked import MOST_BYTES, MOST_CHUNKS, ChunkedState, StateSchemaError

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def table(*numbers):
    return pa.table({"k": [f"k{n}" for n in numbers], "n": numbers}, SCHEMA)


def test_what_is_appended_is_read_in_order():
    store = MemoryStore()
    for numbers in [(1, 2), (3,), (4, 5)]:
        state = ChunkedState(store, "panes", SCHEMA)
        state.append(-7, table(*numbers))
        state.append(9, table(*numbers))
        state.flush()
    rows_read = ChunkedState(store, "panes", SCHEMA).read([-7, 1])
    assert rows_read[-7] == table(1, 2, 3, 4, 5)
    assert rows_read[1] == SCHEMA.empty_table()


def test_one_call_reads_and_one_call_writes():
    store = MemoryStore()
    state = ChunkedState(store, "panes", SCHEMA)
    for number in range(5):
        state.append(number, table(number))
        state.append(number, table(number))
    state.flush()
    assert (store.traffic.gets, store.traffic.puts, store.traffic.entries_written) == (1, 1, 6)
    state = ChunkedState(store, "panes", SCHEMA)
    state.read(range(5))
    state.read(range(5))
    state.flush()
    assert (store.traffic.gets, store.traffic.puts) == (3, 1)


def test_a_mark_is_kept_as_long_as_there_are_entries():
    store = MemoryStore()
    state = ChunkedState(store, "panes", SCHEMA)
    state.append(1, table(1))
    state.flush()
    state = ChunkedState(store, "panes", SCHEMA)
    state.mark = 7
    state.flush()
    state = ChunkedState(store, "panes", SCHEMA)
    assert state.mark == 7
    state.flush()
    assert store.traffic.puts == 2
    state.replace(1, None)
    state.flush()
    assert store.size == 0
    assert ChunkedState(store, "panes", SCHEMA).mark == NO_WATERMARK


def test_an_entry_knows_how_much_it_holds():
    store = MemoryStore()
    state = ChunkedState(store, "panes", SCHEMA)
    for numbers in [(1, 2), (3,)]:
        state.append(1, table(*numbers))
        state.flush()
    assert ChunkedState(store, "panes", SCHEMA).extent(1) == (2, 3, 2)
    state.replace(1, table(1, 2, 3))
    state.flush()
    assert ChunkedState(store, "panes", SCHEMA).extent(1) == (1, 3, 3)


def test_appending_costs_the_same_however_much_is_stored():
    def written(stored: int) -> int:
        store = MemoryStore()
        state = ChunkedState(store, "panes", SCHEMA)
        state.append(0, table(*range(stored)))
        state.flush()
        before = store.traffic.bytes_written + store.traffic.bytes_read
        state = ChunkedState(store, "panes", SCHEMA)
        state.append(0, table(1, 2, 3))
        state.flush()
        return store.traffic.bytes_written + store.traffic.bytes_read - before

    assert written(10) == written(10_000)


def test_replacing_with_nothing_leaves_nothing_in_the_store():
    store = MemoryStore()
    state = ChunkedState(store, "panes", SCHEMA)
    state.append(1, table(1))
    state.flush()
    state.append(1, table(2))
    state.replace(1, None)
    assert state.ids().tolist() == []
    state.flush()
    assert store.entries == {}


def test_an_entry_of_many_chunks_becomes_one_when_it_is_read():
    store = MemoryStore()
    for n in range(MOST_CHUNKS + 1):
        state = ChunkedState(store, "panes", SCHEMA)
        state.append(1, table(n))
        state.flush()
    assert len(store.entries) == MOST_CHUNKS + 2
    state = ChunkedState(store, "panes", SCHEMA)
    state.read([1])
    state.append(1, table(99))
    state.flush()
    assert len(store.entries) == 2
    assert ChunkedState(store, "panes", SCHEMA).read([1])[1] == table(*range(MOST_CHUNKS + 1), 99)


def test_a_large_entry_is_divided_into_chunks_which_stay():
    store = MemoryStore()
    with patch.object(chunked, "MOST_BYTES", 1000):
        for n in range(MOST_CHUNKS + 2):
            state = ChunkedState(store, "panes", SCHEMA)
            state.append(1, table(*[n] * 100))
            state.flush()
        expected = [n for n in range(MOST_CHUNKS + 2) for _ in range(100)]
        for _ in range(2):
            puts = store.traffic.puts
            state = ChunkedState(store, "panes", SCHEMA)
            assert state.read([1])[1]["n"].to_pylist() == expected
            state.flush()
        assert store.traffic.puts == puts
        assert max(len(entry) for entry in store.entries.values()) < 2000
        state.replace(1, table(1))
        state.flush()
    assert len(store.entries) == 2


def test_state_of_other_columns_is_refused():
    store = MemoryStore()
    state = ChunkedState(store, "panes", SCHEMA)
    state.append(1, table(1))
    state.flush()
    other = ChunkedState(store, "panes", pa.schema([("k", pa.string()), ("n", pa.int32())]))
    with pytest.raises(StateSchemaError, match=r'stored state "panes" has other columns .* k string, n int32'):
        other.ids()


def test_rows_of_other_columns_are_refused():
    with pytest.raises(TypeError, match='rows of state "panes"'):
        ChunkedState(MemoryStore(), "panes", SCHEMA).append(1, pa.table({"k": ["a"]}))


_ID = st.integers(-2, 2)
_ROWS = st.lists(st.integers(0, 9), max_size=3)
_STEP = st.one_of(
    st.tuples(st.just("append"), _ID, _ROWS),
    st.tuples(st.just("replace"), _ID, _ROWS | st.none()),
    st.tuples(st.just("read"), _ID),
    st.tuples(st.just("flush")),
    st.tuples(st.just("restart")),
)


@given(st.lists(_STEP, max_size=40), st.sampled_from([20, MOST_BYTES]))
def test_it_is_a_dictionary_of_lists(steps, most_bytes):
    with patch.object(chunked, "MOST_BYTES", most_bytes):
        _is_a_dictionary_of_lists(steps)


def _is_a_dictionary_of_lists(steps):
    store = MemoryStore()
    model: dict[int, list[int]] = {}
    state = ChunkedState(store, "s", SCHEMA)
    for step in steps:
        match step:
            case "append", number, rows:
                state.append(number, table(*rows))
                model[number] = model.get(number, []) + rows
            case "replace", number, rows:
                state.replace(number, None if rows is None else table(*rows))
                model[number] = rows or []
            case "read", number:
                assert state.read([number])[number]["n"].to_pylist() == model.get(number, [])
            case ("flush",):
                state.flush()
            case ("restart",):
                state.flush()
                state = ChunkedState(store, "s", SCHEMA)
        assert state.ids().tolist() == sorted(number for number, rows in model.items() if rows)
        assert all(state.rows(number) == len(model.get(number, [])) for number in range(-2, 3))
    rows_read = state.read(np.arange(-2, 3))
    assert {number: rows["n"].to_pylist() for number, rows in rows_read.items()} == {
        number: model.get(number, []) for number in range(-2, 3)
    }
