"""Kernels whose rows wait: lookups with state, and ALIGN BARRIERS.

Lookups with state send their requests as all lookups do; a kernel above the requests stores rows:

* ON TIMEOUT DEFER: rows whose time is up wait for their answers. They hold the watermark for operators above, and rows
  after them wait where the order of rows requires it.
* Rows that may be retracted are stored with their answers; their retraction sends no request.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.columnar.inputs import came_at, clock_of, passed_on, row_kind, with_key_hash
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.context import Context, Lowerings
from sqlstream.planner.lowering.hidden_columns import column, hidden, hidden_clock, passes_by, quoted
from sqlstream.planner.lowering.lookups import NumberedLookup, asked, joined, require_array_functions, step_of
from sqlstream.planner.node import Node
from sqlstream.planner.operators.barriers import AlignBarriers
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.barriers.alignment import MarkKind
from sqlstream.udfs.barriers.kernel import ALIGNED, CHANNEL, ID, KIND, Barriers
from sqlstream.udfs.changes.stored_results import StoredResults
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND, Kernel
from sqlstream.udfs.lookup.deferred import DeferredLookups, RetractableLookups
from sqlstream.udfs.state.time_to_live import TimeToLive

_HELD = "__held"
_CAME = "__came"


def run_lookup(node: Lookup, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of a lookup with state, which stores rows that wait for an answer, or answers for later
    retractions.
    """
    assert step.lookup is not None, step
    lookup = NumberedLookup(step.lookup, node)
    require_array_functions(node, context)
    rows = asked(context.lower(step.input), (lookup,), context, with_keys=node.options.defers)
    hashed = tuple(_fields(node, node.answer_key)) if node.remembers_answers else lookup.keys
    projected = with_key_hash(_lookup_input(rows, lookup, context), hashed)
    kernel = _kernel(lookup, kernel_schema(projected), context)
    output = spark_schema(kernel.output, projected.schema)
    emitted = run(projected, running(step, context.plan, kernel, output), context.runtime)
    return joined(_lookup_output(emitted, lookup), (lookup,), context)


def _kernel(lookup: NumberedLookup, rows: pa.Schema, context: Context) -> Kernel:
    stored_results = _stored_results(lookup, rows) if lookup.node.remembers_answers else None
    if lookup.node.options.defers:
        return DeferredLookups(step_of(lookup, context), rows, _HELD, stored_results)
    assert stored_results is not None, lookup
    return RetractableLookups(stored_results)


def _stored_results(lookup: NumberedLookup, rows: pa.Schema) -> StoredResults:
    node = lookup.node
    kept = (KEY_HASH, *_fields(node), *_answered(lookup), ROW_KIND)
    columns = pa.schema([rows.field(name) for name in kept])
    return StoredResults(columns, tuple(_fields(node, node.row_identity)), TimeToLive(1000 * node.ttl_ms), lookup.error)


def _lookup_input(rows: DataFrame, lookup: NumberedLookup, context: Context) -> DataFrame:
    """What the kernel reads, under names that none of its own can be, and the hidden columns for the exchange."""
    node = lookup.node
    fields = [column(name).alias(own) for own, name in _fields(node).items()]
    added = [column(name) for name in _answered(lookup)]
    if node.options.defers:
        assert lookup.deferred is not None, lookup
        added += [*map(column, (*lookup.keys, lookup.deferred)), held_from(node.input).alias(_HELD)]
    if not node.remembers_answers:
        added += [c.alias(_CAME) for c in hidden_clock(rows)]
    else:
        added.append(row_kind())
        # Rows that arrive before the first tick of the clock also have their whole time to live.
        added += [F.expr(came_at(rows, context)).alias(CLOCK)] if node.ttl_ms else []
    return rows.select(*fields, *added, *passed_on(rows))


def _fields(node: Lookup, names: tuple[str, ...] | None = None) -> dict[str, str]:
    """Fields of the input by the kernel's own names for them: these, or all."""
    own = {f"__field_{i}": field.name for i, field in enumerate(node.input.schema)}
    return own if names is None else {name: field for name, field in own.items() if field in names}


def _lookup_output(rows: DataFrame, lookup: NumberedLookup) -> DataFrame:
    """What the kernel emits, under the names of the plan."""
    fields = [column(own).alias(name) for own, name in _fields(lookup.node).items()]
    clock = [column(_CAME).alias(CLOCK)] if _CAME in rows.columns else []
    return rows.select(*fields, *map(column, _answered(lookup)), *clock, *hidden(rows))


def _answered(lookup: NumberedLookup) -> tuple[str, ...]:
    return tuple(name for name in (lookup.answers, lookup.error) if name is not None)


def held_from(node: Node) -> Column:
    """A BIGINT column with the time, in microseconds, that the watermark may not pass while a row waits in state. It is
    the least of the row's event times and the end of its window; NULL if the row has neither.
    """
    times = [f"unix_millis(CAST({quoted(f.name)} AS TIMESTAMP))" for f in node.schema if _is_event_time(f.time)]
    window = node.window_info
    if window is not None and window.end is not None and _is_event_time(window.domain):
        times.append(f"unix_millis(CAST({quoted(window.end)} AS TIMESTAMP)) - 1")
    return F.expr(f"array_min(array({', '.join(times)})) * 1000" if times else "CAST(NULL AS BIGINT)")


def _is_event_time(domain: TimeDomain | None) -> bool:
    return domain not in (None, TimeDomain.PROCESSING)


# --- ALIGN BARRIERS -------------------------------------------------------------------------------------------


_TIME = "__held_time"


def run_align_barriers(node: AlignBarriers, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of ALIGN BARRIERS."""
    projected = with_key_hash(_barrier_input(node, context.lower(step.input), context), ())
    above = step.stateful_above
    kernel = Barriers(
        kernel_schema(projected),
        node.channels,
        exactly_once=not node.at_least_once,
        timeout=None if node.timeout_ms is None else node.timeout_ms * 1000,
        most_held=node.most_held,
        time=_TIME,
        emits_barriers=above is not None and above.fires_on_barriers,
    )
    output = spark_schema(kernel.output, projected.schema)
    return _barrier_output(run(projected, running(step, context.plan, kernel, output), context.runtime), node)


def _barrier_input(node: AlignBarriers, rows: DataFrame, context: Context) -> DataFrame:
    """The columns that the kernel reads, under names that its own columns cannot have, and hidden columns for the
    exchange."""
    fields = [column(f.name).alias(_field(i)) for i, f in enumerate(node.input.schema)]
    came = [c.alias(_CAME) for c in hidden_clock(rows)]
    clock = [F.expr(clock_of(rows)).alias(CLOCK)] if node.timeout_ms is not None else []
    marks = {
        KIND: _kind(node, rows, context),
        CHANNEL: F.expr(f"CAST({context.sql(node.channel, rows)} AS STRING)"),
        ID: F.expr(_number(context.sql(node.id, rows), node.output.type.name)),
    }
    passing = passes_by(rows)
    if passing is not None:
        marks = {name: F.when(~passing, value) for name, value in marks.items()}
    own = [value.alias(name) for name, value in marks.items()]
    return rows.select(*fields, *came, *clock, *own, held_from(node.input).alias(_TIME), *passed_on(rows))


def _kind(node: AlignBarriers, rows: DataFrame, context: Context) -> Column:
    conditions = ((node.marker, MarkKind.MARKER), (node.cancel_when, MarkKind.CANCEL), (node.end_when, MarkKind.END))
    cases = [f"WHEN {context.sql(when, rows)} THEN {kind.value}" for when, kind in conditions if when is not None]
    return F.expr(f"CASE {' '.join(cases)} ELSE {MarkKind.ROW.value} END")


def _number(text: str, kind: str) -> str:
    """SQL text: an id as BIGINT, in the order of its type."""
    return _TO_NUMBER.get(kind, "CAST({} AS BIGINT)").format(text)


def _of_number(text: str, kind: str) -> str:
    return _FROM_NUMBER.get(kind, f"CAST({{}} AS {kind})").format(text)


_TO_NUMBER = {
    "DATE": "CAST(unix_date({}) AS BIGINT)",
    "TIMESTAMP": "unix_micros({})",
}
_FROM_NUMBER = {
    "DATE": "date_from_unix_date(CAST({} AS INT))",
    "TIMESTAMP": "timestamp_micros({})",
}


def _barrier_output(rows: DataFrame, node: AlignBarriers) -> DataFrame:
    """The kernel's output under the names of the plan."""
    fields = [column(_field(i)).alias(f.name) for i, f in enumerate(node.input.schema)]
    barrier = F.expr(_of_number(quoted(ALIGNED), node.output.type.name)).alias(node.output.name)
    clock = [column(_CAME).alias(CLOCK)] if _CAME in rows.columns else []
    return rows.select(*fields, barrier, *clock, *hidden(rows))


def _field(index: int) -> str:
    return f"__field_{index}"


KERNELS: Lowerings = {
    AlignBarriers: run_align_barriers,
    Lookup: run_lookup,
}
"""The operators here, as kernels per key group."""
