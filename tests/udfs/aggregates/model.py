"""Aggregate functions as loops over rows in plain Python, by Spark's definitions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import cmp_to_key, reduce
from operator import and_, or_, xor
from typing import Any

Values = Sequence[Any]

_EXACT = Context(prec=100)


def present(values: Values) -> list[Any]:
    return [v for v in values if v is not None]


def compare(left: Any, right: Any) -> int:
    """Spark's order: NaN is the greatest number."""
    if isinstance(left, float) and math.isnan(left):
        return 0 if math.isnan(right) else 1
    if isinstance(right, float) and math.isnan(right):
        return -1
    return int(left > right) - int(left < right)


KEY = cmp_to_key(compare)


def distinct(values: Values) -> list[Any]:
    """In order of first appearance; NaN equals NaN, -0.0 is 0.0."""
    collected: dict[Any, Any] = {}
    for value in values:
        plain = value + 0.0 if isinstance(value, float) else value
        collected.setdefault("NaN" if isinstance(plain, float) and math.isnan(plain) else plain, plain)
    return list(collected.values())


def total(values: Values) -> Any:
    if not values:
        return None
    if isinstance(values[0], Decimal):
        return reduce(_EXACT.add, values)
    return sum(values, type(values[0])(0))


def average(values: Values) -> Any:
    if not values:
        return None
    if isinstance(values[0], Decimal):
        scale = 4 - int(values[0].as_tuple().exponent)
        quotient = _EXACT.divide(total(values), Decimal(len(values)))
        return quotient.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    return sum(map(float, values)) / len(values)


def moment(values: Values, power: int) -> float:
    """In fractions: the mean of equal floats may differ from them, and what is no spread would be one."""
    exact = [Fraction(float(v)) for v in values]
    mean = sum(exact) / len(exact)
    return float(sum((v - mean) ** power for v in exact))


def variance(values: Values, freedom: int) -> float | None:
    return moment(values, 2) / (len(values) - freedom) if len(values) > freedom else None


def root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def skewness(values: Values) -> float | None:
    spread = moment(values, 2) if values else 0
    return math.sqrt(len(values)) * moment(values, 3) / math.sqrt(spread**3) if spread else None


def kurtosis(values: Values) -> float | None:
    spread = moment(values, 2) if values else 0
    return len(values) * moment(values, 4) / spread**2 - 3 if spread else None


def interpolated(values: Values, percentage: float) -> float | None:
    if not values:
        return None
    ordered = sorted(map(float, values), key=KEY)
    place = (len(ordered) - 1) * percentage
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low if low == high else (math.ceil(place) - place) * low + (place - math.floor(place)) * high


def discrete(values: Values, percentage: float) -> Any:
    return sorted(values, key=KEY)[max(math.ceil(len(values) * percentage), 1) - 1] if values else None


def mode(values: Values) -> Any:
    return Counter(values).most_common(1)[0][0] if values else None


def products(rows: Values) -> tuple[float, float, float]:
    x_mean, y_mean = (sum(float(r[i]) for r in rows) / len(rows) for i in (0, 1))
    pairs = [(float(x) - x_mean, float(y) - y_mean) for x, y in rows]
    return sum(x * x for x, _ in pairs), sum(y * y for _, y in pairs), sum(x * y for x, y in pairs)


def correlation(rows: Values) -> float | None:
    if len(rows) < 2:
        return None
    xx, yy, xy = products(rows)
    return xy / math.sqrt(xx * yy) if xx * yy else None


def by_order(rows: Values, *, greatest: bool) -> Any:
    """Of equal keys the last row counts."""
    actual = None
    for row in rows:
        if row[1] is not None and (actual is None or compare(row[1], actual[1]) * (1 if greatest else -1) >= 0):
            actual = row
    return actual and actual[0]


def complete(rows: Values) -> list[Any]:
    return [row for row in rows if None not in row]


ONE: dict[str, Callable[[Values], Any]] = {
    "count": lambda v: len(present(v)),
    "sum": lambda v: total(present(v)),
    "avg": lambda v: average(present(v)),
    "min": lambda v: min(present(v), key=KEY, default=None),
    "max": lambda v: max(present(v), key=KEY, default=None),
    "first": lambda v: v[0] if v else None,
    "last": lambda v: v[-1] if v else None,
    "collect_list": present,
    "collect_set": lambda v: distinct(present(v)),
    "listagg": lambda v: ",".join(present(v)) if present(v) else None,
    "bool_and": lambda v: all(present(v)) if present(v) else None,
    "bool_or": lambda v: any(present(v)) if present(v) else None,
    "count_if": lambda v: sum(present(v)),
    "bit_and": lambda v: reduce(and_, present(v)) if present(v) else None,
    "bit_or": lambda v: reduce(or_, present(v)) if present(v) else None,
    "bit_xor": lambda v: reduce(xor, present(v)) if present(v) else None,
    "var_pop": lambda v: variance(present(v), 0),
    "var_samp": lambda v: variance(present(v), 1),
    "stddev_pop": lambda v: root(variance(present(v), 0)),
    "stddev_samp": lambda v: root(variance(present(v), 1)),
    "skewness": lambda v: skewness(present(v)),
    "kurtosis": lambda v: kurtosis(present(v)),
    "median": lambda v: interpolated(present(v), 0.5),
    "percentile": lambda v: interpolated(present(v), 0.3),
    "percentile_approx": lambda v: discrete(present(v), 0.3),
    "mode": lambda v: mode(present(v)),
}

TWO: dict[str, Callable[[Values], Any]] = {
    "count": lambda rows: len(complete(rows)),
    "min_by": lambda rows: by_order(rows, greatest=False),
    "max_by": lambda rows: by_order(rows, greatest=True),
    "corr": lambda rows: correlation(complete(rows)),
    "covar_pop": lambda rows: products(complete(rows))[2] / len(complete(rows)) if complete(rows) else None,
    "covar_samp": lambda rows: (
        products(complete(rows))[2] / (len(complete(rows)) - 1) if len(complete(rows)) > 1 else None
    ),
    "regr_count": lambda rows: len(complete(rows)),
    "regr_sxx": lambda rows: products(complete(rows))[1] if complete(rows) else None,
}
