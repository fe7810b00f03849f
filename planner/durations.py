"""Durations and instants as people read them."""

from __future__ import annotations

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


def readable(milliseconds: int) -> str:
    """``90000`` is ``1 min 30 s``, ``-28800000`` is ``-8 h``."""
    if milliseconds == 0:
        return "0 ms"
    rest, parts = abs(milliseconds), []
    for name, factor in _UNITS:
        count, rest = divmod(rest, factor)
        if count:
            parts.append(f"{count} {name}")
    return ("-" if milliseconds < 0 else "") + " ".join(parts)


def as_interval(milliseconds: int) -> str:
    """The interval in SQL, with the largest unit that divides it: ``INTERVAL '10' SECOND``."""
    for name, factor in (("DAY", 86_400_000), ("HOUR", 3_600_000), ("MINUTE", 60_000), ("SECOND", 1000)):
        if milliseconds % factor == 0:
            return f"INTERVAL '{milliseconds // factor}' {name}"
    sign, rest = ("-" if milliseconds < 0 else ""), abs(milliseconds)
    return f"INTERVAL '{sign}{rest // 1000}.{f'{rest % 1000:03}'.rstrip('0')}' SECOND"


def ordinal(count: int) -> str:
    """``1st``, ``12th``."""
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"
