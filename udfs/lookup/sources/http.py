"""HTTP servers as lookup sources: a request per key, or one for many keys, with answers in JSON."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlstream.errors import ConnectorError
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Key, Request, Row
from sqlstream.udfs.lookup.sources.clients import UNREADABLE, beginning, keys_text, require_texts, wrong_answer
from sqlstream.udfs.lookup.sources.http_plain import PlainConnections, Unusual, are_plain, can_read, is_plain, origin_of
from sqlstream.udfs.lookup.sources.json_paths import JsonPath
from sqlstream.udfs.lookup.sources.json_values import JsonDocument, JsonNodes, Misfit, is_object, json_object, to_json
from sqlstream.udfs.lookup.sources.scalars import Template, to_text

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from yarl import URL


UNREACHABLE = "SS574"
WRONG_STATUS = "SS575"

KEYS = "keys"
"""The place in the templates of a batch for all its keys."""

MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SENT = object()


@dataclass(frozen=True)
class HttpCall:
    """The template of an HTTP request, with its secrets inserted and placeholders for the key columns."""

    method: str
    url: Template = field(repr=False)
    body: Template | None = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns for which the request's templates have placeholders."""
        return (*self.url.names, *(self.body.names if self.body is not None else ()))


@dataclass(frozen=True)
class HttpServer:
    """How to reach an HTTP server. ``address`` is its name in messages, in which ``secrets`` are masked.

    ``headers`` contain no secrets; ``private`` headers are only sent to the host of the URL, not to hosts to which it
    redirects.
    """

    address: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    private: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: Secrets = field(default=NO_SECRETS, repr=False)
    timeout_ms: int = 10_000
    max_connections: int = 0
    max_bytes: int = 10_485_760

    def shown(self, text: str) -> str:
        """The beginning of a text, with secrets masked, for messages."""
        return beginning(self.secrets.hidden(text))


@dataclass(frozen=True)
class HttpSource:
    """A lookup table of an HTTP server. ``call`` is the request for one key, ``batch`` that for several; ``miss``: the
    status codes that mean a key without rows.
    """

    name: str
    request: Request
    server: HttpServer
    call: HttpCall
    reader: AnswerReader
    batch: HttpCall | None = None
    miss: tuple[int, ...] = (404, 204)

    async def open(self) -> HttpClient:
        return HttpClient(self, open_session(self.server), _plain(self))


def open_session(server: HttpServer) -> ClientSession:
    """A pool of connections; ``max_connections`` 0: one for each concurrent request."""
    from aiohttp import ClientSession, ClientTimeout, TCPConnector  # an optional package

    timeout = ClientTimeout(total=server.timeout_ms / 1000)
    connector = TCPConnector(limit=server.max_connections)
    return ClientSession(connector=connector, timeout=timeout, headers=server.headers)


def _plain(source: HttpSource) -> PlainConnections | None:
    """Plain connections for requests of one key; None with ``max_connections``, which limits all connections."""
    server, origin = source.server, origin_of(source.call.url)
    if origin is None or source.call.method != "GET" or source.call.body is not None:
        return None
    headers = (*server.headers, *server.private)
    if server.max_connections or not are_plain(headers) or not can_read():
        return None
    return PlainConnections(origin, headers, server.timeout_ms / 1000, server.max_bytes)


class HttpClient:
    """The client of an ``HttpSource``. ``plain`` is a faster connection pool, which is used once a response has shown
    that it can read the server's answers.
    """

    def __init__(self, source: HttpSource, session: ClientSession, plain: PlainConnections | None) -> None:
        self._source, self._session, self._plain = source, session, plain
        self._answers_plainly = False

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        """The rows of each key. Without a batch request, keys are requested concurrently; if one request fails, all
        fail.
        """
        require_texts(self._source.name, self._source.request, keys)
        if self._source.batch is not None and len(keys) > 1:
            document = await self._answer(self._source.batch, keys)
            return [[] for _ in keys] if document is None else self._source.reader.of_keys(keys, document)
        if len(keys) == 1:
            return [await self._rows(keys[0])]
        answers = await asyncio.gather(*(self._rows(key) for key in keys), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [answer for answer in answers if not isinstance(answer, BaseException)]

    async def close(self) -> None:
        if self._plain is not None:
            self._plain.close()
        await self._session.close()

    async def _rows(self, key: Key) -> list[Row]:
        document = await self._answer(self._source.call, [key])
        return [] if document is None else self._source.reader.of_key(key, document)

    async def _answer(self, call: HttpCall, keys: Sequence[Key]) -> JsonDocument | None:
        """The JSON document; None if the status means that there is none."""
        what = _Keys(self._source.request, keys)
        url, body = filled(call, self._source.request.keys, keys, many=call is self._source.batch)
        try:
            status, text = await self._sent(call, url, body, what)
        except ConnectorError:
            raise
        except Exception as error:
            raise unreachable(error, self._source.name, self._source.server, what) from error
        if status in self._source.miss:
            return None
        if not 200 <= status < 300:
            raise wrong_status(status, text, self._source.name, self._source.server, what)
        try:
            return JsonDocument(text)
        except ValueError:
            address, shown = self._source.server.address, self._source.server.shown(text) or "nothing"
            message = f'answer of {address} to table "{self._source.name}" for {what} is no JSON: {shown}'
            raise ConnectorError(UNREADABLE, message, hint="Correct the option url.") from None

    async def _sent(self, call: HttpCall, url: str, body: str | None, what: object) -> tuple[int, str]:
        plain = self._plain if call is self._source.call else None
        if plain is not None and self._answers_plainly:
            try:
                return await plain.get(url)
            except TimeoutError:  # an OSError, but it has had its time
                raise
            except OSError:
                pass
            except Unusual:
                plain.close()
                self._plain = None
        async with send(self._session, self._source.server, call.method, url, body) as (answer, redirects):
            text = await text_of(answer, self._source.name, self._source.server, what)
            self._answers_plainly = plain is not None and not redirects and is_plain(answer)
            return answer.status, text


@dataclass(frozen=True)
class _Keys:
    """The keys as messages show them, made only when needed."""

    request: Request
    keys: Sequence[Key]

    def __str__(self) -> str:
        return keys_text(self.request, self.keys)


@asynccontextmanager
async def send(
    session: ClientSession,
    server: HttpServer,
    method: str,
    url: str,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[ClientResponse, int]]:
    """A context manager that sends a request, whose body is JSON or absent. Yields the response and the number of
    redirects that led to it.

    Only GET follows redirects: a client would turn POST into GET. Another scheme, host or port gets no private headers,
    because the responder chooses the location.
    """
    from yarl import URL  # comes with aiohttp, which is optional

    first = target = URL(url, encoded=True)
    data, given = None, dict(headers or {})
    if body is not None:
        data, given = body.encode(), {"Content-Type": "application/json", **given}
    for redirects in itertools.count():
        own = server.private if _origin(target) == _origin(first) else ()
        sent = {**dict(own), **given}
        async with session.request(method, target, data=data, headers=sent, allow_redirects=False) as answer:
            location = answer.headers.get("Location")
            follows = method == "GET" and answer.status in _REDIRECTS and location is not None
            if not follows or redirects == MOST_REDIRECTS:
                yield answer, redirects
                return
            target = target.join(URL(location or "", encoded=True))


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port


async def text_of(answer: ClientResponse, table: str, server: HttpServer, what: object) -> str:
    """Reads the body of a response as text. Raises ConnectorError SS576 if it is too large or not text. ``what``: the
    key or keys of the request, for the message.
    """
    body = bytearray()
    has_length = answer.content_length is not None and "Content-Encoding" not in answer.headers
    if has_length and (answer.content_length or 0) <= server.max_bytes:
        body += await answer.read()
    async for chunk in answer.content.iter_chunked(65_536):
        body += chunk
        if len(body) > server.max_bytes:
            answer.close()
            message = (
                f'answer of {server.address} to table "{table}" for {what} is larger than {server.max_bytes} bytes'
            )
            raise ConnectorError(UNREADABLE, message, hint="Raise the option max-answer-bytes, or ask for less.")
    try:
        return body.decode(answer.charset or "utf-8")
    except (UnicodeDecodeError, LookupError):
        charset = answer.charset or "utf-8"
        message = f'answer of {server.address} to table "{table}" for {what} is no text in {charset}'
        raise ConnectorError(UNREADABLE, message, hint="Correct the option url.") from None


# --- requests -------------------------------------------------------------------------------------------------


def filled(
    call: HttpCall, kinds: Sequence[tuple[str, DataType]], keys: Sequence[Key], *, many: bool
) -> tuple[str, str | None]:
    """The percent-encoded URL and the JSON body of the request for the keys.

    ``many``: a placeholder stands for all values of its column, with commas in a URL and as an array in a body;
    ``{keys}`` stands for the values of the only key column or, in a body, for an array of objects if there are several.
    """
    if len(keys) == 1 and call.body is None and not many:
        pairs = zip(kinds, keys[0], strict=True)
        return call.url.filled({name: url_text(to_text(value, kind)) for (name, kind), value in pairs}), None
    columns = dict(zip((name for name, _ in kinds), zip(*keys, strict=True), strict=True))
    in_url = {n: ",".join(url_text(to_text(v, kind)) for v in columns[n]) for n, kind in kinds}
    in_body = {n: [to_json(v, kind) for v in columns[n]] for n, kind in kinds}
    if not many:
        texts = {name: values[0] for name, values in in_body.items()}
        return call.url.filled(in_url), None if call.body is None else call.body.filled_json(texts)
    only = next(iter(columns))
    in_url.setdefault(KEYS, in_url[only])
    objects = [json_object(dict(zip(columns, key, strict=True)), dict(kinds)) for key in keys]
    texts = {KEYS: _array(objects if len(columns) > 1 else in_body[only])}
    texts |= {name: _array(values) for name, values in in_body.items()}
    return call.url.filled(in_url), None if call.body is None else call.body.filled_json(texts)


def url_text(text: str) -> str:
    """A value as a part of a URL's path or query. The values "." and ".." are escaped, because they would name another
    folder.
    """
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def _array(texts: Sequence[str]) -> str:
    return f"[{','.join(texts)}]"


# --- failures -------------------------------------------------------------------------------------------------


def unreachable(error: Exception, table: str, server: HttpServer, what: object) -> ConnectorError:
    """The error for a request that got no response, or an incomplete one. ``what``: the key or keys, for the
    message.
    """
    if isinstance(error, asyncio.TimeoutError):
        message = f'table "{table}" got no answer from {server.address} for {what} in {server.timeout_ms} ms'
        return ConnectorError(UNREACHABLE, message, hint="See whether the server is busy, or raise the option timeout.")
    cause = server.shown(str(error)) or type(error).__name__
    message = f'table "{table}" got no answer from {server.address} for {what}: {cause}'
    return ConnectorError(UNREACHABLE, message, hint="See whether the server runs and the option url names it.")


def wrong_status(status: int, text: str, table: str, server: HttpServer, what: object) -> ConnectorError:
    """Returns the error for a response with an unexpected status. ``text``: the body of the response; ``what``: the key
    or keys of the request, for the message.
    """
    shown = server.shown(text) or json.dumps("")
    message = f'{server.address} answered table "{table}" with status {status} for {what}: {shown}'
    return ConnectorError(WRONG_STATUS, message, hint=_what_to_do(status))


def _what_to_do(status: int) -> str:
    if status in (401, 403, 407):
        return "Correct the options auth.token, auth.username and auth.password, or the headers."
    if status == 429:
        return "The server limits requests: lower CAPACITY, or let RETRY ON ERROR wait."
    if status == 408 or status >= 500:
        return "The server is in trouble: RETRY ON ERROR asks again, ON ERROR says what happens then."
    return (
        "Correct url, method, headers and body, or add the status to status.miss where it says that nothing is there."
    )


# --- rows of a JSON response ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnswerReader:
    """Reads rows from JSON responses. ``rows``: the path to the object or the array of rows. ``columns``: the path of
    each requested column within a row. ``sent``: the key columns that are part of the request."""

    table: str
    request: Request
    rows: JsonPath
    columns: tuple[tuple[str, JsonPath], ...]
    sent: tuple[str, ...]
    zone: str = "UTC"

    @cached_property
    def _paths(self) -> dict[str, JsonPath]:
        return dict(self.columns)

    @cached_property
    def _kinds(self) -> dict[str, DataType]:
        return dict((*self.request.keys, *self.request.columns))

    def of_key(self, key: Key, document: JsonDocument) -> list[Row]:
        """Returns the rows of the key in a JSON response. Rows whose key columns have other values are skipped.
        If the request contains a key column, rows may lack it.

        Raises ConnectorError SS573 for a value that does not fit its column, SS576 for a row that is not an object or
        lacks a key column.
        """
        rows = document.rows(self.rows)
        for (name, _), asked in zip(self.request.keys, key, strict=True):
            values = self._required([key], rows, name, sent=name in self.sent)
            rows = rows.select([n for n, value in enumerate(values) if value in (_SENT, asked)])
        return self._rows([key] * len(rows), rows)

    def of_keys(self, keys: Sequence[Key], document: JsonDocument) -> list[list[Row]]:
        """Returns one list of rows for each of ``keys``, from the JSON response to a batch request. The key columns in
        the response say to which key a row belongs; rows of other keys are skipped.
        """
        rows_by_key: dict[Key, list[Row]] = {key: [] for key in keys}
        rows = document.rows(self.rows)
        columns = (self._required(keys, rows, name) for name, _ in self.request.keys)
        own = [*zip(*columns, strict=True)]
        known = [n for n, key in enumerate(own) if key in rows_by_key]
        asked = [own[n] for n in known]
        for key, row in zip(asked, self._rows(asked, rows.select(known)), strict=True):
            rows_by_key[key].append(row)
        return [rows_by_key[key] for key in keys]

    @cached_property
    def _places(self) -> list[tuple[str, int | None]]:
        """The requested columns, with their positions in the key."""
        in_key = {name: index for index, (name, _) in enumerate(self.request.keys)}
        return [(name, in_key.get(name)) for name, _ in self.request.columns]

    def _rows(self, keys: Sequence[Key], rows: JsonNodes) -> list[Row]:
        """The rows, each of its key."""
        columns = [
            self._values(keys, rows, name) if index is None else [key[index] for key in keys]
            for name, index in self._places
        ]
        return [*zip(*columns, strict=True)] if columns else [()] * len(rows)

    def _required(self, keys: Sequence[Key], rows: JsonNodes, name: str, *, sent: bool = False) -> list[object]:
        """The values of a key column; _SENT where a row lacks one that the request to the server has."""
        values = self._values(keys, rows, name, optional=sent)
        if None not in values:
            return values
        if sent:
            return [_SENT if value is None else value for value in values]
        what = keys_text(self.request, keys)
        message = f'answer for {what} of table "{self.table}" does not tell the key column "{name}"'
        hint = f"Rows are found by it: let the server answer it, or say where it stands: 'columns.{name}.path'."
        raise ConnectorError(UNREADABLE, message, hint=hint)

    def _values(self, keys: Sequence[Key], rows: JsonNodes, name: str, *, optional: bool = False) -> list[Any]:
        path = self._paths[name]
        if path.steps and not optional and not all(map(is_object, rows.nodes)):
            what = keys_text(self.request, [*dict.fromkeys(keys)])
            message = f'answer for {what} of table "{self.table}" holds no object for a row'
            raise ConnectorError(UNREADABLE, message, hint="Say with the option path where the rows stand.")
        try:
            return rows.column(path, name, self._kinds[name], self.zone)
        except Misfit as misfit:
            asked = keys if len(keys) != len(rows) else [keys[misfit.node]]
            raise wrong_answer(self.table, name, keys_text(self.request, asked), str(misfit)) from None
