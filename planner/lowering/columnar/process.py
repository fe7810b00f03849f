"""Process functions: with keys a kernel over the united rows of all tables; else row by row, on both engines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sqlstream.planner.lowering.bad_rows import Letter, parted
from sqlstream.planner.lowering.columnar.inputs import clock_of, key, passed_on, with_key_hash
from sqlstream.planner.lowering.columnar.operator import arrow_schema, kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.columnar.window_kernels import values_of
from sqlstream.planner.lowering.context import Context, Lowerings
from sqlstream.planner.lowering.functions import ship
from sqlstream.planner.lowering.hidden_columns import column, hidden, hidden_names, micros, quoted
from sqlstream.planner.operators.process_table import ProcessInput, ProcessTable
from sqlstream.planner.physical.steps import Operator, Step
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.process.description import row_type
from sqlstream.udfs.process.function import Descriptor
from sqlstream.udfs.process.kernel import Process, RowByRow
from sqlstream.udfs.process.process_call import (
    FAILED_ROW,
    FAILURE,
    ROWTIME,
    TABLE,
    TIME,
    InputTable,
    input_column,
    key_column,
    passed_column,
    result_column,
)
from sqlstream.udfs.spark.batches import Batches


def lower_process_table(node: ProcessTable, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of a process function without state, which is called row by row."""
    rows = context.lower(step.input)
    carried = hidden_names(rows)
    read = rows.select(*_inputs(node.arguments[0], 0), *hidden(rows))
    fields = arrow_schema(read.schema).append(pa.field(KEY_HASH, pa.int64()))
    kernel = _kernel(node, fields, context, tuple(carried))
    output = spark_schema(kernel.output, read.schema)
    made = read.mapInArrow(_called(kernel, arrow_schema(read.schema)), output)
    kept = [column(passed_column(len(node.passed) + i)).alias(name) for i, name in enumerate(carried)]
    return _parted(made.select(*_columns(node), *kept, *_failed(kernel)), kernel, context)


def run_process_table(node: ProcessTable, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of a process function with keys, state or timers: its input, exchanged by key and passed
    through the kernel.
    """
    below = map(context.lower, step.inputs)
    projected = with_key_hash(_united(list(_tables(node, below))), tuple(key_column(i) for i in range(len(node.keys))))
    kernel = _kernel(node, kernel_schema(projected), context)
    output = spark_schema(kernel.output, projected.schema)
    emitted = run(projected, running(step, context.plan, kernel, output), context.runtime)
    return _parted(emitted.select(*_columns(node), *hidden(emitted), *_failed(kernel)), kernel, context)


# --- rows of the tables ---------------------------------------------------------------------------------------


def _tables(node: ProcessTable, tables: Iterable[DataFrame]) -> Iterator[DataFrame]:
    """The rows of each table with the columns that the kernel reads, and the hidden ones."""
    for number, (rows, argument) in enumerate(zip(tables, node.arguments, strict=True)):
        keys = [key(k, rows.schema[k].dataType).alias(key_column(i)) for i, k in enumerate(argument.partition_by)]
        clock = [F.expr(clock_of(rows)).alias(CLOCK)] if node.clock else []
        number_column = [F.lit(number).cast("INT").alias(TABLE)] if len(node.tables) > 1 else []
        yield rows.select(*keys, *_inputs(argument, number), *number_column, *clock, *passed_on(rows))


def _inputs(argument: ProcessInput, number: int) -> list[Column]:
    """The event time, the columns of the function's rows, and those that are emitted with its own."""
    time = [F.expr(micros(argument.time)).alias(TIME)] if argument.time is not None else []
    fields = [column(name) for name in argument.fields]
    if argument.types:
        fields = [c.cast(kind.ddl()) for c, kind in zip(fields, argument.types, strict=True)]
    named = [c.alias(input_column(number, i)) for i, c in enumerate(fields)]
    return [*time, *named, *(column(name).alias(_passing(i)) for i, name in enumerate(argument.passed))]


def _united(tables: list[DataFrame]) -> DataFrame:
    """The rows of all tables, with NULL in the columns that a table does not have."""
    types = {field.name: field.dataType for rows in tables for field in rows.schema}

    def whole(rows: DataFrame) -> DataFrame:
        present = set(rows.columns)
        return rows.select(
            *(column(n) if n in present else F.lit(None).cast(kind).alias(n) for n, kind in types.items())
        )  # fmt: skip

    return tables[0] if len(tables) == 1 else reduce(lambda left, right: left.union(right), map(whole, tables))


def _passing(index: int) -> str:
    return f"__passing_{index}"


# --- the kernel -----------------------------------------------------------------------------------------------


def _kernel(node: ProcessTable, schema: pa.Schema, context: Context, more: tuple[str, ...] = ()) -> Process:
    """``more`` are columns of the input that are emitted after those that the node passes through."""
    function = context.runtime.function(node.function)
    assert function is not None, f'the binder has seen "{node.function}"'
    implementation: Any = context.runtime.implementation(function)
    ship(implementation)
    values = values_of([c.expression for c in node.constants], context)
    constants = zip((c.name for c in node.constants), values, strict=True)
    descriptors = ((name, Descriptor(columns)) for name, columns in node.descriptors)
    return Process(
        name=function.name,
        implementation=implementation,
        tables=tuple(_table(a, number, implementation) for number, a in enumerate(node.arguments)),
        schema=schema,
        keys=tuple(key_column(i) for i in range(len(node.keys))),
        key_names=tuple(k.name for k in node.keys),
        row=function.returns.to_arrow(),
        arguments=(*constants, *descriptors),
        time=TIME if node.timed else None,
        ordered=node.in_order,
        passed=(*(_passing(i) for i in range(len(node.passed))), *more),
        tolerant=context.functions.tolerates,
    )


def _table(argument: ProcessInput, number: int, implementation: Any) -> InputTable:
    columns = tuple(input_column(number, i) for i in range(len(argument.fields)))
    return InputTable(argument.parameter, columns, argument.names, row_type(implementation, argument.parameter))


def _columns(node: ProcessTable) -> list[Column]:
    """The kernel's output under the names of the plan."""
    own = passed_column if node.passed else key_column
    before = [column(own(i)).alias(f.name) for i, f in enumerate(node.passed or node.keys)]
    results = [column(result_column(i)).alias(f.name) for i, f in enumerate(node.results)]
    time = [F.expr(f"timestamp_micros({quoted(ROWTIME)})").alias(node.rowtime.name)] if node.rowtime is not None else []
    return [*before, *results, *time]


# --- rows that failed -----------------------------------------------------------------------------------------


def _failed(kernel: Process) -> list[Column]:
    return [column(FAILED_ROW)] if kernel.tolerant else []


def _parted(rows: DataFrame, kernel: Process, context: Context) -> DataFrame:
    """Without the rows for which the function failed, which are counted and may go to a dead-letter table."""
    if not kernel.tolerant:
        return rows
    record, error, line = (F.col(f"{FAILED_ROW}.{field.name}") for field in FAILURE)
    context.counted.first(kernel.name, FAILED_ROW)
    letter = Letter(kernel.name, record, error, line)
    return parted(rows, letter, context.functions, context.counted.metric).drop(FAILED_ROW)


# --- row by row -----------------------------------------------------------------------------------------------


def _called(kernel: Process, schema: pa.Schema) -> Batches:
    """Spark's batches differ from the schema in the names of time zones."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from RowByRow(kernel).rows(_cast(batches, schema))

    return rows


def _cast(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from pa.Table.from_batches([batch]).cast(schema).combine_chunks().to_batches()


KERNELS: Lowerings = {
    ProcessTable: run_process_table,
}
"""The operators here, as kernels per key group."""
