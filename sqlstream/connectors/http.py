"""``http``: JSON of HTTP servers, looked up with a request per key or per batch; rows sent as JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from sqlstream.connectors.connector import BatchWriter, Environment, LookupTable, Sink
from sqlstream.connectors.http_checks import STATUSES, check, require_address
from sqlstream.connectors.http_sink import HttpWriter, SendRetry
from sqlstream.connectors.json_columns import COLUMN_PATH, JSON_PATH, column_paths
from sqlstream.connectors.secrets import masked, resolved, secrets_of
from sqlstream.connectors.worker_writes import write_in_workers
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.options import DURATION, NAME, STRING, WRONG_VALUE, Option, integer, one_of
from sqlstream.planner.catalog import Table
from sqlstream.secrets import is_harmless_header
from sqlstream.udfs.lookup.source import LookupSource, Request
from sqlstream.udfs.lookup.sources.clients import no_equality, no_package
from sqlstream.udfs.lookup.sources.http import KEYS, AnswerReader, HttpCall, HttpServer, HttpSource
from sqlstream.udfs.lookup.sources.scalars import Template, parse_json_template, parse_template


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
    ((_, address),) = masked([("url", values["url"])])
    given = [(key.removeprefix("headers."), v) for key, v in values.items() if key.startswith("headers.") and v]
    public = {"Accept": "application/json"} | {n: v for n, v in given if _is_public(table, n)}
    private = {n: v for n, v in given if not _is_public(table, n)}
    own = _authorization(values)
    if own is not None:
        private["Authorization"] = own
    limits = (values["timeout"], values["max-connections"] or 0, values["max-answer-bytes"])
    address = address.partition("?")[0].partition("#")[0]
    return HttpServer(address, tuple(public.items()), tuple(private.items()), secrets_of(table), *limits)


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


class Http(LookupTable, Sink):
    """Asks and sends in the worker processes, with aiohttp."""

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
        Option("auth.token", NAME, "A bearer token, best as ${NAME}, an environment variable.", sink=True),
        Option("auth.username", NAME, "Who asks, with basic authentication.", sink=True),
        Option("auth.password", STRING, "The password, best as ${NAME}.", sink=True),
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
        """A micro-batch that runs again is sent again, with the same Idempotency-Key for the same rows."""
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
        return lambda batch, number: write_in_workers(batch, replace(writer, batch=number), server.secrets)

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        return check(table, spans)
