"""Objects of S3, Google Cloud Storage and Azure as files that readers open, by pyarrow's file systems.

The settings of a store travel to the tasks within the reader, never in a plan or an option of Spark. Each process opens
a store once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from sqlstream.connectors.connector import PATH_ERROR
from sqlstream.connectors.stores.epochs import logged
from sqlstream.connectors.stores.paths import StoredObject, is_hidden, key_of, matching, root_of, url_of
from sqlstream.errors import ConnectorError
from sqlstream.formats.file_access import Bytes, ObjectBytes, ObjectFile, StoreAccess
from sqlstream.formats.store_errors import store_error
from sqlstream.udfs.texts import one_line

Options = tuple[tuple[str, Any], ...]

_READ_AHEAD = 1 << 22
"""Bytes that are fetched at once where an object is read from its beginning to its end."""
_LOOKS = 2


@dataclass(frozen=True)
class ObjectStore(StoreAccess):
    """The objects of a store. ``scheme``: s3, gs or abfss; ``options``: those of the table, as parsed values.
    ``skips_missing``: objects that are gone when they are read are left out.
    """

    scheme: str
    options: Options = field(default=(), repr=False)
    skips_missing: bool = False

    # --- reading --------------------------------------------------------------------------------------------------

    def opened(self, path: str) -> BinaryIO:
        file = self.columnar(path)
        return cast(BinaryIO, ObjectFile(_bytes_of(file), file.close))

    def streamed(self, path: str) -> pa.NativeFile:
        with self.errors(path):
            return self.files(path).open_input_stream(key_of(path), compression=None, buffer_size=_READ_AHEAD)

    def columnar(self, path: str) -> pa.NativeFile:
        with self.errors(path):
            return self.files(path).open_input_file(key_of(path))

    @contextmanager
    def content(self, path: str) -> Iterator[Bytes]:
        with self.columnar(path) as file:
            yield _bytes_of(file)

    def size(self, path: str) -> int:
        return self._status(path).size

    def version(self, path: str) -> tuple[object, ...]:
        status = self._status(path)
        return status.size, status.modified

    def versions(self, path: str) -> Sequence[tuple[str, tuple[int, ...]]]:
        found = self.listed(path)
        if not found and not self.exists(path):
            raise FileNotFoundError(2, "does not exist", path)
        return [(o.url, (o.size, o.modified)) for o in sorted(found, key=lambda o: (o.modified, o.url))]

    def is_skipped(self, path: str) -> bool:
        return self.skips_missing and not self.exists(path)

    # --- listing --------------------------------------------------------------------------------------------------

    def listed(self, path: str) -> list[StoredObject]:
        """The objects at a path, which is an object, a folder or a pattern, without those whose names begin with ``_``
        or ``.``, and of a sink those that its log has; empty where there is nothing. Raises ConnectorError SS675 to
        SS677 where the store refuses.
        """
        for _ in range(_LOOKS):
            with suppress(FileNotFoundError):  # the sink has replaced entries of its log meanwhile
                return self._listed(path)
        return self._listed(path)

    def _listed(self, path: str) -> list[StoredObject]:
        root, fits = root_of(path), matching(path)
        there = self.below(root)
        counted = logged(root.rstrip("/"), there, self.read)
        found = there if counted is None else _with_times(counted, there)
        shown = (o for o in found if not is_hidden(o.url, root))
        return [o for o in shown if fits is None or fits.fullmatch(key_of(o.url))]

    def below(self, path: str) -> list[StoredObject]:
        """The objects of a folder, at any depth, hidden ones too; or the object at the path itself."""
        with self.errors(path):
            files, key = self.files(path), key_of(path).rstrip("/")
            own = files.get_file_info(key) if "/" in key else None
            if own is not None and own.is_file:
                return [self._object(path, own)]
            selector = fs.FileSelector(key, recursive=True, allow_not_found=False)
            try:
                infos = files.get_file_info(selector)
            except FileNotFoundError as error:
                if (missing := store_error(path, str(error))) is not None:
                    raise missing from None
                self._require_bucket(path)
                return []
            return [self._object(path, info) for info in infos if info.is_file]

    def exists(self, path: str) -> bool:
        """Whether there is an object, or a folder with objects, at a path or in the folder of a pattern."""
        with self.errors(path):
            info = self.files(path).get_file_info(key_of(root_of(path)).rstrip("/"))
            return bool(info.type != fs.FileType.NotFound)

    def _require_bucket(self, path: str) -> None:
        bucket = key_of(path).split("/")[0]
        if self.files(path).get_file_info(bucket).type == fs.FileType.NotFound:
            error = store_error(path, f'NO_SUCH_BUCKET: "{bucket}"')
            assert error is not None
            raise error

    def _status(self, path: str) -> StoredObject:
        with self.errors(path):
            info = self.files(path).get_file_info(key_of(path))
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(2, "does not exist", path)
        return self._object(path, info)

    def _object(self, path: str, info: fs.FileInfo) -> StoredObject:
        modified = 0 if info.mtime_ns is None else info.mtime_ns // 1_000
        return StoredObject(url_of(path, info.path), info.size or 0, modified)

    # --- writing --------------------------------------------------------------------------------------------------

    def begin(self, path: str) -> BinaryIO:
        """Begins an object, which is there for others when it is closed."""
        with self.errors(path):
            return cast(BinaryIO, self.files(path).open_output_stream(key_of(path), compression=None))

    def complete(self, path: str, file: BinaryIO) -> tuple[int, int]:
        """Closes an object that was written. Returns its size, and the time in milliseconds since 1970."""
        size = file.tell()
        with self.errors(path):
            file.close()
        return size, time.time_ns() // 1_000_000

    def read(self, path: str) -> bytes | None:
        """The content of a small object; None where there is none."""
        with suppress(FileNotFoundError), self.errors(path), self.files(path).open_input_stream(key_of(path)) as file:
            return bytes(file.read())
        return None

    def write(self, path: str, data: bytes) -> None:
        """Writes a small object, in the place of another one, by one request."""
        with self.errors(path), self.begin(path) as file:
            file.write(data)

    def remove(self, path: str) -> None:
        """Removes an object if it exists."""
        with suppress(FileNotFoundError), self.errors(path):
            self.files(path).delete_file(key_of(path))

    # --- the library ----------------------------------------------------------------------------------------------

    def files(self, path: str) -> fs.FileSystem:
        """The file system of pyarrow for the bucket of a path."""
        return _opened(self.scheme, self.options, urlsplit(path).netloc)

    @contextmanager
    def errors(self, path: str) -> Iterator[None]:
        """A context manager that turns errors of the library into ConnectorErrors SS675 to SS677. Of others remain
        FileNotFoundError and OSError.
        """
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise store_error(path, str(error)) or OSError(one_line(error)) from None


def _with_times(counted: Sequence[StoredObject], there: Sequence[StoredObject]) -> list[StoredObject]:
    """The objects that a log has as the store has them. Those that are gone are for the reader to miss."""
    known = {o.url: o for o in there}
    return [known.get(o.url, o) for o in counted]


def _bytes_of(file: pa.NativeFile) -> ObjectBytes:
    return ObjectBytes(file.size(), lambda start, count: bytes(file.read_at(count, start)))


# --- opening ------------------------------------------------------------------------------------------------------


@lru_cache(64)
def _opened(scheme: str, options: Options, bucket: str) -> fs.FileSystem:
    given = dict(options)
    try:
        match scheme:
            case "s3":
                return _s3(given, bucket)
            case "gs":
                return fs.GcsFileSystem(**gcs_arguments(given))
            case _:
                return fs.AzureFileSystem(**azure_arguments(given, bucket))
    except (ValueError, OSError) as error:
        raise _refused(f"{scheme}://{bucket}", error) from None


def _refused(url: str, error: Exception) -> ConnectorError:
    message = f'the object store of "{url}" cannot be opened: {one_line(error)}'
    return ConnectorError(PATH_ERROR, message, hint="Correct the options of the store.")


def _s3(given: Mapping[str, Any], bucket: str) -> fs.S3FileSystem:
    arguments = s3_arguments(given)
    server = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if server and "endpoint_override" not in arguments:
        arguments |= _server(server)
    known = any(map(os.environ.get, ("AWS_REGION", "AWS_DEFAULT_REGION")))
    if not known and not {"region", "endpoint_override"} & set(arguments):
        with suppress(OSError):  # the bucket may not be seen by everyone: the library has its own default
            arguments["region"] = fs.resolve_s3_region(bucket)
    # A small object is then written by one request.
    return fs.S3FileSystem(**arguments, allow_delayed_open=True)


_S3 = {
    "s3.region": "region",
    "s3.access-key-id": "access_key",
    "s3.secret-access-key": "secret_key",
    "s3.session-token": "session_token",
    "s3.anonymous": "anonymous",
    "s3.role-arn": "role_arn",
    "s3.role-session-name": "session_name",
    "s3.connect-timeout": "connect_timeout",
    "s3.request-timeout": "request_timeout",
    "s3.force-virtual-addressing": "force_virtual_addressing",
}
_GCS = {"gcs.project-id": "project_id", "gcs.oauth2.token": "access_token", "gcs.anonymous": "anonymous"}
_ADLS = {
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
    "adls.sas-token": "sas_token",
    "adls.tenant-id": "tenant_id",
    "adls.client-id": "client_id",
    "adls.client-secret": "client_secret",
    "adls.blob-storage-authority": "blob_storage_authority",
    "adls.blob-storage-scheme": "blob_storage_scheme",
}


def s3_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options as arguments of pyarrow's file system of S3."""
    arguments = {_S3[key]: value for key, value in given.items() if key in _S3}
    if "s3.endpoint" in given:
        arguments |= _server(given["s3.endpoint"])
    return arguments


def gcs_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options as arguments of pyarrow's file system of Google Cloud Storage."""
    arguments = {_GCS[key]: value for key, value in given.items() if key in _GCS}
    if "gcs.oauth2.token-expires-at" in given:
        ends = int(given["gcs.oauth2.token-expires-at"]) / 1000
        arguments["credential_token_expiration"] = datetime.fromtimestamp(ends, UTC)
    if "gcs.service.host" in given:
        arguments |= _server(given["gcs.service.host"])
    return arguments


def azure_arguments(given: Mapping[str, Any], bucket: str) -> dict[str, Any]:
    """The options as arguments of pyarrow's file system of Azure. ``bucket``: container and host, as in a URL."""
    arguments = {_ADLS[key]: value for key, value in given.items() if key in _ADLS}
    host = bucket.partition("@")[2]
    arguments.setdefault("account_name", host.partition(".")[0] or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", ""))
    for service in ("authority", "scheme"):
        if f"blob_storage_{service}" in arguments:
            arguments[f"dfs_storage_{service}"] = arguments[f"blob_storage_{service}"]
    return arguments


def _server(url: str) -> dict[str, str]:
    scheme, _, host = url.partition("://")
    return {"scheme": scheme, "endpoint_override": host}
