"""Rows that wait in state for their answers, in the harness of kernels. The test lets answers come."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import ExecutionError
from sqlstream.udfs.harness import KernelHarness
from sqlstream.udfs.kernel import END_OF_TIME
from sqlstream.udfs.lookup import deferred as module
from sqlstream.udfs.lookup.answers import AnswerShape
from sqlstream.udfs.lookup.asking import Worker
from sqlstream.udfs.lookup.deferred import DeferredLookups
from sqlstream.udfs.lookup.operator import LookupStep
from sqlstream.udfs.lookup.options import LookupOptions, OnError, OnTimeout, Order, Retry
from tests.udfs.lookup.scripted import REQUEST, Script, VirtualLoop, scripted, settle, values

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("n", pa.int64()),
        ("ts", pa.int64()),
        ("a", pa.list_(pa.field("element", AnswerShape(REQUEST).type.value_type))),
        ("e", pa.string()),
        ("d", pa.bool_()),
    ]
)
_NAMES = (f"deferred{number}" for number in itertools.count())


def kernel(script, order=Order.UNORDERED, **options):
    asked = {"on_timeout": OnTimeout.DEFER, "on_error": OnError.TO, "order": order} | options
    source = scripted(next(_NAMES), script)
    return DeferredLookups(LookupStep(0, source, ("k",), "a", LookupOptions(**asked), "e", "d"), SCHEMA, "ts")


def harness(script, order=Order.UNORDERED, *, restarts=False, groups=1, **options):
    actual = kernel(script, order, **options)
    return KernelHarness(actual, SCHEMA, [] if order is Order.ORDERED else ["k"], restarts=restarts, groups=groups)


def row(n, key, *, ts=None, waits=True):
    answer = None if waits else [{"k": key, "v": "known"}] if key is not None else []
    return {"k": key, "n": n, "ts": n if ts is None else ts, "a": answer, "e": None, "d": waits}


def numbers(actual):
    return [emitted["n"] for emitted in actual.output()]


def release(worker, script, *keys):
    settle(worker)
    worker.result(script.release, *[(key,) for key in keys])
    settle(worker)


def all_held(*keys):
    return Script(values(*keys), held={(key,) for key in keys})


@pytest.mark.parametrize("restarts", [False, True])
def test_a_deferred_row_leaves_once_with_its_answer(still_worker, restarts):
    script = all_held(1)
    driven = harness(script, restarts=restarts)
    driven.rows([row(0, 1)])
    driven.batch()
    assert driven.output() == []
    assert driven.held_rows == 1
    release(still_worker, script, 1)
    driven.batch()
    assert driven.output() == [{"k": 1, "n": 0, "ts": 0, "a": [{"k": 1, "v": "v1"}], "e": None}]
    driven.batch()
    assert driven.output() == []
    assert script.keys_asked == [(1,)]
    assert [store.size for store in driven.stores] == [0]


@pytest.mark.parametrize(
    ("order", "first"),
    [(Order.UNORDERED, [1, 2, 3, 4]), (Order.KEY_ORDERED, [1, 3, 4]), (Order.ORDERED, [])],
)
def test_rows_wait_behind_others_as_their_order_asks(still_worker, order, first):
    script = all_held(1)
    driven = harness(script, order)
    rows = [row(1, 2, waits=False), row(2, 1, waits=False), row(3, None, waits=False), row(4, 2, waits=False)]
    driven.rows([row(0, 1), *rows])
    assert numbers(driven) == first
    release(still_worker, script, 1)
    driven.batch()
    assert numbers(driven) == [n for n in range(5) if n not in first]


def test_rows_that_wait_behind_others_keep_their_answers(still_worker):
    script = all_held(1, 2)
    driven = harness(script, Order.ORDERED)
    driven.rows([row(0, 1), row(1, 2)])
    release(still_worker, script, 2)
    driven.batch()
    driven.batch()
    assert numbers(driven) == []
    release(still_worker, script, 1)
    driven.batch()
    assert [(emitted["n"], emitted["a"][0]["v"]) for emitted in driven.output()] == [(0, "v1"), (1, "v2")]
    assert script.keys_asked == [(1,), (2,)]


def test_the_watermark_is_held_at_what_waits(still_worker):
    script = all_held(1, 2)
    driven = harness(script)
    driven.rows([row(0, 1, ts=500), row(1, 2, ts=300)])
    driven.watermark(1000)
    assert driven.watermark_above == 299
    release(still_worker, script, 2)
    driven.batch()
    assert driven.watermark_above == 499
    release(still_worker, script, 1)
    driven.batch()
    assert driven.watermark_above == 1000


def test_a_row_behind_the_watermark_holds_the_moment_after_it(still_worker):
    driven = harness(all_held(1))
    driven.watermark(1000)
    driven.rows([row(0, 1, ts=500)])
    assert driven.watermark_above == 1000
    driven.watermark(2000)
    assert driven.watermark_above == 1000


def test_rows_without_a_time_hold_too(still_worker):
    script = all_held(1)
    driven = harness(script)
    driven.watermark(END_OF_TIME)
    driven.rows([row(0, 1) | {"ts": None}])
    assert driven.held_rows == 1
    release(still_worker, script, 1)
    driven.batch()
    assert (numbers(driven), driven.held_rows) == ([0], 0)


def test_an_error_goes_with_its_row(still_worker):
    script = Script()
    script.failures[(1,)] = 1
    driven = harness(script)
    driven.rows([row(0, 1)])
    settle(still_worker)
    driven.batch()
    assert [(emitted["a"], emitted["e"]) for emitted in driven.output()] == [(None, "no line for 1")]


def test_a_miss_is_an_answer(still_worker):
    driven = harness(Script())
    driven.rows([row(0, 1)])
    settle(still_worker)
    driven.batch()
    assert [emitted["a"] for emitted in driven.output()] == [[]]


def test_an_error_ends_the_job_where_it_shall(still_worker):
    script = Script()
    script.failures[(1,)] = 1
    driven = harness(script, on_error=OnError.FAIL)
    driven.rows([row(0, 1)])
    settle(still_worker)
    with pytest.raises(ExecutionError, match=r"^SS432: .* k = 1 failed: no line for 1"):
        driven.batch()


def test_requests_are_shared_with_other_rows_and_bounded(still_worker):
    script = all_held(*range(10))
    driven = harness(script, capacity=3)
    driven.rows([row(n, n % 10) for n in range(20)])
    settle(still_worker)
    driven.batch()
    assert script.most_requests == 3
    for keys in ((0, 1, 2), (3, 4, 5), (6, 7, 8), (9,)):
        release(still_worker, script, *keys)
    driven.batch()
    assert sorted(numbers(driven)) == list(range(20))
    assert sorted(script.keys_asked) == [(key,) for key in range(10)]


def test_another_process_asks_again(monkeypatch):
    script = Script(values(1), held={(1,)})
    driven = harness(script, restarts=True)
    workers = [Worker(lambda: VirtualLoop(jumps=False)) for _ in range(2)]
    monkeypatch.setattr(module, "worker", lambda: workers[0])
    driven.rows([row(0, 1)])
    settle(workers[0])
    monkeypatch.setattr(module, "worker", lambda: workers[1])
    driven.batch()
    settle(workers[1])
    script.waiting.clear()
    script.held.clear()
    for worker in workers:
        worker.close()
    assert script.keys_asked == [(1,), (1,)]


def test_what_has_not_changed_is_not_written(still_worker):
    driven = harness(all_held(1))
    driven.rows([row(0, 1)])
    for store in driven.stores:
        store.forget_traffic()
    driven.batch()
    assert driven.traffic.puts == 0
    assert driven.traffic.entries_read <= 2


def test_retries_go_on_in_the_background(still_worker):
    script = Script(values(1))
    script.failures[(1,)] = 1
    driven = harness(script, retries=(Retry(1, 0),))
    driven.rows([row(0, 1)])
    settle(still_worker)
    driven.batch()
    assert [emitted["e"] for emitted in driven.output()] == [None]


KEYS = st.one_of(st.none(), st.integers(0, 3))
BATCHES = st.lists(st.lists(st.tuples(KEYS, st.booleans()), max_size=5), min_size=1, max_size=6)


@settings(max_examples=60)
@given(BATCHES, st.sampled_from(Order), st.data(), st.booleans())
def test_each_row_leaves_once_in_order(batches, order, data, restarts):
    worker = Worker(lambda: VirtualLoop(jumps=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "worker", lambda: worker)
        script = all_held(0, 1, 2, 3)
        driven = harness(script, order, restarts=restarts, groups=1 if order is Order.ORDERED else 2)
        count, keys, left = itertools.count(), [], []
        for batch in batches:
            rows = [row(next(count), key, waits=waits and key is not None) for key, waits in batch]
            keys += [key for key, _ in batch]
            driven.rows(rows)
            left += numbers(driven)
            release(worker, script, *data.draw(st.sets(st.integers(0, 3))))
            script.held.update({(key,) for key in range(4)} if data.draw(st.booleans()) else ())
        script.held.clear()
        for _ in range(3):
            release(worker, script, 0, 1, 2, 3)
            driven.batch()
        left += numbers(driven)
    worker.close()
    assert sorted(left) == list(range(len(keys)))
    assert (driven.held_rows, {store.size for store in driven.stores}) == (0, {0})
    if order is Order.ORDERED:
        assert left == sorted(left)
    if order is Order.KEY_ORDERED:
        assert all(of_key == sorted(of_key) for key in range(4) if (of_key := [n for n in left if keys[n] == key]))
