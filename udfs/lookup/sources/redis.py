"""Redis as a lookup source: strings, hashes and JSON documents by their keys, many in one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlstream.errors import ConnectorError
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Key, Request, Row
from sqlstream.udfs.lookup.sources.clients import SharedRoundTrips, keys_text, require_texts, wrong_answer
from sqlstream.udfs.lookup.sources.json_paths import JsonPath
from sqlstream.udfs.lookup.sources.json_values import JsonDocument, from_field
from sqlstream.udfs.lookup.sources.scalars import Template, shown, to_text

if TYPE_CHECKING:
    from redis.asyncio import Redis

MOST_TRIPS = 4
MOST_KEYS = 100
"""The maximum number of keys of a round trip, unless batches are larger."""

UNREACHABLE = "SS571"
REFUSED = "SS572"


@dataclass(frozen=True)
class RedisServer:
    """Address and credentials of a server. ``address`` is what messages show; times are in milliseconds."""

    address: str
    url: str = field(repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout_ms: int = 5_000
    max_connections: int = 32

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments for redis-py's connection pool, in addition to the URL: user name, password, timeouts in
        seconds and the maximum number of connections.
        """
        given = {"username": self.username, "password": self.password}
        seconds = self.timeout_ms / 1000
        limits = {"socket_timeout": seconds, "socket_connect_timeout": seconds, "max_connections": self.max_connections}
        return {key: value for key, value in given.items() if value is not None} | limits


@dataclass(frozen=True)
class RedisSource:
    """A lookup table of a Redis server. ``data_type``: string, hash or json. ``paths``: for JSON the path to each
    requested column.

    ``zone``: the time zone of timestamps without an offset.
    """

    name: str
    request: Request
    server: RedisServer
    key: Template
    data_type: str
    paths: tuple[tuple[str, JsonPath], ...] = ()
    zone: str = "UTC"

    async def open(self) -> RedisClient:
        from redis import asyncio, backoff, exceptions  # an optional package

        # A connection that has ended since it was used is opened again, once; other retries are the operator's.
        again = asyncio.retry.Retry(backoff.NoBackoff(), 1, supported_errors=(exceptions.ConnectionError,))
        pool = asyncio.BlockingConnectionPool.from_url(
            self.server.url, timeout=self.server.timeout_ms / 1000, retry=again, **self.server.settings
        )
        return RedisClient(self, asyncio.Redis.from_pool(pool))


class RedisClient:
    """The client of a ``RedisSource``. Result columns that are part of the Redis key get the values that were looked
    up; all others are read from the stored value.
    """

    def __init__(self, source: RedisSource, redis: Redis) -> None:
        self._source, self._redis = source, redis
        # Redis answers one command after the other: more round trips at once only cost more. Errors of single commands
        # come as answers, so what fails fails for all.
        trips = min(source.server.max_connections, MOST_TRIPS)
        self._together: SharedRoundTrips[list[Any]] = SharedRoundTrips(
            self._answers, trips, MOST_KEYS, of_all=lambda _: True
        )
        self._kinds, self._paths = dict(source.request.keys), dict(source.paths)
        in_key = source.key.names
        # Key columns that are not part of the Redis key are compared with the stored values.
        self._compared = tuple((i, name) for i, (name, _) in enumerate(source.request.keys) if name not in in_key)
        wanted = dict(source.request.columns) | {name: self._kinds[name] for _, name in self._compared}
        self._stored = {name: kind for name, kind in wanted.items() if name not in in_key}

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        require_texts(self._source.name, self._source.request, keys)
        try:
            answers = await self._together.ask(keys)
        except Exception as error:
            raise self._failure(error, keys) from error
        return [self._rows(key, answers_of_key) for key, answers_of_key in zip(keys, answers, strict=True)]

    async def close(self) -> None:
        await self._together.close()
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _answers(self, keys: Sequence[Key]) -> list[list[Any]]:
        """The same number of answers for each key. MGET is no use: it answers nothing for a key of another type."""
        fields = tuple(self._stored)
        async with self._redis.pipeline(transaction=False) as pipeline:
            for key in keys:
                name = self._source.key.filled(key_texts(self._source.request.keys, key))
                if self._source.data_type != "hash":
                    pipeline.get(name)
                    continue
                if fields:
                    pipeline.hmget(name, fields)
                pipeline.hlen(name)
            answers = await pipeline.execute(raise_on_error=False)
        size = len(answers) // len(keys)
        return [answers[begin : begin + size] for begin in range(0, len(answers), size)]

    def _failure(self, error: Exception, keys: Sequence[Key]) -> ConnectorError:
        return failure(error, self._source.name, self._source.server, keys_text(self._source.request, keys))

    # --- rows ---

    def _rows(self, key: Key, answers: Sequence[Any]) -> list[Row]:
        for answer in answers:
            if isinstance(answer, Exception):
                raise self._failure(answer, [key])
        if answers[-1] in (None, 0):  # no string, no field in the hash
            return []
        values = dict(zip(self._kinds, key, strict=True)) | self._values(key, answers[0])
        if any(values[name] != key[index] for index, name in self._compared):
            return []
        return [tuple(values[name] for name, _ in self._source.request.columns)]

    def _values(self, key: Key, answer: Any) -> dict[str, object]:
        """The columns that are stored."""
        values: dict[str, object] = {}
        zone = self._source.zone
        if self._source.data_type == "json":
            root = self._document(key, answer).root()
            for name, kind in self._stored.items():
                with self._naming(key, name):
                    (values[name],) = root.column(self._paths[name], name, kind, zone)
            return values
        parts = answer if isinstance(answer, list) else [answer] * len(self._stored)
        for part, (name, kind) in zip(parts, self._stored.items(), strict=True):
            with self._naming(key, name):
                values[name] = from_bytes(part, name, kind, zone)
        return values

    @contextmanager
    def _naming(self, key: Key, column: str) -> Iterator[None]:
        """A context in which a ValueError is that of a column."""
        try:
            yield
        except ValueError as error:
            keys = keys_text(self._source.request, [key])
            raise wrong_answer(self._source.name, column, keys, str(error)) from None

    def _document(self, key: Key, answer: bytes) -> JsonDocument:
        try:
            return JsonDocument(answer.decode())
        except ValueError as error:
            keys = keys_text(self._source.request, [key])
            message = f'table "{self._source.name}" cannot read {shown(answer.decode(errors="replace"))} for {keys}'
            raise ConnectorError(REFUSED, message, hint=f"It is no JSON: {error}.") from None


def key_texts(keys: Sequence[tuple[str, DataType]], key: Sequence[object]) -> dict[str, str]:
    """A dictionary from the name of each key column to its value as text, for the name of a Redis key."""
    return {name: to_text(value, kind) for (name, kind), value in zip(keys, key, strict=True)}


def from_bytes(value: bytes | None, name: str, kind: DataType, zone: str) -> object:
    """The value of a string or a field of Redis, None where there is none; BINARY is unchanged. ValueError where it
    does not fit.
    """
    if value is None or kind.name == "BINARY":
        return value
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise ValueError("it is no UTF-8") from None
    return from_field(text, name, kind, zone)


# --- failures -------------------------------------------------------------------------------------------------


def failure(error: Exception, table: str, server: RedisServer, what: str) -> ConnectorError:
    """The error to raise for an error of redis-py: it names the table, the server and the key (``what``), and has a
    hint.
    """
    from redis import exceptions  # an optional package

    if isinstance(error, exceptions.TimeoutError | asyncio.TimeoutError):
        message = f'table "{table}" got no answer from Redis at {server.address} for {what} in {server.timeout_ms} ms'
        return ConnectorError(UNREACHABLE, message, hint="See whether the server is busy, or raise the option timeout.")
    refusal = _refusal(error, exceptions)
    if refusal is not None:
        message = f'Redis at {server.address} refuses what table "{table}" asks for {what}: {error}'
        return ConnectorError(REFUSED, message, hint=refusal)
    message = f'table "{table}" cannot reach Redis at {server.address} for {what}: {str(error) or type(error).__name__}'
    return ConnectorError(UNREACHABLE, message, hint="See whether the server runs and the option url names it.")


def _refusal(error: Exception, exceptions: Any) -> str | None:
    """Advice for an error that the server has answered; None if it has not answered. ``exceptions``: those of redis."""
    match error:
        case exceptions.AuthenticationError() | exceptions.AuthorizationError() | exceptions.NoPermissionError():
            return "Correct the options username and password, or what this user may do (ACL)."
        case exceptions.BusyLoadingError():
            return "The server is reading its data; RETRY ON ERROR waits for it."
        case exceptions.ReadOnlyError():
            return "Write to the primary: the option url names a replica."
        case exceptions.OutOfMemoryError():
            return "Raise maxmemory of the server, or write with a ttl."
        case exceptions.MovedError() | exceptions.AskError():
            return "Clusters of Redis are not supported: name a single server."
        case exceptions.ResponseError() if "WRONGTYPE" in str(error):
            return "The key holds another type: change the option data-type, or the option key."
        case exceptions.ResponseError() if "NOAUTH" in str(error) or "WRONGPASS" in str(error):
            return "Correct the options username and password."
        case exceptions.ResponseError():
            return "See what the server says."
    return None
