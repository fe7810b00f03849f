"""The state of a key group during one call, and what is kept of it in memory between calls: never anything but what the
store has, whatever becomes of attempts, processes and memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.udfs.exchange import Blob, Content, to_bytes
from sqlstream.udfs.kernel import END_OF_TIME, KEY_HASH, StateKey
from sqlstream.udfs.spark import Watermark
from sqlstream.udfs.spark.adapter import KernelProcessor
from sqlstream.udfs.spark.call import Clocks
from sqlstream.udfs.spark.call_store import STAMP, CallStore, Keeping
from sqlstream.udfs.spark.shared_memory import BLOCK, SharedMemory
from tests.udfs.spark.one_key_group import OneKeyGroup
from tests.udfs.spark.recorder import Recorder


class Entries:
    """The state of a key group as Spark has it; ``asked``: the keys that were read."""

    def __init__(self, entries: Mapping[StateKey, bytes] | None = None):
        self.entries = dict(entries or {})
        self.asked: list[StateKey] = []
        self.timers: set[int] = set()

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        self.asked += keys
        return [self.entries.get(key) for key in keys]

    def write(self, entries, removed=(), deleted_timer=None, timer=None):
        self.entries.update(entries)
        for key in removed:
            self.entries.pop(key, None)
        self.timers -= {deleted_timer}
        self.timers |= {timer} - {None}

    def taken(self) -> list[StateKey]:
        asked, self.asked = self.asked, []
        return [key for key in asked if key != STAMP]

    @property
    def own(self) -> dict[StateKey, bytes]:
        return {key: value for key, value in self.entries.items() if key != STAMP}


def changed(entries: Entries, values: Mapping[StateKey, bytes | None], keeping: Keeping | None = None) -> None:
    store = CallStore(entries, keeping=keeping)
    store.get([("own", 0)])
    store.put(values)
    store.flush(None, None)


def test_entries_are_read_and_written_once_per_call():
    entries = Entries()
    store = CallStore(entries)
    store.put({("a", 1): b"x", ("a", 2): b"y", ("a", 3): b"z"})
    store.put({("a", 2): None})
    assert store.get([("a", 1), ("a", 2)]) == [b"x", None]
    assert entries.asked == [], "what is written is known"
    store.flush(None, 70)
    assert entries.own == {("a", 1): b"x", ("a", 3): b"z"}
    assert entries.timers == {70}

    store = CallStore(entries)
    assert store.get([("a", 3), ("b", 0), ("a", 3)]) == [b"z", None, b"z"]
    assert store.get([("b", 0)]) == [None]
    assert entries.taken() == [("a", 3), ("b", 0)]
    store.put({("a", 1): None})
    store.flush(70, 80)
    assert (set(entries.own), entries.timers) == ({("a", 3)}, {80})


def test_what_one_call_began_with_is_read_ahead_in_the_next():
    entries = Entries({("a", 1): b"x"})
    store = CallStore(entries, expected=[("a", 1), ("a", 2)])
    assert store.get([("own", 0)]) == [None]
    assert entries.taken() == [("own", 0), ("a", 1), ("a", 2)]
    assert store.get([("a", 1), ("a", 2)]) == [b"x", None]
    assert entries.asked == [], "what was read ahead is not asked for again"


# --- what is kept ---------------------------------------------------------------------------------------------


def keeping(blocks: int = 64) -> Keeping:
    return Keeping(SharedMemory(blocks * BLOCK), blocks * BLOCK)


LONG = bytes(range(256)) * (5 * BLOCK // 512)
"""More than two blocks."""


def test_the_next_call_does_not_ask_for_what_was_written_or_read():
    kept, entries = keeping(), Entries({("a", 2): b"read"})
    store = CallStore(entries, keeping=kept)
    store.get([("own", 0), ("a", 2), ("absent", 0)])
    store.put({("a", 1): LONG, ("gone", 0): None})
    store.flush(None, None)
    entries.asked.clear()
    store = CallStore(entries, keeping=kept)
    store.get([("own", 0)])
    assert store.is_kept
    wanted = [("a", 1), ("a", 2), ("absent", 0), ("gone", 0), ("other", 0)]
    assert store.get(wanted) == [LONG, b"read", None, None, None]
    assert entries.taken() == [("own", 0), ("other", 0)]


@pytest.mark.parametrize("most_bytes", [64 * BLOCK, 0])
def test_kernels_ask_spark_for_what_is_not_kept(most_bytes, monkeypatch):
    memory = SharedMemory(64 * BLOCK)
    monkeypatch.setattr("sqlstream.udfs.spark.adapter.shared_memory", lambda: memory)
    clocks = Clocks(Watermark.NONE, 0, END_OF_TIME)
    group = OneKeyGroup(lambda: KernelProcessor(Recorder(), clocks, state_memory=most_bytes))
    columns = [pa.array([0]), pa.array([1], pa.int32()), *[pa.array([None], pa.int64())] * 2]
    rows = to_bytes(pa.table(columns, [KEY_HASH, "v", "event_timer", "processing_timer"]))
    for before in range(3):
        group.asked.clear()
        ((_, values),) = group.batch([Blob(0, 0, 0, Content.ROWS, None, None, rows)], 0).rows
        assert values["calls_before"] == before
    assert (("calls", 7) in [key for keys in group.asked for key in keys]) == (most_bytes == 0)


def test_writes_without_memory_are_not_missed():
    kept, entries = keeping(), Entries()
    changed(entries, {("a", 1): b"x"}, kept)
    changed(entries, {("a", 1): b"y"})  # on a machine, or with a setting, that keeps nothing
    store = CallStore(entries, keeping=kept)
    assert store.get([("own", 0)]) + store.get([("a", 1)]) == [None, b"y"]


def test_an_attempt_that_spark_forgets_is_forgotten():
    kept, entries = keeping(), Entries()
    changed(entries, {("a", 1): b"x"}, kept)
    before = dict(entries.entries)
    changed(entries, {("a", 1): b"lost"}, kept)
    again = Entries(before)  # the task failed, and another one begins where it began
    store = CallStore(again, keeping=kept)
    assert store.get([("own", 0)]) + store.get([("a", 1)]) == [None, b"x"]


def test_two_attempts_at_once_see_what_they_began_with():
    kept, first = keeping(), Entries()
    changed(first, {("a", 1): LONG, ("a", 2): LONG}, kept)
    second = Entries(first.entries)
    slow = CallStore(second, keeping=kept)
    slow.get([("own", 0)])
    changed(first, {("a", 1): bytes(len(LONG)), ("a", 2): None}, kept)
    changed(Entries(), {("b", 1): b"\1" * len(LONG)}, kept)  # takes the blocks that are free now
    assert slow.get([("a", 1), ("a", 2)]) == [LONG, LONG]
    slow.put({("a", 3): b"z"})
    slow.flush(None, None)
    for entries, value in ((first, bytes(len(LONG))), (second, LONG)):
        store = CallStore(entries, keeping=kept)
        assert store.get([("own", 0)]) + store.get([("a", 1)]) == [None, value]


def test_a_call_that_writes_much_is_not_kept(monkeypatch):
    monkeypatch.setattr("sqlstream.udfs.spark.call_store._MUCH", 2 * len(LONG))
    kept, entries = keeping(), Entries()
    values: dict[StateKey, bytes | None] = {("a", number): LONG for number in range(3)}
    changed(entries, values, kept)
    assert kept.memory.used == 0
    store = CallStore(entries, keeping=kept)
    assert store.get([("own", 0)]) + store.get(list(values)) == [None, LONG, LONG, LONG]
    store.flush(None, None)
    assert is_kept(entries, kept), "what is read is kept"
    changed(entries, values, kept)
    assert is_kept(entries, kept), "no more is written than was kept"
    changed(entries, {("b", number): LONG for number in range(4)}, kept)
    assert kept.memory.used == 0


def test_what_was_found_and_is_gone_is_not_kept_again():
    memory = SharedMemory(64 * BLOCK)
    memory.keep(None, 1, {("a", 1): LONG}, 64 * BLOCK)
    found = memory.find(1)
    assert found is not None
    memory.forget(found)  # by another process, and the slot is free again
    memory.keep(found, 2, {("a", 2): LONG}, 64 * BLOCK)
    again = memory.find(2)
    assert again is not None and again.directory.keys() == {("a", 2)}
    assert memory.read(found, [("a", 1)]) is None


def test_a_value_that_changes_stays_in_memory_that_is_full():
    kept, entries = keeping(blocks=8), Entries()
    changed(entries, {("a", 1): LONG, ("b", 1): LONG}, kept)
    for byte in range(4):
        changed(entries, {("a", 1): bytes([byte]) * len(LONG)}, kept)
        assert is_kept(entries, kept)


def test_memory_that_fails_fails_no_task(monkeypatch):
    kept, entries = keeping(), Entries()
    changed(entries, {("a", 1): b"x"}, kept)

    def fails(*_):
        raise OSError("no locks available")

    for name in ("find", "read", "keep"):
        with monkeypatch.context() as patched:
            patched.setattr(kept.memory, name, fails)
            store = CallStore(entries, keeping=kept)
            assert store.get([("own", 0)]) + store.get([("a", 1)]) == [None, b"x"]
            store.put({("b", 1): b"y"})
            store.flush(None, None)


def test_what_does_not_fit_is_read_from_the_store():
    kept, entries = keeping(blocks=8), Entries()
    values: dict[StateKey, bytes | None] = {("a", number): bytes([number]) * len(LONG) for number in range(6)}
    changed(entries, values, kept)
    assert kept.memory.used <= kept.most_bytes
    store = CallStore(entries, keeping=kept)
    store.get([("own", 0)])
    entries.asked.clear()
    assert store.get(list(values)) == list(values.values())
    assert 0 < len(entries.taken()) < len(values), "some are kept"


def test_contents_that_nobody_wants_make_room(monkeypatch):
    kept = keeping(blocks=8)
    old, new = Entries(), Entries()
    changed(old, {("a", 1): LONG, ("a", 2): LONG}, kept)
    changed(new, {("a", 1): LONG, ("a", 2): LONG}, kept)
    assert not is_kept(new, kept), "contents in use stay"
    monkeypatch.setattr("sqlstream.udfs.spark.shared_memory._SECONDS_UNUSED", 0.0)
    changed(new, {("a", 1): LONG}, kept)
    assert is_kept(new, kept)
    assert not is_kept(old, kept)


def is_kept(entries: Entries, kept: Keeping) -> bool:
    store = CallStore(entries, keeping=kept)
    store.get([("own", 0)])
    entries.taken()
    store.get([("a", 1)])
    return entries.taken() == []


def forked(act) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forks of processes with threads
def test_forks_share_what_is_kept(monkeypatch):
    kept, entries = keeping(), Entries()
    stamp = bytes(range(1, 9))
    entries.entries[STAMP] = stamp
    forked(lambda: kept.memory.keep(None, int.from_bytes(stamp, "little"), {("a", 1): LONG}, kept.most_bytes))
    assert is_kept(entries, kept)

    def dies_writing() -> None:
        found = kept.memory.find(int.from_bytes(stamp, "little"))
        monkeypatch.setattr(kept.memory, "_write", lambda value, blocks: os._exit(0))
        kept.memory.keep(found, 7, {("a", 2): LONG}, kept.most_bytes)

    forked(dies_writing)
    assert not is_kept(entries, kept), "what was half written is not found"
    kept.memory._clear_unused()
    assert kept.memory.used == 0


LONGER = st.builds(lambda length, byte: bytes([byte]) * length, st.integers(0, 3 * BLOCK), st.integers(0, 255))
VALUES = st.one_of(st.none(), st.binary(max_size=30), LONGER)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),  # the key group
        st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), VALUES, max_size=4),
        st.sampled_from(["kept", "kept", "kept", "unkept", "lost"]),
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=150)
@given(STEPS, st.integers(1, 12))
def test_kept_state_is_that_of_the_store(steps, blocks):
    kept = keeping(blocks)
    groups = [Entries() for _ in range(3)]
    for number, values, fate in steps:
        entries = groups[number]
        before = dict(entries.entries)
        store = CallStore(entries, keeping=None if fate == "unkept" else kept)
        own = entries.own
        wanted = [("a", number) for number in range(4)]
        assert store.get([("own", 0)]) == [None]
        assert store.get([*wanted, *values]) == [own.get(key) for key in [*wanted, *values]]
        store.put(values)
        store.flush(None, None)
        if fate == "lost":
            groups[number] = Entries(before)
        assert kept.memory.used <= kept.most_bytes
