"""Timers of users' functions."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.kernel import END_OF_TIME, Domain, MemoryStore
from sqlstream.udfs.state.timers import Timer, TimerService

KEY = pa.schema([("k", pa.string())])
WINDOW = pa.schema([("k", pa.string()), ("end", pa.timestamp("us"))])
EVENT, PROCESSING = Domain.EVENT, Domain.PROCESSING


def service(store: MemoryStore) -> TimerService:
    return TimerService(store, "timers", KEY)


def timer(time: int, key: str = "a", name: str | None = None) -> Timer:
    return Timer(time, (key,), (), name)


def fired(timers: TimerService, time: int, domain: Domain = EVENT) -> list:
    return [(t.time, *t.key, t.name) for t in timers.due(domain, time)]


def test_timers_come_in_order_of_time_then_of_registration():
    store = MemoryStore()
    timers = service(store)
    for time, key in [(5, "b"), (3, "z"), (5, "a"), (9, "c")]:
        timers.register(EVENT, timer(time, key))
    timers.flush()
    timers = service(store)
    timers.register(EVENT, timer(3, "y"))
    assert timers.next_timer(EVENT) == 3
    assert fired(timers, 5) == [(3, "z", None), (3, "y", None), (5, "b", None), (5, "a", None)]
    assert timers.next_timer(EVENT) == 9
    assert fired(timers, 8) == []
    timers.flush()
    assert service(store).registered(EVENT) == [timer(9, "c")]


def test_a_timer_exists_once_per_key_namespace_name_and_time():
    timers = TimerService(MemoryStore(), "timers", WINDOW, WINDOW)
    variants = [
        Timer(time, (key, end), (key, None), name)
        for time in (1, 2)
        for key in ("a", None)
        for end in (None, 7)
        for name in (None, "n")
    ]
    for each in [*variants, *variants]:
        timers.register(EVENT, each)
    assert len(timers.registered(EVENT)) == len(variants) == 16
    assert len(list(timers.due(EVENT, 2))) == 16


def test_domains_are_apart():
    timers = service(MemoryStore())
    timers.register(EVENT, timer(1))
    timers.register(PROCESSING, timer(2))
    timers.delete(PROCESSING, timer(1))
    assert fired(timers, 5, PROCESSING) == [(2, "a", None)]
    assert fired(timers, 5) == [(1, "a", None)]


def test_registering_again_keeps_the_place_and_deleting_loses_it():
    timers = service(MemoryStore())
    for key in "ab":
        timers.register(EVENT, timer(1, key))
    timers.register(EVENT, timer(1, "a"))
    assert [t.key for t in timers.registered(EVENT)] == [("a",), ("b",)]
    timers.delete(EVENT, timer(1, "a"))
    timers.register(EVENT, timer(1, "a"))
    assert [t.key for t in timers.due(EVENT, 1)] == [("b",), ("a",)]


def test_a_timer_may_register_and_delete_timers():
    timers = service(MemoryStore())
    for key in "abc":
        timers.register(EVENT, timer(10, key))
    seen = []
    for each in timers.due(EVENT, 20):
        seen.append((each.time, *each.key))
        if seen == [(10, "a")]:
            timers.delete(EVENT, timer(10, "c"))
            timers.register(EVENT, timer(15, "d"))
            timers.register(EVENT, timer(3, "past"))
            timers.register(EVENT, timer(10, "a"))
            timers.register(EVENT, timer(10, "a"))
            timers.register(EVENT, timer(30, "later"))
    assert seen == [(10, "a"), (3, "past"), (10, "b"), (10, "a"), (15, "d")]
    assert timers.next_timer(EVENT) == 30


def test_a_deleted_timer_leaves_nothing_once_its_time_has_come():
    store = MemoryStore()
    timers = service(store)
    timers.register(EVENT, timer(10))
    timers.flush()
    timers = service(store)
    timers.delete(EVENT, timer(10))
    timers.delete(EVENT, timer(11, "none"))
    timers.flush()
    timers = service(store)
    assert timers.registered(EVENT) == []
    assert fired(timers, 11) == []
    assert timers.next_timer(EVENT) == END_OF_TIME
    timers.flush()
    assert store.entries == {}


def test_a_timer_at_the_end_of_time_is_none():
    timers = service(MemoryStore())
    timers.register(EVENT, timer(END_OF_TIME))
    assert fired(timers, END_OF_TIME) == []


def test_keys_may_be_lists_and_not_a_number():
    key = pa.schema([("x", pa.float64()), ("xs", pa.list_(pa.int64()))])
    timers = TimerService(MemoryStore(), "timers", key)
    each = Timer(5, (math.nan, [1, 2]))
    timers.register(EVENT, each)
    timers.register(EVENT, Timer(5, (float("nan"), [1, 2])))
    timers.register(EVENT, Timer(5, (1.0, [1, 2])))
    collected = []
    for one in timers.due(EVENT, 5):
        collected.append(one.key[1])
        timers.delete(EVENT, Timer(5, (1.0, [1, 2])))
    assert collected == [[1, 2]]


def test_timers_that_are_due_must_be_taken():
    timers = service(MemoryStore())
    timers.register(EVENT, timer(1))
    next(timers.due(EVENT, 1))
    with pytest.raises(AssertionError, match="have not been taken"):
        timers.flush()


def test_a_call_costs_what_it_registers_and_fires():
    store = MemoryStore()
    for start in range(0, 50_000, 5_000):
        timers = service(store)
        for i in range(start, start + 5_000):
            timers.register(EVENT, timer(i * 7919 % 50_000, f"k{i}"))
        timers.flush()
    timers = service(store)
    list(timers.due(EVENT, 10))
    timers.flush()
    everything = store.size

    store.forget_traffic()
    timers = service(store)
    timers.register(EVENT, timer(40_000, "new"))
    timers.delete(EVENT, timer(40_001, "none"))
    timers.flush()
    assert (store.traffic.gets, store.traffic.puts, store.traffic.entries_read) == (1, 1, 3)
    assert store.traffic.bytes_written < everything / 50
    store.forget_traffic()
    timers = service(store)
    assert len(list(timers.due(EVENT, 50))) == 40
    timers.flush()
    assert (store.traffic.gets, store.traffic.puts) == (2, 1)
    assert store.traffic.bytes_read + store.traffic.bytes_written < everything / 20


_TIMER = st.builds(timer, st.integers(0, 12), st.sampled_from("abc"), st.sampled_from([None, "n"]))
_STEP = st.one_of(
    st.tuples(st.sampled_from(["register", "register", "delete"]), _TIMER),
    st.tuples(st.just("advance"), st.integers(0, 13), st.none() | _TIMER, st.none() | _TIMER),
    st.tuples(st.just("restart")),
)


@settings(max_examples=150)
@given(st.lists(_STEP, max_size=40))
def test_it_is_a_sorted_set(steps):
    """Against a dictionary in order of registration; between timers one is registered and one deleted."""
    store = MemoryStore()
    timers = service(store)
    model: dict[Timer, None] = {}
    for step in steps:
        match step:
            case "register", one:
                timers.register(EVENT, one)
                model.setdefault(one)
            case "delete", one:
                timers.delete(EVENT, one)
                model.pop(one, None)
            case "advance", time, added, dropped:
                for one in timers.due(EVENT, time):
                    assert one == min(model, key=lambda t: t.time)
                    assert one.time <= time
                    del model[one]
                    if added:
                        timers.register(EVENT, added)
                        model.setdefault(added)
                    if dropped:
                        timers.delete(EVENT, dropped)
                        model.pop(dropped, None)
                    added = None
                assert all(one.time > time for one in model)
                assert timers.next_timer(EVENT) > time
            case ("restart",):
                timers.flush()
                timers = service(store)
        assert timers.next_timer(EVENT) <= min((one.time for one in model), default=END_OF_TIME)
    assert timers.registered(EVENT) == sorted(model, key=lambda t: t.time)
