"""Random queries as one job of Spark: a statement set over shared tables, fed and restarted as ``StreamTest`` can."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

import sqlstream
from sqlstream.testing import StreamTest
from sqlstream.testing.spark import local_spark
from tests.differential.changes import TABLES, Act, History, TableKind, history
from tests.differential.comparing import (
    DDL,
    NoReference,
    Refused,
    Rows,
    comparable,
    expected,
    merged,
    planned,
    tables_in_the_end,
)
from tests.differential.queries import SPARK, Query, query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def queries(choice: Random, count: int) -> list[tuple[Query, str]]:
    """So many queries that are executed, each with the definition of the table for its rows: ``result_0`` and on."""
    found: list[tuple[Query, str]] = []
    while len(found) < count:
        asked = query(choice, f"shared_{len(found)}")
        try:
            schema = planned(asked).root.node.inputs[0].schema
            expected(asked, History((), (1,)))
        except (Refused, NoReference):
            continue
        if any(field.type.is_unknown for field in schema):
            continue
        columns = ", ".join(f"{field.name} {field.type.ddl()}" for field in schema)
        found.append((asked, f"CREATE TABLE result_{len(found)} ({columns}) WITH ('connector' = 'test');\n"))
    return found


def script(asked: Sequence[tuple[Query, str]]) -> str:
    """All queries as one statement set."""
    inserts = "".join(f"INSERT INTO result_{i} {one.ours()};\n" for i, (one, _) in enumerate(asked))
    definitions = "".join(one.definitions() + table for one, table in asked)
    return f"{DDL}{definitions}EXECUTE STATEMENT SET BEGIN\n{inserts}END"


def results(spark: SparkSession, asked: Sequence[tuple[Query, str]], past: History, choice: Random) -> list[Rows]:
    """The rows of each query in the end. ``choice`` says where the job restarts, also with its state spread anew."""
    with sqlstream.connect(spark) as session:
        session.sql("SET 'pipeline.max-parallelism' = '3'")
        with StreamTest(script(asked), session) as test:
            read = [table for table in TABLES if table.name in test._traits.tables]
            watermarks = past.watermarks()
            for batch, watermark in zip(past.micro_batches(), watermarks, strict=True):
                if choice.random() < 0.3:
                    test.restart(choice.choice([None, 2, 3]))
                for table in read:
                    if table.name in batch:
                        test.changes(table.name, [(kind, _row(table, row)) for kind, row in batch[table.name]])
                test.checkpoint()
                for table in read:
                    if table.timed and watermark is not None:
                        test.watermark(table.name, watermark // 1000)
            test.finish()
            return [merged(test.output(f"result_{number}")) for number in range(len(asked))]


def _row(table: TableKind, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """With the time in milliseconds."""
    return (*row[:4], row[4] // 1000) if table.timed else row


def in_spark(spark: SparkSession, asked: Query, past: History) -> Rows | None:
    """The rows of a query of Spark SQL over the tables as they are in the end; None where it knows no such query."""
    if any(word in asked.reference(SPARK) for word in ("ASOF", "history")):
        return None
    tables = tables_in_the_end(past)
    for name, rows in tables.items():
        spark.createDataFrame(rows).createOrReplaceTempView(name)
    try:
        return Counter(map(comparable, spark.sql(asked.reference(SPARK)).collect()))
    except AnalysisException:
        return None
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)


def main() -> None:
    """``python -m tests.differential.on_spark --rounds 10 --queries 20 --seed 0``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    spark = local_spark()
    for seed in range(options.seed, options.seed + options.rounds):
        started = time.monotonic()
        problems = list(compared(spark, seed, options.queries))
        print(
            f"seed {seed}: {len(problems)} of {options.queries} wrong, {time.monotonic() - started:.0f} s", flush=True
        )
        print("\n".join(problems), flush=True)


def compared(spark: SparkSession, seed: int, count: int) -> Iterator[str]:
    """What is wrong with so many queries in one job, of which each third is compared with Spark SQL too."""
    choice = Random(seed)
    asked = queries(choice, count)
    past = long_history(choice)
    for number, (found, (one, _)) in enumerate(zip(results(spark, asked, past, choice), asked, strict=True)):
        wanted = {"DuckDB": expected(one, past), "Spark": in_spark(spark, one, past) if number % 3 == 0 else None}
        for name, rows in wanted.items():
            if rows is not None and rows != found:
                difference = f"missing {dict(rows - found)}, too many {dict(found - rows)}"
                yield f"{one.definitions()}{one.ours()}\n  against {name}: {difference}"


def long_history(choice: Random) -> History:
    """One that makes each operator busy, in a few micro-batches, because those of Spark cost time."""
    acts: tuple[Act, ...] = ()
    while len(acts) < 30:
        past = history(choice)
        acts = past.acts
    size = len(past.changes()) // 3 + 1
    return replace(past, cuts=(size,))


if __name__ == "__main__":
    main()
