"""MATCH_RECOGNIZE: columns for the kernel below, the kernel, the fields of the plan above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame

from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.lowering.columnar.aggregate_calls import split
from sqlstream.planner.lowering.columnar.inputs import Inputs, clock_of, keys_among, passed_on, with_key_hash
from sqlstream.planner.lowering.columnar.operator import kernel_schema, run, running, spark_schema
from sqlstream.planner.lowering.columnar.over import field_name, result_name
from sqlstream.planner.lowering.columnar.watermarks import TIME
from sqlstream.planner.lowering.columns import column
from sqlstream.planner.lowering.hidden import hidden
from sqlstream.planner.lowering.lower import Context, lower_operator
from sqlstream.planner.match_conditions import match_conditions
from sqlstream.planner.match_operands import MatchOperand, Reads
from sqlstream.planner.operators.match_recognize import MatchRecognize
from sqlstream.planner.physical.steps import Operator as Step
from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.match.definitions import Definition
from sqlstream.udfs.match.kernel import MatchKernel
from sqlstream.udfs.match.operands import Aggregated, Classifier, Current, Mapped, MatchNumber, Measure, Operand
from sqlstream.udfs.over.line import Tie


@lower_operator.register
def _(node: MatchRecognize, step: Step, context: Context) -> DataFrame:
    rows = context.lower(step.input)
    inputs = Inputs(context, node.input.schema, rows, step.ports[0].told)
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
    return emitted.select(*passed, *_results(node.measures), *hidden(emitted))


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
        return Aggregated(split_call.call.over(names), operand.variable, operand.running)
    value = inputs.value(operand.item.expression, f"{name}_value")
    absent = None if operand.absent is None else inputs.add(operand.absent, name=f"{name}_absent")
    if operand.current:
        return Current(name, value, operand.shift, absent)
    read = Mapped(name, value, operand.variable, operand.last, operand.offset, operand.shift, absent)
    return replace(read, running=operand.running)


def _results(measures: Sequence[MatchOperand]) -> list[Column]:
    return [column(result_name(i)).alias(measure.name) for i, measure in enumerate(measures)]
