"""Conditions of joins, decided on pairs of rows in three-valued logic.

Values are compared as Spark does: NaN equals NaN and is above all numbers, -0.0 equals 0.0, strings are in the order of
their bytes, FALSE is below TRUE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce, singledispatch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.joins.condition import And, Compare, Comparison, Condition, IsNull, Not, Operand, Or, Truth
from sqlstream.udfs.joins.pairs import Pairs

Columns = dict[Operand, pa.Array]
"""The values of a part of the pairs, by the column that they come from."""


@singledispatch
def decided(condition: Condition, columns: Columns) -> pa.Array:
    """BOOLEAN: true, false, or NULL where it is unknown."""
    raise TypeError(f"nobody decides {type(condition).__name__}")


@decided.register
def _(condition: Compare, columns: Columns) -> pa.Array:
    left, right = columns[condition.left], columns[condition.right]
    if condition.comparison is not Comparison.NOT_DISTINCT:
        return compared(condition.comparison, left, right)
    equal = pc.fill_null(compared(Comparison.EQUAL, left, right), False)
    return pc.or_(equal, pc.and_(left.is_null(), right.is_null()))


@decided.register
def _(condition: IsNull, columns: Columns) -> pa.Array:
    return decided(condition.condition, columns).is_null()


@decided.register
def _(condition: Truth, columns: Columns) -> pa.Array:
    return columns[condition.operand]


@decided.register
def _(condition: Not, columns: Columns) -> pa.Array:
    return pc.invert(decided(condition.condition, columns))


@decided.register
def _(condition: And, columns: Columns) -> pa.Array:
    return reduce(pc.and_kleene, (decided(operand, columns) for operand in condition.conditions))


@decided.register
def _(condition: Or, columns: Columns) -> pa.Array:
    return reduce(pc.or_kleene, (decided(operand, columns) for operand in condition.conditions))


def fulfilling(pairs: Iterator[Pairs], condition: Condition | None, left: pa.Table, right: pa.Table) -> Iterator[Pairs]:
    """The pairs of rows of two tables for which the condition is true; all without one."""
    if condition is None:
        yield from pairs
        return
    values = {o: _whole((left, right)[o.side].column(o.column)) for o in condition.operands}
    for pair in pairs:
        indices = pa.array(pair.left), pa.array(pair.right)
        fulfilled = decided(condition, {o: column.take(indices[o.side]) for o, column in values.items()})
        chosen = np.asarray(pc.fill_null(fulfilled, False))
        if chosen.any():
            yield Pairs(pair.left[chosen], pair.right[chosen])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


_PLAIN: dict[Comparison, Callable[[pa.Array, pa.Array], pa.Array]] = {
    Comparison.EQUAL: pc.equal,
    Comparison.NOT_EQUAL: pc.not_equal,
    Comparison.LESS: pc.less,
    Comparison.LESS_OR_EQUAL: pc.less_equal,
    Comparison.GREATER: pc.greater,
    Comparison.GREATER_OR_EQUAL: pc.greater_equal,
}


def compared(comparison: Comparison, left: pa.Array, right: pa.Array) -> pa.Array:
    if pa.types.is_boolean(left.type):
        left, right = left.cast(pa.uint8()), right.cast(pa.uint8())
    result = _PLAIN[comparison](left, right)
    return _with_nan(comparison, left, right, result) if pa.types.is_floating(left.type) else result


def _with_nan(comparison: Comparison, left: pa.Array, right: pa.Array, result: pa.Array) -> pa.Array:
    """A comparison of numbers, where NaN is the greatest of them."""
    is_nan = pc.is_nan(left), pc.is_nan(right)
    among = pc.or_(*is_nan)
    if not among.true_count:
        return result
    ranks = (flags.cast(pa.uint8()) for flags in is_nan)
    return pc.if_else(among, _PLAIN[comparison](*ranks), result)
