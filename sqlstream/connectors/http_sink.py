"""Rows to an HTTP server, from the workers: at least once, with a key by which the server can drop repeats."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlstream.errors import ConnectorError
from sqlstream.types import DataType
from sqlstream.udfs.lookup.sources.http import HttpServer, open_session, send, text_of, url_text
from sqlstream.udfs.lookup.sources.json_values import json_object
from sqlstream.udfs.lookup.sources.scalars import Template, to_text
from sqlstream.udfs.texts import python_list

if TYPE_CHECKING:
    import pyarrow as pa
    from aiohttp import ClientSession

NOT_SENT = "SS579"
IDEMPOTENCY_KEY = "Idempotency-Key"


@dataclass(frozen=True)
class SendRetry:
    """``times`` attempts after the first, where there was no answer or one of these statuses. ``exponential``: each
    delay is twice the one before, up to ``limit_ms``.
    """

    times: int
    delay_ms: int
    limit_ms: int
    exponential: bool
    statuses: tuple[int, ...]

    def delay(self, attempt: int) -> float:
        """Seconds before the attempt with this number, from 1 on for the first retry."""
        if not self.exponential:
            return self.delay_ms / 1000
        return min(self.delay_ms << min(attempt - 1, 60), self.limit_ms) / 1000


@dataclass(frozen=True)
class Message:
    """One request. ``key`` is the same when its micro-batch runs again with the same rows."""

    what: str
    url: str = field(repr=False)
    body: str
    key: str


@dataclass(frozen=True)
class HttpWriter:
    """``body``: object (a request per row), array or lines (one per ``batch_rows``). ``batch`` is the number of the
    micro-batch. ``at_once`` requests are under way per task; more than one lose the order of rows.
    """

    table: str
    columns: tuple[tuple[str, DataType], ...]
    server: HttpServer
    method: str
    url: Template = field(repr=False)
    body: str
    batch_rows: int
    at_once: int
    retry: SendRetry
    job: str
    batch: int = 0

    def write(self, partition: int, rows: Iterable[pa.RecordBatch]) -> None:
        asyncio.run(self._send_all(self._messages(partition, rows)))

    async def _send_all(self, messages: Iterator[Message]) -> None:
        """ConnectorError SS579 where a request fails for good; no further one is begun then."""
        async with open_session(self.server) as session:

            async def send_some() -> None:
                for message in messages:  # all take from one iterator, so it is never read far ahead
                    await self._send(session, message)

            tasks = [asyncio.ensure_future(send_some()) for _ in range(self.at_once)]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, session: ClientSession, message: Message) -> None:
        headers = {IDEMPOTENCY_KEY: message.key}
        for attempt in range(self.retry.times + 1):
            if attempt:
                await asyncio.sleep(self.retry.delay(attempt))
            try:
                async with send(session, self.server, self.method, message.url, message.body, headers) as (answer, _):
                    if 200 <= answer.status < 300:
                        return
                    text = await text_of(answer, self.table, self.server, message.what)
                    cause = f"status {answer.status}: {self.server.shown(text)}"
                    again = answer.status in self.retry.statuses
            except ConnectorError:
                raise
            except TimeoutError:
                cause, again = f"no answer in {self.server.timeout_ms} ms", True
            except Exception as error:
                cause, again = self.server.shown(str(error)) or type(error).__name__, True
            if not again:
                break
        raise self._failure(message, attempt + 1, cause)

    def _failure(self, message: Message, attempts: int, cause: str) -> ConnectorError:
        tried = f"{attempts} attempts" if attempts > 1 else "one attempt"
        text = f'table "{self.table}" could not send {message.what} to {self.server.address} in {tried}: {cause}'
        hint = "Nothing is lost: started again, the job sends its micro-batch again, with the same Idempotency-Key."
        return ConnectorError(NOT_SENT, text, hint=hint)

    # --- messages ---

    def _messages(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        kinds = dict(self.columns)
        size = 1 if self.body == "object" else self.batch_rows
        number = 0
        for batch in batches:
            for start in range(0, batch.num_rows, size):
                rows = python_list(batch.slice(start, size), f'a value of table "{self.table}"')
                objects = [json_object(row, kinds) for row in rows]
                body = f"[{','.join(objects)}]" if self.body == "array" else "\n".join(objects)
                key = self._key(partition, number, body)
                what = f"{len(rows)} row{'s' * (len(rows) > 1)} of micro-batch {self.batch} ({IDEMPOTENCY_KEY} {key})"
                yield Message(what, self._url(rows[0]), body, key)
                number += 1

    def _key(self, partition: int, number: int, body: str) -> str:
        """The digest keeps a request with other rows, should they come in another order, from passing for a repeat."""
        digest = hashlib.sha256(body.encode()).hexdigest()[:16]
        return f"{quote(self.job, safe='')}-{self.batch}-{partition}-{number}-{digest}"

    def _url(self, row: dict[str, object]) -> str:
        texts = {}
        for name in self.url.names:
            if row[name] is None:
                message = f'column "{name}" of table "{self.table}" is NULL, and its url is made of it'
                raise ConnectorError(NOT_SENT, message, hint=f'Leave such rows out: WHERE "{name}" IS NOT NULL.')
            texts[name] = url_text(to_text(row[name], dict(self.columns)[name]))
        return self.url.filled(texts)
