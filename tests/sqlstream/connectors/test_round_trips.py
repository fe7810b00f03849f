"""What a file sink writes, its own source reads again: every value of every type, or the sink refuses it (SS527)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import reduce
from itertools import count
from operator import or_
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sqlstream.connectors import connector, sink_connector, source_connector
from sqlstream.connectors.on_spark.unrepresentable import faults, refusing
from tests.depth import usually

pytestmark = pytest.mark.spark

NASTY = [*" \t\n\r\0\x01\x7f,;|\"'\\#/=%+:{}[]-aN0.é☃\u00a0\u2028\ufeff\U0001f600"]
WORDS = [
    "",
    "  x  ",
    "NULL",
    "null",
    "n/a",
    "\\N",
    "nan",
    "__HIVE_DEFAULT_PARTITION__",
    "a,b",
    "#a",
    '"q"',
    "01",
    "2024-01-01",
]
TEXTS = st.one_of(
    st.sampled_from(WORDS),
    st.lists(st.sampled_from(NASTY), max_size=4).map("".join),
    st.text(st.characters(codec="utf-8"), max_size=5),
)
FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, float("nan"), float("inf")])
ZONES = ("UTC", "Europe/Berlin", "America/New_York")
TIMES = st.one_of(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2)),
    st.datetimes(datetime(2024, 10, 27), datetime(2024, 10, 27, 2)),  # the hour that Berlin has twice
    st.datetimes(datetime(2024, 11, 3, 5), datetime(2024, 11, 3, 7)),  # the one of New York
    st.sampled_from([datetime(2024, 10, 27, 0, 30), datetime(2024, 10, 27, 1, 30)]),
)
DAYS = st.dates(date(1, 1, 2)) | st.dates(date(1582, 9, 30), date(1582, 10, 20))
VALUES: dict[str, tuple[st.SearchStrategy[Any], pa.DataType]] = {
    "STRING": (TEXTS, pa.string()),
    "BOOLEAN": (st.booleans(), pa.bool_()),
    "TINYINT": (st.integers(-(2**7), 2**7 - 1), pa.int8()),
    "BIGINT": (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "FLOAT": (FLOATS, pa.float32()),
    "DOUBLE": (st.floats() | FLOATS, pa.float64()),
    "DECIMAL(20, 5)": (st.decimals(-(10**15) + 1, 10**15 - 1, places=5), pa.decimal128(20, 5)),
    "DATE": (DAYS, pa.date32()),
    "TIMESTAMP": (TIMES.map(lambda t: t.replace(tzinfo=UTC)), pa.timestamp("us", "UTC")),
    "TIMESTAMP_NTZ": (TIMES, pa.timestamp("us")),
    "BINARY": (st.binary(max_size=4), pa.binary()),
    "ARRAY<STRING>": (st.lists(TEXTS | st.none(), max_size=3), pa.list_(pa.string())),
    "ARRAY<DATE>": (st.lists(DAYS | st.none(), max_size=3), pa.list_(pa.date32())),
    "MAP<STRING, DOUBLE>": (st.dictionaries(TEXTS, FLOATS | st.none(), max_size=3).map(lambda d: [*d.items()]),
                            pa.map_(pa.string(), pa.float64())),
    "STRUCT<a: STRING, b: STRUCT<c: TIMESTAMP>>": (
        st.tuples(TEXTS | st.none(), st.none() | (TIMES | st.none()).map(lambda t: {"c": t and t.replace(tzinfo=UTC)}))
        .map(lambda v: {"a": v[0], "b": v[1]}),
        pa.struct([("a", pa.string()), ("b", pa.struct([("c", pa.timestamp("us", "UTC"))]))]),
    ),
}  # fmt: skip
FLAT = [kind for kind in VALUES if "<" not in kind and kind != "BINARY"]
TABLES: dict[str, tuple[list[str], dict[str, str]]] = {
    "csv": (FLAT, {"format": "csv"}),
    "csv of one column": (["STRING"], {"format": "csv"}),
    "csv with tabs": (["STRING", "STRING", "INT"], {"format": "csv", "csv.field-delimiter": "\\t"}),
    "csv of many lines": (["STRING", "STRING"], {"format": "csv", "csv.multi-line": "true", "csv.header": "true"}),
    "csv with escapes": (["STRING", "STRING", "TIMESTAMP"], {"format": "csv", "csv.escape-character": "\\",
                                                              "csv.header": "true"}),
    "csv with escapes and a word for NULL": (["STRING", "DOUBLE", "STRING"], {
        "format": "csv", "csv.escape-character": "\\", "csv.null-literal": "\\N"}),
    "csv with escapes of many lines": (["STRING", "STRING"], {
        "format": "csv", "csv.escape-character": "\\", "csv.multi-line": "true"}),
    "csv with escapes without quotes": (["STRING", "STRING"], {
        "format": "csv", "csv.escape-character": "\\", "csv.disable-quote-character": "true"}),
    "csv with escapes in numbers": (["STRING", "DOUBLE", "TIMESTAMP", "DECIMAL(20, 5)", "DATE"], {
        "format": "csv", "csv.escape-character": "-"}),
    "csv with a word for NULL": (["STRING", "DOUBLE"], {"format": "csv", "csv.null-literal": "n/a",
                                                        "csv.quote-character": "'"}),
    "csv without quotes": (["STRING", "STRING"], {"format": "csv", "csv.disable-quote-character": "true"}),
    "csv with comments": (["STRING", "STRING"], {"format": "csv", "csv.allow-comments": "true"}),
    "json": ([*VALUES], {"format": "json"}),
    "json without nulls": ([*VALUES], {"format": "json", "json.encode.ignore-null-fields": "true",
                                       "json.timestamp-format.standard": "ISO-8601"}),
    "parquet": ([*VALUES], {"format": "parquet"}),
    "avro": ([*VALUES], {"format": "avro"}),
    "avro of an older Flink": ([*VALUES], {"format": "avro", "avro.codec": "zstandard",
                                           "avro.timestamp_mapping.legacy": "true"}),
    "avro in directories": (["BIGINT", "STRING", "DATE"], {"format": "avro", "partition-by": "c1,c2"}),
    "arrow": ([*VALUES], {"format": "arrow"}),
    "arrow in directories": (["BIGINT", "STRING", "TIMESTAMP"], {"format": "arrow", "partition-by": "c1,c2",
                                                                 "arrow.compression": "zstd"}),
    "orc": ([kind for kind in VALUES if kind != "TIMESTAMP_NTZ"], {"format": "orc"}),
    "text": (["STRING"], {"format": "text"}),
    "directories": (["BIGINT", "STRING", "DATE"], {"format": "json", "partition-by": "c1,c2"}),
    "directories of bytes": (["BIGINT", "BINARY"], {"format": "json", "partition-by": "c1"}),
    "directories of times": (["BIGINT", "TIMESTAMP", "STRING"], {"format": "csv", "partition-by": "c1"}),
}  # fmt: skip
_USUAL = (
    "csv",
    "csv with escapes and a word for NULL",
    "json",
    "parquet",
    "avro",
    "arrow",
    "orc",
    "text",
    "directories",
)
VALUES["INT"] = (st.integers(-(2**31), 2**31 - 1), pa.int32())


@pytest.fixture
def table_of(make_table, tmp_path):
    numbers = count()

    def make(name: str) -> Any:
        kinds, options = TABLES[name]
        columns = "; ".join(f"c{i} {kind}" for i, kind in enumerate(kinds))
        table = make_table("filesystem", columns, path=tmp_path / f"{next(numbers)}", format="json")
        return replace(table, options=(*(o for o in table.options if o[0] == "path"), *options.items()))

    return make


@pytest.mark.parametrize("name", usually(TABLES, *_USUAL))
def test_a_sink_and_its_own_source_agree(name: str, table_of, spark, environment) -> None:
    kinds = TABLES[name][0]
    most = 120 // len(kinds)
    columns = st.tuples(*(st.lists(st.none() | VALUES[kind][0], min_size=most, max_size=most) for kind in kinds))
    reading = replace(environment, spark=SimpleNamespace(readStream=spark.read, conf=spark.conf))
    numbers: list[int] = []

    @settings(max_examples=3, database=None, suppress_health_check=[*HealthCheck], phases=[Phase.generate])
    @given(columns)
    def check(columns: tuple[list[Any], ...]) -> None:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        table = table_of(name)
        values = connector("filesystem").values(table)
        partitions = [p for p in (table.option("partition-by") or "").split(",") if p]
        arrays = [pa.array(column, VALUES[kind][1]) for column, kind in zip(columns, kinds, strict=True)]
        made = spark.createDataFrame(pa.table(arrays, [f"c{i}" for i in range(len(kinds))]))
        made = made.select(*(F.col(name).cast(kind) for name, kind in zip(made.columns, kinds, strict=True)))
        spark.conf.set("spark.sql.session.timeZone", ZONES[len(numbers) % len(ZONES)])
        written = made.coalesce(1)
        conditions = [
            F.coalesce(c, F.lit(False)) for item in faults(table, values, partitions).values() for c, _ in item
        ]
        held = shown(written.where(~reduce(or_, conditions, F.lit(False))))
        rows = made.where(~reduce(or_, conditions, F.lit(False)))
        sink_connector("filesystem").batch_writer(environment, table)(rows.coalesce(1), 0)
        read = source_connector("filesystem").read
        item = shown(read(reading, table, tuple(c.name for c in table.columns)))
        assert ([*(item - held)], [*(held - item)]) == ([], [])
        numbers.append(held.total())

    own_zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        check()
    finally:
        spark.conf.set("spark.sql.session.timeZone", own_zone)
    assert sum(numbers) > most


def shown(rows: DataFrame) -> Counter[str]:
    return Counter(repr([sorted(v.items()) if isinstance(v, dict) else v for v in row]) for row in rows.collect())


@pytest.mark.parametrize(
    ("name", "row", "column", "message"),
    [
        ("csv of one column", ("a\nb",), 0, r'"a\\nb" has a line break\nHINT: With \'csv.multi-line\' = \'true\''),
        ("csv of one column", (None,), 0, "NULL makes a line without content.*\nHINT: .*'csv.null-literal'"),
        ("csv of one column", (" \t",), 0, "makes a line without content"),
        ("csv of many lines", ("a\r", "b"), 0, "has a line break"),
        ("csv with tabs", (None, None, None), 0, "makes a line without content"),
        ("csv with a word for NULL", ("n/a", 1.0), 0, "is the text that stands for NULL"),
        ("csv without quotes", ("x", "a,b"), 1, "has a delimiter"),
        ("csv without quotes", ("x", ""), 1, "is empty"),
        ("csv with comments", ("#x", "b"), 0, "makes a line that is a comment"),
        ("text", (None,), 0, "NULL has no text"),
        ("text", ("a\r",), 0, "has a line break"),
        ("directories", (1, "", None), 1, "is the name of the directory for NULL"),
        ("directories of bytes", (1, b""), 1, "is the name of the directory for NULL"),
        ("directories of bytes", (1, b"a\xff"), 1, "is no UTF-8"),
        ("directories of bytes", (1, b"\0"), 1, "has a NUL"),
        ("directories of bytes", (1, b"a%b"), 1, "has a character that Spark escapes"),
    ],
)
def test_a_sink_refuses_what_its_format_cannot_hold(name: str, row, column: int, message: str, table_of, spark) -> None:
    table = table_of(name)
    schema = ", ".join(f"c{i} {kind}" for i, kind in enumerate(TABLES[name][0]))
    values = connector("filesystem").values(table)
    partitions = [p for p in (table.option("partition-by") or "").split(",") if p]
    kept = f'SS527: column "c{column}" of table "t" has a value that format "{values["format"]}" cannot hold: '
    with pytest.raises(Exception, match=rf"(?s){kept}.*{message}"):
        refusing(spark.createDataFrame([row], schema), table, values, partitions).collect()


@pytest.mark.parametrize(
    ("name", "refused", "held"),
    [
        ("json", "CAST(X'ff' AS STRING)", "'\u00ff'"),
        ("csv", "CAST(X'61ff' AS STRING)", "'\u2028'"),
        ("avro", "CAST(X'61ff' AS STRING)", "'\u2028'"),
    ],
)
def test_texts_that_are_no_utf8_are_refused(name: str, refused: str, held: str, table_of, spark, make_table) -> None:
    table = make_table("filesystem", "s STRING", path="x", format=name)
    values = connector("filesystem").values(table)
    assert refusing(spark.sql(f"SELECT {held} AS s"), table, values).count() == 1
    with pytest.raises(Exception, match=r"SS527.* is no UTF-8"):
        refusing(spark.sql(f"SELECT {refused} AS s"), table, values).collect()
