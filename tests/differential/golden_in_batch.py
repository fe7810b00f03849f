"""Golden queries over finished tables in ``batch`` mode, beside the stream whose watermark no row has passed.

``python -m tests.differential.golden_in_batch [--only tumble]`` compares the stream blocks of all golden files that
wait for event time: the rows of their steps come first, then the end of the input, and the same rows as files of
Parquet with ``SET 'execution.runtime-mode' = 'batch'``.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.errors import SqlStreamError
from sqlstream.paths import importable
from sqlstream.session import Session
from sqlstream.testing import StreamTest
from sqlstream.testing.golden_format import Block, parse_golden, steps_of
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.values import read_rows, to_arrow
from sqlstream.types import DataType
from tests.differential.comparing import comparable
from tests.differential.reporting import report

GOLDEN = Path(__file__).parent.parent / "golden"
_NAME = re.compile(r"CREATE TABLE (\w+)", re.IGNORECASE)
_CREATED = re.compile(r"CREATE (?:OR REPLACE )?(?:TEMPORARY )?(?:TABLE|VIEW|FUNCTION) (?:IF NOT EXISTS )?(\w+)")
_TESTED = re.compile(r"'connector' = 'test'")
_OF_STREAMS = re.compile(r"LOOKUP|'role'|changelog-mode|STATEMENT SET|^\s*INSERT|window_pane", re.I)
STEPS = ("watermark", "checkpoint", "restart", "settle", "finish")

Rows = Counter[tuple[Any, ...]]
Fed = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Case:
    """A stream block with the statements that it needs."""

    path: Path
    block: Block
    statements: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.path.stem}:{self.block.line}"


def cases(folder: Path = GOLDEN) -> Iterator[Case]:
    """The stream blocks whose rows all are inserts, and whose clock is that of rows."""
    for path in sorted(folder.glob("*.golden")):
        statements: list[str] = []
        for block in parse_golden(path.read_text(encoding="utf-8")):
            if block.kind == "statement":
                statements.append(block.sql)
            elif block.kind == "stream":
                case = Case(path, block, _needed(statements, block.sql))
                if _is_of_rows(case):
                    yield case


def _needed(statements: Sequence[str], query: str) -> tuple[str, ...]:
    """The statements that create what the query names, directly or through others."""
    text, found = query, []
    for statement in reversed(statements):
        name = re.match(
            r"CREATE (?:OR REPLACE )?(?:TEMPORARY )?(?:TABLE|VIEW|FUNCTION) (?:IF NOT EXISTS )?(\w+)", statement
        )
        if name is None or re.search(rf"\b{name[1]}\b", text, re.IGNORECASE):
            found.append(statement)
            text += statement
    return tuple(reversed(found))


def _is_of_rows(case: Case) -> bool:
    texts = (*case.statements, case.block.sql)
    steps = [step.words.split()[0] for step in steps_of(case.block)]
    plain = all(step in STEPS or step[0] not in "+-" for step in steps) and "processing_time" not in steps
    return plain and not any(_OF_STREAMS.search(text) for text in texts)


def fed(case: Case, test: StreamTest) -> Fed:
    """The rows of each table, in the order of the steps."""
    found: Fed = {}
    for step in steps_of(case.block):
        table, _, row = step.words.partition(" ")
        if table not in STEPS:
            found.setdefault(table, []).extend(read_rows(row, test.input_types(table)))
    return found


def of_stream(case: Case, session: Session) -> tuple[Rows, dict[str, pa.Table]] | None:
    """What comes out when all rows have come before any watermark, and the rows; None of a query without event time."""
    for statement in case.statements:
        session.sql(statement)
    with StreamTest(case.block.sql, session, watermarks="steps") as test:
        if not test._traits.times or test._traits.clocked or test._traits.needs_ticks:
            return None
        rows = fed(case, test)
        for table, of_table in rows.items():
            test.rows(table, of_table)
        test.finish()
        schemas = {table: _schema(test, table) for table in test._traits.tables}
        changes = test.output()
        tables = {name: table_of(rows.get(name, []), *schema) for name, schema in schemas.items()}
    return merged(changes), tables


def _schema(test: StreamTest, table: str) -> tuple[list[str], list[DataType]]:
    columns = test._table(table).physical_columns
    return [c.name for c in columns], [c.type for c in columns]


def table_of(rows: list[tuple[Any, ...]], names: list[str], types: list[DataType]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    arrays = [
        pa.array([to_arrow(value, kind) for value in column], kind.to_arrow())
        for column, kind in zip(columns, types, strict=True)
    ]
    return pa.table(arrays, names=names)


def merged(changes: Sequence[tuple[Any, ...]]) -> Rows:
    found: Rows = Counter()
    for kind, *values in changes:
        found[_hashable(comparable(values))] += 1 if kind in ("+I", "+U") else -1
    return +found


def _hashable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(repr(value) if isinstance(value, dict | list) else value for value in row)


def of_batch(case: Case, session: Session, tables: dict[str, pa.Table], folder: Path) -> Rows:
    """What comes out of the finished tables."""
    session.sql("SET 'execution.runtime-mode' = 'batch'")
    for statement in case.statements:
        session.sql(finished(statement, tables, folder))
    query = session.sql(case.block.sql)
    return merged([(kind.value, *row) for kind, row in query.changes()])  # type: ignore[union-attr]


def finished(statement: str, tables: dict[str, pa.Table], folder: Path) -> str:
    """The statement, a table of a test as one of files with its rows."""
    return _TESTED.sub(_said(_connector(statement, tables, folder)), statement)


def _said(text: str) -> Callable[[re.Match[str]], str]:
    return lambda _: text


def _connector(statement: str, tables: dict[str, pa.Table], folder: Path) -> str:
    name = _NAME.search(statement)
    rows = tables.get(name[1].casefold()) if name is not None else None
    if name is None or rows is None:
        return "'connector' = 'blackhole'"
    path = folder / name[1]
    path.mkdir()
    pq.write_table(rows, path / "rows.parquet")
    return f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}'"


def difference(case: Case) -> str | None:
    """What the two ways do not have in common; None for nothing. Refusals by ``batch`` are differences, too."""
    with importable(case.path.parent):
        with LocalSession() as session:
            stream = of_stream(case, session)
        if stream is None:
            return None
        expected, tables = stream
        with tempfile.TemporaryDirectory() as folder, LocalSession() as session:
            try:
                found = of_batch(case, session, tables, Path(folder))
            except SqlStreamError as error:
                return f"{error.code}: {error.diagnostic.message}"
    if found == expected:
        return None
    return f"batch lacks {dict(expected - found)}, and has {dict(found - expected)}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Golden queries in batch mode beside the stream.")
    parser.add_argument("--only", default="", help="the beginning of the name of a file")
    options = parser.parse_args()
    report((case for case in cases() if case.name.startswith(options.only)), difference)


if __name__ == "__main__":
    main()
