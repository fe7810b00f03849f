"""Which aggregate functions are executed, and how each is planned; the aggregates of users."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.errors import UnsupportedError
from sqlstream.functions.aggregates import ORDERED_TYPES
from sqlstream.functions.catalogue import aggregate_of
from sqlstream.types import from_arrow
from sqlstream.udfs.aggregates import lists, statistics
from sqlstream.udfs.aggregates.accumulator import (
    ARRIVAL,
    Accumulator,
    AggregateCall,
    Batch,
    Columns,
    Groups,
    Ordering,
    Plan,
    Source,
)
from sqlstream.udfs.aggregates.changes import less_what_went, over_net_rows
from sqlstream.udfs.aggregates.extremes import Extreme, Picked, PickedByNumber, PickedByOrder
from sqlstream.udfs.aggregates.lists import collected, joined, over_distinct, over_rows
from sqlstream.udfs.aggregates.ordered import NTH_VALUE, PickedInOrder, nth_value, over_sorted
from sqlstream.udfs.aggregates.statistics import approximate_count, kurtosis, skewness, variance
from sqlstream.udfs.aggregates.sums import (
    Bits,
    Count,
    DecimalSum,
    FloatSum,
    IntegerSum,
    average,
    decimal_average,
    interval_average,
    retracting_average,
    sum_type,
)
from sqlstream.udfs.columnar import arrow_array, called, python_values
from sqlstream.udfs.kernel import ROW_KIND

# --- aggregates of users, which run row by row ----------------------------------------------------------------


@dataclass(frozen=True)
class UserState(Accumulator):
    """The state objects of a user's aggregate class, one per group, stored pickled."""

    function: str
    implementation: Callable[[], Any]

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.binary(),)

    def lift(self, batch: Batch) -> Columns:
        selection, aggregate = batch.select(self.source), self.implementation()
        states = [self._call(aggregate.create) for _ in range(selection.groups.count)]
        for group, *row in zip(selection.groups.ids.tolist(), *map(python_values, selection.columns), strict=True):
            states[group] = self._changed(aggregate.accumulate, states[group], *row)
        return (_pickled(states),)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        aggregate = self.implementation()
        states: dict[int, object] = {}
        for group, other in zip(groups.ids.tolist(), map(pickle.loads, columns[0].to_pylist()), strict=True):
            states[group] = self._changed(aggregate.merge, states[group], other) if group in states else other
        return (_pickled(states[g] if g in states else self._call(aggregate.create) for g in range(groups.count)),)

    def _changed(self, change: Callable[..., object], state: object, *arguments: object) -> object:
        """The state after a change, which returns the new one, or None where it changed the given one."""
        changed = self._call(change, state, *arguments)
        return state if changed is None else changed

    def _call(self, function: Callable[..., object], *arguments: object) -> object:
        return called(self.function, function, arguments)


def _pickled(states: Iterable[object]) -> pa.Array:
    return pa.array([pickle.dumps(state) for state in states], pa.binary())


def useraggregate_of(source: Source, function: str, implementation: Callable[[], Any], result: pa.DataType) -> Plan:
    """The plan of a user's aggregate ``function``. ``implementation`` creates an instance of the user's class;
    ``result`` is the type of the result.
    """
    return Plan((UserState(source, function, implementation),), partial(_finish, function, implementation, result))


def _finish(function: str, implementation: Callable[[], Any], result: pa.DataType, states: pa.Array) -> pa.Array:
    aggregate = implementation()
    results = [called(function, aggregate.finish, (pickle.loads(state),)) for state in states.to_pylist()]
    return arrow_array(function, results, result)


NOT_EXECUTED = "SS395"


@dataclass(frozen=True)
class _Call:
    """A call and the types of its arguments and orderings. ``by_number`` and ``retracting``: as in ``Aggregates``."""

    call: AggregateCall
    schema: pa.Schema
    by_number: bool = False
    retracting: bool = False

    @property
    def type(self) -> pa.DataType:
        return self.types[0]

    @property
    def types(self) -> list[pa.DataType]:
        return [self.schema.field(name).type for name in self.call.arguments]

    @property
    def filters(self) -> tuple[str, ...]:
        return (self.call.filter,) if self.call.filter is not None else ()

    @property
    def source(self) -> Source:
        """The arguments of the rows of FILTER in which none of them is NULL."""
        return Source(self.call.arguments, self.filters, self.call.arguments)

    @property
    def ordered(self) -> tuple[str, ...]:
        """The first argument and the columns of ORDER BY."""
        return (*self.call.arguments[:1], *(o.column for o in self.call.order))

    def refused(self, reason: str, hint: str | None = None) -> UnsupportedError:
        return UnsupportedError(NOT_EXECUTED, f'aggregate function "{self.call.function}" {reason}', hint=hint)

    def require(self, taken: frozenset[str], index: int = 0) -> None:
        """SS395 where an argument has none of these types."""
        kind = from_arrow(self.types[index])
        if kind.name not in taken:
            raise self.refused(f"is not executed for the type {kind}", "Convert the argument, as in CAST(x AS DOUBLE).")


Planner = Callable[[_Call], Plan]


def supports(function: str) -> bool:
    """True if the aggregate function with this name (Spark's, in lower case) is executed."""
    aggregate = aggregate_of(function)
    return aggregate is not None and aggregate.name in _PLANNERS


def shows_arrival(call: AggregateCall) -> bool:
    """True if the result of the call may depend on the order in which rows arrived."""
    if call.implementation is not None:
        return not getattr(call.implementation, "any_order", False)
    aggregate = aggregate_of(call.function)
    return aggregate is not None and aggregate.shows_arrival


def plan_of(call: AggregateCall, schema: pa.Schema, *, by_number: bool = False, retracting: bool = False) -> Plan:
    """The plan of the aggregate call over columns of ``schema``. Raises UnsupportedError SS395 if it is not executed.

    ``by_number``: accumulators may be merged in any order, because the column ARRIVAL has the order of arrival.
    ``retracting``: prefer accumulators from which rows can be removed.
    """
    aggregate = aggregate_of(call.function)
    typed_call = _Call(call, schema, by_number and shows_arrival(call), retracting)
    if call.distinct and (call.implementation is not None or aggregate is None or not aggregate.idempotent):
        return _over_distinct(typed_call)
    if call.implementation is not None:
        return _user(typed_call)
    if call.function == NTH_VALUE:
        return _nth_value(typed_call)
    if aggregate is None or aggregate.name not in _PLANNERS:
        raise typed_call.refused("is not executed", "A Python class can be an aggregate function: CREATE FUNCTION.")
    count = aggregate.columns
    if count is not None and len(call.arguments) != count:
        raise typed_call.refused(f"is executed with {count} column{'s' * (count != 1)}, not {len(call.arguments)}")
    for index, taken in enumerate((aggregate.kernel or ())[: len(call.arguments)]):
        if taken is not None:
            typed_call.require(taken, index)
    return _PLANNERS[aggregate.name](typed_call)


def plan_over_changes(
    call: AggregateCall, schema: pa.Schema, identified_by: tuple[str, ...] = (), *, by_number: bool = False
) -> Plan:
    """The plan of the aggregate call over a changelog, whose column ROW_KIND says which rows are inserted and which
    retracted.

    If the result depends on the order of rows, a retraction removes the last row with the same arguments and the same
    values of ``identified_by``. ``by_number``: accumulators may be merged in any order, because the column ARRIVAL has
    the order of arrival.
    """
    plain = plan_of(call, schema, retracting=True)
    if call.every_change:
        return plain
    subtracting = less_what_went(plain)
    if subtracting is not None:
        return subtracting
    ordered = shows_arrival(call)
    numbered_call = _Call(call, schema, by_number and ordered)
    columns, own, inner = _apart(numbered_call, distinct=call.distinct, identified_by=identified_by if ordered else ())
    source = Source((*columns, ROW_KIND), numbered_call.filters)
    return over_net_rows(source, own, inner, ordered=ordered, by_number=numbered_call.by_number)


def _over_distinct(call: _Call) -> Plan:
    """The function over the distinct arguments, as columns 0, 1, …; orderings come after them."""
    columns, schema, inner = _apart(call)
    compared = len(call.call.arguments)
    return over_distinct(Source(columns, call.filters), schema, compared, inner, by_number=call.by_number)


def _over_rows(call: _Call) -> Plan:
    """The function over the rows, all of which are kept, in order of arrival."""
    columns, schema, inner = _apart(call)
    return over_rows(Source(columns, call.filters), schema.remove(len(schema) - 1), inner)


def _over_sorted(call: _Call) -> Plan:
    """The function over all rows in the order of ORDER BY, and then of arrival."""
    unordered = replace(call, call=replace(call.call, order=()), by_number=False)
    _, _, inner = _apart(unordered)
    _, _, order = _list_source(call)
    columns = (*call.call.arguments, *(ordering.column for ordering in order))
    types = tuple(call.schema.field(name).type for name in columns)
    return over_sorted(Source(columns, call.filters), types, order, inner)


def _apart(
    call: _Call, *, distinct: bool = False, identified_by: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], pa.Schema, Plan]:
    """The columns that the function reads, as columns 0, 1, … of a schema, and its plan over these: the arguments,
    the orderings, and what the function itself does not see, ``identified_by`` and the numbers of rows."""
    arguments, order = call.call.arguments, tuple(o.column for o in call.call.order)
    columns = (*arguments, *order, *identified_by, *([ARRIVAL] if call.by_number else []))
    schema = pa.schema([(str(i), call.schema.field(name).type) for i, name in enumerate(columns)])
    renamed = tuple(replace(o, column=str(len(arguments) + i)) for i, o in enumerate(call.call.order))
    places = tuple(map(str, range(len(arguments))))
    inner = replace(call.call, arguments=places, order=renamed, filter=None, distinct=distinct)
    return columns, schema, plan_of(inner, schema)


# --- functions ------------------------------------------------------------------------------------------------


def _kept(value: pa.Array) -> pa.Array:
    return value


def _picked(present: pa.Array, value: pa.Array) -> pa.Array:
    return value


def _picked_in_order(present: pa.Array, value: pa.Array, *keys: pa.Array) -> pa.Array:
    return value


def _picked_by_order(value: pa.Array, *key: pa.Array) -> pa.Array:
    return value


def _count(call: _Call) -> Plan:
    source = call.source
    return Plan((Count(Source((), source.filters, source.required)),), _kept)


def _count_if(call: _Call) -> Plan:
    return Plan((Count(Source((), (*call.filters, *call.call.arguments))),), _kept)


def _sum(call: _Call) -> Plan:
    total = _total(call)
    if not call.retracting:
        return Plan((total,), _kept)
    source = call.source
    return Plan((total, Count(Source((), source.filters, source.required))), _unless_none)


def _total(call: _Call) -> Accumulator:
    if kinds.is_decimal(call.type):
        return DecimalSum(call.source, sum_type(call.type))
    if kinds.is_floating(call.type):
        return FloatSum(call.source)
    return IntegerSum(call.source, call.type if kinds.is_duration(call.type) else pa.int64())


def _unless_none(total: pa.Array, count: pa.Array) -> pa.Array:
    """The sum of no values is NULL, also where values were there and have gone."""
    return pc.if_else(pc.greater(count, 0), total, pa.scalar(None, total.type))


def _average(call: _Call) -> Plan:
    if kinds.is_duration(call.type):
        return interval_average(call.source, call.type)
    if kinds.is_decimal(call.type):
        return decimal_average(call.source, call.type, call.call.result)
    return (retracting_average if call.retracting else average)(call.source, call.type)


def _extreme(greatest: bool) -> Planner:
    return lambda call: Plan((Extreme(call.source, call.type, greatest),), _kept)


def _pick(last: bool) -> Planner:
    def plan(call: _Call) -> Plan:
        required = call.call.arguments if call.call.ignore_nulls else ()
        if call.call.order:
            source, types, order = _list_source(call)
            return Plan((PickedInOrder(replace(source, required=required), types, order, last),), _picked_in_order)
        if call.by_number:
            source = Source((*call.call.arguments, ARRIVAL), call.filters, required)
            return Plan((PickedByNumber(source, call.type, last),), _picked_by_order)
        return Plan((Picked(Source(call.call.arguments, call.filters, required), call.type, last),), _picked)

    return plan


def _nth_value(call: _Call) -> Plan:
    n, last = call.call.constants
    assert isinstance(n, int) and isinstance(last, bool)
    required = call.call.arguments if call.call.ignore_nulls else ()
    return nth_value(Source(call.call.arguments, call.filters, required), call.type, n, last=last)


def _pick_by_order(greatest: bool) -> Planner:
    def plan(call: _Call) -> Plan:
        columns = (*call.call.arguments, *([ARRIVAL] if call.by_number else []))
        source = Source(columns, call.filters, call.call.arguments[1:])
        return Plan((PickedByOrder(source, call.types[0], call.types[1], greatest, call.by_number),), _picked_by_order)

    return plan


def _list_source(call: _Call) -> tuple[Source, tuple[pa.DataType, ...], tuple[Ordering, ...]]:
    for name in call.ordered[1:]:
        _Call(replace(call.call, arguments=(name,)), call.schema).require(ORDERED_TYPES)
    columns = (*call.ordered, *([ARRIVAL] if call.by_number else []))
    types = tuple(call.schema.field(name).type for name in columns)
    order = (*call.call.order, *([Ordering(ARRIVAL)] if call.by_number else []))
    required = () if call.call.respect_nulls else call.call.arguments
    return Source(columns, call.filters, required), types, order


def _collect_list(call: _Call) -> Plan:
    return collected(*_list_source(call))


def _listagg(call: _Call) -> Plan:
    separator = call.call.constants[0] if call.call.constants else None
    return joined(*_list_source(call), "" if separator is None else str(separator))


def _collect_set(call: _Call) -> Plan:
    return _over_distinct(replace(call, call=replace(call.call, function="collect_list")))


def _approximate_count(call: _Call) -> Plan:
    error = _number(call.call.constants[0]) if call.call.constants else 0.05
    if not 0.0005 < error <= 0.39:
        raise call.refused(f"is not executed with the error {error}", "Give an error between 0.001 and 0.39.")
    return approximate_count(call.source, error)


def _moment(plan: Callable[[Source], Plan]) -> Planner:
    return lambda call: plan(call.source)


def _variance(*, sample: bool, root: bool) -> Planner:
    return _moment(lambda source: variance(source, sample=sample, root=root))


def _comoment(formula: statistics.Formula) -> Planner:
    return lambda call: statistics.comoment(call.source, formula)


def _bits(call: _Call) -> Plan:
    return Plan((Bits(call.source, call.type, call.call.function),), _kept)


def _median(call: _Call) -> Plan:
    return lists.interpolated(call.source, call.type, 0.5)


def _percentile(call: _Call) -> Plan:
    if len(call.types) > 1:
        return lists.weighted(call.source, call.types, _percentages(call))
    return lists.interpolated(call.source, call.type, _percentages(call), descending=_descending(call))


def _discrete_percentile(call: _Call) -> Plan:
    return lists.discrete(call.source, call.type, _percentages(call), descending=_descending(call))


def _mode(call: _Call) -> Plan:
    if call.by_number:
        return _over_rows(call)
    greatest = _descending(call)
    least = not greatest and bool(call.call.order or call.call.constants[:1] == (True,))
    if least or greatest:
        call.require(ORDERED_TYPES)
    return lists.mode(call.source, call.type, least=least, greatest=greatest)


def _descending(call: _Call) -> bool:
    return any(o.descending for o in call.call.order)


def _percentages(call: _Call) -> lists.Percentages:
    constant = call.call.constants[0] if call.call.constants else None
    numbers = tuple(map(_number, constant)) if isinstance(constant, tuple) else (_number(constant),)
    if not all(0 <= n <= 1 for n in numbers):
        raise call.refused("needs percentages between 0 and 1", "Write the median as 0.5.")
    return numbers if isinstance(constant, tuple) else numbers[0]


def _number(constant: object) -> float:
    return float(constant) if isinstance(constant, int | float) else float("nan")


def _user(call: _Call) -> Plan:
    if call.call.order:
        return _over_sorted(call)
    if call.by_number:
        return _over_rows(call)
    source = Source(call.call.arguments, call.filters)
    return useraggregate_of(source, call.call.function, call.call.implementation, call.call.result)


_PLANNERS: dict[str, Planner] = {
    "count": _count,
    "count_if": _count_if,
    "sum": _sum,
    "avg": _average,
    "min": _extreme(False),
    "max": _extreme(True),
    "first": _pick(False),
    "last": _pick(True),
    "min_by": _pick_by_order(False),
    "max_by": _pick_by_order(True),
    "bool_and": _extreme(False),
    "bool_or": _extreme(True),
    "bit_and": _bits,
    "bit_or": _bits,
    "bit_xor": _bits,
    "collect_list": _collect_list,
    "collect_set": _collect_set,
    "listagg": _listagg,
    "approx_count_distinct": _approximate_count,
    "var_pop": _variance(sample=False, root=False),
    "var_samp": _variance(sample=True, root=False),
    "stddev_pop": _variance(sample=False, root=True),
    "stddev_samp": _variance(sample=True, root=True),
    "skewness": _moment(skewness),
    "kurtosis": _moment(kurtosis),
    "covar_pop": _comoment(statistics.covar_pop),
    "covar_samp": _comoment(statistics.covar_samp),
    "corr": _comoment(statistics.corr),
    "regr_count": _count,
    "regr_avgx": _comoment(statistics.regr_avgx),
    "regr_avgy": _comoment(statistics.regr_avgy),
    "regr_sxx": _comoment(statistics.regr_sxx),
    "regr_syy": _comoment(statistics.regr_syy),
    "regr_sxy": _comoment(statistics.regr_sxy),
    "regr_slope": _comoment(statistics.regr_slope),
    "regr_intercept": _comoment(statistics.regr_intercept),
    "regr_r2": _comoment(statistics.regr_r2),
    "median": _median,
    "percentile": _percentile,
    "percentile_cont": _percentile,
    "percentile_disc": _discrete_percentile,
    "percentile_approx": _discrete_percentile,
    "mode": _mode,
}
