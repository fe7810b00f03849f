"""Upkeep of Delta tables, which changes no row: small files are put together, and old versions are forgotten."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.connectors.lakes.commits import CommitRetry
from sqlstream.connectors.lakes.delta_columns import delta_errors, open_table
from sqlstream.connectors.lakes.delta_tables import decimal_partitions, is_passing
from sqlstream.connectors.lakes.versions import UNSUPPORTED_FEATURE
from sqlstream.errors import ConnectorError

if TYPE_CHECKING:
    from deltalake import DeltaTable


_SLACK_S = 60
"""Seconds that make no further hour: "older than now" is computed before it is used."""


def compact(name: str, path: str, storage: Mapping[str, str], retry: CommitRetry) -> None:
    """Puts small files of each partition together. ``name``: the table in SQL.

    ConnectorError SS547 where that would spoil the table.
    """

    def together(table: DeltaTable) -> None:
        _require_decimals_above_zero(name, table)
        table.optimize.compact()

    retry.commit(
        f'Delta table "{name}"', partial(open_table, name, path, storage), lambda _: False, together, is_passing
    )


def _require_decimals_above_zero(name: str, table: DeltaTable) -> None:
    decimals = decimal_partitions(table)
    values = (action["partition"] for action in pa.table(table.get_add_actions()).to_pylist()) if decimals else ()
    if any(own[column] is not None and own[column] < 0 for own in values for column in decimals):
        message = (
            f'files of Delta table "{name}" cannot be put together: deltalake spoils partitions of DECIMALs below zero'
        )
        raise ConnectorError(UNSUPPORTED_FEATURE, message, hint="Let Spark do it (OPTIMIZE).")


def expire(name: str, path: str, storage: Mapping[str, str], before: datetime | None, retry: CommitRetry) -> None:
    """Removes the files that versions since ``before`` do not have, or since the time that the table says
    (delta.deletedFileRetentionDuration), and then the log that is older than delta.logRetentionDuration.
    """
    seconds = None if before is None else (datetime.now(UTC) - before).total_seconds()
    hours = None if seconds is None else math.ceil(max(0, seconds - _SLACK_S) / 3600)

    def vacuum(table: DeltaTable) -> None:
        table.vacuum(hours, dry_run=False, enforce_retention_duration=False)

    table = f'Delta table "{name}"'
    retry.commit(table, partial(open_table, name, path, storage), lambda _: False, vacuum, is_passing)
    with delta_errors(name, path):
        newest = open_table(name, path, storage)
        newest.create_checkpoint()
        newest.cleanup_metadata()
