"""Variance, standard deviation, skewness and kurtosis from central moments that merge without cancellation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates.accumulator import Accumulator, Columns, Plan
from sqlstream.udfs.aggregates.groups import Batch, Groups, Source
from sqlstream.udfs.aggregates.numbers import column_of, doubles_of
from sqlstream.udfs.aggregates.sums import add_up


@dataclass(frozen=True)
class Moments(Accumulator):
    """Count, mean and the sums of the 2nd to the ``order``-th powers of the distances to the mean."""

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
    """The mean of each group, exactly the number where all are equal: they then have no variance."""
    reference = _one_of_each(numbers, groups)
    means: np.ndarray = reference + add_up(numbers - reference[groups.ids], groups) / np.maximum(groups.sizes, 1)
    return means


def merged_means(counts: np.ndarray, means: np.ndarray, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """The counts and means of groups of parts, exactly the parts' mean where all are equal."""
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
    """VAR_POP, VAR_SAMP and their roots; NULL for no values, of a sample also for one."""
    return Plan((Moments(source, 2),), partial(_variance, sample, root))


def _variance(sample: bool, root: bool, count: pa.Array, mean: pa.Array, second: pa.Array) -> pa.Array:
    freedom = count.to_numpy() - int(sample)
    variance = second.to_numpy() / np.maximum(freedom, 1)
    return column_of(np.sqrt(variance) if root else variance, pa.float64(), freedom < 1)


def skewness(source: Source) -> Plan:
    return Plan((Moments(source, 3),), _skewness)


def _skewness(count: pa.Array, mean: pa.Array, *powers: pa.Array) -> pa.Array:
    n, second, third = count.to_numpy(), *(p.to_numpy() for p in powers)
    return column_of(np.sqrt(n) * third / np.sqrt(second**3), pa.float64(), (n == 0) | (second == 0))


def kurtosis(source: Source) -> Plan:
    """The excess over that of a normal distribution."""
    return Plan((Moments(source, 4),), _kurtosis)


def _kurtosis(count: pa.Array, mean: pa.Array, *powers: pa.Array) -> pa.Array:
    n, second, _, fourth = count.to_numpy(), *(p.to_numpy() for p in powers)
    return column_of(n * fourth / second**2 - 3, pa.float64(), (n == 0) | (second == 0))
