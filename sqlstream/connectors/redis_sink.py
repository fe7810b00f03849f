"""Rows into Redis, from the workers, in pipelines.

Writing the same rows again leaves the same values, so a micro-batch that runs again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlstream.errors import ConnectorError
from sqlstream.planner.catalog import RowKind
from sqlstream.types import DataType
from sqlstream.udfs.kernel import ROW_KIND
from sqlstream.udfs.lookup.sources.json_values import json_object, to_field
from sqlstream.udfs.lookup.sources.redis import RedisServer, failure, key_texts
from sqlstream.udfs.lookup.sources.scalars import Template
from sqlstream.udfs.texts import python_list

if TYPE_CHECKING:
    import pyarrow as pa
    from redis.client import Pipeline

NULL_KEY = "SS578"

_GONE = (RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)
"""Where the row is updated, the one that takes its place follows."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class RedisWriter:
    """``columns`` are all of the table. ``value_column`` is the one that strings hold, ``ttl_ms`` how long keys live
    after they were written, ``batch_rows`` how many rows a round trip takes.
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
        from redis import ConnectionPool, Redis

        pool = ConnectionPool.from_url(self.server.url, **self.server.settings)
        with Redis(connection_pool=pool) as redis:
            for batch in rows:
                for chunk in self._changes(batch):
                    pipeline = redis.pipeline(transaction=True)  # nobody sees half a row
                    for name, row in chunk.items():
                        self._put(pipeline, name, row)
                    self._execute(pipeline, list(chunk))
        pool.disconnect()

    def _changes(self, batch: pa.RecordBatch) -> Iterator[dict[str, Row | None]]:
        """The last row of each Redis key, None where the key goes; ``batch_rows`` keys at a time."""
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
