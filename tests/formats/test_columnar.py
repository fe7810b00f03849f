"""Which columns of Parquet, ORC and Arrow files are read as which types, and that none of their values changes."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, time
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.columnar import Ambiguous, converted, differs_in_spark, fits, position_of
from sqlstream.formats.misfits import misfit, misfits
from sqlstream.types import parse_type
from tests.depth import depth

INSTANT = pa.timestamp("us", "UTC")
WHOLE = {f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)}
DECLARED = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(3, 0)", "DECIMAL(5, 0)", "DECIMAL(10, 0)",
            "DECIMAL(20, 0)",
            "DECIMAL(22, 2)", "DOUBLE")  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("declared", DECLARED)
def test_a_whole_number_fits_where_the_type_has_all_of_its_values(name, declared):
    in_file, kind = WHOLE[name], parse_type(declared).to_arrow()
    most = 2 ** (in_file.bit_width - (not name.startswith("u"))) - 1
    try:
        exact = pa.array([most], in_file).cast(kind).cast(pa.decimal128(38, 0)).to_pylist() == [Decimal(most)]
    except pa.ArrowInvalid:
        exact = False
    if exact and not (declared == "DOUBLE" and in_file.bit_width == 64):
        assert fits(in_file, kind)
        assert converted(pa.array([0, most, None], in_file), kind).cast(pa.decimal128(38, 0)).to_pylist() == [
            Decimal(0), Decimal(most), None,
        ]  # fmt: skip
    else:
        assert not fits(in_file, kind)
        with pytest.raises(pa.ArrowInvalid):
            converted(pa.array([1], in_file), kind)


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.sampled_from([None, "UTC", "Asia/Tokyo"]))
def test_nanoseconds_are_cut_to_microseconds_also_before_1970(values, zone):
    times = pa.array(values, pa.int64()).cast(pa.timestamp("ns", zone))
    wanted = [None if v is None else v // 1000 for v in values]
    for kind in (INSTANT, pa.timestamp("us"), pa.int64()):
        assert converted(times, kind).cast(pa.int64()).to_pylist() == wanted


def test_times_of_other_units_are_microseconds():
    for unit, value in (("s", 1), ("ms", 1_000), ("us", 1_000_000)):
        assert converted(pa.array([value, None], pa.timestamp(unit)), INSTANT).to_pylist() == [
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None,
        ]  # fmt: skip
    for kind, value in ((pa.time32("s"), 61), (pa.time32("ms"), 61_000), (pa.time64("us"), 61 * 10**6)):
        assert converted(pa.array([value], kind), pa.time64("ns")).to_pylist() == [time(0, 1, 1)]
    nanos = converted(pa.array([1_999], pa.time64("ns")), pa.time64("ns"))
    assert nanos.view(pa.int64()).to_pylist() == [1_000]


@pytest.mark.parametrize(
    "declared", ["STRING", "ARRAY<INT>", "STRUCT<a: INT>", "MAP<STRING, INT>", "TIMESTAMP", "TIME"]
)
def test_nulls_alone_are_null_of_any_type(declared):
    kind = parse_type(declared).to_arrow()
    assert converted(pa.nulls(2), kind) == pa.nulls(2, kind)
    assert converted(pa.array([[None], []], pa.list_(pa.null())), pa.list_(kind)).to_pylist() == [[None], []]


def test_values_within_others_are_read_in_the_same_way():
    found = pa.struct(
        [("A", pa.uint32()), ("at", pa.list_(pa.timestamp("ns"))), ("m", pa.map_(pa.string(), pa.uint8()))]
    )
    rows = [{"A": 2**32 - 1, "at": [1_999, None], "m": [("k", 255)]}, None, {"A": None, "at": None, "m": None}]
    kind = parse_type("STRUCT<a: BIGINT, at: ARRAY<TIMESTAMP_NTZ>, m: MAP<STRING, SMALLINT>, z: STRING>").to_arrow()
    wanted = [
        {"a": 2**32 - 1, "at": [datetime(1970, 1, 1, 0, 0, 0, 1), None], "m": [("k", 255)], "z": None},
        None,
        {"a": None, "at": None, "m": None, "z": None},
    ]
    values = pa.array(rows, found)
    assert converted(values, kind).to_pylist() == wanted
    assert converted(values.slice(1), kind).to_pylist() == wanted[1:]
    lists = pa.array([rows, None, rows[1:]], pa.list_(found))
    assert converted(lists.slice(1), pa.list_(kind)).to_pylist() == [None, wanted[1:]]
    assert not fits(found, parse_type("STRUCT<a: INT>").to_arrow())


def test_a_dictionary_is_what_is_in_it():
    assert converted(pa.array([7, 7], pa.uint16()).dictionary_encode(), pa.int32()).to_pylist() == [7, 7]
    with pytest.raises(pa.ArrowInvalid):
        converted(pa.array([7], pa.uint32()).dictionary_encode(), pa.int32())


def test_orc_has_timestamp_ntz_as_microseconds():
    clock = pa.timestamp("us")
    assert fits(pa.int64(), clock, orc=True)
    assert converted(pa.array([1], pa.int64()), clock, orc=True).to_pylist() == [datetime(1970, 1, 1, 0, 0, 0, 1)]
    assert not fits(pa.int64(), clock)
    assert not fits(pa.timestamp("ns"), clock, orc=True)
    nested = pa.list_(pa.struct([("a", pa.int64())]))
    assert fits(nested, pa.list_(pa.struct([("a", clock)])), orc=True)


def test_python_reads_what_spark_reads_otherwise():
    def differs(in_file: pa.DataType, declared: str) -> bool:
        return differs_in_spark(in_file, parse_type(declared).to_arrow())

    assert differs(pa.timestamp("ns", "UTC"), "TIMESTAMP")
    assert differs(pa.list_(pa.struct([("A", pa.timestamp("ns"))])), "ARRAY<STRUCT<a: TIMESTAMP_NTZ>>")
    assert not differs(pa.list_(pa.struct([("b", pa.timestamp("ns")), ("a", pa.int8())])), "ARRAY<STRUCT<a: INT>>")
    assert differs(pa.uint32(), "DOUBLE")
    assert differs(pa.time64("us"), "TIME")
    assert differs(pa.map_(pa.string(), pa.null()), "MAP<STRING, STRING>")
    assert differs(pa.decimal128(10, 4), "DECIMAL(10, 2)")
    assert differs(pa.decimal128(10, 2), "DECIMAL(10, 3)")
    assert differs(pa.binary(), "STRING")
    assert differs(pa.uuid(), "STRING")
    assert differs(pa.struct([("a", pa.int64()), ("A", pa.int64())]), "STRUCT<a: BIGINT>")
    assert not any((differs(pa.decimal128(10, 2), "DECIMAL(12, 4)"), differs(pa.binary(), "BINARY")))
    assert not any(
        (differs(pa.uint32(), "BIGINT"), differs(pa.uint64(), "DECIMAL(20, 0)"), differs(pa.int64(), "BIGINT"))
    )


def test_a_column_is_that_which_is_spelled_the_same_else_the_one_in_another_case():
    assert [position_of(["A", "a"], name) for name in ("a", "A", "b")] == [1, 0, None]
    assert position_of(["x", "ID"], "id") == 1
    for names in (["a", "a"], ["a", "A", "a"]):
        with pytest.raises(Ambiguous):
            position_of(names, "a")
    with pytest.raises(Ambiguous):
        position_of(["Id", "iD"], "id")


WRAPPED: dict[str, tuple[pa.Array, str, list[object]]] = {
    "uuid": (
        pa.array([uuid.UUID(int=5).bytes, None], pa.uuid()), "STRING", ["00000000-0000-0000-0000-000000000005", None],
    ),
    "uuid, bytes": (pa.array([uuid.UUID(int=5).bytes, None], pa.uuid()), "BINARY", [uuid.UUID(int=5).bytes, None]),
    "json": (pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None])), "STRING", ['{"a": 1}', None]),
    "bool8": (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None], pa.int8())), "BOOLEAN", [True, None]),
    "runs": (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", None]), "STRING", ["a", "a", None]),
    "view": (pa.array([[1, 2], None, []], pa.list_view(pa.int32())), "ARRAY<BIGINT>", [[1, 2], None, []]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRAPPED)
def test_values_are_read_whatever_arrow_wraps_them_in(name):
    values, declared, wanted = WRAPPED[name]
    kind = parse_type(declared).to_arrow()
    assert fits(values.type, kind)
    assert converted(values, kind).to_pylist() == wanted
    assert converted(values.slice(1), kind).to_pylist() == wanted[1:]
    in_lists = pa.ListArray.from_arrays([0, len(values)], values)
    assert converted(in_lists, pa.list_(kind)).to_pylist() == [wanted]


def no_utf8(kind: pa.DataType) -> pa.Array:
    """A STRING that is none, which files may have."""
    good = pa.array(["ok", "caf\xe9".encode("latin-1"), None], pa.binary())
    return pa.Array.from_buffers(pa.string(), 3, good.buffers()).cast(kind)


BAD_VALUES = {
    "string": (no_utf8(pa.string()), "STRING", '"caf\ufffd"'),
    "large string": (no_utf8(pa.large_string()), "STRING", '"caf\ufffd"'),
    "bytes": (pa.array([b"ok", b"caf\xe9"]), "STRING", '"caf\ufffd"'),
    "dictionary": (no_utf8(pa.string()).dictionary_encode(), "STRING", '"caf\ufffd"'),
    "scale": (pa.array([Decimal("1.5000"), Decimal("1.5001")]), "DECIMAL(6, 2)", "1.5001"),
    "digits": (pa.array([Decimal("1.50"), Decimal("123456.00")]), "DECIMAL(5, 2)", "123456.00"),
    "day": (
        pa.array([0, 86_400_000], pa.int32()).view(pa.time32("ms")), "TIME", "86,400,000 ms, which is no time of a day",
    ),
    "far": (pa.array([0, 2**60], pa.timestamp("s")), "TIMESTAMP", "1,152,921,504,606,846,976 s"),
    "nested": (
        pa.array([None, [Decimal("1.55")]], pa.list_(pa.decimal128(5, 2))), "ARRAY<DECIMAL(5, 1)>", "[Decimal('1.55')]",
    ),
    "map": (
        pa.array([[], [("k", 2**60)]], pa.map_(pa.string(), pa.timestamp("s"))), "MAP<STRING, TIMESTAMP>",
        "a map<string, timestamp[s]>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_VALUES)
def test_the_first_value_that_the_type_does_not_have_is_named(name):
    values, declared, spelled = BAD_VALUES[name]
    kind = parse_type(declared).to_arrow()
    with pytest.raises(pa.ArrowInvalid):
        converted(values, kind)
    assert misfit(values, kind) == (1, spelled)
    assert converted(values.slice(0, 1), kind).null_count in (0, 1)
    assert misfit(values, parse_type("BOOLEAN").to_arrow()) is None


@pytest.mark.parametrize("name", BAD_VALUES)
def test_all_values_that_the_type_does_not_have_are_found(name):
    values, declared, spelled = BAD_VALUES[name]
    kind = parse_type(declared).to_arrow()
    many = pa.concat_arrays([values, values.slice(0, 1), values.slice(1), values])
    last = len(values) + 1 + len(values) - 1
    assert misfits(many, kind) == dict.fromkeys((1, len(values) + 1, last + 1), spelled)
    assert misfits(values.slice(0, 1), kind) == {}


FOUND = (
    (pa.decimal128(6, 3), "DECIMAL(4, 1)"), (pa.decimal128(6, 3), "DECIMAL(5, 3)"),
    (pa.decimal128(6, -2), "DECIMAL(7, 0)"), (pa.decimal256(40, 2), "DECIMAL(38, 2)"),
    (pa.timestamp("s"), "TIMESTAMP"), (pa.timestamp("ms", "UTC"), "TIMESTAMP_NTZ"),
    (pa.time32("s"), "TIME"), (pa.time64("us"), "TIME"), (pa.time64("ns"), "TIME"), (pa.date64(), "TIMESTAMP_NTZ"),
    (pa.date32(), "TIMESTAMP_NTZ"), (pa.binary(), "STRING"), (pa.binary(3), "STRING"),
)  # fmt: skip
"""Types in files, and declared ones that lack some of their values."""


@settings(max_examples=depth(60, 3000))
@given(st.sampled_from(FOUND), st.sampled_from(["", "list", "struct", "map"]), st.data())
def test_masks_find_what_is_found_value_by_value(types, within, data):
    in_file, declared = types[0], parse_type(types[1]).to_arrow()
    flat = [data.draw(_value_of(in_file)) for _ in range(data.draw(st.integers(0, 6)))]
    values = _array_of(flat, in_file)
    if within == "struct":
        mask = pa.array([data.draw(st.booleans()) for _ in flat], pa.bool_())
        values = pa.StructArray.from_arrays([values], ["a"], mask=mask)
        declared = pa.struct([("a", declared)])
    elif within:
        ends = sorted(data.draw(st.lists(st.integers(0, len(flat)), min_size=2, max_size=4)))
        if within == "list":
            values, declared = pa.ListArray.from_arrays(ends, values), pa.list_(declared)
        else:
            keys = pa.array([*map(str, range(len(flat)))])
            values, declared = pa.MapArray.from_arrays(ends, keys, values), pa.map_(pa.string(), declared)
    values = values.slice(data.draw(st.integers(0, 1)))
    assert [*misfits(values, declared)] == [row for row in range(len(values)) if _is_refused(values, row, declared)]


def _is_refused(values: pa.Array, row: int, declared: pa.DataType) -> bool:
    try:
        converted(values.slice(row, 1), declared)
    except pa.ArrowInvalid:
        return True
    return False


def _value_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_decimal(kind):
        return st.none() | st.integers(-(10**kind.precision) + 1, 10**kind.precision - 1)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        least, most = (0, 5) if pa.types.is_binary(kind) else (3, 3)
        return st.none() | st.binary(min_size=least, max_size=most) | st.just(b"abc")
    bits = kind.bit_width
    day = 86_400 * {"s": 1, "ms": 1_000, "us": 10**6, "ns": 10**9}.get(getattr(kind, "unit", "s"), 1)
    edges = st.sampled_from([-1, 0, day - 1, day, (2**63 - 1) // 1000, (2**63 - 1) // 10**6, 106_751_991, 106_751_992])
    whole = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return st.none() | edges.filter(lambda n: n < 2 ** (bits - 1)) | whole


def _array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        digits = [None if n is None else Decimal(n).scaleb(-kind.scale, Context(prec=80)) for n in values]
        return pa.array(digits, kind)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array(values, kind)
    return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
