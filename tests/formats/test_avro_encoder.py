"""What is written as Avro is read again, by us and by another library: all types, nested, NULLs at each depth."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats.avro import AvroDecoder
from sqlstream.formats.avro_encoder import AvroWriter
from sqlstream.formats.avro_files import Container, StoredBlock
from sqlstream.formats.avro_schema import schema_of_columns, unwritable
from sqlstream.formats.decoder import Field
from sqlstream.formats.encodings import AVRO_CODECS
from sqlstream.types import DataType, parse_type
from tests.depth import depth

TEXTS = st.text(st.characters(codec="utf-8"), max_size=70)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "STRING": TEXTS,
    "BINARY": st.binary(max_size=200),
    "DATE": st.dates(date(1, 1, 1)),
    "TIME": st.times(),
    "TIMESTAMP": TIMES.map(lambda t: t.replace(tzinfo=UTC)),
    "TIMESTAMP_NTZ": TIMES,
    "DECIMAL(20, 5)": st.decimals(-(10**15) + 1, 10**15 - 1, places=5),
    "DECIMAL(38, 0)": st.integers(1 - 10**38, 10**38 - 1).map(lambda n: pa.scalar(n, pa.decimal128(38, 0)).as_py()),
    "VOID": st.none(),
}


def _nullable(of: tuple[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    return st.none() | of[1]


LEAVES = st.sampled_from([*SCALARS.items()])
TYPES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda of: (f"ARRAY<{of[0]}>", st.lists(_nullable(of), max_size=4))),
        inner.map(lambda of: (f"MAP<STRING, {of[0]}>", st.dictionaries(TEXTS, _nullable(of), max_size=4))),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda of: (
                f"STRUCT<{', '.join(f'f{i}: {kind}' for i, (kind, _) in enumerate(of))}>",
                st.fixed_dictionaries({f"f{i}": _nullable(member) for i, member in enumerate(of)}),
            )
        ),
    ),
    max_leaves=4,
)


def written(rows: pa.RecordBatch, kinds: list[str], codec: str, *, legacy: bool = False) -> bytes:
    file = io.BytesIO()
    columns = [(f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds)]
    writer = AvroWriter(file, columns, codec, legacy=legacy)
    writer.write(rows)
    writer.write(rows.slice(len(rows) // 2))
    writer.close()
    return file.getvalue()


def read(content: bytes, kinds: list[str]) -> pa.RecordBatch:
    file = Container(content)
    decoder = AvroDecoder(tuple(Field(f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds)), file.schema)
    blocks = [block for block in file.blocks() if isinstance(block, StoredBlock)]
    decoded, _ = decoder.blocks([block.data for block in blocks], [block.records for block in blocks])
    assert not decoded.faults
    return decoded.rows


@settings(max_examples=depth(150, 3000))
@given(st.data())
def test_what_is_written_is_read_again(data):
    types = data.draw(st.lists(TYPES, min_size=1, max_size=4))
    count = data.draw(st.integers(0, 5))
    columns = [data.draw(st.lists(_nullable(of), min_size=count, max_size=count)) for of in types]
    arrays = [
        pa.array([_as_pairs(v) for v in values], parse_type(kind).to_arrow())
        for (kind, _), values in zip(types, columns, strict=True)
    ]
    start = data.draw(st.integers(0, count))  # arrays in which the first value is not the first of the buffer
    rows = pa.RecordBatch.from_arrays(arrays, [f"c{i}" for i in range(len(types))]).slice(start)
    kinds = [kind for kind, _ in types]
    content = written(rows, kinds, data.draw(st.sampled_from(AVRO_CODECS[:2])))
    expected = [*rows.to_pylist(), *rows.slice(len(rows) // 2).to_pylist()]
    assert read(content, kinds).to_pylist() == expected
    again: list[Any] = [*fastavro.reader(io.BytesIO(content))]
    others = [{name: _as_pairs(value) for name, value in row.items()} for row in again]
    assert pa.RecordBatch.from_pylist(others, schema=rows.schema).to_pylist() == expected


def _as_pairs(value: Any) -> Any:
    """Maps as Arrow takes them, at any depth; STRUCTs, which have fields ``f0`` and so on, stay."""
    if isinstance(value, dict):
        inner = {key: _as_pairs(member) for key, member in value.items()}
        return inner if inner and all(key in ("f0", "f1", "f2") for key in inner) else [*inner.items()]
    return [*map(_as_pairs, value)] if isinstance(value, list) else value


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_blocks_are_of_bounded_size_in_each_codec(codec):
    rows = pa.RecordBatch.from_arrays([pa.array(range(40_000)), pa.array(["x" * 20] * 40_000)], ["c0", "c1"])
    content = written(rows, ["BIGINT", "STRING"], codec)
    blocks = [block for block in Container(content).blocks() if isinstance(block, StoredBlock)]
    assert len(blocks) > 20
    assert max(block.data.size for block in blocks) <= 64_000
    assert read(content, ["BIGINT", "STRING"]).num_rows == 60_000
    assert read(content, ["BIGINT"]).column(0).slice(0, 40_000).equals(rows.column(0))


def test_a_record_that_is_larger_than_a_block_is_one():
    rows = pa.RecordBatch.from_arrays([pa.array(["y" * 200_000, None, "z" * 200_000])], ["c0"])
    assert read(written(rows, ["STRING"], "null"), ["STRING"]).column(0).slice(0, 3).equals(rows.column(0))


def test_the_mapping_before_flink_1_19_writes_clocks_as_instants():
    clock = datetime(2024, 1, 31, 12, 30)
    rows = pa.RecordBatch.from_arrays([pa.array([clock], pa.timestamp("us"))], ["c0"])
    for legacy, expected in ((False, clock), (True, clock.replace(tzinfo=UTC))):
        content = written(rows, ["TIMESTAMP_NTZ"], "null", legacy=legacy)
        assert next(iter(fastavro.reader(io.BytesIO(content)))) == {"c0": expected}
        assert read(content, ["TIMESTAMP_NTZ"]).to_pylist()[0] == {"c0": clock}


def test_what_no_schema_holds_is_said():
    assert unwritable(parse_type("ARRAY<MAP<INT, INT>>")) == "keys of a MAP are texts in Avro"
    assert unwritable(parse_type("STRUCT<a: VARIANT>")) == "Avro has no VARIANT"
    assert unwritable(parse_type("STRUCT<`ä`: INT>")) == '"ä" is no name in Avro'
    assert unwritable(parse_type("STRUCT<a: MAP<STRING, DECIMAL(3, 1)>>")) is None


def test_what_is_not_null_within_a_column_is_no_union():
    """As Flink's ``AvroSchemaConverter``."""
    whole, text = DataType("INT", nullable=False), DataType("STRING")
    kinds = (
        DataType("STRUCT", (("x", whole), ("y", text))), DataType("ARRAY", (whole,)), DataType("MAP", (text, whole)),
    )  # fmt: skip
    schema = json.loads(schema_of_columns([(f"c{n}", kind) for n, kind in enumerate(kinds)]))
    struct, array, mapping = (member["type"][1] for member in schema["fields"])
    assert [member["default"] for member in schema["fields"]] == [None] * 3
    assert struct["fields"] == [
        {"name": "x", "type": "int"},
        {"name": "y", "type": ["null", "string"], "default": None},
    ]
    assert (array["items"], mapping["values"]) == ("int", "int")
