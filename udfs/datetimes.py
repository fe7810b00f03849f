"""Times in Arrow columns that Python's datetime does not have: those beyond the years 1 to 9999."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

YEARS = "the years 1 to 9999"

_FIRST, _LAST = np.datetime64("0001-01-01", "D"), np.datetime64("9999-12-31", "D")
_DAY = 86_400_000_000
_DATES = int(_FIRST.astype(np.int64)), int(_LAST.astype(np.int64))
_TIMES = _DATES[0] * _DAY, (_DATES[1] + 1) * _DAY - 1


def rows_beyond(values: pa.Array) -> list[int]:
    """Returns the rows with a time beyond these years, also within an ARRAY, MAP or STRUCT."""
    if not any(_is_beyond(times) for times in _times(values)):
        return []
    rows: list[int] = np.flatnonzero(_are_beyond(values)).tolist()
    return rows


def _are_beyond(values: pa.Array) -> np.ndarray:
    kind, found = values.type, np.zeros(len(values), np.bool_)
    if kinds.is_map(kind):
        return _are_beyond(values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    if kinds.is_list(kind):
        found[pc.list_parent_indices(values).to_numpy(zero_copy_only=False)[_are_beyond(values.flatten())]] = True
    elif kinds.is_struct(kind):
        for member in values.flatten():
            found |= _are_beyond(member)
    elif kinds.is_date32(kind) or kinds.is_timestamp(kind):
        (first, last), numbers = _limits(kind), _numbers(values)
        beyond = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
        found = beyond.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def beyond(values: pa.Array, row: int) -> str:
    """Returns the first time beyond these years of a row of ``rows_beyond``, after ``is``, or ``has`` where it is a
    part of the value.
    """
    times = next(times for times in _times(values.slice(row, 1)) if _is_beyond(times))
    first, last = _limits(times.type)
    number = next(n for n in _numbers(times).to_pylist() if n is not None and not first <= n <= last)
    time = np.datetime64(number, "D") if kinds.is_date(times.type) else np.datetime64(number, "us")
    text = str(time).replace("T", " ").removesuffix(".000000")
    zone = "Z" if kinds.is_timestamp(times.type) and times.type.tz is not None else ""
    return f"{'has' if kinds.is_nested(values.type) else 'is'} {text}{zone}"


def _times(values: pa.Array) -> Iterator[pa.Array]:
    """The dates and timestamps in a column, without those that NULLs hide."""
    kind = values.type
    if kinds.is_map(kind):
        yield from _times(values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    elif kinds.is_list(kind):
        yield from _times(values.flatten())
    elif kinds.is_struct(kind):
        for member in values.flatten():
            yield from _times(member)
    elif kinds.is_date32(kind) or kinds.is_timestamp(kind):
        yield values


def _is_beyond(times: pa.Array) -> bool:
    first, last = _limits(times.type)
    least, most = (scalar.as_py() for scalar in pc.min_max(_numbers(times)).values())
    return least is not None and (least < first or most > last)


def _numbers(times: pa.Array) -> pa.Array:
    """Days, or microseconds."""
    return times.view(pa.int32() if kinds.is_date32(times.type) else pa.int64())


def _limits(kind: pa.DataType) -> tuple[int, int]:
    return _DATES if kinds.is_date32(kind) else _TIMES
