"""Formats of messages that have a schema: ``avro``, ``protobuf``, and those whose schemas are in a registry, of which
the names end with ``-confluent``. The options are Flink's, where it has the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.secrets import resolved
from sqlstream.errors import Diagnostic, Span
from sqlstream.options import (
    BOOLEAN,
    DURATION,
    MISSING_OPTION,
    NAME,
    PATH,
    STRING,
    WRONG_VALUE,
    Option,
    one_of,
)
from sqlstream.planner.catalog import Column, Table

if TYPE_CHECKING:
    from sqlstream.formats.protobuf import ProtoType
    from sqlstream.formats.schema_registry import Registry

AVRO, AVRO_CONFLUENT, PROTOBUF, PROTOBUF_CONFLUENT = "avro", "avro-confluent", "protobuf", "protobuf-confluent"
JSON_CONFLUENT, DEBEZIUM_AVRO = "json-confluent", "debezium-avro-confluent"
SCHEMA_FORMATS = (AVRO, PROTOBUF, AVRO_CONFLUENT, PROTOBUF_CONFLUENT, JSON_CONFLUENT)
"""The formats of rows; messages of changes have DEBEZIUM_AVRO."""
REGISTERED = (AVRO_CONFLUENT, PROTOBUF_CONFLUENT, JSON_CONFLUENT, DEBEZIUM_AVRO)
"""The formats whose schemas are in a registry."""

_FILES = (".jks", ".p12", ".pfx")


_WRITTEN = "The schema that is registered and written; else it is made of the columns."
_SCHEMAS = {
    AVRO_CONFLUENT: "The schema that is registered and written, else it is made of the columns; as a source the one to "
    "read by, whose aliases and defaults count.",
    PROTOBUF_CONFLUENT: _WRITTEN,
    JSON_CONFLUENT: _WRITTEN,
    DEBEZIUM_AVRO: _WRITTEN,
}


def registry_options(format: str) -> tuple[Option, ...]:  # noqa: A002
    """Returns the options of a format whose schemas are in a registry."""
    return (
        Option(f"{format}.url", NAME, "The schema registry; several URLs of one, with commas.", sink=True),
        Option(
            f"{format}.subject",
            NAME,
            "The subject under which the schema is registered; by default '<topic>-value', and '<topic>-key' of keys.",
            source=False,
            sink=True,
        ),
        Option(
            f"{format}.schema",
            NAME,
            _SCHEMAS[format],
            source=format == AVRO_CONFLUENT,
            sink=True,
        ),
        Option(
            f"{format}.basic-auth.credentials-source",
            one_of("USER_INFO", "URL"),
            "Where user and password are: in basic-auth.user-info, or in the URL.",
            sink=True,
        ),
        Option(f"{format}.basic-auth.user-info", NAME, "User and password, as user:password.", sink=True),
        Option(
            f"{format}.bearer-auth.credentials-source",
            one_of("STATIC_TOKEN", planned=("OAUTHBEARER", "SASL_OAUTHBEARER_INHERIT", "CUSTOM")),
            "Where the token is: in bearer-auth.token.",
            sink=True,
        ),
        Option(f"{format}.bearer-auth.token", NAME, "The token that is sent instead of a user.", sink=True),
        Option(f"{format}.ssl.truststore.location", NAME, "A file of PEM with trusted authorities.", sink=True),
        Option(f"{format}.ssl.keystore.location", NAME, "A file of PEM with our key and certificate.", sink=True),
        Option(f"{format}.ssl.keystore.password", STRING, "The password of this key.", sink=True),
        Option(
            f"{format}.properties.auto.register.schemas",
            BOOLEAN,
            "Schemas are registered by sinks; else the subject must have them.",
            "true",
            source=False,
            sink=True,
        ),
        Option(
            f"{format}.timeout",
            DURATION,
            "How long a registry that does not answer is asked again before the job fails.",
            "60 s",
            sink=True,
        ),
    )


_LEGACY = "TIMESTAMP_NTZ is written as an instant of UTC, as by Flink before 1.19; else as a local timestamp."
AVRO_MESSAGE_OPTIONS = (
    Option(
        "avro.schema",
        NAME,
        "The schema with which messages are written, as JSON; else it is made of the columns, as by Flink.",
        sink=True,
    ),
    Option("avro.encoding", one_of("binary", planned=("json",)), "How values are written.", "binary", sink=True),
    Option("avro.timestamp_mapping.legacy", BOOLEAN, _LEGACY, "false", source=False, sink=True),
)
_CLASS = "message-class-name"


def _protobuf_options(format: str) -> tuple[Option, ...]:  # noqa: A002
    return (
        Option(
            f"{format}.ignore-parse-errors",
            BOOLEAN,
            "Messages that cannot be read are dropped; else they fail the job.",
            "false",
        ),
        Option(
            f"{format}.read-default-values",
            BOOLEAN,
            "Fields that are unset are their defaults, also where protobuf says that they are unset; else NULL.",
            "false",
        ),
    )


PROTOBUF_OPTIONS = (
    Option(
        "protobuf.message-class-name",
        NAME,
        "The message, by its name with its package or without, as in 'shop.v1.Order'.",
        sink=True,
    ),
    Option(
        "protobuf.descriptor",
        PATH,
        "The file that protoc --descriptor_set_out=… --include_imports has written.",
        sink=True,
    ),
    Option("protobuf.schema", NAME, "The text of the .proto, instead of a descriptor.", sink=True),
    *_protobuf_options(PROTOBUF),
)
SCHEMA_OPTIONS = (
    *AVRO_MESSAGE_OPTIONS,
    *PROTOBUF_OPTIONS,
    *registry_options(AVRO_CONFLUENT),
    Option("avro-confluent.timestamp_mapping.legacy", BOOLEAN, _LEGACY, "false", source=False, sink=True),
    *registry_options(PROTOBUF_CONFLUENT),
    Option(
        f"{PROTOBUF_CONFLUENT}.{_CLASS}",
        NAME,
        "Which message of the schema is written; else the first.",
        source=False,
        sink=True,
    ),
    *_protobuf_options(PROTOBUF_CONFLUENT),
    *registry_options(JSON_CONFLUENT),
)
_SECRET = ("url", "basic-auth.user-info", "bearer-auth.token", "ssl.keystore.password")


def _variables() -> tuple[str, ...]:
    named = [f"{format}.{name}" for format in REGISTERED for name in _SECRET]  # noqa: A001
    return (*named, *(f"key.{name}" for name in named))


SCHEMA_VARIABLES = _variables()
"""Options that may name variables of the environment."""


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parsed options of a table of the format ``json-confluent`` as those of ``json``."""
    prefix = f"{JSON_CONFLUENT}."
    own = {f"json.{key.removeprefix(prefix)}": value for key, value in values.items() if key.startswith(prefix)}
    return {**values, **own, "format": "json"}


def has_schema(form: str) -> bool:
    """True for a format of this module."""
    return form in SCHEMA_FORMATS


def avro_text(columns: Iterable[Column], *, legacy: bool = False) -> str:
    """Returns the schema of Avro with which columns are written as messages: Flink's, in which those NOT NULL are no
    unions with null, and ``TIMESTAMP(3)`` counts milliseconds.
    """
    from sqlstream.formats.avro_schema import schema_of_columns  # Arrow, which other tables do not need

    given = tuple(columns)
    return schema_of_columns(
        [(c.name, c.type) for c in given],
        legacy=legacy,
        required=[c.name for c in given if not c.nullable],
        millis=[
            c.name for c in given if c.type.name in _TIMESTAMPS and c.precision is not None and c.precision <= _MILLIS
        ],
    )


_TIMESTAMPS, _MILLIS = ("TIMESTAMP", "TIMESTAMP_NTZ"), 3


def registry_of(values: Mapping[str, Any]) -> Registry:
    """Returns the registry of a format. ``values``: the parsed options of the table.

    ConnectorError SS560 for a variable that is not set.
    """
    from sqlstream.formats.schema_registry import Registry  # with the standard library's client of HTTP

    form = values["format"]
    given = {
        name: values.get(f"{form}.{name}") for name in (*_SECRET, "ssl.truststore.location", "ssl.keystore.location")
    }
    own = resolved(given)
    return Registry(
        urls=tuple(url.strip() for url in own["url"].split(",") if url.strip()),
        user=own["basic-auth.user-info"],
        token=own["bearer-auth.token"],
        authorities=own["ssl.truststore.location"],
        certificate=own["ssl.keystore.location"],
        key_password=own["ssl.keystore.password"],
        patience=values[f"{form}.timeout"] / 1000,
    )


def check_schemas(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields diagnostics for wrong options of a format with a schema, and for schemas that do not have the columns."""
    form = (table.option("format") or "").strip().lower()
    if form in REGISTERED:
        yield from _check_registry(form, dict(table.options), spans)
    if form == PROTOBUF:
        yield from _check_protobuf(dict(table.options), spans)
    if form in (AVRO, AVRO_CONFLUENT) and (text := table.option(f"{form}.schema")) is not None:
        yield from _check_text(table, f"{form}.schema", text, spans)


def _check_registry(form: str, given: Mapping[str, str], spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    url = f"{form}.url"
    if url not in given:
        message = f'format "{form}" requires the option "{url}"'
        yield Diagnostic(MISSING_OPTION, message, spans.get("format"), hint=f"Add '{url}' = 'http://…' to WITH.")
    elif "${" not in given[url] and not all(
        part.strip().startswith(("http://", "https://")) for part in given[url].split(",")
    ):
        message = f'option "{url}" is no URL of http or https'
        yield Diagnostic(WRONG_VALUE, message, spans.get(url), hint="Write 'http://host:8081'.")
    for store in ("truststore", "keystore"):
        key = f"{form}.ssl.{store}.location"
        if given.get(key, "").lower().endswith(_FILES):
            hint = "Convert the file to PEM (keytool, openssl pkcs12)."
            yield Diagnostic(WRONG_VALUE, f'option "{key}" is no file of PEM', spans.get(key), hint=hint)
    pairs = (("basic-auth.credentials-source", "USER_INFO", "basic-auth.user-info"),
             ("bearer-auth.credentials-source", "STATIC_TOKEN", "bearer-auth.token"))  # fmt: skip
    for source, word, needed in pairs:
        key = f"{form}.{source}"
        if given.get(key, "").strip().upper() == word and f"{form}.{needed}" not in given:
            message = f'"{key}" = "{word}" needs the option "{form}.{needed}"'
            yield Diagnostic(MISSING_OPTION, message, spans.get(key))
    user, token = f"{form}.basic-auth.user-info", f"{form}.bearer-auth.token"
    if user in given and token in given:
        message = f'options "{user}" and "{token}" exclude each other'
        yield Diagnostic(WRONG_VALUE, message, spans.get(token), hint="Leave one out.")


def _check_text(table: Table, key: str, text: str, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    # Arrow, which other tables do not need.
    from sqlstream.formats.avro_defaults import check_defaults
    from sqlstream.formats.avro_schema import SchemaError, parse_schema

    try:
        schema = parse_schema(text)
        check_defaults(schema)
    except SchemaError as error:
        yield Diagnostic(WRONG_VALUE, f'option "{key}" {error}', spans.get(key), hint="Write a schema of Avro as JSON.")
        return
    if schema.kind != "record":
        message = f'option "{key}" is the schema of a {schema.kind}, not of a record'
        yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Each column is a field of the record.")


def _check_protobuf(given: Mapping[str, str], spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    name, descriptor, text = (f"{PROTOBUF}.{key}" for key in (_CLASS, "descriptor", "schema"))
    if name not in given:
        message = f'format "{PROTOBUF}" requires the option "{name}"'
        yield Diagnostic(
            MISSING_OPTION, message, spans.get("format"), hint=f"Add '{name}' = '…', the name of a message."
        )
    if (descriptor in given) == (text in given):
        message = f'format "{PROTOBUF}" requires one of the options "{descriptor}" and "{text}"'
        hint = "The first is a file that protoc writes, the second the text of a .proto."
        yield Diagnostic(MISSING_OPTION, message, spans.get(text) or spans.get("format"), hint=hint)
    elif name in given:
        yield from _check_message(given, spans)


def _check_message(given: Mapping[str, str], spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    # Arrow, which other tables do not need.
    from sqlstream.formats.avro_schema import SchemaError

    key = next(f"{PROTOBUF}.{key}" for key in ("descriptor", "schema") if f"{PROTOBUF}.{key}" in given)
    try:
        proto_type(PROTOBUF, given).message()
    except SchemaError as error:
        hint = f"Correct it, or the option {PROTOBUF}.{_CLASS}."
        yield Diagnostic(WRONG_VALUE, f'option "{key}" {error}', spans.get(key), hint=hint)
    except OSError as error:
        message = f'option "{key}" is a file that cannot be read: {error.strerror}'
        yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="protoc writes it, with --descriptor_set_out.")


def proto_type(form: str, values: Mapping[str, Any]) -> ProtoType:
    """Returns the type of messages of the format ``protobuf``. ``values``: the options of the table. Raises OSError
    for a file that cannot be read.
    """
    from sqlstream.formats.protobuf import ProtoType  # Arrow, which other tables do not need

    path = values.get(f"{form}.descriptor")
    source = Path(path).read_bytes() if path is not None else values[f"{form}.schema"]
    return ProtoType(source, values[f"{form}.{_CLASS}"])
