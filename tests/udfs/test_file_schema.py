"""Columns of files against those of a table: what is refused is what neither reader of Parquet takes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.types import parse_type
from sqlstream.udfs.files.listed import mismatches, type_name

THERE = [
    pa.field("id", pa.int64()), pa.field("Place", pa.struct([("city", pa.string())])),
    pa.field("tags", pa.list_(pa.string())),
]  # fmt: skip


def wrong(wanted: str, *, nulls: bool = False) -> list[str]:
    columns = dict(column.split(" ", 1) for column in wanted.split("; "))
    actual = mismatches(THERE, {name: parse_type(kind).to_arrow() for name, kind in columns.items()}, nulls=nulls)
    return [m.diagnostic("f").message for m in actual]


def test_columns_are_found_in_any_case():
    assert wrong("ID BIGINT; place STRUCT<CITY: STRING>; tags ARRAY<STRING>") == []


def test_each_missing_column_is_told():
    assert wrong("idd BIGINT; tag STRING") == ['file "f" has no column "idd"', 'file "f" has no column "tag"']
    assert wrong("idd BIGINT; tag STRING", nulls=True) == []


def test_fields_within_columns_are_columns():
    assert wrong("place STRUCT<town: STRING>") == ['file "f" has no column "place.town"']
    assert wrong("place STRUCT<city: INT>") == ['column "place.city" is STRING in file "f", not INT']


def test_a_name_that_is_there_twice_is_that_which_is_spelled_the_same():
    twice = [pa.field(name, pa.int64()) for name in ("A", "a", "b", "B", "B")]
    assert not [*mismatches(twice, {"a": pa.int64(), "b": pa.int64()}, nulls=False)]
    said = [m.diagnostic("f").message for m in mismatches(twice, {"B": pa.int64()}, nulls=True)]
    assert said == ['file "f" has more than one column "B": "B", "B"']


def test_both_types_are_told_as_sql_spells_them():
    assert wrong("id STRING") == ['column "id" is BIGINT in file "f", not STRING']
    assert wrong("tags ARRAY<INT>") == ['column "tags" is ARRAY<STRING> in file "f", not ARRAY<INT>']
    assert [type_name(kind) for kind in (pa.uint32(), pa.timestamp("ns", "UTC"), pa.dictionary(pa.int8(), pa.string()))
            ] == ["uint32", "TIMESTAMP", "STRING"]  # fmt: skip


FILES = {
    "int": pa.array([1], pa.int32()),
    "long": pa.array([1], pa.int64()),
    "double": pa.array([1.5]),
    "text": pa.array(["a"]),
    "date": pa.array([1], pa.int32()).cast(pa.date32()),
    "instant": pa.array([1], pa.int64()).cast(pa.timestamp("us", "UTC")),
}
REFUSED = {
    "int": ["STRING", "FLOAT", "DECIMAL(9, 2)", "TIMESTAMP", "ARRAY<INT>"],
    "long": ["INT", "DOUBLE", "STRING", "DECIMAL(12, 2)"],
    "double": ["FLOAT", "BIGINT", "DECIMAL(10, 2)"],
    "text": ["BIGINT", "DATE", "BOOLEAN"],
    "date": ["TIMESTAMP", "STRING"],
    "instant": ["DATE", "STRING", "INT"],
}
WRAPPED = {"int": ["SMALLINT", "TINYINT"]}
"""Types as which Spark reads other values than the file has, and which are refused for that."""
ACCEPTED = {
    "int": ["BIGINT", "DOUBLE", "DECIMAL(12, 2)"],
    "long": ["BIGINT", "DECIMAL(22, 2)"],
    "double": ["DOUBLE"],
    "text": ["STRING", "BINARY"],
    "date": ["DATE", "TIMESTAMP_NTZ"],
    "instant": ["TIMESTAMP", "TIMESTAMP_NTZ"],
}


@pytest.mark.spark
@pytest.mark.parametrize("name", FILES)
def test_what_is_refused_is_what_spark_refuses(name, spark, tmp_path):
    from py4j.protocol import Py4JJavaError

    path = str(tmp_path / "1.parquet")
    pq.write_table(pa.table({"c": FILES[name]}), path)

    def is_read(kind: str) -> bool:
        try:
            return bool(spark.read.schema(f"c {kind}").parquet(path).collect())
        except Py4JJavaError:
            return False

    def fits(kind: str) -> bool:
        return not [*mismatches([pa.field("c", FILES[name].type)], {"c": parse_type(kind).to_arrow()}, nulls=False)]

    for kind in (*REFUSED[name], *ACCEPTED[name]):
        assert (is_read(kind), fits(kind)) == ((kind in ACCEPTED[name],) * 2), kind
    for kind in WRAPPED.get(name, ()):
        assert (is_read(kind), fits(kind)) == (True, False), kind
