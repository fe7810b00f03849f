"""Windows on kernels: aggregates per key and window, window table functions, and chains of windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType, TimestampType

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.columnar.groups import grouping_id, in_sets, key_in_sets, set_keys, split
from sqlstream.planner.lowering.columnar.inputs import (
    Files,
    InputField,
    Inputs,
    files_of,
    hashed_by_exchange,
    inputs_of,
    key,
    kinds_of,
    passed_on,
    with_key_hash,
)
from sqlstream.planner.lowering.columnar.operator import Above, Running, kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.columnar.window_kernels import assigner_of, design_of, domain_of, kernel_of
from sqlstream.planner.lowering.context import Context, Lowerings
from sqlstream.planner.lowering.hidden_columns import column, hidden, micros
from sqlstream.planner.lowering.windows import window_columns, windowed
from sqlstream.planner.node import Link
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.physical.steps import Compute, Operator, Step
from sqlstream.udfs.aggregates import Aggregates
from sqlstream.udfs.exchange import CLOCK, Handed, Handover
from sqlstream.udfs.kernel import KEY_HASH, ROW_KIND
from sqlstream.udfs.spark.batches import WindowsOfRows
from sqlstream.udfs.windows.emission import PANE, PANE_INDEX, WINDOW_END, WINDOW_START
from sqlstream.udfs.windows.ranges import AllRows

# --- chained windows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """A stateful operator that is not lowered yet, because others may still be chained to it. ``rows`` or ``files`` are
    what its exchange reads; ``above`` are the operators chained to it so far.
    """

    rows: DataFrame
    operator: Running
    files: Files | None = None
    above: tuple[Above, ...] = ()

    @property
    def results(self) -> DataFrame:
        """An empty DataFrame with the output schema of the last chained kernel, for Spark to analyse expressions over
        it. It is never run.
        """
        last = self.above[-1].operator if self.above else self.operator
        return self.rows.mapInArrow(_nothing, last.output)

    def with_above(self, operator: Running, handover: Handover) -> Prepared:
        return replace(self, above=(*self.above, Above(operator, handover)))


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(())


def handover_of(
    link: Link,
    emitted: Mapping[str, Handed],
    fields_of: Mapping[str, InputField],
    keys: Sequence[str],
    schema: pa.Schema,
) -> Handover:
    """Describes how a chained operator takes rows from the operator upstream.

    ``emitted`` maps each field to an output column of the upstream kernel. ``fields_of`` maps each input column of the
    downstream kernel to its field. ``schema`` has all these columns; ``keys`` are some of them.
    """
    below = dict(link.fields)
    read = {name: fields_of[name] for name in schema.names if name not in (KEY_HASH, CLOCK)}
    handed = ((name, replace(emitted[below[column.field]], micros=column.micros)) for name, column in read.items())
    return Handover(tuple(handed), tuple(keys), schema)


def run_window_aggregate(node: WindowAggregate, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of aggregates per key and window, including the windowed aggregations that are chained to
    them.
    """
    prepared = _prepared(step, node, context)
    emitted = run(prepared.rows, prepared.operator, context.runtime, prepared.files, prepared.above)
    return emitted.select(*_results(node), *hidden(emitted))


def _prepared(step: Operator, node: WindowAggregate, context: Context) -> Prepared:
    link = step.link
    below = _prepared(step.operator_below, _below(link), context) if link is not None else None
    rows = in_sets(node, context.lower(step.input)) if below is None or link is None else _rows_of(below, link)
    calls = [split(item, rows, context) for item in node.aggregates]
    inputs = inputs_of(step, rows, context)
    for call in calls:
        for name, expression in call.columns:
            inputs.add(expression, name=name)
    keys = _key_columns(node, rows)
    names = (*map(_key, range(len(node.keys))), *set_keys(node))
    design = design_of(node, names, inputs)
    projected = with_key_hash(rows.select(*keys, *inputs.columns(), *kinds_of(node), *passed_on(rows)), names)
    schema = kernel_schema(projected)
    named = tuple(replace(call.call, name=_result(i)) for i, call in enumerate(calls))
    updating = ROW_KIND in schema.names
    # In processing time a retraction has the time at which it arrives, not that of the row.
    has_time = node.time is not None and node.domain is not TimeDomain.PROCESSING
    identified_by = (design.time,) if updating and has_time else ()
    aggregates = Aggregates(named, schema, updating=updating, identified_by=identified_by)
    kernel = kernel_of(design, aggregates, schema)
    operator = running(step, context.plan, kernel, spark_schema(kernel.output, projected.schema))
    operator = replace(operator, late_table=node.late_marker(step.number))
    fields_of = {**inputs.fields_of, **{_key(i): InputField(name) for i, name in enumerate(node.keys)}}
    if below is not None and link is not None:
        return below.with_above(operator, handover_of(link, _emitted(_below(link)), fields_of, names, schema))
    hashed = hashed_by_exchange(names, schema)
    operator = replace(operator, hashed=hashed)
    return Prepared(projected, operator, files_of(step, fields_of, inputs, schema, hashed, context))


def _rows_of(below: Prepared, link: Link) -> DataFrame:
    """The columns that the node reads of the operator below. This DataFrame never runs; it gives names and types."""
    return below.results.select(*_results(_below(link))).select(
        *(column(name).alias(field) for field, name in link.fields)
    )  # fmt: skip


def _below(link: Link) -> WindowAggregate:
    assert isinstance(link.below, WindowAggregate), link.below
    return link.below


# Names of the kernel's own, which none of the plan's can be.


def _key(index: int) -> str:
    return f"__key_{index}"


def _result(index: int) -> str:
    return f"__result_{index}"


def _key_columns(node: WindowAggregate, rows: DataFrame) -> list[Column]:
    keys = (key_in_sets(node, name, key(name, rows.schema[name].dataType)) for name in node.keys)
    return [*(value.alias(_key(i)) for i, value in enumerate(keys)), *map(column, set_keys(node))]


def _results(node: WindowAggregate) -> list[Column]:
    panes = [(node.pane, PANE), (node.pane_index, PANE_INDEX)]
    return [
        *(column(_key(i)).alias(name) for i, name in enumerate(node.keys)),
        *grouping_id(node),
        *window_columns(node.columns, micros(WINDOW_START), micros(WINDOW_END)),
        *(column(_result(i)).alias(item.name) for i, item in enumerate(node.aggregates)),
        *(column(own).alias(name) for name, own in panes if name is not None),
    ]


def _emitted(node: WindowAggregate) -> dict[str, Handed]:
    """The columns of the kernel's output by field of the node: ``_results`` without SQL."""
    columns = node.columns
    panes = {name: Handed(own) for name, own in ((node.pane, PANE), (node.pane_index, PANE_INDEX)) if name is not None}
    return {
        **{name: Handed(_key(i)) for i, name in enumerate(node.keys)},
        columns.start: Handed(WINDOW_START),
        columns.end: Handed(WINDOW_END),
        columns.time: Handed(WINDOW_END, earlier=1000),
        **{item.name: Handed(_result(i)) for i, item in enumerate(node.aggregates)},
        **panes,
    }


# --- window table functions whose rows are emitted when their windows fire ------------------------------------


def lower_assign_windows(node: AssignWindows, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of rows with the columns of their windows, without state."""
    in_zone = isinstance(step, Compute) and step.arrow
    return _in_zone(node, step, context) if in_zone else windowed(node, step, context)


def run_assign_windows(node: AssignWindows, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of windows without aggregation, which emit their rows when they fire."""
    rows = context.lower(step.input)
    inputs = inputs_of(step, rows, context)
    fields = [inputs.field(f.name, _field(i)) for i, f in enumerate(node.input.schema)]
    keys = tuple(_key(i) for i in range(len(node.partition_by)))
    values = (
        key(name, rows.schema[name].dataType).alias(own) for name, own in zip(node.partition_by, keys, strict=True)
    )
    design = design_of(node, keys, inputs)
    projected = with_key_hash(rows.select(*values, *inputs.columns(), *kinds_of(node), *passed_on(rows)), keys)
    schema = kernel_schema(projected)
    kernel = kernel_of(design, AllRows(tuple(fields)), schema)
    output = spark_schema(kernel.output, projected.schema)
    emitted = run(projected, running(step, context.plan, kernel, output), context.runtime)
    names = (column(_field(i)).alias(f.name) for i, f in enumerate(node.input.schema))
    return emitted.select(*names, *_window(node), *hidden(emitted))


def _in_zone(node: AssignWindows, step: Step, context: Context) -> DataFrame:
    """Windows on the clock of a time zone: Arrow knows the hours that are missing or come twice."""
    assert node.time is not None, "windows of time need a time"
    rows = context.lower(step.input)
    inputs = Inputs(context, node.input.schema, rows)
    assigner = assigner_of(node.window, inputs.time(node.time), domain_of(node.domain), inputs)
    timed = rows.select("*", *inputs.columns())
    schema = StructType([*timed.schema.fields, *(StructField(n, TimestampType()) for n in (WINDOW_START, WINDOW_END))])
    assigned = timed.mapInArrow(WindowsOfRows(assigner).rows, schema)
    fields = (column(f.name) for f in node.input.schema)
    return assigned.select(*fields, *_window(node), *hidden(assigned))


def _window(node: AssignWindows) -> tuple[Column, ...]:
    return window_columns(node.columns, micros(WINDOW_START), micros(WINDOW_END))


def _field(index: int) -> str:
    return f"__field_{index}"


KERNELS: Lowerings = {
    AssignWindows: run_assign_windows,
    WindowAggregate: run_window_aggregate,
}
"""The operators here, as kernels per key group."""
