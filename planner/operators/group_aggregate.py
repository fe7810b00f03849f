"""Aggregates per key over all rows so far, whose results are updated; without aggregates, distinct rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.aggregate_calls import fields_read_by, sees_order, sees_ties, types_of_aggregate
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind
from sqlstream.planner.expressions import columns_of
from sqlstream.planner.fields import Field, FieldNames, Item, Provenance, Schema, keys_fact, traced
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.operators.window_aggregate import GROUPING_SET
from sqlstream.planner.properties import FieldsRead, Keys, Kinds, StateDescription, expiry_text
from sqlstream.types import DataType


@dataclass(frozen=True)
class GroupAggregate(Unary):
    """GROUP BY without windows. Emits one row per value of ``keys``; without keys, one row as soon as there is input.
    ``aggregates`` are calls of one aggregate function each.

    ``grouping_sets`` lists, for GROUPING SETS, the keys of each set. ``grouping_id`` then names an additional BIGINT
    field with GROUPING_ID over all ``keys`` in order; keys that a set leaves out are NULL in the result. ``ttl_ms``:
    the state of a group expires this many milliseconds of processing time after its last change, and its last result
    stays valid; 0: never. Schema: keys, grouping_id, aggregates.
    """

    keys: tuple[str, ...]
    aggregates: tuple[Item, ...] = ()
    grouping_sets: tuple[tuple[str, ...], ...] | None = None
    grouping_id: str | None = None
    ttl_ms: int = 0

    @property
    def clause(self) -> str:
        return "an aggregate"

    @cached_property
    def schema(self) -> Schema:
        by_name = {f.name: f for f in self.input.schema}
        nullable = self.grouping_sets is not None
        keys = tuple(Field(k, by_name[k].type, nullable or by_name[k].nullable) for k in self.keys)
        grouping = (Field(self.grouping_id, DataType("BIGINT"), False),) if self.grouping_id else ()
        return (*keys, *grouping, *(replace(a.field, time=None) for a in self.aggregates))

    @property
    def aggregate_items(self) -> tuple[Item, ...]:
        return self.aggregates

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    def uses_processing_time(self) -> bool:
        """True if the state of groups expires (``ttl_ms``), which is measured in processing time."""
        return self.ttl_ms > 0

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        """Inserts and updates, and deletes where the last row of a group may be retracted.

        Distinct rows of an append-only input are inserts only.
        """
        kinds = ALL_KINDS if self.aggregates else frozenset({RowKind.INSERT, RowKind.DELETE})
        return kinds if self.input.changelog_mode != APPEND_ONLY else kinds - {RowKind.DELETE}

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        grouping = {self.grouping_id} if self.grouping_id else set()
        return frozenset({frozenset({*self.keys, *grouping})})

    @property
    def producer_name(self) -> str:
        if not self.aggregates:
            return "the distinct rows"
        return "the GROUP BY without a window" if self.keys else "the aggregate without a window"

    @property
    def consumer_name(self) -> str:
        return self.producer_name

    append_only_hint = (
        "group by a window too, so that each result comes out once: GROUP BY …, TUMBLE(ts, INTERVAL '1' MINUTE)"
    )

    # --- rules ------------------------------------------------------------------------------------------------

    def with_constants_folded(self) -> Node:
        return replace(self, aggregates=tuple(item.with_constants_folded() for item in self.aggregates))

    def pruned(self, required: FieldNames) -> Node:
        """The node with the required aggregates; without keys at least one aggregate remains, so that the row has a
        field.
        """
        required_aggregates = tuple(a for a in self.aggregates if a.name in required)
        aggregates = required_aggregates if required_aggregates or self.keys else self.aggregates[:1]
        read = frozenset(self.keys).union(*(columns_of(a.expression) for a in aggregates))
        return replace(self, aggregates=aggregates, input=self.input.pruned(read))

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all keys, and there are
        no grouping sets, whose keys are NULL in the result but not in the input.
        """
        return bool(read) and read <= set(self.keys) and self.grouping_sets is None

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return frozenset()

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        parts = [f"keys {', '.join(self.keys)}"] if self.keys else []
        if self.grouping_sets is not None:
            sets = ", ".join(f"({', '.join(s)})" for s in self.grouping_sets)
            parts.append(f"sets {sets} as {self.grouping_id}")
        parts += (item.text for item in self.aggregates)
        if self.ttl_ms:
            parts.append(f"forgets groups after {readable(self.ttl_ms)}")
        return f"GroupAggregate({'; '.join(parts)})"

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return (*self.keys, GROUPING_SET) if self.grouping_sets is not None else self.keys

    @property
    def before_exchange_text(self) -> str | None:
        return "explode of the grouping sets" if self.grouping_sets is not None else None

    @property
    def depends_on_arrival_order(self) -> bool:
        """True if the input has updates, which must arrive in order, or if an aggregate depends on the order of rows,
        as FIRST_VALUE does.
        """
        shows = (sees_order(item.expression) or sees_ties(item.expression) for item in self.aggregates)
        return self.input.changelog_mode != APPEND_ONLY or any(shows)

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        if self.grouping_sets is not None:
            return None
        names, computed = fields_read_by(self.aggregates)
        return FieldsRead(tuple(dict.fromkeys([*self.keys, *names])), self.keys, computed=computed)

    columnar_only_clause = "an aggregate without a window"

    @property
    def updates_in_real_time(self) -> bool:
        return not self.ttl_ms and self.grouping_sets is None and self.input.changelog_mode == APPEND_ONLY

    native_state_text = "Spark's streaming aggregation, which updates a result with each row"

    @property
    def kernel_text(self) -> str:
        if not self.aggregates:
            return "that keeps each row once"
        retracts = self.input.changelog_mode != APPEND_ONLY
        return f"that updates a row per group{', also when rows go' if retracts else ''}"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        provenance = {key: below[key] for key in self.keys}
        provenance |= {a.name: traced(a.expression, below) for a in self.aggregates}
        return provenance | ({self.grouping_id: "grouping_id"} if self.grouping_id else {})

    state_title = ("group aggregate", "the aggregate without a window")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "keys", keys_fact(self.input.schema, self.keys, names)
        if self.grouping_sets is not None:
            yield "grouping sets", ", ".join(f"({', '.join(names[k] for k in s)})" for s in self.grouping_sets)
        yield "aggregates", ", ".join(traced(a.expression, names) for a in self.aggregates)
        yield "types of aggregates", ", ".join(types_of_aggregate(a, self.input.schema) for a in self.aggregates)
        yield "rows", "come" if self.input.changelog_mode == APPEND_ONLY else "come and go"
        yield "forgets", "groups after a time" if self.ttl_ms else "nothing"
        # Stored columns of rows are named by their expressions.
        read = {c.name for a in self.aggregates for c in a.expression.find_all(exp.Column)}
        yield "columns", ", ".join(f.name for f in self.input.schema if f.name in read)

    def state_descriptions(self) -> Iterator[StateDescription]:
        if not self.keys:
            yield StateDescription("the accumulators of one group", "there is one group")
        else:
            what = "the accumulators of each group" if self.aggregates else "each distinct row"
            yield StateDescription(what, expiry_text(self.ttl_ms, "the last row of the group came or went"))
