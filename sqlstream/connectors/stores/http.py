"""Files of web servers, ``https://host/a.csv``: read only, by requests for ranges of bytes.

Servers list nothing, so the path of a table names its files, with blanks between them. A server that answers no ranges
sends a whole file, which is then held in memory.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from typing import BinaryIO, NamedTuple, cast

import pyarrow as pa

from sqlstream.connectors.stores.objects import ObjectStore
from sqlstream.connectors.stores.paths import StoredObject
from sqlstream.errors import ConnectorError, UnsupportedError
from sqlstream.formats.file_access import Bytes, ObjectBytes, ObjectFile
from sqlstream.formats.store_errors import DENIED, UNREACHABLE
from sqlstream.udfs.texts import one_line

NOT_IN_STORE = "SS689"

_TIMEOUT_SECONDS = 30.0
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.2
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which a request may succeed later."""


class _Head(NamedTuple):
    size: int | None
    modified: int
    ranges: bool


@dataclass(frozen=True)
class HttpFiles(ObjectStore):
    """The files of web servers."""

    def opened(self, path: str) -> BinaryIO:
        return cast(BinaryIO, ObjectFile(self._bytes(path)))

    def streamed(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_answer(path, "GET"), mode="r")

    def columnar(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(ObjectFile(self._bytes(path)), mode="r")

    @contextmanager
    def content(self, path: str) -> Iterator[Bytes]:
        yield self._bytes(path)

    def listed(self, path: str) -> list[StoredObject]:
        """The files that the path names, in its order. Raises ConnectorError SS675 and SS677."""
        found = []
        for url in path.split():
            try:
                found.append(self._status(url))
            except FileNotFoundError:
                if not self.skips_missing:
                    raise
        return found

    def exists(self, path: str) -> bool:
        try:
            return bool([self._status(url) for url in path.split()])
        except FileNotFoundError:
            return False

    def _status(self, path: str) -> StoredObject:
        head = _head(path)
        size = len(_whole(path)) if head.size is None else head.size
        return StoredObject(path, size, head.modified)

    def _bytes(self, path: str) -> ObjectBytes:
        head = _head(path)
        if head.size is None or not head.ranges:
            whole = _whole(path)
            return ObjectBytes(len(whole), lambda start, count: whole[start : start + count])
        return ObjectBytes(head.size, lambda start, count: _range(path, start, count))

    def below(self, path: str) -> list[StoredObject]:
        raise _not_written(path)

    def begin(self, path: str) -> BinaryIO:
        raise _not_written(path)


def _not_written(path: str) -> UnsupportedError:
    message = f'"{path}" is read only: nothing is written to web servers'
    return UnsupportedError(NOT_IN_STORE, message, hint="Write to a directory or into an object store, as s3://….")


def _head(url: str) -> _Head:
    with _answer(url, "HEAD") as answer:
        headers = answer.headers
        length = headers.get("Content-Length")
        time_ = headers.get("Last-Modified")
        modified = 0 if time_ is None else int(parsedate_to_datetime(time_).timestamp() * 1_000_000)
        packed = headers.get("Content-Encoding") not in (None, "identity")
        ranges = headers.get("Accept-Ranges", "").lower() == "bytes"
        return _Head(None if length is None or packed else int(length), modified, ranges)


def _whole(url: str) -> bytes:
    with _answer(url, "GET") as answer:
        return answer.read()


def _range(url: str, start: int, count: int) -> bytes:
    with _answer(url, "GET", {"Range": f"bytes={start}-{start + count - 1}"}) as answer:
        data = answer.read()
    if answer.status != 206:  # the server says that it has ranges, and sends the whole
        return data[start : start + count]
    return data


def _answer(url: str, method: str, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    """Asks a server, and again where it may answer later. Raises FileNotFoundError for a file that it does not have,
    ConnectorError SS675 where it denies access, SS677 where it does not answer.
    """
    given = {"Accept-Encoding": "identity", "User-Agent": "sqlstream", **(headers or {})}
    failure: Exception | None = None
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_SECONDS * 2**attempt)
        try:
            request = urllib.request.Request(url, headers=given, method=method)
            return cast(HTTPResponse, urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (404, 410):
                raise FileNotFoundError(2, "does not exist", url) from None
            if error.code in (401, 403):
                raise _denied(url, error) from None
            failure = error
            if error.code not in _PASSING:
                break
        except (OSError, HTTPException) as error:
            failure = error
    assert failure is not None
    detail = f"{one_line(failure).rstrip('.')}."
    hint = "Look at the network and at the URL; then start the job again."
    raise ConnectorError(UNREACHABLE, f'the server of "{url}" does not answer', detail=detail, hint=hint)


def _denied(url: str, error: urllib.error.HTTPError) -> ConnectorError:
    message = f'the server denies access to "{url}"'
    hint = "Files of web servers are read without credentials: put it into an object store, or copy it."
    return ConnectorError(DENIED, message, detail=f"It answers {error.code} {error.reason}.", hint=hint)
