"""What to write for lengths of time that are no intervals: ``5 minutes``, ``'5 minutes'``."""

from __future__ import annotations

import re

EXAMPLE = "INTERVAL '5' SECOND"

_UNITS = ("MILLISECOND", "MICROSECOND", "NANOSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
_SPELLED = {unit: unit for unit in _UNITS} | {
    "MS": "MILLISECOND", "US": "MICROSECOND", "NS": "NANOSECOND", "S": "SECOND", "SEC": "SECOND", "M": "MINUTE",
    "MIN": "MINUTE", "H": "HOUR", "HR": "HOUR", "D": "DAY", "W": "WEEK",
}  # fmt: skip
_LENGTH = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def unit_of(word: str) -> str | None:
    """The unit of time that a word means: ``minutes`` and ``min`` are MINUTE; None for other words."""
    spellings = (word.upper(), word.upper().removesuffix("S"))
    return next((_SPELLED[spelling] for spelling in spellings if spelling in _SPELLED), None)


def interval_text(number: str, unit: str) -> str:
    return f"INTERVAL '{number}' {unit}"


def interval_meant(text: str) -> str | None:
    """The interval that a text such as ``5 minutes`` means."""
    match = _LENGTH.fullmatch(text)
    unit = unit_of(match[2]) if match else None
    return interval_text(match[1], unit) if match and unit else None
