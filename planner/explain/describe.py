"""One line per node: what it does, without its inputs."""

from __future__ import annotations

from functools import singledispatch

from sqlstream.planner.bad_rows import OnError
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.window_text import sql
from sqlstream.planner.nodes import (
    AssignTime,
    Correlate,
    Filter,
    Insert,
    Item,
    Node,
    Output,
    Project,
    Scan,
    StatementSet,
    Union,
)


def _bad_rows(on_error: OnError) -> str:
    if on_error.table is not None:
        return f"; bad rows to {on_error.table.name}"
    return "; bad rows skipped" if on_error.tolerates else ""
