"""The rows of a query that may move from the terminal to a file while they come."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from threading import Event, Thread
from typing import TYPE_CHECKING

from sqlstream.shell.interrupts import Pressed

if TYPE_CHECKING:
    import pyarrow as pa

_POLL_SECONDS = 0.2


class Feed:
    """Takes tables on a thread of its own; whoever iterates gets them, until one of the keys is ``pressed``.

    Another iteration goes on where the last one has ended. Raises what the tables raise.
    """

    def __init__(self, tables: Iterator[pa.Table], pressed: Pressed) -> None:
        self._tables = tables
        self._pressed = pressed
        self._waiting: queue.Queue[pa.Table | BaseException | None] = queue.Queue(1)
        self._closed = Event()
        Thread(target=self._take, name="sqlstream-feed", daemon=True).start()

    def __iter__(self) -> Iterator[pa.Table]:
        while True:
            self._pressed.heed()
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
        """As iterating, whatever is pressed."""
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
