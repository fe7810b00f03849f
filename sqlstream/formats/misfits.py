"""Values in Parquet, ORC and Arrow files that the declared type of their column does not have, and what messages call
them.

Masks over whole columns find them, so that a column with a bad value in each row is read as fast as one with few.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from sqlstream.formats.columnar import converted, fits, is_text, position_of, stored_values, usual_type
from sqlstream.formats.lines import rows_without_utf8

_SHOWN = 100
"""Characters of a value in a message."""
_IN_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SECONDS_OF_A_DAY = 86_400
_LAST = 2**63 - 1


def misfit(values: pa.Array, declared: pa.DataType, *, orc: bool = False) -> tuple[int, str] | None:
    """For values that ``converted`` refuses: returns the row of the first one that the declared type does not have, and
    the value for messages; None where the type does not fit, whatever the values.
    """
    if not fits(values.type, declared, orc=orc):
        return None
    if usual_type(values.type) != values.type:  # Arrow cannot take rows of views
        values = values.cast(usual_type(values.type))
    first, behind = 0, len(values)
    while behind - first > 1:
        middle = (first + behind) // 2
        if _are_converted(values, declared, orc, np.arange(first, middle)):
            first = middle
        else:
            behind = middle
    (value,) = _spelled(stored_values(values.slice(first, 1), as_text=kinds.is_string(declared)))
    return first, value


def misfits(values: pa.Array, declared: pa.DataType, *, orc: bool = False) -> dict[int, str]:
    """For values of a type that fits: the rows of all that the declared type does not have, with the value of each for
    messages.
    """
    wrong = _wrong(values, declared)
    others = np.flatnonzero(~wrong)
    wrong[_searched(values, declared, orc, others)] = True
    rows = np.flatnonzero(wrong)
    stored = stored_values(values.take(pa.array(rows)), as_text=kinds.is_string(declared))
    return dict(zip(rows.tolist(), _spelled(stored), strict=True))


def _are_converted(values: pa.Array, declared: pa.DataType, orc: bool, rows: np.ndarray) -> bool:
    try:
        converted(values.take(pa.array(rows)), declared, orc=orc)
    except pa.ArrowInvalid:
        return False
    return True


def _searched(values: pa.Array, declared: pa.DataType, orc: bool, rows: np.ndarray) -> list[int]:
    """Those of the rows that ``converted`` refuses, by halves: what no mask knows, such as dates beyond those of
    microseconds.
    """
    if _are_converted(values, declared, orc, rows):
        return []
    if len(rows) == 1:
        return [int(rows[0])]
    half = len(rows) // 2
    return [*_searched(values, declared, orc, rows[:half]), *_searched(values, declared, orc, rows[half:])]


# --- what neither Arrow nor Python takes --------------------------------------------------------------------------


def readable(values: pa.Array) -> pa.Array:
    """Returns the values, in which texts are bytes if one is no UTF-8, and times of day are numbers if one is none, at
    any depth: Arrow and Python refuse these. Raises pa.ArrowException where an array is damaged otherwise.
    """
    if isinstance(values.type, pa.BaseExtensionType):
        return readable(values.storage)
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        if kinds.is_dictionary(values.type):
            values.indices.validate(full=True)
            return readable(values.dictionary).take(values.indices)
        bytes_ = values.view(_plain(values.type, times=False))
        try:
            bytes_.validate(full=True)
        except pa.ArrowInvalid:
            bytes_ = values.view(_plain(values.type, times=True))
            bytes_.validate(full=True)
        return bytes_
    return values


_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}


def _plain(kind: pa.DataType, *, times: bool) -> pa.DataType:
    """The type of the same buffers with bytes for texts and, if ``times``, numbers for times of day."""
    if times and kinds.is_time(kind):
        return pa.int32() if kinds.is_time32(kind) else pa.int64()
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type, times=times)) for field in kind])
    if kinds.is_map(kind):
        inner = (field.with_type(_plain(field.type, times=times)) for field in (kind.key_field, kind.item_field))
        return pa.map_(*inner, keys_sorted=kind.keys_sorted)
    if kinds.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type, times=times)), kind.list_size)
    for is_one, made in ((kinds.is_list, pa.list_), (kinds.is_large_list, pa.large_list)):
        if is_one(kind):
            return made(kind.value_field.with_type(_plain(kind.value_type, times=times)))
    return _BYTES.get(kind, kind)


# --- masks ------------------------------------------------------------------------------------------------------


def _wrong(values: pa.Array, declared: pa.DataType) -> np.ndarray:
    """Where values are none of the declared type, as far as masks know."""
    values = stored_values(values, as_text=kinds.is_string(declared))
    if kinds.is_struct(values.type):
        return _of_members(values, declared)
    if kinds.is_map(values.type):
        entries = pa.list_(pa.struct([values.type.key_field, values.type.item_field]))
        return _of_elements(values.cast(entries), pa.struct([declared.key_field, declared.item_field]))
    if kinds.is_list(values.type) or kinds.is_large_list(values.type):
        return _of_elements(values, declared.value_type)
    wrong = np.zeros(len(values), np.bool_)
    if kinds.is_string(declared) and (is_text(values.type) or kinds.is_fixed_size_binary(values.type)):
        wrong[rows_without_utf8(values.cast(pa.binary()))] = True
        return wrong
    found = _wrong_numbers(values, declared)
    return wrong if found is None else found.fill_null(False).to_numpy(zero_copy_only=False)


def _of_members(values: pa.StructArray, declared: pa.StructType) -> np.ndarray:
    wrong, members = np.zeros(len(values), np.bool_), values.flatten()
    for field in declared:
        number = position_of(values.type.names, field.name)
        if number is not None:
            wrong = wrong | _wrong(members[number], field.type)
    return wrong


def _of_elements(values: pa.Array, declared: pa.DataType) -> np.ndarray:
    wrong = np.zeros(len(values), np.bool_)
    lists = pc.list_parent_indices(values).to_numpy(zero_copy_only=False)
    wrong[lists[_wrong(pc.list_flatten(values), declared)]] = True
    return wrong


def _wrong_numbers(values: pa.Array, declared: pa.DataType) -> pa.Array | None:
    """Where decimals and times have more digits or another range than the declared type; None of other types."""
    if kinds.is_decimal(values.type) and kinds.is_decimal(declared) and values.type.scale >= 0:
        return _beyond_digits(values, declared)
    if kinds.is_time(values.type) and kinds.is_time(declared):
        return _beyond(values, 0, _SECONDS_OF_A_DAY * _IN_A_SECOND[values.type.unit] - 1)
    if kinds.is_timestamp(values.type) and values.type.unit in ("s", "ms"):
        most = _LAST // (_IN_A_SECOND["us"] // _IN_A_SECOND[values.type.unit])
        return _beyond(values, -most, most)
    return None


def _beyond(values: pa.Array, first: int, last: int) -> pa.Array:
    numbers = _numbers(values)
    return pc.or_(pc.less(numbers, first), pc.greater(numbers, last))


def _numbers(times: pa.Array) -> pa.Array:
    return times.view(pa.int32() if kinds.is_time32(times.type) else pa.int64())


def _beyond_digits(values: pa.Array, declared: pa.DataType) -> pa.Array:
    """Where decimals have more digits before or after the point than the declared type."""
    kind, wrong = values.type, pa.array(np.zeros(len(values), np.bool_))
    whole = declared.precision - declared.scale
    if kind.precision - kind.scale > whole:
        wrong = pc.greater_equal(pc.abs(values), pa.scalar(Decimal(10**whole), kind))
    if kind.scale > declared.scale:
        rounded = pc.round(values, declared.scale, round_mode="towards_zero")
        wrong = pc.or_(wrong, pc.not_equal(rounded, values))
    return wrong


# --- messages ---------------------------------------------------------------------------------------------------


def _spelled(values: pa.Array) -> list[str]:
    kind = values.type
    if kinds.is_time(kind):
        return [f"{number:,} {kind.unit}, which is no time of a day" for number in _numbers(values).to_pylist()]
    if is_text(kind) or kinds.is_fixed_size_binary(kind):
        found = values.cast(pa.binary()).to_pylist()
        return [f'"{value[:_SHOWN].decode(errors="replace")}"' for value in found]
    try:
        return [str(value)[:_SHOWN] for value in readable(values).to_pylist()]
    except (ArithmeticError, ValueError):
        return [_alone(value) for value in values]


def _alone(value: pa.Scalar) -> str:
    try:
        return str(value.as_py())[:_SHOWN]
    except (ArithmeticError, ValueError):
        return f"{value.value:,} {value.type.unit}" if kinds.is_timestamp(value.type) else f"a {value.type}"
