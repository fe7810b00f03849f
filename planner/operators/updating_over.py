"""OVER in any order: each row with functions over the rows of its key that are there, updated as these change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.changes import made_by, taken_by, takes_changes, upsert_keys
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.keeping import Kept, after, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import meaning, names_of
from sqlstream.planner.nodes import Field, Node, Schema, Unary
from sqlstream.planner.operators.over import OverCall, Sorted, arguments_of, call_text, function_text, sorted_text
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.readers import FieldsRead, fields_read
from sqlstream.planner.physical.state_facts import keys_fact, rows_fact, state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import changelog_mode, keeps_state, unique_keys, uses_processing_time
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import passes

_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")


@dataclass(frozen=True)
class UpdatingOver(Unary):
    """For each row its fields and the results of ``calls``, over the rows with equal ``keys`` in the ``order``; without
    one all of these are peers. A row comes out at once, and anew when others change its results.

    ``ttl_ms``: how long a key is remembered after its last change; 0: for ever. Schema: that of the input, without time
    attributes, then the calls.
    """

    keys: tuple[str, ...]
    order: tuple[Sorted, ...]
    calls: tuple[OverCall, ...]
    ttl_ms: int = 0

    @cached_property
    def schema(self) -> Schema:
        return (*(replace(field, time=None) for field in self.input.schema), *self.results)

    @property
    def results(self) -> tuple[Field, ...]:
        return tuple(call.item.field for call in self.calls)

    @property
    def in_time(self) -> bool:
        """True where the distances of RANGE are times."""
        types = {field.name: field.type.name for field in self.input.schema}
        return len(self.order) == 1 and types[self.order[0].name] in _TIMES

    @property
    def read(self) -> frozenset[str]:
        """The fields of the input that order, keys and functions read."""
        read = frozenset().union(*(columns_of(call.item.expression) for call in self.calls))
        return read | {*self.keys, *(key.name for key in self.order)}


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: UpdatingOver) -> bool:
    return True


@uses_processing_time.register
def _(node: UpdatingOver) -> bool:
    return node.ttl_ms > 0


@unique_keys.register
def _(node: UpdatingOver) -> frozenset[frozenset[str]]:
    return unique_keys(node.input)


# --- changes --------------------------------------------------------------------------------------------------


@changelog_mode.register
def _(node: UpdatingOver) -> frozenset[RowKind]:
    return ALL_KINDS - {RowKind.DELETE} if changelog_mode(node.input) == APPEND_ONLY else ALL_KINDS


@takes_changes.register
def _(node: UpdatingOver, port: int = 0) -> frozenset[RowKind]:
    """A row that is retracted would not have the time at which it came."""
    by_arrival = any(f.time is TimeDomain.PROCESSING for f in node.input.schema if f.name in node.read)
    return APPEND_ONLY if by_arrival else ALL_KINDS


@upsert_keys.register
def _(node: UpdatingOver) -> frozenset[frozenset[str]]:
    """Changes of a row are those of its key of OVER, in whose order they come."""
    return frozenset(key | set(node.keys) for key in unique_keys(node.input))


@taken_by.register
def _(node: UpdatingOver) -> str:
    return "OVER in the order of processing time"


@made_by.register
def _(node: UpdatingOver) -> str:
    return "OVER in another order than that of time"


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: UpdatingOver, required: Names) -> Node:
    calls = tuple(call for call in node.calls if call.item.name in required)
    if not calls:
        return pruned(node.input, required)
    kept = replace(node, calls=calls)
    below = (required - {field.name for field in node.results}) | kept.read
    return replace(kept, input=pruned(node.input, below))


@passes.register
def _(node: UpdatingOver, read: set[str]) -> bool:
    """UNSAFE but on keys: a filtered row still stands in the frames of others."""
    return bool(read) and read <= set(node.keys)


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: UpdatingOver) -> str:
    parts = [f"keys {', '.join(node.keys)}"] if node.keys else []
    parts += [f"order {', '.join(map(sorted_text, node.order))}"] if node.order else []
    parts += [call_text(call, node.in_time) for call in node.calls]
    parts += [f"forgets keys after {readable(node.ttl_ms)}"] if node.ttl_ms else []
    return f"UpdatingOver({'; '.join(parts)})"


@kernel.register
def _(node: UpdatingOver) -> str:
    return "of all rows of each key, which are computed anew where one changes"


# --- what runs ------------------------------------------------------------------------------------------------


@keys_of.register
def _(node: UpdatingOver) -> tuple[str, ...]:
    return node.keys


@fields_read.register
def _(node: UpdatingOver, port: int = 0) -> FieldsRead | None:
    read = [value for call in node.calls for value in arguments_of(call)]
    if not all(isinstance(value, exp.Column) for value in read):
        return None
    return FieldsRead(tuple(field.name for field in node.input.schema), node.keys)


@only_columnar.register
def _(node: UpdatingOver) -> str | None:
    return "OVER"


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: UpdatingOver) -> Meanings:
    below = names_of(node.input)
    return {**below, **{call.item.name: f"{meaning(call.item.expression, below)} OVER" for call in node.calls}}


@title_of.register
def _(node: UpdatingOver) -> tuple[str, str]:
    return "OVER", "OVER"


@state_facts.register
def _(node: UpdatingOver) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "keys", keys_fact(node.input, node.keys, names)
    order = (sorted_text(replace(key, name=names[key.name])) for key in node.order)
    yield "order", ", ".join(order) or "as rows come"
    yield "functions", ", ".join(function_text(call, names, node.in_time) for call in node.calls)
    yield "columns", rows_fact(node.input)
    yield "forgets", "keys after a time" if node.ttl_ms else "nothing"


@kept.register
def _(node: UpdatingOver) -> Iterator[Kept]:
    yield Kept("all rows of each key", after(node.ttl_ms, "the last change of the key"))
