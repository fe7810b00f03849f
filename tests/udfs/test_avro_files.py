"""Avro files as tasks and lookups read them, without Spark: which columns are looked at, and what faults name."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError
from sqlstream.formats.avro_files import Container, StoredBlock
from sqlstream.formats.decoder import Field
from sqlstream.types import parse_type
from sqlstream.udfs.files.avro import AvroFiles, AvroFormat


def written(path: Path, fields: dict[str, Any], records: list[dict[str, Any]]) -> str:
    schema = {"type": "record", "name": "r", "fields": [{"name": n, "type": kind} for n, kind in fields.items()]}
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), records)
    path.write_bytes(stream.getvalue())
    return str(path)


def columns(unwanted: str = "", **kinds: str) -> tuple[Field, ...]:
    return tuple(Field(name, parse_type(kind), name != unwanted) for name, kind in kinds.items())


OTHERS = [
    ("string", "x", "INT"),
    ("string", "x", "DATE"),
    ("string", "x", "ARRAY<INT>"),
    ("int", 5, "STRING"),
    ("int", 5, "STRUCT<q: INT>"),
    (["null", "int", "string"], "x", "ARRAY<INT>"),
    ({"type": "record", "name": "q", "fields": [{"name": "z", "type": "int"}]}, {"z": 1}, "INT"),
    ({"type": "record", "name": "q", "fields": [{"name": "z", "type": "int"}]}, {"z": 1}, "STRUCT<z: STRING>"),
    ({"type": "array", "items": "int"}, [1], "STRING"),
    ({"type": "map", "values": "int"}, {"a": 1}, "ARRAY<INT>"),
]


@pytest.mark.parametrize(("kind", "value", "declared"), OTHERS)
def test_a_column_that_no_query_reads_may_be_of_another_type_where_bad_rows_are_skipped(
    tmp_path, kind, value, declared
):
    path = written(tmp_path / "1.avro", {"a": "long", "b": kind}, [{"a": n, "b": value} for n in (1, 2)])
    form = AvroFormat(columns("b", a="BIGINT", b=declared), tolerant=True)
    ((decoded, _),) = form.decoded(path)
    assert (decoded.rows.to_pylist(), decoded.faults) == ([{"a": 1}, {"a": 2}], ())


def test_values_of_a_column_that_no_query_reads_are_bad_rows_where_these_are_skipped(tmp_path):
    path = written(tmp_path / "1.avro", {"a": "long", "b": "int"}, [{"a": 1, "b": 300}, {"a": 2, "b": 7}])
    form = AvroFormat(columns("b", a="BIGINT", b="TINYINT", gone="INT"), nulls=True, tolerant=True)
    ((decoded, _),) = form.decoded(path)
    assert decoded.rows.to_pylist() == [{"a": 2, "gone": None}]
    assert [fault.reason for fault in decoded.faults] == ['column "b" of type TINYINT is 300']


def test_a_fault_names_its_record_and_block_behind_blocks_with_faults(tmp_path):
    text = "x" * 500
    path = tmp_path / "1.avro"
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}, {"name": "s", "type": "string"}]}
    stream = io.BytesIO()
    fastavro.writer(stream, schema, [{"a": n, "s": text} for n in range(6)], sync_interval=1_000)
    content = bytearray(stream.getvalue())
    blocks = [block.at for block in Container(bytes(content)).blocks() if isinstance(block, StoredBlock)]
    assert len(blocks) == 3
    begin = content.index(text.encode(), blocks[0]) - 2
    content[begin : begin + 2] = b"\xff\x7f"  # the first record of the first block has a negative length
    begin = content.index(text.encode(), content.index(text.encode(), blocks[1]) + 1) - 2
    content[begin : begin + 2] = b"\xff\x7f"  # the second one of the second
    path.write_bytes(content)
    form = AvroFormat(columns(a="BIGINT", s="STRING"), tolerant=True)
    ((decoded, read),) = form.decoded(str(path))
    places = [read.message(fault).split(":")[0] for fault in decoded.faults]
    assert places == [f"record {n} of the block at byte {at:,}" for n, at in ((1, blocks[0]), (2, blocks[1]))]
    assert read.bad(decoded.faults).field("place").to_pylist() == [f"{path}: {place}" for place in places]
    assert [read.place(row, decoded) for row in range(3)] == [
        f"record {n} of the block at byte {at:,}" for n, at in ((1, blocks[1]), (1, blocks[2]), (2, blocks[2]))
    ]


def test_whole_files_are_read_and_fail_alike_here_and_elsewhere(tmp_path):
    path = written(tmp_path / "1.avro", {"a": "int"}, [{"a": 1}, {"a": 70_000}])
    form = AvroFormat(columns(a="SMALLINT"))
    good = AvroFiles(AvroFormat(columns(a="INT")))
    messages = set()
    for content in (None, Path(path).read_bytes()):
        assert pa.Table.from_batches(good.batches(path, content), good.schema).to_pylist() == [{"a": 1}, {"a": 70_000}]
        with pytest.raises(
            ExecutionError, match=r"SS402: a row in record 2 of the block at byte \d+ of file "
        ) as raised:
            list(AvroFiles(form).batches(path, content))
        messages.add(str(raised.value))
    assert len(messages) == 1
    for content in (b"PAR1", b""):
        with pytest.raises(ExecutionError, match="SS528"):
            list(good.batches(path, content))
    with pytest.raises(ExecutionError, match="SS529"):
        list(good.batches(str(tmp_path / "2.avro")))
    with pytest.raises(ValueError, match=r"^record 2 of the block"):  # for lookups, which name the table, too
        list(form.placed(path))
