"""How each aggregate call of a GROUP BY is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from sqlstream.udfs.aggregates import AggregateCall, Aggregates
from sqlstream.udfs.groups.changed import AggregateStrategy
from sqlstream.udfs.groups.distinct import DistinctValues
from sqlstream.udfs.groups.stored_rows import StoredRows
from sqlstream.udfs.groups.totals import Totals
from sqlstream.udfs.state.living import Living

Calls = list[AggregateCall]


def strategies_of(
    calls: Sequence[AggregateCall], keys: Sequence[str], rows: pa.Schema, *, updates: bool, living: Living
) -> tuple[AggregateStrategy, ...]:
    """Parts that compute all calls over ``rows`` by ``keys``. ``updates``: rows may go. UnsupportedError SS395 for
    calls that are not executed."""
    distinct: dict[tuple[tuple[str, ...], str | None], Calls] = {}
    total: Calls = []
    extreme: Calls = []
    kept: Calls = []
    for call in calls:
        plain = Aggregates((replace(call, distinct=False),), rows, retracting=True)
        if call.distinct and plain.retracts:
            values = tuple(dict.fromkeys(call.arguments))
            distinct.setdefault((values, call.filter), []).append(replace(call, distinct=False, filter=None))
        elif plain.retracts or not updates:
            total.append(call)
        else:
            (extreme if plain.may_survive else kept).append(call)
    by_key = pa.schema([rows.field(name) for name in keys])
    strategies: list[AggregateStrategy] = [Totals(Aggregates(tuple(total), rows, retracting=updates))] if total else []
    for number, ((values, condition), own) in enumerate(distinct.items()):
        read = pa.schema([rows.field(name) for name in values])
        name = f"distinct_{number}"
        totals = Totals(Aggregates(tuple(own), read, retracting=updates), f"__{name}")
        strategies.append(DistinctValues(name, by_key, read, condition, totals, updates, living))
    for name, own in (("extremes", extreme), ("rows", kept)):
        if own:
            strategies.append(StoredRows(name, by_key, Aggregates(tuple(own), pa.schema([*_read(own, rows)]))))
    return tuple(strategies)


def _read(calls: Calls, rows: pa.Schema) -> Iterator[pa.Field]:
    """The columns that calls read."""
    names = {n for c in calls for n in (*c.arguments, *([c.filter] if c.filter else []), *(o.column for o in c.order))}
    return (field for field in rows if field.name in names)
