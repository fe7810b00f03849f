"""What the options of a table of Kafka say: topics, and the keys and values of messages.

The options ``key.format``, ``key.fields`` and ``value.fields-include`` give keys a format of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlstream.connectors.change_formats import change_format
from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.formats import (
    CSV_OPTIONS,
    JSON_CONFLUENT_OPTIONS,
    JSON_OPTIONS,
    RAW_OPTIONS,
    REFUSED_OF_FORMATS,
    check_format,
)
from sqlstream.connectors.kafka.client import COMMITS
from sqlstream.connectors.schema_formats import SCHEMA_FORMATS, SCHEMA_OPTIONS
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import MISSING_OPTION, NAME, WRONG_VALUE, Option, hint_of, one_of, parsed
from sqlstream.planner.bad_rows import ON_ERROR
from sqlstream.planner.catalog import Table
from sqlstream.types import DataType, parse_type

KEY = "key."
FORMAT, FIELDS, PREFIX, INCLUDE = "key.format", "key.fields", "key.fields-prefix", "value.fields-include"

FORMAT_OF_A_PART = one_of("csv", "json", "raw", *SCHEMA_FORMATS)
_OF_FORMATS = (*CSV_OPTIONS, *JSON_OPTIONS, *RAW_OPTIONS, *SCHEMA_OPTIONS, *JSON_CONFLUENT_OPTIONS)
_KNOWN = (Option("format", FORMAT_OF_A_PART, "", "json"), *_OF_FORMATS)

FORMATS_OF_KEYS = tuple(replace(o, key=f"{KEY}{o.key}", doc=f"Of keys: {o.doc}") for o in _OF_FORMATS)
REFUSED_OF_PARTS = {
    f"{prefix}{key}": hint for prefix in ("", KEY, "value.") for key, hint in REFUSED_OF_FORMATS.items()
}
"""Options of the formats of values and keys that are not executed, and what to write instead."""

KEY_OPTIONS = (
    Option(FIELDS, NAME, "Columns, separated by semicolons, that make the key.", sink=True),
    Option(FORMAT, FORMAT_OF_A_PART, "How the key is written; without it as the value, and not read.", sink=True),
    Option(PREFIX, NAME, "Begins the names of key.fields in the table, and is not in those of the key.", sink=True),
    Option(
        INCLUDE,
        one_of("ALL", "EXCEPT_KEY"),
        "Whether values hold the columns of the key, too. If so, they are read from there, and keys are not looked at.",
        "ALL",
        sink=True,
    ),
    *FORMATS_OF_KEYS,
)


def key_fields(table: Table) -> list[str]:
    """Returns the names of the table's columns that are in the message key (option ``key.fields``)."""
    return [name.strip() for name in (table.option(FIELDS) or "").split(";") if name.strip()]


def key_values(table: Table) -> dict[str, Any]:
    """Returns the parsed options of the key format, without their prefix ``key.``, as functions for the value format
    expect them.
    """
    return parsed(_KNOWN, dict(_options(table)))


def only_in_keys(table: Table) -> list[str]:
    """Returns the names of the columns that are in the message key but not in the value."""
    except_key = (table.option(INCLUDE) or "").strip().upper() == "EXCEPT_KEY"
    return key_fields(table) if except_key else []


def table_of_values(table: Table) -> Table:
    """Returns the table reduced to what message values contain: columns of the value, and options without those of the
    key.
    """
    apart = only_in_keys(table)
    columns = tuple(c for c in table.columns if c.name not in apart)
    return replace(table, columns=columns, options=tuple(o for o in table.options if not o[0].startswith(KEY)))


def table_of_keys(table: Table) -> Table:
    """Returns a table that describes message keys: the key columns, under their names in the key, and the key format's
    options.
    """
    more = tuple(pair for pair in table.options if pair[0] == ON_ERROR)
    names = [(name, name_in_key(table, name)) for name in key_fields(table)]
    keys = keys_alone(table, names)
    return replace(keys, options=(*keys.options, *more))


def keys_alone(table: Table, names: Iterable[tuple[str, str]]) -> Table:
    """Returns a table that consists of some columns of ``table`` and has the key format's options. ``names``: pairs of
    a column's name and its new name.
    """
    named = {c.name: c for c in table.physical_columns}
    columns = tuple(replace(named[name], name=new) for name, new in names if name in named)
    return replace(table, columns=columns, options=_options(table), watermark=None, primary_key=())


def check_part(table: Table, spans: Mapping[str, Span], prefix: str) -> Iterable[Diagnostic]:
    """Checks the format of a part of messages. ``table``: its columns, and options without the ``prefix`` that they
    have in the statement, ``key.`` or ``value.``.
    """
    short = {key.removeprefix(prefix): span for key, span in spans.items() if key.startswith(prefix)}

    def named(text: str) -> str:
        return _OF_A_FORMAT.sub(rf"\g<0>{prefix}", text)

    for wrong in check_format(table, short):
        hint = None if wrong.hint is None else named(wrong.hint)
        yield replace(wrong, message=named(wrong.message), hint=hint)


_OF_A_FORMAT = re.compile(rf"""["'](?=({"|".join(sorted({o.key.split(".")[0] for o in _OF_FORMATS}))})\.)""")
"""What precedes the name of an option of a format in messages."""


def name_in_key(table: Table, name: str) -> str:
    """Returns the name that a column has in the message key: its own, without ``key.fields-prefix``."""
    return name.removeprefix(table.option(PREFIX) or "")


def _options(table: Table) -> tuple[tuple[str, str], ...]:
    own = {FIELDS, PREFIX}
    return tuple((k.removeprefix(KEY), v) for k, v in table.options if k.startswith(KEY) and k not in own)


# --- checks ---------------------------------------------------------------------------------------------------


def check_keys(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields diagnostics for wrong options of the key, by Flink's rules, and for columns that the key format cannot
    hold.
    """
    given, fields = dict(table.options), key_fields(table)
    columns = [c.name for c in table.physical_columns]
    unknown = [name for name in fields if name not in columns]
    for name in unknown:
        message = f'option "{FIELDS}" names the column "{name}", which table "{table.name}" does not have'
        yield Diagnostic(WRONG_VALUE, message, spans.get(FIELDS), hint=hint_of(name, columns, "Columns"))
    twice = [name for name in dict.fromkeys(fields) if fields.count(name) > 1]
    for name in twice:
        message = f'option "{FIELDS}" names the column "{name}" twice'
        yield Diagnostic(WRONG_VALUE, message, spans.get(FIELDS), hint="Name each column once.")
    if FORMAT not in given:
        yield from _without_format(table, spans)
        return
    if not fields:
        message = f'option "{FORMAT}" needs the option "{FIELDS}"'
        hint = f"Add '{FIELDS}' = '…', columns of the table."
        yield Diagnostic(MISSING_OPTION, message, spans.get(FORMAT), hint=hint)
    elif not unknown and not twice:
        yield from _wrong_keys(table, given, spans)


def _wrong_keys(table: Table, given: Mapping[str, str], spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    if PREFIX in given:
        yield from _wrong_prefix(table, given[PREFIX], spans)
    apart = only_in_keys(table)
    if change_format(table) is not None and (apart or given[FORMAT].lower() != "json"):
        wrong = INCLUDE if apart else FORMAT
        message = f'option "{wrong}" does not go with changes, whose values hold all columns and whose keys are JSON'
        hint = f"Write '{FORMAT}' = 'json', and leave {INCLUDE} out."
        yield Diagnostic(WRONG_VALUE, message, spans.get(wrong), hint=hint)
    yield from check_part(table_of_keys(table), spans, KEY)
    if apart:
        yield from _wrong_variants(table_of_keys(table), table_of_values(table))


def _wrong_variants(*parts: Table) -> Iterable[Diagnostic]:
    """SS505 for VARIANT in CSV, which only Spark reads, and which tasks therefore cannot read together with keys."""
    for table in parts:
        if (table.option("format") or "").strip().lower() == "csv":
            for column in (c for c in table.physical_columns if c.type.name == "VARIANT"):
                message = f'column "{column.name}" of type VARIANT is in CSV, and read together with keys'
                hint = "Declare it STRING and write PARSE_JSON in queries, or take the format json."
                yield Diagnostic(WRONG_COLUMN, message, hint=hint)


def _without_format(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """SS503 for options that have no effect without ``key.format``."""
    needy = {PREFIX, *(option.key for option in FORMATS_OF_KEYS), *((INCLUDE,) if only_in_keys(table) else ())}
    for key in (key for key, _ in table.options if key in needy):
        message = f'option "{key}" needs the option "{FORMAT}"'
        yield Diagnostic(MISSING_OPTION, message, spans.get(key), hint=f"Add '{FORMAT}' = '…' to WITH.")


def _wrong_prefix(table: Table, prefix: str, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    apart = only_in_keys(table)
    if not apart:
        message = f"option \"{PREFIX}\" needs '{INCLUDE}' = 'EXCEPT_KEY'"
        hint = "Values with all columns have them by the names that the table has."
        yield Diagnostic(WRONG_VALUE, message, spans.get(PREFIX), hint=hint)
    for name in apart:
        if not name.startswith(prefix) or name == prefix:
            message = f'column "{name}" of the key does not begin with "{PREFIX}", which is "{prefix}"'
            yield Diagnostic(WRONG_VALUE, message, spans.get(FIELDS) or spans.get(PREFIX), hint="Rename the column.")


# --- Spark's options and columns ------------------------------------------------------------------------------

METADATA = {
    "topic": ("topic", DataType("STRING")),
    "partition": ("partition", DataType("INT")),
    "offset": ("offset", DataType("BIGINT")),
    "timestamp": ("timestamp", DataType("TIMESTAMP")),
    "timestamp-type": ("timestampType", DataType("INT")),
    "key": ("key", DataType("BINARY")),
    "headers": ("headers", parse_type("MAP<STRING, BINARY>")),
    "leader-epoch": ("leaderEpoch", DataType("INT")),
}
HEADERS = "headers"
_PARTITIONERS = {"round-robin": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}
_START = {"earliest-offset": "earliest", "latest-offset": "latest"}


def is_bounded(table: Table) -> bool:
    """True where the source ends at offsets that are known when the query starts."""
    return (table.option("scan.bounded.mode") or "unbounded").strip().lower() != "unbounded"


def header_options(table: Table) -> dict[str, str]:
    """Returns the option that makes Spark read message headers if the table has a column for them; else an empty
    mapping.
    """
    return {"includeHeaders": "true"} if any(c.metadata_key == HEADERS for c in table.columns) else {}


def start_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns Spark's options that choose the topics and the start offsets. ``values``: the parsed options of the
    table.
    """
    topics = {"subscribe": values["topic"].replace(";", ",")} if values["topic"] else {}
    if values["topic-pattern"]:
        topics = {"subscribePattern": values["topic-pattern"]}
    start = {"startingOffsets": _START.get(values["scan.startup.mode"], "latest")}
    if values["scan.startup.mode"] == "timestamp":
        start = {"startingTimestamp": str(values["scan.startup.timestamp-millis"])}
    group = values.get("properties.group.id")
    return _properties(values) | topics | start | ({"kafka.group.id": group} if group else {})


def _properties(values: Mapping[str, Any]) -> dict[str, str]:
    prefix = "properties."
    options = {
        f"kafka.{k.removeprefix(prefix)}": v for k, v in values.items() if k.startswith(prefix) and v is not None
    }
    for ours in ("kafka.group.id", f"kafka.{COMMITS}"):
        options.pop(ours, None)
    return options


def target_options(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns Spark's options to write to the table's topic. ``values``: the parsed options of the table."""
    chosen = _PARTITIONERS.get(values.get("sink.partitioner") or "default")
    return _properties(values) | {"topic": values["topic"]} | ({"kafka.partitioner.class": chosen} if chosen else {})


# --- upsert tables --------------------------------------------------------------------------------------------

VALUE = "value."
FORMAT_OF_VALUES = "value.format"

_OF_SOURCES = ("ignore-parse-errors", "allow-comments")
"""Options that drop messages. In an upsert table that is the work of ``on-error``."""


def upsert_options(prefix: str, what: str) -> tuple[Option, ...]:
    """Returns the options of the formats of keys or values of upsert tables. ``what``: begins their descriptions."""
    kept = (option for option in _OF_FORMATS if not option.key.endswith(_OF_SOURCES))
    return tuple(replace(o, key=f"{prefix}{o.key}", doc=f"{what}{o.doc}") for o in kept)


def keys_of_upserts(table: Table) -> Table:
    """Returns a table that describes the message keys of an upsert table: the PRIMARY KEY columns in the key format."""
    return keys_alone(table, [(name, name_in_key(table, name)) for name in table.primary_key])


def values_of_upserts(table: Table) -> Table:
    """Returns a table that describes the message values of an upsert table: their columns, and the options of their
    format.
    """
    apart = only_in_keys(with_key_fields(table))
    columns = tuple(c for c in table.columns if c.name not in apart)
    own = ((key.removeprefix(VALUE), text) for key, text in table.options if key.startswith(VALUE) and key != INCLUDE)
    more = (pair for pair in table.options if pair[0] in (ON_ERROR, "topic"))
    return replace(table, columns=columns, options=(*own, *more), watermark=None, primary_key=())


def value_values(table: Table) -> dict[str, Any]:
    """Returns the parsed options of the value format of an upsert table, without their prefix ``value.``."""
    own = {k.removeprefix(VALUE): v for k, v in table.options if k.startswith(VALUE) and k != INCLUDE}
    return parsed(_KNOWN, own) | {"topic": table.option("topic")}


def with_key_fields(table: Table) -> Table:
    """Returns an upsert table as one of the connector ``kafka``, whose option ``key.fields`` names its PRIMARY KEY."""
    return replace(table, options=(*table.options, (FIELDS, ";".join(table.primary_key))))


def check_upsert_formats(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields diagnostics for a ``key.fields-prefix`` that the columns of an upsert table do not fit, and for wrong
    options and columns of its formats.
    """
    prefix = table.option(PREFIX)
    if prefix is not None:
        yield from _wrong_prefix(with_key_fields(table), prefix, spans)
    yield from check_part(keys_of_upserts(table), spans, KEY)
    yield from check_part(values_of_upserts(table), spans, VALUE)
    yield from _wrong_variants(keys_of_upserts(table), values_of_upserts(table))
