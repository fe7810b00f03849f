"""OVER and MATCH_RECOGNIZE on kernels: the columns that they read, the kernel, and the fields of the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.kernel_expressions import MatchOperand, Reads, match_conditions
from sqlstream.planner.lowering.columnar.groups import split
from sqlstream.planner.lowering.columnar.inputs import (
    TIME,
    InputField,
    Inputs,
    came_at,
    clock_of,
    keys_among,
    kinds_of,
    passed_on,
    with_key_hash,
)
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, run_by_keys, running, spark_schema
from sqlstream.planner.lowering.columnar.ranked import closing_micros
from sqlstream.planner.lowering.context import Context, Lowerings
from sqlstream.planner.lowering.hidden_columns import column, hidden
from sqlstream.planner.operators.match_recognize import MatchRecognize
from sqlstream.planner.operators.over import NTH, NUMBERS, PLACES, Over, OverAllRows, OverCall, UpdatingOver, WindowOver
from sqlstream.planner.physical.steps import Operator
from sqlstream.planner.physical.steps import Operator as Step
from sqlstream.types import DataType
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.match.definitions import Aggregated as AggregatedMeasure
from sqlstream.udfs.match.definitions import Classifier, Current, Definition, Mapped, MatchNumber, Measure, Operand
from sqlstream.udfs.match.kernel import MatchKernel
from sqlstream.udfs.over.frames import Frame
from sqlstream.udfs.over.functions import Aggregated, Nth, Number, Numbered, OverFunction, Place, Placed, Shifted
from sqlstream.udfs.over.kernel import OverKernel
from sqlstream.udfs.over.line import Tie
from sqlstream.udfs.over.updating import UpdatingOverKernel
from sqlstream.udfs.over.windowed import WindowOverKernel
from sqlstream.udfs.top_n.order import Order

_CLOSES = "__closes"

_ANY_FRAME = Frame(rows=True, start=0)
"""Of functions that have none."""


def run_over(node: Over, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of OVER that is ordered by a time attribute: its input, exchanged by key and passed through
    the kernel.
    """
    rows = context.lower(step.input)
    inputs = Inputs(context, node.input.schema, rows, step.ports[0].watermark)
    column_names: dict[str, str] = {}
    for i, field in enumerate(node.input.schema):
        is_time = field.name == node.time and _is_time_column(node, field.type)
        column_names[field.name] = TIME if is_time else inputs.field(field.name, field_name(i))
    functions = tuple(functions_of(node.calls, inputs))
    if node.domain is TimeDomain.PROCESSING:
        inputs.add_text(clock_of(rows), TIME)
        inputs.add_text(clock_of(rows), CLOCK)  # before its first watermark Spark has no clock
        inputs.fired(node.input, node.time)
    else:
        inputs.time(node.time)
    by_key, key_names = keys_among(rows, node.keys, column_names)
    keys = tuple(key_names.values())
    projected = with_key_hash(rows.select(*by_key, *inputs.columns(), *kinds_of(node), *passed_on(rows)), keys)
    schema = kernel_schema(projected)
    kernel = OverKernel(
        schema,
        keys,
        TIME,
        tuple(column_names[field.name] for field in node.of_input),
        functions,
        Domain.PROCESSING if node.domain is TimeDomain.PROCESSING else Domain.EVENT,
        tuple(Tie(column_names[tie.name], tie.descending, tie.nulls_first) for tie in node.ties),
    )
    fields_of = {**inputs.fields_of, **{own: InputField(name) for name, own in key_names.items()}}
    emitted = run_by_keys(kernel, projected, keys, fields_of, inputs, step, context)
    fields = [_field_of(column_names[field.name]).alias(field.name) for field in node.of_input]
    results = [column(result_name(i)).alias(field.name) for i, field in enumerate(node.results)]
    return emitted.select(*fields, *results, *hidden(emitted))


def _is_time_column(node: Over, kind: DataType) -> bool:
    """True where the kernel's times are all that the field of the time attribute says: rows then carry it once."""
    return node.domain is not TimeDomain.PROCESSING and kind.name == "TIMESTAMP" and node.time not in node.keys


def _field_of(own: str) -> Column:
    return F.timestamp_micros(column(own)) if own == TIME else column(own)


def functions_of(calls: Sequence[OverCall], inputs: Inputs, *, in_time: bool = True) -> Iterator[OverFunction]:
    """Translates the OVER ``calls`` to functions of the kernel, and adds the columns that they read to ``inputs``.
    ``in_time``: distances of RANGE frames are milliseconds; otherwise they are in units of the ORDER BY column.
    """
    for number, call in enumerate(calls):
        name, positional = result_name(number), call.positional
        frame = _in_microseconds(call) if in_time else call.frame or _ANY_FRAME
        if positional is None:
            split_call = split(replace(call.item, name=name), inputs.below, inputs.context)
            names = {read: inputs.value(value, read) for read, value in split_call.columns}
            yield Aggregated(split_call.call.over(names), frame)
        elif positional.name in NUMBERS:
            yield Numbered(name, Number(positional.name), pa.int32())
        elif positional.name in PLACES:
            buckets = int(positional.expressions[0].name) if positional.expressions else 1
            yield Placed(name, Place(positional.name), buckets)
        else:
            yield _of_another_row(name, positional, frame, inputs, ignore_nulls=call.ignores_nulls)


def _of_another_row(
    name: str, call: exp.Anonymous, frame: Frame, inputs: Inputs, *, ignore_nulls: bool
) -> OverFunction:
    value, *rest = call.expressions
    argument = inputs.value(value, f"{name}_value")
    kind = kernel_schema(inputs.below.select(F.expr(inputs.texts[argument]).alias(argument))).field(argument).type
    count = int(rest[0].name) if rest else 1
    if call.name == NTH:
        return Nth(name, argument, count, frame, kind, ignore_nulls)
    default = inputs.value(rest[1], f"{name}_default") if len(rest) > 1 else None
    return Shifted(name, argument, -count if call.name == "lag" else count, kind, default, ignore_nulls)


def _in_microseconds(call: OverCall) -> Frame:
    """The kernel's frame; any where the call has none."""
    frame = call.frame or _ANY_FRAME
    if frame.rows:
        return frame
    start, end = (None if offset is None else offset * 1000 for offset in (frame.start, frame.end))
    return Frame(False, start, end)


def field_name(index: int) -> str:
    """The name of the kernel's column for the field with this index of the operator's input."""
    return f"__field_{index}"


def result_name(index: int) -> str:
    """The name of the kernel's column for the result of the call with this index."""
    return f"__result_{index}"


# --- OVER in any order ----------------------------------------------------------------------------------------


def run_updating_over(node: UpdatingOver, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of OVER that is ordered by columns other than time, whose results are updated."""
    over = _AllRows.of(node, step, context)
    clock = [F.expr(came_at(over.rows, context)).alias(CLOCK)] if node.ttl_ms else []
    projected = over.projected([*kinds_of(node), *clock])
    kernel = UpdatingOverKernel(
        kernel_schema(projected), over.keys, over.order, over.passed, over.functions, node.ttl_ms * 1000
    )
    fields_of = {**over.inputs.fields_of, **{to: InputField(name) for name, to in over.key_names.items()}}
    return over.results(run_by_keys(kernel, projected, over.keys, fields_of, over.inputs, step, context))


def run_window_over(node: WindowOver, step: Operator, context: Context) -> DataFrame:
    """Builds the DataFrame of OVER within windows, computed when a window closes."""
    over = _AllRows.of(node, step, context)
    projected = over.projected([F.expr(closing_micros(node.closes)).alias(_CLOSES)])
    kernel = WindowOverKernel(kernel_schema(projected), over.keys, over.order, over.passed, over.functions, _CLOSES)
    return over.results(run_by_keys(kernel, projected, over.keys, over.inputs.fields_of, over.inputs, step, context))


@dataclass(frozen=True)
class _AllRows:
    """What kernels over all rows of a key read. ``own``: the kernel's column of each field of the input."""

    node: OverAllRows
    rows: DataFrame
    inputs: Inputs
    own: Mapping[str, str]
    functions: tuple[OverFunction, ...]
    by_key: list[Column]
    key_names: dict[str, str]

    @classmethod
    def of(cls, node: OverAllRows, step: Operator, context: Context) -> _AllRows:
        rows = context.lower(step.input)
        inputs = Inputs(context, node.input.schema, rows)
        own = {field.name: inputs.field(field.name, field_name(i)) for i, field in enumerate(node.input.schema)}
        functions = tuple(functions_of(node.calls, inputs, in_time=node.in_time))
        return cls(node, rows, inputs, own, functions, *keys_among(rows, node.keys, own))

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.key_names.values())

    @property
    def order(self) -> tuple[Order, ...]:
        return tuple(Order(self.own[sort.name], sort.descending, sort.nulls_first) for sort in self.node.order)

    @property
    def passed(self) -> tuple[str, ...]:
        return tuple(self.own.values())

    def projected(self, others: Sequence[Column]) -> DataFrame:
        """The kernel's input, with ``others`` of its columns."""
        columns = (*self.by_key, *self.inputs.columns(), *others, *passed_on(self.rows))
        return with_key_hash(self.rows.select(*columns), self.keys)

    def results(self, emitted: DataFrame) -> DataFrame:
        """What the kernel emits, as fields of the node."""
        fields = [column(to).alias(name) for name, to in self.own.items()]
        results = [column(result_name(i)).alias(field.name) for i, field in enumerate(self.node.results)]
        return emitted.select(*fields, *results, *hidden(emitted))


# --- MATCH_RECOGNIZE ------------------------------------------------------------------------------------------


def run_match_recognize(node: MatchRecognize, step: Step, context: Context) -> DataFrame:
    """Builds the DataFrame of MATCH_RECOGNIZE: its input, exchanged by key and passed through the kernel. Nothing runs
    until the query starts.
    """
    rows = context.lower(step.input)
    inputs = Inputs(context, node.input.schema, rows, step.ports[0].watermark)
    fields = {field.name: field_name(i) for i, field in enumerate(node.input.schema)}
    read = [field.name for field in node.passed] + [*node.keys, *(tie.name for tie in node.ties)]
    column_names = {name: inputs.field(name, fields[name]) for name in dict.fromkeys(read)}
    divided = match_conditions(node.definitions, node.operands, context.runtime.function)
    operands = tuple(_operand(o, o.name, inputs) for o in divided.operands)
    measures = tuple(_measure(measure, result_name(i), inputs) for i, measure in enumerate(node.measures))
    if node.domain is TimeDomain.PROCESSING:
        inputs.add_text(clock_of(rows), TIME)
    else:
        inputs.time(node.time)
    by_key, key_names = keys_among(rows, node.keys, column_names)
    projected = with_key_hash(rows.select(*by_key, *inputs.columns(), *passed_on(rows)), tuple(key_names.values()))
    kernel = MatchKernel(
        kernel_schema(projected),
        tuple(key_names.values()),
        TIME,
        tuple(column_names[field.name] for field in node.passed),
        node.automaton,
        tuple(Definition(variable, condition) for variable, condition in divided.conditions),
        operands,
        measures,
        node.skip,
        None if node.within_ms is None else node.within_ms * 1000 + 1,  # which the kernel leaves out
        Domain.PROCESSING if node.domain is TimeDomain.PROCESSING else Domain.EVENT,
        tuple(Tie(column_names[tie.name], tie.descending, tie.nulls_first) for tie in node.ties),
        node.all_rows,
        node.holds,
    )
    output = spark_schema(kernel.output, projected.schema)
    emitted = run(projected, running(step, context.plan, kernel, output), context.runtime)
    passed = [column(column_names[field.name]).alias(field.name) for field in node.passed]
    return emitted.select(
        *passed,
        *(column(result_name(i)).alias(measure.name) for i, measure in enumerate(node.measures)),
        *hidden(emitted),
    )


def _measure(measure: MatchOperand, name: str, inputs: Inputs) -> Measure:
    match measure.reads:
        case Reads.CLASSIFIER:
            return Classifier(name, measure.running)
        case Reads.NUMBER:
            return MatchNumber(name)
    read = _operand(measure, name, inputs)
    assert not isinstance(read, Current), "a measure is about to map no row"
    return read


def _operand(operand: MatchOperand, name: str, inputs: Inputs) -> Operand:
    if operand.reads is Reads.ROWS:
        split_call = split(replace(operand.item, name=name), inputs.below, inputs.context)
        names = {read: inputs.value(value, read) for read, value in split_call.columns}
        return AggregatedMeasure(split_call.call.over(names), operand.variable, operand.running)
    value = inputs.value(operand.item.expression, f"{name}_value")
    absent = None if operand.absent is None else inputs.add(operand.absent, name=f"{name}_absent")
    if operand.current:
        return Current(name, value, operand.shift, absent)
    read = Mapped(name, value, operand.variable, operand.last, operand.offset, operand.shift, absent)
    return replace(read, running=operand.running)


KERNELS: Lowerings = {
    MatchRecognize: run_match_recognize,
    Over: run_over,
    UpdatingOver: run_updating_over,
    WindowOver: run_window_over,
}
"""The operators here, as kernels per key group."""
