"""What the state of windows with aggregates depends on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.explain.window_text import firing_text, window_text
from sqlstream.planner.firing import LateAction
from sqlstream.planner.keeping import Kept, kept
from sqlstream.planner.meanings import Names, meaning, names_of, names_tables
from sqlstream.planner.nodes import Item, Schema
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.window_kernels import WindowKernelKind, kind_of
from sqlstream.planner.operators.windows import kept_by_windows, names_of_columns
from sqlstream.planner.physical.state_facts import keys_fact, reads_windows, state_facts, title_of
from sqlstream.planner.properties import changelog_mode, keeps_rows, window_of


def types_of_aggregate(aggregate: Item, rows: Schema) -> str:
    """The type of an aggregate and those of what it reads of its rows."""
    types = {f.name: f.type for f in rows}
    read = [str(types[c.name]) for c in aggregate.expression.find_all(exp.Column) if c.name in types]
    return f"{aggregate.type} of {', '.join(read)}" if read else str(aggregate.type)
