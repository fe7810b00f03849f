"""Which data files of a lake's table can have rows that pass the filters of a query, by their statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlstream.udfs.lookup.source import Comparison
from sqlstream.udfs.lookup.sources.files import COMPARED

PRUNED_BY = COMPARED
"""Types whose bounds in the statistics of files are exact, and compared as in SQL. Those of times are cut."""

_LONGEST_TEXT = 16
"""Characters up to which no writer cuts the bounds of texts."""


@dataclass(frozen=True)
class Bounds:
    """What the statistics of a file say of a column: the least and the greatest value, None where they are unknown, and
    whether some or all of its values may be NULL.
    """

    least: Any = None
    most: Any = None
    some_null: bool = True
    all_null: bool = False


def may_match(filters: Sequence[Comparison], bounds: Mapping[str, Bounds]) -> bool:
    """True unless the bounds show that no row of the file passes all filters."""
    return all(_may_match(comparison, bounds.get(comparison.column, Bounds())) for comparison in filters)


def _may_match(comparison: Comparison, bounds: Bounds) -> bool:
    match comparison.operator:
        case "IS NULL":
            return bounds.some_null
        case "IS NOT NULL":
            return not bounds.all_null
    if bounds.all_null:
        return False
    if comparison.operator == "IN":
        assert isinstance(comparison.value, tuple)
        return any(_in_bounds("=", value, bounds) for value in comparison.value)
    return _in_bounds(comparison.operator, comparison.value, bounds)


def _in_bounds(operator: str, value: Any, bounds: Bounds) -> bool:
    least, most = bounds.least, bounds.most
    if isinstance(most, str) and len(most) >= _LONGEST_TEXT:
        most = None
    try:
        above = least is None or value >= least
        below = most is None or value <= most
        match operator:
            case "=":
                return above and below
            case "<":
                return least is None or least < value
            case "<=":
                return above
            case ">":
                return most is None or most > value
            case ">=":
                return below
    except TypeError:  # a value of another type than the column
        return True
    return True
