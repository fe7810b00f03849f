"""The log of changes: state of many buckets, alone and below kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.harness import KernelHarness, Row
from sqlstream.udfs.joins import JoinKind
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND
from sqlstream.udfs.state import keyed, log
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.log import LOG_ROWS, changes_of
from tests.udfs.groups import test_group_aggregate as groups
from tests.udfs.joins import test_regular as joins
from tests.udfs.state.test_keyed import COUNTS, add, counts, mixed, read_all, stored, touch

KEYS = 100_000


def test_few_rows_of_many_buckets_are_one_entry():
    store = stored(KEYS)
    before = store.snapshot()
    store.forget_traffic()
    touch(store, np.arange(0, KEYS, 500))
    assert (store.traffic.gets, store.traffic.puts, store.traffic.entries_written) == (2, 1, 2)
    assert store.entries.keys() - before.keys() == {("s", 2), ("s/log/0", 0)}
    assert {key: store.entries[key] for key in before} == before, "buckets and their index are as they were"
    assert read_all(store, KEYS) == [(k, 2 if k % 500 == 0 else 1) for k in range(KEYS)]


def test_a_state_of_earlier_builds_goes_on_and_its_changes_move_to_the_buckets():
    with patch.object(keyed, "LEAST_BUCKETS", 10**9):
        store = stored(KEYS)
        touch(store, np.arange(0, KEYS, 100))
    assert ("s", 2) not in store.entries, "as earlier builds wrote it"
    most, model = 0, np.ones(KEYS, np.int64)
    model[::100] += 1
    random = np.random.default_rng(1)
    moved = False
    for _ in range(80):
        keys = random.choice(KEYS, 100, replace=False)
        touch(store, keys)
        model[keys] += 1
        sizes = np.frombuffer(store.entries.get(("s", 2), b""), np.int64)
        moved |= most > 0 and len(sizes) == 0
        most = max(most, int(sizes.sum()))
        assert len(sizes) <= 8
    buckets = len(KeyedState(store, "s", COUNTS)._buckets().index)
    assert moved
    assert most <= LOG_ROWS * buckets
    assert read_all(store, KEYS) == list(enumerate(model.tolist()))


def test_a_call_that_needs_whole_buckets_finds_the_log_there():
    store = stored(KEYS)
    touch(store, np.arange(10))
    add(store, [3, 3])
    state = KeyedState(store, "s", COUNTS)
    rows = state.load_all()
    assert rows.num_rows == KEYS + 2
    state.replace(rows.filter(pa.array(rows["k"].to_numpy() != 5)))
    state.flush()
    assert ("s", 2) not in store.entries
    assert read_all(store, 6) == [(0, 2), (1, 2), (2, 2), (3, 1), (3, 1), (3, 2), (4, 2)]
    assert KeyedState(store, "s", COUNTS).rows() == KEYS + 1


def test_appended_rows_do_not_make_the_log_long():
    store = stored(KEYS)
    for key in range(60):
        add(store, [key])
    assert len(np.frombuffer(store.entries["s", 2], np.int64)) <= 17
    assert read_all(store, 60) == sorted([(k, 1) for k in range(60)] * 2)


def test_a_bucket_may_have_all_of_its_rows_in_the_log():
    with patch.object(keyed, "LEAST_BUCKETS", 1):
        store = stored(10)
        assert store.entries.keys() >= {("s", 2), ("s/log/0", 0)}
        assert ("s/0", 0) not in store.entries
        rows = KeyedState(store, "s", COUNTS).load(mixed(np.array([7])))
    assert rows.column("k").to_pylist() == [7]


def test_keys_that_go_one_by_one_leave_nothing_in_the_log():
    store = stored(KEYS)
    for keys in np.array_split(np.random.default_rng(2).permutation(KEYS), 200):
        state = KeyedState(store, "s", COUNTS)
        rows = state.load(mixed(keys))
        state.replace(rows.filter(pa.array(~np.isin(rows["k"].to_numpy(), keys))))
        state.flush()
    assert not store.entries


def test_rows_that_did_not_change_are_not_written():
    old, new = counts([1, 2, 2, 3]), counts([3, 1, 2, 2])
    assert changes_of(old, new, KEY_HASH) is None
    chunk = changes_of(old, pa.concat_tables([counts([3, 2], 1), counts([9], 4), counts([1], 5)]), KEY_HASH)
    assert chunk is not None
    assert sorted(chunk.rows["k"].to_pylist()) == [1, 2, 9]
    assert set(chunk.replaced.tolist()) == set(mixed(np.array([1, 2])).tolist())


# --- kernels, with the log and without ------------------------------------------------------------------------------


@contextmanager
def layout(least_buckets: int) -> Iterator[None]:
    """Small buckets, whose log soon moves to them; none if there are never so many buckets."""
    with (
        patch.object(keyed, "LEAST_BUCKETS", least_buckets),
        patch.object(log, "LOG_ROWS", 2),
        patch.object(keyed, "LOG_ROWS", 2),
        patch.object(KeyedState.__init__, "__defaults__", (16, KEY_HASH, None)),
    ):
        yield


def same(make: Callable[..., KernelHarness], batches: list[Any]) -> None:
    """What comes out of each micro-batch with the log, a restart before each, is what comes out without it."""
    harnesses = {least: make(restarts=least == 2) for least in (2, 10**9)}
    used = False
    for time, batch in enumerate(batches):
        emitted = []
        for least, harness in harnesses.items():
            with layout(least):
                harness.batch(batch, processing_time=time * 1_000)
            emitted.append(sorted(map(repr, harness.output())))
        assert emitted[0] == emitted[1]
        used |= any(name.endswith("/log/0") for store in harnesses[2].stores for name, _ in store.entries)
    assert used
    assert not any("/log" in name for store in harnesses[10**9].stores for name, _ in store.entries)


def scripts(seed: int, row: Callable[..., Row], batches: int = 12) -> Iterator[list[Row]]:
    """Many rows of many keys, then few in each micro-batch, half of them retracted; then most of them."""
    random = np.random.default_rng(seed)
    held: list[Row] = []
    for number in range(batches):
        changes = []
        for _ in range(300 if number == 0 else int(random.integers(1, 12))):
            if number and held and random.random() < 0.5:
                changes.append(held.pop(int(random.integers(len(held)))) | {ROW_KIND: "-D"})
            else:
                held.append(row(f"key {random.integers(250)}", int(random.integers(9)), kind="+I"))
                changes.append(held[-1])
        yield changes
    yield [held.pop(int(random.integers(len(held)))) | {ROW_KIND: "-D"} for _ in range(len(held) - 3)]
    yield [row(f"key {number}", 1, kind="+I") for number in range(40)]


def inserted(changes: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != ROW_KIND} for row in changes]


@pytest.mark.parametrize("ttl", [0, 4_000])
@pytest.mark.parametrize("updates", [True, False])
@pytest.mark.parametrize("names", [("count", "sum"), ("distinct", "count"), ("min",)], ids=" ".join)
def test_groups_are_the_same_with_the_log(names, updates, ttl):
    of = groups.kernel(*names, updates=updates, ttl=ttl)
    script = list(scripts(len(names) + ttl, groups.row))
    same(partial(groups.harness_of, of), script if updates else [inserted(batch) for batch in script])


@pytest.mark.parametrize("ttl", [0, 4_000])
@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI])
def test_joins_are_the_same_with_the_log(kind, ttl):
    of = joins.kernel(kind, updating=(True, True), ttl=(ttl, ttl))
    sides = [list(scripts(seed, joins.row)) for seed in (1, 2)]
    batches = [dict(enumerate(ports)) for ports in zip(*sides, strict=True)]
    same(partial(joins.harness_of, of), batches)


@settings(max_examples=25)
@given(st.integers(0, 2**16))
def test_groups_with_distinct_values_are_the_same_with_the_log(seed):
    same(partial(groups.harness_of, groups.kernel("distinct", "sum", updates=True)), list(scripts(seed, groups.row)))
