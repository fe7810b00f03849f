"""A server of S3 on this machine, in memory, for tests of object stores.

It answers what the clients of pyarrow and deltalake ask: buckets, objects and ranges of them, lists in pages, uploads
in parts, and conditions. Of signatures it looks at the key alone. The servers that pip brings want older versions of
libraries that we pin. It is a process of its own, because clients may hold Python's lock while they wait for answers.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase, BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from pyarrow import fs

    from sqlstream.connectors.stores.objects import ObjectStore

KEY, SECRET = "AKIATESTS4711", "very-secret-4711"
SWITCH = "no-keys"
"""The name of no bucket: keys have no rights from PUT to DELETE."""
PAGE = 100
"""Objects in a page of a list, fewer than the thousand of S3, so that tests see several."""


class Stored(NamedTuple):
    """An object."""

    data: bytes
    time: datetime

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'


class Refused(Exception):
    """An answer that is an error of S3."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass
class Buckets:
    """What the server holds. ``keys``: who may ask; None for everyone."""

    objects: dict[str, dict[str, Stored]] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    keys: frozenset[str] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def bucket(self, name: str) -> dict[str, Stored]:
        if name not in self.objects:
            raise Refused(404, "NoSuchBucket")
        return self.objects[name]

    def object(self, bucket: str, key: str) -> Stored:
        stored = self.bucket(bucket).get(key)
        if stored is None:
            raise Refused(404, "NoSuchKey")
        return stored

    def put(self, bucket: str, key: str, data: bytes, headers: Any) -> Stored:
        there = self.bucket(bucket).get(key)
        if headers.get("If-None-Match") == "*" and there is not None:
            raise Refused(412, "PreconditionFailed")
        wanted = headers.get("If-Match")
        if wanted is not None and (there is None or there.etag != wanted):
            raise Refused(412, "PreconditionFailed")
        self.bucket(bucket)[key] = stored = Stored(data, datetime.now(UTC).replace(microsecond=0))
        return stored


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer is one packet
    disable_nagle_algorithm = True
    buckets: Buckets

    def handle_expect_100(self) -> bool:
        go_on = super().handle_expect_100()
        self.wfile.flush()  # clients wait a second for it
        return go_on

    def do_GET(self) -> None:
        self._answered(self._get)

    def do_HEAD(self) -> None:
        self._answered(self._get)

    def do_PUT(self) -> None:
        self._answered(self._put)

    def do_POST(self) -> None:
        self._answered(self._post)

    def do_DELETE(self) -> None:
        self._answered(self._delete)

    def _answered(self, answer: Any) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).removeprefix("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        body = self._body()
        try:
            with self.buckets.lock:
                if bucket == SWITCH:
                    self.buckets.keys = frozenset() if self.command == "PUT" else None
                    self._send(200, b"", {})
                    return
                self._require_access()
                answer(bucket, key, query, body)
        except Refused as error:
            text = f"<Error><Code>{error.code}</Code><Message>{error.code}</Message></Error>"
            self._send(error.status, text.encode(), {"Content-Type": "application/xml"})

    def _require_access(self) -> None:
        key = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
        if self.buckets.keys is not None and (key is None or key[1] not in self.buckets.keys):
            raise Refused(403, "InvalidAccessKeyId")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = _unchunked(self.rfile)
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        signed = self.headers.get("x-amz-content-sha256", "").startswith("STREAMING")
        return _unchunked(BytesIO(data)) if signed else data

    # --- what is asked --------------------------------------------------------------------------------------------

    def _get(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        if not key:
            self._list(bucket, query) if "list-type" in query else self._head_of(bucket)
            return
        stored = self.buckets.object(bucket, key)
        headers = {"ETag": stored.etag, "Last-Modified": format_datetime(stored.time, usegmt=True),
                   "Accept-Ranges": "bytes"}  # fmt: skip
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self._send(200, stored.data, headers)
            return
        size = len(stored.data)
        first = int(wanted[1]) if wanted[1] else max(size - int(wanted[2]), 0)
        last = min(int(wanted[2]), size - 1) if wanted[1] and wanted[2] else size - 1
        if first >= size:
            raise Refused(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        self._send(206, stored.data[first : last + 1], headers)

    def _head_of(self, bucket: str) -> None:
        self.buckets.bucket(bucket)
        self._send(200, b"", {})

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = min(int(query.get("max-keys", PAGE)), PAGE)
        names: dict[str, Stored | None] = {}
        for key, stored in sorted(self.buckets.bucket(bucket).items()):
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key if end < 0 else key[: end + len(delimiter)]
            if key.startswith(prefix) and name > after:
                names.setdefault(name, stored if end < 0 else None)
        page = dict(list(names.items())[:most])
        lines = [f"<IsTruncated>{str(len(names) > len(page)).lower()}</IsTruncated><KeyCount>{len(page)}</KeyCount>"]
        if len(names) > len(page):
            lines.append(f"<NextContinuationToken>{escape([*page][-1])}</NextContinuationToken>")
        for name, listed in page.items():
            if listed is None:
                lines.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
                continue
            time = listed.time.strftime("%Y-%m-%dT%H:%M:%S.000Z")
            lines.append(
                f"<Contents><Key>{escape(name)}</Key><LastModified>{time}</LastModified><ETag>{escape(listed.etag)}"
                f"</ETag><Size>{len(listed.data)}</Size></Contents>"
            )
        start = f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>{most}</MaxKeys>"
        self._send(200, f"{start}{''.join(lines)}</ListBucketResult>".encode(), {"Content-Type": "application/xml"})

    def _put(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        if not key:
            self.buckets.objects.setdefault(bucket, {})
            self._send(200, b"", {})
        elif "uploadId" in query:
            self._upload(query)[int(query["partNumber"])] = body
            self._send(200, b"", {"ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'})
        elif (source := self.headers.get("x-amz-copy-source")) is not None:
            of_bucket, _, of_key = unquote(source).removeprefix("/").partition("/")
            stored = self.buckets.put(bucket, key, self.buckets.object(of_bucket, of_key).data, self.headers)
            self._send(200, f"<CopyObjectResult><ETag>{escape(stored.etag)}</ETag></CopyObjectResult>".encode(), {})
        else:
            self._send(200, b"", {"ETag": self.buckets.put(bucket, key, body, self.headers).etag})

    def _post(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        if "uploads" in query:
            self.buckets.bucket(bucket)
            number = f"upload-{next(self.buckets.numbers)}"
            self.buckets.uploads[number] = {}
            answer = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{number}</UploadId>"
            self._send(200, f"<InitiateMultipartUploadResult>{answer}</InitiateMultipartUploadResult>".encode(), {})
        elif "uploadId" in query:
            pieces = self._upload(query)
            stored = self.buckets.put(bucket, key, b"".join(data for _, data in sorted(pieces.items())), self.headers)
            del self.buckets.uploads[query["uploadId"]]
            answer = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><ETag>{escape(stored.etag)}</ETag>"
            self._send(200, f"<CompleteMultipartUploadResult>{answer}</CompleteMultipartUploadResult>".encode(), {})
        elif "delete" in query:
            names = re.findall(r"<Key>(.*?)</Key>", body.decode())
            for name in names:
                self.buckets.bucket(bucket).pop(_unescaped(name), None)
            gone = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
            self._send(200, f"<DeleteResult>{gone}</DeleteResult>".encode(), {"Content-Type": "application/xml"})
        else:
            raise Refused(501, "NotImplemented")

    def _delete(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        if "uploadId" in query:
            self.buckets.uploads.pop(query["uploadId"], None)
        else:
            self.buckets.bucket(bucket).pop(key, None)
        self._send(204, b"", {})

    def _upload(self, query: dict[str, str]) -> dict[int, bytes]:
        if query["uploadId"] not in self.buckets.uploads:
            raise Refused(404, "NoSuchUpload")
        return self.buckets.uploads[query["uploadId"]]

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


def _unchunked(file: BufferedIOBase) -> bytes:
    """The data of a body in chunks, of HTTP or of AWS, whose trailers are skipped."""
    pieces = []
    while size := int(file.readline().split(b";")[0] or b"0", 16):
        pieces.append(file.read(size))
        file.readline()
    while file.readline().strip():
        continue
    return b"".join(pieces)


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")


# --- what tests use -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class S3Server:
    """A running server. ``url``: its address, as the option ``s3.endpoint`` has it."""

    url: str

    @property
    def options(self) -> dict[str, str]:
        """The options of a table."""
        return {
            "s3.endpoint": self.url,
            "s3.region": "us-east-1",
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
        }

    @property
    def store(self) -> ObjectStore:
        from sqlstream.connectors.stores.objects import ObjectStore

        return ObjectStore("s3", tuple(self.options.items()))

    @property
    def files(self) -> fs.S3FileSystem:
        """A client of pyarrow."""
        from pyarrow import fs

        return fs.S3FileSystem(access_key=KEY, secret_key=SECRET, region="us-east-1", endpoint_override=self.url)

    def bucket(self) -> str:
        """Makes a bucket and returns its URL."""
        name = f"tests-{uuid4().hex[:12]}"
        self._ask("PUT", name)
        return f"s3://{name}"

    def put(self, url: str, data: str | bytes) -> None:
        self._ask("PUT", url.removeprefix("s3://"), data.encode() if isinstance(data, str) else data)

    def keys(self, url: str) -> list[str]:
        """The names below a folder, hidden ones too; pyarrow marks folders of removed objects, which are left out."""
        return sorted(o.url.removeprefix(url).strip("/") for o in self.store.below(url))

    @contextmanager
    def refusing_keys(self) -> Iterator[None]:
        """A context manager: the keys of the tests have no rights."""
        self._ask("PUT", SWITCH)
        try:
            yield
        finally:
            self._ask("DELETE", SWITCH)

    def _ask(self, method: str, path: str, data: bytes | None = None) -> None:
        headers = {"Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/x"}
        request = urllib.request.Request(f"{self.url}/{quote(path)}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """Starts a server, which ends with the context."""
    command = [sys.executable, str(Path(__file__).absolute())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield S3Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


def main() -> None:
    """Serves until the standard input ends, as when the process of the tests does."""
    handler = type("HandlerOfBuckets", (Handler,), {"buckets": Buckets()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
