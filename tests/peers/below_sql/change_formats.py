"""Formats of messages: what rows come of lines, and what is written of rows, by the functions of Spark that jobs use.

``config`` has the format, its options without the format's prefix, the declared columns, and ``lines`` to be read or
``rows``, each behind its kind, to be written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from sqlstream.connectors import validate
from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_script
from sqlstream.grammar.nodes import CreateTable
from sqlstream.jobs.lifecycle.sinks import without_nulls
from sqlstream.options import UNKNOWN_OPTION
from sqlstream.planner.binder import bind_table
from sqlstream.planner.catalog import Catalog, Table, View
from sqlstream.testing.case_format import Case
from sqlstream.testing.cases import Different, NotDriven
from sqlstream.testing.spark import local_spark
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.kernel import ROW_KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MESSAGES = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
)
_LONGEST = 200


def run(case: Case) -> None:
    table, wrong = _table(case)
    if wrong:
        _refused(case, wrong)
        return
    try:
        found = _written(case, table) if "rows" in case.config else _read(case, table)
    except Exception as error:  # Spark's own, with ours in its words
        if case.error is None or "SS402" not in str(error):
            raise
        return
    if case.error is not None:
        raise Different(f"accepted, and should be refused: {case.error}")
    _compare(list(case.results), found)


def _table(case: Case) -> tuple[Table, list[str]]:
    """The table of a case, and the codes and messages of what is wrong with it."""
    config = case.config
    options = {f"{config['format']}.{key}": value for key, value in config["format_options"].items()}
    options |= {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "h:1", "format": config["format"]}
    given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    try:
        (statement,) = parse_script(f"CREATE TABLE t ({', '.join(config['columns'])}) WITH ({given})")
        assert isinstance(statement, CreateTable)
        table = bind_table(statement, _NoTables())
    except SqlStreamError as error:
        raise NotDriven(
            f"{error.code}: {error.diagnostic.message}", "The types of columns are those of Spark."
        ) from None
    return table, [f"{d.code}: {d.message}" for d in validate(table, {})]


T = TypeVar("T")


class _NoTables:
    """A catalog in which nothing is."""

    def relation(self, name: str) -> None:
        return None

    def function(self, name: str) -> None:
        return None

    def relation_names(self) -> list[str]:
        return []

    def function_names(self) -> list[str]:
        return []

    def within(self, namespace: tuple[str, str] | None) -> _NoTables:
        return self

    def cached_for_view(self, view: View, settings: Hashable, answer: Callable[[Catalog], T]) -> T:
        return answer(self)

    def with_options(self, table: Table, options: object, span: object) -> Table:
        return table


def _refused(case: Case, wrong: list[str]) -> None:
    unknown = [text for text in wrong if text.startswith(UNKNOWN_OPTION)]
    if unknown:
        raise NotDriven(unknown[0], "Options of formats are in docs/connectors.md.")
    if "invalid_option" not in case.config:
        raise Different(wrong[0])


def _read(case: Case, table: Table) -> list[list[Any]]:
    if case.config.get("invalid_option"):
        return []
    now = datetime(2024, 1, 1)
    lines = (line if line is None else line.encode() for line in case.config["lines"])
    messages = [(None, line, "t", 0, offset, now, 0) for offset, line in enumerate(lines)]
    rows = Kafka().rows_of_messages(
        local_spark().createDataFrame(messages, _MESSAGES), table, tuple(c.name for c in table.columns)
    )
    if BAD in rows.columns:
        rows = rows.where(f"{BAD}.error IS NULL").drop(BAD)
    names = [c.name for c in table.columns]
    return [[row.get(ROW_KIND, "+I"), *(row[n] for n in names)] for row in (r.asDict() for r in rows.collect())]


def _written(case: Case, table: Table) -> list[Any]:
    columns = ", ".join(f"`{c.name}` {c.type.ddl()}" for c in table.physical_columns)
    decimals = [c.type.name == "DECIMAL" for c in table.physical_columns]
    rows = [
        (*(Decimal(v) if exact and v is not None else v for v, exact in zip(values, decimals, strict=True)), kind)
        for kind, *values in case.config["rows"]
    ]
    frame = local_spark().createDataFrame(rows, f"{columns}, {ROW_KIND} STRING")
    told = frame if table.option("format") != "json" else frame.drop(ROW_KIND)
    return _messages(Kafka().messages_of_rows(without_nulls(told, table), table))


def _messages(frame: DataFrame) -> list[Any]:
    return [json.loads(row["value"]) for row in frame.collect()]


def _compare(expected: list[Any], found: list[Any]) -> None:
    wanted = [json.loads(e) if isinstance(e, str) else e for e in expected]
    for number, (want, got) in enumerate(zip(wanted, found, strict=False)):
        if not _same(want, got):
            raise Different(f"row {number}: expected {_shown(want)}, got {_shown(got)}")
    if len(wanted) != len(found):
        raise Different(f"expected {len(wanted)} rows, got {len(found)}")


def _same(want: Any, got: Any) -> bool:
    match got:
        case datetime():
            return bool(want == round(got.replace(tzinfo=UTC).timestamp() * 1000))
        case date() | Decimal():
            return str(want) == str(got)
        case float():
            return isinstance(want, int | float) and math.isclose(want, got, rel_tol=1e-6)
        case list() | tuple():
            return isinstance(want, list) and len(want) == len(got) and all(map(_same, want, got))
        case dict():
            return isinstance(want, dict) and want.keys() == got.keys() and all(_same(want[k], got[k]) for k in want)
    return bool(want == got and type(want) is type(got))


def _shown(value: Any) -> str:
    return str(value)[:_LONGEST]


MECHANISMS: Iterable[str] = ("canal", "debezium", "json", "maxwell", "ogg", "options")
