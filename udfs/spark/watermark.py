"""Translates Spark's one watermark for operators."""

from __future__ import annotations

from enum import Enum


class Watermark(Enum):
    """NONE: the query has none, and kernels no timers."""

    EVENT_TIME = "event time"
    CLOCK = "clock"
    NONE = "none"
