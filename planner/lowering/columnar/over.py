"""OVER: columns for the kernel below, the kernel, the fields of the plan above."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.columnar.aggregate_calls import split
from sqlstream.planner.lowering.columnar.inputs import clock_of, key, passed_on, with_key_hash
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.columns import column, micros
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.operators.over import NTH, NUMBERS, SHIFTS, Over, OverCall
from sqlstream.planner.physical.steps import Operator
from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.functions import Aggregated, Nth, Number, Numbered, OverFunction, Shifted
from sqlstream.udfs.over.kernel import OverKernel, Tie

_TIME = "__row_time"


@lower_operator.register
def _(node: Over, step: Operator, context: Context) -> DataFrame:
    rows = context.lower(step.input)
    columns: dict[str, Column] = {_field(i): column(f.name) for i, f in enumerate(node.input.schema)}
    functions = tuple(_functions(node, rows, columns, context))
    keys = tuple(_key(i) for i in range(len(node.keys)))
    by_key = [key(name, rows.schema[name].dataType).alias(own) for name, own in zip(node.keys, keys, strict=True)]
    time = [F.expr(_time(node, rows)).alias(_TIME)]
    named = [value.alias(name) for name, value in columns.items()]
    projected = with_key_hash(rows.select(*by_key, *named, *time, *passed_on(rows)), keys)
    schema = kernel_schema(projected)
    place = {f.name: _field(i) for i, f in enumerate(node.input.schema)}
    kernel = OverKernel(
        schema,
        keys,
        _TIME,
        tuple(place.values()),
        functions,
        Domain.PROCESSING if node.domain is TimeDomain.PROCESSING else Domain.EVENT,
        tuple(Tie(place[tie.name], tie.descending, tie.nulls_first) for tie in node.ties),
    )
    output = spark_schema(kernel.output, projected.schema)
    emitted = run(projected, running(step, context.plan, kernel, output), context.runtime)
    fields = [column(own).alias(name) for name, own in place.items()]
    results = [column(_result(i)).alias(field.name) for i, field in enumerate(node.results)]
    return emitted.select(*fields, *results, *hidden(emitted))


def _time(node: Over, rows: DataFrame) -> str:
    return clock_of(rows) if node.domain is TimeDomain.PROCESSING else micros(node.time)


def _functions(node: Over, rows: DataFrame, columns: dict[str, Column], context: Context) -> Iterator[OverFunction]:
    """The calls as the kernel knows them; adds the columns that they read."""
    for number, call in enumerate(node.calls):
        name, expression = _result(number), call.item.expression
        frame = _in_microseconds(call)
        if not isinstance(expression, exp.Anonymous) or expression.name not in NUMBERS | SHIFTS | {NTH}:
            found = split(replace(call.item, name=name), rows, context)
            columns.update((read, context.column(value, rows)) for read, value in found.columns)
            yield Aggregated(found.call, frame)
        elif expression.name in NUMBERS:
            yield Numbered(name, Number(expression.name), pa.int32())
        else:
            yield _of_another_row(name, expression, frame, rows, columns, context)


def _of_another_row(
    name: str, call: exp.Anonymous, frame: Frame, rows: DataFrame, columns: dict[str, Column], context: Context
) -> OverFunction:
    value, *rest = call.expressions
    argument = f"{name}_value"
    columns[argument] = context.column(value, rows)
    kind = kernel_schema(rows.select(columns[argument].alias(argument))).field(argument).type
    count = int(rest[0].name) if rest else 1
    if call.name == NTH:
        return Nth(name, argument, count, frame, kind)
    default = f"{name}_default" if len(rest) > 1 else None
    if default is not None:
        columns[default] = context.column(rest[1], rows)
    return Shifted(name, argument, -count if call.name == "lag" else count, kind, default)


def _in_microseconds(call: OverCall) -> Frame:
    """The kernel's frame; any where the call has none."""
    frame = call.frame or Frame(rows=True, start=0)
    if frame.rows:
        return frame
    return Frame(False, None if frame.start is None else frame.start * 1000, frame.end * 1000)


def _field(index: int) -> str:
    return f"__field_{index}"


def _key(index: int) -> str:
    return f"__key_{index}"


def _result(index: int) -> str:
    return f"__result_{index}"
