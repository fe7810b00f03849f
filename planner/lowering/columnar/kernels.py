"""Which kernel runs a window, and the kernel itself from what the plan says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from sqlstream.errors import UnsupportedError
from sqlstream.planner.firing import Accumulation, AfterProcessingTime, AfterWatermark, Firing, LateAction
from sqlstream.planner.lowering.columnar.assigners import assigner_of
from sqlstream.planner.lowering.columnar.inputs import Inputs
from sqlstream.planner.lowering.columnar.triggers import default_trigger, domain_of, evictor_of, trigger_of
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows, WindowKernelKind
from sqlstream.planner.windows import CountWindow, GlobalWindow, RowCount, RowMeasured, Session
from sqlstream.udfs import assigners
from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners import Assigner
from sqlstream.udfs.evictors import Evictor
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.kernel import Domain, Kernel
from sqlstream.udfs.triggers import Purging, Trigger
from sqlstream.udfs.windows.aligned import AlignedWindows
from sqlstream.udfs.windows.counted import CountWindows
from sqlstream.udfs.windows.cut_sessions import CutSessionKernel
from sqlstream.udfs.windows.emission import Lateness, LateRows
from sqlstream.udfs.windows.operator import WindowKernel
from sqlstream.udfs.windows.ranges import AllRows
from sqlstream.udfs.windows.row_measured import EveryRows, LastRows, RowMeasuredKernel
from sqlstream.udfs.windows.session_kernel import SessionKernel


@dataclass(frozen=True)
class Design:
    """The parts of a kernel, which name columns of its input. ``time``: the column of the rows' times."""

    node: AssignWindows | WindowAggregate
    kind: WindowKernelKind
    keys: tuple[str, ...]
    time: str
    assigner: Assigner | None = None
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    lateness: Lateness = field(default_factory=Lateness)
    start_when: str | None = None
    end_when: str | None = None

    @property
    def panes(self) -> bool:
        return isinstance(self.node, WindowAggregate) and (self.node.pane, self.node.pane_index) != (None, None)

    @property
    def retracting(self) -> bool:
        return isinstance(self.node, WindowAggregate) and len(self.node.changelog_mode) > 1


def design_of(node: AssignWindows | WindowAggregate, keys: tuple[str, ...], inputs: Inputs) -> Design:
    """The parts of the node's kernel; what they read becomes columns of ``inputs``."""
    kind, domain = node.kernel_kind, domain_of(node.domain)
    time = inputs.time(node.time) if node.time is not None else CLOCK
    firing = node.firing if isinstance(node, WindowAggregate) else Firing()
    lateness = _lateness(node, firing, inputs)
    if kind in (WindowKernelKind.COUNTED, WindowKernelKind.ROW_MEASURED):
        return Design(node, kind, keys, time, lateness=lateness)
    if kind is WindowKernelKind.CUT_SESSIONS:
        return _cut_sessions_design(node, firing, Design(node, kind, keys, time, lateness=lateness), inputs)
    assigned = Design(node, kind, keys, time, assigner_of(node.window, time, domain, inputs), lateness=lateness)
    if kind is not WindowKernelKind.GENERAL:
        return assigned
    return replace(
        assigned,
        trigger=_trigger(firing, domain, inputs, time),
        evictor=evictor_of(firing.eviction, inputs, time) if firing.eviction is not None else None,
    )


def _cut_sessions_design(
    node: AssignWindows | WindowAggregate, firing: Firing, design: Design, inputs: Inputs
) -> Design:
    session = node.window
    assert isinstance(session, Session)
    if firing.trigger not in (None, AfterWatermark(), AfterProcessingTime()) or firing.eviction or design.panes:
        message = "sessions with MAX_DURATION, START_WHEN or END_WHEN fire once, when they are over"
        raise UnsupportedError("SS396", message, hint="Leave TRIGGER and EVICT out.")
    if firing.accumulation is not Accumulation.ACCUMULATING:
        message = "sessions with MAX_DURATION, START_WHEN or END_WHEN withdraw and drop nothing"
        raise UnsupportedError("SS396", message, hint="Write LATE DATA ALLOW without DISCARDING and RETRACTING.")
    start, end = session.start_when, session.end_when
    return replace(
        design,
        assigner=assigner_of(session, design.time, domain_of(node.domain), inputs),
        start_when=inputs.add(start, "BOOLEAN") if start is not None else None,
        end_when=inputs.add(end, "BOOLEAN") if end is not None else None,
    )


def _trigger(firing: Firing, domain: Domain, inputs: Inputs, time: str) -> Trigger:
    trigger = firing.trigger
    wanted = default_trigger(domain) if trigger is None else trigger_of(trigger, inputs, time)
    return Purging(wanted) if firing.accumulation is Accumulation.DISCARDING else wanted


_ACTIONS = {LateAction.DROP: LateRows.DROP, LateAction.TO: LateRows.EMIT, LateAction.FAIL: LateRows.FAIL}


def _lateness(node: AssignWindows | WindowAggregate, firing: Firing, inputs: Inputs) -> Lateness:
    late = firing.late
    fields = node.late_fields if isinstance(node, WindowAggregate) and late.action is LateAction.TO else ()
    columns = tuple(inputs.field(f.name, f"__late_{i}") for i, f in enumerate(fields))
    return Lateness(late.allow_ms * 1000, _ACTIONS[late.action], columns)


# --- kernels --------------------------------------------------------------------------------------------------


def kernel_of(design: Design, function: Aggregates | AllRows, schema: pa.Schema) -> Kernel:
    """``schema``: the columns of the rows."""
    match design.kind:
        case WindowKernelKind.PANES:
            return _panes(design, function)
        case WindowKernelKind.COUNTED:
            return _counted(design, function, schema)
        case WindowKernelKind.ROW_MEASURED:
            return _row_measured(design, function, schema)
        case WindowKernelKind.SESSIONS:
            assert isinstance(design.assigner, assigners.Session)
            assert isinstance(function, Aggregates), "sessions hold aggregates"
            return SessionKernel(schema, design.keys, design.assigner, function, design.lateness)
        case WindowKernelKind.CUT_SESSIONS:
            return _cut_sessions(design, function, schema)
    assert design.assigner is not None, "windows are assigned"
    assert design.trigger is not None, "windows fire"
    return WindowKernel(
        schema,
        design.keys,
        design.assigner,
        design.trigger,
        function,
        design.evictor,
        design.lateness,
        design.time if isinstance(design.node.window, GlobalWindow) else None,
        retracting=design.retracting,
        panes=design.panes,
        row_kinds=design.retracting,
    )


def _panes(design: Design, function: Aggregates | AllRows) -> Kernel:
    assert isinstance(function, Aggregates), "panes hold aggregates"
    assert isinstance(design.assigner, (assigners.Tumble, assigners.Hop, assigners.Cumulate))
    late = design.lateness
    columns = late.columns if late.action is LateRows.EMIT else None
    return AlignedWindows(design.keys, design.assigner, function, columns, late.action is LateRows.FAIL)


def _counted(design: Design, function: Aggregates | AllRows, schema: pa.Schema) -> Kernel:
    window = design.node.window
    assert isinstance(window, CountWindow)
    return CountWindows(schema, design.keys, design.time, window.size, window.slide, function, window.full_only)


def _row_measured(design: Design, function: Aggregates | AllRows, schema: pa.Schema) -> Kernel:
    window = design.node.window
    assert isinstance(window, RowMeasured)
    domain = domain_of(design.node.domain)
    return RowMeasuredKernel(schema, design.keys, design.time, _measure(window), function, domain, design.lateness)


def _cut_sessions(design: Design, function: Aggregates | AllRows, schema: pa.Schema) -> Kernel:
    session = design.node.window
    assert isinstance(session, Session)
    assert isinstance(design.assigner, assigners.Session)
    longest = session.max_duration_ms * 1000 if session.max_duration_ms is not None else None
    return CutSessionKernel(
        schema, design.keys, design.assigner, function, longest, design.start_when, design.end_when, design.lateness
    )


def _measure(window: RowMeasured) -> EveryRows | LastRows:
    match window.size, window.slide:
        case int(size), RowCount(count=slide):
            return EveryRows(slide, size * 1000)
        case RowCount(count=size), int(slide):
            return LastRows(size, slide * 1000, window.offset_ms * 1000)
    raise TypeError(f"{window!r} has one measure in rows and one in time")
