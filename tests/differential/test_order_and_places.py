"""ORDER BY of aggregates, places of rows, and functions that skip NULLs: a stream, finished data and DuckDB agree."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlstream
from sqlstream.session import Session
from tests.depth import usually

pytestmark = pytest.mark.spark

ROWS = 60
IN_GROUPS = """
    SELECT k, ARRAY_AGG(v ORDER BY d NULLS FIRST, id) AS a,
    ARRAY_AGG(v ORDER BY d DESC NULLS LAST, s NULLS FIRST, id) AS b,
    ARRAY_AGG(id ORDER BY d NULLS LAST, v DESC NULLS FIRST, id DESC) AS c,
    ARRAY_AGG(DISTINCT v ORDER BY v DESC NULLS LAST) AS u, ARRAY_AGG(v ORDER BY id) FILTER (WHERE v > 1) AS f,
    STRING_AGG(s, '|' ORDER BY d NULLS FIRST, id) AS t, LISTAGG(s, ',' ORDER BY id DESC) AS w,
    FIRST(v ORDER BY d NULLS FIRST, id) AS first_row, LAST(s ORDER BY d NULLS FIRST, id) AS last_row,
    FIRST(v ORDER BY d DESC NULLS LAST, id) AS newest, LISTAGG(DISTINCT s, ',' ORDER BY s DESC) AS x,
    LISTAGG(DISTINCT s, ',' ORDER BY s) FILTER (WHERE v > 1) AS y, COUNT(DISTINCT v) AS z
    FROM numbers GROUP BY k
"""
OF_FLINK = """
    SELECT k, FIRST_VALUE(v ORDER BY d, id) AS a, LAST_VALUE(v ORDER BY d, id) AS b,
    JSON_ARRAYAGG(v ORDER BY d, id) AS j,
    JSON_ARRAYAGG(s ORDER BY id DESC NULL ON NULL) AS n,
    ARRAY_AGG(v IGNORE NULLS ORDER BY id DESC) AS c, COLLECT_LIST(v ORDER BY d) AS l, ANY_VALUE(s ORDER BY d, id) AS y
    FROM numbers GROUP BY k
"""
IN_FRAMES = """
    SELECT id, NTILE(3) OVER w AS tile, PERCENT_RANK() OVER p AS p, CUME_DIST() OVER p AS c, NTILE(100) OVER w AS h,
    LAG(v IGNORE NULLS) OVER w AS before, LAG(v, 2, -9 IGNORE NULLS) OVER w AS second,
    LEAD(s, 1 IGNORE NULLS) OVER w AS behind,
    NTH_VALUE(v, 2 IGNORE NULLS) OVER w AS n, NTH_VALUE(v, 2) OVER w AS m, LEAD(v, 3) OVER w AS e,
    NTH_VALUE(v, 1 IGNORE NULLS) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS f,
    NTILE(4) OVER (ORDER BY d DESC NULLS LAST, id) AS of_all
    FROM numbers WINDOW w AS (PARTITION BY k ORDER BY d NULLS FIRST, id), p AS (PARTITION BY k ORDER BY d NULLS FIRST)
"""
LISTS_IN_FRAMES = """
    SELECT id, ARRAY_AGG(v ORDER BY d DESC, id) OVER w AS a, LISTAGG(s, '|') WITHIN GROUP (ORDER BY d, id) OVER w AS t,
    FIRST_VALUE(v ORDER BY d, id) OVER w AS f, LAST_VALUE(s ORDER BY d, id) RESPECT NULLS OVER w AS l,
    JSON_ARRAYAGG(v ORDER BY id DESC) OVER w AS j
    FROM numbers WINDOW w AS (PARTITION BY k ORDER BY id ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING)
"""


def rows() -> list[dict[str, Any]]:
    choice = random.Random(5)
    return [
        {
            "id": number,
            "k": choice.choice("abc"),
            "v": choice.choice([None, 0, 1, 2, 3]),
            "d": choice.choice([None, -1.5, 0.0, 2.5, 2.5, 7.0]),
            "s": choice.choice([None, "", "x", "ü", "zz"]),
        }
        for number in range(ROWS)
    ]


TABLE = pa.Table.from_pylist(
    rows(), pa.schema({"id": pa.int32(), "k": pa.string(), "v": pa.int32(), "d": pa.float64(), "s": pa.string()})
)


@pytest.fixture(scope="module")
def session(spark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("numbers")
    pq.write_table(TABLE, folder / "numbers.parquet")
    with sqlstream.connect(spark) as own_session:
        own_session.sql(f"""CREATE TABLE numbers (id INT, k STRING, v INT, d DOUBLE, s STRING)
            WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{folder}')""")
        yield own_session


def result(session: Session, mode: str, text: str) -> Counter[str]:
    """The rows that are left."""
    session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
    left: Counter[str] = Counter()
    for kind, row in session.sql(text).changes():  # type: ignore[union-attr]
        left[repr(_plain(row))] += 1 if kind.value in ("+I", "+U") else -1
    return +left


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return round(value, 12) if isinstance(value, float) else value


@pytest.mark.parametrize("text", usually([IN_GROUPS, IN_FRAMES], IN_FRAMES), ids=["groups", "frames"])
def test_results_are_those_of_duckdb(session: Session, text: str):
    with duckdb.connect() as database:
        database.register("numbers", TABLE)
        expected = Counter(repr(_plain(row)) for row in database.sql(text).fetchall())
    for mode in ("streaming", "batch"):
        found = result(session, mode, text)
        assert found == expected, mode


@pytest.mark.parametrize("text", usually([OF_FLINK, LISTS_IN_FRAMES], OF_FLINK), ids=["groups", "frames"])
def test_both_modes_agree(session: Session, text: str):
    assert result(session, "streaming", text) == result(session, "batch", text)


def test_no_rows_are_no_rows(session: Session):
    for mode in ("streaming", "batch"):
        assert not result(session, mode, "SELECT k, COUNT(*) AS n FROM numbers GROUP BY k ORDER BY n LIMIT 0")
