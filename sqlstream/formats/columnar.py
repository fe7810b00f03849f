"""Which types of columns in Parquet, ORC and Arrow files are read as which declared types, and how.

The rules are those of Spark's reader of Parquet where that one reads values as they are. Where it would wrap them (an
unsigned number beyond the signed ones, a 32-bit number as SMALLINT) the column is refused. Times finer than
microseconds are cut to microseconds, also before 1970. A timestamp without zone is read as TIMESTAMP in UTC, and a
TIMESTAMP as TIMESTAMP_NTZ by its clock in UTC. A column of NULLs only is NULL of any type. Of Arrow's extension types
UUID, JSON and Boolean are read as what they are, others as what they are stored as.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

_NO_NANOSECONDS = 1_000
_DAY = 86_400_000_000
_MOST_DIGITS = 76


class Ambiguous(ValueError):
    """Raised where several columns or fields have a name but for the case of its letters."""

    def __init__(self, name: str, found: Sequence[str]) -> None:
        super().__init__(name)
        self.name, self.found = name, tuple(found)


def position_of(names: Sequence[str], name: str) -> int | None:
    """Returns the position of a column among the names in a file: the one that is spelled so, else the one that is
    spelled so but for the case of its letters; None without one. Raises Ambiguous where there are several.
    """
    same = [i for i, there in enumerate(names) if there == name]
    same = same or [i for i, there in enumerate(names) if there.casefold() == name.casefold()]
    if len(same) > 1:
        raise Ambiguous(name, [names[i] for i in same])
    return same[0] if same else None


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the values of a column, whatever Arrow wraps them in: a dictionary, runs of equal values, or
    an extension type. A UUID is bytes.
    """
    while True:
        if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
            kind = kind.value_type
        elif isinstance(kind, pa.Bool8Type):
            return pa.bool_()
        elif isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        else:
            return kind


def stored_values(values: pa.Array, *, as_text: bool) -> pa.Array:
    """Returns the values of a column without what Arrow wraps them in. ``as_text``: UUIDs are texts."""
    while True:
        kind = values.type
        if kinds.is_dictionary(kind):
            values = values.dictionary_decode()
        elif kinds.is_run_end_encoded(kind):
            values = pc.run_end_decode(values)
        elif isinstance(kind, pa.Bool8Type):
            return values.storage.cast(pa.bool_())
        elif isinstance(kind, pa.UuidType) and as_text:
            return uuid_texts(values.storage.cast(pa.binary())).cast(pa.string())
        elif isinstance(kind, pa.BaseExtensionType):
            values = values.storage
        else:
            return values


_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def uuid_texts(values: pa.BinaryArray) -> pa.BinaryArray:
    """Returns the texts of UUIDs of 16 bytes, ``123e4567-e89b-12d3-a456-426614174000``. NULL stays NULL, and those of
    another length are zeros.
    """
    whole = pc.if_else(pc.fill_null(pc.equal(pc.binary_length(values), 16), False), values, bytes(16))
    read = np.frombuffer(pa.concat_arrays([whole]).buffers()[2], np.uint8)[: 16 * len(values)].reshape(-1, 16)
    texts = np.full((len(values), 36), ord("-"), np.uint8)
    places = [i for i in range(36) if i not in (8, 13, 18, 23)]
    texts[:, places[0::2]], texts[:, places[1::2]] = _HEX[read >> 4], _HEX[read & 15]
    written = pa.Array.from_buffers(pa.binary(36), len(values), [None, pa.py_buffer(texts.tobytes())])
    return pc.if_else(values.is_valid(), written.cast(pa.binary()), pa.scalar(None, pa.binary()))


def fits(in_file: pa.DataType, declared: pa.DataType, *, orc: bool = False) -> bool:
    """True where values of the type ``in_file`` can be read as type ``declared``. DECIMAL and BINARY values must then
    be checked one by one.

    A STRUCT field that the file lacks is NULL; field names are compared case-insensitively. ``orc``: the file is ORC,
    where Spark writes TIMESTAMP_NTZ as a number of microseconds, and the file's type TIMESTAMP is an instant.
    """
    in_file = stored_type(in_file)
    if kinds.is_null(in_file):
        return True
    if kinds.is_nested(in_file) or is_list(in_file) or kinds.is_nested(declared):
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
        try:
            return all(fits(_member_type(in_file, field.name), field.type, orc=orc) for field in declared)
        except Ambiguous:
            return False
    return False


def _member_type(struct: pa.StructType, name: str) -> pa.DataType:
    number = position_of(struct.names, name)
    return pa.null() if number is None else struct[number].type


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


def _has_digits(kind: pa.DataType) -> bool:
    """True for DECIMALs of a scale that numbers have; the one in a damaged file ends the process in Arrow's casts."""
    return bool(kinds.is_decimal(kind) and abs(kind.scale) <= _MOST_DIGITS)


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
    (_has_digits, kinds.is_decimal),
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


def differs_in_spark(in_file: pa.DataType, declared: pa.DataType, *, orc: bool = False) -> bool:
    """True where Spark's reader of Parquet, or ``orc``, fails, or returns other values than ``converted``, for these
    types or types nested in them.

    These are nanosecond timestamps, columns of NULLs only, 16-bit floats, unsigned integers unless they are read as the
    next larger type, DECIMALs of fewer digits before or behind the point, bytes as STRING and TIME, of which Spark does
    not look whether they are such, Arrow's extension types, and names that only their case tells apart. Of ORC Arrow
    reads all timestamps in nanoseconds.
    """
    if orc and kinds.is_timestamp(in_file):
        return False
    if isinstance(in_file, pa.BaseExtensionType):
        return True
    in_file = stored_type(in_file)
    if kinds.is_map(in_file) and kinds.is_map(declared):
        return differs_in_spark(in_file.key_type, declared.key_type, orc=orc) or differs_in_spark(
            in_file.item_type, declared.item_type, orc=orc
        )
    if is_list(in_file) and is_list(declared):
        return differs_in_spark(in_file.value_type, declared.value_type, orc=orc)
    if kinds.is_struct(in_file) and kinds.is_struct(declared):
        names = [name.casefold() for name in in_file.names]
        if len(names) > len({*names}):
            return True
        own = dict(zip(names, (field.type for field in in_file), strict=True))
        return any(
            differs_in_spark(own[f.name.casefold()], f.type, orc=orc) for f in declared if f.name.casefold() in own
        )
    if kinds.is_decimal(in_file) and kinds.is_decimal(declared):
        digits, wider = (kind.precision - kind.scale for kind in (in_file, declared))
        return bool(declared.scale < in_file.scale or wider < digits)
    return any(is_one(in_file) and not is_same(declared) for is_one, is_same in _OTHERWISE_IN_SPARK)


def _never(kind: pa.DataType) -> bool:
    return False


_OTHERWISE_IN_SPARK: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...] = (
    (kinds.is_uint32, kinds.is_int64),
    (kinds.is_uint64, lambda kind: bool(kind == pa.decimal128(20, 0))),
    (lambda kind: kinds.is_binary(kind) or kinds.is_fixed_size_binary(kind), kinds.is_binary),
    (kinds.is_null, _never),
    (kinds.is_float16, _never),
    (lambda kind: bool(kinds.is_timestamp(kind) and kind.unit == "ns"), _never),
    (kinds.is_time, _never),
)
"""Types in files, and the declared types as which Spark reads them well."""


# --- values ---------------------------------------------------------------------------------------------------


def converted(values: pa.Array, declared: pa.DataType, *, orc: bool = False) -> pa.Array:
    """Converts the values of a file's column into the declared type.

    Raises pa.ArrowInvalid if the type does not fit (``fits``), or if the type does not have a value (see
    ``formats.misfits``).
    """
    values = stored_values(values, as_text=kinds.is_string(declared))
    if values.type == declared and not _has(declared, kinds.is_time):
        if _has(declared, kinds.is_string):
            values.validate(full=True)  # files may have STRINGs that are no UTF-8
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


def _has(kind: pa.DataType, is_one: Callable[[pa.DataType], bool]) -> bool:
    """Whether the type or one within it is such a one."""
    if not kinds.is_nested(kind):
        return is_one(kind)
    return any(_has(kind.field(number).type, is_one) for number in range(kind.num_fields))


def _scalars(values: pa.Array, declared: pa.DataType) -> pa.Array:
    if kinds.is_timestamp(values.type):
        values = _in_microseconds(values)
        return values.view(pa.int64()) if kinds.is_int64(declared) else values.view(pa.int64()).cast(declared)
    if kinds.is_time(values.type) and kinds.is_time(declared):
        micros = _floored(values.cast(pa.time64("ns")).view(pa.int64()))
        if pc.any(pc.or_(pc.less(micros, 0), pc.greater_equal(micros, _DAY))).as_py():
            raise pa.ArrowInvalid("a time of no day")
        return pc.multiply(micros, _NO_NANOSECONDS).cast(declared)
    if kinds.is_duration(values.type) and kinds.is_duration(declared):
        return values.cast(declared, safe=False)
    if kinds.is_time(values.type):
        return values.view(pa.int32() if kinds.is_time32(values.type) else pa.int64()).cast(declared)
    if kinds.is_date(values.type) and kinds.is_integer(declared):
        return values.cast(pa.date32()).view(pa.int32()).cast(declared)
    if kinds.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    read = values.cast(declared)
    if kinds.is_string(declared):
        read.validate(full=True)
    return read


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
    numbers = (position_of(values.type.names, field.name) for field in declared)
    nothing, found = pa.nulls(len(values)), values.flatten()  # without what NULLs hide
    members = [
        converted(nothing if number is None else found[number], field.type, orc=orc)
        for number, field in zip(numbers, declared, strict=True)
    ]
    mask = values.is_null() if values.null_count else None
    if not members:
        return values.cast(declared)
    return pa.StructArray.from_arrays(members, fields=[*declared], mask=mask)


def _list(values: pa.Array, declared: pa.DataType, orc: bool) -> pa.Array:
    if kinds.is_list_view(values.type) or kinds.is_large_list_view(values.type):
        lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int32())
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        missing = np.append(values.is_null(), False)
        values = pa.ListArray.from_arrays(pa.array(offsets, mask=missing), pc.list_flatten(values))
    elif not kinds.is_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    first, count, offsets = _elements(values)
    elements = converted(values.values.slice(first, count), declared.value_type, orc=orc)
    return _nested(values, declared, offsets, [elements])


def _map(values: pa.MapArray, declared: pa.MapType, orc: bool) -> pa.Array:
    first, count, offsets = _elements(values)
    entries = pa.StructArray.from_arrays(
        [
            converted(values.keys.slice(first, count), declared.key_type, orc=orc),
            converted(values.items.slice(first, count), declared.item_type, orc=orc),
        ],
        fields=[declared.key_field, declared.item_field],
    )
    return _nested(values, declared, offsets, [entries])


def _elements(values: pa.Array) -> tuple[int, int, np.ndarray]:
    """Of lists or maps: the first of all elements that are theirs, how many these are, and where each list begins among
    them and the last one ends. What a slice of an array leaves out is not theirs.
    """
    if not len(values):
        return 0, 0, np.zeros(1, np.int32)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
    first = int(offsets[0])
    return first, int(offsets[-1]) - first, offsets - np.int32(first)


def _nested(values: pa.Array, declared: pa.DataType, offsets: np.ndarray, children: list[pa.Array]) -> pa.Array:
    """The lists with other elements at the same offsets."""
    before = np.zeros(values.offset, np.int32)
    shifted = pa.py_buffer(np.concatenate([before, offsets]))
    return pa.Array.from_buffers(
        declared, len(values), [values.buffers()[0], shifted], values.null_count, values.offset, children=children
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
