"""Which aggregate functions are executed, and how each is planned."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as kinds

from sqlstream.errors import UnsupportedError
from sqlstream.types import from_arrow
from sqlstream.udfs.aggregates.accumulator import Plan
from sqlstream.udfs.aggregates.averages import average
from sqlstream.udfs.aggregates.call import AggregateCall
from sqlstream.udfs.aggregates.counts import Count
from sqlstream.udfs.aggregates.extremes import Extreme
from sqlstream.udfs.aggregates.groups import Source
from sqlstream.udfs.aggregates.ordering import is_ordered
from sqlstream.udfs.aggregates.sums import FloatSum, IntegerSum

NOT_EXECUTED = "SS395"

Planner = Callable[[AggregateCall, pa.Schema], Plan]


def plan_of(call: AggregateCall, input_: pa.Schema) -> Plan:
    """How the call is computed; UnsupportedError SS395 where it is not."""
    planner = _PLANNERS.get(call.function)
    if planner is None:
        raise UnsupportedError(NOT_EXECUTED, f'aggregate function "{call.function}" is not executed')
    return planner(call, input_)


def _kept(value: pa.Array) -> pa.Array:
    return value


def _source(call: AggregateCall) -> Source:
    """The arguments of the rows of FILTER in which none of them is NULL."""
    filters = (call.filter,) if call.filter is not None else ()
    return Source(call.arguments, filters, call.arguments)


def _count(call: AggregateCall, input_: pa.Schema) -> Plan:
    source = _source(call)
    return Plan((Count(Source((), source.filters, source.required)),), _kept)


def _sum(call: AggregateCall, input_: pa.Schema) -> Plan:
    source, kind = _source(call), input_.field(call.arguments[0]).type
    if kinds.is_integer(kind):
        return Plan((IntegerSum(source, pa.int64()),), _kept)
    if kinds.is_duration(kind):
        return Plan((IntegerSum(source, kind),), _kept)
    if kinds.is_floating(kind):
        return Plan((FloatSum(source),), _kept)
    raise _not_of(call, kind)


def _average(call: AggregateCall, input_: pa.Schema) -> Plan:
    kind = input_.field(call.arguments[0]).type
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        return average(_source(call), kind)
    raise _not_of(call, kind)


def _extreme(call: AggregateCall, input_: pa.Schema) -> Plan:
    kind = input_.field(call.arguments[0]).type
    if not is_ordered(kind):
        raise _not_of(call, kind)
    return Plan((Extreme(_source(call), kind, call.function == "max"),), _kept)


def _not_of(call: AggregateCall, kind: pa.DataType) -> UnsupportedError:
    message = f"{call.function.upper()} of the type {from_arrow(kind)} is not executed"
    return UnsupportedError(NOT_EXECUTED, message, hint="Convert the argument with CAST.")


_PLANNERS: dict[str, Planner] = {
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "mean": _average,
    "min": _extreme,
    "max": _extreme,
}
