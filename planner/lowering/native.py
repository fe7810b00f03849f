"""What windows on Spark's own operators cannot do: which clause of the query needs the columnar gear."""

from __future__ import annotations

from sqlstream.errors import UnsupportedError
from sqlstream.planner.firing import DEFAULT_FIRING, AfterProcessingTime, AfterWatermark
from sqlstream.planner.nodes import (
    AssignWindows,
    CountWindow,
    Cumulate,
    GlobalWindow,
    Hop,
    RowMeasured,
    Session,
    Tumble,
    UserWindow,
    Window,
    WindowAggregate,
)

ONLY_COLUMNAR = "SS390"

_WINDOWS: dict[type[Window], str] = {
    CountWindow: "COUNT WINDOW",
    RowMeasured: "a window that mixes rows and time",
    GlobalWindow: "GLOBAL WINDOW",
    UserWindow: "WINDOW USING",
}


def require_native(node: AssignWindows | WindowAggregate) -> None:
    """UnsupportedError SS390 that names the first clause that Spark's own operators cannot run."""
    clause = _window(node.window) or (_clause(node) if isinstance(node, WindowAggregate) else None)
    if clause is not None:
        message = f"{clause} is not executed on Spark's native operators"
        raise UnsupportedError(ONLY_COLUMNAR, message, hint="SET 'sqlstream.gear' = 'auto'.")


def _window(window: Window | None) -> str | None:
    match window:
        case Tumble() | Hop() | Cumulate():
            return "a window on the clock of a time zone" if window.zone is not None else None
        case None | Session(gap_ms=int(), max_duration_ms=None, start_when=None, end_when=None):
            return None
        case Session():
            return "SESSION with a gap per row, MAX_DURATION, START_WHEN or END_WHEN"
    return _WINDOWS[type(window)]


def _clause(node: WindowAggregate) -> str | None:
    firing = node.firing
    if firing.eviction is not None:
        return "EVICT"
    if firing.late != DEFAULT_FIRING.late:
        return "LATE DATA"
    by_default = firing.trigger in (None, AfterWatermark(), AfterProcessingTime())
    if not by_default or firing.accumulation is not DEFAULT_FIRING.accumulation:
        return "TRIGGER or EMIT"
    return "window_pane()" if node.pane is not None or node.pane_index is not None else None
