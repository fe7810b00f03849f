"""Connections to MySQL and MariaDB, of the driver and of tasks."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY = TLS_MODES = (
    "disabled", "preferred", "required", "verify-ca", "verify-identity",
)  # fmt: skip
VERIFYING = frozenset({VERIFY_CA, VERIFY_IDENTITY})

_NO_TLS = 2026
"""The number that clients of MySQL give errors of TLS."""


def connected(parameters: Mapping[str, str]) -> Any:
    """Opens a connection in UTC. pymysql.OperationalError 2026 where TLS is not as ``ssl.mode`` asks for."""
    import pymysql  # an optional package

    mode = parameters.get("ssl.mode", PREFERRED)
    try:
        tls = _context(mode, parameters)
    except (OSError, ssl.SSLError) as error:  # the former where a file is not there
        raise pymysql.OperationalError(_NO_TLS, f"the files of TLS cannot be used: {error}") from None
    server = pymysql.connect(
        host=parameters["host"], port=int(parameters["port"]), user=parameters["user"],
        password=parameters["password"], connect_timeout=int(parameters["connect_timeout"]), charset="utf8mb4",
        autocommit=True, init_command="SET time_zone = '+00:00', sql_mode = ''", ssl=tls,
        ssl_disabled=mode == DISABLED,
    )  # fmt: skip
    if tls is not None and not isinstance(server._sock, ssl.SSLSocket):  # older clients do without
        server.close()
        raise pymysql.OperationalError(_NO_TLS, "the server has no TLS")
    return server


def _context(mode: str, parameters: Mapping[str, str]) -> ssl.SSLContext | None:
    """None where TLS is left to the client and the server."""
    if mode in (DISABLED, PREFERRED):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = mode == VERIFY_IDENTITY
    context.verify_mode = ssl.CERT_REQUIRED if mode in VERIFYING else ssl.CERT_NONE
    if mode in VERIFYING:
        if parameters.get("ssl.ca-file"):
            context.load_verify_locations(parameters["ssl.ca-file"])
        else:
            context.load_default_certs()
    if parameters.get("ssl.cert-file"):
        context.load_cert_chain(parameters["ssl.cert-file"], parameters.get("ssl.key-file"))
    return context
