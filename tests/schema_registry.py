"""A schema registry for tests: Confluent's protocol over HTTP, as far as clients use it, in a thread of its own."""

from __future__ import annotations

import base64
import json
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit


class Refusal(Exception):
    """An answer that is an error: status, code and message."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass
class TestRegistry:
    """What the registry knows, and how it behaves. ``away``: so many requests are answered by 503. ``authorization``:
    the header that requests must have. ``asked``: the requests so far. ``refused``: subjects that take no more schemas.
    """

    __test__ = False

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    away: int = 0
    authorization: str | None = None
    asked: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    def register(self, subject: str, schema: object, kind: str = "AVRO", references: Any = (), id: int = 0) -> int:  # noqa: A002
        """Adds a schema to a subject, and returns its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        given = {"schema": text, "schemaType": kind, "references": list(references)}
        number = next((n for n, known in self.schemas.items() if known == given), None) or id or len(self.schemas) + 1
        self.schemas[number] = given
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any] | list[Any]:
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            if int(found[1]) not in self.schemas:
                raise Refusal(404, 40403, f"Schema {found[1]} not found")
            return _shown(self.schemas[int(found[1])])
        found = re.fullmatch(r"/subjects/([^/]+)(/versions)?(?:/(\w+))?", path)
        if found is None:
            raise Refusal(404, 404, "HTTP 404 Not Found")
        subject, version = unquote(found[1]), found[3]
        if method == "POST" and found[2] is not None:
            return self._add(subject, body)
        if method == "POST":
            return self._found(subject, body["schema"])
        return self._version(subject, version)

    def _add(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        if subject in self.refused:
            raise Refusal(409, 409, 'Schema being registered is incompatible with an earlier schema for subject "s"')
        references = body.get("references", [])
        return {"id": self.register(subject, body["schema"], body.get("schemaType", "AVRO"), references)}

    def _version(self, subject: str, version: str) -> dict[str, Any]:
        versions = self._versions(subject)
        number = len(versions) if version == "latest" else int(version)
        if not 0 < number <= len(versions):
            raise Refusal(404, 40402, f"Version {number} not found.")
        known = self.schemas[versions[number - 1]]
        return {"subject": subject, "version": number, "id": versions[number - 1], **_shown(known)}

    def _found(self, subject: str, text: str) -> dict[str, Any]:
        for version, number in enumerate(self._versions(subject), 1):
            if self.schemas[number]["schema"] == text:
                return {"subject": subject, "version": version, "id": number, **_shown(self.schemas[number])}
        raise Refusal(404, 40403, "Schema not found")

    def _versions(self, subject: str) -> list[int]:
        if subject not in self.subjects:
            raise Refusal(404, 40401, f"Subject '{subject}' not found.")
        return self.subjects[subject]


def _shown(schema: dict[str, Any]) -> dict[str, Any]:
    """As a registry answers: without the type where it is Avro's, and without references where there are none."""
    shown = {"schema": schema["schema"]}
    if schema["schemaType"] != "AVRO":
        shown["schemaType"] = schema["schemaType"]
    return shown | ({"references": schema["references"]} if schema["references"] else {})


def basic(user: str) -> str:
    """The header of a user, given as ``name:password``."""
    return f"Basic {base64.b64encode(user.encode()).decode()}"


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[TestRegistry]:
    """A registry, with TLS where there is a file of PEM with a key and a certificate."""
    registry = TestRegistry()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve({})

        def do_POST(self) -> None:
            self._serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _serve(self, body: dict[str, Any]) -> None:
            registry.asked.append(f"{self.command} {self.path}")
            try:
                if registry.away:
                    registry.away -= 1
                    raise Refusal(503, 50302, "Master not available")
                if registry.authorization not in (None, self.headers["Authorization"]):
                    raise Refusal(401, 401, "Unauthorized")
                self._send(200, registry.answer(self.command, urlsplit(self.path).path, body))
            except Refusal as error:
                self._send(error.status, {"error_code": error.code, "message": str(error)})

        def _send(self, status: int, answer: object) -> None:
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    registry.url = f"{scheme}://localhost:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
