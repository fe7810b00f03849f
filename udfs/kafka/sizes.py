"""How many bytes tasks have fetched of each partition of topics, for metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Sizes = Mapping[tuple[str, int], int]
"""Bytes by topic and partition."""


class SizeCounter(Protocol):
    """Takes the sizes of batches; in a task an accumulator of Spark, which reports them when the task has ended."""

    def add(self, term: Sizes) -> None:
        """Adds the bytes of a batch."""


class AddedSizes:
    """How an accumulator of Spark adds sizes: PySpark's ``AccumulatorParam``. The sums are new dictionaries, so readers
    in other threads see whole ones.
    """

    def zero(self, value: Sizes) -> Sizes:
        """The sum of nothing."""
        return {}

    def addInPlace(self, value1: Sizes, value2: Sizes) -> Sizes:  # noqa: N802 — as Spark calls it
        """The sum of two."""
        return {slot: value1.get(slot, 0) + value2.get(slot, 0) for slot in dict.fromkeys([*value1, *value2])}


def sizes_of(columns: Sequence[pa.Array], slots: Sequence[tuple[str, int]], index: np.ndarray) -> Sizes:
    """The bytes of binary columns by slot. ``index``: that of each row in ``slots``. Arrow and NumPy add them up."""
    lengths = np.zeros(len(index))
    for column in columns:
        lengths += pc.binary_length(column).fill_null(0).to_numpy()
    sums = np.bincount(index, lengths, len(slots)).astype(np.int64).tolist()
    return {slot: size for slot, size in zip(slots, sums, strict=True) if size}
