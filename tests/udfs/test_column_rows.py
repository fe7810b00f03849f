"""Queries over the columns of files: what is kept, what is counted, and that conditions are as Spark computes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.formats.decoder import Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.planner.nodes import Output
from sqlstream.planner.physical.column_queries import Selection, column_query
from sqlstream.planner.physical.sources import ThroughSpark
from sqlstream.types import DataType
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.column_rows import ROWS_BAD, ROWS_GIVEN, ROWS_READ, ColumnRows
from sqlstream.udfs.expressions.evaluation import is_true
from sqlstream.udfs.expressions.tree import Column
from sqlstream.udfs.files.records import RecordRows
from sqlstream.udfs.files.splits import FILE, LENGTH, MODIFIED, SHARE, SHARES
from sqlstream.udfs.files.text import TextFormat
from sqlstream.udfs.messages import BAD_TYPE
from tests.planner.plans import plan

TABLE = """CREATE TABLE t (i INT, n BIGINT, x DOUBLE, y DOUBLE, s STRING, b BOOLEAN)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json');"""
READ = {"n": pa.int64(), "s": pa.string()}


def compiled(query: str) -> Selection:
    bound = plan(query, TABLE)
    assert isinstance(bound, Output)
    found = column_query(bound, ThroughSpark())
    assert found is not None, query
    return found


def computed(
    path: Path,
    where: str,
    *,
    discards: bool = False,
    tolerates: bool = False,
    letters: bool = False,
    apart: bool = True,
) -> list[tuple[Any, ...]]:
    query = compiled(f"SELECT s AS name FROM t {where}")
    decoder = JsonDecoder((Field("n", DataType("BIGINT")), Field("s", DataType("STRING"))))
    read = pa.schema({**READ, BAD: BAD_TYPE} if tolerates else READ)
    reader = RecordRows(read, {}, TextFormat(decoder, tolerant=tolerates), apart=apart)
    more = ({ROWS_BAD: pa.int64()} if tolerates else {}) | ({BAD: BAD_TYPE} if letters else {})
    result = pa.schema({"name": pa.string(), ROWS_READ: pa.int64(), ROWS_GIVEN: pa.int64(), **more})
    work = ColumnRows(reader, result, ("s",), query.steps, discards)
    place = {FILE: path.as_uri(), LENGTH: path.stat().st_size, MODIFIED: 0, SHARE: 0, SHARES: 1}
    batches = work.rows([pa.RecordBatch.from_pylist([place])])
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_the_rows_of_the_result_come_first_and_then_the_number_of_those_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"n": 1, "s": "x"}\n{"n": 2}\n{"s": "y"}\n{"n": 246, "s": "z"}\n')
    assert computed(path, "") == [*((s, None, None) for s in ("x", None, "y", "z")), (None, 4, 4)]
    assert computed(path, "WHERE MOD(n, 123) = 0") == [("z", None, None), (None, 4, 1)]
    assert computed(path, "WHERE n > 1000 AND s = 'x'") == [(None, 4, 0)]
    assert computed(path, "WHERE n > 1", discards=True) == [(None, 4, 2)]


@pytest.mark.parametrize("apart", [True, False])
def test_records_that_cannot_be_read_are_counted_and_given_where_somebody_takes_them(
    apart: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"n": 1, "s": "x"}\nno json\n{"n": 2, "s": "y"}\n{"n": "z"}\n')
    assert computed(path, "WHERE n > 1", tolerates=True, apart=apart) == [("y", None, None, None), (None, 4, 1, 2)]
    assert computed(path, "WHERE n IS NULL", tolerates=True, apart=apart) == [(None, 4, 0, 2)]
    for discards in (False, True):
        *rows, last = computed(path, "WHERE n > 1", discards=discards, tolerates=True, letters=True, apart=apart)
        assert last == (None, 4, 1, 2, None)
        assert [row[0] for row in rows] == [None, None, *([] if discards else ["y"])]
        letters = [row[-1] for row in rows if row[-1] is not None]
        assert [(bad["record"], bad["place"]) for bad in letters] == [
            (b"no json", f"{path}:2"),
            (b'{"n": "z"}', f"{path}:4"),
        ]
        assert all(bad["error"].startswith("SS402: ") for bad in letters)


CONDITIONS = [
    "i = n", "i < n", "n >= -1", "n <> 9223372036854775807", "i IS NULL", "i IS NOT NULL AND b", "NOT b OR s > 'b'",
    "x = y", "x < y", "x >= y", "NOT (x <> y)", "s IN ('a', 'é')", "s NOT IN ('a', 'b')", "n BETWEEN -3 AND 3",
    "MOD(i, 3) = -1", "MOD(n, -4) > 0", "n % 7 <> i", "i IS DISTINCT FROM n", "i IS NOT DISTINCT FROM n",
    "(i > 0) IS TRUE", "(i > 0) IS NOT FALSE", "s <= 'zz'", "b",
]  # fmt: skip
ROWS = [
    (i, n, x, y, s, b)
    for i, n in ((None, 1), (-1, -1), (3, None), (2, 2**63 - 1), (-(2**31), -(2**63)), (0, 0), (-7, 14))
    for x, y in ((None, 1.0), (float("nan"), float("nan")), (float("nan"), 1e308), (-0.0, 0.0), (1.5, -2.0))
    for s, b in ((None, True), ("a", None), ("é", False), ("", True), ("z\U0001f600", False))
]


@pytest.mark.spark
def test_conditions_are_true_where_they_are_for_spark(spark: Any) -> None:
    conditions = {text: compiled(f"SELECT n FROM t WHERE {text}").steps for text in CONDITIONS}
    names = ["i", "n", "x", "y", "s", "b"]
    kinds = (pa.int32(), pa.int64(), pa.float64(), pa.float64(), pa.string(), pa.bool_())
    arrays = [pa.array(values, kind) for values, kind in zip(zip(*ROWS, strict=True), kinds, strict=True)]
    columns = {Column(name): array for name, array in zip(names, arrays, strict=True)}
    frame = spark.createDataFrame(ROWS, "i INT, n BIGINT, x DOUBLE, y DOUBLE, s STRING, b BOOLEAN").coalesce(1)
    by_spark = frame.selectExpr(*(f"coalesce({condition}, false)" for condition in conditions)).collect()
    for number, (condition, parts) in enumerate(conditions.items()):
        ours = [all(each) for each in zip(*(is_true(part.expression, columns) for part in parts), strict=True)]
        assert ours == [row[number] for row in by_spark], condition
