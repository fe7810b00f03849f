"""Bytes that sinks report while a job runs, for metrics."""

from __future__ import annotations

from threading import Lock


class WrittenBytes:
    """The bytes that sinks of one job have written, by table. Sinks ``add`` to it in the process that writes their
    micro-batches, from any thread.

    Through Spark Connect that is another process, whose copy nobody reads.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._lock = Lock()

    def add(self, table: str, size: int) -> None:
        """Counts what a micro-batch has written into a table. A micro-batch that is written again counts again."""
        with self._lock:
            self._sizes[table] = self._sizes.get(table, 0) + size

    def by_table(self) -> dict[str, int]:
        """The sums so far; without the tables whose sinks report nothing."""
        with self._lock:
            return dict(self._sizes)

    def __reduce__(self) -> tuple[type[WrittenBytes], tuple[()]]:
        return WrittenBytes, ()
