"""Windows over rows that come and go: which take them, and why others do not."""

from __future__ import annotations

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.changes import prefers_inserts, takes_changes, why_inserts_only
from sqlstream.planner.firing import LateAction
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.window_kernels import is_cut
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.properties import changelog_mode, keeps_state
from sqlstream.planner.windows import CountWindow, RowMeasured, Session, UserWindow


@takes_changes.register(AssignWindows)
@takes_changes.register(WindowAggregate)
def _(node: AssignWindows | WindowAggregate, port: int = 0) -> frozenset[RowKind]:
    """Windows that take rows back: those whose bounds do not depend on which rows are there."""
    return ALL_KINDS if why_inserts_only(node) is None else APPEND_ONLY


@changelog_mode.register
def _(node: AssignWindows) -> frozenset[RowKind]:
    """Rows that come out when their window closes are those that are there by then."""
    return APPEND_ONLY if keeps_state(node) else changelog_mode(node.input)


@prefers_inserts.register(AssignWindows)
@prefers_inserts.register(WindowAggregate)
def _(node: AssignWindows | WindowAggregate) -> bool:
    return keeps_state(node)


@why_inserts_only.register
def _(node: AssignWindows) -> str | None:
    return _reason(node) if keeps_state(node) else None


@why_inserts_only.register
def _(node: WindowAggregate) -> str | None:
    firing = node.firing
    if firing.eviction is not None:
        return "EVICT looks at rows one by one"
    if firing.late.action is LateAction.TO:
        return "the table of late rows would not tell which came and which went"
    if node.shows_rows_to_classes:
        return "Python classes see inserted rows"
    return _reason(node)


def _reason(node: AssignWindows | WindowAggregate) -> str | None:
    match node.window:
        case CountWindow() | RowMeasured():
            return "which rows a window holds would change with each row that goes"
        case Session() as session if is_cut(session):
            return "where a session is cut would change with rows that go"
        case UserWindow():
            return "Python classes see inserted rows"
    if node.domain is TimeDomain.PROCESSING:
        return "a row does not go in the window of processing time in which it came"
    return None
