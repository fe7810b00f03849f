"""Which types of columns in Parquet, ORC and Arrow files are read as which declared types, and how.

The rules are those of Spark's reader of Parquet where that one reads values as they are. Where it would wrap them (an
unsigned number beyond the signed ones, a 32-bit number as SMALLINT) the column is refused. Times finer than
microseconds are cut to microseconds, also before 1970. A timestamp without zone is read as TIMESTAMP in UTC, and a
TIMESTAMP as TIMESTAMP_NTZ by its clock in UTC. A column of NULLs only is NULL of any type.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

_NO_NANOSECONDS = 1_000


def fits(in_file: pa.DataType, declared: pa.DataType, *, orc: bool = False) -> bool:
    """True where values of the type ``in_file`` can be read as type ``declared``. DECIMAL and BINARY values must then
    be checked one by one.

    A STRUCT field that the file lacks is NULL; field names are compared case-insensitively. ``orc``: the file is ORC,
    where Spark writes TIMESTAMP_NTZ as a number of microseconds, and the file's type TIMESTAMP is an instant.
    """
    if kinds.is_null(in_file):
        return True
    if kinds.is_dictionary(in_file):
        in_file = in_file.value_type
    if kinds.is_nested(in_file) or kinds.is_nested(declared):
        return _fits_nested(in_file, declared, orc)
    if orc and _is_clock(declared):
        return bool(kinds.is_int64(in_file))
    return any(is_found(in_file) and is_declared(declared) for is_found, is_declared in _READABLE)


def _fits_nested(in_file: pa.DataType, declared: pa.DataType, orc: bool) -> bool:
    if kinds.is_map(in_file) and kinds.is_map(declared):
        return fits(in_file.key_type, declared.key_type, orc=orc) and fits(
            in_file.item_type, declared.item_type, orc=orc
        )
    if is_list(in_file) and is_list(declared):
        return fits(in_file.value_type, declared.value_type, orc=orc)
    if kinds.is_struct(in_file) and kinds.is_struct(declared):
        by_name = {field.name.casefold(): field.type for field in in_file}
        return all(fits(by_name.get(field.name.casefold(), pa.null()), field.type, orc=orc) for field in declared)
    return False


def is_text(kind: pa.DataType) -> bool:
    """True for Arrow's string and binary types, which a Parquet file may not distinguish."""
    return any(is_one(kind) for is_one in (kinds.is_string, kinds.is_large_string, kinds.is_string_view,
                                           kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view))  # fmt: skip


def is_list(kind: pa.DataType) -> bool:
    """True for all of Arrow's list types, each of which is an ARRAY."""
    return any(is_one(kind) for is_one in (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list,
                                           kinds.is_list_view, kinds.is_large_list_view))  # fmt: skip


def _whole(bits: int) -> Callable[[pa.DataType], bool]:
    """True for whole numbers that so many bits with a sign can hold."""
    return lambda kind: bool(
        (kinds.is_signed_integer(kind) and kind.bit_width <= bits)
        or (kinds.is_unsigned_integer(kind) and kind.bit_width < bits)
    )


def _holds(bits: int) -> Callable[[pa.DataType], bool]:
    """True for declared whole numbers of at least so many bits."""
    return lambda kind: bool(kinds.is_signed_integer(kind) and kind.bit_width >= bits)


def _digits(number: int) -> Callable[[pa.DataType], bool]:
    """True for DECIMALs with room for so many digits before the point."""
    return lambda kind: bool(kinds.is_decimal(kind) and kind.precision - kind.scale >= number)


def _is_clock(kind: pa.DataType) -> bool:
    """True for timestamps without time zone."""
    return bool(kinds.is_timestamp(kind) and kind.tz is None)


_READABLE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...] = (
    (kinds.is_boolean, kinds.is_boolean),
    *((_whole(bits), _holds(bits)) for bits in (8, 16, 32, 64)),
    *((_whole(bits), _digits(digits)) for bits, digits in ((8, 3), (16, 5), (32, 10), (64, 19))),
    (kinds.is_uint8, _digits(3)),
    (kinds.is_uint16, _digits(5)),
    (kinds.is_uint32, _digits(10)),
    (kinds.is_uint64, _digits(20)),
    (lambda kind: _whole(32)(kind) or kinds.is_uint32(kind), kinds.is_float64),
    (kinds.is_int32, kinds.is_date),
    (kinds.is_int64, kinds.is_duration),
    (lambda kind: kinds.is_floating(kind) and not kinds.is_float64(kind), kinds.is_floating),
    (kinds.is_float64, kinds.is_float64),
    (kinds.is_decimal, lambda kind: kinds.is_decimal(kind) or kinds.is_binary(kind)),
    (is_text, is_text),
    (kinds.is_fixed_size_binary, is_text),
    (kinds.is_timestamp, lambda kind: kinds.is_timestamp(kind) or kinds.is_int64(kind)),
    (kinds.is_date, lambda kind: kinds.is_date(kind) or _is_clock(kind)),
    (kinds.is_time, kinds.is_time),
    (lambda kind: kinds.is_date(kind) or kinds.is_time32(kind), _holds(32)),
    (kinds.is_time64, _holds(64)),
    (kinds.is_duration, lambda kind: kinds.is_duration(kind) or kinds.is_int64(kind)),
)
"""Types in files and declared ones, of which the second has all values of the first."""


def differs_in_spark(in_file: pa.DataType, declared: pa.DataType) -> bool:
    """True where Spark's Parquet reader fails, or returns other values than ``converted``, for these types or types
    nested in them.

    These are nanosecond timestamps, TIME in units other than microseconds, columns of NULLs only, 16-bit floats, and
    unsigned integers unless they are read as the next larger type.
    """
    if kinds.is_dictionary(in_file):
        in_file = in_file.value_type
    if kinds.is_map(in_file) and kinds.is_map(declared):
        return differs_in_spark(in_file.key_type, declared.key_type) or differs_in_spark(
            in_file.item_type, declared.item_type
        )
    if is_list(in_file) and is_list(declared):
        return differs_in_spark(in_file.value_type, declared.value_type)
    if kinds.is_struct(in_file) and kinds.is_struct(declared):
        own = {field.name.casefold(): field.type for field in in_file}
        return any(differs_in_spark(own[f.name.casefold()], f.type) for f in declared if f.name.casefold() in own)
    return any(is_one(in_file) and not is_same(declared) for is_one, is_same in _OTHERWISE_IN_SPARK)


def _never(kind: pa.DataType) -> bool:
    return False


_OTHERWISE_IN_SPARK: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...] = (
    (kinds.is_uint32, kinds.is_int64),
    (kinds.is_uint64, lambda kind: bool(kind == pa.decimal128(20, 0))),
    (kinds.is_null, _never),
    (kinds.is_float16, _never),
    (lambda kind: bool(kinds.is_timestamp(kind) and kind.unit == "ns"), _never),
    (lambda kind: bool(kinds.is_time(kind) and kind.unit != "us"), _never),
)
"""Types in files, and the declared types as which Spark reads them well."""


# --- values ---------------------------------------------------------------------------------------------------


def converted(values: pa.Array, declared: pa.DataType, *, orc: bool = False) -> pa.Array:
    """Converts the values of a file's column into the declared type.

    Raises pa.ArrowInvalid if the type does not fit (``fits``), or if a value is out of range.
    """
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.type == declared and not kinds.is_time(declared):
        return values
    if kinds.is_null(values.type):
        return pa.nulls(len(values), declared)
    if not fits(values.type, declared, orc=orc):
        raise pa.ArrowInvalid(f"{values.type} is not {declared}")
    if kinds.is_struct(declared):
        return _struct(values, declared, orc)
    if kinds.is_map(declared):
        return _map(values, declared, orc)
    if is_list(declared):
        return _list(values, declared, orc)
    return _scalars(values, declared)


def _scalars(values: pa.Array, declared: pa.DataType) -> pa.Array:
    if kinds.is_timestamp(values.type):
        values = _in_microseconds(values)
        return values.view(pa.int64()) if kinds.is_int64(declared) else values.view(pa.int64()).cast(declared)
    if kinds.is_time(values.type) and kinds.is_time(declared):
        micros = _floored(values.cast(pa.time64("ns")).view(pa.int64()))
        return pc.multiply(micros, _NO_NANOSECONDS).cast(declared)
    if kinds.is_duration(values.type) and kinds.is_duration(declared):
        return values.cast(declared, safe=False)
    if kinds.is_time(values.type):
        return values.view(pa.int32() if kinds.is_time32(values.type) else pa.int64()).cast(declared)
    if kinds.is_date(values.type) and kinds.is_integer(declared):
        return values.cast(pa.date32()).view(pa.int32()).cast(declared)
    if kinds.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    return values.cast(declared)


def _in_microseconds(times: pa.Array) -> pa.Array:
    """Timestamps in UTC cut to microseconds. Seconds and milliseconds beyond the range are pa.ArrowInvalid."""
    if times.type.unit == "ns":
        return _floored(times.view(pa.int64())).cast(pa.timestamp("us"))
    return times.cast(pa.timestamp("us", times.type.tz))


def _floored(nanoseconds: pa.Array) -> pa.Array:
    """Microseconds: the division of Arrow rounds toward zero, which would move times before 1970 forward."""
    whole = pc.divide(nanoseconds, _NO_NANOSECONDS)
    ahead = pc.greater(pc.multiply(whole, _NO_NANOSECONDS), nanoseconds)
    return pc.subtract(whole, ahead.cast(pa.int64()))


def _struct(values: pa.StructArray, declared: pa.StructType, orc: bool) -> pa.Array:
    by_name = {field.name.casefold(): i for i, field in reversed([*enumerate(values.type)])}
    numbers = (by_name.get(field.name.casefold()) for field in declared)
    nothing = pa.nulls(len(values))
    members = [
        converted(nothing if number is None else values.field(number), field.type, orc=orc)
        for number, field in zip(numbers, declared, strict=True)
    ]
    mask = values.is_null() if values.null_count else None
    if not members:
        return values.cast(declared)
    return pa.StructArray.from_arrays(members, fields=[*declared], mask=mask)


def _list(values: pa.Array, declared: pa.DataType, orc: bool) -> pa.Array:
    if not kinds.is_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    elements = converted(values.values, declared.value_type, orc=orc)
    return _nested(values, declared, [elements])


def _map(values: pa.MapArray, declared: pa.MapType, orc: bool) -> pa.Array:
    entries = pa.StructArray.from_arrays(
        [
            converted(values.keys, declared.key_type, orc=orc),
            converted(values.items, declared.item_type, orc=orc),
        ],
        fields=[declared.key_field, declared.item_field],
    )
    return _nested(values, declared, [entries])


def _nested(values: pa.Array, declared: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """The lists with other elements at the same offsets."""
    validity, offsets = values.buffers()[:2]
    return pa.Array.from_buffers(
        declared, len(values), [validity, offsets], values.null_count, values.offset, children=children
    )


def usual_type(kind: pa.DataType) -> pa.DataType:
    """The type without Arrow's types for views and long values, also in nested types: some libraries and writers have
    these, and Spark and our readers have the usual ones.
    """
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return pa.string()
    if kinds.is_large_binary(kind) or kinds.is_binary_view(kind):
        return pa.binary()
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return pa.list_(usual_type(kind.value_type))
    if kinds.is_map(kind):
        return pa.map_(usual_type(kind.key_type), usual_type(kind.item_type))
    if kinds.is_struct(kind):
        return pa.struct([pa.field(f.name, usual_type(f.type), f.nullable) for f in kind])
    return kind
