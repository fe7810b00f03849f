"""Aggregates per key over all rows so far, whose results are updated; without aggregates, distinct rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind
from sqlstream.planner.changes import instead_of, made_by, taken_by, takes_changes
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe, item_text
from sqlstream.planner.keeping import Kept, after, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import meaning, names_of
from sqlstream.planner.nodes import Field, Item, Node, Schema, Unary
from sqlstream.planner.operators.window_kernels import GROUPING_SET, sees_order, sees_ties
from sqlstream.planner.operators.window_state import types_of_aggregate
from sqlstream.planner.physical.aggregate_arguments import read_by
from sqlstream.planner.physical.kernels import keys_of, sees_arrival
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.readers import FieldsRead, fields_read
from sqlstream.planner.physical.state_facts import keys_fact, state_facts, title_of
from sqlstream.planner.physical.text import before_exchange, kernel
from sqlstream.planner.properties import changelog_mode, keeps_state, unique_keys, uses_processing_time
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.rules.fold_constants import folded_item, with_folded
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import passes
from sqlstream.planner.rules.remove_unused_time import needed_below
from sqlstream.types import DataType


@dataclass(frozen=True)
class GroupAggregate(Unary):
    """One row per value of ``keys`` that some row has, or one row in all without keys, once there are rows.

    ``aggregates`` are calls of one aggregate function each. ``grouping_sets`` lists, for GROUPING SETS, the keys of
    each set, and ``grouping_id`` then names an extra BIGINT field with GROUPING_ID over all ``keys`` in order; keys
    that a set leaves out are NULL in the result. ``ttl_ms``: a group is forgotten so long after its last row came or
    went, and its result stays as it is; 0: never. Schema: keys, grouping_id, aggregates.
    """

    keys: tuple[str, ...]
    aggregates: tuple[Item, ...] = ()
    grouping_sets: tuple[tuple[str, ...], ...] | None = None
    grouping_id: str | None = None
    ttl_ms: int = 0

    @cached_property
    def schema(self) -> Schema:
        by_name = {f.name: f for f in self.input.schema}
        nullable = self.grouping_sets is not None
        keys = tuple(Field(k, by_name[k].type, nullable or by_name[k].nullable) for k in self.keys)
        grouping = (Field(self.grouping_id, DataType("BIGINT"), False),) if self.grouping_id else ()
        return (*keys, *grouping, *(replace(a.field, time=None) for a in self.aggregates))


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: GroupAggregate) -> bool:
    return True


@uses_processing_time.register
def _(node: GroupAggregate) -> bool:
    """Groups must be forgotten."""
    return node.ttl_ms > 0


@changelog_mode.register
def _(node: GroupAggregate) -> frozenset[RowKind]:
    """Groups go where their rows do. Distinct rows that only come stay what they are."""
    kinds = ALL_KINDS if node.aggregates else frozenset({RowKind.INSERT, RowKind.DELETE})
    return kinds if changelog_mode(node.input) != APPEND_ONLY else kinds - {RowKind.DELETE}


@takes_changes.register
def _(node: GroupAggregate, port: int = 0) -> frozenset[RowKind]:
    return ALL_KINDS


@unique_keys.register
def _(node: GroupAggregate) -> frozenset[frozenset[str]]:
    grouping = {node.grouping_id} if node.grouping_id else set()
    return frozenset({frozenset({*node.keys, *grouping})})


@made_by.register
@taken_by.register
def _(node: GroupAggregate) -> str:
    if not node.aggregates:
        return "the distinct rows"
    return "the GROUP BY without a window" if node.keys else "the aggregate without a window"


@instead_of.register
def _(node: GroupAggregate) -> str:
    return "group by a window too, so that each result comes out once: GROUP BY …, TUMBLE(ts, INTERVAL '1' MINUTE)"


# --- rules ----------------------------------------------------------------------------------------------------


@with_folded.register
def _(node: GroupAggregate) -> Node:
    return replace(node, aggregates=tuple(map(folded_item, node.aggregates)))


@pruned.register
def _(node: GroupAggregate, required: Names) -> Node:
    """Without keys one aggregate stays: rows are counted by what is left."""
    required_aggregates = tuple(a for a in node.aggregates if a.name in required)
    aggregates = required_aggregates if required_aggregates or node.keys else node.aggregates[:1]
    read = frozenset(node.keys).union(*(columns_of(a.expression) for a in aggregates))
    return replace(node, aggregates=aggregates, input=pruned(node.input, read))


@passes.register
def _(node: GroupAggregate, read: set[str]) -> bool:
    """UNSAFE with grouping sets, where a key is NULL above only, and on aggregates."""
    return bool(read) and read <= set(node.keys) and node.grouping_sets is None


@needed_below.register
def _(node: GroupAggregate, needed: Names) -> Names:
    return frozenset()


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: GroupAggregate) -> str:
    parts = [f"keys {', '.join(node.keys)}"] if node.keys else []
    if node.grouping_sets is not None:
        sets = ", ".join(f"({', '.join(s)})" for s in node.grouping_sets)
        parts.append(f"sets {sets} as {node.grouping_id}")
    parts += map(item_text, node.aggregates)
    if node.ttl_ms:
        parts.append(f"forgets groups after {readable(node.ttl_ms)}")
    return f"GroupAggregate({'; '.join(parts)})"


# --- what runs ------------------------------------------------------------------------------------------------


@keys_of.register
def _(node: GroupAggregate) -> tuple[str, ...]:
    return (*node.keys, GROUPING_SET) if node.grouping_sets is not None else node.keys


@before_exchange.register
def _(node: GroupAggregate) -> str | None:
    return "explode of the grouping sets" if node.grouping_sets is not None else None


@sees_arrival.register
def _(node: GroupAggregate) -> bool:
    """Changes of a row must come in their order; so must the values of some aggregates."""
    shows = (sees_order(item.expression) or sees_ties(item.expression) for item in node.aggregates)
    return changelog_mode(node.input) != APPEND_ONLY or any(shows)


@fields_read.register
def _(node: GroupAggregate, port: int = 0) -> FieldsRead | None:
    read = [expression for item in node.aggregates for expression in read_by(item)]
    if node.grouping_sets is not None or not all(isinstance(expression, exp.Column) for expression in read):
        return None
    return FieldsRead(tuple(dict.fromkeys([*node.keys, *(expression.name for expression in read)])), node.keys)


@only_columnar.register
def _(node: GroupAggregate) -> str | None:
    return "an aggregate without a window"


@kernel.register
def _(node: GroupAggregate) -> str:
    if not node.aggregates:
        return "that keeps each row once"
    retracts = changelog_mode(node.input) != APPEND_ONLY
    return f"that updates a row per group{', also when rows go' if retracts else ''}"


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: GroupAggregate) -> Meanings:
    below = names_of(node.input)
    meanings = {key: below[key] for key in node.keys}
    meanings |= {a.name: meaning(a.expression, below) for a in node.aggregates}
    return meanings | ({node.grouping_id: "grouping_id"} if node.grouping_id else {})


@title_of.register
def _(node: GroupAggregate) -> tuple[str, str]:
    return "group aggregate", "the aggregate without a window"


@state_facts.register
def _(node: GroupAggregate) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "keys", keys_fact(node.input, node.keys, names)
    if node.grouping_sets is not None:
        yield "grouping sets", ", ".join(f"({', '.join(names[k] for k in s)})" for s in node.grouping_sets)
    yield "aggregates", ", ".join(meaning(a.expression, names) for a in node.aggregates)
    yield "types of aggregates", ", ".join(types_of_aggregate(a, node.input.schema) for a in node.aggregates)
    yield "rows", "come" if changelog_mode(node.input) == APPEND_ONLY else "come and go"
    yield "forgets", "groups after a time" if node.ttl_ms else "nothing"
    # What is kept of rows stands under names that are made of the expressions.
    read = {c.name for a in node.aggregates for c in a.expression.find_all(exp.Column)}
    yield "columns", ", ".join(f.name for f in node.input.schema if f.name in read)


@kept.register
def _(node: GroupAggregate) -> Iterator[Kept]:
    if not node.keys:
        yield Kept("the accumulators of one group", "there is one group")
    else:
        what = "the accumulators of each group" if node.aggregates else "each distinct row"
        yield Kept(what, after(node.ttl_ms, "the last row of the group came or went"))
