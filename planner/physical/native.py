"""What windows on Spark's own operators cannot do: which clause of the query needs the columnar gear."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import NoReturn

from sqlstream.errors import UnsupportedError
from sqlstream.planner.bad_rows import OnError
from sqlstream.planner.firing import DEFAULT_FIRING, AfterProcessingTime, AfterWatermark
from sqlstream.planner.nodes import (
    AlignBarriers,
    AssignWindows,
    CountWindow,
    Cumulate,
    GlobalWindow,
    Hop,
    Lookup,
    Node,
    ProcessTable,
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


def require_native(node: Node) -> None:
    """UnsupportedError SS390 that names the first clause of an operator with state that Spark's own cannot run."""
    clause = only_columnar(node)
    if clause is not None:
        _refuse(clause)


def require_passage(what: str, on_error: OnError, stateful_above: Sequence[Node]) -> None:
    """UnsupportedError SS390 where one of Spark's own operators with state would keep dead letters."""
    if on_error.table is not None and stateful_above:
        _refuse(f"{what} below a window")


def require_failed_rows_pass(node: Lookup, stateful_above: Sequence[Node]) -> None:
    """UnsupportedError SS390 where one of Spark's own operators with state would keep rows whose lookup failed."""
    if node.failed is not None and stateful_above:
        _refuse("ON ERROR TO below a window")


def _refuse(what: str) -> NoReturn:
    verb = "are" if what.startswith("dead letters") else "is"
    message = f"{what} {verb} not executed on Spark's native operators"
    raise UnsupportedError(ONLY_COLUMNAR, message, hint="SET 'sqlstream.gear' = 'auto'.")


@singledispatch
def only_columnar(node: Node) -> str | None:
    """The clause of an operator with state that needs the columnar gear; None where Spark's own operators do."""
    return type(node).__name__.upper()


@only_columnar.register
def _(node: AlignBarriers) -> str | None:
    return "ALIGN BARRIERS"


@only_columnar.register
def _(node: Lookup) -> str | None:
    return "ON TIMEOUT DEFER"


@only_columnar.register
def _(node: ProcessTable) -> str | None:
    return "a process function with PARTITION BY"


@only_columnar.register(AssignWindows)
@only_columnar.register(WindowAggregate)
def _(node: AssignWindows | WindowAggregate) -> str | None:
    return _window(node.window) or (_clause(node) if isinstance(node, WindowAggregate) else None)


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
