"""Rows that are checked while they are read, below joins that Spark SQL allows deterministic inputs alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sqlstream
from sqlstream.errors import SqlStreamError
from sqlstream.query import Query
from sqlstream.session import Session
from tests.depth import usually

pytestmark = pytest.mark.spark

FORMATS = ("json", "csv", "parquet", "orc")
CONSTRAINTS = {"keyed": "k INT, v INT, PRIMARY KEY (k) NOT ENFORCED", "required": "k INT NOT NULL, v INT NOT NULL"}
ROWS = [(1, 10), (1, 20), (2, 30)]


@pytest.fixture(scope="module")
def session(spark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Tables of each format, such as ``json_keyed``; ``json_bad`` lacks a value in a row, skipped in ``json_skip``."""
    folder = tmp_path_factory.mktemp("checked")
    with sqlstream.connect(spark) as own:
        for kind in FORMATS:
            good, bad = folder / f"good_{kind}", folder / f"bad_{kind}"
            for path, rows in ((good, ROWS), (bad, [*ROWS, (3, None)])):
                frame = spark.createDataFrame(rows, "k INT, v INT").coalesce(1)
                frame.write.format(kind).save(str(path))
            options = f"'connector' = 'filesystem', 'format' = '{kind}'"
            for name, columns in CONSTRAINTS.items():
                own.sql(f"CREATE TABLE {kind}_{name} ({columns}) WITH ({options}, 'path' = '{good}')")
            required = CONSTRAINTS["required"]
            own.sql(f"CREATE TABLE {kind}_bad ({required}) WITH ({options}, 'path' = '{bad}')")
            own.sql(f"CREATE TABLE {kind}_skip ({required}) WITH ({options}, 'path' = '{bad}', 'on-error' = 'skip')")
        (folder / "torn.jsonl").write_text('{"k": 1, "v": 1}\n{"k": 2, "v"\n')
        own.sql(
            "CREATE TABLE torn (k INT, v INT) WITH ('connector' = 'filesystem', 'format' = 'json', "
            f"'path' = '{folder}/torn.jsonl')"
        )
        yield own


JOINS = {
    "SELECT l.v, r.v FROM {} AS l ASOF JOIN {} AS r ON l.k = r.k AND l.v > r.v ORDER BY 1": [(20, 10)],
    "SELECT l.v, n FROM {} AS l, LATERAL (SELECT MAX(r.v) AS n FROM {} AS r WHERE r.k > l.k) AS r ORDER BY 1": [
        (10, 30), (20, 30), (30, None),
    ],
    "SELECT l.v, r.v FROM {} AS l JOIN {} AS r ON l.v < r.v AND r.k IN (SELECT k FROM {} WHERE v > 25) ORDER BY 1": [
        (10, 30), (20, 30),
    ],
    "SELECT k, v FROM {} AS l ORDER BY v - (SELECT MAX(r.v) FROM {} AS r)": [(1, 10), (1, 20), (2, 30)],
    "SELECT a.n, b.n FROM (SELECT COUNT(*) AS n FROM {}) AS a, (SELECT COUNT(*) AS n FROM {}) AS b ORDER BY 1": [
        (3, 3),
    ],
}  # fmt: skip


def rows_of(session: Session, text: str) -> list[tuple]:
    result = session.sql(text)
    assert isinstance(result, Query)
    return result.fetchall()


def filled(query: str, table: str) -> str:
    return query.format(*[table] * query.count("{}"))


@pytest.mark.long
@pytest.mark.parametrize("kind", usually(FORMATS, "csv"))
def test_checks_allow_every_join(session: Session, kind: str) -> None:
    """All of them in one query, because each query costs a second."""
    for table in (f"{kind}_keyed", f"{kind}_required", f"{kind}_skip"):
        for query, rows in JOINS.items():
            assert rows_of(session, filled(query, table)) == rows, (query, table)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("condition", ["l.v > 0", "l.v IS NOT NULL", "l.k = 1"])
def test_no_condition_of_the_query_is_before_the_check(session: Session, kind: str, condition: str) -> None:
    """The conditions are false for the bad row, which fails the query all the same, with the name of its file."""
    query = f"SELECT l.v FROM {kind}_bad AS l ASOF JOIN {kind}_keyed AS r ON l.k = r.k AND l.v > r.v WHERE {condition}"
    with pytest.raises(SqlStreamError, match=rf'SS403: column "v" of table "{kind}_bad" .* of file ".*bad_{kind}/'):
        rows_of(session, query)


def test_a_line_that_is_no_row_fails_such_a_query(session: Session) -> None:
    query = "SELECT l.v FROM torn AS l ASOF JOIN torn AS r ON l.k = r.k AND l.v > r.v WHERE l.k = 1 ORDER BY l.v"
    with pytest.raises(SqlStreamError, match=r'SS402: a row in line \d+ of file ".*torn.jsonl" cannot be read'):
        rows_of(session, query)
