"""The kernel of a window from what the plan says: its assigner, trigger, evictor and lateness, and users' classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.planner import firing
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import Schema
from sqlstream.planner.firing import Accumulation, AfterProcessingTime, AfterWatermark, Firing, LateAction, PythonCall
from sqlstream.planner.lowering.columnar.inputs import END, START, Inputs
from sqlstream.planner.lowering.context import Context
from sqlstream.planner.lowering.functions import ship
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows, WindowKernelKind
from sqlstream.planner.windows import (
    CountWindow,
    Cumulate,
    GlobalWindow,
    Hop,
    RowCount,
    RowMeasured,
    Session,
    Tumble,
    UserWindow,
    Window,
)
from sqlstream.udfs import assigners, evictors, triggers
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
from sqlstream.udfs.windows.sessions import SessionKernel

# --- users' Python classes: assigners, triggers and evictors with their constant arguments --------------------


@dataclass(frozen=True)
class UserClass:
    """A user's Python class, such as a trigger. ``columns`` are the input columns that the class sees as attributes of
    rows, by their names in the query.
    """

    name: str
    implementation: Any
    arguments: tuple[object, ...]
    columns: tuple[str, ...]


def user_class(call: PythonCall, rows: Schema, inputs: Inputs) -> UserClass:
    """Returns the Python class that ``call`` names. The columns of ``rows`` that its instances see are added to
    ``inputs``.
    """
    context = inputs.context
    function = context.runtime.function(call.function)
    assert function is not None, f'the binder has seen "{call.function}"'
    implementation = context.runtime.implementation(function)
    ship(implementation)
    columns = tuple(inputs.field(f.name, f.name) for f in rows)
    return UserClass(function.name, implementation, values_of(call.arguments, context), columns)


def values_of(constants: Sequence[exp.Expression], context: Context) -> tuple[object, ...]:
    """Evaluates constant arguments in Spark, and returns them as Python objects."""
    if not constants:
        return ()
    texts = ", ".join(f"{context.sql(a)} AS a{i}" for i, a in enumerate(constants))
    (row,) = context.runtime.spark.sql(f"SELECT {texts}").collect()
    return tuple(row)


# --- assigners ------------------------------------------------------------------------------------------------


def assigner_of(window: Window | None, time: str | None, domain: Domain, inputs: Inputs) -> assigners.Assigner:
    """Returns the kernel's assigner for a window, and adds the columns that it reads to ``inputs``.

    ``window`` None: an upstream operator has assigned windows, and START and END have their bounds. ``time`` is the
    column with the rows' times.
    """
    match window:
        case None:
            return assigners.GivenWindows(START, END, domain)
        case Tumble():
            return assigners.Tumble(time, _us(window.size_ms), _us(window.offset_ms), window.zone, domain)
        case Hop():
            slide, size = _us(window.slide_ms), _us(window.size_ms)
            return assigners.Hop(time, slide, size, _us(window.offset_ms), window.zone, domain)
        case Cumulate():
            step, size = _us(window.step_ms), _us(window.size_ms)
            return assigners.Cumulate(time, step, size, _us(window.offset_ms), window.zone, domain)
        case Session():
            return assigners.Session(time, _gap(window.gap_ms, inputs), domain)
        case GlobalWindow():
            return assigners.Global(domain)
        case UserWindow(call=call):
            user = user_class(call, inputs.rows, inputs)
            return assigners.User(user.name, user.implementation, user.arguments, user.columns, time, domain)
    raise UnsupportedError("SS396", f"windows of the kind {type(window).__name__} are not executed")


def _us(ms: int) -> int:
    return ms * 1000


def _gap(gap: int | exp.Expression, inputs: Inputs) -> int | str:
    if isinstance(gap, int):
        return _us(gap)
    return inputs.add(exp.Mul(this=exp.Paren(this=gap.copy()), expression=exp.Literal.number(1000)), "BIGINT")


# --- triggers and evictors ------------------------------------------------------------------------------------


def domain_of(domain: TimeDomain) -> Domain:
    """The kernel's ``Domain`` for a time domain of the planner."""
    return Domain.PROCESSING if domain is TimeDomain.PROCESSING else Domain.EVENT


def default_trigger(domain: Domain) -> triggers.Trigger:
    """The trigger of a window without a TRIGGER clause: it fires once, when the window closes."""
    return triggers.AfterProcessingTime() if domain is Domain.PROCESSING else triggers.AfterWatermark()


def trigger_of(trigger: firing.Trigger, inputs: Inputs, time: str) -> triggers.Trigger:
    """Returns the kernel's trigger for a TRIGGER clause, and adds the columns that it reads to ``inputs``. ``time`` is
    the column with the rows' event times in microseconds.
    """
    match trigger:
        case firing.AfterWatermark(early=early, late=late):
            return triggers.AfterWatermark(
                triggers.Never() if early is None else _pulse(early, inputs, time),
                triggers.AtOnce() if late is None else _pulse(late, inputs, time),
            )
        case firing.Purging(inner=inner):
            return triggers.Purging(trigger_of(inner, inputs, time))
        case firing.Combined(combinator=combinator, left=left, right=right):
            return _COMBINED[combinator](trigger_of(left, inputs, time), trigger_of(right, inputs, time))
    return _simple(trigger, inputs, time)


_COMBINED: dict[firing.Combinator, Callable[[triggers.Trigger, triggers.Trigger], triggers.Trigger]] = {
    firing.Combinator.OR: triggers.Or,
    firing.Combinator.AND: triggers.And,
    firing.Combinator.THEN: triggers.Then,
}


def _simple(trigger: firing.Trigger, inputs: Inputs, time: str) -> triggers.Trigger:
    match trigger:
        case firing.EveryRows(count=count):
            return triggers.EveryRows(count)
        case firing.EveryInterval(interval_ms=interval, domain=domain):
            return triggers.EveryInterval(interval * 1000, domain_of(domain), time)
        case firing.When(condition=condition):
            return triggers.When(inputs.add(condition, "BOOLEAN"))
        case firing.Delta(value=value, threshold=threshold, absolute=absolute):
            return triggers.Delta(inputs.add(value, "DOUBLE"), inputs.add(threshold, "DOUBLE"), absolute)
        case firing.AfterSilence(interval_ms=interval):
            return triggers.AfterDelay(interval * 1000, renewed=True)
        case firing.UserTrigger(call=call):
            user = user_class(call, inputs.rows, inputs)
            return triggers.User(user.name, user.implementation, user.arguments, user.columns, time)
    if type(trigger) in _PLAIN:
        return _PLAIN[type(trigger)]
    raise UnsupportedError("SS396", f"the trigger {type(trigger).__name__} is not executed")


_PLAIN: dict[type[firing.Trigger], triggers.Trigger] = {
    firing.AfterProcessingTime: triggers.AfterProcessingTime(),
    firing.Never: triggers.Never(),
    firing.OnBarrier: triggers.OnBarrier(),
    firing.EachBatch: triggers.EachBatch(),
}


def _pulse(pulse: firing.Pulse, inputs: Inputs, time: str) -> triggers.Trigger:
    """EARLY and LATE: an interval of processing time runs from the first row of the pane."""
    if isinstance(pulse, firing.EveryInterval) and pulse.domain is TimeDomain.PROCESSING:
        return triggers.AfterDelay(pulse.interval_ms * 1000)
    return trigger_of(pulse, inputs, time)


def evictor_of(eviction: firing.Eviction, inputs: Inputs, time: str) -> evictors.Evictor:
    """Returns the kernel's evictor for an EVICT clause, and adds the columns that it reads to ``inputs``. ``time`` is
    the column with the rows' times.
    """
    after = eviction.after
    match eviction.evictor:
        case firing.KeepRows(count=count):
            return evictors.KeepRows(count, after)
        case firing.KeepInterval(interval_ms=interval):
            return evictors.KeepInterval(interval * 1000, time, after)
        case firing.EvictDelta(value=value, threshold=threshold, absolute=absolute):
            value_name, threshold_name = inputs.add(value, "DOUBLE"), inputs.add(threshold, "DOUBLE")
            return evictors.EvictDelta(value_name, threshold_name, absolute, after)
        case firing.UserEvictor(call=call):
            user = user_class(call, inputs.rows, inputs)
            return evictors.User(user.name, user.implementation, user.arguments, user.columns, after)


@dataclass(frozen=True)
class Design:
    """The parts of which a window kernel is built: keys, assigner, trigger, evictor and so on. They name columns of the
    kernel's input; ``time`` is the column with the rows' times.
    """

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
    """Chooses the parts of a node's window kernel, and adds the columns that they read to ``inputs``."""
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
    """Builds the window kernel: a specialized one if there is one for these parts, otherwise the general operator.
    ``function`` says what a window returns: its aggregates, or all its rows. ``schema`` has the columns of the rows.
    """
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
