"""Rows by key, in buckets by hash."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, Domain, MemoryStore
from sqlstream.udfs.state import buckets, chunked, keyed, log
from sqlstream.udfs.state.buckets import EVENT_TIMER, PROCESSING_TIMER, Chunk, write_chunk
from sqlstream.udfs.state.chunked import StateSchemaError
from sqlstream.udfs.state.keyed import BUCKET_ROWS, KeyedState

TIMERS = pa.schema(
    [(KEY_HASH, pa.int64()), ("n", pa.int64()), (EVENT_TIMER, pa.int64()), (PROCESSING_TIMER, pa.int64())]
)
COUNTS = pa.schema([(KEY_HASH, pa.int64()), ("k", pa.int64()), ("n", pa.int64())])

MIX = -7046029254386353131


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Well spread 64 bits for small numbers."""
    with np.errstate(over="ignore"):
        return np.asarray(numbers, np.int64) * np.int64(MIX)


def counts(keys, n=1) -> pa.Table:
    keys = np.asarray(keys, np.int64)
    return pa.table([mixed(keys), keys, np.full(len(keys), n)], schema=COUNTS)


@pytest.fixture
def one_size(monkeypatch):
    """Buckets are of one size, also where a call writes most rows."""
    monkeypatch.setattr("sqlstream.udfs.state.keyed.LARGER", 1)


def stored(keys: int) -> MemoryStore:
    store = MemoryStore()
    state = KeyedState(store, "s", COUNTS)
    state.append(counts(range(keys)))
    state.flush()
    return store


def read_all(store: MemoryStore, keys: int) -> list:
    rows = KeyedState(store, "s", COUNTS).load(mixed(np.arange(keys)))
    return sorted(zip(rows["k"].to_pylist(), rows["n"].to_pylist(), strict=True))


def touch(store: MemoryStore, keys: np.ndarray) -> None:
    """Adds one to the counts of keys, as a kernel would."""
    state = KeyedState(store, "s", COUNTS)
    rows = state.load(mixed(keys))
    n = np.where(np.isin(rows["k"], keys), rows["n"].to_numpy() + 1, rows["n"].to_numpy())
    state.replace(rows.set_column(2, "n", pa.array(n)))
    state.flush()


def add(store: MemoryStore, keys) -> None:
    """Appends rows, also of keys that have rows."""
    state = KeyedState(store, "s", COUNTS)
    state.append(counts(keys))
    state.flush()


@pytest.mark.usefixtures("one_size")
@pytest.mark.parametrize("touched", [10, 1000])
def test_a_batch_reads_the_buckets_it_touches(touched):
    store = stored(100_000)
    everything = store.size
    store.forget_traffic()
    touch(store, np.arange(touched) * 97)
    traffic = store.traffic
    assert (traffic.gets, traffic.puts) == (2, 1)
    assert traffic.entries_read <= touched + 3
    assert traffic.entries_written <= touched + 1
    index = len(store.entries["s", 0])
    assert traffic.bytes_read - index <= everything * min(1.0, touched * BUCKET_ROWS / 100_000)
    if touched == 10:
        assert traffic.bytes_read < everything / 10
    assert read_all(store, 100_000) == [(k, 2 if k % 97 == 0 and k < 97 * touched else 1) for k in range(100_000)]


@pytest.mark.usefixtures("one_size")
@pytest.mark.parametrize("touched", [1, 8, 100])
def test_written_bytes_follow_the_rows_that_are_touched(touched):
    """Over many batches, with what is rewritten now and then; of the index, the root of its buckets."""
    row = 8 * len(COUNTS)
    head = len(write_chunk(Chunk(counts([1]).to_batches()[0]), 1)) - row
    for keys in (1_000, 100_000):
        store = stored(keys)
        store.forget_traffic()
        random = np.random.default_rng(1)
        for _ in range(60):
            touch(store, random.choice(keys, touched, replace=False))
        of_index = 48 * math.sqrt(2 * len(KeyedState(store, "s", COUNTS)._buckets().index))
        assert store.traffic.bytes_written / 60 < touched * (12 * row + 2 * head) + of_index


def test_a_batch_that_touches_a_quarter_writes_whole_buckets():
    store = stored(100_000)
    touch(store, np.arange(0, 100_000, 4))
    assert all(name in ("s", "s/0") for name, _ in store.entries)
    assert read_all(store, 100_000) == [(k, 2 if k % 4 == 0 else 1) for k in range(100_000)]


def test_only_the_rows_that_are_asked_for_are_given():
    state = KeyedState(stored(100_000), "s", COUNTS)
    assert sorted(state.load(mixed(np.array([5, 70, 100_007])))["k"].to_pylist()) == [5, 70]
    assert sorted(state.load(mixed(np.array([9])))["k"].to_pylist()) == [9]
    assert sorted(state.loaded()["k"].to_pylist()) == [5, 9, 70]
    with pytest.raises(AssertionError, match=r"were not given|not loaded"):
        state.replace(counts([11]))


def test_rows_of_a_place_keep_their_order_through_chunks():
    store = stored(5_000)
    for n in range(2, 60):
        state = KeyedState(store, "s", COUNTS)
        rows = state.load(mixed(np.array([17])))
        first = rows["n"].to_pylist()[-3:]
        state.replace(counts([17] * len(first), first))
        state.append(counts([17], n))
        state.flush()
        emitted_rows = KeyedState(store, "s", COUNTS).load(mixed(np.array([17])))["n"].to_pylist()
        assert emitted_rows == list(range(max(1, n - 3), n + 1))


def test_few_chunks_remain_however_often_few_rows_change():
    store = stored(1_000)
    for n in range(1, 301):
        touch(store, np.array([n * 37 % 1_000, n * 91 % 1_000]))
        assert len(store.entries) <= 10
    assert sum(n for _, n in read_all(store, 1_000)) == 1_000 + 600


def test_keys_that_go_one_by_one_leave_nothing():
    store = stored(3_000)
    for start in range(0, 3_000, 10):
        state = KeyedState(store, "s", COUNTS)
        state.load(mixed(np.arange(start, start + 10)))
        state.replace(COUNTS.empty_table() if state._given.places is not None else counts(range(start + 10, 3_000)))
        state.flush()
        state = KeyedState(store, "s", COUNTS)
        assert state.rows() == 3_000 - start - 10
    assert store.entries == {}


@pytest.mark.usefixtures("one_size")
def test_a_large_index_is_written_as_what_has_changed_of_it():
    store = stored(100_000)
    whole = store.entries["s", 0]
    add(store, [1])
    assert store.entries["s", 0] == whole
    assert len(store.entries["s", 1]) == 48
    add(store, range(2, 60))
    assert store.entries["s", 0] != whole
    assert ("s", 1) not in store.entries
    assert read_all(store, 100)[:5] == [(0, 1), (1, 1), (1, 1), (2, 1), (2, 1)]


def test_appending_reads_only_the_index():
    store = stored(100_000)
    store.forget_traffic()
    state = KeyedState(store, "s", COUNTS)
    state.append(counts([1, 2, 3]))
    state.flush()
    assert (store.traffic.gets, store.traffic.entries_read, store.traffic.puts) == (1, 3, 1)
    assert store.traffic.bytes_written < 3_000
    assert read_all(store, 100_000)[:6] == [(0, 1), (1, 1), (1, 1), (2, 1), (2, 1), (3, 1)]


def test_loading_without_a_change_writes_nothing():
    store = stored(1000)
    store.forget_traffic()
    state = KeyedState(store, "s", COUNTS)
    state.replace(state.load(mixed(np.arange(1000))))
    state.flush()
    assert store.traffic.puts == 0


@pytest.mark.usefixtures("one_size")
def test_only_changed_buckets_are_written():
    store = stored(10_000)
    store.forget_traffic()
    state = KeyedState(store, "s", COUNTS)
    rows = state.load(mixed(np.arange(10_000)))
    n = np.where(rows["k"].to_numpy() == 5, 7, 1)
    state.replace(rows.set_column(2, "n", pa.array(n)))
    state.flush()
    assert store.traffic.entries_written == 2


@pytest.mark.usefixtures("one_size")
def test_buckets_split_and_join_as_rows_come_and_go():
    store = stored(10_000)
    assert 10_000 / BUCKET_ROWS <= len(store.entries) - 1 <= 20_000 / BUCKET_ROWS
    state = KeyedState(store, "s", COUNTS)
    rows = state.load(mixed(np.arange(10_000)))
    state.replace(rows.filter(pa.array(rows["k"].to_numpy() < 100)))
    state.flush()
    assert len(store.entries) - 1 == 1
    assert read_all(store, 10_000) == [(k, 1) for k in range(100)]
    state = KeyedState(store, "s", COUNTS)
    state.load(mixed(np.arange(10_000)))
    state.replace(COUNTS.empty_table())
    state.flush()
    assert store.entries == {}


def test_calls_that_write_most_rows_have_few_entries_until_others_come():
    store = MemoryStore()
    for number in range(3):
        state = KeyedState(store, "s", COUNTS)
        state.load_all()
        state.replace(counts(range(10_000), number))
        state.flush()
    few = len(store.entries) - 1
    assert few <= 4
    touch(store, np.arange(2))
    assert few < len(store.entries) - 1 <= 20_000 / BUCKET_ROWS
    assert read_all(store, 10_000) == [(k, 3 if k < 2 else 2) for k in range(10_000)]


def test_rows_of_one_key_stay_in_one_bucket_however_many():
    store = MemoryStore()
    for _ in range(3):
        state = KeyedState(store, "s", COUNTS)
        state.load(mixed(np.arange(20)))
        state.append(counts([5] * 1000 + list(range(20))))
        state.flush()
    state = KeyedState(store, "s", COUNTS)
    assert sum(k == 5 for k in state.load(mixed(np.array([5])))["k"].to_pylist()) == 3003
    before = store.traffic.puts
    state.flush()
    assert store.traffic.puts == before


def test_the_rows_of_one_key_are_in_chunks_that_are_written_once():
    store = MemoryStore()
    with chunks_of(10_000):
        for number in range(8):
            state = KeyedState(store, "s", COUNTS)
            assert state.load(mixed(np.array([5]))).num_rows == number * 2000
            state.append(counts([5] * 2000, number))
            store.forget_traffic()
            state.flush()
            assert store.traffic.bytes_written < 2000 * 8 * len(COUNTS) + 10_000
        sizes = [len(entry) for (name, _), entry in store.entries.items() if name != "s"]
        assert max(sizes) < 12_000
        assert len(sizes) >= 8 * 4
        state = KeyedState(store, "s", COUNTS)
        rows = state.load(mixed(np.array([5])))
        assert rows["n"].to_pylist() == [number for number in range(8) for _ in range(2000)]
        before = store.traffic.puts
        state.replace(rows)
        state.flush()
        assert store.traffic.puts == before
        state = KeyedState(store, "s", COUNTS)
        state.replace(state.load(mixed(np.array([5])))[-10:])
        state.flush()
        assert len(store.entries) == 2
    assert read_all(store, 6) == [(5, 7)] * 10


def test_large_chunks_whose_rows_are_replaced_go():
    store, random, touched = stored(500), np.random.default_rng(1), np.ones(500, int)
    size = sum(map(len, store.entries.values()))
    with chunks_of(2000):
        for _ in range(100):
            keys = random.choice(500, 60, replace=False)
            touch(store, keys)
            touched[keys] += 1
    assert sum(map(len, store.entries.values())) < 6 * size
    assert read_all(store, 500) == [*enumerate(touched.tolist())]


def test_timers_are_found_by_the_index():
    store = MemoryStore()
    state = KeyedState(store, "s", TIMERS, bucket_rows=4)
    n = np.arange(100)
    none = np.full(100, END_OF_TIME)
    state.append(pa.table([mixed(n), n, n * 10, np.where(n % 2, n, none)], schema=TIMERS))
    assert state.next_timer(Domain.EVENT) == 0
    assert state.next_timer(Domain.PROCESSING) == 1
    state.flush()

    state = KeyedState(store, "s", TIMERS, bucket_rows=4)
    rows = state.due(Domain.EVENT, 45)
    assert set(rows["n"].to_pylist()) >= {0, 1, 2, 3, 4}
    assert rows.num_rows <= 5 * 4
    state.replace(rows.filter(pa.array(rows[EVENT_TIMER].to_numpy() > 45)))
    assert state.next_timer(Domain.EVENT) == 50
    state.flush()
    state = KeyedState(store, "s", TIMERS, bucket_rows=4)
    assert state.next_timer(Domain.EVENT) == 50
    assert state.rows() == 95
    assert state.due(Domain.EVENT, 49).num_rows == 0
    assert state.due(Domain.PROCESSING, 5).num_rows > 0
    assert state.loaded() == state.due(Domain.PROCESSING, 5)


def test_no_timer_is_never_due():
    state = KeyedState(MemoryStore(), "s", TIMERS)
    state.append(pa.table([[1], [1], [END_OF_TIME], [5]], schema=TIMERS))
    assert state.due(Domain.EVENT, END_OF_TIME).num_rows == 0
    assert state.due(Domain.PROCESSING, END_OF_TIME).num_rows == 1


def test_state_of_other_columns_is_refused():
    with pytest.raises(StateSchemaError, match='stored state "s" has other columns'):
        KeyedState(stored(3), "s", TIMERS).load(np.array([1]))


_KEYS = st.lists(st.integers(0, 30), max_size=12)
_STEP = st.one_of(
    st.tuples(st.just("append"), _KEYS),
    st.tuples(st.just("load"), _KEYS),
    st.tuples(st.just("due"), st.integers(0, 40)),
    st.tuples(st.just("drop"), st.integers(0, 3)),
    st.tuples(st.just("raise"), st.integers(1, 50)),
    st.tuples(st.just("flush"), st.booleans()),
)


def timed(keys: list[int]) -> pa.Table:
    timers = [END_OF_TIME if k % 7 == 0 else k for k in keys]
    return pa.table([mixed(np.array(keys, np.int64)), keys, timers, [END_OF_TIME] * len(keys)], schema=TIMERS)


def values(rows: pa.Table) -> list:
    return sorted(zip(rows["n"].to_pylist(), rows[EVENT_TIMER].to_pylist(), strict=True))


@contextmanager
def log_from(least_buckets: int) -> Iterator[None]:
    """Changes go to a log in states of so many buckets; the fewer they are, the sooner it moves to them."""
    rows = min(least_buckets, 4)
    with (
        patch.object(keyed, "LEAST_BUCKETS", least_buckets),
        patch.object(keyed, "LOG_ROWS", rows),
        patch.object(log, "LOG_ROWS", rows),
    ):
        yield


@contextmanager
def chunks_of(most_bytes: int) -> Iterator[None]:
    """Chunks that have more bytes are divided."""
    with patch.object(chunked, "MOST_BYTES", most_bytes), patch.object(buckets, "MOST_BYTES", most_bytes):
        yield


_BYTES = st.sampled_from([400, 1000, chunked.MOST_BYTES])


@settings(max_examples=200)
@given(st.lists(_STEP, max_size=30), st.sampled_from([1, 3, BUCKET_ROWS]), st.sampled_from([1, 4, 16]), _BYTES)
def test_it_is_a_multiset_of_rows(steps, bucket_rows, least_buckets, most_bytes):
    """What is loaded has all rows of the keys asked for, and nothing gets lost or doubled on the way."""
    with log_from(least_buckets), chunks_of(most_bytes):
        _is_a_multiset(steps, bucket_rows)


def _is_a_multiset(steps, bucket_rows):
    store = MemoryStore()
    model: list = []
    state = KeyedState(store, "s", TIMERS, bucket_rows)
    for step in steps:
        match step:
            case "append", keys:
                state.append(timed(keys))
                model += values(timed(keys))
            case "load", keys:
                actual = values(state.load(mixed(np.array(keys, np.int64))))
                assert [row for row in actual if row[0] in keys] == sorted(row for row in model if row[0] in keys)
            case "due", time:
                actual = values(state.due(Domain.EVENT, time))
                assert [r for r in actual if r[1] <= time] == sorted(r for r in model if r[1] <= time)
            case "drop", remainder:
                rows = state.loaded()
                kept = rows.filter(pa.array(rows["n"].to_numpy() % 4 != remainder))
                dropped = rows.filter(pa.array(rows["n"].to_numpy() % 4 == remainder))
                state.replace(kept.take(np.arange(kept.num_rows)[::-1]))
                for row in values(dropped):
                    model.remove(row)
            case "raise", time:
                rows = state.loaded()
                for row in values(rows):
                    model.remove(row)
                rows = rows.set_column(2, EVENT_TIMER, pa.array(np.full(rows.num_rows, time)))
                state.replace(rows)
                model += values(rows)
            case "flush", restart:
                state.flush()
                state = KeyedState(store, "s", TIMERS, bucket_rows) if restart else state
                assert state.rows() == len(model)
        assert state.next_timer(Domain.EVENT) == min([time for _, time in model], default=END_OF_TIME)
    assert values(state.load(mixed(np.arange(31)))) == sorted(model)


_CHANGE = st.tuples(
    st.sampled_from(["put", "put", "drop", "due", "append", "look"]),
    st.integers(0, 2**16),
    st.sampled_from([1, 3, 20, 150]),
    st.booleans(),
)


@settings(max_examples=150)
@given(
    st.lists(_CHANGE, max_size=25),
    st.sampled_from([8, 50, BUCKET_ROWS]),
    st.booleans(),
    st.sampled_from([1, 4, 16]),
    _BYTES,
)
def test_it_is_a_dictionary(changes, bucket_rows, restarts, least_buckets, most_bytes):
    """One row per key, few or many of 500 keys at a time, so that chunks, whole buckets, splits and joins all come."""
    with log_from(least_buckets), chunks_of(most_bytes):
        _is_a_dictionary(changes, bucket_rows, restarts)


def _is_a_dictionary(changes, bucket_rows, restarts):
    store, model = MemoryStore(), _Model()
    state = KeyedState(store, "s", TIMERS, bucket_rows)
    for kind, seed, count, flushes in changes:
        random = np.random.default_rng(seed)
        keys = np.sort(random.choice(500, count, replace=False))
        match kind:
            case "put" | "drop":
                rows = state.load(mixed(keys))
                assert model.of(keys) <= set(values(rows)) <= model.of(range(500))
                rows = state.loaded()
                kept = rows.filter(pa.array(~np.isin(rows["n"].to_numpy(), keys)))
                new = model.put(keys, seed) if kind == "put" else model.drop(keys)
                state.replace(pa.concat_tables([new, kept]))
            case "due":
                state.due(Domain.EVENT, seed % 1_000)
                rows = state.loaded()
                is_due = rows[EVENT_TIMER].to_numpy() <= seed % 1_000
                assert {time for _, time in values(rows.filter(pa.array(is_due)))} == model.due(seed % 1_000)
                state.replace(rows.filter(pa.array(~is_due)))
            case "append":
                state.append(model.put(np.array([k for k in keys if k not in model.timers], np.int64), seed))
            case "look":
                assert model.of(keys) <= set(values(state.load(mixed(keys))))
        assert state.next_timer(Domain.EVENT) == min(model.timers.values(), default=END_OF_TIME)
        if flushes:
            state.flush()
            state = KeyedState(store, "s", TIMERS, bucket_rows) if restarts else state
            assert state.rows() == len(model.timers)
    assert values(state.load_all()) == sorted(model.timers.items())


class _Model:
    def __init__(self) -> None:
        self.timers: dict[int, int] = {}

    def of(self, keys) -> set:
        return {(int(k), self.timers[k]) for k in keys if k in self.timers}

    def put(self, keys: np.ndarray, seed: int) -> pa.Table:
        times = (keys * 7919 + seed) % 3_000
        self.timers |= dict(zip(keys.tolist(), times.tolist(), strict=True))
        return pa.table([mixed(keys), keys, times, np.full(len(keys), END_OF_TIME)], schema=TIMERS)

    def drop(self, keys: np.ndarray) -> pa.Table:
        for key in keys:
            self.timers.pop(key, None)
        return TIMERS.empty_table()

    def due(self, time: int) -> set:
        """Takes the timers up to a time."""
        collected = {timer for timer in self.timers.values() if timer <= time}
        self.timers = {key: timer for key, timer in self.timers.items() if timer > time}
        return collected
