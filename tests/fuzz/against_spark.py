"""``python -m tests.fuzz.against_spark --seed N``: whatever the binder accepts, Spark's analyzer accepts as well.

Which types of arguments a function takes only Spark knows, so it may refuse those. The types of results must be
Spark's wherever the binder says one. Of whole queries over finished data, in each mode, ``check`` asks the binder.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from sqlglot import exp

from sqlstream.batch import Batch, chosen
from sqlstream.catalog import Catalog
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_query, parse_script
from sqlstream.grammar.dialect import SparkWithTime
from sqlstream.grammar.nodes import Query
from sqlstream.planner.binder import bind_query
from sqlstream.planner.expressions import with_children_changed
from sqlstream.planner.fields import Item
from sqlstream.planner.functions.spelling import spelled_for_spark
from sqlstream.planner.nodes import Output, Project
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.plans import Root
from sqlstream.session import Session
from sqlstream.testing.spark import LocalSession
from sqlstream.types import DataType, from_spark
from tests.fuzz.expressions import COLUMNS, NESTED, random_expressions, random_meetings
from tests.fuzz.queries import TABLES, random_queries
from tests.planner.plans import created

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_FOR_SPARK_ALONE = (
    "AVRO_NOT_LOADED", "CANNOT_PARSE_DATATYPE", "CAST_INVALID_INPUT", "CAST_OVERFLOW", "DATATYPE_MISMATCH",
    "FAILED_FUNCTION_CALL", "INVALID_FORMAT", "INVALID_OPTIONS",
    "INVALID_PARAMETER_VALUE", "INVALID_SCHEMA", "NON_FOLDABLE", "PROTOBUF_NOT_LOADED", "SEED_EXPRESSION",
    "UNEXPECTED_INPUT_TYPE", "UNSUPPORTED_DATATYPE", "VALUE_OUT_OF_RANGE", "_LEGACY_ERROR_TEMP_1104",
    "_LEGACY_ERROR_TEMP_1210",
)  # fmt: skip
"""Errors that depend on types or values of arguments, or on packages that are not there."""


@dataclass(frozen=True)
class Difference:
    """``text`` is what the user writes, ``sql`` what Spark gets."""

    text: str
    sql: str
    reason: str


def differences(
    texts: Iterable[str], spark: SparkSession, *, knows_types: bool = False
) -> tuple[int, list[Difference]]:
    """How many of the expressions the binder accepts, and those that Spark refuses or types otherwise. ``knows_types``:
    the binder knows which types of operands Spark refuses.
    """
    rows = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items()))
    catalog, accepted, actual = _catalog(), 0, list[Difference]()
    for text in texts:
        for item in _bound(text, catalog):
            accepted += 1
            sql = _in_sparks_words(item.expression).sql(dialect=SparkWithTime, comments=False)
            reason = _difference(sql, item.type, rows, () if knows_types else _FOR_SPARK_ALONE)
            if reason is not None:
                actual.append(Difference(text, sql, reason))
    return accepted, actual


_COLUMNS = {**COLUMNS, **NESTED}


def _catalog() -> Catalog:
    columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    return created(f"CREATE TABLE r ({columns}, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'test')")


def _bound(text: str, catalog: Catalog) -> Iterator[Item]:
    """The expression as an item of a plan, of rows or of a window; none where it is refused."""
    for query in (f"SELECT {text} AS x FROM r", f"SELECT {text} AS x FROM r GROUP BY TUMBLE(at, INTERVAL '1' DAY)"):
        try:
            plan = bind_query(parse_query(query), catalog)
        except SqlStreamError:
            continue
        for node in plan.walk():
            if isinstance(node, WindowAggregate):
                yield from node.aggregates
            elif isinstance(node, Project):
                yield from (item for item in node.items if item.name == "x" and _is_of_rows(item.expression))
        return


def _is_of_rows(expression: exp.Expr) -> bool:
    """Whether it reads columns of the table alone, and no results of aggregates, and is none of them."""
    read = (column.name for column in expression.find_all(exp.Column))
    return not isinstance(expression, exp.Column) and all(name in _COLUMNS for name in read)


def _in_sparks_words(node: exp.Expr) -> exp.Expr:
    """Flink's functions as they are lowered."""
    while (spelled := spelled_for_spark(node)) is not node:
        node = spelled
    return with_children_changed(node, _in_sparks_words)


def _difference(sql: str, kind: DataType, rows: DataFrame, forgiven: tuple[str, ...]) -> str | None:
    try:
        actual = from_spark(rows.selectExpr(f"{sql} AS x").schema["x"].dataType.jsonValue())
    except PySparkException as error:
        condition = error.getCondition() or type(error).__name__
        return None if condition.startswith(forgiven) else f"Spark refuses it: {condition}"
    except Py4JError:  # an internal error of Spark's, which also depends on the values
        return None
    except SqlStreamError:  # a type that we have no name for
        return None if kind.is_unknown else f"its type is {kind}, but not in Spark"
    return None if kind.is_unknown or kind == actual else f"its type is {kind}, in Spark {actual}"


# --- whole queries over finished data -------------------------------------------------------------------------

_WAYS = (("auto", True), ("auto", False), ("batch", False), ("streaming", False))
"""The runtime mode, and whether the caller reads tables rather than streams."""


@contextmanager
def session_over_empty_files(folder: Path) -> Iterator[Session]:
    """A session with the tables of ``random_queries``, which have no rows."""
    with LocalSession() as session:
        for name, (kind, columns) in TABLES.items():
            (folder / name).mkdir()
            options = f"'connector' = 'filesystem', 'path' = '{folder / name}', 'format' = '{kind}'"
            session.sql(f"CREATE TABLE {name} ({columns}) WITH ({options})")
        yield session


def query_differences(texts: Iterable[str], session: Session) -> tuple[Counter[str], list[Difference]]:
    """What became of the queries in all modes, and those that a mode accepts and Spark does not analyze."""
    counts, differences = Counter[str](), list[Difference]()
    for text in texts:
        analyzed = set[str]()
        for mode, as_table in _WAYS:
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            try:
                (query,) = parse_script(text)
                assert isinstance(query, Query)
                plan = chosen(query, session.workspace, finished=as_table)
            except SqlStreamError:
                counts["refused"] += 1
                continue
            way = "batch" if isinstance(plan, Batch) else "stream"
            if way in analyzed:
                continue
            analyzed.add(way)
            counts[way] += 1
            reason = _not_analyzed(plan, session)
            if reason is not None:
                differences.append(Difference(text, f"{way} of the mode {mode}", reason))
    return counts, differences


def _not_analyzed(plan: Root | Batch, session: Session) -> str | None:
    try:
        if isinstance(plan, Batch):
            with session._batches.analyzed(plan, session.workspace):
                return None
        assert isinstance(plan, Output)
        session._runner.dataframe(plan, session.workspace)
    except SqlStreamError as error:
        (mistake, *_) = error.diagnostics
        return f"{mistake.code} {mistake.message.splitlines()[0][:200]}"
    return None


def main() -> int:
    """Prints a report; 1 where there are differences."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.against_spark", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--functions", type=int, default=3000, help="Calls of random functions.")
    parser.add_argument("--queries", type=int, default=300, help="Random queries over finished data.")
    arguments = parser.parse_args()
    from sqlstream.testing.spark import local_spark

    logging.disable(logging.CRITICAL)  # PySpark logs each refusal with its stack
    texts = random_expressions(arguments.seed, arguments.functions)
    accepted, actual = differences(texts, local_spark())
    print(f"seed {arguments.seed}: {len(texts):,} expressions, {accepted:,} accepted, {len(actual):,} unlike Spark")
    meetings = random_meetings(arguments.seed, arguments.functions)
    accepted, of_types = differences(meetings, local_spark(), knows_types=True)
    print(f"{len(meetings):,} comparisons and choices, {accepted:,} accepted, {len(of_types):,} unlike Spark")
    actual += of_types
    queries = random_queries(arguments.seed, arguments.queries)
    with TemporaryDirectory() as folder, session_over_empty_files(Path(folder)) as session:
        counts, of_queries = query_differences(queries, session)
    became = ", ".join(f"{count:,} {way}" for way, count in counts.items())
    print(f"{len(queries):,} queries in {len(_WAYS)} modes, {became}; {len(of_queries):,} that Spark does not analyze")
    actual += of_queries
    for difference in actual:
        print(f"{difference.reason}: {difference.text}  =>  {difference.sql}")
    return 1 if actual else 0


if __name__ == "__main__":
    sys.exit(main())
