"""Tables whose changes do not say which row was there before."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.planner.binder.context import Context, Relation
from sqlstream.planner.catalog import APPEND_ONLY, Table
from sqlstream.planner.changes import is_upsert
from sqlstream.planner.operators.normalize import Normalize


def normalized(table: Table, relation: Relation, alias: str, context: Context) -> Relation:
    """The rows of a table, which say what was there before where its changes do not; a rule takes that away again
    where nobody reads it. ``alias``: what the table is called in FROM."""
    repeated = context.settings.repeated_changes and table.changelog != APPEND_ONLY
    if not table.primary_key or not (is_upsert(table) or repeated):
        return relation
    return replace(relation, node=Normalize(relation.node, table.primary_key, context.ttl_of(alias)))
