"""Which columns of Parquet, ORC and Arrow files are read as which types, and that none of their values changes."""

from __future__ import annotations

from datetime import UTC, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.columnar import converted, differs_in_spark, fits
from sqlstream.types import parse_type

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


@settings(deadline=None)
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
    assert differs(pa.map_(pa.string(), pa.null()), "MAP<STRING, STRING>")
    assert not any(
        (differs(pa.uint32(), "BIGINT"), differs(pa.uint64(), "DECIMAL(20, 0)"), differs(pa.int64(), "BIGINT"))
    )
