"""Queries in DuckDB, over the tables as they are in the end; the rows of windows are those of the model in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from sqlstream.grammar import parse_query
from sqlstream.grammar.nodes import Descriptor, TableArgument, TableFunction
from sqlstream.grammar.trees import Carrier
from tests.differential.changes import History
from tests.differential.comparing import NoReference, Rows, comparable, tables_in_the_end
from tests.model.operator import Operator
from tests.model.windows import FOREVER, Cumulate, Hop, Session, Tumble, Window

_UNITS_MS = {"SECOND": 1000, "MINUTE": 60_000}
_BOUNDS = pa.schema([(name, pa.timestamp("us")) for name in ("window_start", "window_end", "window_time")])


def in_duckdb(text: str, past: History) -> Rows:
    """The rows of a query; NoReference where DuckDB does not run it."""
    tables = tables_in_the_end(past)
    try:
        sql = spelled_for_duckdb(text, tables)
        with duckdb.connect(config={"threads": 1}) as database:
            for name, rows in tables.items():
                database.register(name, rows)
            return Counter(map(comparable, database.execute(sql).fetchall()))
    except (duckdb.Error, ValueError) as error:
        raise NoReference(f"{type(error).__name__}: {error}".splitlines()[0]) from error


def spelled_for_duckdb(text: str, tables: dict[str, pa.Table]) -> str:
    """The query in DuckDB's words. Windows become tables, which are added to ``tables``."""
    tree = parse_query(text)
    for number, table in enumerate([*tree.find_all(exp.Table)]):
        carrier = table.this
        if isinstance(carrier, Carrier):
            if not isinstance(carrier.this, TableFunction):
                raise NoReference("a table function")
            name = f"__windows_{number}"
            tables[name] = _rows_of_windows(carrier.this, tables)
            table.set("this", exp.to_identifier(name))
    for join in tree.find_all(exp.Join):
        if join.kind in ("SEMI", "ANTI"):
            join.set("side", None)
    for call in [*tree.find_all(exp.Anonymous)]:
        if call.name.upper() == "COUNT_IF":  # DuckDB's is NULL of NULLs alone
            test = exp.If(this=call.expressions[0].copy(), true=exp.Literal.number(1))
            call.replace(exp.Count(this=exp.Case(ifs=[test])))
    return tree.sql("duckdb", comments=False)


def _rows_of_windows(call: TableFunction, tables: dict[str, pa.Table]) -> pa.Table:
    """Each row of a table once for each of its windows."""
    source, time, *sizes = (argument.value for argument in call.arguments)
    if not isinstance(source, TableArgument) or not isinstance(time, Descriptor):
        raise NoReference("another form of windows")
    rows = tables[source.source.name]
    keys = [key.name for key in source.partition_by]
    # The time zone of rows is that of the session: UTC.
    times_ms = [int(value) // 1000 for value in rows.column(time.columns[0].name).cast(pa.int64()).to_pylist()]
    of_keys = [tuple(row.values()) for row in rows.select(keys).to_pylist()] if keys else [()] * len(times_ms)
    operator = Operator(_window(call.name, [*map(_milliseconds, sizes)]), lambda found: tuple(r["n"] for r in found))
    for number, (time_ms, key) in enumerate(zip(times_ms, of_keys, strict=True)):
        operator.row({"k": key, "ts": time_ms, "n": number})
    operator.reach_watermark(FOREVER)
    of_windows = list(_rows_with_bounds(operator.output))
    bounds = [pa.array([row[i] for row in of_windows], pa.int64()).cast(pa.timestamp("us")) for i in (1, 2, 3)]
    taken = rows.take(pa.array([row[0] for row in of_windows], pa.int64()))
    return pa.table([*taken.columns, *bounds], names=[*rows.column_names, *_BOUNDS.names])


def _rows_with_bounds(windows: list[tuple[Any, ...]]) -> Iterator[tuple[int, int, int, int]]:
    for _, start, end, *numbers in windows:
        for number in numbers:
            yield number, 1000 * start, 1000 * end, 1000 * (end - 1)


def _window(name: str, sizes: list[int]) -> Window:
    match name.upper(), sizes:
        case "TUMBLE", [size]:
            return Tumble(size)
        case "HOP", [slide, size]:
            return Hop(slide, size)
        case "CUMULATE", [step, size]:
            return Cumulate(step, size)
        case "SESSION", [gap]:
            return Session(gap)
    raise NoReference("another window")


def _milliseconds(interval: object) -> int:
    if not isinstance(interval, exp.Interval) or interval.unit is None or interval.unit.name not in _UNITS_MS:
        raise NoReference("another interval")
    return int(float(interval.this.name) * _UNITS_MS[interval.unit.name])
