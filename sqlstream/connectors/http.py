"""``http``: JSON of HTTP servers, looked up with a request per key or per batch; rows sent as JSON."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import BatchWriter, LookupTable, Sink
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.json_documents import COLUMN_PATH, JSON_PATH, check_columns, check_names, column_paths
from sqlstream.connectors.secrets import masked, resolved, secrets_of
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import DURATION, NAME, STRING, WRONG_VALUE, Option, OptionKind, integer, one_of
from sqlstream.planner.catalog import Table
from sqlstream.secrets import is_clear, is_harmless_header
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import LookupSource, Request
from sqlstream.udfs.lookup.sources.clients import no_equality, no_package
from sqlstream.udfs.lookup.sources.http import (
    KEYS,
    AnswerReader,
    HttpCall,
    HttpServer,
    HttpSource,
    open_session,
    send,
    text_of,
    url_text,
)
from sqlstream.udfs.lookup.sources.json_values import json_object
from sqlstream.udfs.lookup.sources.scalars import SCALARS, Template, parse_json_template, parse_template, to_text
from sqlstream.udfs.texts import python_list

if TYPE_CHECKING:
    import pyarrow as pa
    from aiohttp import ClientSession

# --- checks --------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"https?://[^/?#\s]+([/?].*)?", re.IGNORECASE)
_PRINTABLE = re.compile(r"[!-~]*")
_REFERENCE = re.compile(r"\$\{\w+\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_URL_HINT = "Write it as 'https://host/planes/{tailnum}', percent-encoded; columns stand behind the host."


def _statuses(text: str) -> tuple[int, ...]:
    statuses = tuple(int(word) for word in text.split(",") if word.strip())
    if not all(100 <= status <= 599 for status in statuses):
        raise ValueError(text)
    return statuses


STATUSES = OptionKind("list", "HTTP statuses with commas, such as '404,204', or none", _statuses)


def require_address(template: Template, key: str) -> None:
    """Raises ConnectorError SS504 where the template, with secrets filled in, is not a URL. ``key``: the option that
    it was given in.
    """
    if not is_address(template) or not is_clear("".join(p if isinstance(p, str) else "{x}" for p in template.parts)):
        raise ConnectorError(WRONG_VALUE, f'option "{key}" is no URL', hint=_URL_HINT)


def is_address(template: Template) -> bool:
    """True where the template is a URL with a fixed host, so that values of rows cannot choose the server."""
    fixed = "".join(text for text in template.parts if isinstance(text, str))
    alone = len(template.parts) <= 1
    match = _ADDRESS.fullmatch(template.start)
    return match is not None and (alone or match[1] is not None) and _PRINTABLE.fullmatch(fixed) is not None


def _check_urls(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    for key in ("url", "batch.url"):
        text = table.option(key)
        if text is None:
            continue
        template = parse_template(text)
        if not is_address(parse_template(without_references(text))):
            message = f'option "{key}" of table "{table.name}" is no URL'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=_URL_HINT)
        yield from check_names(table, key, _columns(template, key), spans, SCALARS)


def without_references(text: str) -> str:
    """The URL with a placeholder for each variable, whose value is checked when a job starts."""
    head = _REFERENCE.match(text)
    if head is None:
        return _REFERENCE.sub("x", text)
    rest = _REFERENCE.sub("x", text[head.end() :])
    return f"http://x{rest}" if rest[:1] in ("", "/", "?", ":") else f"http://x/{rest}"


def _columns(template: Template, key: str) -> list[str]:
    return [name for name in template.names if not (key.startswith("batch.") and name == KEYS)]


def _check_bodies(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    if table.option("body") is not None and (table.option("method") or "GET").strip().upper() == "GET":
        message = f'option "body" of table "{table.name}" is not sent with the method GET'
        yield Diagnostic(WRONG_VALUE, message, spans.get("body"), hint="Add 'method' = 'POST', or remove the body.")
    for key in ("body", "batch.body"):
        text = table.option(key)
        if text is None:
            continue
        template = parse_json_template(text)
        try:
            json.loads(template.filled_json(dict.fromkeys(template.names, "0")))
        except ValueError:
            message = f'option "{key}" of table "{table.name}" is no JSON'
            hint = """Write it as '{"tailnum": {tailnum}}'; values come with their quotes."""
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=hint)
        yield from check_names(table, key, _columns(template, key), spans, SCALARS)
    single, batch = table.option("batch.url"), table.option("batch.body")
    if single is not None and batch is None and not parse_template(single).names:
        message = f'option "batch.url" of table "{table.name}" has no place for the keys'
        yield Diagnostic(WRONG_VALUE, message, spans.get("batch.url"), hint="Write {keys}, or add batch.body.")


def check_headers(table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    """Yields diagnostics SS504 for ``headers.#`` and ``auth.…`` that no request can have."""
    given = dict(table.options)
    for key, value in given.items():
        name = key.removeprefix("headers.")
        if name != key and (not _HEADER.fullmatch(name) or not value.isprintable()):
            message = f'option "{key}" of table "{table.name}" is no header'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Write 'headers.X-Client' = 'sqlstream'.")
    user = {key for key in ("auth.username", "auth.password") if key in given}
    if len(user) == 1:
        message = 'options "auth.username" and "auth.password" need each other'
        yield Diagnostic(WRONG_VALUE, message, spans.get(min(user)), hint="Add the other, or take auth.token.")
    elif user and "auth.token" in given:
        message = 'options "auth.token" and "auth.username" exclude each other'
        yield Diagnostic(WRONG_VALUE, message, spans.get("auth.token"), hint="Remove one of them.")


# --- rows to a server, at least once --------------------------------------------------------------------------

NOT_SENT = "SS579"
IDEMPOTENCY_KEY = "Idempotency-Key"


@dataclass(frozen=True)
class SendRetry:
    """When a failed request is sent again: at most ``times`` times, if there was no response or its status is in
    ``statuses``.

    The delay before a retry is ``delay_ms``. With ``exponential`` it doubles with each further retry, up to
    ``limit_ms``.
    """

    times: int
    delay_ms: int
    limit_ms: int
    exponential: bool
    statuses: tuple[int, ...]

    def delay(self, attempt: int) -> float:
        """How many seconds to wait before retry number ``attempt``, counted from 1."""
        if not self.exponential:
            return self.delay_ms / 1000
        return min(self.delay_ms << min(attempt - 1, 60), self.limit_ms) / 1000


@dataclass(frozen=True)
class Message:
    """One HTTP request. ``what``: its description for errors. ``key``: the Idempotency-Key, the same when a
    micro-batch is repeated, so that servers can ignore duplicates.
    """

    what: str
    url: str = field(repr=False)
    body: str
    key: str


@dataclass(frozen=True)
class HttpWriter:
    """Sends the rows of a sink as HTTP requests, from Spark's tasks.

    * ``body``: ``object`` (one request per row), ``array`` or ``lines`` (one request per ``batch_rows`` rows).
    * ``batch``: the number of the micro-batch.
    * ``at_once``: how many requests a task sends concurrently; with more than one, the order of rows is not kept.
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
        """Sends the rows of the partition with the number ``partition`` as HTTP requests."""
        asyncio.run(self._send_all(self._messages(partition, rows)))

    async def _send_all(self, messages: Iterator[Message]) -> None:
        """ConnectorError SS579 after the last retry of a request; no other request starts then."""
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
        """The digest of the body tells requests with other rows from repeats, if rows arrive in another order."""
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


# --- options --------------------------------------------------------------------------------------------------


def _values(table: Table) -> dict[str, Any]:
    """The options with their secrets, those in templates aside. SS577 where aiohttp is not installed."""
    if find_spec("aiohttp") is None:
        raise no_package("http", "aiohttp")
    values = Http().values(table)
    templates = {key: values[key] for key in ("url", "body", "batch.url", "batch.body")}
    return resolved({key: value for key, value in values.items() if key not in templates}) | templates


def _url(values: Mapping[str, Any], key: str) -> Template:
    template = parse_template(values[key]).resolved(lambda text: str(resolved({key: text})[key]))
    require_address(template, key)
    return template


def _body(values: Mapping[str, Any], key: str) -> Template | None:
    if values[key] is None:
        return None
    return parse_json_template(values[key]).resolved(lambda text: str(resolved({key: text})[key]))


def _server(table: Table, values: Mapping[str, Any]) -> HttpServer:
    public, private = headers_of(table, values)
    limits = (values["timeout"], values["max-connections"] or 0, values["max-answer-bytes"])
    public = {"Accept": "application/json"} | public
    address = address_of(values["url"])
    return HttpServer(address, tuple(public.items()), tuple(private.items()), secrets_of(table), *limits)


def address_of(url: str) -> str:
    """What a URL is called in messages: without its secrets, and without its query."""
    ((_, address),) = masked([("url", url)])
    return address.partition("?")[0].partition("#")[0]


def headers_of(table: Table, values: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the headers that the options ``headers.#`` and ``auth.…`` say: those that any server may see, and those
    for the server alone. ``values``: the resolved options.
    """
    given = [(key.removeprefix("headers."), v) for key, v in values.items() if key.startswith("headers.") and v]
    private = {n: v for n, v in given if not _is_public(table, n)}
    own = _authorization(values)
    if own is not None:
        private["Authorization"] = own
    return {n: v for n, v in given if _is_public(table, n)}, private


def _is_public(table: Table, header: str) -> bool:
    """True where any server may see the header."""
    return is_harmless_header(header) and "${" not in (table.option(f"headers.{header}") or "")


def _authorization(values: Mapping[str, Any]) -> str | None:
    if values["auth.token"] is not None:
        return f"Bearer {values['auth.token']}"
    if values["auth.username"] is None:
        return None
    pair = f"{values['auth.username']}:{values['auth.password']}".encode()
    return f"Basic {base64.b64encode(pair).decode('ascii')}"


def _batch(values: Mapping[str, Any], request: Request) -> HttpCall | None:
    """The request for several keys; None where there is none."""
    body = _body(values, "batch.body")
    if body is None and values["batch.url"] is None:
        return None
    url = _url(values, "batch.url" if values["batch.url"] is not None else "url")
    if KEYS in url.names and len(request.keys) > 1:
        message = 'option "batch.url" has {keys} for one key column, and the lookup has several'
        raise ConnectorError(WRONG_VALUE, message, hint="Write a place for each column, or take batch.body.")
    return HttpCall("GET" if body is None else "POST", url, body)


AUTH_OPTIONS = (
    Option("auth.token", NAME, "A bearer token, best as ${NAME}, an environment variable.", sink=True),
    Option("auth.username", NAME, "Who asks, with basic authentication.", sink=True),
    Option("auth.password", STRING, "The password, best as ${NAME}.", sink=True),
)


class Http(LookupTable, Sink):
    """Lookups and inserts by HTTP requests, which worker processes send with aiohttp."""

    name = "http"
    doc = "JSON of an HTTP server: looked up in joins, and rows sent to it."
    options = (
        Option(
            "url", NAME, "The address, with columns in braces: https://host/planes/{tailnum}.", None, True, sink=True
        ),
        Option("method", one_of("GET", "POST"), "How a lookup asks.", "GET"),
        Option("headers.#", STRING, "Header # of all requests.", sink=True),
        Option("body", NAME, 'JSON that a POST sends, with columns in braces: {"tailnum": {tailnum}}.'),
        Option("format", one_of("json"), "How answers and rows are written.", "json", sink=True),
        Option("path", JSON_PATH, "Where the row, or the array of rows, stands in an answer.", "$"),
        COLUMN_PATH,
        Option(
            "status.miss", STATUSES, "Statuses that say that there is no row; others than 2xx are errors.", "404,204"
        ),
        Option("batch.url", NAME, "The address for several keys: https://host/planes?id={keys}; url."),
        Option("batch.body", NAME, 'JSON that asks, by POST, for several keys: {"ids": {keys}}.'),
        *AUTH_OPTIONS,
        Option("timeout", DURATION, "How long an answer may take.", "10 s", sink=True),
        Option("max-connections", integer(1, 10_000), "Connections of a worker process; as many as CAPACITY asks for."),
        Option("max-answer-bytes", integer(1), "Larger answers are errors.", "10485760", sink=True),
        Option("sink.method", one_of("POST", "PUT", "PATCH"), "How rows are sent.", "POST", source=False, sink=True),
        Option(
            "sink.body",
            one_of("object", "array", "lines"),
            "A request per row, or for many rows an array or an object a line.",
            "object",
            source=False,
            sink=True,
        ),
        Option("sink.batch-rows", integer(1, 100_000), "Rows of an array, or lines.", "500", source=False, sink=True),
        Option(
            "sink.requests",
            integer(1, 1_000),
            "Requests at the same time per task; more than one lose the order of rows.",
            "1",
            source=False,
            sink=True,
        ),
        Option("sink.retries", integer(0, 1_000), "Attempts after the first.", "3", source=False, sink=True),
        Option(
            "sink.retry.strategy",
            one_of("exponential", "fixed"),
            "Delays double, or stay.",
            "exponential",
            source=False,
            sink=True,
        ),
        Option("sink.retry.delay", DURATION, "Before the first retry.", "1 s", source=False, sink=True),
        Option("sink.retry.max-delay", DURATION, "The longest delay.", "1 min", source=False, sink=True),
        Option(
            "sink.retry.status",
            STATUSES,
            "Statuses to try again; so is no answer.",
            "408,425,429,500,502,503,504",
            source=False,
            sink=True,
        ),
    )
    variables = ("auth.password", "auth.token", "auth.username", "batch.body", "batch.url", "body", "headers.#", "url")

    def lookup(self, environment: Environment, table: Table, request: Request) -> LookupSource:
        values = _values(table)
        call = HttpCall(values["method"], _url(values, "url"), _body(values, "body"))
        batch = _batch(values, request)
        asked = {name for name, _ in request.keys}
        for name in (*call.names, *(batch.names if batch is not None else ())):
            if name not in asked and not (name == KEYS and batch is not None):
                raise no_equality(table.name, name, "request")
        zone = environment.spark.conf.get("spark.sql.session.timeZone") or "UTC"
        reader = AnswerReader(table.name, request, values["path"], column_paths(table), call.names, zone)
        return HttpSource(table.name, request, _server(table, values), call, reader, batch, values["status.miss"])

    def write_batches(self, environment: Environment, table: Table) -> BatchWriter:
        """Returns the function that sends a micro-batch. A repeated micro-batch is sent again, with the same
        Idempotency-Key for the same rows.
        """
        values = _values(table)
        url = _url(values, "url")
        if url.names and values["sink.body"] != "object":
            message = f'table "{table.name}" sends many rows at once, and its url holds columns of one'
            raise ConnectorError(WRONG_VALUE, message, hint="Remove them, or take 'sink.body' = 'object'.")
        retry = SendRetry(
            values["sink.retries"],
            values["sink.retry.delay"],
            values["sink.retry.max-delay"],
            values["sink.retry.strategy"] == "exponential",
            values["sink.retry.status"],
        )
        columns = tuple((c.name, c.type) for c in table.physical_columns)
        sending = (values["sink.method"], url, values["sink.body"], values["sink.batch-rows"], values["sink.requests"])
        server = _server(table, values)
        writer = HttpWriter(table.name, columns, server, *sending, retry, environment.job)
        return lambda batch, number: on_spark.rows.write_in_workers(
            batch, replace(writer, batch=number), server.secrets
        )

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from check_columns(table, spans)
        yield from _check_urls(table, spans)
        yield from _check_bodies(table, spans)
        yield from check_headers(table, spans)
