"""A log that is received by a thread: which transactions are given out, and the place that follows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue

import pytest

from sqlstream.connectors.changes.received_log import Incoming, ReceivedLog, Taken


class Log(ReceivedLog):
    """Receives what a test says: transactions that are committed at a place, each with one message and ten bytes of
    the log, or that the log has reached a place.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(0, folder)
        self._said: Queue[tuple[str, int]] = Queue()
        self.start_receiving("log of a test")

    def receive(self, *places: int, reached: int = 0) -> None:
        """Returns when all of it has been received."""
        for place in places:
            self._said.put(("commit", place))
        if reached:
            self._said.put(("reach", reached))
        end = max(reached, 0, *(place + 10 for place in places))
        assert self.wait(lambda: self._reached >= end, 10)

    def _receive(self, incoming: Incoming) -> bool:
        try:
            what, place = self._said.get_nowait()
        except Empty:
            return False
        if what == "reach":
            incoming.reach(place)
        else:
            incoming.begin()
            incoming.add(b"message")
            incoming.commit(place, place + 10)
        return True

    def _rest(self) -> None:
        self._asks.wait(0.001)

    def _report(self, *, asks: bool) -> None:
        """There is no server."""

    def _close(self) -> None:
        """There is no connection."""

    def confirm(self, place: int) -> None:
        """There is no server."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    received = Log(tmp_path)
    yield received
    received.stop()


def messages(taken: Taken | None) -> int:
    return 0 if taken is None else sum(segment.until - segment.first for segment in taken.segments)


def test_a_run_that_ends_at_a_place_reads_what_is_received_later_of_what_is_before_it(log: Log):
    """The first transactions are given out as soon as they are there, and others that were committed before the run
    began are still on their way.
    """
    log.receive(10, 20)
    taken = log.take(None, 100)
    assert taken is not None
    assert (messages(taken), taken.end) == (2, 30)
    log.receive(80, 90, 100)
    taken = log.take(None, 100)
    assert taken is not None
    assert (messages(taken), taken.end) == (2, 100)
    assert log.take(None, 100) is None
    assert messages(log.take(None)) == 1


def test_a_run_that_ends_waits_for_a_whole_micro_batch(log: Log):
    log.receive(10, 20)
    assert not log.has_enough(3, 100)
    assert log.has_enough(2, 100)
    assert log.has_enough(3, 30)
    log.receive(30)
    assert log.has_enough(3, 100)
    log.take(2, 100)
    assert not log.has_enough(2, 100)
    log.receive(reached=100)
    assert log.has_enough(2, 100)


def test_a_run_ends_at_its_place_where_all_before_it_has_been_received(log: Log):
    log.receive(10, reached=100)
    taken = log.take(None, 100)
    assert taken is not None
    assert (messages(taken), taken.end, log.since) == (1, 100, 100)


def test_a_run_has_parts_that_end_behind_transactions(log: Log):
    log.receive(10, 20, 30, reached=100)
    taken = [log.take(2, 100), log.take(2, 100)]
    assert [(messages(each), each and each.end) for each in taken] == [(2, 30), (1, 100)]


def test_without_a_place_to_end_at_the_last_transaction_ends_it(log: Log):
    log.receive(10, 20, reached=100)
    assert [(messages(each), each and each.end) for each in (log.take(1), log.take(1))] == [(1, 20), (1, 30)]
