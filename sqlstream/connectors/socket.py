"""``socket``: lines of text that a server sends, for trying things out; what was read cannot be read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.connector import Environment, Source
from sqlstream.connectors.formats import CSV_OPTIONS, JSON_OPTIONS, PLANNED_FORMATS, check_format, decode
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import NAME, Option, integer, one_of
from sqlstream.planner.catalog import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Socket(Source):
    """Reads Spark's source ``socket``."""

    name = "socket"
    doc = "Lines of text that a TCP server sends (try nc -lk 9999); without recovery, for trying things out."
    options = (
        Option("hostname", NAME, "The server.", required=True),
        Option("port", integer(1, 65535), "Its port.", required=True),
        Option(
            "format",
            one_of("csv", "json", "raw", planned=PLANNED_FORMATS),
            "How a line is read: csv, json or raw (the line as one STRING).",
            required=True,
        ),
        *(option for option in (*CSV_OPTIONS, *JSON_OPTIONS) if option.source),
    )

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        return check_format(table, spans)

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        values = self.values(table)
        reader = environment.spark.readStream.format("socket")
        lines = reader.option("host", values["hostname"]).option("port", values["port"]).load()
        return decode(lines, "value", table, columns, values)
