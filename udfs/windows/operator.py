"""The general window operator: any assigner, trigger, evictor and window function. It has the semantics of Flink's
WindowOperator and EvictingWindowOperator, for all windows of a batch at once.

An instance is a key and one of its windows. Rows count one by one in order of arrival. A window is dropped when the
watermark passes its end plus the allowed lateness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UnsupportedError
from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.assigners import Assigned, Assigner, late_windows
from sqlstream.udfs.evictors import Evictor
from sqlstream.udfs.kernel import (
    BARRIER,
    END_OF_TIME,
    KEY_HASH,
    LATE_ROWS,
    Context,
    Domain,
    Kernel,
    Pending,
    Wait,
    waits,
)
from sqlstream.udfs.keys import Ids, dense_ids
from sqlstream.udfs.state.buckets import TIMER_OF, TIMERS
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.triggers import EachBatch
from sqlstream.udfs.triggers.trigger import LAST_MOMENT, Due, Fires, Run, Trigger, Windows
from sqlstream.udfs.windows.buffered import Buffered
from sqlstream.udfs.windows.emission import (
    EARLY,
    LATE,
    NO_LATENESS,
    ON_TIME,
    Emission,
    Emitted,
    FiringPace,
    Firings,
    Lateness,
    bounds,
    in_order,
)
from sqlstream.udfs.windows.instances import (
    END,
    ROWS,
    START,
    Accumulated,
    Contents,
    Held,
    InstanceLayout,
    Instances,
    Pane,
    Touched,
    joined,
    names_of,
)
from sqlstream.udfs.windows.ranges import AllRows, number, stable_order
from sqlstream.udfs.windows.sessions import merge_rows

# --- configuration, and one call: the loaded instances, their contents, the output ----------------------------


Values = np.ndarray[Any, np.dtype[Any]]

MILLISECOND = 1000


NOT_MERGEABLE = "SS397"


@dataclass(frozen=True)
class WindowOperator(Kernel):
    """The configuration of the general window operator: windows of ``assigner`` over rows with the columns of
    ``input``, whose results are emitted when ``trigger`` fires.

    ``keys``: the key columns, which are emitted first. ``time``: for windows without bounds (GLOBAL), the column of
    event times that bounds their results. ``retracting``: a result retracts the previous one of the window.
    ``row_kinds``: output rows have ROW_KIND; required for ``retracting``. ``panes``: the kind and the number of the
    firing are emitted too, as ``__pane`` and ``__pane_index``. Windows that a firing empties (DISCARDING) have the
    trigger ``Purging(trigger)``.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    assigner: Assigner
    trigger: Trigger
    function: Aggregates | AllRows
    evictor: Evictor | None = None
    lateness: Lateness = NO_LATENESS
    time: str | None = None
    retracting: bool = False
    panes: bool = False
    row_kinds: bool = False

    def __post_init__(self) -> None:
        assert self.row_kinds or not self.retracting, "retractions have row kinds"
        assert not (self.retracting and isinstance(self.function, AllRows)), "rows as they are are not retracted"
        if self.assigner.merging and not self.trigger.mergeable:
            message = "the trigger has no on_merge, but windows merge"
            raise UnsupportedError(NOT_MERGEABLE, message, hint="Write on_merge, if only to return CONTINUE.")

    @property
    def output(self) -> pa.Schema:
        return self.emission.output

    @property
    def late_output(self) -> pa.Schema | None:
        return self.lateness.output(self.input)

    @property
    def uses_processing_time(self) -> bool:
        return self.assigner.domain is Domain.PROCESSING or self.trigger.uses_processing_time

    @cached_property
    def contents(self) -> Contents:
        """How the contents of windows are stored: as accumulators or as rows."""
        if isinstance(self.function, Aggregates) and self.evictor is None:
            merging = self.assigner.merging
            return Accumulated(self.function.for_merging_windows() if merging else self.function, self.time)
        return Buffered(self.function, self.input, self.keys, self.evictor, self.time, self.assigner.merging)

    @cached_property
    def emission(self) -> Emission:
        """The ``Emission`` that builds the output rows of the operator."""
        keys = names_of(self.input, self.keys)
        return Emission(keys, self.contents.results, self.panes, self.retracting, self.row_kinds)

    @cached_property
    def layout(self) -> InstanceLayout:
        """The columns of stored window instances."""
        keys = names_of(self.input, [KEY_HASH, *self.keys])
        return InstanceLayout(keys, self.trigger, self.contents.held, self.emission.last)


@dataclass
class WindowCall:
    """The work of one call of the general window operator: its state, clocks and results so far."""

    kernel: WindowOperator
    context: Context
    state: KeyedState
    held: Held
    emitted: list[Emitted] = field(default_factory=list)

    @staticmethod
    def of(kernel: WindowOperator, context: Context) -> WindowCall:
        """The ``WindowCall`` for a call of ``kernel``."""
        state = KeyedState(context.store, "windows", kernel.layout.schema)
        return WindowCall(kernel, context, state, kernel.contents.open(context))

    def on_time(self, domain: Domain, time: int) -> None:
        """Fires the timers of the clock ``domain`` up to ``time``, in microseconds."""
        loaded = self.state.due(domain, time).combine_chunks()
        timers = loaded.column(TIMERS[TIMER_OF[domain]]).to_numpy()
        due = np.flatnonzero((timers <= time) & (timers != END_OF_TIME))
        is_due = np.zeros(loaded.num_rows, bool)
        is_due[due] = True
        self.finish(Touched(self.kernel.layout.decode(loaded.take(due)), due, is_due), loaded, domain)

    def on_barrier(self) -> None:
        """Lets the triggers decide, for the windows of all keys, whether to fire at an aligned barrier."""
        loaded = self.state.load_all().combine_chunks()
        count = loaded.num_rows
        touched = Touched(self.kernel.layout.decode(loaded), np.arange(count), np.ones(count, bool))
        instances = touched.instances
        due = Due(None, np.zeros(count, np.int64), 0, self.windows(instances))
        self._fire_timers(instances, np.arange(count), due, instances.trigger.at(np.arange(count)))
        self.finish(touched, loaded)

    def finish(self, touched: Touched, loaded: pa.Table, advanced: Domain = Domain.PROCESSING) -> None:
        """Fires the windows that are due, writes the state and emits all results of the call. ``touched``: the
        instances on which the call works. ``loaded``: the table of all stored instances that were loaded. ``advanced``:
        the clock that advanced.

        As in Flink, an event-time timer before the watermark fires when the watermark advances next, a processing-time
        timer before the clock fires at once.
        """
        clocks = {Domain.EVENT: self.context.watermark, Domain.PROCESSING: self.context.processing_time}
        for domain in dict.fromkeys((advanced, Domain.PROCESSING)):
            alive = self._fire_due(touched.instances, domain, clocks[domain])
            if not alive.all():
                touched = Touched(touched.instances.at(alive), touched.stored_row[alive], touched.is_replaced)
        self._write(touched, loaded)
        rows = in_order(self.emitted)
        if rows is not None:
            self.context.emit(rows)

    # --- rows -------------------------------------------------------------------------------------------------

    def windows(self, instances: Instances) -> Windows:
        """The ``Windows`` of these instances: their bounds, and the clocks of this call."""
        return instances.windows(self.context.watermark, self.context.processing_time, self.kernel.assigner.domain)

    def add_rows(self, rows: pa.Table, assigned: Assigned, loaded: pa.Table) -> Touched:
        """Adds the rows of a batch to their windows, which do not merge, and collects the results that they fire.
        ``assigned``: the pairs of a row and a window that contains it. ``loaded``: the table of the stored instances of
        the rows' keys. Returns the instances to which rows were added.
        """
        assigned = self._in_time(rows, assigned)
        touched, owner = self._instances(rows, assigned, loaded)
        order = stable_order(owner, touched.instances.count)
        ends = np.cumsum(np.bincount(owner, minlength=touched.instances.count))
        starts = ends - np.diff(ends, prepend=0)
        run = Run(rows, assigned.row[order], starts, ends, self.windows(touched.instances))
        self.fire_rows(touched.instances, run, order, is_last=_last_of_rows(assigned)[order])
        return touched

    def _in_time(self, rows: pa.Table, assigned: Assigned) -> Assigned:
        """The pairs of a row and a window that has not expired. Rows without such a window are reported as late."""
        late = np.zeros(len(assigned.row), bool)
        if self.kernel.assigner.domain is Domain.EVENT:
            late = late_windows(assigned.end, self.context.watermark, self.kernel.lateness.allowed)
        if not late.any() and np.array_equal(assigned.row, np.arange(rows.num_rows)):
            return assigned
        is_assigned = np.zeros(rows.num_rows, bool)
        is_assigned[assigned.row[~late]] = True
        if not is_assigned.all():
            self._report_late(rows, assigned, is_assigned)
        return Assigned(*(column[~late] for column in assigned)) if late.any() else assigned

    def _report_late(self, rows: pa.Table, assigned: Assigned, is_assigned: Values) -> None:
        last = np.full(rows.num_rows, -1)
        last[assigned.row] = np.arange(len(assigned.row))
        windowless = int((last < 0).sum())
        if windowless:
            self.context.count(LATE_ROWS, windowless)
        late = np.flatnonzero(~is_assigned & (last >= 0))
        pair = last[late]
        self.kernel.lateness.report(rows.take(late), assigned.start[pair], assigned.end[pair], self.context)

    def _instances(self, rows: pa.Table, assigned: Assigned, loaded: pa.Table) -> tuple[Touched, Values]:
        """The instances of all pairs, those in the state first, and the number of the instance of each pair."""
        names = list(self.kernel.keys)
        count = loaded.num_rows
        keys = dense_ids(joined(loaded.select(names), rows.select(names)), names)
        windows = _window_ids(loaded, assigned)
        key = np.concatenate([keys.ids[:count], keys.ids[count:][assigned.row]])
        ids = number(key * windows.count + windows.ids, keys.count * windows.count)
        used = np.zeros(ids.count, bool)
        used[ids.ids[count:]] = True
        stored, first = np.flatnonzero(used[:count]), ids.first[count:] - count
        of_new = rows.select([KEY_HASH, *names]).take(assigned.row[first])
        held = self.kernel.contents.fresh(len(first))
        fresh = self.kernel.layout.fresh(of_new, assigned.start[first], assigned.end[first], held)
        instances = self.kernel.layout.decode(loaded.take(stored)).followed_by(fresh)
        stored_row = np.concatenate([stored, np.full(len(first), -1)])
        return Touched(instances, stored_row, used[:count]), (np.cumsum(used) - 1)[ids.ids[count:]]

    def fire_rows(
        self,
        instances: Instances,
        run: Run,
        arrival: Values,
        hull: Callable[[], tuple[Values, Values]] | None = None,
        is_last: Values | None = None,
    ) -> None:
        """Lets the triggers process each row of ``run``, adds the rows to the contents of their windows, and collects
        the results of windows that fire.

        The other arguments have one value per position of the run, which is a row in one of its windows. ``arrival``:
        the order of a firing at this row in the output. ``hull``: computes the starts and the ends of windows that grow
        (sessions), as they are once the row was added; None for other windows. ``is_last``: true if the window is the
        last one of the row; None if each row has one window.
        """
        fires = self.kernel.trigger.fires(instances.trigger, run)
        instances.rows = _rows_after(instances.rows, run, fires, is_last)
        pane = self.held.on_rows(instances, run, fires).without(fires.silent)
        if len(fires.position) == 0:
            return
        instance = np.searchsorted(run.starts, fires.position, side="right") - 1
        kinds = np.where(run.windows.closed[instance], LATE, EARLY)
        bounds = (instances.start[instance], instances.end[instance])
        if hull is not None:
            start, end = hull()
            bounds = (start[fires.position], end[fires.position])
        self._emit(instances, instance, arrival[fires.position], kinds, bounds, pane)

    def fire_each(self, instances: Instances, when: int) -> None:
        """Fires every instance that got rows (EMIT CHANGES). ``when``: the order of the results in the output of the
        call.
        """
        index = np.flatnonzero(instances.filled)
        pane = self.held.on_time(instances, index, np.zeros(len(index), bool))
        kinds = np.where(self.windows(instances).closed[index], LATE, EARLY)
        bounds = (instances.start[index], instances.end[index])
        self._emit(instances, index, np.full(len(index), when), kinds, bounds, pane)

    # --- time -------------------------------------------------------------------------------------------------

    def _fire_due(self, instances: Instances, domain: Domain, now: int) -> Values:
        """Fires the timers up to ``now``, the earliest of each instance first. True for the instances that remain."""
        alive = np.ones(instances.count, bool)
        # The order in which sessions are stored depends on the cuts between micro-batches.
        active = np.argsort(instances.start, kind="stable") if self.kernel.assigner.merging else np.arange(len(alive))
        pace = FiringPace()
        while len(active):
            windows = self.windows(instances).at(active)
            state = instances.trigger.at(active)
            over = self._over(windows, domain)
            timer = np.minimum(self.kernel.trigger.timer(state, domain, windows), over)
            due = (timer <= now) & (timer != END_OF_TIME)
            active, timer, over = active[due], timer[due], over[due]
            pace.fires(timer, np.minimum(over, now))
            self._fire_timers(instances, active, Due(domain, timer, now, windows.at(due)), state.at(due))
            alive[active[timer >= over]] = False
            active = active[timer < over]
        gone = np.flatnonzero(~alive)
        if len(gone):
            self.kernel.trigger.clear(instances.trigger.at(gone), self.windows(instances).at(gone))
            self.held.drop(instances, gone)
        return alive

    def _fire_timers(self, instances: Instances, active: Values, due: Due, state: Any) -> None:
        if len(active) == 0:
            return
        answer = self.kernel.trigger.on_time(state, due)
        instances.trigger.put(active, state)
        instances.rows[active[answer.purges]] = 0
        chosen = np.flatnonzero((answer.fires | answer.purges) & instances.filled[active])
        index = active[chosen]
        if len(index) == 0:
            return
        pane = self.held.on_time(instances, index, answer.purges[chosen]).without(~answer.fires[chosen])
        bounds = (instances.start[index], instances.end[index])
        self._emit(instances, index, due.time[chosen], self._kinds(due)[chosen], bounds, pane)

    def _kinds(self, due: Due) -> Values:
        """ON_TIME at the end of the window, EARLY before it, LATE after it."""
        windows = due.windows
        if due.domain is windows.domain:
            return np.where(
                due.time < windows.last_moment, EARLY, np.where(due.time > windows.last_moment, LATE, ON_TIME)
            )
        return np.where(windows.closed, LATE, EARLY)

    def _over(self, windows: Windows, domain: Domain) -> Values:
        """The time of this domain at which windows expire; END_OF_TIME for never."""
        if domain is not windows.domain:
            return np.full(len(windows.end), END_OF_TIME)
        allowed = self.kernel.lateness.allowed if domain is Domain.EVENT else 0
        last = windows.last_moment
        ends = (windows.end != END_OF_TIME) & (last < END_OF_TIME - allowed)
        return np.where(ends, np.where(ends, last, 0) + allowed, END_OF_TIME)

    # --- output -----------------------------------------------------------------------------------------------

    def _emit(
        self,
        instances: Instances,
        index: Values,
        when: Values,
        kinds: Values,
        window_bounds: tuple[Values, Values],
        pane: Pane,
    ) -> None:
        start, end = self._bounds(window_bounds, pane)
        firings = Firings(index, when, start, end, kinds, pane.results, pane.of, pane.gone)
        if not self.kernel.retracting:
            pane, firings = pane.without(pane.gone), firings._replace(gone=None)
        self.emitted.append(self.kernel.emission.emit(instances, _without_empty(firings, pane.empty)))

    def _bounds(self, window_bounds: tuple[Values, Values], pane: Pane) -> tuple[pa.Array, pa.Array]:
        if pane.oldest is not None and pane.newest is not None:
            newest = pc.add(pc.cast(pane.newest, pa.int64()), MILLISECOND)
            return bounds(pc.cast(pane.oldest, pa.int64())), bounds(newest)
        boundless = window_bounds[1] == END_OF_TIME
        if boundless.any():
            none = pa.nulls(len(boundless), bounds(window_bounds[0]).type)
            return none, none
        return bounds(window_bounds[0]), bounds(window_bounds[1])

    # --- state ------------------------------------------------------------------------------------------------

    def _write(self, touched: Touched, loaded: pa.Table) -> None:
        """Writes the instances: loaded ones in place, new ones after them."""
        kept = np.flatnonzero(~touched.is_replaced)
        rows = joined(loaded.take(kept), self.kernel.layout.encode(touched.instances, self._timers(touched.instances)))
        stored_row = np.where(touched.stored_row >= 0, touched.stored_row, loaded.num_rows)
        self.state.replace(rows.take(np.argsort(np.concatenate([kept, stored_row]), kind="stable")))
        self.held.flush()
        next_timers = {domain: self.state.next_timer(domain) for domain in Domain}
        self.state.flush()
        for domain, time in next_timers.items():
            self.context.set_timer(domain, time)

    def _timers(self, instances: Instances) -> dict[Domain, Values]:
        """The timers of the instances. Event-time timers before the watermark are due with the next watermark."""
        windows = self.windows(instances)
        timers = {
            domain: np.minimum(
                self.kernel.trigger.timer(instances.trigger, domain, windows), self._over(windows, domain)
            )
            for domain in Domain
        }
        if self.context.watermark != END_OF_TIME:
            timers[Domain.EVENT] = np.maximum(timers[Domain.EVENT], self.context.watermark + 1)
        return timers


def _last_of_rows(assigned: Assigned) -> Values:
    """True for the pairs of a row and the last of its windows."""
    order = np.lexsort((assigned.end, assigned.row))
    last = np.empty(len(order), bool)
    last[order] = np.append(np.diff(assigned.row[order]) != 0, True)[: len(order)]
    return last


def _rows_after(rows: Values, run: Run, fires: Fires, is_last: Values | None) -> Values:
    """The number of rows of each instance after a run; it restarts where a firing clears the window."""
    emptied = fires.position[fires.purge]
    last = np.full(len(rows), -1)
    np.maximum.at(last, np.searchsorted(run.starts, emptied, side="right") - 1, emptied)
    counts = np.append(0, np.cumsum(np.ones(len(run.row), np.int64) if is_last is None else is_last))
    begin = np.maximum(run.starts, last + 1)
    counts_after: Values = np.where(last < 0, rows, 0) + counts[run.ends] - counts[begin]
    return counts_after


def _without_empty(firings: Firings, empty: Values | None) -> Firings:
    if empty is None or not empty.any():
        return firings
    kept = ~empty
    results, owner = firings.results, firings.of
    if owner is None:
        results = results.filter(pa.array(kept))
    else:
        owner = (np.cumsum(kept) - 1)[owner]
    start, end = (column.filter(pa.array(kept)) for column in (firings.start, firings.end))
    gone = None if firings.gone is None else firings.gone[kept]
    return Firings(firings.instance[kept], firings.when[kept], start, end, firings.pane[kept], results, owner, gone)


def _window_ids(loaded: pa.Table, assigned: Assigned) -> Ids:
    """The numbers of the windows of loaded instances, then of pairs. Windows of one length are identified by their
    starts."""
    start = np.concatenate([loaded.column(START).to_numpy(), assigned.start])
    end = np.concatenate([loaded.column(END).to_numpy(), assigned.end])
    length = end - start
    columns = {START: start} if len(length) and (length == length[0]).all() else {START: start, END: end}
    return dense_ids(pa.table(columns), list(columns))


class WindowKernel(WindowOperator):
    """The kernel of the general window operator, for all windows that no specialized window kernel supports."""

    def on_rows(self, rows: pa.Table, context: Context) -> None:
        """Processes rows. Rows in which only BARRIER is set are aligned barriers, at their positions among the
        others.
        """
        if BARRIER not in rows.column_names:
            self._on_plain_rows(rows, context)
            return
        for index, between in enumerate(between_barriers(rows)):
            if index:
                WindowCall.of(self, context).on_barrier()
            if between.num_rows:
                self._on_plain_rows(between, context)

    def _on_plain_rows(self, rows: pa.Table, context: Context) -> None:
        """Processes rows without barriers."""
        call, rows = WindowCall.of(self, context), rows.combine_chunks()
        loaded = call.state.load(np.unique(rows.column(KEY_HASH).to_numpy())).combine_chunks()
        assigned = self.assigner.assign(rows, context)
        touched: Touched
        if self.assigner.merging:
            touched = merge_rows(call, rows, assigned, loaded)
        else:
            touched = call.add_rows(rows, assigned, loaded)
        if isinstance(self.trigger, EachBatch):
            call.fire_each(touched.instances, len(assigned.row))
        call.finish(touched, loaded)

    def waits(self, context: Context) -> Iterator[Wait]:
        """Yields, for monitoring, ``Wait``s that count the stored rows in windows that have not closed. Windows without
        an end count if the trigger has set a timer for them.
        """
        instances = KeyedState(context.store, "windows", self.layout.schema).load_all()
        rows, end = (instances.column(name).to_numpy() for name in (ROWS, END))
        timers = {domain: instances.column(TIMERS[TIMER_OF[domain]]).to_numpy() for domain in Domain}
        own, now = self.assigner.domain, {Domain.EVENT: context.watermark, Domain.PROCESSING: context.processing_time}
        close = np.where(end == END_OF_TIME, timers[own], end - LAST_MOMENT)
        close[close <= now[own]] = END_OF_TIME  # closed, and stored for late rows
        yield from waits(Pending.ROWS_IN_WINDOWS, own, close, rows)
        other = next(domain for domain in Domain if domain is not own)
        endless = np.where((end == END_OF_TIME) & (close == END_OF_TIME), timers[other], END_OF_TIME)
        yield from waits(Pending.ROWS_IN_WINDOWS, other, endless, rows)

    def on_event_time(self, watermark: int, context: Context) -> None:
        WindowCall.of(self, context).on_time(Domain.EVENT, watermark)

    def on_processing_time(self, time: int, context: Context) -> None:
        WindowCall.of(self, context).on_time(Domain.PROCESSING, time)


# --- rows between barriers ------------------------------------------------------------------------------------


def between_barriers(rows: pa.Table) -> Iterator[pa.Table]:
    """Divides rows at aligned barriers, which are rows with BARRIER. Returns one table of rows before the first
    barrier, one between it and the second, and so on, and one after the last; tables may be empty.
    """
    barriers = np.flatnonzero(np.asarray(rows.column(BARRIER).is_valid())).tolist()
    plain = rows.drop_columns([BARRIER])
    for start, stop in zip([0, *(barrier + 1 for barrier in barriers)], [*barriers, rows.num_rows], strict=True):
        yield plain.slice(start, stop - start)
