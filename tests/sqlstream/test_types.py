from __future__ import annotations

import pyarrow as pa
import pytest

from sqlstream.errors import BindError
from sqlstream.types import DataType, from_arrow, from_spark, from_sqlglot, parse_type

SIMPLE = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(38, 18)",
    "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "INTERVAL DAY TO SECOND", "VOID", "VARIANT",
]  # fmt: skip
NESTED = [
    "ARRAY<INT>", "MAP<STRING, DECIMAL(10, 2)>", "STRUCT<a: INT, b: ARRAY<STRING>>",
    "ARRAY<MAP<STRING, STRUCT<x: DATE>>>",
    "STRUCT<`a b`: INT, `ü`: STRING>", "ARRAY<INTERVAL DAY TO SECOND>",
]  # fmt: skip


@pytest.mark.parametrize("text", [*SIMPLE, *NESTED, "INTERVAL YEAR TO MONTH"])
def test_ddl_parses_to_the_same_type(text: str) -> None:
    assert parse_type(text).ddl() == text
    assert from_sqlglot(parse_type(text).to_sqlglot()) == parse_type(text)


@pytest.mark.parametrize("text", [t for t in [*SIMPLE, *NESTED] if t != "VARIANT"])
def test_arrow_types_go_back_to_the_same_type(text: str) -> None:
    assert from_arrow(parse_type(text).to_arrow()) == parse_type(text)


@pytest.mark.parametrize(
    ("spelling", "type_"),
    [
        ("varchar(10)", "STRING"), ("char(5)", "STRING"), ("long", "BIGINT"), ("numeric(4)", "DECIMAL(4, 0)"),
        ("decimal", "DECIMAL(10, 0)"), ("TIMESTAMP(3)", "TIMESTAMP"), ("TIMESTAMP_LTZ(6)", "TIMESTAMP"),
        ("BYTES", "BINARY"), ("DOUBLE PRECISION", "DOUBLE"), ("interval month", "INTERVAL YEAR TO MONTH"),
        ("interval second", "INTERVAL DAY TO SECOND"), ("struct<a:int,b:string>", "STRUCT<a: INT, b: STRING>"),
    ],
)  # fmt: skip
def test_other_spellings_are_understood(spelling: str, type_: str) -> None:
    assert parse_type(spelling).ddl() == type_


@pytest.mark.parametrize(
    "text", ["foo", "array<foo>", "struct<a: foo>", "int int", "", "decimal(50, 2)", "decimal(2, 5)"]
)
def test_what_is_no_type_is_an_error(text: str) -> None:
    with pytest.raises(BindError) as error:
        parse_type(text)
    assert error.value.code == "SS280"
    assert f'type "{text}"' in str(error.value)


def test_arrow_types_without_counterpart_are_unknown() -> None:
    assert from_arrow(pa.dictionary(pa.int8(), pa.string())).is_unknown


@pytest.mark.spark
@pytest.mark.parametrize("text", [*SIMPLE, *NESTED, "INTERVAL YEAR TO MONTH"])
def test_spark_reads_the_ddl_and_gives_the_type_back(spark, text: str) -> None:
    from pyspark.sql.types import StructType, _parse_datatype_string

    schema = _parse_datatype_string(f"c {text}")
    assert isinstance(schema, StructType)
    assert from_spark(schema.jsonValue()) == DataType("STRUCT", (("c", parse_type(text)),))


@pytest.mark.spark
@pytest.mark.parametrize("text", [t for t in [*SIMPLE, *NESTED] if t != "VARIANT"])
def test_spark_exchanges_the_arrow_type(spark, text: str) -> None:
    result = spark.sql(f"SELECT CAST(NULL AS {text}) AS c").toArrow().schema.field("c").type
    assert from_arrow(result) == from_arrow(parse_type(text).to_arrow())
