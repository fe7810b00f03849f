"""Covariance, correlation and linear regression of two columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates.accumulator import Accumulator, Columns, Plan
from sqlstream.udfs.aggregates.groups import Batch, Groups, Source
from sqlstream.udfs.aggregates.moments import means_of, merged_means
from sqlstream.udfs.aggregates.numbers import column_of, doubles_of
from sqlstream.udfs.aggregates.sums import add_up


@dataclass(frozen=True)
class Comoments(Accumulator):
    """Count, both means, both sums of squared distances to the mean, and the sum of the products of the distances."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(), *(pa.float64() for _ in range(5)))

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        groups, numbers = selection.groups, [doubles_of(c) for c in selection.columns]
        means = [means_of(n, groups) for n in numbers]
        x, y = (n - mean[groups.ids] for n, mean in zip(numbers, means, strict=True))
        return tuple(map(pa.array, (groups.sizes, *means, *(add_up(p, groups) for p in (x * x, y * y, x * y)))))

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        counts, x_means, y_means, *products = (c.to_numpy() for c in columns)
        total, x_mean = merged_means(counts, x_means, groups)
        y_mean = merged_means(counts, y_means, groups)[1]
        x, y = x_means - x_mean[groups.ids], y_means - y_mean[groups.ids]
        shifted = (p + counts * d for p, d in zip(products, (x * x, y * y, x * y), strict=True))
        return tuple(map(pa.array, (total, x_mean, y_mean, *(add_up(s, groups) for s in shifted))))


@dataclass(frozen=True)
class Sums:
    """The columns of ``Comoments`` as numbers."""

    n: np.ndarray
    x: np.ndarray
    y: np.ndarray
    xx: np.ndarray
    yy: np.ndarray
    xy: np.ndarray


Formula = Callable[[Sums], tuple[np.ndarray, np.ndarray]]
"""The results, and where they are NULL."""


def comoment(source: Source, formula: Formula) -> Plan:
    return Plan((Comoments(source),), partial(_computed, formula))


def _computed(formula: Formula, *columns: pa.Array) -> pa.Array:
    numbers, missing = formula(Sums(*(c.to_numpy() for c in columns)))
    return column_of(numbers, pa.float64(), missing)


def covar_pop(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    return s.xy / s.n, s.n == 0


def covar_samp(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    return s.xy / (s.n - 1), s.n < 2


def corr(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    return s.xy / np.sqrt(s.xx * s.yy), (s.n < 2) | (s.xx * s.yy == 0)


# Regression takes y first: REGR_SLOPE(y, x), so what the accumulator calls x is the dependent variable.


def regr_avgx(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    return s.y, s.n == 0


def regr_avgy(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    return s.x, s.n == 0


def regr_sxx(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    return s.yy, s.n == 0


def regr_syy(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    return s.xx, s.n == 0


def regr_sxy(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    return s.xy, s.n == 0


def regr_slope(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    return s.xy / s.yy, (s.n == 0) | (s.yy == 0)


def regr_intercept(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    slope, missing = regr_slope(s)
    return s.x - slope * s.y, missing


def regr_r2(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """1 where the dependent variable does not vary, NULL where the other does not."""
    ratio = np.where(s.xx == 0, 1.0, s.xy * s.xy / (s.xx * s.yy))
    return ratio, (s.n == 0) | (s.yy == 0)
