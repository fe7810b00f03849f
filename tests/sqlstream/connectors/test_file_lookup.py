"""Lookups of ``filesystem``: options, what reaches the source, what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.connectors import Environment, lookup_connector, validate
from sqlstream.errors import UnsupportedError
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.csv_records import Dialect
from sqlstream.formats.decoder import Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.planner.catalog import Table
from sqlstream.types import parse_type
from sqlstream.udfs.files.text import Header, TextFormat
from sqlstream.udfs.lookup.source import Comparison, Request
from sqlstream.udfs.lookup.sources.files import FileSource

FILES = lookup_connector("filesystem")


def source_of(table: Table, key: str = "k") -> FileSource:
    """What answers lookups of all columns, in a session of Amsterdam; no Spark."""
    conf: Any = SimpleNamespace(conf={"spark.sql.session.timeZone": "Europe/Amsterdam"})
    kinds = {c.name: c.type for c in table.physical_columns}
    request = Request(((key, kinds[key]),), tuple(kinds.items()))
    actual = FILES.lookup(Environment(conf, Path("session")), table, request)
    assert isinstance(actual, FileSource)
    return actual


def files(make_table, columns="k STRING; v INT", **options) -> Any:
    return make_table("filesystem", columns, **({"path": "/data", "format": "csv"} | options))


def test_options_of_the_format_reach_the_source(make_table):
    options: dict[str, Any] = {
        "csv__field_delimiter": ";",
        "csv__quote_character": "'",
        "csv__escape_character": "\\",
        "csv__header": True,
        "csv__null_literal": "NA",
        "csv__allow_comments": True,
        "csv__ignore_parse_errors": True,
        "lookup__full_cache__periodic_reload__interval": "10 s",
        "partition_by": "v",
    }
    actual = source_of(files(make_table, **options))
    assert (actual.path, actual.partitions, actual.reload_ms) == ("/data", ("v",), 10_000)
    field, zone = Field("k", parse_type("STRING")), "Europe/Amsterdam"
    dialect = Dialect(";", "'", "\\", "NA", comments=True)
    header = Header("t", ((0, "k"),), dialect, 1)
    decoder = CsvDecoder((field,), dialect, zone)
    assert actual.format == TextFormat(decoder, dialect=dialect, header=header, tolerant=True)
    assert (actual.columns, actual.zone) == ((("k", field.type), ("v", parse_type("INT"))), zone)
    of_lines = source_of(files(make_table, csv__disable_quote_character=True, csv__multi_line=True, encoding="UTF-16"))
    assert isinstance(of_lines.format, TextFormat)
    assert (of_lines.format.dialect, of_lines.format.encoding) == (None, "utf-16")
    json: dict[str, Any] = {"format": "json", "json__ignore_parse_errors": True}
    json["json__timestamp_format__standard"] = "SQL"
    fields = (field, Field("v", parse_type("INT")))
    assert source_of(files(make_table, **json)).format == TextFormat(
        JsonDecoder(fields, ignores_errors=True, standard="SQL", zone=zone, arrays=True), tolerant=True
    )


def test_workers_get_an_absolute_path(make_table):
    assert source_of(files(make_table, path="data")).path == str(Path.cwd() / "data")
    assert source_of(files(make_table, path="file:/some/da%20ta")).path == "/some/da ta"


@pytest.mark.parametrize(
    ("columns", "options", "code", "message"),
    [
        ("k STRING", {"path": "s3a://b/x"}, "SS581", 'lookups in table "t" read no files of "s3a://b/x"'),
        (
            "k ARRAY<INT>",
            {"format": "parquet"},
            "SS580",
            'column "k" of type ARRAY<INT> cannot be the key of a lookup in files',
        ),
        (
            "k INT; m ARRAY<VARIANT>",
            {"format": "json"},
            "SS582",
            'lookups in table "t" cannot read column "m" of type ARRAY<VARIANT> as json',
        ),
    ],
)
def test_what_cannot_be_looked_up_is_refused(make_table, columns, options, code, message):
    with pytest.raises(UnsupportedError) as caught:
        source_of(files(make_table, columns, **options))
    assert (caught.value.code, caught.value.diagnostics[0].message) == (code, message)
    assert caught.value.diagnostics[0].hint


def test_only_full_caches_that_reload_periodically_are_executed(make_table):
    table = files(make_table, lookup__cache="PARTIAL", lookup__full_cache__reload_strategy="TIMED")
    assert [(d.code, d.hint) for d in validate(table, {})] == [
        ("SS350", "Write one of 'FULL'."),
        ("SS350", "Write one of 'PERIODIC'."),
    ]


def test_filters_are_pushed_where_arrow_compares_like_spark(make_table):
    table = files(make_table, "k STRING; v INT; d DOUBLE; at TIMESTAMP")
    assert [FILES.filters(table, Comparison(c, "=", 1)) for c in ("k", "v", "d", "at")] == [True, True, False, False]
