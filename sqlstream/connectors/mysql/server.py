"""A MySQL or MariaDB server as the driver sees it: connecting, its settings, places of its binary log, its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from sqlstream.connectors.changes.server import LOG_LOST
from sqlstream.errors import ConnectorError
from sqlstream.udfs.database_changes import CANNOT_READ
from sqlstream.udfs.lookup.sources.clients import no_package
from sqlstream.udfs.mysql_changes import NOT_OF_ROWS
from sqlstream.udfs.mysql_connection import connected

Connection = Any
"""One of PyMySQL, which has no types."""

FAILED = "SS567"

_OLDEST = {"MySQL": (8, 0, 4), "MariaDB": (10, 6, 0)}
_SETTINGS = (
    ("log_bin", "ON", "Start the server with log_bin, and with binlog_row_metadata = FULL."),
    ("binlog_format", "ROW", "SET GLOBAL binlog_format = 'ROW';"),
    ("binlog_row_image", "FULL", "SET GLOBAL binlog_row_image = 'FULL';"),
    ("binlog_row_metadata", "FULL", "SET GLOBAL binlog_row_metadata = 'FULL';"),
    ("binlog_row_value_options", "", "SET GLOBAL binlog_row_value_options = '';"),
)
"""Settings with the value that they must have where the server has them, and what sets it."""

_OF_TLS = ("tls", "ssl", "certificate", "secure_transport")
_NO_PRIVILEGE = frozenset({1044, 1045, 1142, 1143, 1227})


def quoted(*parts: str) -> str:
    """The quoted name of a table or a column."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def require_pymysql() -> None:
    """Raises ConnectorError SS577 if the package PyMySQL is not installed."""
    if find_spec("pymysql") is None:
        raise no_package("mysql", "PyMySQL")


def reason_of(error: Exception) -> str:
    """What the server or its client says, in one line."""
    return " ".join(str(error.args[-1] if error.args else error).split()).rstrip(".")


@contextmanager
def asked(name: str, connection: Mapping[str, str]) -> Iterator[Connection]:
    """A context manager that opens a connection. ``name``: the table, for error messages.

    Raises ConnectorError SS562 if the server cannot be reached, and SS567 for errors of statements in the context.
    """
    import pymysql  # an optional package

    try:
        server = connected(connection)
    except (pymysql.Error, RuntimeError) as error:  # the latter where a package lacks that a password needs
        where = f"{connection['host']}:{connection['port']}"
        message = f'the MySQL server at "{where}" of table "{name}" cannot be reached'
        refused = error.args and error.args[0] in _NO_PRIVILEGE
        hint = 'Is the server running, and can it be reached from here? Its address is in "hostname" and "port".'
        if any(word in str(error).lower() for word in _OF_TLS):
            hint = (
                'Options say how connections are encrypted: "ssl.mode", "ssl.ca-file", "ssl.cert-file", "ssl.key-file".'
            )
        if refused:
            hint = 'Correct the options "username" and "password".'
        raise ConnectorError(CANNOT_READ, message, detail=f"{reason_of(error)}.", hint=hint) from None
    try:
        with server:
            yield server
    except pymysql.Error as error:
        raise ConnectorError(FAILED, f'table "{name}": MySQL says: {reason_of(error)}') from error


def rows(server: Connection, query: str, values: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    with server.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())


# --- settings -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Product:
    """``name``: MySQL or MariaDB."""

    name: str
    version: tuple[int, ...]


def product_of(server: Connection) -> Product:
    """Returns which server it is, as it has said when the connection began."""
    text = server.get_server_info().removeprefix("5.5.5-")  # before the version of MariaDB, for old clients
    version = tuple(map(int, re.findall(r"\d+", text)[:3]))
    return Product("MariaDB" if "mariadb" in text.lower() else "MySQL", version)


def require_row_log(server: Connection, database: str) -> None:
    """ConnectorError SS620 for a server that is too old, or whose log does not have all columns of all changed rows of
    a database.
    """
    product = product_of(server)
    oldest = _OLDEST[product.name]
    if product.version < oldest:
        message = f"{product.name} {_dotted(product.version)} is older than {_dotted(oldest)}, the oldest that is read"
        raise ConnectorError(NOT_OF_ROWS, message, hint="Read its changes by Debezium and Kafka.")
    names = ", ".join(f"'{name}'" for name, _, _ in _SETTINGS)
    there = dict(rows(server, f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})"))
    for name, wanted, hint in _SETTINGS:
        if str(there.get(name, wanted)).upper() != wanted:
            message = f"the server has {name} = {there[name]}, and its log does not have what is read"
            raise ConnectorError(NOT_OF_ROWS, message, hint=f"{hint} What was logged before stays as it is.")
    status = status_of(server)
    logged, ignored = (str(status[n] or "").split(",") for n in (2, 3))
    if (logged != [""] and database not in logged) or database in ignored:
        message = f'the log of the server leaves out database "{database}" (binlog_do_db, binlog_ignore_db)'
        raise ConnectorError(NOT_OF_ROWS, message, hint="Let the server log it.")


def names_fold(server: Connection) -> bool:
    """True where the server keeps names of tables in lower case, however statements spell them."""
    return rows(server, "SELECT @@lower_case_table_names = 1") == [(1,)]


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


# --- places of the log ----------------------------------------------------------------------------------------


def system_of(server: Connection) -> str:
    """Which server it is, as that says itself."""
    names = "'server_id', 'server_uuid'"
    there = dict(rows(server, f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({names})"))
    return str(there.get("server_uuid") or there["server_id"])


def place(file: str, offset: int) -> int:
    """A place of the log as a number. ``file``: the name of the file, which ends in its number."""
    return int(file.rpartition(".")[2]) << 32 | offset


def log_end(server: Connection) -> int:
    """Returns where the log ends: what was committed by now is before it. SS620 where the user may not ask."""
    file, offset, *_ = status_of(server)
    return place(file, offset)


def status_of(server: Connection) -> tuple[Any, ...]:
    """The file of the log and the byte where it ends, the databases it has and has not, and of MySQL its GTIDs."""
    import pymysql  # an optional package

    product = product_of(server)
    renamed = product.name == "MySQL" and product.version >= (8, 2)
    try:
        found = rows(server, "SHOW BINARY LOG STATUS" if renamed else "SHOW MASTER STATUS")
    except pymysql.Error as error:
        raise not_allowed(error) from None
    if not found:
        message = "the server writes no binary log"
        raise ConnectorError(NOT_OF_ROWS, message, hint="Start the server with log_bin.")
    return found[0]


def not_allowed(error: Exception) -> Exception:
    if not error.args or error.args[0] not in _NO_PRIVILEGE:
        return error
    hint = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the user."
    return ConnectorError(NOT_OF_ROWS, f"the user may not read the log: {reason_of(error)}", hint=hint)


def log_files(server: Connection) -> dict[int, str]:
    """The files of the log that the server still has, by number, in their order."""
    import pymysql  # an optional package

    try:
        names = [name for name, *_ in rows(server, "SHOW BINARY LOGS")]
    except pymysql.Error as error:
        raise not_allowed(error) from None
    return {int(name.rpartition(".")[2]): name for name in names}


def shown_place(at: int, files: Mapping[int, str] = MappingProxyType({})) -> str:
    """A place of the log as people write it."""
    number = at >> 32
    return f"{files.get(number, f'file {number}')}:{at & 0xFFFFFFFF}"


def require_log(server: Connection, since: int) -> str:
    """The name of the file with this place of the log. ConnectorError SS621 if the server no longer has it."""
    files = log_files(server)
    name = files.get(since >> 32)
    if name is None or since > log_end(server):
        oldest = next(iter(files.values()), "none")
        lost = "has removed" if name is None and files and since >> 32 < next(iter(files)) else "does not have"
        message = f"the server {lost} its log from {shown_place(since, files)} on, where the job goes on"
        hint = (
            "Start in a new directory ('execution.checkpointing.dir'), with the rows of the table as they are now, and "
            "let the server keep its log longer (binlog_expire_logs_seconds)."
        )
        raise ConnectorError(LOG_LOST, message, detail=f"The oldest file that it has is {oldest}.", hint=hint)
    return name
