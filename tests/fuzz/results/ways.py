"""The ways to run a query over changing tables; each gives the rows that are there in the end."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.catalog import Catalog
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_query
from sqlstream.planner.binder import bind_query
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.planner.rules import optimize
from sqlstream.query import Query
from sqlstream.testing import StreamTest
from sqlstream.testing.tested_session import fast_directory
from tests.differential.changes import History, TableKind
from tests.differential.comparing import Refused, Rows, merged, plan_of_text, tables_in_the_end, without_spark
from tests.fuzz.results.reference import in_duckdb
from tests.planner.plans import created, physical

if TYPE_CHECKING:
    from sqlstream.session import Session
    from sqlstream.types import DataType


@dataclass(frozen=True)
class Case:
    """A query, and the changes of its tables. ``seed`` decides on restarts and key groups."""

    text: str
    past: History
    seed: int = 0

    @property
    def definitions(self) -> str:
        return ";\n".join(table.ddl() for table in self.past.of) + ";\n"


class Way(Protocol):
    """``name`` is shown. ``rows``: Refused, NoReference or NotHere where this way does not run the query."""

    @property
    def name(self) -> str: ...

    def rows(self, case: Case) -> Rows: ...


def planned(case: Case) -> PhysicalPlan:
    """Refused where it is not executed."""
    return _planned(case.text, case.definitions)


@lru_cache(maxsize=16)
def _planned(text: str, definitions: str) -> PhysicalPlan:
    try:
        return physical(optimize(bind_query(parse_query(text), _catalog(definitions))))
    except SqlStreamError as error:
        raise Refused(error.code, error.diagnostic.message) from error


@lru_cache(maxsize=4)
def _catalog(definitions: str) -> Catalog:
    return created(definitions)


class Duckdb:
    name = "DuckDB"

    def rows(self, case: Case) -> Rows:
        return in_duckdb(case.text, case.past)


class Kernels:
    """As a stream, cut and restarted, without Spark; some into a table of which rows replace each other by key."""

    name = "kernels"

    def rows(self, case: Case) -> Rows:
        choice = Random(case.seed)
        groups, restarts = choice.choice([1, 3]), choice.choice([None, choice])
        by_key = choice.random() < 0.3
        made = plan_of_text(case.text, case.definitions, by_key=choice) if by_key else planned(case)
        return without_spark(made, case.past, groups=groups, restarts=restarts)


_numbers = count()


class Finished:
    """As one query of Spark SQL over files."""

    name = "finished data"

    def __init__(self) -> None:
        self._past: History | None = None
        self._session: Session | None = None
        self._folder = fast_directory("sqlstream-fuzz-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def rows(self, case: Case) -> Rows:
        session = self._on(case.past)
        try:
            result = session.sql(case.text)
        except SqlStreamError as error:
            raise Refused(error.code, error.diagnostic.message) from error
        assert isinstance(result, Query)
        return merged([(kind.value, *row) for kind, row in result.changes()])

    def _on(self, past: History) -> Session:
        """A session with the tables as they are in the end, the same for queries over the same changes."""
        from sqlstream.testing.spark import LocalSession  # PySpark

        if self._session is not None and past is self._past:
            return self._session
        if self._session is not None:
            self._session.close()
        session = LocalSession()
        session.sql("SET 'execution.runtime-mode' = 'batch'")
        rows = tables_in_the_end(past)
        for table in past.of:
            path = self._folder / str(next(_numbers))
            path.mkdir()
            pq.write_table(_with_zone(rows[table.name]), path / "rows.parquet")
            session.sql(_of_files(table, path))
        self._past, self._session = past, session
        return session


def _of_files(table: TableKind, path: Path) -> str:
    """A table of rows that are there has no key: it would be one of changes."""
    ddl = replace(table, key=False).ddl()
    return f"{ddl[: ddl.index(' WITH (')]} WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}')"


def _with_zone(rows: pa.Table) -> pa.Table:
    if "ts" not in rows.column_names:
        return rows
    return rows.set_column(rows.column_names.index("ts"), "ts", rows.column("ts").cast(pa.timestamp("us", "UTC")))


@dataclass(frozen=True)
class Stream:
    """As a stream on Spark. ``streaming``: with checkpoints and restarts; else each micro-batch is a bounded job."""

    streaming: bool = False
    name: str = "stream on Spark"

    def rows(self, case: Case) -> Rows:
        (actual,) = self.rows_of([case])
        return actual

    def rows_of(self, cases: Sequence[Case]) -> list[Rows]:
        """Of several queries over the same changes, as one statement set."""
        from sqlstream.testing.spark import LocalSession  # PySpark

        first = cases[0]
        sinks = [sink_of(f"result_{number}", case) for number, case in enumerate(cases)]
        inserts = "".join(f"INSERT INTO result_{number} {case.text};\n" for number, case in enumerate(cases))
        script = f"{first.definitions}{''.join(sinks)}EXECUTE STATEMENT SET BEGIN\n{inserts}END"
        with LocalSession() as session, StreamTest(script, session, streaming=self.streaming) as test:
            self._feed(test, first)
            return [merged(test.output(f"result_{number}")) for number in range(len(cases))]

    def _feed(self, test: StreamTest, case: Case) -> None:
        choice, tables = Random(case.seed), {table.name: table for table in case.past.of}
        read = test._traits.tables
        for batch, watermark in zip(case.past.micro_batches(), case.past.watermarks(), strict=True):
            if self.streaming and choice.random() < 0.3:
                test.restart(choice.choice([None, 2, 3]))
            for name, rows in batch.items():
                if name in read:
                    test.changes(name, [(kind, row_for_test(tables[name], row)) for kind, row in rows])
            test.checkpoint()
            if watermark is not None:
                for table in case.past.of:
                    if table.timed and table.name in read:
                        test.watermark(table.name, watermark // 1000)
        test.finish()


def row_for_test(table: TableKind, row: tuple[object, ...]) -> tuple[object, ...]:
    """With the time in milliseconds."""
    return (*row[:-1], row[-1] // 1000) if table.timed else row  # type: ignore[operator]


def sink_of(name: str, case: Case) -> str:
    """The definition of a table for the rows of a query; Refused where a type of it is one that only Spark knows."""
    fields = planned(case).root.node.inputs[0].schema
    kinds: list[DataType] = [field.type for field in fields]
    if any(kind.is_unknown for kind in kinds):
        raise Refused("type", "a type that only Spark knows")
    columns = ", ".join(f"`{field.name}` {field.type.ddl()}" for field in fields)
    return f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'test');\n"
