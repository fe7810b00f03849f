"""The operator against a join in plain Python, for random rows, delays, orders, capacities, misses and errors."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.lookup import operator
from sqlstream.udfs.lookup.asking import Worker
from sqlstream.udfs.lookup.metrics import METRICS
from sqlstream.udfs.lookup.operator import LookupRows, LookupStep
from sqlstream.udfs.lookup.options import Cache, LookupOptions, OnError, OnTimeout, Order, Retry
from sqlstream.udfs.lookup.source import Key, Row
from tests.udfs.lookup.scripted import Script, VirtualLoop, scripted

KEYS = range(6)
TIMEOUT_MS = 1000
_NAMES = (f"model{number}" for number in itertools.count())


@dataclass(frozen=True)
class Plan:
    """How a source behaves by key: rows, delay in ms (some never answer), failures before an answer."""

    rows: dict[int, int]
    delays: dict[int, int]
    failures: dict[int, int]
    options: LookupOptions

    def script(self):
        rows: dict[Key, Sequence[Row]] = {
            (key,): [(key, f"{key}.{i}") for i in range(count)] for key, count in self.rows.items()
        }
        failures: Counter[Key] = Counter({(key,): count for key, count in self.failures.items()})
        return Script(rows, lambda key: self.delays[int(str(key[0]))], failures)

    def expected(self, key):
        """(answers, error)"""
        if key is None:
            return [], None
        if self.failures[key]:
            return None, f"no line for {key}"
        return [f"{key}.{i}" for i in range(self.rows[key])], None


def by_key(values):
    return st.fixed_dictionaries(dict.fromkeys(KEYS, values))


@st.composite
def plans(draw, *, batched=False):
    retries = (Retry(2, 10, on_error=False),) if draw(st.booleans()) else ()
    options = LookupOptions(
        asynchronous=draw(st.booleans()),
        order=draw(st.sampled_from(Order)),
        capacity=draw(st.integers(1, 4)),
        timeout_ms=TIMEOUT_MS,
        on_error=OnError.TO,
        retries=retries,
        cache=draw(st.sampled_from((None, Cache(2), Cache(100)))),
        batch=draw(st.integers(1, 3)) if batched else 1,
        batch_within_ms=draw(st.sampled_from((0, 20))),
    )
    failures = dict.fromkeys(KEYS, 0) if batched else draw(by_key(st.sampled_from((0, 0, 99))))
    return Plan(draw(by_key(st.integers(0, 2))), draw(by_key(st.integers(0, 50))), failures, options)


ROWS = st.lists(st.tuples(st.one_of(st.none(), st.sampled_from(KEYS)), st.sampled_from(KEYS)), max_size=30)


@pytest.fixture(scope="module")
def worker():
    event_loop = Worker(VirtualLoop)
    yield event_loop
    event_loop.close()


def run(worker, steps, rows, size):
    table = pa.table(
        {
            "n": pa.array(range(len(rows)), pa.int64()),
            "k": pa.array([key for key, _ in rows], pa.int64()),
            "m": pa.array([key for _, key in rows], pa.int64()),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operator, "worker", lambda: worker)
        batches = iter(table.to_batches(max_chunksize=size))
        emitted_rows = [row for part in LookupRows(tuple(steps)).rows(batches) for row in part.to_pylist()]
    assert all(row[METRICS] is None for row in emitted_rows[:-1])
    return emitted_rows[:-1], dict(emitted_rows[-1][METRICS]) if emitted_rows else {}


def names(answers):
    return None if answers is None else [row["v"] for row in answers]


@settings(max_examples=150)
@given(st.booleans().flatmap(lambda batched: plans(batched=batched)), ROWS, st.integers(1, 30))
def test_rows_are_joined_in_their_order(worker, plan, rows, size):
    script = plan.script()
    source, options = scripted(next(_NAMES), script), plan.options
    actual, metrics = run(worker, [LookupStep(0, source, ("k",), "a", options, error="e")], rows, size)
    expected = [(n, *plan.expected(key)) for n, (key, _) in enumerate(rows)]
    joined = [(row["n"], names(row["a"]), row["e"]) for row in actual]
    assert sorted(joined) == expected
    _assert_in_order([n for n, _, _ in joined], [key for key, _ in rows], LookupRows(
        (LookupStep(0, source, ("k",), "a", options),)
    ).order)  # fmt: skip
    _assert_modest(script, options)
    asked = sum(key is not None for key, _ in rows)
    assert metrics.get("0/answers", 0) == asked
    assert metrics.get("0/errors", 0) == sum(error is not None for _, _, error in expected)
    if options.cache:
        assert metrics.get("0/hits", 0) + metrics.get("0/misses", 0) == asked


def _assert_in_order(left, keys, order):
    if order is Order.ORDERED:
        assert left == sorted(left)
    if order is Order.KEY_ORDERED:
        for key in KEYS:
            of_key = [n for n in left if keys[n] == key]
            assert of_key == sorted(of_key)


def _assert_modest(script, options):
    assert script.most_of_a_key <= 1
    assert script.most_requests <= (options.capacity if options.asynchronous else 1)
    assert all(len(keys) <= options.batch for _, keys in script.asked)
    if options.cache and options.cache.rows >= len(KEYS) and not options.retries and not +script.failures:
        assert all(count == 1 for count in Counter(script.keys_asked).values())


@settings(max_examples=60)
@given(plans(), plans(), ROWS, st.integers(1, 30))
def test_two_lookups_of_one_row(worker, one, two, rows, size):
    scripts = [plan.script() for plan in (one, two)]
    steps = [
        LookupStep(number, scripted(next(_NAMES), script), (key,), f"a{number}", plan.options, error=f"e{number}")
        for number, (plan, script, key) in enumerate(zip((one, two), scripts, "km", strict=True))
    ]
    actual, _ = run(worker, steps, rows, size)
    joined = [(row["n"], names(row["a0"]), row["e0"], names(row["a1"]), row["e1"]) for row in actual]
    expected = [(n, *one.expected(key), *two.expected(other)) for n, (key, other) in enumerate(rows)]
    assert sorted(joined) == expected
    if LookupRows(tuple(steps)).order is Order.ORDERED:
        assert joined == expected
    for script, plan in zip(scripts, (one, two), strict=True):
        _assert_modest(script, plan.options)


@settings(max_examples=60)
@given(by_key(st.sampled_from((5, 50, 100_000))), ROWS, st.sampled_from(Order), st.sampled_from((1, 3)), st.booleans())
def test_slow_keys_time_out_and_nothing_else(worker, delays, rows, order, capacity, defers):
    options = LookupOptions(
        order=order,
        capacity=capacity,
        timeout_ms=TIMEOUT_MS,
        on_timeout=OnTimeout.DEFER if defers else OnTimeout.NULL,
        cache=Cache(100),
    )
    plan = Plan(dict.fromkeys(KEYS, 1), delays, dict.fromkeys(KEYS, 0), options)
    script = plan.script()
    step = LookupStep(0, scripted(next(_NAMES), script), ("k",), "a", options, deferred="d")
    actual, metrics = run(worker, [step], rows, 7)
    slow = {key for key in KEYS if delays[key] > TIMEOUT_MS}
    late: tuple[object, bool] = (None, True) if defers else ([], False)
    got = {row["n"]: (names(row["a"]), row["d"]) for row in actual}
    assert sorted(got) == list(range(len(rows)))
    firsts = {key: n for n, (key, _) in reversed([*enumerate(rows)])}
    for n, (key, _) in enumerate(rows):
        answered = (plan.expected(key)[0], False)
        if key not in slow:
            assert got[n] == answered
        elif n == firsts[key] or not defers:
            assert got[n] == late
        else:  # the request for an earlier row went on, and may have its answer by now
            assert got[n] in (late, answered)
    assert metrics.get("0/timeouts", 0) == sum(outcome == late for n, outcome in got.items() if rows[n][0] in slow)
    assert script.most_requests <= capacity * (2 if defers else 1)
