"""APPROX_COUNT_DISTINCT: HyperLogLog++ over Spark's hashes.

The registers are those of Spark, and so are results up to a few hundred distinct values, for which linear counting is
used. Above, Spark corrects the bias with measured tables; Ertl's estimator, which is used here, needs none. The error
is the same (5 % by default), but the numbers may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from sqlstream.udfs.aggregates.accumulator import Accumulator, Batch, Columns, Groups, Plan, Source
from sqlstream.udfs.aggregates.lists import exploded
from sqlstream.udfs.aggregates.sums import add_up

_RANK_BITS = 6
# Up to which estimate linear counting is better, for 4 to 18 bits (Heule et al. 2013).
_THRESHOLDS = (10, 20, 40, 80, 220, 400, 900, 1800, 3100, 6500, 11500, 20000, 50000, 120000, 350000)


@dataclass(frozen=True)
class HyperLogLog(Accumulator):
    """The set registers as ``register << 6 | rank``, ascending; there are ``2**bits`` registers.

    The source column has 64-bit hashes: the first ``bits`` select the register, the number of zeros after them is the
    rank.
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
    """The number of distinct hashes with a relative standard deviation of ``error``."""
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
