"""Golden queries over finished tables as ``auto`` runs them, beside the stream of the same rows.

``python -m tests.differential.golden_in_auto [--only group_by]`` compares the stream blocks of all golden files that
``auto`` runs as one query of Spark SQL: the rows of their steps are files of Parquet, read with the runtime modes
``streaming`` and ``auto``. The rows that all changes of the stream amount to are those of the batch.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from sqlstream.batch.choosing import Batch, chosen
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_script
from sqlstream.grammar.nodes import Query
from sqlstream.paths import importable
from sqlstream.planner.catalog import Table
from sqlstream.session import Session
from sqlstream.testing.golden_format import steps_of
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.values import read_rows
from tests.differential.golden_in_batch import STEPS, Case, Rows, cases, finished, merged, table_of
from tests.differential.reporting import report

_DIFFER_BY_DESIGN = {
    "PROCTIME": "a processing time is when a row is read",
    "RAND": "another result at every call",
    "UUID": "another result at every call",
    "ORDER BY TS DESC) = 1": "of rows of one time a stream takes the last, Spark any",
}


def batches(only: str = "") -> Iterator[Case]:
    """The cases that ``auto`` runs as a batch and ``streaming`` as a stream."""
    for case in cases():
        if case.name.startswith(only) and not any(word in case.block.sql.upper() for word in _DIFFER_BY_DESIGN):
            yield case


def difference(case: Case) -> str | None:
    """What the two ways do not have in common; None for nothing, and for queries that run in one way only."""
    with importable(case.path.parent), tempfile.TemporaryDirectory() as folder:
        found: list[Rows] = []
        with LocalSession() as session:
            tables = _fed(case, session)
        for mode in ("auto", "streaming"):
            (Path(folder) / mode).mkdir()
            with LocalSession() as session:
                rows = _rows(case, session, tables, mode, Path(folder) / mode)
            if rows is None:
                return None
            found.append(rows)
    batch, stream = found
    return None if batch == stream else f"auto lacks {dict(stream - batch)}, and has {dict(batch - stream)}"


def _rows(case: Case, session: Session, tables: dict[str, pa.Table], mode: str, folder: Path) -> Rows | None:
    """The rows of the query in a mode; None where ``auto`` makes a stream of it or ``streaming`` refuses it."""
    session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
    for statement in case.statements:
        session.sql(finished(statement, tables, folder))
    (query,) = parse_script(case.block.sql)
    assert isinstance(query, Query)
    try:
        way = chosen(query, session.workspace)
    except SqlStreamError:
        return None
    if mode == "auto" and not isinstance(way, Batch):
        return None
    result = session.sql(case.block.sql)
    return merged([(kind.value, *row) for kind, row in result.changes()])  # type: ignore[union-attr]


def _fed(case: Case, session: Session) -> dict[str, pa.Table]:
    """The rows that the steps of a case bring, by table; none for tables without."""
    for statement in case.statements:
        session.sql(statement)
    columns = {t.name.casefold(): t.physical_columns for t in _tables(session)}
    rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in columns}
    for step in steps_of(case.block):
        name, _, text = step.words.partition(" ")
        if name not in STEPS:
            rows[name.casefold()].extend(read_rows(text, tuple(c.type for c in columns[name.casefold()])))
    return {
        name: table_of(of_table, [c.name for c in columns[name]], [c.type for c in columns[name]])
        for name, of_table in rows.items()
    }


def _tables(session: Session) -> list[Table]:
    catalog = session.workspace.catalog
    found = (catalog.relation(name) for name in catalog.relation_names())
    return [relation for relation in found if isinstance(relation, Table)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Golden queries over finished data beside the stream.")
    parser.add_argument("--only", default="", help="the beginning of the name of a file")
    report(batches(parser.parse_args().only), difference)


if __name__ == "__main__":
    main()
