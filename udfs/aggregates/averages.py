"""AVG of numbers that are no decimals, and of day-time intervals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from sqlstream.udfs.aggregates.accumulator import Accumulator, Plan
from sqlstream.udfs.aggregates.counts import Count
from sqlstream.udfs.aggregates.groups import Source
from sqlstream.udfs.aggregates.numbers import column_of, numbers_of
from sqlstream.udfs.aggregates.sums import ExactSum, FloatSum, IntegerSum


def average(source: Source, type_: pa.DataType) -> Plan:
    """Sum and count. A BIGINT is added up as DOUBLE, as Spark does, so that its average cannot overflow."""
    exact = kinds.is_integer(type_) and type_.bit_width < 64
    total: Accumulator = IntegerSum(source, pa.int64()) if exact else FloatSum(source)
    return Plan((total, Count(Source((), source.filters, source.required))), _quotient)


def retracting_average(source: Source, type_: pa.DataType) -> Plan:
    """The average of whole numbers as an exact sum, because a DOUBLE does not get back to what it was."""
    if not kinds.is_integer(type_):
        return average(source, type_)
    return Plan((ExactSum(source), Count(Source((), source.filters, source.required))), _exact_quotient)


def _exact_quotient(low: pa.Array, high: pa.Array, count: pa.Array) -> pa.Array:
    counts = count.to_numpy()
    totals = high.to_numpy() * 2.0**32 + low.to_numpy()
    return column_of(totals / np.maximum(counts, 1), pa.float64(), counts == 0)


def interval_average(source: Source, type_: pa.DataType) -> Plan:
    """To the microsecond, rounded half up."""
    count = Count(Source((), source.filters, source.required))
    return Plan((IntegerSum(source, type_), count), _interval_quotient)


def _interval_quotient(total: pa.Array, count: pa.Array) -> pa.Array:
    counts = count.to_numpy()
    divisors = np.maximum(counts, 1)
    totals = numbers_of(total.fill_null(0))
    whole, rest = np.divmod(np.abs(totals), divisors)
    return column_of(np.sign(totals) * (whole + (rest >= divisors - rest)), total.type, counts == 0)


def _quotient(total: pa.Array, count: pa.Array) -> pa.Array:
    counts = count.to_numpy()
    totals = total.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy()
    return column_of(totals / np.maximum(counts, 1), pa.float64(), counts == 0)
