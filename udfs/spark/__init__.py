"""Kernels on Spark: the one adapter to ``transformWithState``. Only this package of ``udfs`` imports PySpark, and this
module does not."""

from __future__ import annotations

from enum import Enum

# --- the watermark of an operator -----------------------------------------------------------------------------


class Watermark(Enum):
    """What Spark's watermark means to the kernels of an operator. EVENT_TIME: the event time that has been reached.
    CLOCK: the processing time, in queries without event time. NONE: the query has no watermark, so kernels have no
    timers of event time.
    """

    EVENT_TIME = "event time"
    CLOCK = "clock"
    NONE = "none"
