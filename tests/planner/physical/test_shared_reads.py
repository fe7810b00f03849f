"""Which tables of a statement set tasks read once for all queries, and which Spark reads."""

from __future__ import annotations

import pytest

from sqlstream.planner.physical import PhysicalPlan, physical_plan
from sqlstream.planner.physical.engine import REUSES_ALL, Engine, EngineSettings, Reuse
from sqlstream.planner.physical.read_by_tasks import shared_sources
from sqlstream.planner.physical.steps import Read
from sqlstream.planner.rules import optimize
from tests.planner.physical.test_column_queries import TABLES, Sources
from tests.planner.plans import plan

MORE = """
CREATE TABLE flat (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/in', 'format' = 'csv');
CREATE TABLE ws (n BIGINT) WITH ('connector' = 'websocket', 'url' = 'ws://localhost:1', 'format' = 'json');
CREATE TABLE o2 (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/out2', 'format' = 'json');
CREATE TABLE o3 (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/out3', 'format' = 'json');
"""
COUNTS = "SELECT COUNT(*) FROM t GROUP BY i"
WINDOWS = "SELECT COUNT(*) FROM TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE) GROUP BY window_start, window_end"
SELF_JOIN = "SELECT a.n FROM t AS a JOIN t AS b ON a.i = b.i"


def of_set(*queries: str, shares: bool = True) -> PhysicalPlan:
    inserts = (f"INSERT INTO {table} {query};" for table, query in zip(("o", "o2", "o3"), queries, strict=False))
    text = f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END"
    settings = EngineSettings(reuse=Reuse(reads=shares), sources=Sources(True))
    return physical_plan(optimize(plan(text, TABLES + MORE)), settings)


def reads(planned: PhysicalPlan) -> list[Read]:
    return [step for step in planned.root.walk() if isinstance(step, Read)]


def test_a_table_is_read_once_with_the_columns_of_all_queries() -> None:
    first, *others = reads(of_set(COUNTS, "SELECT n FROM t WHERE s = 'x'", WINDOWS))
    assert first.line.endswith("Spark lists the files, tasks read i, n, s, at once for all readers, reuse_id=[1]")
    assert [other.line.rpartition(": ")[2] for other in others] == ["Reused(reference_id=[1])"] * 2
    assert {read.shared for read in (first, *others)} == {first.shared}


def test_only_what_orders_rows_and_has_a_watermark_is_read_as_such() -> None:
    (shared,) = {read.shared for read in reads(of_set(COUNTS, "SELECT n FROM t"))}
    assert shared is not None
    assert not shared.times or shared.times == (("at", "at", "t"),)
    assert not shared.in_order
    (shared,) = {read.shared for read in reads(of_set(WINDOWS, "SELECT LAST_VALUE(n) FROM t GROUP BY i"))}
    assert shared is not None
    assert shared.times == (("at", "at", "t"),)
    assert shared.in_order


def test_the_messages_of_a_topic_are_read_once_in_the_order_of_partitions() -> None:
    first, other = reads(of_set("SELECT LAST_VALUE(o) FROM k GROUP BY n", "SELECT n FROM k WHERE o > 1"))
    assert first.line.endswith("ranges of messages, tasks read n, o once for all readers, reuse_id=[1]")
    assert other.line.endswith("Reused(reference_id=[1])")


@pytest.mark.parametrize(
    "queries",
    [
        (COUNTS, "SELECT n + 1 FROM t"),  # which Arrow does not compute as Spark does
        ("SELECT n FROM t WHERE UPPER(s) = 'X'", WINDOWS, "SELECT COUNT(*) FROM t WHERE n + 1 > 2 GROUP BY i"),
        ("SELECT n + 1 FROM k", "SELECT n + 2 FROM k"),
    ],
)
def test_spark_takes_the_rows_that_tasks_read_for_other_queries(queries: tuple[str, ...]) -> None:
    found = reads(of_set(*queries))
    assert any(read.taken is not None for read in found)
    assert [read.reused for read in found] == [False, *[True] * (len(queries) - 1)]
    assert len({read.shared for read in found}) == 1


def test_both_sides_of_a_join_in_a_set_share_a_read_and_each_table_has_its_own() -> None:
    planned = of_set(SELF_JOIN, COUNTS, "SELECT COUNT(*) FROM p GROUP BY n")
    numbers = [(r.node.table.name, r.shared.number if r.shared else None, r.reused) for r in reads(planned)]
    assert numbers == [("t", 1, False), ("t", 1, True), ("t", 1, True), ("p", None, False)]


def test_options_make_a_table_another_source_which_is_read_apart() -> None:
    counted, hinted = "SELECT COUNT(*) FROM flat{} GROUP BY n", " /*+ OPTIONS('csv.null-literal' = 'x') */"
    planned = of_set("SELECT n FROM flat WHERE n > 1", counted.format(""), counted.format(hinted))
    assert [(read.by_tasks, read.shared is not None) for read in reads(planned)] == [
        (True, True),
        (True, True),
        (True, False),
    ]
    of_spark = of_set("SELECT n + 1 FROM flat", counted.format(hinted))
    assert [read.by_tasks for read in reads(of_spark)] == [False, True]


def test_the_setting_leaves_all_tables_to_spark() -> None:
    lines = [read.line for read in reads(of_set(COUNTS, "SELECT n FROM t", shares=False))]
    assert all('stream of connector "filesystem"' in line for line in lines)


@pytest.mark.parametrize(
    "queries",
    [
        (COUNTS, "SELECT r.a FROM t"),  # of a type that is no column of tasks
        (COUNTS, "SELECT r.a FROM t WHERE UPPER(s) = 'X'", "SELECT n FROM t"),
        (COUNTS, WINDOWS.replace("COUNT(*)", "MAX(n + 1)")),  # whose times move the watermark
        (COUNTS, "SELECT LAST_VALUE(n + 1) FROM t GROUP BY n"),  # which needs their order
        ("SELECT COUNT(*) FROM p GROUP BY n", "SELECT n + 1 FROM p"),  # which has columns for Spark, too
        ("SELECT n FROM flat WHERE n > 1", "SELECT n FROM flat /*+ OPTIONS('csv.null-literal' = 'x') */"),
        ("SELECT n FROM t", "SELECT n FROM p"),
        ("SELECT n FROM skips", "SELECT n FROM skips WHERE n > 1"),
        ("SELECT n FROM writes", "SELECT COUNT(*) FROM writes GROUP BY n"),
        ("SELECT n FROM k_skips", "SELECT COUNT(*) FROM k_skips GROUP BY n"),
    ],
)
def test_spark_reads_a_table_where_tasks_cannot_for_all_queries(queries: tuple[str, ...]) -> None:
    for read in reads(of_set(*queries)):
        assert not read.by_tasks
        assert read.shared is None


def test_operators_are_numbered_from_zero_where_the_set_is_planned_again() -> None:
    again = of_set(COUNTS, WINDOWS, "SELECT n + 1 FROM t")
    assert [operator.number for operator in again.operators] == [0, 1]


def of_query(query: str, reuse: Reuse = REUSES_ALL) -> PhysicalPlan:
    return physical_plan(optimize(plan(query, TABLES + MORE)), EngineSettings(reuse=reuse, sources=Sources(True)))


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        (SELF_JOIN, ["t"]),
        ("SELECT COUNT(*) FROM t GROUP BY i UNION ALL SELECT COUNT(*) FROM p GROUP BY n", []),
        ("SELECT n FROM t UNION ALL SELECT n + 1 FROM t", ["t"]),
        ("SELECT MAX(n + 1) FROM p UNION ALL SELECT n FROM p", ["p"]),  # whatever Spark must read of it
        ("SELECT n FROM o2 UNION ALL SELECT n + 1 FROM o2", ["o2"]),
        ("SELECT n FROM ws UNION ALL SELECT n + 1 FROM ws", []),  # of another connector, whatever the format
        ("SELECT n FROM flat UNION ALL SELECT n FROM flat /*+ OPTIONS('csv.null-literal' = 'x') */", []),
    ],
)
def test_a_query_that_names_a_table_twice_has_one_source_of_it(query: str, tables: list[str]) -> None:
    planned = of_query(query)
    assert sorted(name for name, _ in planned.shared_sources) == tables
    without = [Reuse(reads=False), Reuse(in_queries=False)]
    assert not any(of_query(query, reuse).shared_sources for reuse in without)


def test_both_sides_of_a_join_share_a_read() -> None:
    first, second = reads(of_query(SELF_JOIN))
    assert first.line.endswith("Spark lists the files, tasks read i, n once for all readers, reuse_id=[1]")
    assert second.line.endswith("Reused(reference_id=[1])")
    apart = reads(of_query(SELF_JOIN, Reuse(in_queries=False)))
    assert all(read.by_tasks and read.shared is None for read in apart)


def test_a_query_in_real_time_has_a_source_for_each_scan() -> None:
    union = plan("SELECT COUNT(*) FROM t GROUP BY i UNION ALL SELECT COUNT(*) FROM t GROUP BY n", TABLES)
    assert [bool(shared_sources(union, engine, REUSES_ALL)) for engine in Engine] == [True, True, False]
