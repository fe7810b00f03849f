"""Translates Spark's one watermark for operators."""

from __future__ import annotations

from enum import Enum


class Watermark(Enum):
    """The origin of an operator's watermark. NONE: the query has none, and kernels have no timers."""

    EVENT_TIME = "event time"
    CLOCK = "clock"
    NONE = "none"
