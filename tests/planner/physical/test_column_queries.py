"""Which queries without state tasks compute over the columns of files, and what Spark computes."""

from __future__ import annotations

import pytest

from sqlstream.planner.catalog import Function, FunctionKind, Table
from sqlstream.planner.nodes import Scan
from sqlstream.planner.physical import physical_plan
from sqlstream.planner.physical.engine import EngineSettings
from sqlstream.planner.physical.sources import ThroughSpark
from sqlstream.planner.physical.steps import Write
from sqlstream.planner.rules import optimize
from sqlstream.types import BIGINT
from tests.planner.plans import plan

TABLES = """
CREATE TABLE t (i INT, n BIGINT, x DOUBLE, d DECIMAL(10, 2), s STRING, b BOOLEAN, at TIMESTAMP(3), r ROW<a INT>,
    twice AS n * 2, WATERMARK FOR at AS at) WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'csv');
CREATE TABLE p (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'parquet');
CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/out', 'format' = 'json');
CREATE TABLE skips (n BIGINT, r ROW<a INT>)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json', 'on-error' = 'skip');
CREATE TABLE dead (record STRING) WITH ('connector' = 'filesystem', 'path' = '/dead', 'format' = 'json');
CREATE TABLE writes (n BIGINT)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'csv', 'on-error' = 'dead-letter:dead');
CREATE TABLE checks (n BIGINT, m BIGINT NOT NULL)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'csv', 'on-error' = 'skip');
CREATE TABLE checks_within (n BIGINT, r ROW<a INT NOT NULL>)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json', 'on-error' = 'skip');
CREATE TABLE timed (n BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json', 'on-error' = 'dead-letter:dead');
CREATE TABLE computes (n BIGINT, text STRING, at AS TRY_CAST(text AS TIMESTAMP(3)), WATERMARK FOR at AS at)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json', 'on-error' = 'skip');
CREATE TABLE local_times (n BIGINT, at TIMESTAMP_NTZ, WATERMARK FOR at AS at)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json', 'on-error' = 'skip');
CREATE TABLE keyed (n BIGINT, k INT, PRIMARY KEY (k) NOT ENFORCED)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'avro', 'on-error' = 'skip');
CREATE TABLE keyed_letters (n BIGINT, k INT, PRIMARY KEY (k) NOT ENFORCED)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'avro', 'on-error' = 'dead-letter:dead');
CREATE TABLE columns (n BIGINT)
    WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'parquet', 'on-error' = 'skip');
CREATE TABLE k (n BIGINT, o BIGINT METADATA FROM 'offset', at TIMESTAMP(3) METADATA FROM 'timestamp',
    WATERMARK FOR at AS at) WITH ('connector' = 'kafka', 'format' = 'raw');
CREATE TABLE k_skips (n BIGINT, at TIMESTAMP(3) METADATA FROM 'timestamp', WATERMARK FOR at AS at)
    WITH ('connector' = 'kafka', 'format' = 'json', 'on-error' = 'skip');
CREATE TABLE clocked (n BIGINT, pt AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'json');
CREATE TABLE nowhere (n BIGINT) WITH ('connector' = 'blackhole');
"""


class Sources(ThroughSpark):
    """Tasks read all files, or none; a function of the user is ``shadowed``."""

    def __init__(self, reads: bool, shadowed: Function | None = None) -> None:
        self._reads, self._shadowed = reads, shadowed

    @property
    def zone(self) -> str | None:
        return "Europe/Berlin"

    def reads_files(self, scan: Scan) -> bool:
        return self._reads

    def discards(self, table: Table) -> bool:
        return table.connector == "blackhole"

    def function(self, name: str) -> Function | None:
        return self._shadowed if self._shadowed is not None and name.lower() == self._shadowed.name else None


def root(query: str, *, reads: bool = True) -> Write:
    settings = EngineSettings(sources=Sources(reads))
    step = physical_plan(optimize(plan(query, TABLES)), settings).root
    assert isinstance(step, Write)
    return step


BY_TASKS = [
    "SELECT * FROM (SELECT i, n, x, d, s, b, at FROM t) AS q",
    "SELECT s AS name FROM t WHERE MOD(n, 123) = 0 AND i <> -7",
    "SELECT n FROM (SELECT n, s AS name FROM t WHERE b) AS q WHERE name = 'x' OR name IS NULL",
    "SELECT at FROM t WHERE i BETWEEN 1 AND 5 AND n IN (1, 2) AND NOT (x > x)",
    "INSERT INTO o SELECT n FROM t WHERE i < n",
    "SELECT n FROM t WHERE n = 9223372036854775808",
    "SELECT 0.908 * n AS m, d - 1 AS e, SPLIT_INDEX(s, '/', 3) AS p, MOD(i, 7) AS k, s LIKE 'a%' AS l FROM t",
    "SELECT CASE WHEN 0.908 * n > 1000000 THEN s ELSE 'x' END AS c, COALESCE(s, 'y') AS o FROM t WHERE d > 1.5",
    "SELECT n FROM (SELECT n, n % 2 + d AS m FROM t) WHERE m = 0 OR m > n",
    "SELECT n FROM skips WHERE n > 1",
    "SELECT LOWER(s) AS l FROM t WHERE NULLIF(REGEXP_EXTRACT(s, '(&|^)id=([^&]*)', 2), '') IS NOT NULL",
    "SELECT n, HOUR(at) AS h, CASE WHEN HOUR(at) >= 8 THEN 'day' END AS d FROM t WHERE HOUR(at) < 20",
    "SELECT n, pt FROM clocked WHERE n > 1",
    "SELECT n FROM t WHERE LOWER(s) IN ('a', 'b') OR REGEXP_EXTRACT(LOWER(s), '[a-z]+', 0) = 'a'",
]
BY_SPARK = [
    "SELECT n + 1 AS m FROM t",
    "SELECT twice FROM t",
    "SELECT r FROM t",
    "SELECT n FROM t WHERE x > 1",
    "SELECT d * d * d * d AS e FROM t",
    "SELECT SPLIT_INDEX(s, '/', i) AS p FROM t",
    "SELECT n FROM t WHERE s LIKE 'a' ESCAPE '/'",
    "SELECT LOWER(n) AS l FROM t",
    "SELECT NULLIF(n, 1) AS l FROM t",
    "SELECT REGEXP_EXTRACT(s, 'a', 1) AS l FROM t",
    "SELECT REGEXP_EXTRACT(s, u, 1) AS l FROM (SELECT s, s AS u FROM t)",
    "SELECT CASE WHEN b THEN n ELSE i END AS c FROM t",
    "SELECT n FROM t WHERE MOD(n, 0) = 1",
    "SELECT n FROM t WHERE s = 1",
    "SELECT n FROM t WHERE at > TIMESTAMP '2024-01-01 00:00:00'",
    "SELECT n FROM t UNION ALL SELECT n FROM t",
    "SELECT n FROM (SELECT n, n % 2 + n % 3 AS m FROM t) WHERE m = 0",
    "SELECT n FROM p",
    "INSERT INTO o SELECT n FROM p",
    "SELECT n FROM checks_within",
    "SELECT n FROM computes",
    "SELECT HOUR(s) AS h FROM t",
    "SELECT n FROM local_times",
    "SELECT n FROM k_skips",
    "INSERT INTO o SELECT n FROM keyed_letters",
    "INSERT INTO nowhere SELECT n FROM columns",
]


@pytest.mark.parametrize("query", BY_TASKS)
def test_columns_as_they_are_and_conditions_are_computed_by_tasks(query: str) -> None:
    step = root(query)
    assert step.columns is not None
    assert "its tasks read and filter columns, and hand the rows of the result to Spark" in step.line
    assert "Spark lists the files, the tasks of the root read their columns" in [*step.walk()][-1].line
    assert root(query, reads=False).columns is None


@pytest.mark.parametrize("query", BY_SPARK)
def test_spark_computes_everything_else(query: str) -> None:
    assert root(query).columns is None


@pytest.mark.parametrize("table", ["t", "p"])
def test_rows_for_a_sink_that_keeps_none_stay_in_the_tasks(table: str) -> None:
    step = root(f"INSERT INTO nowhere SELECT n FROM {table} WHERE n > 5")
    assert step.discards
    assert step.columns is not None
    assert [c.name for c in step.columns.columns] == ["n"]
    assert "hand no rows to Spark" in step.line


def test_dead_letters_leave_the_tasks_beside_the_rows() -> None:
    assert root("INSERT INTO o SELECT n FROM writes").line.endswith(
        "and hand the rows of the result and dead letters to Spark"
    )
    assert root("INSERT INTO nowhere SELECT n FROM writes").line.endswith("and hand dead letters to Spark")
    assert root("INSERT INTO nowhere SELECT n FROM skips").line.endswith("and hand no rows to Spark")


@pytest.mark.parametrize(("table", "required"), [("checks", "m"), ("timed", "at"), ("keyed", "k")])
def test_columns_without_which_a_row_is_bad_are_read_whatever_a_query_needs(table: str, required: str) -> None:
    columns = root(f"INSERT INTO o SELECT n FROM {table} WHERE n > 1").columns
    assert columns is not None
    assert columns.required == (required,)
    assert [c.name for c in columns.columns] == ["n", required]
    assert columns.scan.columns == ("n", required)


def test_of_a_statement_set_spark_reads_each_table_once() -> None:
    inserts = "INSERT INTO o SELECT n FROM t; INSERT INTO nowhere SELECT n FROM t"
    assert root(f"EXECUTE STATEMENT SET BEGIN {inserts}; END").columns is None


def test_a_users_function_called_mod_is_not_spark_s() -> None:
    shadowed = Function("mod", "m:mod", FunctionKind.SCALAR, BIGINT, (("a", BIGINT), ("b", BIGINT)), 2, 2)
    query = optimize(plan("SELECT n FROM t WHERE MOD(n, 2) = 0", TABLES))
    step = physical_plan(query, EngineSettings(sources=Sources(True, shadowed))).root
    assert isinstance(step, Write)
    assert step.columns is None


def test_tasks_read_messages_and_their_metadata_as_columns_also_in_the_exchange() -> None:
    step = root("SELECT n, o FROM k WHERE o > 5")
    assert step.columns is not None
    assert "Spark lists the ranges of messages, the tasks of the root read their columns" in [*step.walk()][-1].line
    windows = root(
        "SELECT o, COUNT(*) FROM TUMBLE(TABLE k, DESCRIPTOR(at), INTERVAL '1' SECOND) "
        "GROUP BY o, window_start, window_end"
    )
    lines = [below.line for below in windows.walk()]
    assert any("Spark lists the ranges of messages, the exchange above reads their columns" in line for line in lines)
