"""The range of event times that windows and timers support, and of those that advance a watermark.

All times are int64 microseconds since 1970 (UTC). Rows outside of ``EARLIEST`` to ``LATEST`` are bad rows, and no
interval is longer than ``LONGEST``: kernels add and subtract both without leaving int64.
"""

from __future__ import annotations

from sqlstream.errors import repeating

OUT_OF_RANGE = repeating("SS430")

_DAY = 86_400_000_000

EARLIEST = -11_676_803 * _DAY
"""The first microsecond of the year -30000."""

LATEST = 10_237_747 * _DAY - 1
"""The last microsecond of the year 29999."""

LONGEST = 3_652_425 * _DAY
"""10,000 years: the longest interval, such as the size of a window."""

END_OF_INPUT = 253_402_300_799_999_000
"""The last millisecond of the year 9999. A watermark of this time or later means that the input has ended, so later
rows do not advance the watermark: their windows close when the input ends."""


def time_text(micros: int) -> str:
    """A time in microseconds since 1970 (UTC), of any year, as text in Spark's format, such as ``+12004-02-24
    00:00:00``.
    """
    import numpy as np  # which the planner, for which the numbers above are, does without

    day, _, clock = str(np.datetime64(micros, "us")).partition("T")
    year, month_and_day = int(day[:-6]), day[-6:]
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{month_and_day} {clock.rstrip('0').rstrip('.')}"


def out_of_range(name: str, value: str) -> str:
    """The message of error SS430 for an event time that is out of range. ``name`` is the column; ``value`` is the text
    of the time in microseconds, or a placeholder for it.
    """
    return f"{name} is {value} microseconds after 1970, outside of the years -30000 to 29999"


HINT = (
    "Such a time is often a number in another unit: TIMESTAMP_MILLIS(n) takes milliseconds. The option 'on-error' of "
    "the table can skip such rows."
)
