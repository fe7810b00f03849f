"""What Spark does for one key group: a new processor for each micro-batch, over entries and timers that it keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from pyspark.sql import Row

from sqlstream.udfs.exchange import Blob, from_bytes
from sqlstream.udfs.kernel import StateKey
from sqlstream.udfs.spark.adapter import KernelProcessor
from sqlstream.udfs.spark.steps import GroupEntries


@dataclass
class Results:
    """``rows`` with whether they were sent ahead, late rows by table, counts by stage."""

    rows: list[tuple[bool, dict[str, Any]]] = field(default_factory=list)
    late: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)

    def take(self, items: Iterable[Row]) -> None:
        for row in items:
            self.counts[row.stage] += row.late_rows
            if row.bytes is not None:
                assert not row.folded, "results of tests are few"
                rows = from_bytes(row.bytes).to_pylist()
                if row.late_table is None:
                    self.rows += [(row.ahead, values) for values in rows]
                else:
                    self.late.setdefault(row.late_table, []).extend(rows)


@dataclass
class OneKeyGroup:
    """``processor`` makes one; times in milliseconds are Spark's. ``forgets``: timers may be missing, as an
    earlier build left them."""

    processor: Callable[[], KernelProcessor]
    entries: dict[StateKey, bytes] = field(default_factory=dict)
    timers: set[int] = field(default_factory=set)
    asked: list[list[StateKey]] = field(default_factory=list)
    forgets: bool = False

    def batch(self, blobs: Iterable[Blob], watermark_ms: int) -> Results:
        """Rows come first, then the timers that are due, as Spark has it."""
        processor, results = self.processor(), Results()
        processor.begin(self)
        arrived = [Row(**blob._asdict()) for blob in blobs]
        if arrived:
            results.take(processor.rows(iter(arrived), cast(Any, Now(watermark_ms))))
        for timer in sorted(t for t in self.timers if t <= watermark_ms):
            if timer in self.timers:
                results.take(processor.expired(cast(Any, Now(watermark_ms)), cast(Any, _Expired(timer))))
                self.timers.remove(timer)
        return results

    # --- as Entries --------------------------------------------------------------------------------------------

    def get(self, keys: Iterable[StateKey]) -> list[bytes | None]:
        self.asked.append(list(keys))
        return [self.entries.get(key) for key in self.asked[-1]]

    def write(
        self,
        entries: Iterable[tuple[StateKey, bytes]],
        removed: Iterable[StateKey] = (),
        deleted_timer: int | None = None,
        timer: int | None = None,
    ) -> None:
        assert deleted_timer is None or deleted_timer in self.timers or self.forgets
        GroupEntries(self.entries, self.timers).write(tuple(entries), tuple(removed), deleted_timer, timer)


@dataclass(frozen=True)
class Now:
    """``TimerValues``."""

    watermark_ms: int

    def getCurrentWatermarkInMs(self) -> int:  # noqa: N802 - PySpark's name
        return self.watermark_ms


@dataclass(frozen=True)
class _Expired:
    """``ExpiredTimerInfo``."""

    time: int

    def getExpiryTimeInMs(self) -> int:  # noqa: N802
        return self.time
