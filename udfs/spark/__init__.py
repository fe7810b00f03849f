"""Kernels on Spark: the one adapter to ``transformWithState``. Only this package of ``udfs`` imports PySpark, and this
module does not."""

from __future__ import annotations

from enum import Enum

# --- the watermark of an operator -----------------------------------------------------------------------------


class Watermark(Enum):
    """Where an operator gets its watermark. NONE: the query has none, so kernels have no event-time timers."""

    EVENT_TIME = "event time"
    CLOCK = "clock"
    NONE = "none"
