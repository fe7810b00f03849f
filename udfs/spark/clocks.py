"""Between Spark's watermark and a kernel's two clocks."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.udfs.kernel import END_OF_TIME, NO_WATERMARK
from sqlstream.udfs.spark.watermark import Watermark


@dataclass(frozen=True)
class Clocks:
    """Spark's watermark starts at 0; ours is moved by ``shift_ms``, so that times before 1970 are above that too.

    From ``end_ms`` (milliseconds since 1970) on it is the end of the input. ``chained_by_clock``: operators above
    see the same clock, so that what processing time fires must reach them before it passes. ``ends``: no rows come
    when the watermark is at the end of the input; where rows may wait below, some do. ``held_back_ms``: how far the
    kernel's event time stays behind Spark's watermark, but for the end of the input.
    """

    watermark: Watermark
    shift_ms: int
    end_ms: int
    chained_by_clock: bool = False
    ends: bool = True
    held_back_ms: int = 0

    def of_spark(self, watermark_ms: int) -> int:
        """Microseconds since 1970 of Spark's watermark."""
        if watermark_ms <= 0 or self.watermark is Watermark.NONE:
            return NO_WATERMARK
        return self.micros(watermark_ms - self.shift_ms)

    def micros(self, ms: int) -> int:
        return END_OF_TIME if ms >= self.end_ms else ms * 1000

    def times(self, watermark_ms: int, tick: int) -> tuple[int, int]:
        """Event time and processing time; ``tick`` is the newest tick of the batch, in microseconds.

        NO_WATERMARK is what is not known.
        """
        time = self._held_back(self.of_spark(watermark_ms))
        if self.watermark is Watermark.CLOCK:
            return (time if time == END_OF_TIME else NO_WATERMARK), time
        if time == END_OF_TIME or tick >= self.end_ms * 1000:
            return time, END_OF_TIME
        return time, tick

    def _held_back(self, time: int) -> int:
        return time if time in (NO_WATERMARK, END_OF_TIME) else max(time - 1000 * self.held_back_ms, NO_WATERMARK)

    def spark_timer(self, event_timer: int, processing_timer: int, watermark: int) -> int | None:
        """When Spark must call again, in its milliseconds, above 0 and after ``watermark``; None for never.

        A timer before the year 1, where Spark's clock starts, waits for the first watermark that Spark has. Whatever
        waits for a clock that Spark does not know is called at the end of the input, at which both end.
        """
        if self.watermark is Watermark.NONE or watermark == END_OF_TIME:
            return None
        own, other = event_timer, processing_timer
        if self.watermark is Watermark.CLOCK:
            own, other = other, own
        if own == END_OF_TIME and other == END_OF_TIME:
            return None
        due_ms = self.end_ms if own == END_OF_TIME else min(-(-own // 1000) + self.held_back_ms, self.end_ms)
        # Watermarks that are held may be before Spark's first.
        after_ms = max(-self.shift_ms, watermark // 1000 + self.held_back_ms) + 1
        return max(due_ms, after_ms) + self.shift_ms
