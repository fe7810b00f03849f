"""Window table functions whose rows come out when their windows fire: the rows, with the bounds of the window."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType, TimestampType

from sqlstream.planner.lowering.columnar.assigners import assigner_of
from sqlstream.planner.lowering.columnar.inputs import inputs_of, key, passed_on, with_key_hash
from sqlstream.planner.lowering.columnar.kernels import design_of, kernel_of
from sqlstream.planner.lowering.columnar.operator import kernel_schema, operator_of, rows_below, run, spark_schema
from sqlstream.planner.lowering.columnar.triggers import domain_of
from sqlstream.planner.lowering.columns import column, micros
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_columnar, lower_node
from sqlstream.planner.lowering.windows import window_columns
from sqlstream.planner.nodes import AssignWindows, Cumulate, Hop, Tumble
from sqlstream.planner.properties import keeps_state
from sqlstream.udfs.spark.batches import WindowsOfRows
from sqlstream.udfs.windows.emission import WINDOW_END, WINDOW_START
from sqlstream.udfs.windows.functions import AllRows


@lower_columnar.register
def _(node: AssignWindows, context: Context) -> DataFrame:
    if not keeps_state(node):
        return _in_zone(node, context) if _zone(node) else lower_node(node, context)
    rows = rows_below(node, context)
    inputs = inputs_of(node, rows, context)
    fields = [inputs.field(f.name, _field(i)) for i, f in enumerate(node.input.schema)]
    keys = tuple(_key(i) for i in range(len(node.partition_by)))
    values = (
        key(name, rows.schema[name].dataType).alias(own) for name, own in zip(node.partition_by, keys, strict=True)
    )
    design = design_of(node, keys, inputs)
    projected = with_key_hash(rows.select(*values, *inputs.columns(), *passed_on(rows)), keys)
    schema = kernel_schema(projected)
    kernel = kernel_of(design, AllRows(tuple(fields)), schema)
    output = spark_schema(kernel.output, projected.schema)
    keyed = bool(node.partition_by)
    operator = operator_of(node, kernel, output, context, keyed=keyed, told_by_blobs=inputs.watermark)
    emitted = run(projected, operator, context.runtime)
    names = (column(_field(i)).alias(f.name) for i, f in enumerate(node.input.schema))
    return emitted.select(*names, *_window(node), *hidden(emitted))


def _zone(node: AssignWindows) -> str | None:
    """The time zone on whose clock the windows are."""
    return node.window.zone if isinstance(node.window, (Tumble, Hop, Cumulate)) else None


def _in_zone(node: AssignWindows, context: Context) -> DataFrame:
    """Windows on the clock of a time zone: Arrow knows the hours that are missing or come twice."""
    assert node.time is not None, "windows of time need a time"
    rows = context.lower_input(node)
    inputs = inputs_of(node, rows, context)
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


def _key(index: int) -> str:
    return f"__key_{index}"
