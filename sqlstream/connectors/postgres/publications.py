"""What a server must have so that changes of a table can be read: settings, a publication, a replication slot and, in
the table, what identifies its rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.connectors.changes.server import LOG_LOST
from sqlstream.connectors.database_tables import READABLE, matched
from sqlstream.connectors.postgres.server import columns_there, regclass
from sqlstream.errors import ConnectorError, Diagnostic, SqlStreamWarning, repeating
from sqlstream.planner.catalog import RowKind, Table
from sqlstream.udfs.database_changes import METADATA, ChangedColumn, ChangedTable, KeyColumn, lsn_of, lsn_text
from sqlstream.udfs.postgres_chosen import NO_OLD_ROW, large_values, no_old_row

if TYPE_CHECKING:
    from sqlstream.connectors.postgres.server import Connection

NOT_LOGICAL = repeating("SS620")
NO_IDENTITY = repeating("SS626")
NO_PUBLICATION = repeating("SS628")

_OLDEST = 150_000
_SLOT_WAIT_MS = 600_000


@dataclass(frozen=True)
class Slot:
    """Names of a publication and of a slot, and the table that they are of: its schema and its name."""

    name: str
    publication: str
    table: tuple[str, str]


def require_logical(server: Connection) -> None:
    """ConnectorError SS620 for a server that is too old or does not write its log for logical replication."""
    version = server.info.server_version
    if version < _OLDEST:
        message = f"PostgreSQL {version // 10_000} is older than 15, the oldest whose changes are read"
        raise ConnectorError(NOT_LOGICAL, message, hint="Read them by Debezium and Kafka.")
    ((level,),) = server.execute("SHOW wal_level").fetchall()
    if level != "logical":
        message = f"the server has wal_level = {level}, whose log does not tell changes of rows"
        hint = "ALTER SYSTEM SET wal_level = logical; and restart the server."
        raise ConnectorError(NOT_LOGICAL, message, hint=hint)


# --- the table ------------------------------------------------------------------------------------------------

_ABOUT = """
    SELECT c.relkind::text, c.relreplident::text, current_database(),
           EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) AND c.relkind <> 'p'
    FROM pg_class c WHERE c.oid = to_regclass(%s)"""
_IDENTITY = """
    SELECT a.attname, a.attgenerated <> '' FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
    WHERE i.indrelid = to_regclass(%s) AND i.indisvalid
      AND CASE %s WHEN 'i' THEN i.indisreplident WHEN 'f' THEN i.indisprimary ELSE i.indisprimary AND i.indimmediate END
    ORDER BY array_position(i.indkey::int2[], a.attnum)"""
_PARTITIONS = """
    SELECT n.nspname, c.relname, c.relreplident::text, ARRAY(
        SELECT a.attname::text FROM pg_index i
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) AND a.attgenerated = ''
        WHERE i.indrelid = c.oid AND i.indisvalid
          AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary AND i.indimmediate END)
    FROM pg_partition_tree(to_regclass(%s)) p JOIN pg_class c ON c.oid = p.relid JOIN pg_namespace n
        ON n.oid = c.relnamespace
    WHERE p.isleaf AND c.relkind = 'r' ORDER BY 1, 2"""
_IS_DEFERRABLE = """
    SELECT bool_and(NOT i.indimmediate) FROM pg_index i
    WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
      AND %s::text[] = ARRAY(
        SELECT a.attname::text COLLATE "C" FROM pg_attribute a WHERE a.attrelid = i.indrelid
          AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]) ORDER BY 1)"""
_STORED = """
    SELECT a.attname, a.atttypid::int8, a.attgenerated::text, format_type(a.atttypid, a.atttypmod),
           a.attstorage <> 'p',
           CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(n.nspname) || '.' || quote_ident(o.collname) END
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation o ON o.oid = a.attcollation
    LEFT JOIN pg_namespace n ON n.oid = o.collnamespace
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped"""


def changed_table(
    server: Connection,
    table: Table,
    where: tuple[str, str],
    columns: Sequence[str],
    connection: Mapping[str, str],
    *,
    follows: bool,
    skips_truncate: bool,
    asks: bool,
) -> tuple[ChangedTable, tuple[KeyColumn, ...]]:
    """Returns how a table is read, and the key by which its rows can be read in parts: no columns if it has none. Warns
    of columns whose values the log may lack, unless the server is asked for them.

    ``where``: its schema and name in the database; ``columns``: those of the result. Raises ConnectorError SS563 and
    SS564 where table or columns are not there, SS626 where the log would not identify rows, SS623 where it has no old
    rows.
    """
    there = columns_there(server, table, where)
    metadata = {c.name: c.metadata_key for c in table.columns if c.metadata_key is not None}
    physical = [name for name in columns if name not in metadata]
    stored = matched(table, [*physical, *table.primary_key], there, READABLE)
    ((kind, identity, database, inherited),) = server.execute(_ABOUT, [regclass(where)]).fetchall()
    if kind not in ("r", "p") or inherited:
        message = f'"{".".join(where)}" is no table of its own, whose changes the log would tell'
        raise ConnectorError(NO_IDENTITY, message, hint="Read a table or a partitioned table, not a view or a parent.")
    details = {name: rest for name, *rest in server.execute(_STORED, [regclass(where)]).fetchall()}
    _require_logged(table, {n: details[s.name][1] for n, s in stored.items()})
    key = _key(server, where, identity)
    declared = [stored[name].name for name in table.primary_key]
    with_before = RowKind.UPDATE_BEFORE in table.changelog
    partitions = server.execute(_PARTITIONS, [regclass(where)]).fetchall()
    for schema, name, own, own_key in [(*where, identity, key), *partitions]:
        _require_identity(table, (schema, name), own, own_key, declared, with_before=with_before)
    _require_immediate(server, table, where, declared)
    if identity != "f" and not asks:
        _warn_of_large_values(where, [s.name for n, s in stored.items() if n in physical and details[s.name][3]])

    def key_column(name: str) -> KeyColumn:
        *_, type_, _, collation = details[name]
        collated = "" if collation is None else f" COLLATE {collation}"
        return KeyColumn(name, f"CAST({{}} AS {type_.replace('{', '{{').replace('}', '}}')}){collated}")

    changed = ChangedTable(
        table.name,
        database,
        *where,
        tuple(
            ChangedColumn(f"value{n}", stored[name].declared, stored[name].name, stored[name].type,
                          details[stored[name].name][0])
            for n, name in enumerate(physical)
        ),
        tuple(map(key_column, declared or key)),
        with_before,
        follows,
        skips_truncate,
        tuple((f"metadata{n}", key) for n, key in enumerate(metadata[name] for name in columns if name in metadata)),
        tuple(connection.items()),
        asks,
    )  # fmt: skip
    assert all(key in METADATA for _, key in changed.metadata)
    return changed, tuple(map(key_column, key))


def _key(server: Connection, where: tuple[str, str], identity: str) -> list[str]:
    """The columns of the replica identity, or of the key; none where the log lacks one, because it is GENERATED."""
    found = server.execute(_IDENTITY, [regclass(where), identity]).fetchall()
    return [] if any(generated for _, generated in found) else [name for name, _ in found]


def _require_logged(table: Table, generated: Mapping[str, str]) -> None:
    for name, how in generated.items():
        if how:
            message = f'column "{name}" of table "{table.name}" is GENERATED, and the log has no values of it'
            raise ConnectorError(NO_IDENTITY, message, hint="Leave it out, and compute it in the query.")


def _require_identity(
    table: Table, where: tuple[str, str], identity: str, key: list[str], declared: list[str], *, with_before: bool
) -> None:
    """Without an identity the server would refuse every UPDATE and DELETE once the table is published."""
    full = identity == "f"
    if with_before and not full:
        raise no_old_row(table.name, *where)
    if not full and (identity == "n" or not key):
        message = f'table "{".".join(where)}" has no key by which the log identifies rows'
        hint = f"ALTER TABLE {regclass(where)} REPLICA IDENTITY FULL; or give it a PRIMARY KEY."
        raise ConnectorError(NO_IDENTITY, message, hint=hint)
    if not full and declared and set(declared) != set(key):
        message = (
            f'PRIMARY KEY ({", ".join(declared)}) of table "{table.name}" is not the key by which the log identifies '
            f"rows ({', '.join(key)})"
        )
        hint = f"Declare that one, or ALTER TABLE {regclass(where)} REPLICA IDENTITY FULL;"
        raise ConnectorError(NO_IDENTITY, message, hint=hint)


def _require_immediate(server: Connection, table: Table, where: tuple[str, str], declared: list[str]) -> None:
    """Two rows may have a key that is DEFERRABLE for a moment, and the log has the new one before the old one."""
    ((is_deferrable,),) = server.execute(_IS_DEFERRABLE, [regclass(where), sorted(declared)]).fetchall()
    if is_deferrable:
        message = (
            f'the key ({", ".join(declared)}) of table "{table.name}" is DEFERRABLE: two rows may have it at a time'
        )
        hint = "Leave PRIMARY KEY out, with 'changelog-mode' = 'I,UB,UA,D', or let the key be NOT DEFERRABLE."
        raise ConnectorError(NO_IDENTITY, message, hint=hint)


def _warn_of_large_values(where: tuple[str, str], names: list[str]) -> None:
    if names:
        message = (
            f'an update that leaves a large value of column "{names[0]}" of table "{".".join(where)}" as it was ends '
            "the job, because the log does not repeat it"
        )
        warning = Diagnostic(NO_OLD_ROW, message, hint=large_values(*where), warning=True)
        warnings.warn(warning.render(), SqlStreamWarning, stacklevel=2)


# --- the publication ------------------------------------------------------------------------------------------

_PUBLICATION = """
    SELECT pubinsert AND pubupdate AND pubdelete, pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s"""
_PUBLISHED = """
    SELECT p.attnames::text[], p.rowfilter FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_publication_tables p ON p.pubname = %s AND p.schemaname = n.nspname AND p.tablename = c.relname
    WHERE c.oid = to_regclass(%s) AND (%s OR c.relkind <> 'p')
       OR NOT %s AND c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%s)) WHERE isleaf)"""
"""Of a table, or of each of its partitions where these are published and not the table, NULL for those that lack."""


def prepare_publication(server: Connection, table: ChangedTable, slot: Slot) -> str | None:
    """Creates the publication if it does not exist. Returns the condition of the rows that it has, None for all.

    ConnectorError SS628 where it lacks the table or kinds of changes, or cannot be created.
    """
    import psycopg  # an optional package

    name = regclass((slot.publication,))
    only = "" if _is_partitioned(server, slot.table) else "ONLY "
    create = f"CREATE PUBLICATION {name} FOR TABLE {only}{regclass(slot.table)}"
    found = server.execute(_PUBLICATION, [slot.publication]).fetchall()
    if not found:
        try:
            server.execute(create)
        except psycopg.errors.DuplicateObject:  # another job has made it
            pass
        except psycopg.errors.InsufficientPrivilege as error:
            message = f'publication "{slot.publication}" does not exist, and the user may not create it: {error}'
            raise ConnectorError(NO_PUBLICATION, message.strip(), hint=f"Let an owner run {create};") from None
        found = server.execute(_PUBLICATION, [slot.publication]).fetchall()
    ((rows, truncate, via_root),) = found
    if not rows or not (truncate or table.skips_truncate):
        lacking = "INSERT, UPDATE and DELETE" if not rows else "TRUNCATE"
        message = f'publication "{slot.publication}" does not publish {lacking}'
        hint = f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate');"
        raise ConnectorError(NO_PUBLICATION, message, hint=hint)
    as_one, where = bool(only) or via_root, regclass(slot.table)
    published = server.execute(_PUBLISHED, [slot.publication, where, as_one, as_one, where]).fetchall()
    if any(columns is None for columns, _ in published):
        message = f'publication "{slot.publication}" lacks table "{".".join(slot.table)}"'
        message += "" if as_one else " or partitions of it"
        raise ConnectorError(NO_PUBLICATION, message, hint=f"ALTER PUBLICATION {name} ADD TABLE {where};")
    conditions = {condition for _, condition in published} or {None}
    if len(conditions) > 1:
        message = f'publication "{slot.publication}" has other rows of some partitions of "{".".join(slot.table)}"'
        hint = f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true);"
        raise ConnectorError(NO_PUBLICATION, message, hint=hint)
    (condition,) = conditions
    missing = [c.stored for c in table.columns if any(c.stored not in columns for columns, _ in published)]
    if missing:
        message = f'publication "{slot.publication}" lacks column "{missing[0]}" of table "{".".join(slot.table)}"'
        hint = f"ALTER PUBLICATION {name} SET TABLE {regclass(slot.table)}; with all columns."
        raise ConnectorError(NO_PUBLICATION, message, hint=hint)
    return None if condition is None else str(condition)


def number_of(server: Connection, where: tuple[str, str]) -> int:
    """The number (OID) of a table, by its schema and its name."""
    ((number,),) = server.execute("SELECT to_regclass(%s)::oid::int8", [regclass(where)]).fetchall()
    return int(number)


_IS_PARTITION = """
    SELECT EXISTS (SELECT FROM pg_partition_ancestors(%(number)s::oid) WHERE relid = root.oid)
        OR root.relkind = 'p' AND EXISTS (
            SELECT FROM pg_publication p WHERE pubname = %(publication)s AND NOT puballtables
                AND NOT EXISTS (SELECT FROM pg_publication_namespace WHERE pnpubid = p.oid)
                AND NOT EXISTS (SELECT FROM pg_publication_rel WHERE prpubid = p.oid
                    AND prrelid NOT IN (SELECT relid FROM pg_partition_tree(root.oid))))
    FROM pg_class root WHERE root.oid = to_regclass(%(root)s)"""


def is_partition(server: Connection, number: int, slot: Slot) -> bool:
    """True where the table of this number (OID) is a partition of that of a slot, at any depth. Of one that was dropped
    or detached, of which older log may tell, the server does not know it any more: it is taken for one where the
    publication has no other tables.
    """
    values = {"number": number, "publication": slot.publication, "root": regclass(slot.table)}
    found = server.execute(_IS_PARTITION, values).fetchall()
    return found == [(True,)]


def _is_partitioned(server: Connection, where: tuple[str, str]) -> bool:
    ((kind,),) = server.execute("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)", [regclass(where)])
    return bool(kind == "p")


# --- the slot -------------------------------------------------------------------------------------------------

_SLOT = """
    SELECT plugin::text, database = current_database(), confirmed_flush_lsn::text, wal_status = 'lost', two_phase
    FROM pg_replication_slots WHERE slot_name = %s"""


def confirmed(server: Connection, slot: Slot) -> int | None:
    """Returns from where on the server keeps the log for a slot; None if there is no such slot.

    ConnectorError SS621 for slots of another plugin or database, of transactions that are only prepared, and those that
    have lost their log.
    """
    found = server.execute(_SLOT, [slot.name]).fetchall()
    if not found:
        return None
    ((plugin, is_here, lsn, is_lost, two_phase),) = found
    if plugin != "pgoutput" or not is_here:
        other = f'of the plugin "{plugin}"' if plugin != "pgoutput" else "of another database"
        raise ConnectorError(LOG_LOST, f'slot "{slot.name}" is {other}', hint="Give 'slot.name' another name.")
    if two_phase:
        message = (
            f'slot "{slot.name}" gives transactions that are prepared before it is known whether they are committed'
        )
        hint = "Give 'slot.name' another name, or make the slot without two_phase."
        raise ConnectorError(LOG_LOST, message, hint=hint)
    if is_lost or lsn is None:
        message = f'slot "{slot.name}" has lost a part of the log, because it would have grown too large'
        raise ConnectorError(LOG_LOST, message, hint=_anew(slot))
    return lsn_of(lsn)


def require_slot(server: Connection, slot: Slot, since: int) -> None:
    """ConnectorError SS621 if the server no longer has the log from ``since`` on."""
    at = confirmed(server, slot)
    if at is None:
        message = f'slot "{slot.name}" is gone, and with it the changes behind {lsn_text(since)}'
        raise ConnectorError(LOG_LOST, message, hint=_anew(slot))
    if at > since:
        message = (
            f'slot "{slot.name}" has moved to {lsn_text(at)}, and the changes behind {lsn_text(since)}, where the job '
            "goes on, are gone"
        )
        raise ConnectorError(LOG_LOST, message, hint=_anew(slot))


def _anew(slot: Slot) -> str:
    return (
        f"SELECT pg_drop_replication_slot('{slot.name}'); where it is still there, and start in a new directory "
        "('execution.checkpointing.dir'), with the rows of the table as they are now."
    )


def create_slot(server: Connection, slot: Slot) -> int:
    """Returns from where on the server keeps the log for a slot, which is made if it does not exist."""
    import psycopg  # an optional package

    at = confirmed(server, slot)
    if at is not None:
        return at
    server.execute(f"SET statement_timeout = {_SLOT_WAIT_MS}")  # the server waits for transactions that are running
    try:
        ((lsn,),) = server.execute(
            "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", [slot.name]
        ).fetchall()
    except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.ConfigurationLimitExceeded,
            psycopg.errors.InsufficientPrivilege) as error:  # fmt: skip
        message = f'slot "{slot.name}" cannot be made: {error.diag.message_primary}'
        hint = error.diag.message_hint or "The user needs the attribute REPLICATION, the server max_replication_slots."
        raise ConnectorError(NOT_LOGICAL, message, hint=hint) from None
    return lsn_of(lsn)


def log_end(server: Connection) -> int:
    """Returns where the log ends: what was committed by now is before it."""
    ((lsn,),) = server.execute("SELECT pg_current_wal_flush_lsn()::text").fetchall()
    return lsn_of(lsn)


def wait_for_running(server: Connection) -> None:
    """Waits for all transactions that are running. What a new slot leaves out as committed is then visible to every
    snapshot; a transaction may be in the log and not yet be visible.
    """
    ((following,),) = server.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchall()
    query = "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= %s::xid8"
    while server.execute(query, [following]).fetchall() != [(True,)]:
        time.sleep(0.05)
