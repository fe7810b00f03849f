"""State through PySpark's public API, which remains where a version lacks what pipelining needs."""

from __future__ import annotations

from typing import Any, cast

from sqlstream.udfs.spark.state_server import CallStore, entries_of, to_texts


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
