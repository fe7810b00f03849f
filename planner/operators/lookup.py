"""Lookups: for each row the rows that a source outside has for its key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, Function, RowKind, Table, TimeDomain
from sqlstream.planner.changes import made_by, taken_by, takes_changes, upsert_keys
from sqlstream.planner.explain.advice import Topic, remarks
from sqlstream.planner.explain.window_text import sql
from sqlstream.planner.keeping import Kept, after, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import meaning, names_of
from sqlstream.planner.nodes import Field, Item, Node, Schema, Unary
from sqlstream.planner.physical.state_facts import rows_fact, state_facts, title_of
from sqlstream.planner.properties import (
    ArrivalOrder,
    WindowInfo,
    arrival_order,
    changelog_mode,
    is_joint,
    keeps_state,
    side_table,
    table_read,
    unique_keys,
    uses_processing_time,
    window_of,
)
from sqlstream.planner.rewriting import columns_of, conjunction, conjuncts
from sqlstream.planner.rules.fold_constants import folded, folded_item, is_boolean, with_folded
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import Conditions, filtered, into, passes
from sqlstream.planner.rules.push_lookup_filters import Accepts, Columns, comparisons, with_filters
from sqlstream.udfs.lookup.options import DEFAULT_LOOKUP, LookupOptions, Order
from sqlstream.udfs.lookup.source import Comparison

LOOKUP_ERROR = "__lookup_error"


@dataclass(frozen=True)
class FailedRows:
    """Where rows go whose lookup failed: ``values`` are the physical columns of the table, in order and cast.

    Expressions over the input of the lookup and LOOKUP_ERROR, the STRING that says what went wrong.
    """

    table: Table
    values: tuple[exp.Expression, ...]


@dataclass(frozen=True)
class Lookup(Unary):
    """For each row the rows that a source outside has for its key; ``outer`` keeps rows without any.

    ``source`` is a table with a lookup connector or an asynchronous function. ``keys`` are named by the columns of the
    table (the parameters of the function), with expressions over the input cast to their types; a row with a NULL
    among them finds nothing. ``read`` are the physical columns asked for (the members of the function's row), under
    their own names. ``outputs`` are the fields that are added: expressions over ``read`` alone, NULL where nothing
    was found. ``filters`` compare columns of the table with constants, in the source; ``condition``, over input and
    outputs, is the rest of ON. ``ttl_ms``: how long answers are remembered for rows that may be retracted; 0: for ever.
    """

    source: Table | Function
    keys: tuple[Item, ...]
    read: Schema
    outputs: tuple[Item, ...]
    outer: bool = False
    filters: tuple[Comparison, ...] = ()
    condition: exp.Expression | None = None
    options: LookupOptions = DEFAULT_LOOKUP
    failed: FailedRows | None = None
    ttl_ms: int = 0

    @cached_property
    def schema(self) -> Schema:
        added = (Field(o.name, o.type, self.outer or o.nullable) for o in self.outputs)
        return (*self.input.schema, *added)


# --- properties -----------------------------------------------------------------------------------------------


def remembers(node: Lookup) -> bool:
    """Rows of the input may be retracted: the answers that they came with are kept for that."""
    return changelog_mode(node.input) != APPEND_ONLY


def told_apart_by(node: Lookup) -> tuple[str, ...]:
    """The fields that tell which row is retracted: the clock may have moved on since it came."""
    return tuple(field.name for field in node.input.schema if field.time is not TimeDomain.PROCESSING)


def remembered_by(node: Lookup) -> tuple[str, ...]:
    """The fields whose values are those of a row and of all that retract it, or take its place where that is known."""
    keys = sorted(upsert_keys(node.input), key=lambda key: (len(key), sorted(key)))
    return tuple(sorted(keys[0])) if keys else told_apart_by(node)


@keeps_state.register
def _(node: Lookup) -> bool:
    return node.options.defers or remembers(node)


@is_joint.register
def _(node: Lookup) -> bool:
    return not keeps_state(node)


@uses_processing_time.register
def _(node: Lookup) -> bool:
    """Answers must be forgotten."""
    return node.ttl_ms > 0


@window_of.register
def _(node: Lookup) -> WindowInfo | None:
    return window_of(node.input)


@unique_keys.register
def _(node: Lookup) -> frozenset[frozenset[str]]:
    """A lookup by the whole primary key finds at most one row."""
    key = node.source.primary_key if isinstance(node.source, Table) else ()
    is_by_key = bool(key) and set(key) <= {k.name for k in node.keys}
    return unique_keys(node.input) if is_by_key else frozenset()


@arrival_order.register
def _(node: Lookup) -> ArrivalOrder:
    """In order per key is not the order of the input either."""
    if remembers(node):
        return ArrivalOrder.MIXED
    return arrival_order(node.input) if node.options.order is Order.ORDERED else ArrivalOrder.ANSWERS


@table_read.register
def _(node: Lookup) -> tuple[Table, tuple[str, ...]] | None:
    names = (*(key.name for key in node.keys), *(field.name for field in node.read))
    return (node.source, names) if isinstance(node.source, Table) else None


@side_table.register
def _(node: Lookup) -> Table | None:
    return node.failed.table if node.failed is not None else None


@remarks.register
def _(node: Lookup) -> Iterator[tuple[Topic, str]]:
    if not node.options.asynchronous:
        text = f'"{node.source.name}" is asked for one row after the other: LOOKUP ASYNC asks for many at once.'
        yield Topic.ONE_AT_A_TIME, text


# --- rules ----------------------------------------------------------------------------------------------------


@with_folded.register
def _(node: Lookup) -> Node:
    condition = folded(node.condition) if node.condition is not None else None
    rest = None if condition is not None and is_boolean(condition, True) else condition
    keys, outputs = tuple(map(folded_item, node.keys)), tuple(map(folded_item, node.outputs))
    return replace(node, keys=keys, outputs=outputs, condition=rest)


@pruned.register
def _(node: Lookup, required: Names) -> Node:
    wanted = required | columns_of(node.condition) if node.condition is not None else required
    # Rows are counted by what is left, so one output stays; a key is known without reading more.
    outputs = tuple(o for o in node.outputs if o.name in wanted) or (_cheapest(node),)
    read = frozenset().union(*(columns_of(o.expression) for o in outputs))
    asked = frozenset().union(*(columns_of(k.expression) for k in node.keys))
    failed = frozenset().union(*(columns_of(v) for v in node.failed.values)) if node.failed else frozenset()
    below = ((wanted - {o.name for o in node.outputs}) | asked | failed) - {LOOKUP_ERROR}
    rebuilt = replace(node, outputs=outputs, read=tuple(f for f in node.read if f.name in read))
    return replace(rebuilt, input=pruned(node.input, below))


def _cheapest(node: Lookup) -> Item:
    keys = {k.name for k in node.keys}
    return next((o for o in node.outputs if columns_of(o.expression) <= keys), node.outputs[0])


@passes.register
def _(node: Lookup, read: set[str]) -> bool:
    """UNSAFE with outer on the new fields, as for Correlate; without, the rest of ON takes them."""
    return not node.outer or not read & {o.name for o in node.outputs}


@into.register
def _(node: Lookup, conditions: Conditions) -> Node:
    """Rows that the left side alone rules out are not asked for; the others are part of ON."""
    added = {o.name for o in node.outputs}
    below = [c for c in conditions if not columns_of(c) & added]
    rest = [c for c in conditions if columns_of(c) & added]
    given = conjuncts(node.condition) if node.condition is not None else []
    together = conjunction([*given, *rest]) if given or rest else None
    return replace(node, input=filtered(node.input, below) if below else node.input, condition=together)


@with_filters.register
def _(node: Lookup, accepts: Accepts) -> Node:
    if node.condition is None or not isinstance(node.source, Table):
        return node
    table, columns = node.source, _columns(node)
    filters, kept = list(node.filters), list[exp.Expression]()
    for condition in conjuncts(node.condition):
        pushed = comparisons(condition, columns)
        if pushed and all(accepts(table, c) for c in pushed):
            filters += [c for c in pushed if c not in filters]
        else:
            kept.append(condition)
    return replace(node, filters=tuple(filters), condition=conjunction(kept) if kept else None)


def _columns(node: Lookup) -> Columns:
    types = {f.name: f.type for f in node.read}
    columns = ((o.name, o.expression.name) for o in node.outputs if isinstance(o.expression, exp.Column))
    return {output: (column, types[column]) for output, column in columns}


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: Lookup) -> Meanings:
    added = {o.name: f"{node.source.name}.{sql(o.expression)}" for o in node.outputs}
    return {**names_of(node.input), **added}


@title_of.register
def _(node: Lookup) -> tuple[str, str]:
    title = "lookup over changes" if remembers(node) else "lookup that defers rows"
    return title, f'lookup in "{node.source.name}"'


@state_facts.register
def _(node: Lookup) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "table", node.source.name
    yield "keys", ", ".join(f"{k.name} = {meaning(k.expression, names)} {k.type}" for k in node.keys)
    yield "columns that are read", ", ".join(f"{f.name} {f.type}" for f in node.read)
    yield "order", node.options.order.name
    yield "columns", rows_fact(node.input)
    if remembers(node):
        yield "rows", f"told apart by {', '.join(names[name] for name in told_apart_by(node))}"
        yield "key", ", ".join(names[name] for name in remembered_by(node))
        yield "forgets", "answers after a time" if node.ttl_ms else "nothing"
        yield "defers", "rows without an answer" if node.options.defers else "nothing"


# --- changes --------------------------------------------------------------------------------------------------


@changelog_mode.register
def _(node: Lookup) -> frozenset[RowKind]:
    """What is found for a row need not be what was found for the one that it takes the place of."""
    return frozenset({RowKind.INSERT, RowKind.DELETE}) if remembers(node) else APPEND_ONLY


@takes_changes.register
def _(node: Lookup, port: int = 0) -> frozenset[RowKind]:
    return ALL_KINDS


@upsert_keys.register
def _(node: Lookup) -> frozenset[frozenset[str]]:
    """Changes of a key follow each other in the key group of the rows."""
    keys = unique_keys(node)
    return frozenset(key for key in keys if key >= set(remembered_by(node))) if remembers(node) else keys


@taken_by.register
@made_by.register
def _(node: Lookup) -> str:
    return f'a lookup in "{node.source.name}"'


@kept.register
def _(node: Lookup) -> Iterator[Kept]:
    if node.options.defers:
        yield Kept("rows whose lookup was deferred", "they are answered")
    if remembers(node):
        yield Kept("the answers of rows that may be retracted", after(node.ttl_ms, "the row came"))
