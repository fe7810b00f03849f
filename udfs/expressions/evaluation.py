"""Evaluates expressions over Arrow columns, all rows at once.

Values are compared as Spark compares them: NaN equals NaN and is greater than all numbers, -0.0 equals 0.0, strings are
in the order of their bytes, FALSE is less than TRUE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.time_texts import clock_times
from sqlstream.types import DataType
from sqlstream.udfs.exchange import CLOCK
from sqlstream.udfs.expressions.tree import (
    Absolute,
    And,
    Arithmetic,
    Called,
    Chosen,
    Clock,
    Coalesced,
    Column,
    Compared,
    Comparison,
    Computed,
    Constant,
    Converted,
    Expression,
    Extracted,
    Formatted,
    Hour,
    IsNull,
    Like,
    Lowered,
    Negated,
    Not,
    OneOf,
    Or,
    SplitIndex,
)

Columns = Mapping[Column, pa.Array]
"""The values of the columns that an expression reads, all of one length. The column CLOCK, in microseconds, is there
where a ``Clock`` is."""

_COMPUTED_ONCE = frozenset({Called, Extracted, Formatted, Hour, Lowered, SplitIndex})
"""What costs more than looking up whether an expression has it twice."""


class _Known(dict[Any, pa.Array]):
    """Columns, and what was computed of them, by their expressions."""


def value(expression: Expression, columns: Columns) -> pa.Array:
    """The value of the expression in each row, as an Arrow array; BOOLEAN for conditions, NULL where they are
    unknown.
    """
    evaluate: Callable[[Any, Columns], pa.Array] = _EVALUATORS[type(expression)]
    if type(expression) not in _COMPUTED_ONCE or not isinstance(columns, _Known):
        return evaluate(expression, columns)
    if expression not in columns:
        columns[expression] = evaluate(expression, columns)
    return columns[expression]


def whole_column(expression: Expression, columns: Columns, rows: int) -> pa.Array:
    """The ``value`` of the expression as an array of so many rows, constants too."""
    result = value(expression, _Known(columns))
    return pa.repeat(result, rows) if isinstance(result, pa.Scalar) else result


def is_true(condition: Expression, columns: Columns) -> npt.NDArray[np.bool_]:
    """One boolean per row: true where the condition is true, false where it is false or unknown (NULL)."""
    return np.asarray(pc.fill_null(value(condition, _Known(columns)), False))


# --- logic ----------------------------------------------------------------------------------------------------


def _column(column: Column, columns: Columns) -> pa.Array:
    return columns[column]


def _constant(constant: Constant, columns: Columns) -> pa.Scalar:
    return pa.scalar(constant.value, _arrow(constant.type))


def _is_null(expression: IsNull, columns: Columns) -> pa.Array:
    return value(expression.part, columns).is_null()


def _not(expression: Not, columns: Columns) -> pa.Array:
    return pc.invert(value(expression.part, columns))


def _and(expression: And, columns: Columns) -> pa.Array:
    return reduce(pc.and_kleene, (value(condition, columns) for condition in expression.conditions))


def _or(expression: Or, columns: Columns) -> pa.Array:
    return reduce(pc.or_kleene, (value(condition, columns) for condition in expression.conditions))


def _coalesced(expression: Coalesced, columns: Columns) -> pa.Array:
    return pc.coalesce(*(value(part, columns) for part in expression.values))


def _chosen(expression: Chosen, columns: Columns) -> pa.Array:
    result = value(expression.values[-1], columns)
    for condition, branch in reversed([*zip(expression.conditions, expression.values, strict=False)]):
        chosen = pc.fill_null(value(condition, columns), False)
        result = pc.if_else(chosen, value(branch, columns), result)
    return result


# --- comparisons ----------------------------------------------------------------------------------------------

_PLAIN: dict[Comparison, Callable[[pa.Array, pa.Array], pa.Array]] = {
    Comparison.EQUAL: pc.equal,
    Comparison.NOT_EQUAL: pc.not_equal,
    Comparison.LESS: pc.less,
    Comparison.LESS_OR_EQUAL: pc.less_equal,
    Comparison.GREATER: pc.greater,
    Comparison.GREATER_OR_EQUAL: pc.greater_equal,
}


def _compared(expression: Compared, columns: Columns) -> pa.Array:
    left, right = value(expression.left, columns), value(expression.right, columns)
    if expression.comparison is not Comparison.NOT_DISTINCT:
        return compared(expression.comparison, left, right)
    equal = pc.fill_null(compared(Comparison.EQUAL, left, right), False)
    return pc.or_(equal, pc.and_(pc.is_null(left), pc.is_null(right)))


def compared(comparison: Comparison, left: pa.Array, right: pa.Array) -> pa.Array:
    """The result of the comparison for each pair of values, as a BOOLEAN array; NULL where either value is NULL. Both
    columns have the same type.
    """
    if pa.types.is_boolean(left.type):
        left, right = left.cast(pa.uint8()), right.cast(pa.uint8())
    result = _PLAIN[comparison](left, right)
    return _with_nan(comparison, left, right, result) if pa.types.is_floating(left.type) else result


def _with_nan(comparison: Comparison, left: pa.Array, right: pa.Array, result: pa.Array) -> pa.Array:
    """The result of a comparison of floating-point numbers, in which NaN is the greatest."""
    is_nan = pc.is_nan(left), pc.is_nan(right)
    among = pc.or_(*is_nan)
    if not among.true_count:
        return result
    ranks = (flags.cast(pa.uint8()) for flags in is_nan)
    return pc.if_else(among, _PLAIN[comparison](*ranks), result)


def _one_of(expression: OneOf, columns: Columns) -> pa.Array:
    return pc.is_in(value(expression.part, columns), pa.array(expression.values, _arrow(expression.type)))


# --- texts ----------------------------------------------------------------------------------------------------


def _like(expression: Like, columns: Columns) -> pa.Array:
    return pc.match_like(value(expression.part, columns), expression.pattern)


def _split_index(expression: SplitIndex, columns: Columns) -> pa.Array:
    texts, index = value(expression.part, columns), expression.index
    pieces = pc.split_pattern(texts, expression.separator, max_splits=index + 1)
    there = np.asarray(pc.fill_null(pc.greater(pc.list_value_length(pieces), index), False))
    there &= ~np.asarray(pc.fill_null(pc.equal(texts, ""), False))
    return pieces.values.take(pa.array(np.asarray(pieces.offsets)[:-1] + index, mask=~there))


def _lowered(expression: Lowered, columns: Columns) -> pa.Array:
    texts = value(expression.part, columns)
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return pc.ascii_lower(texts)
    # As Java does, but for letters newer than its Unicode.
    lowered = pc.utf8_lower(pc.replace_substring(texts, "\u0130", "i\u0307"))
    sigmas = pc.fill_null(pc.match_substring(texts, "\u03a3"), False)
    if not sigmas.true_count:
        return lowered
    # At the end of a word it has a form of its own.
    own = pa.array([text.lower() for text in texts.filter(sigmas).to_pylist()], texts.type)
    return pc.replace_with_mask(lowered, sigmas, own)


def _extracted(expression: Extracted, columns: Columns) -> pa.Array:
    texts = value(expression.part, columns)
    matched = pc.struct_field(pc.extract_regex(texts, expression.pattern), f"g{expression.group}")
    return pc.if_else(texts.is_valid(), pc.fill_null(matched, ""), pa.scalar(None, texts.type))


# --- times, and functions of users ------------------------------------------------------------------------------


def _clock(expression: Clock, columns: Columns) -> pa.Array:
    return columns[Column(CLOCK)].cast(pa.timestamp("us", "UTC"))


def same_zone(zone: str) -> str | None:
    """The name of a time zone of Spark, if Arrow has the same one by that name. Names without a region may be others:
    of some, Java makes zones without daylight saving.
    """
    if zone == "UTC":
        return zone
    try:
        pc.hour(pa.scalar(0, pa.timestamp("us", zone)))
    except pa.ArrowInvalid:
        return None
    return zone if "/" in zone else None


def _hour(expression: Hour, columns: Columns) -> pa.Array:
    return pc.hour(_shown(expression, columns)).cast(pa.int32())


def _shown(expression: Hour | Formatted, columns: Columns) -> pa.Array:
    return clock_times(value(expression.part, columns), expression.zone)


def _formatted(expression: Formatted, columns: Columns) -> pa.Array:
    """Each text once, of the many times that have the same."""
    unit = next((unit for letter, unit in _UNITS if letter in expression.format), "day")
    shown = pc.floor_temporal(_shown(expression, columns), unit=unit).dictionary_encode()
    times = shown.dictionary.cast(pa.timestamp("s"))
    years = times.to_numpy().astype("datetime64[Y]").astype(np.int64) + 1970  # Arrow's have 16 bits
    if not np.any((years < 0) | (years > 9999)):
        return pc.strftime(times, expression.format).take(shown.indices)
    formats = [expression.format.replace("%Y", _year(year)) for year in years.tolist()]
    texts = [pc.strftime(time, each).as_py() for time, each in zip(times, formats, strict=True)]
    return pa.array(texts, pa.string()).take(shown.indices)


_UNITS = (("%S", "second"), ("%M", "minute"), ("%H", "hour"))
"""The units of time that a format may show, the smallest first."""


def _year(year: int) -> str:
    """As Java writes years of four digits, with a sign where they have more or are before the year 0."""
    return f"+{year}" if year > 9999 else f"{'-' * (year < 0)}{abs(year):04}"


def _called(expression: Called, columns: Columns) -> pa.Array:
    assert expression.call is not None, f'"{expression.name}" is bound'
    given = [value(argument, columns) for argument in expression.arguments]
    rows = next(len(each) for each in given if not isinstance(each, pa.Scalar))
    if not rows:
        return pa.array([], _arrow(expression.type))
    return expression.call(*(pa.repeat(each, rows) if isinstance(each, pa.Scalar) else each for each in given))


# --- numbers --------------------------------------------------------------------------------------------------


def _converted(expression: Converted, columns: Columns) -> pa.Array:
    given, kind = value(expression.part, columns), _arrow(expression.type)
    return given if given.type == kind else given.cast(kind, safe=not pa.types.is_floating(kind))


def _computed(expression: Computed, columns: Columns) -> pa.Array:
    left, right = value(expression.left, columns), value(expression.right, columns)
    if expression.operator in (Arithmetic.DIVIDED, Arithmetic.MODULO):
        right = pc.if_else(pc.equal(right, pa.scalar(0, right.type)), pa.scalar(None, right.type), right)
    match expression.operator:
        case Arithmetic.PLUS:
            result = pc.add(left, right)
        case Arithmetic.MINUS:
            result = pc.subtract(left, right)
        case Arithmetic.TIMES:
            result = pc.multiply(left, right)
        case Arithmetic.DIVIDED:
            result = pc.divide(left, right)
        case Arithmetic.MODULO:  # has the sign of the dividend
            result = pc.subtract(left, pc.multiply(_whole(pc.divide(left, right)), right))
    kind = _arrow(expression.type)
    return result if result.type == kind else result.cast(kind)


def _whole(quotient: pa.Array) -> pa.Array:
    return pc.trunc(quotient) if pa.types.is_floating(quotient.type) else quotient


def _absolute(expression: Absolute, columns: Columns) -> pa.Array:
    return pc.abs(value(expression.part, columns))


def _negated(expression: Negated, columns: Columns) -> pa.Array:
    return pc.negate(value(expression.part, columns))


@cache
def _arrow(kind: DataType) -> pa.DataType:
    return kind.to_arrow()


_EVALUATORS: dict[type[Expression], Callable[..., pa.Array]] = {
    Absolute: _absolute,
    And: _and,
    Called: _called,
    Chosen: _chosen,
    Clock: _clock,
    Coalesced: _coalesced,
    Column: _column,
    Compared: _compared,
    Computed: _computed,
    Constant: _constant,
    Converted: _converted,
    Extracted: _extracted,
    Formatted: _formatted,
    Hour: _hour,
    IsNull: _is_null,
    Like: _like,
    Lowered: _lowered,
    Negated: _negated,
    Not: _not,
    OneOf: _one_of,
    Or: _or,
    SplitIndex: _split_index,
}
