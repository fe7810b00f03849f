"""Which way a query runs: as a stream, or as one query of Spark SQL over finished data; and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlstream.errors import Diagnostic
from sqlstream.planner import unsupported
from sqlstream.planner.bad_rows import action_of
from sqlstream.planner.batch.inputs import Input, Resolved
from sqlstream.planner.batch.streaming_clauses import Clause, streaming_clause
from sqlstream.planner.catalog import APPEND_ONLY, Catalog, Table

ALL_BOUNDED = "all inputs are bounded"


@dataclass(frozen=True)
class Way:
    """What stands in the way of a batch: an input without an end, a clause of streams. ``why`` is for EXPLAIN."""

    unbounded: Input | None = None
    clause: Clause | None = None
    changing: Input | None = None

    @property
    def may_be_batch(self) -> bool:
        return self.unbounded is None and self.clause is None and self.changing is None

    @property
    def why(self) -> str:
        if self.unbounded is not None:
            return f'table "{self.unbounded.table.name}" has no end'
        if self.clause is not None:
            return f"{self.clause.name} makes a stream of it"
        if self.changing is not None:
            return f'table "{self.changing.table.name}" has {_of_streams(self.changing.table)}'
        return ALL_BOUNDED


def chosen_way(resolved: Resolved, catalog: Catalog, ends: Callable[[Table], bool]) -> Way:
    """``ends`` says of a table whether all of its rows are there."""
    return Way(
        next((table_input for table_input in resolved.inputs if not ends(table_input.table)), None),
        streaming_clause(resolved.query, catalog),
        next((table_input for table_input in resolved.inputs if _of_streams(table_input.table)), None),
    )


def _of_streams(table: Table) -> str | None:
    """What of a table only a stream reads."""
    if table.changelog != APPEND_ONLY:
        return "updates and deletions"
    return "a table for its bad rows" if action_of(table)[1] is not None else None


_ORDER, _LIMIT, _NO_TABLE_FIRST = "SS217", "SS642", "SS220"
_NOT_DECIDED = ("SS291", "SS292", "SS293")  # conditions of joins that kernels do not decide
_VALUES = "SS651"  # types that have no common one here
_FEATURES = (
    "join", "kind of join", "over", "over here", "over frame", "over function", "subquery", "pivot",
    "sample", "recursive", "named arguments", "quantified", "process function",
)  # fmt: skip
_EXECUTED = frozenset(
    {_ORDER, _LIMIT, _NO_TABLE_FIRST, *_NOT_DECIDED, _VALUES, *(unsupported.FEATURES[name].code for name in _FEATURES)}
)
_NAMES_ARE_THE_SAME = frozenset({_ORDER, _LIMIT})


def batch_features(wrong: Iterable[Diagnostic], *also: str) -> tuple[bool, tuple[Diagnostic, ...]]:
    """Whether what a stream refuses is among ``wrong``, and executed over finished data; and what is wrong then, too.

    Where the query only sorts its rows, or leaves some out, all else that the binder says of it holds. Elsewhere it has
    looked at parts that mean something else to Spark.
    """
    problems = tuple(wrong)
    executed = _EXECUTED | set(also)
    features = {d.code for d in problems} & executed
    if not features:
        return False, problems
    return True, tuple(d for d in problems if d.code not in executed) if features <= _NAMES_ARE_THE_SAME else ()
