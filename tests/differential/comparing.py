"""A query over a random history, with the harness, and the rows that DuckDB has for it in the end."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from sqlstream.errors import SqlStreamError
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.planner.rules import optimize
from sqlstream.udfs.kernel import END_OF_TIME, ROW_KIND
from tests.differential.changes import TABLES, Change, History, TableKind
from tests.differential.queries import DUCKDB, Query
from tests.differential.without_spark import PlanHarness, in_duckdb
from tests.planner.plans import physical, plan

DDL = ";\n".join(table.ddl() for table in TABLES) + ";\n"

Rows = Counter[tuple[Any, ...]]


class NoReference(Exception):
    """DuckDB does not run the query."""


@dataclass(frozen=True)
class Refused(Exception):
    """The query is refused with a code."""

    code: str
    message: str


def planned(query: Query, *, by_key: Random | None = None) -> PhysicalPlan:
    """The plan of a query over TABLES; see ``plan_of_text``."""
    return plan_of_text(query.ours(), DDL + query.definitions(), by_key=by_key)


def plan_of_text(text: str, definitions: str, *, by_key: Random | None = None) -> PhysicalPlan:
    """Refused where it is not executed. ``by_key`` chooses a PRIMARY KEY, where one is known, of a table
    that the query is inserted into: its rows replace each other."""
    try:
        found: Node = optimize(plan(text, definitions))
        key = _key_of(found, by_key) if by_key is not None else ()
        if key:
            columns = ", ".join(f"{f.name} {f.type.ddl()}" for f in found.schema)
            sink = f"CREATE TABLE kept ({columns}, PRIMARY KEY ({', '.join(key)}) NOT ENFORCED) "
            sink += "WITH ('connector' = 'test', 'changelog-mode' = 'I,UA,D');\n"
            found = optimize(plan(f"{sink}INSERT INTO kept {text}", definitions))
        return physical(found)
    except SqlStreamError as error:
        raise Refused(error.code, error.diagnostic.message) from error


def _key_of(found: Node, choice: Random) -> tuple[str, ...]:
    """A key by which the query changes its rows, none where there is none."""
    if any(f.type.is_unknown for f in found.schema):
        return ()
    names = {f.name for f in found.schema}
    keys = sorted(tuple(sorted(key)) for key in found.inputs[0].upsert_keys if key and key <= names)
    return choice.choice(keys) if keys else ()


def without_spark(made: PhysicalPlan, history: History, *, groups: int = 1, restarts: Random | None = None) -> Rows:
    """The rows that are there in the end; ValueError where one is withdrawn that is not there."""
    harness = PlanHarness(made, groups=groups, restarts=restarts)
    tables = {table.name: table for table in history.of}
    changes: list[tuple[Any, ...]] = []
    for batch, watermark in zip(history.micro_batches(), history.watermarks(), strict=True):
        changes += _changes(harness.batch({name: _table(tables[name], rows) for name, rows in batch.items()}))
        if watermark is not None:
            changes += _changes(harness.batch({}, watermark))
    changes += _changes(harness.batch({}, END_OF_TIME))
    root = made.logical
    if isinstance(root, Insert):
        names = [column.name for column in root.table.columns]
        return merged_by([names.index(name) for name in root.table.primary_key], changes)
    return merged(changes)


def merged(changes: Iterable[tuple[Any, ...]]) -> Rows:
    """The table that changes amount to, each a kind and values; ValueError where a row is withdrawn that is not
    there."""
    rows: Rows = Counter()
    for kind, *values in changes:
        row = comparable(values)
        if kind in ("+I", "+U"):
            rows[row] += 1
        elif rows[row] > 0:
            rows[row] -= 1
        else:
            raise ValueError(f"{kind} {row} withdraws a row that is not there")
    return +rows


def merged_by(key: Sequence[int], changes: Iterable[tuple[Any, ...]]) -> Rows:
    """The table whose rows replace each other by a key."""
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for kind, *values in changes:
        row = comparable(values)
        name = tuple(row[i] for i in key)
        if kind in ("+I", "+U"):
            rows[name] = row
        else:
            rows.pop(name, None)
    return Counter(rows.values())


def _changes(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    plain = rows.drop_columns([ROW_KIND])
    columns = (rows.column(ROW_KIND), *plain.columns)
    return zip(*(column.to_pylist() for column in columns), strict=True)


def _table(table: TableKind, changes: list[Change]) -> pa.Table:
    columns = zip(*(row for _, row in changes), strict=True)
    arrays = [pa.array(values, field.type) for field, values in zip(table.schema, columns, strict=True)]
    names = list(table.columns)
    if table.mode != "I":
        arrays, names = [*arrays, pa.array([kind for kind, _ in changes])], [*names, ROW_KIND]
    return pa.table(arrays, names=names)


def expected(query: Query, history: History) -> Rows:
    """The rows of the query over the tables as they are in the end."""
    database = in_duckdb()
    for name, rows in tables_in_the_end(history).items():
        database.register(name, rows)
    try:
        return Counter(map(comparable, database.execute(query.reference(DUCKDB)).fetchall()))
    except duckdb.Error as error:
        raise NoReference(str(error)) from error


def tables_in_the_end(history: History) -> dict[str, pa.Table]:
    """By name, with the past of the table of versions."""
    there = history.tables()
    found = {table.name: _arrow(table.schema, there[table.name]) for table in history.of}
    versions = next((table for table in history.of if table.name == "versions"), None)
    if versions is not None:
        past = pa.schema([("gone", pa.bool_()), *versions.schema])
        found["history"] = _arrow(past, [(gone, *row) for gone, row in history.versions()])
    return found


def _arrow(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Times without a zone."""
    kinds = [pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type for field in schema]
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(v, kind) for v, kind in zip(values, kinds, strict=True)], names=schema.names)


def comparable(row: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(map(_comparable, row))


def _comparable(value: Any) -> Any:
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case float():
            return float(f"{value:.9g}") + 0.0 if abs(value) > 1e-9 else 0.0
        case Decimal():
            return int(value) if value == int(value) else float(f"{value:.9g}")
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None)
        case list():
            return tuple(map(_comparable, value))
        case dict():  # a ROW or a MAP
            return {_comparable(key): _comparable(part) for key, part in value.items()}
    return value
