"""Constant intervals to milliseconds, in every spelling of the dialect; durations and instants as text.

``INTERVAL '5' SECOND``, fractions (``'0.005' SECOND``, ``'1.5' HOURS``), compounds (``'33:20' MINUTE TO SECOND``,
``'1 2:03:04.5' DAY TO SECOND``), several units in one string (``'1 day 2 hours'``), MILLISECOND, WEEK, negative ones,
and sums, differences, multiples and quotients of these. All arithmetic is exact.
"""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from sqlstream.errors import BindError, Span, shortened
from sqlstream.grammar.dialect import SqlStream
from sqlstream.udfs.event_times import LONGEST

# --- durations and instants as text ---------------------------------------------------------------------------


_UNITS_IN_TEXT = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


def readable(milliseconds: int) -> str:
    """A duration in words: ``90000`` is ``1 min 30 s``, ``-28800000`` is ``-8 h``."""
    if milliseconds == 0:
        return "0 ms"
    rest, parts = abs(milliseconds), []
    for name, factor in _UNITS_IN_TEXT:
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
    """The ordinal of a number: ``1st``, ``12th``."""
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"


_SECOND = Fraction(1000)
_UNITS_OF_INTERVALS: dict[str, Fraction] = {
    "NANOSECOND": Fraction(1, 1_000_000),
    "MICROSECOND": Fraction(1, 1000),
    "MILLISECOND": Fraction(1),
    "SECOND": _SECOND,
    "MINUTE": 60 * _SECOND,
    "HOUR": 3600 * _SECOND,
    "DAY": 86_400 * _SECOND,
    "WEEK": 604_800 * _SECOND,
}
_CALENDAR = {"MONTH", "QUARTER", "YEAR"}
_ABBREVIATIONS = {
    "S": "SECOND", "SEC": "SECOND", "M": "MINUTE", "MIN": "MINUTE", "H": "HOUR", "D": "DAY", "MS": "MILLISECOND",
    "US": "MICROSECOND", "NS": "NANOSECOND", "W": "WEEK", "MON": "MONTH", "Y": "YEAR",
}  # fmt: skip
_PAIR = re.compile(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([A-Za-z]+)\s*,?")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")
_COMPOUND_ORDER = ("DAY", "HOUR", "MINUTE", "SECOND")

LONGEST_MS = LONGEST // 1000

_LONGEST_OF_SPARK = Fraction(106_751_991 * 86_400_000)
_LONGEST_NUMBER = 40
"""Characters of a number: more than a length of time can have."""

EXAMPLE = "Write an interval such as INTERVAL '5' SECOND."


class NotAnInterval(Exception):
    """Raised for an expression that is not a constant interval of whole milliseconds, with a ``reason`` and a ``hint``
    sentence.
    """

    def __init__(self, reason: str, hint: str = EXAMPLE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def interval_ms(expression: exp.Expr, what: str, span: Span | None) -> int:
    """The milliseconds of a constant interval. BindError SS212 for anything else; ``what`` says in the message what the
    interval is for.
    """
    try:
        return whole_ms(fold(expression))
    except NotAnInterval as error:
        raise BindError("SS212", f"{what} {error.reason}", span, hint=error.hint) from None


def text_ms(text: str) -> int:
    """The milliseconds of a text such as ``'5 minutes'`` or ``'1 hour 30 minutes'``. NotAnInterval for other texts."""
    return whole_ms(_several_units(text))


def whole_ms(milliseconds: Fraction) -> int:
    """The milliseconds as an integer. NotAnInterval if they are not a whole number."""
    if milliseconds.denominator != 1:
        raise NotAnInterval("has a part of less than a millisecond", "Times are kept in whole milliseconds.")
    if abs(milliseconds) > LONGEST_MS:
        raise NotAnInterval("is longer than 10,000 years", "Write INTERVAL '3652425' DAY or less.")
    return int(milliseconds)


def fold(node: exp.Expr) -> Fraction:
    """Computes a constant interval: the exact number of milliseconds as a fraction. NotAnInterval for other
    expressions.
    """
    match node:
        case exp.Interval():
            return _literal(node)
        case exp.Paren():
            return fold(node.this)
        case exp.Neg():
            return -fold(node.this)
        case exp.Add():
            return fold(node.left) + fold(node.right)
        case exp.Sub():
            return fold(node.left) - fold(node.right)
        case exp.Mul():
            number, interval = (node.left, node.right) if _is_number(node.left) else (node.right, node.left)
            return _number(number) * fold(interval)
        case exp.Div() if _is_number(node.right) and _number(node.right) != 0:
            return fold(node.left) / _number(node.right)
    if node.find(exp.Column):
        raise NotAnInterval("must be a constant interval")
    raise NotAnInterval(f"must be an interval, not {node.sql(SqlStream)}")


def _literal(interval: exp.Interval) -> Fraction:
    unit, value = interval.args.get("unit"), interval.this
    sign = 1
    while isinstance(value, (exp.Neg, exp.Paren)):
        sign, value = (-sign if isinstance(value, exp.Neg) else sign), value.this
    if not isinstance(value, exp.Literal):
        raise NotAnInterval("must be a constant interval")
    text = value.name.strip()
    if isinstance(unit, exp.IntervalSpan):
        return sign * _compound(text, _unit(unit.this.name), _unit(unit.expression.name))
    if unit is None:
        return sign * _several_units(text)
    return sign * _parse_number(text) * _factor(_unit(unit.name))


def _unit(name: str) -> str:
    upper = name.upper()
    if upper in _ABBREVIATIONS:
        return _ABBREVIATIONS[upper]
    singular = upper.removesuffix("S")
    return singular if singular in _UNITS_OF_INTERVALS or singular in _CALENDAR else upper


def _factor(unit: str) -> Fraction:
    if unit in _CALENDAR:
        raise NotAnInterval(
            f"must not be in {unit.lower()}s, whose length varies", "Write it in days, such as INTERVAL '30' DAY."
        )
    if unit not in _UNITS_OF_INTERVALS:
        raise NotAnInterval(f'has the unknown unit "{unit.lower()}"', "Units go from MILLISECOND to WEEK.")
    return _UNITS_OF_INTERVALS[unit]


def _several_units(text: str) -> Fraction:
    rest = text.strip()
    rest = rest[len("interval") :] if rest.lower().startswith("interval") else rest
    total, position = Fraction(0), 0
    while match := _PAIR.match(rest, position):
        total += _parse_number(match[1].removesuffix(".")) * _factor(_unit(match[2]))
        position = match.end()
    if position == 0 or rest[position:].strip():
        raise NotAnInterval(f"must be an interval, not '{text}'")
    return total


def _compound(text: str, first: str, last: str) -> Fraction:
    """``'d h:m:s.f'`` from the unit ``first`` to ``last``."""
    if first in _CALENDAR or last in _CALENDAR:
        return _factor(first if first in _CALENDAR else last)
    if first not in _COMPOUND_ORDER or last not in _COMPOUND_ORDER:
        raise NotAnInterval(f"cannot go from {first.lower()} to {last.lower()}")
    negative = text.startswith("-")
    units = _COMPOUND_ORDER[_COMPOUND_ORDER.index(first) : _COMPOUND_ORDER.index(last) + 1]
    parts = re.split(r"[ :]+", text.lstrip("+-").strip())
    if len(parts) != len(units):
        raise NotAnInterval(f"'{text}' is not an interval from {first.lower()} to {last.lower()}")
    total = sum((_parse_number(p) * _UNITS_OF_INTERVALS[u] for p, u in zip(parts, units, strict=True)), Fraction(0))
    return -total if negative else total


def _parse_number(text: str) -> Fraction:
    if not _NUMBER.fullmatch(text):
        raise NotAnInterval(f"has the value '{shortened(text)}', which is not a number")
    if len(text) > _LONGEST_NUMBER:
        raise NotAnInterval(f"has the value '{shortened(text)}', which is too long a number")
    return Fraction(text)


def _is_number(node: exp.Expr) -> bool:
    match node:
        case exp.Paren() | exp.Neg():
            return _is_number(node.this)
        case exp.Literal():
            return not node.is_string
    return False


def _number(node: exp.Expr) -> Fraction:
    match node:
        case exp.Paren():
            return _number(node.this)
        case exp.Neg():
            return -_number(node.this)
        case exp.Literal() if not node.is_string:
            return Fraction(node.name)
    raise NotAnInterval(f"must be an interval, not {node.sql(SqlStream)}")


def is_calendar(interval: exp.Interval) -> bool:
    """True for intervals of months and years, whose length varies."""
    unit = interval.args.get("unit")
    name = (
        unit.this.name if isinstance(unit, exp.IntervalSpan) else unit.name if unit is not None else interval.this.name
    )
    return any(word in name.upper() for word in _CALENDAR)


_SPARK_SPELLS = frozenset({"SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"})


def _require_of_spark(milliseconds: Fraction) -> None:
    if abs(milliseconds) > _LONGEST_OF_SPARK:
        raise NotAnInterval("is longer than Spark's longest", "Write INTERVAL '106751991' DAY or less.")


_SPARK_LENGTHS = {
    "MONTH": 31 * _UNITS_OF_INTERVALS["DAY"],
    "QUARTER": 92 * _UNITS_OF_INTERVALS["DAY"],
    "YEAR": 366 * _UNITS_OF_INTERVALS["DAY"],
}


def for_spark(interval: exp.Interval) -> exp.Interval:
    """Returns the interval in a form that Spark reads, in seconds if Spark does not support the unit or a fraction.
    NotAnInterval if it is not constant.
    """
    unit = interval.args.get("unit")
    if unit is None or not isinstance(interval.this, exp.Literal):
        return interval.copy()
    if isinstance(unit, exp.IntervalSpan):
        _require_of_spark(Fraction(0) if is_calendar(interval) else _literal(interval))
        return interval.copy()
    name, text = _unit(unit.name), interval.this.name.strip()
    number = _parse_number(text)
    _require_of_spark(number * _SPARK_LENGTHS.get(name, _UNITS_OF_INTERVALS.get(name, Fraction(0))))
    if name == "SECOND" or (name in _SPARK_SPELLS and number.denominator == 1):
        return interval.copy()
    if name == "QUARTER" and number.denominator == 1:
        return exp.Interval(this=exp.Literal.string(str(3 * number)), unit=exp.var("MONTH"))
    microseconds = number * _factor(name) * 1000
    if microseconds.denominator != 1:
        raise NotAnInterval("has a part of less than a microsecond", "Spark keeps times in microseconds.")
    whole, rest = divmod(abs(int(microseconds)), 1_000_000)
    seconds = f"{'-' if microseconds < 0 else ''}{whole}.{rest:06}".rstrip("0").rstrip(".")
    return exp.Interval(this=exp.Literal.string(seconds), unit=exp.var("SECOND"))
