"""Scripts to plans without Spark: a catalog of a script's own, and plans as text."""

from __future__ import annotations

from typing import TypeVar, cast

from sqlstream.catalog import Catalog
from sqlstream.grammar import parse_script
from sqlstream.grammar.nodes import CreateTable, CreateView, Insert, Query, StatementSet
from sqlstream.planner.binder import bind_insert, bind_query, bind_statement_set, bind_table, bind_view
from sqlstream.planner.catalog import Function, FunctionKind
from sqlstream.planner.explain.text import plan_tree
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert as InsertPlan
from sqlstream.planner.nodes import Output
from sqlstream.planner.nodes import StatementSet as StatementSetPlan
from sqlstream.planner.physical import EngineSettings, PhysicalPlan, physical_plan
from sqlstream.planner.rules import optimize
from sqlstream.statements.checking import check_script
from sqlstream.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, DataType
from sqlstream.udfs.signature import ProcessSignature, TableParameter
from sqlstream.workspace import Workspace

TABLES = """
CREATE TABLE bids (auction BIGINT, price DECIMAL(10, 2), item STRING, tags ARRAY<STRING>,
    who STRUCT<name: STRING, age: INT>, seen TIMESTAMP(3), ts TIMESTAMP(3), n INT,
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'test');
CREATE TABLE clicks (k STRING, v INT, pt AS PROCTIME()) WITH ('connector' = 'test');
CREATE TABLE plain (k STRING, v INT, ts TIMESTAMP(3)) WITH ('connector' = 'test');
CREATE TABLE totals (auction BIGINT, total DECIMAL(20, 2) NOT NULL, twice AS total * 2) WITH ('connector' = 'test');
CREATE TABLE late (auction BIGINT, price STRING, window_end TIMESTAMP(3)) WITH ('connector' = 'test');
CREATE TABLE cdc (id INT, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts)
    WITH ('connector' = 'test', 'changelog-mode' = 'I,UA,D');
CREATE TABLE lookup (id BIGINT, name STRING) WITH ('connector' = 'test', 'role' = 'lookup');
"""

FUNCTIONS = (
    Function("twice", "m:twice", FunctionKind.SCALAR, BIGINT, (("x", BIGINT),), 1, 1),
    Function("fee", "m:fee", FunctionKind.SCALAR, DOUBLE, (("price", INT),), 1, 1),
    Function("spread", "m:spread", FunctionKind.AGGREGATE, INT, (("x", INT),), 1, 1),
    Function("words", "m:words", FunctionKind.TABLE, DataType("STRUCT", (("word", STRING), ("length", INT))), (), 1, 2),
    Function("later", "m:later", FunctionKind.ASYNC, DataType("STRUCT", (("later", STRING),)), (("k", STRING),), 1, 1),
    Function(
        "spot", "m:spot", FunctionKind.ASYNC, DataType("STRUCT", (("latitude", DOUBLE), ("longitude", DOUBLE))),
        (("city", STRING),), 1, 1,
    ),
    Function(
        "process", "m:process", FunctionKind.PROCESS, DataType("STRUCT", (("alert", STRING),)),
        (("limit", BIGINT),), 0, 1,
        process=ProcessSignature(
            ("input", "columns", "limit"), (TableParameter("input"),), ("columns",), ("columns", "limit"), keyed=True
        ),
    ),
    Function(
        "merge", "m:merge", FunctionKind.PROCESS, DataType("STRUCT", (("n", INT),)),
        process=ProcessSignature(
            ("one", "two"), (TableParameter("one"), TableParameter("two", (("n", BIGINT),))), timers=True, keyed=True,
            clock=True, timeless=True,
        ),
    ),
    Function(
        "check", "m:check", FunctionKind.PROCESS, DataType("STRUCT", (("good", BOOLEAN),)), (("limit", INT),), 1, 1,
        process=ProcessSignature(("input", "limit"), (TableParameter("input"),), pass_through=True),
    ),
    Function("evictor", "m:evictor", FunctionKind.EVICTOR, STRING),
    Function("assigner", "m:assigner", FunctionKind.ASSIGNER, STRING, (("size", BIGINT),), 1, 1),
    Function("trigger", "m:trigger", FunctionKind.TRIGGER, STRING),
)  # fmt: skip


def no_tables() -> Catalog:
    """A catalog of functions only."""
    catalog = Catalog()
    for function in FUNCTIONS:
        catalog.register(function, None)
    return catalog


T = TypeVar("T")


def parsed(text: str, *kinds: type[T]) -> tuple[T, ...]:
    """The statements of a script, which are of these kinds."""
    actual = parse_script(text)
    assert [type(s) for s in actual] == list(kinds)
    return cast("tuple[T, ...]", actual)


def created(tables: str = TABLES) -> Catalog:
    """The catalog with the tables and the functions."""
    catalog = no_tables()
    for statement in parse_script(tables):
        assert isinstance(statement, CreateTable)
        catalog.create(statement.name, bind_table(statement, catalog))
    return catalog


def plan(text: str, tables: str = TABLES) -> Output | InsertPlan | StatementSetPlan:
    """The bound plan of the last statement of ``text``, over the tables that it and ``tables`` create."""
    script = tables + text
    catalog = no_tables()
    actual: Output | InsertPlan | StatementSetPlan | None = None
    for statement in parse_script(script):
        match statement:
            case CreateTable():
                catalog.create(statement.name, bind_table(statement, catalog))
            case CreateView():
                catalog.create(statement.name, bind_view(statement, catalog, script), replace=True)
            case Insert():
                actual = bind_insert(statement, catalog)
            case Query():
                actual = bind_query(statement.query, catalog)
            case StatementSet():
                actual = bind_statement_set(statement, catalog)
    assert actual is not None
    return actual


def bound(text: str, tables: str = TABLES) -> str:
    return plan_tree(plan(text, tables))


def optimized(text: str, tables: str = TABLES) -> str:
    return plan_tree(optimize(plan(text, tables)))


def errors(text: str, tables: str = TABLES) -> list[str]:
    """Code, message, marked text and hint of each mistake of ``text``, as lines ``SS201: message [marked] HINT: …``."""
    collected = []
    for diagnostic in check_script(tables + text, Workspace(no_tables())):
        span, source = diagnostic.span, diagnostic.source
        marked = f" [{source[span.start : span.end]}]" if span is not None and source is not None else ""
        hint = f" HINT: {diagnostic.hint}" if diagnostic.hint else ""
        collected.append(f"{diagnostic.code}: {diagnostic.message}{marked}{hint}")
    return collected


def error(text: str, tables: str = TABLES) -> str:
    """The one mistake of ``text``."""
    (failure,) = errors(text, tables)
    return failure


def physical(plan: Node, engine: str = "auto", *, chains: bool = True) -> PhysicalPlan:
    """What runs of a plan where Spark reads all files."""
    return physical_plan(plan, EngineSettings(engine, chains))
