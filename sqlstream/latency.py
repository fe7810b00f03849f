"""What ``SET 'execution.latency'`` decides: ``low``, where no other setting says it, and ``real-time``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlstream.options import Option, one_of

if TYPE_CHECKING:
    from sqlstream.settings import Settings

LATENCY = "execution.latency"
NORMAL, LOW, REAL_TIME = "normal", "low", "real-time"

OPTION = Option(
    LATENCY,
    one_of(NORMAL, LOW, REAL_TIME),
    "low: results come sooner, for more processor time while no rows come. In a plan with one watermark, windows over "
    "a table fire in the micro-batch whose rows close them, not in the next one. A new checkpoint has one key group "
    "for each task of a shuffle, at most 64, sources are looked at every 10 ms ('spark.sql.streaming.pollingDelay'), "
    "and the clock ticks every 100 ms ('sqlstream.clock-interval'). Settings that are given go before. real-time: "
    "rows go through one by one, within milliseconds, in Spark's real-time mode: from topics to topics, without "
    "state, or with one GROUP BY or DISTINCT; other statements are refused. An epoch is "
    "'execution.checkpointing.interval' long, else a minute; the rows of one that fails are written again.",
    NORMAL,
)

_CLOCK_INTERVAL = "sqlstream.clock-interval"
_POLLING_DELAY = "spark.sql.streaming.pollingDelay"
_LOW_CLOCK_INTERVAL_MS = 100
_LOW_POLLING_DELAY_MS = 10  # Spark's own default, which keeps a third of a core busy while no rows come


def is_low(settings: Settings) -> bool:
    """True where results are to come as soon as possible."""
    return bool(settings[LATENCY] == LOW)


def is_real_time(settings: Settings) -> bool:
    """True where rows go through one by one."""
    return bool(settings[LATENCY] == REAL_TIME)


def clock_interval_ms(settings: Settings) -> int:
    """The time between two ticks of processing time, for plans that need ticks."""
    if is_low(settings) and _CLOCK_INTERVAL not in settings.given:
        return _LOW_CLOCK_INTERVAL_MS
    interval_ms: int = settings[_CLOCK_INTERVAL]
    return interval_ms


def spark_settings_of_latency(settings: Settings) -> Mapping[str, str]:
    """Spark's settings for low latency, by key, without those that the user has given; empty for normal latency."""
    if not is_low(settings) or _POLLING_DELAY in settings.given:
        return {}
    return {_POLLING_DELAY: str(_LOW_POLLING_DELAY_MS)}
