"""The clauses of windows that Spark's own operators cannot execute, so that the query needs the columnar gear."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import NoReturn

from sqlstream.errors import UnsupportedError
from sqlstream.planner.catalog import Table
from sqlstream.planner.nodes import Node

ONLY_COLUMNAR = "SS390"


def require_native(node: Node) -> None:
    """UnsupportedError SS390 that names the first clause of an operator with state that Spark's own cannot run."""
    clause = node.columnar_only_clause
    if clause is not None:
        _refuse(clause)


def require_passage(what: str, table: Table | None, stateful_above: Sequence[Node]) -> None:
    """UnsupportedError SS390 where one of Spark's own operators with state would keep rows for ``table``."""
    if table is not None and stateful_above:
        _refuse(f"{what} below a window")


def _refuse(what: str) -> NoReturn:
    verb = "are" if what.startswith("dead letters") else "is"
    message = f"{what} {verb} not executed on Spark's native operators"
    raise UnsupportedError(ONLY_COLUMNAR, message, hint="SET 'sqlstream.gear' = 'auto'.")
