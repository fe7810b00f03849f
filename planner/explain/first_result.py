"""The latency floor of a window: when it can give its first result."""

from __future__ import annotations

from functools import singledispatch

from sqlstream.planner import firing
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.window_text import sql, window_text
from sqlstream.planner.firing import Combinator
from sqlstream.planner.properties import WindowInfo
from sqlstream.planner.windows import (
    CountWindow,
    Cumulate,
    GlobalWindow,
    Hop,
    RowCount,
    RowMeasured,
    Session,
    Tumble,
    Window,
)


def first_result(info: WindowInfo, trigger: firing.Trigger | None, delay_ms: int) -> str:
    """A sentence about windows over rows whose watermark is so much behind; results never come before the end of the
    micro-batch that brings their last row."""
    name = f"Latency floor of {window_text(info.window)}"
    if isinstance(info.window, CountWindow | RowMeasured):
        return f"{name}: {_of_rows(info.window)}."
    if isinstance(info.window, GlobalWindow) and trigger in (firing.AfterWatermark(), firing.AfterProcessingTime()):
        return f"{name}: results come at the end of the input."
    if trigger is not None:
        return f"{name}: its first result comes {trigger.first_firing_text}."
    if info.domain is TimeDomain.PROCESSING:
        return f"{name}: results come when the clock passes the end of the window{_longest(info.window, 0)}."
    after = f"{readable(delay_ms)} after the end of the window" if delay_ms else "at the end of the window"
    return f"{name}: results come {after} in event time{_longest(info.window, delay_ms)}."


def _of_rows(window: CountWindow | RowMeasured) -> str:
    match window:
        case RowMeasured(slide=int() as slide):
            return f"results come every {readable(slide)}"
        case RowMeasured(slide=RowCount(count=count)):
            return f"results come with every {_ordinal(count)} row of a key"
        case CountWindow(full_only=True):
            return f"results come with the {_ordinal(window.size)} row of a key and every {window.slide} rows then"
        case CountWindow():
            return f"results come with every {_ordinal(window.slide)} row of a key"
    raise TypeError(type(window).__name__)


def _longest(window: Window, delay: int) -> str:
    match window:
        case Tumble(size_ms=length) | Cumulate(step_ms=length) | Hop(slide_ms=length):
            return f", so a row waits up to {readable(length + delay)} for its first result"
        case Session(gap_ms=int() as gap):
            return f", so a row waits at least {readable(gap + delay)}"
    return ""


def _ordinal(count: int) -> str:
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"
