"""Notices where sinks have lost rows: ``sinks.json`` in the checkpoint records the places a job has written to.

Some sinks keep a log beside the rows that says which of them count, as Spark's file sink does. Without it a job that
goes on would begin anew there, and all earlier rows would count no longer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from sqlstream.connectors import RecoverableSink, SinkWriteRange, connector
from sqlstream.connectors.connector import UNKNOWN_RANGE
from sqlstream.jobs.checkpoints.damage import damaged
from sqlstream.planner.nodes import Insert, StatementSet
from sqlstream.table_uses import side_tables
from sqlstream.udfs.texts import json_of

if TYPE_CHECKING:
    from sqlstream.connectors import Environment
    from sqlstream.jobs.checkpoints.storage import Storage
    from sqlstream.planner.catalog import Table

FILE = "sinks.json"


def require_sinks_intact(environment: Environment, plan: Insert | StatementSet, storage: Storage) -> None:
    """Look at the tables of a plan before it runs, and write down that it writes there.

    Errors as those of ``RecoverableSink.require_intact``; SS459 where the file cannot be read.
    """
    after = -1 if environment.after is None else environment.after
    told = _read(storage)
    recorded, unknown = (told, None) if told is not None else ({}, UNKNOWN_RANGE)
    ranges = {key: replace(r, until=after if r.until is None else r.until) for key, r in recorded.items()}
    for table, streamed in _sinks(plan):
        kind = connector(table.connector)
        if not isinstance(kind, RecoverableSink):
            continue
        key = f"{table.connector} {kind.location(table)}"
        kind.require_intact(environment, table, ranges.get(key, unknown), streamed)
        ranges[key] = SinkWriteRange(since=ranges[key].since if key in ranges else after)
    if ranges != told:
        storage.write(FILE, json.dumps({key: asdict(r) for key, r in ranges.items()}, indent=1))


def sinks_intact(plan: Insert | StatementSet) -> Callable[[int], None]:
    """A function of a complete micro-batch, which raises an error where the sinks of a running job have lost it."""
    streamed = (table for table, by_spark in _sinks(plan) if by_spark)
    sinks = [(table, connector(table.connector)) for table in streamed]
    checks = [(table, kind.require_batch) for table, kind in sinks if isinstance(kind, RecoverableSink)]

    def require(batch: int) -> None:
        for table, check in checks:
            check(table, batch)

    return require


def _sinks(plan: Insert | StatementSet) -> Iterator[tuple[Table, bool]]:
    """The tables that a plan writes, and whether Spark's own sink does."""
    side = side_tables(plan)
    for table in plan.tables if isinstance(plan, StatementSet) else (plan.table,):
        yield table, isinstance(plan, Insert) and not side
    for table in side:
        yield table, False


def _read(storage: Storage) -> Mapping[str, SinkWriteRange] | None:
    text = storage.read(FILE)
    try:
        return None if text is None else {key: SinkWriteRange(**r) for key, r in json_of(text).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise damaged(storage.location(FILE), f"It tells no places of sinks: {error}.") from error
