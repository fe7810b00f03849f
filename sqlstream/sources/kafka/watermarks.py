"""Watermarks of Kafka tables: the least of the partitions' newest event times, without those that are idle.

A micro-batch carries the time that the watermark may reach behind it, which is decided where its ranges of offsets are,
and stored with them: so a slow partition makes nothing late, in whatever micro-batches and tasks partitions are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlstream.sources.kafka.offsets import OffsetRange, Offsets, Partition, Position, ranges


@dataclass
class IdlePartitions:
    """Knows which partitions are idle: without a new row for ``timeout_ms``, and without a message that waits to be
    read. As in Flink, messages that are no rows, such as tombstones, keep no partition active. 0: none is ever idle.
    ``now_ms``: a monotonic clock.
    """

    timeout_ms: int
    now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    _active_ms: dict[Partition, int] = field(default_factory=dict)

    def after(self, position: Position, spoke: Iterable[Partition], latest: Offsets) -> frozenset[Partition]:
        """Those that are idle at a position. ``spoke``: the partitions of which the micro-batch before it reads rows.
        ``latest``: where partitions end.
        """
        now = self.now_ms()
        waiting = (p for p, offset in position.next.items() if latest.get(p, 0) > offset)
        unknown = (p for p in position.next if p not in self._active_ms)
        self._active_ms |= dict.fromkeys((*spoke, *waiting, *unknown), now)
        if not self.timeout_ms:
            return frozenset()
        return frozenset(p for p in position.next if now - self._active_ms[p] >= self.timeout_ms)


@dataclass
class PartitionWatermarks:
    """Adds to positions which time the watermark may reach.

    ``newest``: looks into ranges for the newest event time of each partition, in microseconds since 1970. ``by_rows``:
    the table, if only its rows say how far the watermark may go; None where tasks say so without rows, too.
    """

    newest: Callable[[Collection[OffsetRange]], Mapping[Partition, int]]
    idle: IdlePartitions
    by_rows: str | None = None

    def timed(self, before: Position, after: Position, latest: Offsets) -> Position:
        """The position ``after`` with times; ``before`` itself where nothing has changed. ``latest``: where the
        partitions end that there are.
        """
        read = ranges(before, after) if after is not before else []
        times, found = dict(before.times), self.newest(read) if read else {}
        for partition, newest in found.items():
            times[partition] = max(newest, times.get(partition, newest))
        idle = self.idle.after(after, found, latest)
        lift, holder = _reached(after, times, [p for p in after.next if p in latest and p not in idle])
        if before.lift is not None:  # a new partition takes no watermark back
            lift = before.lift if lift is None else max(lift, before.lift)
        if after is before and (lift, holder) == (before.lift, before.holder):
            return before
        begun = {} if after is before else after.begun
        lifts = self.by_rows if not read and lift != before.lift else None
        return replace(after, times=times, lift=lift, holder=holder, lifts=lifts, begun=begun)


def _reached(
    position: Position, times: Mapping[Partition, int], active: Iterable[Partition]
) -> tuple[int | None, Partition | None]:
    """How far the watermark may go, and the partition that holds it there. Partitions that a bounded table has read to
    their end hold nothing; where none is left, the newest time of all counts.
    """
    stop = position.stop
    holding = [p for p in active if stop is None or position.next[p] < stop.get(p, 0)]
    if not holding:
        return max(times.values(), default=None), None
    unknown = next((p for p in sorted(holding) if p not in times), None)
    if unknown is not None:
        return None, unknown
    least = min(holding, key=lambda p: (times[p], p))
    return times[least], least if len(holding) > 1 else None
