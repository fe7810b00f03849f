"""Do rows say the same? Values of case files (JSON) against values of a job, with a tolerance for floating point."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

_EPOCH = datetime(1970, 1, 1)
_RELATIVE = 1e-6  # FLOAT has seven digits
_ABSOLUTE = 1e-9


def same_value(expected: Any, got: Any) -> bool:
    """``expected`` as JSON spells it: times in milliseconds, decimals as text, structs as lists or objects."""
    if expected is None or got is None:
        return expected is None and got is None
    match got:
        case bool() | str():
            return type(expected) is type(got) and bool(expected == got)
        case float():
            return _close(expected, got)
        case Decimal() | int():
            return _number(expected) == got
        case datetime():
            return bool(expected == (got - _EPOCH) / timedelta(milliseconds=1))
        case date():
            return bool(expected == got.isoformat())
        case bytes():
            return bool(expected == got.hex())
        case Mapping():
            return _same_mapping(expected, got)
        case list() | tuple():
            return isinstance(expected, list) and same_row(expected, got)
        case _:
            return bool(expected == got)


def same_row(expected: Sequence[Any], got: Sequence[Any]) -> bool:
    return len(expected) == len(got) and all(same_value(e, g) for e, g in zip(expected, got, strict=True))


def _close(expected: Any, got: float) -> bool:
    try:
        number = float(expected)
    except (TypeError, ValueError):
        return False
    both_nan = math.isnan(number) and math.isnan(got)
    return both_nan or math.isclose(number, got, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _number(expected: Any) -> Decimal | None:
    if isinstance(expected, bool) or not isinstance(expected, int | float | str):
        return None
    try:
        return Decimal(str(expected))
    except InvalidOperation:
        return None


def _same_mapping(expected: Any, got: Mapping[Any, Any]) -> bool:
    if isinstance(expected, list):
        return same_row(expected, list(got.values()))
    keys = {str(key): key for key in got}
    return (
        isinstance(expected, Mapping)
        and expected.keys() == keys.keys()
        and all(same_value(value, got[keys[key]]) for key, value in expected.items())
    )


def difference(expected: Sequence[Sequence[Any]], got: Sequence[Sequence[Any]], *, ordered: bool) -> str | None:
    """The first difference in words, None where there is none. Unordered rows are compared as multisets."""
    if ordered:
        return _ordered_difference(expected, got)
    missing, extra = unmatched(expected, got)
    parts = [f"expected {spelled(missing[0])}"] if missing else ["expected no such row"]
    parts += [f"got {spelled(extra[0])}"] if extra else ["got no such row"]
    more = max(len(missing), len(extra)) - 1
    return None if not missing and not extra else ", ".join(parts) + (f", and {more} more" if more else "")


def _ordered_difference(expected: Sequence[Sequence[Any]], got: Sequence[Sequence[Any]]) -> str | None:
    for i, (e, g) in enumerate(zip(expected, got, strict=False)):
        if not same_row(e, g):
            return f"row {i}: expected {spelled(e)}, got {spelled(g)}"
    if len(expected) > len(got):
        return f"row {len(got)}: expected {spelled(expected[len(got)])}, got no more rows"
    if len(got) > len(expected):
        return f"row {len(expected)}: expected no more rows, got {spelled(got[len(expected)])}"
    return None


def unmatched(
    expected: Iterable[Sequence[Any]], got: Iterable[Sequence[Any]]
) -> tuple[list[Sequence[Any]], list[Sequence[Any]]]:
    """What is left of both when equal rows are taken away in pairs."""
    missing: list[Sequence[Any]] = []
    left = list(got)
    for row in expected:
        partner = next((i for i, g in enumerate(left) if same_row(row, g)), None)
        if partner is None:
            missing.append(row)
        else:
            left.pop(partner)
    return missing, left


def spelled(row: Sequence[Any]) -> str:
    """A row as JSON, as case files write it."""
    return json.dumps([_json(value) for value in row], ensure_ascii=False)


def _json(value: Any) -> Any:
    match value:
        case datetime():
            ms = (value - _EPOCH) / timedelta(milliseconds=1)
            return int(ms) if ms.is_integer() else ms
        case bytes():
            return value.hex()
        case Mapping():
            return {str(key): _json(v) for key, v in value.items()}
        case list() | tuple():
            return [_json(v) for v in value]
        case bool() | int() | float() | str() | None:
            return value
        case _:
            return str(value)
