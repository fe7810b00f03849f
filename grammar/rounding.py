"""FLOOR and CEIL of a time to a unit: ``FLOOR(ts TO HOUR)``."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp

ROUNDED_TO = (
    "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "DECADE",
    "CENTURY", "MILLENNIUM",
)  # fmt: skip


class RoundedTime(exp.Expression, exp.Condition):
    """``name`` is FLOOR or CEIL; ``this`` is the time, ``unit`` one of ``ROUNDED_TO``."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "name": True, "unit": True}
