"""Unity catalogs, which know where Delta tables are and give keys to their files for a while: ``uc://catalog.schema.t``.

The library deltalake opens such addresses, too, but needs keys where a table is on this machine, waits for ever for
those of file systems, and lists nothing. Thus the few requests of Unity's open REST API are made here.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import quote, urlencode

from sqlstream.connectors.lakes.versions import NO_LAKE_TABLE, UNSUPPORTED_FEATURE
from sqlstream.errors import ConnectorError
from sqlstream.formats.store_errors import DENIED, UNREACHABLE
from sqlstream.udfs.texts import one_line

SCHEME = "uc://"
WORKSPACE, TOKEN = "unity_workspace_url", "unity_access_token"
"""Options of deltalake's store: the address of the server, and what it knows us by."""

_API = "/api/2.1/unity-catalog"
_TIMEOUT_S = 30.0
_ATTEMPTS = 3
_PASSING = (429, 500, 502, 503, 504)
_EARLY_S = 300.0
"""Seconds before keys expire in which others are asked for."""


@dataclass(frozen=True)
class UnityServer:
    """A server of Unity's REST API. ``url``: with or without the path of the API."""

    url: str
    token: str | None = field(default=None, repr=False)

    def schemas(self, catalog: str) -> list[str]:
        return [found["name"] for found in self._listed("schemas", catalog_name=catalog)]

    def tables(self, catalog: str, schema: str) -> list[str]:
        """The Delta tables in a schema."""
        found = self._listed("tables", catalog_name=catalog, schema_name=schema)
        return sorted(table["name"] for table in found if table.get("data_source_format") == "DELTA")

    def table(self, name: str) -> Mapping[str, Any]:
        """What Unity knows of a table, by its whole name."""
        return self._answer(f"tables/{quote(name, safe='')}")

    def keys(self, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keys to the files of a table for a while: for writing, too, where we may."""
        wanted = {"table_id": table["table_id"], "operation": "READ_WRITE"}
        try:
            return self._answer("temporary-table-credentials", wanted)
        except ConnectorError as error:
            if error.diagnostic.code != DENIED:
                raise
        return self._answer("temporary-table-credentials", wanted | {"operation": "READ"})

    def _listed(self, what: str, **wanted: str) -> Iterator[Mapping[str, Any]]:
        token: str | None = ""
        while token is not None:
            answer = self._answer(f"{what}?{urlencode(wanted | ({'page_token': token} if token else {}))}")
            yield from answer.get(what) or ()
            token = answer.get("next_page_token") or None

    def _answer(self, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        root = self.url.rstrip("/").removesuffix(_API)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{root}{_API}/{path}", data, headers)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                    found: Mapping[str, Any] = json.load(answer)
                    return found
            except urllib.error.HTTPError as error:
                if error.code not in _PASSING or attempt == _ATTEMPTS:
                    raise self._refusal(error) from None
            except (OSError, ValueError) as error:
                if attempt == _ATTEMPTS:
                    message = f'the Unity catalog at "{self.url}" does not answer'
                    raise ConnectorError(UNREACHABLE, message, detail=f"{one_line(error)}.") from None
            time.sleep(0.2 * attempt)
        raise AssertionError("an attempt returns or raises")

    def _refusal(self, error: urllib.error.HTTPError) -> ConnectorError:
        try:
            said = str(json.loads(error.read()).get("message") or error.reason)
        except (OSError, ValueError, AttributeError):
            said = str(error.reason)
        detail = f"{' '.join(said.split()).rstrip('.')}."
        if error.code in (401, 403):
            message, hint = (
                f'the Unity catalog at "{self.url}" refuses the request',
                "Correct the token, or its rights.",
            )
            return ConnectorError(DENIED, message, detail=detail, hint=hint)
        if error.code in _PASSING:
            return ConnectorError(UNREACHABLE, f'the Unity catalog at "{self.url}" does not answer', detail=detail)
        return ConnectorError(NO_LAKE_TABLE, f'the Unity catalog at "{self.url}" has no such thing', detail=detail)


# --- where a table is -----------------------------------------------------------------------------------------

_known: dict[tuple[str, str, str | None], tuple[float, str, dict[str, str]]] = {}
_lock = Lock()


def found_place(path: str, storage: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Where a table is, and the options of its store: those that are given, and keys that Unity gives for a while.
    Other paths than ``uc://`` are returned as they are.
    """
    if not path.startswith(SCHEME):
        return path, dict(storage)
    name, url, token = path.removeprefix(SCHEME).strip("/"), storage.get(WORKSPACE), storage.get(TOKEN)
    if url is None or name.count(".") != 2:
        message = f'"{path}" is no table of a Unity catalog'
        hint = f"Write uc://catalog.schema.table, and the address of the server: 'storage.{WORKSPACE}' = 'https://…'."
        raise ConnectorError(NO_LAKE_TABLE, message, hint=hint)
    with _lock:
        known = _known.get((name, url, token))
        if known is None or known[0] < time.time():
            known = _known[name, url, token] = _asked(UnityServer(url, token), name)
    others = {key: value for key, value in storage.items() if key not in (WORKSPACE, TOKEN)}
    return known[1], known[2] | others


def _asked(server: UnityServer, name: str) -> tuple[float, str, dict[str, str]]:
    """Until when the answer holds, the place of a table, and the keys to it."""
    table = server.table(name)
    if table.get("data_source_format") != "DELTA":
        message = f'table "{name}" of a Unity catalog has the format {table.get("data_source_format")}, not DELTA'
        raise ConnectorError(UNSUPPORTED_FEATURE, message)
    place = str(table.get("storage_location") or "")
    if not place:
        message = f'table "{name}" of a Unity catalog has no place: it is a view, or only its catalog reads it'
        raise ConnectorError(UNSUPPORTED_FEATURE, message)
    if "://" not in place or place.startswith("file:"):
        return time.time() + _EARLY_S, place, {}
    keys = server.keys(table)
    if keys.get("gcp_oauth_token"):
        message = (
            f'the keys that a Unity catalog gives to table "{name}" are tokens of Google, which deltalake cannot use'
        )
        raise ConnectorError(UNSUPPORTED_FEATURE, message, hint=f'Name the place of the table as "path": {place}')
    until = float(keys.get("expiration_time") or 0) / 1000 - _EARLY_S
    return until, place, _options(keys)


def _options(keys: Mapping[str, Any]) -> dict[str, str]:
    """The keys as options of deltalake."""
    aws = keys.get("aws_temp_credentials") or keys.get("r2_temp_credentials") or {}
    azure = keys.get("azure_user_delegation_sas") or {}
    given = {
        "aws_access_key_id": aws.get("access_key_id"),
        "aws_secret_access_key": aws.get("secret_access_key"),
        "aws_session_token": aws.get("session_token"),
        "azure_storage_sas_token": azure.get("sas_token"),
    }
    return {key: value for key, value in given.items() if value}
