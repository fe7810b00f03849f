"""Numbers for key groups that Spark spreads evenly over its partitions.

Spark sends a row to the partition ``hash(key) mod partitions``; of small numbers it sends a third more to some
partitions than to others. Key group ``g`` of ``n`` therefore goes under a number whose hash is ``g mod n``, so that
every partition gets as many key groups as any other where ``n`` is a multiple of the partitions.
"""

from __future__ import annotations

import numpy as np

_SEED = 42  # of Spark's hash partitioning


def numbers_of(groups: int) -> np.ndarray:
    """int32: the number under which each of ``groups`` key groups goes; never another one for the same ``groups``."""
    candidates = groups
    while True:
        candidates *= 2
        groups_hit, first = np.unique(murmur3(np.arange(candidates, dtype=np.uint32)) % groups, return_index=True)
        if len(groups_hit) == groups:
            return first.astype(np.int32)


def murmur3(values: np.ndarray) -> np.ndarray:
    """int32: Spark's hash of INT values, which are uint32 here."""
    k = _rotated(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = _rotated(np.uint32(_SEED) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)  # bytes
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (h ^ (h >> np.uint32(16))).view(np.int32)


def _rotated(values: np.ndarray, bits: int) -> np.ndarray:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
