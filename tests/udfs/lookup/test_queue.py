"""The queue of rows that wait, against what its orders promise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.udfs.lookup.options import Order
from sqlstream.udfs.lookup.queue import Entry, LookupQueue, queue_of

# What happens: an entry of a key (or of none), a mark, the completion of the n-th entry, or a look at what may leave.
KEYS = st.one_of(st.none(), st.integers(0, 2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("row"), KEYS),
        st.tuples(st.just("mark"), st.none()),
        st.tuples(st.just("complete"), st.integers(0, 30)),
        st.tuples(st.just("pop"), st.none()),
    ),
    max_size=40,
)


class Played:
    """All entries in order of arrival; ``left`` those that have left."""

    def __init__(self, order, capacity=1000):
        self.queue: LookupQueue[int] = queue_of(order, capacity)
        self.entries, self.left = [], []

    def play(self, steps):
        for what, value in steps:
            match what:
                case "row" | "mark":
                    entry = Entry(len(self.entries), value, is_mark=what == "mark")
                    if self.queue.put(entry):
                        self.entries.append(entry)
                case "complete":
                    if value < len(self.entries) and not (entry := self.entries[value]).is_mark and not entry.done:
                        self.queue.complete(entry)
                case "pop":
                    self.left += self.queue.pop()
        self.left += self.queue.pop()
        return self


def may_leave(order, entries, entry):
    """Everything that the entry must not overtake is done."""
    before = entries[: entries.index(entry)]
    if order is Order.ORDERED or entry.is_mark:
        return all(other.done or other.is_mark for other in before)
    marks = [position for position, other in enumerate(before) if other.is_mark]
    behind = before[: marks[-1]] if marks else []
    if order is Order.KEY_ORDERED and entry.key is not None:
        behind = [*behind, *(other for other in before if other.key == entry.key)]
    return all(other.done or other.is_mark for other in behind)


@given(st.sampled_from(Order), STEPS)
def test_all_that_may_leave_has_left_once(order, steps):
    played = Played(order).play(steps)
    expected = [e for e in played.entries if (e.done or e.is_mark) and may_leave(order, played.entries, e)]
    assert sorted(entry.content for entry in played.left) == [entry.content for entry in expected]
    assert len(played.queue) == len(played.entries) - len(played.left)


@given(st.sampled_from(Order), STEPS)
def test_nothing_overtakes_what_it_must_not(order, steps):
    left = Played(order).play(steps).left
    places = [entry.content for entry in left]
    if order is Order.ORDERED:
        assert places == sorted(places)
    for position, entry in enumerate(left):
        if entry.is_mark:
            assert all(place < entry.content for place in places[:position])
            assert all(place > entry.content for place in places[position + 1 :])
    if order is Order.KEY_ORDERED:
        for key in range(3):
            of_key = [entry.content for entry in left if entry.key == key]
            assert of_key == sorted(of_key)


@given(st.sampled_from(Order), st.integers(1, 4), STEPS)
def test_no_more_than_the_capacity_waits(order, capacity, steps):
    played = Played(order, capacity)
    for step in steps:
        played.play([step])
        assert len(played.queue) <= capacity


@pytest.mark.parametrize(
    ("order", "holds"), [(Order.KEY_ORDERED, True), (Order.UNORDERED, False), (Order.ORDERED, False)]
)
def test_a_key_that_waits_is_known(order, holds):
    queue: LookupQueue[str] = queue_of(order, 10)
    entry = Entry("a", key=1)
    queue.put(entry)
    queue.put(Entry("mark", is_mark=True))
    assert (queue.holds(1), queue.holds(2), queue.holds(None)) == (holds, False, False)
    queue.complete(entry)
    assert not queue.holds(1)
