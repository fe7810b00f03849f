"""ALTER TABLE … COMPACT and EXPIRE SNAPSHOTS: what is done to the files of a table, whose rows stay as they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from sqlglot import exp

from sqlstream.connectors import MaintainedTable, connector
from sqlstream.errors import BindError
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import Table
from sqlstream.planner.intervals import interval_ms
from sqlstream.statements.partitions import WRONG_CHANGE

Upkeep = nodes.Compact | nodes.ExpireSnapshots


def require_upkeep(change: Upkeep, table: Table, zone: str) -> None:
    """Raises BindError SS249 where the connector of the table does no such thing, and for a time that is none."""
    if not isinstance(connector(table.connector), MaintainedTable):
        what = "small files" if isinstance(change, nodes.Compact) else "snapshots"
        message = f'connector "{table.connector}" of table "{table.name}" has no {what} to look after'
        raise BindError(
            WRONG_CHANGE, message, change.span, hint="Tables of the connectors delta and iceberg have them."
        )
    if isinstance(change, nodes.ExpireSnapshots):
        _before(change, zone)


def look_after(change: Upkeep, table: Table, zone: str) -> None:
    """Does to the files of the table what ALTER TABLE says."""
    kind = connector(table.connector)
    assert isinstance(kind, MaintainedTable), table.connector
    if isinstance(change, nodes.Compact):
        kind.compact(table)
    else:
        kind.expire_snapshots(table, _before(change, zone))


def _before(change: nodes.ExpireSnapshots, zone: str) -> datetime | None:
    """The time before which snapshots are old; None for that of the table itself. ``zone``: of times without one."""
    value = change.older_than
    if value is None:
        return None
    text = value.this if isinstance(value, exp.Cast) else value
    if not isinstance(text, exp.Literal) or not text.is_string:
        return datetime.now(UTC) - timedelta(milliseconds=interval_ms(value, "OLDER THAN", change.span))
    try:
        time = datetime.fromisoformat(text.name.strip())
    except ValueError:
        hint = "Write OLDER THAN INTERVAL '7' DAY, or OLDER THAN TIMESTAMP '2024-01-31 12:00:00'."
        raise BindError(WRONG_CHANGE, f"'{text.name}' is no time", change.span, hint=hint) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=ZoneInfo(zone))
