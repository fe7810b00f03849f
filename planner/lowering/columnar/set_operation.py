"""INTERSECT and EXCEPT: the fields of both sides below, the kernel, the fields of the plan above."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.lowering.columnar.inputs import came_at, key, passed_on, with_key_hash
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.set_operation import SetOperation
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.changes.set_operation import SetOperationKernel
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.state.time_to_live import TimeToLive


@lower_operator.register
def _(node: SetOperation, step: Operator, context: Context) -> DataFrame:
    sides = [_fields(node, context.lower(below), context) for below in step.inputs]
    fields = list(_names(node))
    schema = kernel_schema(sides[0])
    updates = node.changelog_mode != APPEND_ONLY
    living = TimeToLive(1000 * node.ttl_ms)
    kernel = SetOperationKernel(node.kind, pa.schema([schema.field(name) for name in fields]), living, updates)
    output = spark_schema(kernel.output, StructType([sides[0].schema[name] for name in fields]))
    emitted = run(sides, running(step, context.plan, kernel, output), context.runtime)
    return emitted.select(*(column(own).alias(name) for own, name in _names(node).items()), *hidden(emitted))


def _names(node: SetOperation) -> dict[str, str]:
    """Fields by the kernel's own names for them."""
    return {f"__field_{i}": field.name for i, field in enumerate(node.schema)}


def _fields(node: SetOperation, rows: DataFrame, context: Context) -> DataFrame:
    """Adds KEY_HASH, which is the hash of all fields."""
    own = [key(name, rows.schema[name].dataType).alias(alias) for alias, name in _names(node).items()]
    kinds = [column(ROW_KIND)] if ROW_KIND in rows.columns else []
    # Rows that come before the first tick of the clock have all their time to live, too.
    clock = [F.expr(came_at(rows, context)).alias(CLOCK)] if node.ttl_ms else []
    return with_key_hash(rows.select(*own, *kinds, *clock, *passed_on(rows)), tuple(_names(node)))
