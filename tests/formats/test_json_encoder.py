"""What is written as JSON is read as what it was."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.formats.decoder import Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.formats.json_encoder import JsonEncoder
from sqlstream.types import DataType, parse_type
from tests.depth import depth


def fields(*kinds: str) -> tuple[Field, ...]:
    return tuple(Field(f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds))


def batch(columns: tuple[Field, ...], *rows: tuple[Any, ...]) -> pa.RecordBatch:
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(list(v), f.type.to_arrow()) for f, v in zip(columns, values, strict=True)]
    return pa.record_batch(arrays, [f.name for f in columns])


def written(kind: str, value: Any, **options: Any) -> str:
    of = fields(kind)
    (text,) = JsonEncoder(of, **options).texts(batch(of, (value,))).to_pylist()
    return str(text).removeprefix('{"c0":').removesuffix("}")


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("BIGINT", -5, "-5"),
        ("BOOLEAN", True, "true"),
        ("STRING", 'a"b\\\n\x01é', '"a\\"b\\\\\\n\\u0001é"'),
        ("DOUBLE", float("nan"), '"NaN"'),
        ("DOUBLE", float("-inf"), '"-Infinity"'),
        ("DECIMAL(11, 9)", Decimal("0.000000027"), "2.7E-8"),
        ("BINARY", b"\x00\x01\xff\x00", '"AAH/AA=="'),
        ("DATE", date(2024, 1, 31), '"2024-01-31"'),
        ("TIMESTAMP_NTZ", datetime(2024, 1, 31, 12, 30), '"2024-01-31 12:30:00.000000"'),
        ("TIMESTAMP", datetime(2024, 10, 27, 0, 30, tzinfo=UTC), '"2024-10-27 00:30:00.000000Z"'),
        ("INTERVAL", timedelta(days=-1, hours=-2, microseconds=-3), "\"INTERVAL '-1 02:00:00.000003' DAY TO SECOND\""),
        ("ARRAY<STRING>", ["a", None], '["a",null]'),
        ("MAP<STRING, ARRAY<INT>>", {"k": [], "j": None}, '{"k":[],"j":null}'),
        ("STRUCT<a: INT, `b c`: INT>", {"a": None, "b c": 1}, '{"a":null,"b c":1}'),
        ("STRUCT<a: INT>", None, "null"),
    ],
)
def test_values_are_written_as_in_flink(kind: str, value: Any, text: str) -> None:
    assert written(kind, value) == text


def test_options_say_how() -> None:
    assert written("DECIMAL(11, 9)", Decimal("-0.000000027"), plain_decimals=True) == "-0.000000027"
    assert written("DECIMAL(38, 38)", Decimal("1E-38"), plain_decimals=True) == f"0.{'0' * 37}1"
    instant = datetime(2024, 1, 31, 12, 30, tzinfo=UTC)
    assert written("TIMESTAMP", instant, standard="ISO-8601") == '"2024-01-31T12:30:00.000000Z"'
    columns = fields("INT", "STRUCT<a: INT, b: INT>", "INT")
    rows = batch(columns, (None, {"a": 1, "b": None}, 2), (None, {"a": None, "b": None}, None))
    assert JsonEncoder(columns, ignores_nulls=True).lines(rows) == b'{"c1":{"a":1},"c2":2}\n{"c1":{}}\n'


def instants() -> st.SearchStrategy[datetime]:
    autumn = st.integers(0, 4 * 3600).map(lambda s: datetime(2024, 10, 26, 23, tzinfo=UTC) + timedelta(seconds=s))
    return autumn | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(38, 20)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-20")),
    "DECIMAL(9, 9)": st.integers(-999, 999).map(lambda n: Decimal(f"{n}E-9")),
    "STRING": st.text(st.characters(exclude_categories=["Cs"])),
    "BINARY": st.binary(max_size=9),
    "DATE": st.dates(),
    "TIME": st.times(),
    "TIMESTAMP": instants(),
    "TIMESTAMP_NTZ": st.datetimes(),
    "INTERVAL": st.timedeltas(timedelta(days=-100_000_000), timedelta(days=100_000_000)),
}
KINDS = (*SCALARS, "ARRAY<ARRAY<STRING>>", 'MAP<STRING, STRUCT<x: TIMESTAMP, `y "`: BINARY>>', "STRUCT<a: INTERVAL>")


def values_of(kind: DataType) -> st.SearchStrategy[Any]:
    inner = [t for t in kind.args if isinstance(t, DataType)]
    match kind.name:
        case "ARRAY":
            values: st.SearchStrategy[Any] = st.lists(values_of(inner[0]), max_size=3)
        case "MAP":
            values = st.dictionaries(SCALARS["STRING"], values_of(inner[1]), max_size=3).map(lambda m: list(m.items()))
        case "STRUCT":
            values = st.fixed_dictionaries({name: values_of(of) for name, of in kind.fields()})
        case _:
            values = SCALARS[kind.ddl() if kind.name != "INTERVAL" else "INTERVAL"]
    return st.none() | values


@settings(max_examples=depth(60, 2000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(*(values_of(parse_type(kind)) for kind in KINDS)), max_size=4),
    st.sampled_from([None, "SQL", "ISO-8601"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata"]),
)
def test_what_is_written_is_read_as_it_was(
    rows: list[tuple[Any, ...]], standard: str | None, plain: bool, ignores_nulls: bool, zone: str
) -> None:
    columns = fields(*KINDS)
    given_rows = batch(columns, *rows)
    encoder = JsonEncoder(columns, standard, plain, ignores_nulls)
    decoder = JsonDecoder(columns, standard=standard, zone=zone)
    for read in (decoder.block(pa.py_buffer(encoder.lines(given_rows))), decoder.messages(encoder.texts(given_rows))):
        assert not read.faults
        assert read.rows.to_pylist() == given_rows.to_pylist()
    sliced = batch(columns, *rows, *rows).slice(len(rows))
    texts = encoder.texts(sliced)
    assert texts.to_pylist() == encoder.texts(given_rows).to_pylist()
    assert all(list(json.loads(text)) for text in texts.to_pylist() if not ignores_nulls)
