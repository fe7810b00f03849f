"""Reads tables of lakes as micro-batches do, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sqlstream.connectors.lakes.logs import log_of
from sqlstream.connectors.lakes.rows import reader_of, splits
from sqlstream.connectors.lakes.versions import LakeSettings, Position, advanced, between
from sqlstream.udfs.kernel import ROW_KIND


def rows_of(own: LakeSettings, files: Any) -> list[tuple[Any, ...]]:
    types = {name: kind.to_arrow() for name, kind in own.types.items()}
    kinds = [(ROW_KIND, pa.string())] if own.changes else []
    schema = pa.schema([*types.items(), *kinds])
    read = reader_of(schema, types, own).rows([splits([file for file in files if not file.pruned])])
    return [tuple(row.values()) for batch in read for row in batch.to_pylist()]


def together(batches: list[list[Any]]) -> list[Any]:
    return [row for batch in batches for row in batch]


def batches_of(own: LakeSettings, start: Position | None = None, target: int | None = None) -> list[Any]:
    """The rows of each micro-batch until nothing more is there."""
    log = log_of(own)
    position, batches = start or log.first_position(), []
    log.newest()
    while (after := advanced(log, own, position, target)) != position:
        assert Position.of_json(after.to_json()) == after
        batches.append(rows_of(own, between(log, position, after)))
        position = after
    return batches


def materialized(batches: list[Any]) -> set[tuple[Any, ...]]:
    """The rows that changes leave; each retraction must meet its row."""
    rows: dict[tuple[Any, ...], int] = {}
    for batch in batches:
        for *row, kind in batch:
            count = rows.get(tuple(row), 0) + (1 if kind in ("+I", "+U") else -1)
            assert count >= 0, row
            rows[tuple(row)] = count
    return {row for row, count in rows.items() for _ in range(count)}
