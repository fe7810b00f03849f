"""Mechanisms below SQL that nothing here can be driven by, and why."""

from __future__ import annotations

from sqlstream.testing.cases import NotDriven

_OF_SPARK = "Spark computes watermarks while a query runs; write the case in SQL with steps that give the watermarks."
_MISSING = {
    "watermark-alignment": ("watermarks of several inputs are aligned by Spark, not by a kernel", _OF_SPARK),
    "watermark-generation": ("watermarks follow rows in Spark, not in a kernel", _OF_SPARK),
}


def not_driven(mechanism: str) -> NotDriven:
    """Why the cases of a mechanism without a driver are not run."""
    named = NotDriven(f'no kernel has the mechanism "{mechanism}"', "Drivers are in tests/peers/below_sql.")
    return NotDriven(*_MISSING[mechanism]) if mechanism in _MISSING else named
