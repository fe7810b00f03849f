"""Derived properties of plan nodes: what a node's output looks like beyond its schema.

Each property is one function over node types. The binder asks for windows, tests for the order of rows, EXPLAIN
shows the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import singledispatch

from sqlglot import exp

from sqlstream.planner.bad_rows import columns_to_read
from sqlstream.planner.catalog import APPEND_ONLY, RowKind, Table, TimeDomain
from sqlstream.planner.nodes import (
    AssignTime,
    Correlate,
    Field,
    Filter,
    Insert,
    Node,
    Output,
    Project,
    Scan,
    StatementSet,
    Unary,
    Union,
)
from sqlstream.planner.remembering import remembered
from sqlstream.planner.windows import Window


_KIND_NAMES = (
    (RowKind.INSERT, "I"),
    (RowKind.UPDATE_BEFORE, "UB"),
    (RowKind.UPDATE_AFTER, "UA"),
    (RowKind.DELETE, "D"),
)


def changelog_text(kinds: frozenset[RowKind]) -> str:
    """``I,UB,UA,D``, as the option ``changelog-mode`` spells it."""
    return ",".join(name for kind, name in _KIND_NAMES if kind in kinds)


# --- tables ---------------------------------------------------------------------------------------------------


def dead_letter_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that get bad rows, each once."""
    tables = [node.on_error.table for node in plan.walk() if isinstance(node, Scan)]
    tables += [node.functions.table for node in plan.walk() if isinstance(node, Output | Insert)]
    return tuple({table.name: table for table in tables if table is not None}.values())


# --- windows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowInfo:
    """The window whose columns a node's rows carry; None for a column that was projected away.

    ``keys`` are the fields by which a session was assigned, None once one of them is gone.
    """

    window: Window
    start: str | None
    end: str | None
    time: str | None
    domain: TimeDomain
    keys: tuple[str, ...] | None = ()

    @property
    def columns(self) -> tuple[str | None, str | None, str | None]:
        return self.start, self.end, self.time


class ArrivalOrder(Enum):
    """How the rows of a node follow each other."""

    SOURCE = "source"  # as the source delivered them
    MIXED = "mixed"  # several sources, each in its order
    WINDOW = "window"  # by the end of windows, unordered within
    ANSWERS = "answers"  # as lookups were answered
