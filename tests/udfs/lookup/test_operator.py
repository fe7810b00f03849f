"""The operator in its task: rows in, rows with answers out, in the order of the lookup."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError
from sqlstream.types import BIGINT, DOUBLE, STRING, DataType
from sqlstream.udfs.exchange import LATE, LATE_TABLE
from sqlstream.udfs.lookup.answers import LookupOutcome
from sqlstream.udfs.lookup.metrics import METRICS
from sqlstream.udfs.lookup.operator import LookupRows, LookupStep
from sqlstream.udfs.lookup.options import Cache, LookupOptions, OnError, OnTimeout, Order
from sqlstream.udfs.lookup.source import Request
from tests.udfs.lookup.scripted import Script, scripted, settle, values

_NAMES = (f"source{number}" for number in itertools.count())


def lookup(script, *, keys=("k",), number=0, answers="a", error=None, deferred=None, request=None, **options):
    source = scripted(next(_NAMES), script, *([request] if request else []))
    return LookupStep(number, source, keys, answers, LookupOptions(**options), error, deferred)


def batches(*keys, size=100):
    table = pa.table({"k": pa.array(keys, pa.int64()), "n": pa.array(range(len(keys)), pa.int64())})
    return iter(table.to_batches(max_chunksize=size))


def run(steps, rows):
    emitted_rows = list(LookupRows(tuple(steps)).rows(rows))
    return emitted_rows[:-1], dict(emitted_rows[-1].to_pylist()[0][METRICS])


def rows_of(parts, *columns):
    return [tuple(row[name] for name in columns) for part in parts for row in part.to_pylist()]


def found_names(parts):
    return [(n, a and [row["v"] for row in a]) for n, a in rows_of(parts, "n", "a")]


@pytest.mark.parametrize("order", Order)
def test_rows_get_the_answers_of_their_keys(virtual_worker, order):
    script = Script({(1,): [(1, "a"), (1, "b")], (2,): [(2, None)]})
    parts, metrics = run([lookup(script, order=order)], batches(1, 2, 1, None, 3))
    assert sorted(found_names(parts)) == [(0, ["a", "b"]), (1, [None]), (2, ["a", "b"]), (3, []), (4, [])]
    assert sorted(script.keys_asked) == [(1,), (2,), (3,)]
    assert metrics == {"0/requests": 3, "0/answers": 4, "0/max_in_flight": 3, "0/latency_le_1": 3}


def test_the_output_has_the_types_of_the_request(virtual_worker):
    request = Request((("k", BIGINT),), (("d", DataType("DECIMAL", (10, 2))), ("at", DataType("TIMESTAMP"))))
    step = lookup(Script({}), request=request, error="e", deferred="d", on_error=OnError.TO)
    (part,), _ = run([step], batches(1))
    actual = pa.list_(pa.struct([("d", pa.decimal128(10, 2)), ("at", pa.timestamp("us", "UTC"))]))
    assert part.schema.field("a").type == actual
    assert part.schema == LookupRows((step,)).output(pa.schema([("k", pa.int64()), ("n", pa.int64())]))


def test_a_slow_key_holds_up_only_its_rows(still_worker):
    script = Script(values(1, 2, 3), held={(1,)})
    rows = LookupRows((lookup(script, order=Order.UNORDERED),)).rows(batches(1, 2, 1, 3))
    ready = [next(rows)]
    while sum(part.num_rows for part in ready) < 2:
        ready.append(next(rows))
    assert sorted(rows_of(ready, "n")) == [(1,), (3,)]
    still_worker.call(script.release, (1,))
    assert rows_of([next(rows)], "n") == [(0,), (2,)]
    assert next(rows)[METRICS][0].is_valid


def test_in_order_rows_wait_for_those_before_them(still_worker):
    script = Script(values(1, 2, 3), held={(2,)})
    rows = LookupRows((lookup(script),)).rows(batches(1, 1, 2, 3, 1, size=2))
    assert rows_of([next(rows)], "n") == [(0,), (1,)]
    still_worker.call(script.release, (2,))
    assert rows_of(list(rows)[:-1], "n") == [(2,), (3,), (4,)]


def test_equal_keys_keep_their_order_also_over_batches(still_worker):
    script = Script(values(1, 2), held={(1,)})
    step = lookup(script, order=Order.KEY_ORDERED, cache=Cache(10), timeout_ms=10**9)
    rows = LookupRows((step,)).rows(batches(1, 2, 2, 1, 2, size=1))
    ready = [next(rows)]
    while sum(part.num_rows for part in ready) < 3:
        ready.append(next(rows))
    assert rows_of(ready, "n") == [(1,), (2,), (4,)]
    still_worker.call(script.release, (1,))
    assert rows_of(list(rows)[:-1], "n") == [(0,), (3,)]


def test_a_remembered_answer_does_not_overtake_rows_of_its_key(still_worker):
    script = Script(values(1, 2), held={(1,)})
    step = lookup(script, order=Order.KEY_ORDERED, cache=Cache(10))

    def rows():
        yield from batches(1)
        settle(still_worker)
        still_worker.asker(step.source, step.options).cache.put((1,), LookupOutcome([(1, "v1")]))
        yield from (pa.record_batch({"k": [1, 2], "n": [1, 2]}),)

    emitted_rows = LookupRows((step,)).rows(rows())
    assert rows_of([next(emitted_rows)], "n") == [(2,)]
    still_worker.call(script.release, (1,))
    assert rows_of(list(emitted_rows)[:-1], "n") == [(0,), (1,)]


def test_one_request_at_a_time_without_async(virtual_worker):
    script = Script(values(*range(20)), delay=lambda key: 20 - int(str(key[0])))
    parts, metrics = run([lookup(script, asynchronous=False, order=Order.UNORDERED)], batches(*range(20)))
    assert script.most_requests == metrics["0/max_in_flight"] == 1
    assert [n for n, _ in found_names(parts)] == list(range(20))


def test_lookups_above_one_another_are_asked_at_the_same_time(virtual_worker):
    one, two = Script(values(1, 2), delay=lambda _: 50), Script({(5,): [(5, "x")]}, delay=lambda _: 50)
    rows = pa.record_batch({"k": [1, 2, 1], "n": [0, 1, 2], "m": [5, 6, None]})
    steps = [lookup(one), lookup(two, keys=("m",), number=1, answers="b")]
    parts, metrics = run(steps, iter([rows]))
    assert rows_of(parts, "a", "b") == [
        ([{"k": 1, "v": "v1"}], [{"k": 5, "v": "x"}]),
        ([{"k": 2, "v": "v2"}], []),
        ([{"k": 1, "v": "v1"}], []),
    ]
    assert {time for time, _ in one.asked + two.asked} == {one.asked[0][0]}
    assert (metrics["0/answers"], metrics["1/answers"]) == (3, 2)


def test_equal_sources_are_asked_once_for_equal_keys(virtual_worker):
    script = Script(values(1, 2), delay=lambda _: 10)
    step = lookup(script)
    other = LookupStep(1, step.source, ("n",), "b", step.options)
    parts, _ = run([step, other], batches(0, 1, 2))
    assert rows_of(parts, "a") == rows_of(parts, "b")
    assert sorted(script.keys_asked) == [(0,), (1,), (2,)]


@pytest.mark.parametrize("order", Order)
def test_late_rows_pass_by_unasked(virtual_worker, order):
    script = Script(values(1, 2))
    rows = pa.record_batch(
        {
            "k": pa.array([1, None, 2], pa.int64()),
            "n": [0, 1, 2],
            LATE_TABLE: pa.array([None, "late", None]),
            LATE: pa.array([None, b"row", None]),
        }
    )
    parts, metrics = run([lookup(script, order=order)], iter([rows]))
    emitted_rows = rows_of(parts, "n", "a", LATE_TABLE, LATE)
    assert (1, None, "late", b"row") in emitted_rows
    assert [row[0] for row in emitted_rows] == [0, 1, 2] or order is not Order.ORDERED
    assert metrics["0/answers"] == 2


def test_an_error_ends_the_task_and_gives_up_what_is_asked(still_worker):
    script = Script(values(2), held={(2,)})
    script.failures[(1,)] = 1
    with pytest.raises(ExecutionError, match=r"^SS432: .* k = 1 failed: no line for 1"):
        run([lookup(script)], batches(2, 1))
    settle(still_worker)
    assert script.cancelled == [(2,)]


def test_a_timeout_ends_the_task(virtual_worker):
    with pytest.raises(ExecutionError, match=r"^SS433: .* k = 1 got no answer in 100 ms"):
        run([lookup(Script(delay=lambda _: 1000), timeout_ms=100)], batches(1))


def test_failed_and_deferred_rows_say_so(virtual_worker):
    script = Script(values(1, 2, 3), delay=lambda key: 1000 if key == (3,) else 0)
    script.failures[(2,)] = 1
    step = lookup(
        script, error="e", deferred="d", on_error=OnError.TO, on_timeout=OnTimeout.DEFER, timeout_ms=100
    )  # fmt: skip
    parts, metrics = run([step], batches(1, 2, 3, 3, None))
    assert rows_of(parts, "n", "a", "e", "d") == [
        (0, [{"k": 1, "v": "v1"}], None, False),
        (1, None, "no line for 2", False),
        (2, None, None, True),
        (3, None, None, True),
        (4, [], None, False),
    ]
    assert (metrics["0/errors"], metrics["0/timeouts"], metrics["0/deferred"]) == (1, 2, 2)


def test_hits_and_misses_of_the_cache_are_counted_in_rows(virtual_worker):
    script = Script(values(1, 2))
    step = lookup(script, cache=Cache(10))
    _, first = run([step], batches(1, 1, 2, None))
    parts, second = run([step], batches(1, 1, 1, 2, 3))
    assert (first["0/misses"], "0/hits" in first) == (3, False)
    assert (second["0/hits"], second["0/misses"], second["0/requests"]) == (4, 1, 1)
    assert len(found_names(parts)) == 5


def test_input_is_read_no_further_than_answers_come(still_worker):
    read = []

    def endless():
        for number in itertools.count():
            read.append(number)
            yield from batches(*range(10 * number, 10 * number + 10))

    script = Script(values(0), held={(key,) for key in range(1, 10_000)}, delay=lambda _: 0)
    step = lookup(script, capacity=5)
    rows = LookupRows((step,)).rows(endless())
    assert rows_of([next(rows)], "n") == [(0,)]
    assert len(read) <= 102  # 1,000 keys ahead, and twice those in flight
    assert isinstance(rows, Generator)
    rows.close()


def test_nan_is_one_key(virtual_worker):
    request = Request((("k", DOUBLE),), (("v", STRING),))
    script = Script({}, delay=lambda _: 10)
    rows = pa.table({"k": [math.nan, 1.0, math.nan], "n": [0, 1, 2]}).to_batches(max_chunksize=1)
    run([lookup(script, request=request, cache=Cache(9))], iter(rows))
    assert len(script.keys_asked) == 2


@dataclass(frozen=True)
class Echo:
    """Answers each key with itself as text."""

    request: Request
    name: str = "echo"

    async def open(self):
        return self

    async def ask(self, keys):
        return [[(repr(key),)] for key in keys]

    async def close(self):
        pass


def test_lists_can_be_keys(virtual_worker):
    source = Echo(Request((("k", DataType("ARRAY", (BIGINT,))),), (("v", STRING),)))
    rows = pa.table({"k": [[1, 2], [1], [1, 2]], "n": [0, 1, 2]}).to_batches()
    parts, metrics = run([LookupStep(0, source, ("k",), "a", LookupOptions())], iter(rows))
    assert found_names(parts) == [(0, ["([1, 2],)"]), (1, ["([1],)"]), (2, ["([1, 2],)"])]
    assert metrics["0/requests"] == 2


def test_a_task_without_rows_counts_nothing(virtual_worker):
    assert list(LookupRows((lookup(Script()),)).rows(iter([]))) == []


@pytest.mark.parametrize(
    ("orders", "joint"),
    [
        ([Order.UNORDERED, Order.UNORDERED], Order.UNORDERED),
        ([Order.UNORDERED, Order.ORDERED], Order.ORDERED),
        ([Order.KEY_ORDERED, Order.UNORDERED], Order.KEY_ORDERED),
    ],
)
def test_the_strictest_order_holds(orders, joint):
    assert LookupRows(tuple(lookup(Script(), order=order) for order in orders)).order is joint


def test_key_ordered_by_several_keys_is_the_order_of_arrival():
    steps = [lookup(Script(), keys=(key,), order=Order.KEY_ORDERED) for key in "km"]
    assert LookupRows(tuple(steps)).order is Order.ORDERED
