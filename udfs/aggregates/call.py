"""A call of an aggregate function over columns that the kernel's input has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

ARRIVAL = "__arrival"
"""BIGINT column of rows whose places in the order of arrival their accumulators keep: numbers that only grow."""


@dataclass(frozen=True)
class Ordering:
    """A column of ORDER BY inside an aggregate."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class AggregateCall:
    """``function`` is Spark's name in lower case; ``arguments``, ``filter`` and orderings name columns of the input.

    ``constants`` are the arguments that are no columns: the separator of LISTAGG, the percentages of percentiles.
    ``ignore_nulls`` is said of functions that pick a row, ``respect_nulls`` of lists, which leave NULLs out otherwise.
    ``result`` is the type of the result column ``name``. ``implementation`` is the class of a user's aggregate.
    ``every_change``: rows that go count as those that come do.
    """

    name: str
    function: str
    arguments: tuple[str, ...]
    result: pa.DataType
    filter: str | None = None
    distinct: bool = False
    order: tuple[Ordering, ...] = ()
    constants: tuple[object, ...] = ()
    ignore_nulls: bool = False
    respect_nulls: bool = False
    implementation: Any = None
    every_change: bool = False

    def over(self, names: Mapping[str, str]) -> AggregateCall:
        """The same call over columns of other names, each by the name that it has here."""
        return replace(
            self,
            arguments=tuple(names[argument] for argument in self.arguments),
            filter=None if self.filter is None else names[self.filter],
            order=tuple(replace(ordering, column=names[ordering.column]) for ordering in self.order),
        )
