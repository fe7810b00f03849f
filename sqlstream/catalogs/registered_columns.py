"""CREATE TABLE without columns: a schema registry has those of the messages of a topic.

The columns are asked for once, and are part of the stored definition, so that a table stays as it is where a later
version of its schema has others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.connectors.schema_formats import (
    AVRO_CONFLUENT,
    JSON_CONFLUENT,
    PROTOBUF_CONFLUENT,
    registry_of,
    registry_options,
)
from sqlstream.connectors.secrets import resolved
from sqlstream.errors import ConnectorError, Span
from sqlstream.grammar import nodes
from sqlstream.options import find, parsed
from sqlstream.types import DataType

_FORMATS = (AVRO_CONFLUENT, PROTOBUF_CONFLUENT, JSON_CONFLUENT)
_PATIENCE = 10.0
"""Seconds for which a registry that does not answer is asked again: here somebody waits for the statement."""

_NO_SUBJECT = "SS599"


def with_registered_columns(statement: nodes.CreateTable, options: Mapping[str, str]) -> nodes.CreateTable:
    """The statement with the columns that the registry has for values, and keys that are apart, if it declares none
    itself and its formats have a registry. ``options``: those of the statement, with variables filled in.

    ConnectorError SS505, SS598 or SS599 where the registry does not give them.
    """
    if any(isinstance(column, nodes.PhysicalColumn) for column in statement.columns):
        return statement
    if options.get("connector") not in ("kafka", "upsert-kafka"):
        return statement
    columns = dict(_columns(options, _keys(statement, options), statement.name.span))
    taken = {column.name.casefold() for column in statement.columns}
    made = (
        nodes.PhysicalColumn(name, kind.to_sqlglot(), span=statement.name.span)
        for name, kind in columns.items()
        if name.casefold() not in taken
    )
    return replace(statement, columns=(*made, *statement.columns))


def _keys(statement: nodes.CreateTable, options: Mapping[str, str]) -> list[str]:
    """The columns of the key."""
    if options["connector"] == "upsert-kafka":
        return list(statement.primary_key)
    return [name.strip() for name in options.get("key.fields", "").split(";") if name.strip()]


def _columns(options: Mapping[str, str], keys: list[str], span: Span | None) -> Iterator[tuple[str, DataType]]:
    apart = options.get("value.fields-include", "").strip().upper() == "EXCEPT_KEY"
    prefix = options.get("key.fields-prefix", "")
    if apart:
        of_key = {f"{prefix}{name}": kind for name, kind in _of_part(options, ("key.",), "key", span)}
        yield from ((name, kind) for name, kind in of_key.items() if name in keys)
    of_value = _of_part(options, ("value.", ""), "value", span)
    yield from ((name, kind) for name, kind in of_value if not (apart and name in keys))


def _of_part(
    options: Mapping[str, str], prefixes: tuple[str, ...], part: str, span: Span | None
) -> list[tuple[str, DataType]]:
    """The columns of keys or values; none where their format has no registry, or options are wrong, which others
    report. ``prefixes``: of the names of their options.
    """
    form = next((options[f"{p}format"] for p in prefixes if f"{p}format" in options), "").strip().lower()
    if form not in _FORMATS:
        return []
    known = (*registry_options(form),)
    given: dict[str, str] = {}
    message = None
    for key, text in options.items():
        own = next((key.removeprefix(p) for p in prefixes if key.startswith(p)), key)
        if find(known, own) is not None and any(key.startswith(p) for p in prefixes):
            given[own] = text
        elif own == f"{form}.message-class-name":
            message = text
    with suppress(ValueError, KeyError):
        values: dict[str, Any] = {"format": form, **parsed(known, given)}
        if values[f"{form}.url"]:
            return _asked(values, _subject(values, options.get("topic", ""), part, span), message, span)
    return []


def _subject(values: Mapping[str, Any], topic: str, part: str, span: Span | None) -> str:
    """The subject of the registry, as sinks name it."""
    given = values[f"{values['format']}.subject"]
    if given is not None:
        return str(given)
    if not topic or ";" in topic:
        message = "columns are left out, and the table is not of one topic"
        hint = f"Declare them, or name the subject that has them: '{values['format']}.subject' = '…'."
        raise ConnectorError(WRONG_COLUMN, message, span, hint=hint)
    return f"{resolved({'topic': topic}, span=span)['topic']}-{part}"


def _asked(
    values: Mapping[str, Any], subject: str, message: str | None, span: Span | None
) -> list[tuple[str, DataType]]:
    # Arrow and a client of HTTP, which other statements do not need.
    from sqlstream.formats.avro_schema import SchemaError
    from sqlstream.formats.schema_columns import columns_of_schema

    registry = registry_of(values)
    registry = replace(registry, patience=min(registry.patience, _PATIENCE))
    schema = registry.latest(subject)
    if schema is None:
        text = f'schema registry "{registry.shown}" has no subject "{subject}", whose columns the table would have'
        hint = f"Declare the columns, or name another subject: '{values['format']}.subject' = '…'."
        raise ConnectorError(_NO_SUBJECT, text, span, hint=hint)
    try:
        return columns_of_schema(schema, message)
    except SchemaError as error:
        text = f'the columns are left out, and the schema of subject "{subject}" {error}'
        raise ConnectorError(WRONG_COLUMN, text, span, hint="Declare the columns that are wanted.") from None
