"""Avro files as tasks and lookups read them, without Spark: which columns are looked at, and what faults name."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from sqlstream.formats.decoder import Field
from sqlstream.types import parse_type
from sqlstream.udfs.avro_files import AvroFormat


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
