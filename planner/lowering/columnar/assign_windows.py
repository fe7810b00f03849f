"""Window table functions whose rows come out when their windows fire: the rows, with the bounds of the window."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType, TimestampType

from sqlstream.planner.lowering.columnar.assigners import assigner_of
from sqlstream.planner.lowering.columnar.inputs import Inputs, inputs_of, key, kinds_of, passed_on, with_key_hash
from sqlstream.planner.lowering.columnar.kernels import design_of, kernel_of
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.columnar.triggers import domain_of
from sqlstream.planner.lowering.columns import column, micros
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_node, lower_operator
from sqlstream.planner.lowering.windows import window_columns, windowed
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.physical.steps import Compute, Operator, Step
from sqlstream.udfs.spark.batches import WindowsOfRows
from sqlstream.udfs.windows.emission import WINDOW_END, WINDOW_START
from sqlstream.udfs.windows.ranges import AllRows


@lower_node.register
def _(node: AssignWindows, step: Step, context: Context) -> DataFrame:
    in_zone = isinstance(step, Compute) and step.arrow
    return _in_zone(node, step, context) if in_zone else windowed(node, step, context)


@lower_operator.register
def _(node: AssignWindows, step: Operator, context: Context) -> DataFrame:
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


def _key(index: int) -> str:
    return f"__key_{index}"
