"""The rows of a query that may move from the terminal to a file while they come."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from threading import Event, Thread
from typing import TYPE_CHECKING

from sqlstream.shell.interrupts import SentBack

if TYPE_CHECKING:
    import pyarrow as pa

_POLL_SECONDS = 0.2


class Feed:
    """Takes tables on a thread of its own; whoever iterates gets them, and SentBack once ``leave`` is set.

    Another iteration goes on where the last one has ended. Raises what the tables raise.
    """

    def __init__(self, tables: Iterator[pa.Table], leave: Event) -> None:
        self._tables = tables
        self._leave = leave
        self._waiting: queue.Queue[pa.Table | BaseException | None] = queue.Queue(1)
        self._closed = Event()
        Thread(target=self._take, name="sqlstream-feed", daemon=True).start()

    def __iter__(self) -> Iterator[pa.Table]:
        while True:
            if self._leave.is_set():
                raise SentBack
            try:
                item = self._waiting.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    def going_on(self) -> Iterator[pa.Table]:
        """As iterating, whatever happens to ``leave``."""
        while (item := self._waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self) -> None:
        """Nobody iterates any more."""
        self._closed.set()

    def _take(self) -> None:
        try:
            for table in self._tables:
                self._put(table)
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _put(self, item: pa.Table | BaseException | None) -> None:
        while not self._closed.is_set():
            try:
                return self._waiting.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
        return None
