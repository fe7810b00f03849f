"""Tables of MySQL and MariaDB: which are read, how their columns are spelled, and the key that cuts them into parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlstream.connectors.database_tables import Allowed, matched, no_table
from sqlstream.connectors.mysql.server import product_of, quoted, rows
from sqlstream.errors import ConnectorError, repeating
from sqlstream.formats import binlog
from sqlstream.formats.mysql_texts import ENCODINGS
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.udfs.database_changes import ChangedColumn, ChangedTable, KeyColumn
from sqlstream.udfs.mysql_changes import UNSIGNED

if TYPE_CHECKING:
    from sqlstream.connectors.mysql.server import Connection

NOT_READ = repeating("SS626")

_OLD_FORMAT = "mariadb-5.3"

METADATA = ("database_name", "table_name", "op_ts")
"""The keys of METADATA columns: in MySQL a schema is a database."""

_INTEGERS = {"tinyint": binlog.TINY, "smallint": binlog.SHORT, "mediumint": binlog.INT24, "int": binlog.LONG,
             "bigint": binlog.LONGLONG}  # fmt: skip
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_NUMBERS = {
    **_INTEGERS, "float": binlog.FLOAT, "double": binlog.DOUBLE, "decimal": binlog.DECIMAL, "year": binlog.YEAR,
    "bit": binlog.BIT, "date": binlog.DATE, "datetime": binlog.DATETIME, "timestamp": binlog.TIMESTAMP,
    "time": binlog.TIME, "enum": binlog.ENUM, "set": binlog.SET, "char": binlog.STRING, "binary": binlog.STRING,
    "varchar": binlog.VARCHAR, "varbinary": binlog.VARCHAR, "json": binlog.JSON,
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"),
                    binlog.BLOB),
}  # fmt: skip
"""The number that the log has for each type that is read."""


def _with_unsigned(*names: str) -> set[str]:
    return {*names, *(f"{name} unsigned" for name in names)}


_SMALL = {"smallint", *_with_unsigned("tinyint")}
_INT = {"int", "smallint unsigned", "year", *_SMALL, *_with_unsigned("mediumint")}
_BIG = {*_INT, "int unsigned", "bit", *_with_unsigned("bigint")}
_TIMES = {"timestamp", "datetime"}

READABLE: Allowed = MappingProxyType(
    {
        "BOOLEAN": {"bit", *_with_unsigned("tinyint")},
        "TINYINT": {"tinyint"},
        "SMALLINT": _SMALL,
        "INT": _INT,
        "BIGINT": _BIG,
        "FLOAT": _with_unsigned("float"),
        "DOUBLE": _with_unsigned("float", "double"),
        "DECIMAL": {*_BIG, *_with_unsigned("decimal")},
        "STRING": {name for type_ in _NUMBERS if type_ not in _BYTES for name in (type_, f"{type_} unsigned")},
        "BINARY": set(_BYTES),
        "DATE": {"date"},
        "TIMESTAMP": _TIMES,
        "TIMESTAMP_NTZ": _TIMES,
    }
)
"""For each declared type the types that a column may have there."""

_TABLE = "SELECT table_name, table_type, engine FROM information_schema.tables WHERE table_schema = %s"
_COLUMNS = """
    SELECT column_name, data_type, column_type, numeric_precision, numeric_scale, character_set_name, collation_name,
           extra LIKE '%%VIRTUAL%%' OR extra LIKE '%%STORED%%' OR extra LIKE '%%PERSISTENT%%'
    FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"""
_KEYS = """
    SELECT index_name, column_name, sub_part IS NOT NULL OR nullable <> '' FROM information_schema.statistics
    WHERE table_schema = %s AND table_name = %s AND non_unique = 0
    ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index"""
_CASCADES = """
    SELECT constraint_name FROM information_schema.referential_constraints
    WHERE constraint_schema = %s AND table_name = %s
      AND (delete_rule IN ('CASCADE', 'SET NULL') OR update_rule IN ('CASCADE', 'SET NULL'))
    ORDER BY constraint_name"""


@dataclass(frozen=True)
class StoredDetails:
    """A column as the catalog has it. ``type``: with UNSIGNED; ``spelled``: as CREATE TABLE has it."""

    type: str
    spelled: str
    sizes: str
    charset: str | None
    collation: str | None
    generated: bool

    @property
    def shown(self) -> str:
        name, space, unsigned = self.type.partition(" ")
        return f"{name}{self.sizes}{space}{unsigned}"

    @property
    def selected(self) -> str:
        """What of the column a query gives, so that it is spelled as in the log. {}: its name."""
        if self.type.startswith("float"):
            return "CAST({} AS DOUBLE)"
        return "{} + 0" if self.type == "bit" or "zerofill" in self.spelled else "{}"

    @property
    def cast(self) -> str | None:
        """The SQL that turns a text into a value which compares as the column; None where none does."""
        name = self.type.removesuffix(" unsigned")
        if name in _INTEGERS:
            return "CAST({} AS UNSIGNED)" if name != self.type else "CAST({} AS SIGNED)"
        if name == "decimal":
            return f"CAST({{}} AS DECIMAL{self.sizes})"
        if name in ("char", "varchar"):
            return f"CONVERT({{}} USING {self.charset}) COLLATE {self.collation}"
        return {"binary": "UNHEX({})", "varbinary": "UNHEX({})", "date": "CAST({} AS DATE)",
                "datetime": "CAST({} AS DATETIME(6))", "timestamp": "CAST({} AS DATETIME(6))"}.get(name)  # fmt: skip


def changed_table(
    server: Connection,
    table: Table,
    where: tuple[str, str],
    columns: Sequence[str],
    connection: Mapping[str, str],
    *,
    follows: bool,
    skips_truncate: bool,
    skips_cascades: bool,
) -> tuple[ChangedTable, tuple[KeyColumn, ...], dict[str, StoredDetails]]:
    """Returns how a table is read, the key by which its rows can be read in parts (no columns if it has none), and its
    columns.

    ``where``: its database and name; ``columns``: those of the result. Raises ConnectorError SS563 and SS564 where
    table or columns are not there, SS626 where the log would not have all changes of it.
    """
    _require_table(server, table, where, skips_cascades=skips_cascades)
    details = {name: _details(*more) for name, *more in rows(server, _COLUMNS, where)}
    _require_formats(where, details)
    metadata = {c.name: c.metadata_key for c in table.columns if c.metadata_key is not None}
    physical = [name for name in columns if name not in metadata]
    there = {name: d.shown for name, d in details.items()}
    stored = matched(table, [*physical, *table.primary_key], there, READABLE)
    for name, s in stored.items():
        if details[s.name].generated:
            message = f'column "{name}" of table "{table.name}" is GENERATED, and the log may have no values of it'
            raise ConnectorError(NOT_READ, message, hint="Leave it out, and compute it in the query.")
        charset = details[s.name].charset
        if charset is not None and not ENCODINGS.get(charset):
            message = f'column "{name}" of table "{table.name}" has the character set {charset}, which is not read'
            raise ConnectorError(NOT_READ, message, hint="Leave it out, or let it have utf8mb4 in the database.")
    cut_by = _cut_by(server, where, details)
    declared = [stored[name].name for name in table.primary_key]
    changed = ChangedTable(
        table.name,
        where[0],
        *where,
        tuple(
            ChangedColumn(f"value{n}", stored[name].declared, stored[name].name, details[stored[name].name].type,
                          _type_number(details[stored[name].name].type))
            for n, name in enumerate(physical)
        ),
        tuple(KeyColumn(name, "{}") for name in declared) or cut_by,
        RowKind.UPDATE_BEFORE in table.changelog,
        follows,
        skips_truncate,
        tuple((f"metadata{n}", key) for n, key in enumerate(metadata[name] for name in columns if name in metadata)),
        tuple(connection.items()),
    )  # fmt: skip
    return changed, cut_by, details


def _require_table(server: Connection, table: Table, where: tuple[str, str], *, skips_cascades: bool) -> None:
    tables = {name: more for name, *more in rows(server, _TABLE, where[:1])}
    if where[1] not in tables:
        raise no_table(table, where, tables)
    kind, engine = tables[where[1]]
    shown = ".".join(where)
    if kind != "BASE TABLE":
        message = f'"{shown}" is no table whose changes the log would tell ({kind})'
        raise ConnectorError(NOT_READ, message, hint="Read a table without system versioning, not a view.")
    if engine != "InnoDB":
        message = f'table "{shown}" is of the engine {engine}, of whose rows there is no snapshot'
        raise ConnectorError(NOT_READ, message, hint=f"ALTER TABLE {quoted(*where)} ENGINE = InnoDB;")
    cascades = [] if skips_cascades else rows(server, _CASCADES, where)
    if cascades:
        message = (
            f'the log lacks changes of table "{shown}" that its foreign key "{cascades[0][0]}" makes '
            "(ON DELETE or ON UPDATE)"
        )
        hint = "Let the foreign key RESTRICT, or let 'scan.cascade' = 'skip' leave these rows as they were."
        raise ConnectorError(NOT_READ, message, hint=hint)


def _require_formats(where: tuple[str, str], details: Mapping[str, StoredDetails]) -> None:
    """SS626 for a column, also one that is not read, whose size the log does not say."""
    for name, column in details.items():
        if _OLD_FORMAT in column.spelled:
            message = f'column "{name}" of table "{".".join(where)}" is of an older format of times, which is not read'
            hint = f"ALTER TABLE {quoted(*where)} FORCE; gives it the format of now."
            raise ConnectorError(NOT_READ, message, hint=hint)


def _details(
    kind: str, spelled: str, precision: int | None, scale: int | None, charset: str | None, collation: str | None,
    generated: int,
) -> StoredDetails:  # fmt: skip
    spelled = spelled.lower()
    name = f"{kind.lower()} compressed" if "compressed" in spelled else kind.lower()
    sizes = f"({precision},{scale})" if name == "decimal" else ""
    return StoredDetails(f"{name} unsigned" if spelled.endswith(("unsigned", "zerofill")) else name, spelled, sizes,
                         charset, collation, bool(generated))  # fmt: skip


def _type_number(type_: str) -> int:
    name, _, unsigned = type_.partition(" ")
    return _NUMBERS[name] | UNSIGNED * (name in _INTEGERS and bool(unsigned))


def _cut_by(server: Connection, where: tuple[str, str], details: Mapping[str, StoredDetails]) -> tuple[KeyColumn, ...]:
    """The first key whose columns have a value in each row and compare as their texts can be made to."""
    keys: dict[str, list[KeyColumn | None]] = {}
    for index, name, partial in rows(server, _KEYS, where):
        cast = None if partial or name is None else details[name].cast
        keys.setdefault(index, []).append(None if cast is None else KeyColumn(name, cast))
    for columns in keys.values():
        whole = [column for column in columns if column is not None]
        if len(whole) == len(columns):
            return tuple(whole)
    return ()


def charsets(server: Connection) -> tuple[tuple[int, str], ...]:
    """The character set of each collation, by its number."""
    found = dict(
        rows(server, "SELECT id, character_set_name FROM information_schema.collations WHERE character_set_name <> ''")
    )
    product = product_of(server)
    if product.name == "MariaDB" and product.version >= (10, 10, 1):
        query = "SELECT id, character_set_name FROM information_schema.collation_character_set_applicability"
        found |= dict(rows(server, query))
    return tuple((int(number), str(name)) for number, name in found.items() if number and name)
