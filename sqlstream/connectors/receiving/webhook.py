"""``webhook``: requests that others send, each answered when its body is on disk."""

from __future__ import annotations

import asyncio
import errno
import hmac
import json
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from sqlstream.connectors.receiving.receiver import Inbox, Receiver
from sqlstream.connectors.receiving.source import MessageSource, Metadata
from sqlstream.connectors.receiving.spool import IN_USE, Message
from sqlstream.connectors.receiving.sse import require_aiohttp
from sqlstream.connectors.secrets import secrets_of
from sqlstream.errors import ConnectorError, Diagnostic, Span
from sqlstream.local_server import is_loopback, name_of
from sqlstream.options import BOOLEAN, DURATION, MISSING_OPTION, NAME, PATH, SIZE, WRONG_VALUE, Option, integer, one_of
from sqlstream.planner.catalog import Table
from sqlstream.secrets import NO_SECRETS, Secrets
from sqlstream.udfs.texts import reason_of

if TYPE_CHECKING:
    from aiohttp.web import Request, Response

READ_TWICE = "SS669"

_METHODS = ("POST", "PUT")
_PORT_SECONDS = 30.0
_RETRY_SECONDS = "5"
_ONLY_SHOWN = "the message is shown by a query that keeps nothing: send it again when a job reads the table"


class NotSplit(Exception):
    """A body is not what the option ``split`` says."""


def split_lines(body: bytes) -> list[bytes]:
    """The lines of a body, without blank ones."""
    lines = (line.removesuffix(b"\r") for line in body.split(b"\n"))
    return [line for line in lines if line.strip()]


def split_array(body: bytes) -> list[bytes]:
    """The elements of an array of JSON, as they are spelled in it. NotSplit where it is none."""
    try:
        text = body.decode()
        at = _behind(text, 0)
        if text[at : at + 1] != "[":
            raise ValueError(text)
        at, found = _behind(text, at + 1), []
        while text[at : at + 1] != "]":
            _, end = _DECODER.raw_decode(text, at)
            found.append(text[at:end].encode())
            at = _behind(text, end)
            if text[at : at + 1] == ",":
                at = _behind(text, at + 1)
                if text[at : at + 1] == "]":
                    raise ValueError(text)
            elif text[at : at + 1] != "]":
                raise ValueError(text)
        if _behind(text, at + 1) != len(text):
            raise ValueError(text)
    except (ValueError, RecursionError):
        raise NotSplit from None
    return found


_DECODER = json.JSONDecoder(parse_float=str, parse_int=str)


def _behind(text: str, at: int) -> int:
    """The place behind white space."""
    while text[at : at + 1] in (" ", "\t", "\r", "\n"):
        at += 1
    return at


_SPLITS: Mapping[str, Callable[[bytes], list[bytes]]] = {
    "none": lambda body: [body],
    "lines": split_lines,
    "array": split_array,
}


@dataclass(frozen=True)
class Door:
    """Who may send: those who have the ``token`` in the header ``header``, and whose bodies are signed with ``key``
    (HMAC, SHA-256) in the header ``signature``. With neither everybody of this machine may, but no page of a browser.
    """

    token: str | None = field(default=None, repr=False)
    header: str = "Authorization"
    key: str | None = field(default=None, repr=False)
    signature: str = "X-Hub-Signature-256"

    def lets_in(self, headers: Mapping[str, str]) -> bool:
        """Whether a request may be read."""
        if self.token is not None:
            given = headers.get(self.header, "")
            expected = f"Bearer {self.token}" if self.header.casefold() == "authorization" else self.token
            return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
        return self.key is not None or (is_loopback(name_of(headers.get("Host", ""))) and "Origin" not in headers)

    def is_signed(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether the body is of who has the key."""
        if self.key is None:
            return True
        digest = hmac.new(self.key.encode(), body, "sha256").hexdigest()
        given = headers.get(self.signature, "").strip().removeprefix("sha256=")
        return hmac.compare_digest(given.encode("utf-8", "replace"), digest.encode())


@dataclass(frozen=True)
class WebhookReceiver(Receiver):
    """Listens for requests. ``certificate``: the files of a certificate and of its key, for TLS. ``id_header``: the
    header by which a request that is sent again is known, and stored ``once``.
    """

    name: str
    host: str
    port: int
    path: str = "/"
    door: Door = Door()
    split: str = "none"
    id_header: str = "Idempotency-Key"
    once: bool = True
    most_bytes: int = 1 << 20
    body_ms: int = 30_000
    certificate: tuple[str, str] | None = None
    secrets: Secrets = field(default=NO_SECRETS, repr=False)

    async def run(self, inbox: Inbox) -> None:
        """Listens until it is cancelled; requests that are being answered are answered first."""
        from aiohttp import web  # an optional package

        app = web.Application(client_max_size=self.most_bytes)
        app.router.add_route("*", "/{path:.*}", self._answering(inbox))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=5.0, handle_signals=False)
        await runner.setup()
        try:
            await self._listen(runner)
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: Any) -> None:
        """ConnectorError SS663 where the port cannot be listened on; one of a process that ends is waited for."""
        from aiohttp import web  # an optional package

        context = self._tls()
        end = asyncio.get_running_loop().time() + _PORT_SECONDS
        while True:
            try:
                await web.TCPSite(runner, self.host, self.port, ssl_context=context).start()
                return
            except OSError as error:
                if asyncio.get_running_loop().time() > end or not _is_in_use(error):
                    where = f'port {self.port} of "{self.host}"'
                    message = f'table "{self.name}" cannot listen on {where}: {reason_of(error)}'
                    raise ConnectorError(IN_USE, message, hint="Give it another host or port.") from None
                await asyncio.sleep(0.25)

    def _tls(self) -> ssl.SSLContext | None:
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(*self.certificate)
        except (OSError, ssl.SSLError) as error:
            message = f'the certificate of table "{self.name}" cannot be read: {reason_of(error)}'
            hint = "Correct the options ssl.certificate and ssl.key, files in PEM."
            raise ConnectorError(WRONG_VALUE, message, hint=hint) from None
        return context

    # --- requests -------------------------------------------------------------------------------------------------

    def _answering(self, inbox: Inbox) -> Callable[[Request], Awaitable[Response]]:
        from aiohttp import web  # an optional package

        async def answer(request: Request) -> Response:
            try:
                async with asyncio.timeout(self.body_ms / 1000):
                    status, text = await self._read(request, inbox)
            except TimeoutError:
                status, text = 408, "the body did not come in time"
            except web.HTTPRequestEntityTooLarge:
                status, text = 413, f"a body has at most {self.most_bytes} bytes"
            except OSError:
                status, text = 503, "the message cannot be stored"
            headers = {"Cache-Control": "no-store"}
            if status == 401:
                headers["WWW-Authenticate"] = "Bearer"
            elif status == 405:
                headers["Allow"] = ", ".join(_METHODS)
            elif status == 503:
                headers["Retry-After"] = _RETRY_SECONDS
            response = web.Response(status=status, text=f"{text}\n", headers=headers)
            if status in (401, 403, 408, 413):  # of what is left of the body nothing is read
                response.force_close()
            return response

        return answer

    async def _read(self, request: Request, inbox: Inbox) -> tuple[int, str]:
        if not self.door.lets_in(request.headers):
            return (403, "messages are taken of this machine alone") if self.door == Door() else (401, "who are you?")
        if request.path != self.path:
            return 404, "nothing is there"
        if request.method not in _METHODS:
            return 405, "messages are sent by POST"
        if (request.content_length or 0) > self.most_bytes:
            return 413, f"a body has at most {self.most_bytes} bytes"
        if inbox.is_full:
            return 503, "too many messages wait to be read"
        body = await request.read()
        if not self.door.is_signed(request.headers, body):
            return 401, "the signature is not that of the body"
        try:
            values = _SPLITS[self.split](body)
        except NotSplit:
            return 400, "the body is no array of JSON"
        sent = request.headers.get(self.id_header)
        headers = {name.casefold(): value for name, value in request.headers.items() if self._is_kept(name)}
        messages = [Message(value, sent, request.path_qs, headers) for value in values]
        if sent is not None and self.once:
            await inbox.store_once(sent, messages)
        else:
            await inbox.store(messages)
        if not inbox.lasting:  # the query shows the message, and whoever sent it keeps it
            return 503, _ONLY_SHOWN
        return 200, "stored"

    def _is_kept(self, header: str) -> bool:
        """Whether a header may be on disk: no secret is."""
        hidden = {"authorization", "cookie", "proxy-authorization", self.door.header.casefold()}
        return header.casefold() not in hidden


def _is_in_use(error: OSError) -> bool:
    return error.errno == errno.EADDRINUSE


class Webhook(MessageSource):
    """Tables of requests, which the driver listens for with aiohttp. Raises ConnectorError SS577 without it."""

    name = "webhook"
    doc = "Requests of HTTP that others send to the job, answered with 200 when they are on disk."
    own_options = (
        Option("port", integer(1, 65535), "Where it listens.", required=True),
        Option("host", NAME, "The address that it listens on: by default others cannot reach it.", "127.0.0.1"),
        Option("path", NAME, "The path of requests that are taken.", "/"),
        Option("auth.token", NAME, "What requests must have as their bearer token, best as ${NAME}."),
        Option("auth.header", NAME, "The header with the token, which stands in another than Authorization alone.",
               "Authorization"),
        Option("hmac.secret", NAME, "What bodies are signed with (HMAC, SHA-256, hexadecimal), best as ${NAME}."),
        Option("hmac.header", NAME, "The header with the signature.", "X-Hub-Signature-256"),
        Option("open", BOOLEAN, "Messages are taken without token and signature, of this machine alone.", "false"),
        Option("split", one_of(*_SPLITS), "What a body holds: one message, one in each line, or an array of JSON of "
               "them.", "none"),
        Option("id.header", NAME, "The header with the name of a request: one that is sent again is stored once.",
               "Idempotency-Key"),
        Option("id.remembered", integer(0, 1_000_000), "So many names of requests are known; 0: none, and each is "
               "stored.", "10000"),
        Option("max-message-bytes", SIZE, "Larger bodies are refused (413).", "1 mb"),
        Option("body.timeout", DURATION, "How long a request may take.", "30 s"),
        Option("ssl.certificate", PATH, "A file of PEM with the certificate: requests are encrypted."),
        Option("ssl.key", PATH, "A file of PEM with its key."),
    )  # fmt: skip
    own_metadata: ClassVar[Mapping[str, Metadata]] = {
        "request-id": Metadata("id", "STRING"),
        "path": Metadata("subject", "STRING"),
        "headers": Metadata("headers", "MAP<STRING, STRING>"),
    }
    variables = ("auth.token", "hmac.secret")

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        yield from super().check(table, spans)
        given = dict(table.options)
        is_open = given.get("open", "").strip().lower() == "true"
        protected = [key for key in ("auth.token", "hmac.secret") if key in given]
        if not protected and not is_open:
            message = 'connector "webhook" requires one of the options "auth.token" and "hmac.secret"'
            hint = "Add 'auth.token' = '${NAME}', or 'open' = 'true' for whoever is on this machine."
            yield Diagnostic(MISSING_OPTION, message, spans.get("connector"), hint=hint)
        if protected and is_open:
            message = f'options "open" and "{protected[0]}" exclude each other'
            yield Diagnostic(WRONG_VALUE, message, spans.get("open"), hint="Remove one of them.")
        if is_open and not is_loopback(given.get("host", "127.0.0.1")):
            message = 'option "open" is for a "host" that is this machine alone'
            yield Diagnostic(WRONG_VALUE, message, spans.get("open"), hint="Add 'auth.token' = '${NAME}' instead.")
        if ("ssl.certificate" in given) != ("ssl.key" in given):
            message = 'options "ssl.certificate" and "ssl.key" need each other'
            yield Diagnostic(WRONG_VALUE, message, spans.get("ssl.certificate") or spans.get("ssl.key"))
        if not given.get("path", "/").startswith("/"):
            message = f'option "path" of table "{table.name}" is no path of a URL'
            yield Diagnostic(WRONG_VALUE, message, spans.get("path"), hint="Write it as '/hooks/orders'.")

    def remembered(self, values: Mapping[str, Any]) -> int:
        return int(values["id.remembered"])

    def receiver(self, table: Table, values: Mapping[str, Any], scan: int) -> WebhookReceiver:
        require_aiohttp(self.name)
        if scan:
            message = f'table "{table.name}" is read twice, and a port is listened on once'
            hint = "Write its messages to another table, such as files or a topic, and read that one."
            raise ConnectorError(READ_TWICE, message, hint=hint)
        door = Door(values["auth.token"], values["auth.header"], values["hmac.secret"], values["hmac.header"])
        certificate = values["ssl.certificate"]
        return WebhookReceiver(
            name=table.name,
            host=values["host"],
            port=values["port"],
            path=values["path"],
            door=Door() if values["open"] else door,
            split=values["split"],
            id_header=values["id.header"],
            once=values["id.remembered"] > 0,
            most_bytes=values["max-message-bytes"],
            body_ms=values["body.timeout"],
            certificate=None if certificate is None else (certificate, values["ssl.key"]),
            secrets=secrets_of(table),
        )
