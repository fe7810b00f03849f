"""OVER in any order: each row with functions over the rows of its key that are there, updated as these change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.durations import readable
from sqlstream.planner.expressions import columns_of
from sqlstream.planner.fields import Field, FieldNames, Provenance, Schema, keys_fact, traced
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.operators.over import OverCall, Sorted, arguments_of, call_text, function_text, sorted_text
from sqlstream.planner.properties import FieldsRead, Keys, Kinds, StateDescription, expiry_text

_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")


@dataclass(frozen=True)
class UpdatingOver(Unary):
    """For each row its fields and the results of ``calls``, over the rows with equal ``keys`` in the ``order``; without
    one all of these are peers. A row is emitted at once, and again when others change its results.

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
        """The fields of the calls."""
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

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl_ms > 0

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.input.unique_keys

    # --- changes ----------------------------------------------------------------------------------------------

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        return ALL_KINDS - {RowKind.DELETE} if self.input.changelog_mode == APPEND_ONLY else ALL_KINDS

    def accepted_kinds(self, port: int = 0) -> Kinds:
        """A row that is retracted would not have the time at which it came."""
        by_arrival = any(f.time is TimeDomain.PROCESSING for f in self.input.schema if f.name in self.read)
        return APPEND_ONLY if by_arrival else ALL_KINDS

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """Changes of a row are those of its key of OVER, in whose order they come."""
        return frozenset(key | set(self.keys) for key in self.input.unique_keys)

    consumer_name = "OVER in the order of processing time"

    producer_name = "OVER in another order than that of time"

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        calls = tuple(call for call in self.calls if call.item.name in required)
        if not calls:
            return self.input.pruned(required)
        kept = replace(self, calls=calls)
        below = (required - {field.name for field in self.results}) | kept.read
        return replace(kept, input=self.input.pruned(below))

    def passes_filter(self, read: set[str]) -> bool:
        """UNSAFE but on keys: a filtered row still stands in the frames of others."""
        return bool(read) and read <= set(self.keys)

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        parts = [f"keys {', '.join(self.keys)}"] if self.keys else []
        parts += [f"order {', '.join(map(sorted_text, self.order))}"] if self.order else []
        parts += [call_text(call, self.in_time) for call in self.calls]
        parts += [f"forgets keys after {readable(self.ttl_ms)}"] if self.ttl_ms else []
        return f"UpdatingOver({'; '.join(parts)})"

    kernel_text = "of all rows of each key, which are computed anew where one changes"

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.keys

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        read = [value for call in self.calls for value in arguments_of(call)]
        if not all(isinstance(value, exp.Column) for value in read):
            return None
        return FieldsRead(tuple(field.name for field in self.input.schema), self.keys)

    columnar_only_clause = "OVER"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        return {**below, **{call.item.name: f"{traced(call.item.expression, below)} OVER" for call in self.calls}}

    state_title = ("OVER", "OVER")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "keys", keys_fact(self.input.schema, self.keys, names)
        order = (sorted_text(replace(key, name=names[key.name])) for key in self.order)
        yield "order", ", ".join(order) or "as rows come"
        yield "functions", ", ".join(function_text(call, names, self.in_time) for call in self.calls)
        yield "columns", self.input.rows_fact
        yield "forgets", "keys after a time" if self.ttl_ms else "nothing"

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription("all rows of each key", expiry_text(self.ttl_ms, "the last change of the key"))
