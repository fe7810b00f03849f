"""Queries of the golden files and of the peers' cases, as a stream and over finished data.

``python -m tests.differential.both_modes [--only group_by] [--part 2/6] [--ending]`` feeds a stream all rows before any
watermark, so that none is late, and takes the rows that its changes amount to. The tables as they are in the end are
files of Parquet, over which ``SET 'execution.runtime-mode' = 'batch'`` runs the same query as one query of Spark SQL.
Both give the same rows. Where a clause is one of streams, finished data is a stream that ends: with ``--ending`` those
run, too.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from sqlstream.batch.choosing import Batch, chosen
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import nodes, parse_query, parse_script, to_sql
from sqlstream.paths import importable
from sqlstream.planner.catalog import Table
from sqlstream.session import Session
from sqlstream.testing import StreamTest
from sqlstream.testing.case_format import CaseRows, ProcessingTime, load_case
from sqlstream.testing.golden_format import FILE, Block, parse_golden, steps_of
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.tested_session import fast_directory, without_job
from sqlstream.testing.values import KINDS, read_rows, to_arrow
from sqlstream.types import DataType
from tests.differential.comparing import Rows, comparable
from tests.peers import PEERS, due_files
from tests.peers.argued import FUNCTIONS

GOLDEN = Path(__file__).parent.parent / "golden"
_STEPS = frozenset({"watermark", "checkpoint", "restart", "settle", "finish"})
_CLOCK = "processing_time"
_CHANGING = re.compile(
    r"\b(PROCTIME|RAND|RANDOM|UUID|NOW|CURRENT_TIMESTAMP|CURRENT_TIME|CURRENT_DATE|LOCALTIMESTAMP|LOCALTIME"
    r"|CURRENT_ROW_TIMESTAMP|CURRENT_WATERMARK|UNIX_TIMESTAMP\(\))\b",
    re.IGNORECASE,
)
_PICKS_BY_KEY = re.compile(r"\bASOF\b|\bSYSTEM_TIME\b", re.IGNORECASE)
_MEETS_AS_ROWS_COME = re.compile(r"\bTABLE \w+ PARTITION BY (?!.*\bORDER BY\b).*\bTABLE \w+ PARTITION BY", re.DOTALL)
_FIELDS_OF_STREAMS = re.compile(r"window_pane|TO_CHANGELOG|STATEMENT SET|\bSTATE\b|BARRIER", re.IGNORECASE)

Change = tuple[str, Sequence[Any]]
Arrivals = Callable[[Session], Iterator[tuple[str, list[Change]]]]


@dataclass(frozen=True)
class Question:
    """``statements`` define what the query ``text`` needs. ``arrivals`` are the changes of tables in their order;
    ``folder`` is where users' functions are. ``clocked``: some of its steps move the clock of processing time."""

    name: str
    statements: tuple[nodes.Statement, ...]
    text: str
    arrivals: Arrivals
    folder: Path
    clocked: bool = False


@dataclass(frozen=True)
class Answer:
    """``kind`` is one of KINDS_OF_ANSWERS; ``why`` a code, a reason, or what the two do not have in common."""

    kind: str
    why: str = ""


EQUAL, ENDED, STREAMS = "equal", "equal, as a stream that ends", "as a stream that ends"
AS_STREAM, AS_BATCH, NEITHER = "only as a stream", "only as batch", "neither"
NOT_ASKED, DIFFERENT = "not asked", "different"
KINDS_OF_ANSWERS = (EQUAL, ENDED, STREAMS, AS_STREAM, AS_BATCH, NEITHER, NOT_ASKED, DIFFERENT)

# --- where questions come from ------------------------------------------------------------------------------------


def of_golden_files(folder: Path = GOLDEN) -> Iterator[Question]:
    for path in sorted(folder.glob("*.golden")):
        yield from of_golden_file(path)


def of_golden_file(path: Path) -> Iterator[Question]:
    """The stream blocks, with the statements that create what they name."""
    statements: list[str] = []
    for block in parse_golden(path.read_text(encoding="utf-8")):
        if block.kind == "statement":
            statements += map(to_sql, parse_script(block.sql))
        elif block.kind == "stream" and not block.sql.startswith(FILE):
            yield _of_block(path, block, statements)


def _of_block(path: Path, block: Block, statements: Sequence[str]) -> Question:
    parsed = [s for text in _needed(statements, block.sql) for s in parse_script(text)]
    words = [step.words for step in steps_of(block)]
    name, clocked = f"{path.stem}:{block.line}", any(each.startswith(_CLOCK) for each in words)
    return _question(name, [*parsed, *parse_script(block.sql)], _golden_rows(words), path.parent, clocked)


def _needed(statements: Sequence[str], query: str) -> list[str]:
    """The statements that create what the query names, directly or through others, and those that create nothing."""
    text, needed = query, []
    for statement in reversed(statements):
        name = re.match(
            r"CREATE (?:OR REPLACE )?(?:TEMPORARY )?(?:MATERIALIZED )?(?:TABLE|VIEW|FUNCTION) (?:IF NOT EXISTS )?(\w+)",
            statement,
        )
        if name is None or re.search(rf"\b{name[1]}\b", text, re.IGNORECASE):
            needed.append(statement)
            text += f"\n{statement}"
    return needed[::-1]


def _golden_rows(steps: Sequence[str]) -> Arrivals:
    def arrivals(session: Session) -> Iterator[tuple[str, list[Change]]]:
        for words in steps:
            first, _, rest = words.partition(" ")
            if first in _STEPS or first == _CLOCK:
                continue
            kind = first if first in KINDS else "+I"
            name, _, row = rest.strip().partition(" ") if first in KINDS else (first, "", rest)
            types = tuple(column.type for column in table_of(session, name).physical_columns)
            yield name, [(kind, values) for values in read_rows(row, types)]

    return arrivals


def of_peers() -> Iterator[Question]:
    """The cases in SQL that are not errors, where they are at hand."""
    for path in due_files():
        case = load_case(path, PEERS)
        if case.level != "sql" or case.error is not None:
            continue
        rows = [step for step in case.steps if isinstance(step, CaseRows)]
        clocked = any(isinstance(step, ProcessingTime) for step in case.steps)
        yield _question(case.id, parse_script(case.script), _case_rows(rows), FUNCTIONS, clocked)


def _case_rows(steps: Sequence[CaseRows]) -> Arrivals:
    return lambda _: ((step.table, list(step.rows)) for step in steps)


def _question(
    name: str, script: Sequence[nodes.Statement], arrivals: Arrivals, folder: Path, clocked: bool
) -> Question:
    *definitions, last = script
    query = last.query if isinstance(last, nodes.Insert) else last
    return Question(name, tuple(definitions), to_sql(query), arrivals, folder, clocked)


# --- both ways ----------------------------------------------------------------------------------------------------


def answer(question: Question, *, ending: bool = False) -> Answer:
    """What comes of a question in both ways; ``ending``: also where finished data is a stream that ends."""
    reason = _not_asked(question)
    if reason is not None:
        return Answer(NOT_ASKED, reason)
    with ExitStack() as open_until_end:
        open_until_end.enter_context(importable(question.folder))
        folder = Path(open_until_end.enter_context(tempfile.TemporaryDirectory(dir=fast_directory("both-modes-"))))
        with LocalSession() as session:
            way = _way_of_batch(question, session, {}, folder)
        if way == STREAMS and not ending:
            return Answer(STREAMS)
        with LocalSession() as session:
            stream = _of_stream(question, session)
            if isinstance(stream, Answer):
                return stream if isinstance(way, str) else Answer(NEITHER, f"{stream.why} / {way.why}")
            tables = _in_the_end(question, session)
            if tables is None:
                return Answer(NOT_ASKED, "a row is retracted that is not there")
        if isinstance(way, Answer):
            return way
        with LocalSession() as session:
            batch = _of_batch(question, session, tables, folder)
    if stream == Counter() and isinstance(batch, Counter) and _is_of_all_rows(question.text):
        return Answer(NOT_ASKED, "without rows a stream has no result yet")
    if isinstance(batch, Answer) or batch == stream:
        return batch if isinstance(batch, Answer) else Answer(ENDED if way == STREAMS else EQUAL)
    return Answer(DIFFERENT, f"the stream alone has {dict(stream - batch)}, finished data {dict(batch - stream)}")


def _is_of_all_rows(text: str) -> bool:
    """Whether a query may aggregate without keys: its result over no rows is one row, and a stream has none."""
    query = parse_query(text)
    return isinstance(query, exp.Select) and not query.args.get("group") and query.find(exp.AggFunc) is not None


def _not_asked(question: Question) -> str | None:
    tables = [s for s in question.statements if isinstance(s, nodes.CreateTable)]
    others = [to_sql(s) for s in question.statements if not isinstance(s, nodes.CreateTable)]
    texts = [question.text, *others, *map(to_sql, tables)]
    computed = [c for table in tables for c in table.columns if isinstance(c, nodes.ComputedColumn)]
    clocks = {column.name for column in computed if _CHANGING.search(to_sql(column.expression))}
    names = re.compile(rf"\b({'|'.join(map(re.escape, clocks))})\b|(SELECT |\.)\*", re.IGNORECASE)
    queries = [question.text, *others]
    if question.clocked or any(_CHANGING.search(text) or (clocks and names.search(text)) for text in queries):
        return "the clock or chance decides"
    if any("'role' = 'lookup'" in text for text in texts):
        return "lookup tables"
    if _MEETS_AS_ROWS_COME.search(question.text):
        return "the order in which rows of two tables come decides"
    return "of streams only" if any(map(_FIELDS_OF_STREAMS.search, texts)) else None


def _of_stream(question: Question, session: Session) -> Rows | Answer:
    """What the changes amount to when all rows come before any watermark."""
    try:
        for statement in question.statements:
            session.execute(without_job(statement), "")
        with StreamTest(question.text, session, watermarks="steps", streaming=False) as test:
            for table, changes in question.arrivals(session):
                test.changes(table, changes)
            test.finish()
            return amount_to(test.output())
    except SqlStreamError as error:
        return Answer(AS_BATCH, _code(error))


def _way_of_batch(question: Question, session: Session, tables: dict[str, pa.Table], folder: Path) -> str | Answer:
    """The kind of the answer if it is equal; AS_STREAM where finished data is refused."""
    session.sql("SET 'execution.runtime-mode' = 'batch'")
    try:
        for statement in question.statements:
            keyed = _PICKS_BY_KEY.search(question.text) is not None
            session.execute(without_job(_finished(statement, tables, folder, keyed)), "")
        (query,) = parse_script(question.text)
        assert isinstance(query, nodes.Query)
        if isinstance(chosen(query, session.workspace), Batch):
            return EQUAL
        history = any(map(_changes, question.statements))
        return Answer(AS_STREAM, "a clause of streams over changes") if history else STREAMS
    except SqlStreamError as error:
        return Answer(AS_STREAM, _code(error))


def _of_batch(question: Question, session: Session, tables: dict[str, pa.Table], folder: Path) -> Rows | Answer:
    """The rows over finished tables."""
    way = _way_of_batch(question, session, tables, folder)
    try:
        result: Any = session.sql(question.text)
        return way if isinstance(way, Answer) else amount_to([(k.value, *row) for k, row in result.changes()])
    except SqlStreamError as error:
        return Answer(DIFFERENT, f"refused late: {_code(error)}")


def _code(error: SqlStreamError) -> str:
    return f"{error.code} {error.diagnostic.message}"


def amount_to(changes: Iterable[Sequence[Any]]) -> Rows:
    """The rows that are there after all changes."""
    rows: Rows = Counter()
    for kind, *values in changes:
        rows[_hashable(comparable(values))] += 1 if kind in ("+I", "+U") else -1
    return +rows


def _hashable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(repr(value) if isinstance(value, dict | list | tuple) else value for value in row)


# --- tables in the end --------------------------------------------------------------------------------------------


def table_of(session: Session, name: str) -> Table:
    """The table of that name."""
    relation = session.workspace.catalog.relation(name)
    assert isinstance(relation, Table), name
    return relation


def _in_the_end(question: Question, session: Session) -> dict[str, pa.Table] | None:
    """The rows of each table after all changes, in the order in which they came; None where a row is retracted that
    is not there."""
    rows: dict[str, list[list[Any]]] = defaultdict(list)
    for name, changes in question.arrivals(session):
        table = table_of(session, name)
        columns = [column.name for column in table.physical_columns]
        replaces = {kind.value for kind in table.changelog} - {"+I"} and "-U" not in {k.value for k in table.changelog}
        key = [columns.index(column) for column in table.primary_key if column in columns] if replaces else []
        if not all(_apply(rows[table.name.casefold()], kind, list(values), key) for kind, values in changes):
            return None
    return {
        table.name.casefold(): arrow_of(rows[table.name.casefold()], [(c.name, c.type) for c in table.physical_columns])
        for table in session.workspace.catalog.tables()
    }


def _apply(rows: list[list[Any]], kind: str, values: list[Any], key: Sequence[int]) -> bool:
    """A row that comes takes the place of that with its key; one that goes is the last equal one, or has the key.
    False for one that goes and is not there, unless there is a key."""
    compared = key or range(len(values))
    same = [i for i, row in enumerate(rows) if all(row[k] == values[k] for k in compared)]
    if kind in ("-U", "-D"):
        if same:
            del rows[same[-1]]
        return bool(same or key)
    if key and same:
        rows[same[-1]] = values
    else:
        rows.append(values)
    return True


def arrow_of(rows: Sequence[Sequence[Any]], columns: Sequence[tuple[str, DataType]]) -> pa.Table:
    """The rows as a table of Arrow."""
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [
        pa.array([to_arrow(value, kind) for value in of_column], kind.to_arrow())
        for of_column, (_, kind) in zip(values, columns, strict=True)
    ]
    return pa.table(arrays, names=[name for name, _ in columns])


_numbers = count()


def _changes(statement: nodes.Statement) -> bool:
    return isinstance(statement, nodes.CreateTable) and any(o.key == "changelog-mode" for o in statement.options)


def _finished(statement: nodes.Statement, tables: dict[str, pa.Table], folder: Path, keyed: bool) -> nodes.Statement:
    """A table of a test as one of files. One with changes has the rows of its end, which have no key: with one they
    would be changes. ``keyed``: they keep it, because the query chooses among equal rows by it."""
    if not isinstance(statement, nodes.CreateTable):
        return statement
    options = {option.key: option.value for option in statement.options}
    if options.get("connector") != "test":
        return statement
    path = folder / str(next(_numbers))
    path.mkdir()
    rows = tables.get(str(statement.name).casefold())
    if rows is not None and rows.num_rows:
        pq.write_table(rows, path / "rows.parquet")
    of_files = {"connector": "filesystem", "format": "parquet", "path": str(path)}
    key = () if _changes(statement) and not keyed else statement.primary_key
    return replace(statement, options=tuple(nodes.Option(k, v) for k, v in of_files.items()), primary_key=key)


# --- the command --------------------------------------------------------------------------------------------------


def questions() -> list[Question]:
    """All of the golden files and of the peers' cases."""
    return [*of_golden_files(), *(of_peers() if PEERS.is_dir() else ())]


def _safe_answer(question: Question, *, ending: bool) -> Answer:
    """An unexpected exception is a difference."""
    try:
        return answer(question, ending=ending)
    except Exception as error:
        return Answer(DIFFERENT, f"{type(error).__name__}: {str(error)[:300]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Golden files and peers' cases as streams and over finished data.")
    parser.add_argument("--only", default="", help="a part of the name of a query")
    parser.add_argument("--part", default="1/1", help="such as 2/6: the second sixth of the queries")
    parser.add_argument("--ending", action="store_true", help="also where finished data is a stream that ends")
    options = parser.parse_args()
    number, of = map(int, options.part.split("/"))
    asked = [question for question in questions() if options.only in question.name][number - 1 :: of]
    counts: Counter[str] = Counter()
    for question in asked:
        found = _safe_answer(question, ending=options.ending)
        counts[found.kind] += 1
        if found.kind not in (EQUAL, ENDED, STREAMS, NOT_ASKED):
            print(f"{found.kind}: {question.name}: {found.why}", flush=True)
    print(f"{len(asked)} tried; " + ", ".join(f"{kind} {counts[kind]}" for kind in KINDS_OF_ANSWERS))
    sys.exit(1 if counts[DIFFERENT] else 0)


if __name__ == "__main__":
    main()
