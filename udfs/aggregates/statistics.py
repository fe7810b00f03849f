"""Variance, standard deviation, skewness, kurtosis, covariance, correlation and linear regression, from central
moments, whose merging avoids cancellation; approximate aggregates from sketches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates.accumulator import (
    Accumulator,
    Batch,
    Columns,
    Groups,
    Plan,
    Source,
    column_of,
    doubles_of,
)
from sqlstream.udfs.aggregates.lists import exploded
from sqlstream.udfs.aggregates.sums import add_up


@dataclass(frozen=True)
class Moments(Accumulator):
    """The accumulator of variances, skewness and kurtosis: the count, the mean, and the sums of the 2nd to the
    ``order``-th powers of the distances to the mean.
    """

    order: int

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.int64(), *(pa.float64() for _ in range(self.order)))

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        numbers, groups = doubles_of(selection.columns[0]), selection.groups
        mean = means_of(numbers, groups)
        distances = numbers - mean[groups.ids]
        powers = [add_up(distances**k, groups) for k in range(2, self.order + 1)]
        return tuple(map(pa.array, (groups.sizes, mean, *powers)))

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        counts, means, *powers = (c.to_numpy() for c in columns)
        total, mean = merged_means(counts, means, groups)
        shifted = _shifted(counts, means - mean[groups.ids], powers)
        return tuple(map(pa.array, (total, mean, *(add_up(s, groups) for s in shifted))))


def means_of(numbers: np.ndarray, groups: Groups) -> np.ndarray:
    """The mean of each group; exactly the common value where all values are equal, so that the variance is 0."""
    reference = _one_of_each(numbers, groups)
    means: np.ndarray = reference + add_up(numbers - reference[groups.ids], groups) / np.maximum(groups.sizes, 1)
    return means


def merged_means(counts: np.ndarray, means: np.ndarray, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """The row count and the mean of each group, merged from those of its parts; exactly the parts' mean where all parts
    have the same.
    """
    total = add_up(counts, groups)
    present = np.flatnonzero(counts)
    reference = _one_of_each(means[present], Groups(groups.ids[present], groups.count))
    weights = counts / np.maximum(total, 1)[groups.ids]
    return total, reference + add_up(weights * (means - reference[groups.ids]), groups)


def _one_of_each(numbers: np.ndarray, groups: Groups) -> np.ndarray:
    """Any number of each group, 0 for empty ones."""
    samples = np.zeros(groups.count)
    samples[groups.ids] = numbers
    return samples


def _shifted(counts: np.ndarray, distance: np.ndarray, powers: list[np.ndarray]) -> list[np.ndarray]:
    """The sums of powers around a mean that is ``distance`` below a part's own (Pébay 2008)."""
    second, *higher = powers
    sums = [second + counts * distance**2]
    if higher:
        sums.append(higher[0] + 3 * distance * second + counts * distance**3)
    if len(higher) > 1:
        sums.append(higher[1] + 4 * distance * higher[0] + 6 * distance**2 * second + counts * distance**4)
    return sums


def variance(source: Source, *, sample: bool, root: bool) -> Plan:
    """The plan of VAR_POP, VAR_SAMP (``sample``) and their roots STDDEV_POP, STDDEV_SAMP (``root``); NULL for no
    values, for a sample also for a single one.
    """
    return Plan((Moments(source, 2),), partial(_variance, sample, root))


def _variance(sample: bool, root: bool, count: pa.Array, mean: pa.Array, second: pa.Array) -> pa.Array:
    freedom = count.to_numpy() - int(sample)
    variance = second.to_numpy() / np.maximum(freedom, 1)
    return column_of(np.sqrt(variance) if root else variance, pa.float64(), freedom < 1)


def skewness(source: Source) -> Plan:
    """The plan of SKEWNESS; NULL for no values or no variance."""
    return Plan((Moments(source, 3),), _skewness)


def _skewness(count: pa.Array, mean: pa.Array, *powers: pa.Array) -> pa.Array:
    n, second, third = count.to_numpy(), *(p.to_numpy() for p in powers)
    return column_of(np.sqrt(n) * third / np.sqrt(second**3), pa.float64(), (n == 0) | (second == 0))


def kurtosis(source: Source) -> Plan:
    """The plan of KURTOSIS, the excess over that of a normal distribution; NULL for no values or no variance."""
    return Plan((Moments(source, 4),), _kurtosis)


def _kurtosis(count: pa.Array, mean: pa.Array, *powers: pa.Array) -> pa.Array:
    n, second, _, fourth = count.to_numpy(), *(p.to_numpy() for p in powers)
    return column_of(n * fourth / second**2 - 3, pa.float64(), (n == 0) | (second == 0))


# --- covariance, correlation and linear regression of two columns ---------------------------------------------


@dataclass(frozen=True)
class Comoments(Accumulator):
    """The accumulator of statistics of two columns: the count, both means, both sums of squared distances to the mean,
    and the sum of the products of the distances.
    """

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
    """The columns of ``Comoments`` as NumPy arrays, for formulas."""

    n: np.ndarray
    x: np.ndarray
    y: np.ndarray
    xx: np.ndarray
    yy: np.ndarray
    xy: np.ndarray


Formula = Callable[[Sums], tuple[np.ndarray, np.ndarray]]
"""The results, and where they are NULL."""


def comoment(source: Source, formula: Formula) -> Plan:
    """The plan of a statistic of two columns, which ``formula`` computes from their ``Sums``."""
    return Plan((Comoments(source),), partial(_computed, formula))


def _computed(formula: Formula, *columns: pa.Array) -> pa.Array:
    numbers, missing = formula(Sums(*(c.to_numpy() for c in columns)))
    return column_of(numbers, pa.float64(), missing)


def covar_pop(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """COVAR_POP of each group: an array of values, and an array that is true where the result is NULL."""
    return s.xy / s.n, s.n == 0


def covar_samp(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """COVAR_SAMP of each group: an array of values, and an array that is true where the result is NULL."""
    return s.xy / (s.n - 1), s.n < 2


def corr(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """CORR of each group: an array of values, and an array that is true where the result is NULL."""
    return s.xy / np.sqrt(s.xx * s.yy), (s.n < 2) | (s.xx * s.yy == 0)


# Regression takes y first: REGR_SLOPE(y, x), so what the accumulator calls x is the dependent variable.


def regr_avgx(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """REGR_AVGX of each group: an array of values, and an array that is true where the result is NULL."""
    return s.y, s.n == 0


def regr_avgy(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """REGR_AVGY of each group: an array of values, and an array that is true where the result is NULL."""
    return s.x, s.n == 0


def regr_sxx(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """REGR_SXX of each group: an array of values, and an array that is true where the result is NULL."""
    return s.yy, s.n == 0


def regr_syy(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """REGR_SYY of each group: an array of values, and an array that is true where the result is NULL."""
    return s.xx, s.n == 0


def regr_sxy(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """REGR_SXY of each group: an array of values, and an array that is true where the result is NULL."""
    return s.xy, s.n == 0


def regr_slope(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """REGR_SLOPE of each group: an array of values, and an array that is true where the result is NULL."""
    return s.xy / s.yy, (s.n == 0) | (s.yy == 0)


def regr_intercept(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """REGR_INTERCEPT of each group: an array of values, and an array that is true where the result is NULL."""
    slope, missing = regr_slope(s)
    return s.x - slope * s.y, missing


def regr_r2(s: Sums) -> tuple[np.ndarray, np.ndarray]:
    """REGR_R2 of each group: an array of values, and an array that is true where the result is NULL. It is 1 if the
    dependent variable is constant, NULL if the independent one is.
    """
    ratio = np.where(s.xx == 0, 1.0, s.xy * s.xy / (s.xx * s.yy))
    return ratio, (s.n == 0) | (s.yy == 0)


# --- APPROX_COUNT_DISTINCT: HyperLogLog++ over Spark's hashes ----------------------------------------------------
# The registers are those of Spark, and so are results up to a few hundred distinct values, for which linear counting is
# used. Above, Spark corrects the bias with measured tables; Ertl's estimator, which is used here, needs none. The error
# is the same (5 % by default), but the numbers may differ.


_RANK_BITS = 6
# Up to which estimate linear counting is better, for 4 to 18 bits (Heule et al. 2013).
_THRESHOLDS = (10, 20, 40, 80, 220, 400, 900, 1800, 3100, 6500, 11500, 20000, 50000, 120000, 350000)


@dataclass(frozen=True)
class HyperLogLog(Accumulator):
    """The accumulator of APPROX_COUNT_DISTINCT: a HyperLogLog sketch of ``2**bits`` registers. Only registers that are
    set are stored, ascending, as ``register << 6 | rank``.

    The source column has 64-bit hashes: the first ``bits`` select the register, the rank is the number of zero bits
    after them.
    """

    bits: int

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (pa.list_(pa.int32()),)

    def lift(self, batch: Batch) -> Columns:
        selection = batch.select(self.source)
        hashes = selection.columns[0].to_numpy().view(np.uint64)
        registers = (hashes >> np.uint64(64 - self.bits)).astype(np.int64)
        return self._kept(registers << _RANK_BITS | self._ranks(hashes), selection.groups)

    def merge(self, columns: Columns, groups: Groups) -> Columns:
        entries, rows = exploded(columns[0])
        return self._kept(entries.to_numpy().astype(np.int64), Groups(groups.ids[rows.ids], groups.count))

    def _ranks(self, hashes: np.ndarray) -> np.ndarray:
        """One plus the number of leading zeros after the bits of the register."""
        rest = hashes << np.uint64(self.bits) | np.uint64(1 << (self.bits - 1))
        high, low = ((rest >> np.uint64(s)) & np.uint64(0xFFFFFFFF) for s in (32, 0))
        lengths = np.where(high > 0, np.frexp(high.astype(np.float64))[1] + 32, np.frexp(low.astype(np.float64))[1])
        return 65 - lengths.astype(np.int64)

    def _kept(self, entries: np.ndarray, groups: Groups) -> Columns:
        """The greatest rank of each register in each group."""
        shift = self.bits + _RANK_BITS
        ranked_entries = np.sort(groups.ids << shift | entries)
        ranked_entries = ranked_entries[
            np.append(ranked_entries[1:] >> _RANK_BITS != ranked_entries[:-1] >> _RANK_BITS, True)[
                : len(ranked_entries)
            ]
        ]
        kept = Groups(ranked_entries >> shift, groups.count)
        return (kept.lists(pa.array((ranked_entries & ((1 << shift) - 1)).astype(np.int32))),)


def approximate_count(source: Source, error: float) -> Plan:
    """The plan of APPROX_COUNT_DISTINCT over 64-bit hashes, with a relative standard deviation of ``error``."""
    bits = int(np.ceil(2 * np.log2(1.106 / error)))
    return Plan((HyperLogLog(source, bits),), partial(_estimates, bits))


def _estimates(bits: int, lists: pa.Array) -> pa.Array:
    entries, groups = exploded(lists)
    ranks = entries.to_numpy().astype(np.int64) & ((1 << _RANK_BITS) - 1)
    size = 1 << bits
    unset = size - groups.sizes
    linear = size * np.log(size / np.maximum(unset, 1))
    raw = _alpha(size) * size**2 / (add_up(2.0**-ranks, groups) + unset)
    small = (unset > 0) & ((linear <= _threshold(bits)) | (raw <= 2.5 * size))
    estimates = linear
    for group in np.flatnonzero(~small):
        start, end = groups.offsets[group : group + 2]
        estimates[group] = _ertl(np.bincount(ranks[start:end], minlength=66 - bits), unset[group], bits)
    return pa.array(np.round(estimates).astype(np.int64))


def _alpha(size: int) -> float:
    return {16: 0.673, 32: 0.697, 64: 0.709}.get(size, 0.7213 / (1 + 1.079 / size))


def _threshold(bits: int) -> int:
    return _THRESHOLDS[bits - 4] if bits < 19 else 0


# --- Ertl's improved raw estimator (2017, arXiv:1702.01284, algorithm 6) --------------------------------------


def _ertl(counts: np.ndarray, unset: int, bits: int) -> float:
    """``counts``: how many registers have each rank."""
    size, last = 1 << bits, 64 - bits
    z = size * _tau(1 - counts[last + 1] / size)
    for rank in range(last, 0, -1):
        z = 0.5 * (z + counts[rank])
    return float(size**2 / (2 * np.log(2) * (z + size * _sigma(unset / size))))


def _sigma(x: float) -> float:
    total, step, before = x, 1.0, -1.0
    while total != before:
        x, before = x * x, total
        total += x * step
        step += step
    return total


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    total, step, before = 1 - x, 1.0, -1.0
    while total != before:
        x, before = float(np.sqrt(x)), total
        step *= 0.5
        total -= (1 - x) ** 2 * step
    return total / 3
