"""``test``: tables that a ``sqlstream.testing.StreamTest`` feeds and reads (``on_spark.test``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import WRONG_COLUMN, BatchWriter, LookupTable, Sink, Source
from sqlstream.connectors.environment import Environment
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import (
    BOOLEAN,
    NAME,
    STRING,
    WRONG_VALUE,
    Option,
    OptionKind,
    duration_ms,
    hint_of,
    integer,
    one_of,
)
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, UPSERT, RowKind, Table
from sqlstream.planner.properties import changelog_text
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import LookupSource, Request
from sqlstream.udfs.lookup.sources.fed import Behaviour, FedSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


TAKES = "test.takes"


def _delay_ms(text: str) -> tuple[int, int]:
    """The least and the most that an answer takes."""
    span = re.fullmatch(r"\s*random\s+(\d+)\s*-\s*(\d+)\s*ms\s*", text.lower())
    if span is None:
        return duration_ms(text), duration_ms(text)
    low, high = int(span[1]), int(span[2])
    if low > high:
        raise ValueError(text)
    return low, high


def _failures(text: str) -> int | None:
    """None for all."""
    return None if text.strip().lower() == "always" else int(integer().parse(text))


_DELAY = OptionKind("delay", "a duration such as '501 ms', or 'random 0-4 ms'", _delay_ms)
_FAILURES = OptionKind("number", "'always', or how many requests fail", _failures)
_OPTIONS = (
    Option("role", one_of("table", "lookup"), "What the table is for: a stream, or answers to lookups.", "table"),
    Option("changelog-mode", STRING, "The kinds of rows that come, such as I,UB,UA,D.", "I", sink=True),
    Option(TAKES, STRING, "The kinds of rows that INSERT may write, such as I,UA,D.", sink=True),
    Option("test.misses-first", integer(), "So many times a key finds nothing at first.", "0"),
    Option("test.delay", _DELAY, "How long an answer to a lookup takes, such as 501 ms or random 0-4 ms.", "0"),
    Option("test.delay-column", NAME, "The column with the milliseconds that an answer takes."),
    Option("test.wait-for-rows", BOOLEAN, "A key without rows is answered when the test has fed some.", "false"),
    Option("test.fail", _FAILURES, "How often requests for a key fail at first: a number, or always.", "0"),
)
_WITHOUT_VALUES = ("VARIANT", "INTERVAL", "VOID")
_LOOKUP_ONLY = ("test.misses-first", "test.delay", "test.delay-column", "test.wait-for-rows", "test.fail")


def _missing_delay(table: Table, spans: Mapping[str, Span]) -> Diagnostic | None:
    key, names = "test.delay-column", [c.name for c in table.physical_columns]
    name = table.option(key)
    if name is None or name in names:
        return None
    message = f'option "{key}" names the column "{name}", which table "{table.name}" does not have'
    return Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint_of(name, names, "Columns"))


def _parts(kind: DataType) -> Iterator[DataType]:
    """A type and those within it."""
    yield kind
    for argument in kind.args:
        inner = argument[1] if isinstance(argument, tuple) else argument
        if isinstance(inner, DataType):
            yield from _parts(inner)


class Fed(Source, Sink, LookupTable):
    """The connector ``test``, whose rows are in the folders of a test. Raises ConnectorError SS515 outside of a
    test.
    """

    name = "test"
    doc = "Tables that a StreamTest feeds and watches."
    options = _OPTIONS

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        return on_spark.test.read(environment, table, columns)

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        return on_spark.test.writer(environment, table)

    def out_of_order_ms(self, table: Table, column: str) -> int | None:
        """Returns 0: steps of the test say when the watermark moves."""
        return 0

    def takes_changes(self, table: Table) -> frozenset[RowKind]:
        """Returns the row kinds in the option ``test.takes``, or else in ``changelog-mode``. Without both: +I, +U and
        -D if the table has a PRIMARY KEY, else all kinds.

        A test that replaces a table of a script sets ``test.takes`` to the kinds that the original table accepts.
        """
        if (declared := table.option(TAKES)) is not None:
            return frozenset(kind for kind in RowKind if changelog_text(frozenset({kind})) in declared.split(","))
        if table.changelog != APPEND_ONLY:
            return table.changelog
        return UPSERT if table.primary_key else ALL_KINDS

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        if self.values(table)["role"] != "lookup":
            for key, _ in table.options:
                if key in _LOOKUP_ONLY:
                    message = f'option "{key}" belongs to lookup tables'
                    yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Add 'role' = 'lookup', or remove it.")
        elif wrong := _missing_delay(table, spans):
            yield wrong
        for column in table.physical_columns:
            if set(_WITHOUT_VALUES) & {kind.name for kind in _parts(column.type)}:
                message = f'connector "test" has no values of type {column.type} for column "{column.name}"'
                yield Diagnostic(WRONG_COLUMN, message, spans.get("connector"), hint="Choose another type.")

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        folder = on_spark.test.inputs_of_test(environment.directory, table)
        values = self.values(table)
        behaviour = Behaviour(
            delay_ms=values["test.delay"],
            delay_column=values["test.delay-column"],
            misses=values["test.misses-first"],
            fails=values["test.fail"],
            waits=values["test.wait-for-rows"],
        )
        return FedSource(table.name, request, str(folder), behaviour)

    def has_kinds(self, table: Table) -> bool:
        return True
