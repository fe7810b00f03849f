"""ASOF join of updating rows: each row of the left side beside the nearest row of its key, by any value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, RowKind
from sqlstream.planner.changes import instead_of, takes_changes
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.explain.window_text import sql
from sqlstream.planner.joining import Join, equalities_text, join_facts, names_in, pruned_below, timeless
from sqlstream.planner.keeping import Kept, after, kept
from sqlstream.planner.meanings import meaning, names_of
from sqlstream.planner.nodes import Node, Schema
from sqlstream.planner.physical.kernels import sees_arrival
from sqlstream.planner.physical.readers import FieldsRead, fields_read
from sqlstream.planner.physical.state_facts import state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import changelog_mode, unique_keys, uses_processing_time
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import Conditions, filtered, into, passes
from sqlstream.planner.rules.remove_unused_time import needed_below
from sqlstream.udfs.joins.condition import Comparison


@dataclass(frozen=True, kw_only=True)
class AsofJoin(Join):
    """Each row of ``left``, which has one partner at most; ``kind`` is INNER or LEFT. Its partner is the right row with
    the nearest ``right_value`` of those for which ``left_value``, ``comparison``, ``right_value`` is true, as is
    ``condition``. Of equal values the first one by ``first_by`` counts, then the first that came.

    Rows of either side may come in any order, so a partner may be replaced by one that is nearer. ``ttl_ms``: the rows
    of a key are forgotten so long after the last of them came; 0: never.
    """

    left_value: exp.Expression
    right_value: exp.Expression
    comparison: Comparison
    first_by: tuple[str, ...]
    ttl_ms: int = 0

    @cached_property
    def schema(self) -> Schema:
        return tuple(map(timeless, super().schema))

    @property
    def values(self) -> tuple[exp.Expression, exp.Expression]:
        return self.left_value, self.right_value

    @property
    def above(self) -> bool:
        """Is the right value the least one that is not below the left one?"""
        return self.comparison in (Comparison.LESS, Comparison.LESS_OR_EQUAL)

    @property
    def strict(self) -> bool:
        return self.comparison in (Comparison.LESS, Comparison.GREATER)

    @property
    def match_text(self) -> str:
        return f"{sql(self.left_value)} {self.comparison.value} {sql(self.right_value)}"


# --- properties and changes -----------------------------------------------------------------------------------


@unique_keys.register
def _(node: AsofJoin) -> frozenset[frozenset[str]]:
    return unique_keys(node.left)


@changelog_mode.register
def _(node: AsofJoin) -> frozenset[RowKind]:
    return frozenset({RowKind.INSERT, RowKind.DELETE})


@takes_changes.register
def _(node: AsofJoin, port: int = 0) -> frozenset[RowKind]:
    return ALL_KINDS


@instead_of.register
def _(node: AsofJoin) -> str:
    return (
        "compare the columns of a WATERMARK of both sides with >= or >, so that a row comes out when the watermark "
        "reaches it"
    )


@uses_processing_time.register
def _(node: AsofJoin) -> bool:
    """Keys must be forgotten."""
    return node.ttl_ms > 0


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: AsofJoin, required: Names) -> Node:
    read = frozenset().union(*map(columns_of, node.values))
    return pruned_below(node, required | node.read | read | {*node.first_by})


@needed_below.register
def _(node: AsofJoin, needed: Names) -> Names:
    return frozenset()


@passes.register
def _(node: AsofJoin, read: set[str]) -> bool:
    """UNSAFE for the right side: without its partner a left row has the next one."""
    return bool(read) and read <= names_in(node.left)


@into.register
def _(node: AsofJoin, conditions: Conditions) -> Node:
    assert all(columns_of(condition) <= names_in(node.left) for condition in conditions)
    return replace(node, left=filtered(node.left, conditions))


# --- what runs ------------------------------------------------------------------------------------------------


@fields_read.register
def _(node: AsofJoin, port: int = 0) -> FieldsRead | None:
    """The value that is compared is computed."""
    return None


@sees_arrival.register
def _(node: AsofJoin) -> bool:
    return True


# --- texts and state ------------------------------------------------------------------------------------------


@describe.register
def _(node: AsofJoin) -> str:
    first = [f"of equal ones the first by {', '.join(node.first_by)}"] if node.first_by else []
    parts = [node.kind.value, " AND ".join(equalities_text(node)) or "TRUE", f"nearest {node.match_text}", *first]
    parts += [f"forgets keys after {readable(node.ttl_ms)}"] if node.ttl_ms else []
    return f"AsofJoin({'; '.join(parts)})"


@kernel.register
def _(node: AsofJoin) -> str:
    return "that keeps the rows of both sides, and compares the nearest ones before and after each change"


@title_of.register
def _(node: AsofJoin) -> tuple[str, str]:
    return "ASOF join", "join"


@state_facts.register
def _(node: AsofJoin) -> Iterator[tuple[str, str]]:
    yield from join_facts(node)
    left, right = names_of(node.left), names_of(node.right)
    yield "nearest", f"{meaning(node.left_value, left)} {node.comparison.value} {meaning(node.right_value, right)}"
    yield "of equal values", f"the first one by {', '.join(right[name] for name in node.first_by) or 'arrival'}"
    yield "forgets", "keys after a time" if node.ttl_ms else "nothing"


@kept.register
def _(node: AsofJoin) -> Iterator[Kept]:
    yield Kept("the rows of both sides", after(node.ttl_ms, "the last row of their key came"))
