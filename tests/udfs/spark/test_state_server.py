"""State through PySpark's public API, which remains where a version lacks what pipelining needs, and when Spark gets to
know of it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState

from sqlstream.udfs.spark.shipped import ShippedProcessor
from sqlstream.udfs.spark.state_server import NAME, entries_of
from sqlstream.udfs.spark.store import CallStore
from sqlstream.udfs.spark.values import to_texts


class FakeState:
    def __init__(self):
        self.entries = {}
        self.asked = []

    def getValue(self, key):  # noqa: N802 - PySpark's name
        self.asked.append(key)
        return self.entries.get(key)

    def updateValue(self, key, value):  # noqa: N802
        self.entries[key] = value

    def removeKey(self, key):  # noqa: N802
        self.entries.pop(key, None)


class FakeHandle:
    def __init__(self):
        self.state = FakeState()
        self.timers = set()

    def registerTimer(self, time):  # noqa: N802
        self.timers.add(time)

    def deleteTimer(self, time):  # noqa: N802
        self.timers.remove(time)


def test_entries_are_read_and_written_once_per_call():
    handle = FakeHandle()
    store = CallStore(entries_of(cast(Any, handle), handle.state))
    store.put({("a", 1): b"x", ("a", 2): b"y", ("a", 3): b"z"})
    store.put({("a", 2): None})
    assert store.get([("a", 1), ("a", 2)]) == [b"x", None]
    assert handle.state.asked == [], "what is written is known"
    store.flush(None, 70)
    x, z = to_texts([b"x", b"z"])
    assert handle.state.entries == {("a", 1): (x,), ("a", 3): (z,)}
    assert handle.timers == {70}

    store = CallStore(entries_of(cast(Any, handle), handle.state))
    assert store.get([("a", 3), ("b", 0), ("a", 3)]) == [b"z", None, b"z"]
    assert store.get([("b", 0)]) == [None]
    assert handle.state.asked == [("a", 3), ("b", 0)]
    store.put({("a", 1): None})
    store.flush(70, 80)
    assert (set(handle.state.entries), handle.timers) == ({("a", 3)}, {80})


def test_what_one_call_began_with_is_read_ahead_in_the_next():
    handle = FakeHandle()
    entries_of(cast(Any, handle), handle.state).write([(("a", 1), b"x")])
    store = CallStore(entries_of(cast(Any, handle), handle.state), expected=[("a", 1), ("a", 2)])
    assert store.get([("own", 0)]) == [None]
    assert handle.state.asked == [("own", 0), ("a", 1), ("a", 2)]
    assert store.get([("a", 1), ("a", 2)]) == [b"x", None]
    assert len(handle.state.asked) == 3, "what was read ahead is not asked for again"


class FakeTask:
    """A handle that knows how far its task is, and what is declared at which point of it."""

    def __init__(self, state):
        self._statefulProcessorApiClient = self
        self.handle_state = state
        self.declared = []

    def set_handle_state(self, state):
        self.handle_state = state

    def getMapState(self, name, key, value):  # noqa: N802
        self.declared.append((name, self.handle_state))


class Begun:
    """In place of a ``KernelProcessor``."""

    def begin(self, entries):
        self.entries = entries

    def rows(self, rows, timers):
        return iter(())


def test_a_task_declares_its_state_with_its_first_rows():
    states = StatefulProcessorHandleState
    task = FakeTask(states.CREATED)
    processor = ShippedProcessor(cast(Any, Begun()))
    processor.init(cast(Any, task))
    assert task.declared == []
    task.set_handle_state(states.INITIALIZED)
    for _ in range(2):
        processor.handleInputRows(("k",), iter(()), cast(Any, None))
    assert task.declared == [(NAME, states.CREATED)], "Spark takes it in no other state"
    assert task.handle_state is states.INITIALIZED


@pytest.mark.parametrize("state", [StatefulProcessorHandleState.PRE_INIT, None])
def test_state_is_declared_at_once_where_spark_asks_for_it_or_does_not_say_how_far_it_is(state):
    task = FakeTask(state)
    ShippedProcessor(cast(Any, Begun())).init(cast(Any, task))
    assert task.declared == [(NAME, state)]
