"""``redis``: strings, hashes and JSON documents of a Redis server, looked up by key and written by key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import WRONG_COLUMN, BatchWriter, LookupTable, UpsertSink
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.json_documents import COLUMN_PATH, check_columns, check_names, column_paths
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import DURATION, MISSING_OPTION, NAME, STRING, WRONG_VALUE, Option, hint_of, integer, one_of
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.secrets import is_clear
from sqlstream.types import DataType
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.source import LookupSource, Request
from sqlstream.udfs.lookup.sources.clients import no_equality, no_package
from sqlstream.udfs.lookup.sources.json_values import json_object, to_field
from sqlstream.udfs.lookup.sources.redis import RedisServer, RedisSource, failure, key_texts
from sqlstream.udfs.lookup.sources.scalars import SCALARS, Template, parse_template
from sqlstream.udfs.texts import python_list

if TYPE_CHECKING:
    import pyarrow as pa
    from redis.client import Pipeline

# --- rows into Redis ------------------------------------------------------------------------------------------

NULL_KEY = "SS578"

_GONE = (RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)
"""Rows of these kinds are removed. Where a row is updated, its new version follows."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class RedisWriter:
    """Writes rows to Redis from Spark's tasks, in pipelines. Rows that are written again change nothing.

    * ``columns``: all columns of the table. ``value_column``: the column stored as a Redis string; None for other
      structures.
    * ``ttl_ms``: how long a key exists after it was written, in milliseconds; None: it does not expire.
    * ``batch_rows``: how many rows are sent per round trip.
    """

    table: str
    columns: tuple[tuple[str, DataType], ...]
    server: RedisServer
    key: Template
    data_type: str
    value_column: str | None = None
    ttl_ms: int | None = None
    batch_rows: int = 500

    def write(self, partition: int, rows: Iterable[pa.RecordBatch]) -> None:
        """Writes the rows of the partition with the number ``partition`` to Redis."""
        import redis  # an optional package

        pool = redis.ConnectionPool.from_url(self.server.url, **self.server.settings)
        with redis.Redis(connection_pool=pool) as client:
            for batch in rows:
                for chunk in self._changes(batch):
                    pipeline = client.pipeline(transaction=True)  # readers never see half a row
                    for name, row in chunk.items():
                        self._put(pipeline, name, row)
                    self._execute(pipeline, list(chunk))
        pool.disconnect()

    def _changes(self, batch: pa.RecordBatch) -> Iterator[dict[str, Row | None]]:
        """The last row of each Redis key, None for a key to delete, in chunks of ``batch_rows`` keys."""
        changes: dict[str, Row | None] = {}
        for row in python_list(batch, f'a value of table "{self.table}"'):
            kind = row.pop(ROW_KIND, RowKind.INSERT.value)
            name = self._name(row)
            changes[name] = None if kind in _GONE else row
            if len(changes) == self.batch_rows:
                yield changes
                changes = {}
        if changes:
            yield changes

    def _name(self, row: Row) -> str:
        for name in self.key.names:
            if row[name] is None:
                message = f'column "{name}" of table "{self.table}" is NULL, and its Redis key is made of it'
                raise ConnectorError(NULL_KEY, message, hint=f'Leave such rows out: WHERE "{name}" IS NOT NULL.')
        kinds = tuple((name, kind) for name, kind in self.columns if name in self.key.names)
        return self.key.filled(key_texts(kinds, tuple(row[name] for name, _ in kinds)))

    def _put(self, pipeline: Pipeline, name: str, row: Row | None) -> None:
        if row is None or (self.value_column is not None and row[self.value_column] is None):
            pipeline.delete(name)  # a string cannot be NULL
        elif self.data_type == "hash":
            fields: dict[Any, Any] = {n: _bytes(row[n], kind) for n, kind in self.columns if row[n] is not None}
            nulls = [n for n, _ in self.columns if row[n] is None]
            if fields:
                pipeline.hset(name, mapping=fields)
            if nulls:
                pipeline.hdel(name, *nulls)
            if self.ttl_ms is not None:
                pipeline.pexpire(name, self.ttl_ms)
        else:
            pipeline.set(name, self._text(row), px=self.ttl_ms)

    def _text(self, row: Row) -> str | bytes:
        kinds = dict(self.columns)
        if self.value_column is not None:
            return _bytes(row[self.value_column], kinds[self.value_column])
        return json_object(row, kinds)

    def _execute(self, pipeline: Pipeline, names: list[str]) -> None:
        shown = f'key "{names[0]}"' + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        try:
            answers = pipeline.execute(raise_on_error=False)
        except Exception as error:
            raise failure(error, self.table, self.server, shown) from error
        for answer in answers:
            if isinstance(answer, Exception):
                raise failure(answer, self.table, self.server, shown)


def _bytes(value: object, kind: DataType) -> str | bytes:
    return value if isinstance(value, bytes) else to_field(value, kind)


_BEGINNINGS = ("redis://", "rediss://", "unix://")
_KEY_HINT = "Write the key of Redis with columns in braces, such as 'airline:{carrier}'."


# --- what a table says ----------------------------------------------------------------------------------------


def key_template(table: Table) -> Template:
    """Returns the template of the Redis keys: that of the option, by default the table's name and its primary key."""
    given = table.option("key")
    return parse_template(given or ":".join([table.name, *(f"{{{name}}}" for name in table.primary_key)]))


def value_column(table: Table) -> str | None:
    """Returns the column that is stored as a Redis string; None for tables of hashes and JSON documents."""
    if Redis().values(table)["data-type"] != "string":
        return None
    beside = [c.name for c in table.physical_columns if c.name not in key_template(table).names]
    return table.option("value-column") or (beside[0] if beside else None)


def _check_server(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    url, host = table.option("url"), table.option("host")
    if (url is None) == (host is None):
        message = 'connector "redis" requires one of the options "url" and "host"'
        yield Diagnostic(MISSING_OPTION, message, spans.get("connector"), hint="Add 'url' = 'redis://host:6379/0'.")
    for key in ("port", "database"):
        if url is not None and table.option(key) is not None:
            message = f'option "{key}" belongs to "host", not to "url"'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Write it in the url: redis://host:6379/0.")
    if url is not None and not url.startswith("${") and not url.startswith(_BEGINNINGS):
        message = f'option "url" of table "{table.name}" is no address of Redis'
        yield Diagnostic(WRONG_VALUE, message, spans.get("url"), hint="It begins with redis://, rediss:// or unix://.")


def _check_key(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    if table.option("key") is None and not table.primary_key:
        message = f'table "{table.name}" says neither its "key" nor a PRIMARY KEY'
        yield Diagnostic(MISSING_OPTION, message, spans.get("connector"), hint=_KEY_HINT)
        return
    names = key_template(table).names
    if not names:
        message = f'option "key" of table "{table.name}" holds no column'
        yield Diagnostic(WRONG_VALUE, message, spans.get("key"), hint=_KEY_HINT)
    yield from check_names(table, "key", names, spans, SCALARS)
    if table.primary_key and set(names) != set(table.primary_key):
        message = f'option "key" holds other columns than the PRIMARY KEY of table "{table.name}"'
        hint = f"The primary key is {', '.join(table.primary_key)}; else rows would share a key, or leave old ones."
        yield Diagnostic(WRONG_VALUE, message, spans.get("key"), hint=hint)


def _check_values(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    data_type, given = Redis().values(table)["data-type"], table.option("value-column")
    if given is not None and data_type != "string":
        message = f'option "value-column" belongs to the data-type string, not to {data_type}'
        yield Diagnostic(WRONG_VALUE, message, spans.get("value-column"), hint="Remove it.")
    if data_type != "string":
        return
    beside = [c.name for c in table.physical_columns if c.name not in key_template(table).names]
    if given is not None and given not in beside:
        message = f'option "value-column" names "{given}", which is no column of table "{table.name}" beside the key'
        yield Diagnostic(WRONG_VALUE, message, spans.get("value-column"), hint=hint_of(given, beside, "Columns"))
    elif len(beside) != 1:
        message = f'a string holds one column beside the key, and table "{table.name}" has {len(beside)}'
        yield Diagnostic(WRONG_COLUMN, message, spans.get("data-type"), hint="Take the data-type hash or json.")


def _check_paths(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    for key, _ in table.options:
        if COLUMN_PATH.word(key) is not None and Redis().values(table)["data-type"] != "json":
            message = f'option "{key}" belongs to the data-type json'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Remove it, or take 'data-type' = 'json'.")


# --- lookups and rows -----------------------------------------------------------------------------------------


def _values(table: Table) -> dict[str, Any]:
    """The options with their secrets. SS577 where redis-py is not installed."""
    if find_spec("redis") is None:
        raise no_package("redis", "redis")
    return Redis().resolved_values(table)


def _server(values: Mapping[str, Any]) -> RedisServer:
    host, port, database = (values[key] for key in ("host", "port", "database"))
    url = values["url"] or f"redis://{f'[{host}]' if ':' in host else quote(host)}:{port or 6379}/{database or 0}"
    address = _address(url)
    if address is None:
        message = 'option "url" is no address of Redis'
        hint = "It begins with redis://, rediss:// or unix://, and in its password / is %2F and @ is %40."
        raise ConnectorError(WRONG_VALUE, message, hint=hint)
    limits = (values["timeout"], values["max-connections"])
    return RedisServer(address, url, values["username"], values["password"], *limits)


def _address(url: str) -> str | None:
    """The server as messages show it; None where the URL is none."""
    if not url.startswith(_BEGINNINGS) or not is_clear(url):
        return None
    try:
        parts = urlsplit(url)
        return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"
    except ValueError:  # of the port
        return None


class Redis(LookupTable, UpsertSink):
    """Tables in Redis, which worker processes query and write with redis-py."""

    name = "redis"
    doc = "Keys of a Redis server: looked up in joins, and written by key."
    options = (
        Option("url", NAME, "The server: redis://user:password@host:6379/0, rediss://… (TLS) or unix://….", sink=True),
        Option("host", NAME, "Its host, in place of the url.", sink=True),
        Option("port", integer(1, 65535), "Its port; 6379.", sink=True),
        Option("database", integer(0, 2**31 - 1), "The number of its database; 0.", sink=True),
        Option("username", NAME, "Who asks.", sink=True),
        Option("password", STRING, "The password, best as ${NAME}, an environment variable.", sink=True),
        Option("data-type", one_of("hash", "string", "json"), "What a key holds.", "hash", sink=True),
        Option("key", NAME, "The key, such as airline:{carrier}; the table's name and its primary key.", sink=True),
        Option("value-column", NAME, "The column that a string holds; the only one beside the key.", sink=True),
        COLUMN_PATH,
        Option("timeout", DURATION, "How long an answer may take.", "5 s", sink=True),
        Option("max-connections", integer(1, 10_000), "Connections of a worker process.", "32", sink=True),
        Option("ttl", DURATION, "Keys vanish so long after they were written.", source=False, sink=True),
        Option("sink.batch-rows", integer(1, 100_000), "Rows of one round trip.", "500", source=False, sink=True),
    )
    variables = ("host", "password", "url", "username")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from _check_server(table, spans)
        yield from _check_key(table, spans)
        yield from check_columns(table, spans)
        yield from _check_values(table, spans)
        yield from _check_paths(table, spans)

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        values = _values(table)
        key = key_template(table)
        asked = {name for name, _ in request.keys}
        for name in key.names:
            if name not in asked:
                raise no_equality(table.name, name, "key")
        paths = column_paths(table) if values["data-type"] == "json" else ()
        zone = environment.spark.conf.get("spark.sql.session.timeZone") or "UTC"
        return RedisSource(table.name, request, _server(values), key, values["data-type"], paths, zone)

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        values = _values(table)
        for key, _ in table.options:
            if COLUMN_PATH.word(key) is not None:
                message = f'table "{table.name}" cannot be written: option "{key}" says where to read only'
                hint = "Create a table without it: a document is written with its columns by name."
                raise ConnectorError(WRONG_VALUE, message, hint=hint)
        columns = tuple((c.name, c.type) for c in table.physical_columns)
        secrets = secrets_of(table)
        writer = RedisWriter(
            table.name,
            columns,
            _server(values),
            key_template(table),
            values["data-type"],
            value_column(table),
            values["ttl"],
            values["sink.batch-rows"],
        )
        return lambda batch, _: on_spark.rows.write_in_workers(batch, writer, secrets, together=writer.key.names)
