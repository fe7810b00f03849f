"""Joins of two streams: what all of them share, regular joins and window joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.expressions import columns_of, sql
from sqlstream.planner.fields import Field, FieldNames, Schema, traced
from sqlstream.planner.intervals import readable
from sqlstream.planner.kernel_expressions import PairCondition, pair_condition
from sqlstream.planner.node import Conditions, Node, PushFilters, cached_per_node
from sqlstream.planner.operators.joined_sides import JoinedSides, SideKeys, column_names
from sqlstream.planner.operators.multi_join import merged
from sqlstream.planner.operators.window_extremes import JoinedWindows
from sqlstream.planner.properties import (
    FieldsRead,
    Keys,
    Kinds,
    StateDescription,
    WindowInfo,
    expiry_text,
)
from sqlstream.udfs.joins import JoinKind


@dataclass(frozen=True)
class Equality:
    """An equality of a join: expressions of one type over the fields of either side. ``null_safe``: NULL
    equals NULL.
    """

    left: exp.Expression
    right: exp.Expression
    null_safe: bool = False


@dataclass(frozen=True)
class Join(JoinedSides):
    """Emits the pairs of rows of ``left`` and ``right`` for which all of ``equal`` hold and ``condition`` is true.

    ``condition`` is over the fields of both, for kinds that emit rows
    without a partner; conditions of inner joins are a filter above. Schema: the fields of the left side, then, except
    for SEMI and ANTI, those of the right; fields of a side that may be missing are nullable.
    """

    left: Node
    right: Node
    kind: JoinKind
    equal: tuple[Equality, ...]
    condition: exp.Expression | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.left, self.right

    @property
    def null_safe(self) -> tuple[bool, ...]:
        return tuple(equality.null_safe for equality in self.equal)

    def keys_of_side(self, port: int) -> SideKeys:
        return tuple((equality.left, equality.right)[port] for equality in self.equal)

    @cached_property
    def pair_condition(self) -> PairCondition | None:
        """The ``condition`` in the form that kernels evaluate on pairs of rows."""
        if self.condition is None:
            return None
        return pair_condition(self.condition, self.left.schema, self.right.schema)

    @cached_property
    def schema(self) -> Schema:
        left, right = self.kind.padded
        if not self.kind.pairs:
            return self.left.schema
        return (*_fields(self.left, nullable=right), *_fields(self.right, nullable=left))

    @property
    def read(self) -> frozenset[str]:
        """The fields of both sides that equalities and condition read."""
        values = [side for equality in self.equal for side in (equality.left, equality.right)]
        return frozenset().union(*map(columns_of, values if self.condition is None else [*values, self.condition]))

    # --- properties -------------------------------------------------------------------------------------------

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        """Each key of one side combined with each key of the other. If rows of one side have at most one partner, also
        that side's keys alone.
        """
        left, right = self.left.unique_keys, self.right.unique_keys
        if not self.kind.pairs:
            return left
        one_left, one_right = map(self.finds_one_row, (0, 1))
        pads_left, pads_right = self.kind.padded
        unique: set[frozenset[str]] = {left_key | right_key for left_key in left for right_key in right}
        if pads_left and pads_right:  # or rows of both sides without a partner may be NULL in all of the key
            present = {field.name for side in self.inputs for field in side.schema if not field.nullable}
            unique = {key for key in unique if key & present}
        if one_right and not pads_right:
            unique |= left
        if one_left and not pads_left:
            unique |= right
        return frozenset(unique)

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """Each upsert key of one side combined with each of the other. If rows of one side have at most one partner,
        also that side's keys alone.

        A key does not count if the join key of its row may change, because the results of the old and the new join key
        come from different key groups, in any order.
        """
        return frozenset(key for key in self.unique_keys if all(self.stays_together(key, side) for side in (0, 1)))

    def stays_together(self, key: frozenset[str], side: int) -> bool:
        """True if rows of a side (0: left, 1: right) with equal values of ``key`` are always in one key group, so that
        their changes stay in order.
        """
        below = self.inputs[side]
        if below.changelog_mode == APPEND_ONLY or not key & below.field_names:
            return True
        equal = self.keys_of_side(side)
        return all(isinstance(value, exp.Column) and value.name in key for value in equal)

    @property
    def consumer_name(self) -> str:
        return f"the {self.kind.value} JOIN"

    # --- rules ------------------------------------------------------------------------------------------------

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        left, right = inputs
        return replace(self, left=left, right=right)

    def pruned(self, required: FieldNames) -> Node:
        return self.pruned_below(required | self.read)

    def pruned_below(self, needed: FieldNames) -> Node:
        """The join with its inputs pruned to the fields in ``needed``. At least one field of each input remains."""
        left, right = (side.pruned(needed & side.field_names) for side in self.inputs)
        return replace(self, left=left, right=right)

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are of one side, and the
        join never pads that side with NULLs, which the condition would not see below.
        """
        return self._side_read(read) is not None

    def _side_read(self, read: set[str]) -> int | None:
        """The only side that is read, if its rows are emitted with a partner or not at all."""
        pads_left, pads_right = self.kind.padded
        if read and read <= self.left.field_names and not pads_right:
            return 0
        return 1 if read and self.kind.pairs and read <= self.right.field_names and not pads_left else None

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        sides = [self._side_read(columns_of(condition)) for condition in conditions]
        left, right = (
            push(side, own) if (own := [c for c, s in zip(conditions, sides, strict=True) if s == number]) else side
            for number, side in enumerate(self.inputs)
        )
        return replace(self, left=left, right=right)

    # --- what runs --------------------------------------------------------------------------------------------

    def fields_of_side(self, port: int, time: str | None = None) -> FieldsRead | None:
        if self.pair_condition is not None:
            operands = tuple(operand for _, operand in self.pair_condition.columns[port])
            if column_names(operands) is None:
                return None
        return super().fields_of_side(port, time)

    # --- texts and state --------------------------------------------------------------------------------------

    @property
    def equalities_text(self) -> list[str]:
        """The parts of the join's condition as SQL texts: first the equalities, then the rest."""
        equal = [f"{sql(e.left)} {_operator(e)} {sql(e.right)}" for e in self.equal]
        if self.condition is None:
            return equal
        rest = sql(self.condition)
        return [*equal, f"({rest})" if equal and isinstance(self.condition, exp.Or) else rest]

    def join_facts(self) -> Iterator[tuple[str, str]]:
        """Those facts that every kind of join compares before it goes on from a checkpoint, as pairs of name and text:
        the kind, the condition, and the columns of both sides.
        """
        left, right = self.left.column_provenance, self.right.column_provenance
        yield "kind", self.kind.value
        equal = (f"{traced(e.left, left)} {_operator(e)} {traced(e.right, right)}" for e in self.equal)
        yield "equal", ", ".join(equal) or "nothing"
        if self.condition is not None:
            of_left, of_right = (
                {name: f"{side}.{text}" for name, text in names.items()}
                for side, names in (("left", left), ("right", right))
            )
            yield "condition", traced(self.condition, {**of_left, **of_right})
        yield "columns of the left side", self.left.rows_fact
        yield "columns of the right side", self.right.rows_fact


def _fields(side: Node, *, nullable: bool) -> Schema:
    return tuple([f if f.nullable else replace(f, nullable=True) for f in side.schema]) if nullable else side.schema


def without_time(field: Field) -> Field:
    """A copy of the field that is not a time attribute."""
    return field if field.time is None else replace(field, time=None)


def _operator(equality: Equality) -> str:
    return "<=>" if equality.null_safe else "="


# --- regular join: rows of both sides are stored, and results are updated -------------------------------------


Names = frozenset[str]


@dataclass(frozen=True)
class RegularJoin(Join):
    """Joins every row of one side with every matching row of the other, however far apart they arrive.

    Therefore the results are not in order of time and have no time attributes. ``ttl_ms``: for each side, how many
    milliseconds of processing time its rows are stored after they arrived; 0: for ever. Results with an expired row are
    not retracted.
    """

    ttl_ms: tuple[int, int] = (0, 0)

    @cached_property
    def schema(self) -> Schema:
        return tuple(map(without_time, super().schema))

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        """Insertions only, for INNER and SEMI joins of insertions; otherwise deletions too.

        Other kinds of join retract the result of a row without partner when its first partner arrives.
        """
        appends = all(side.changelog_mode == APPEND_ONLY for side in self.inputs)
        if appends and self.kind in (JoinKind.INNER, JoinKind.SEMI):
            return APPEND_ONLY
        return frozenset({RowKind.INSERT, RowKind.DELETE})

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """The unique keys of the result that contain all fields compared by ``equal`` on one side. Rows with equal
        values of such a key are in one key group, so their changes stay in order.

        A side that may be padded with NULL does not count, because its NULLs do not determine the key group.
        """
        sides = [set().union(*map(columns_of, self.keys_of_side(port))) for port in (0, 1)]
        pads_left, pads_right = self.kind.padded
        held = [sides[0]] if not pads_right else []
        held += [sides[1]] if self.kind.pairs and not pads_left else []
        return frozenset(key for key in self.unique_keys if any(side <= key for side in held))

    @property
    def append_only_hint(self) -> str | None:
        if self.kind in (JoinKind.INNER, JoinKind.SEMI):
            return None
        return (
            "bound the distance of time attributes of both sides in ON, so that a row without a partner comes out once"
        )

    @property
    def uses_processing_time(self) -> bool:
        """True if stored rows expire (``ttl_ms``), which is measured in processing time."""
        return any(self.ttl_ms)

    def watermark_fields_needed(self, needed: Names) -> Names:
        return frozenset()

    @property
    def sides_by_key(self) -> tuple[tuple[Node, ...], tuple[SideKeys, ...]] | None:
        on_keys_alone = self.kind is JoinKind.INNER and bool(self.equal) and self.condition is None
        if not on_keys_alone or any(self.null_safe) or any(self.ttl_ms):
            return None
        return self.inputs, (self.keys_of_side(0), self.keys_of_side(1))

    def with_joins_merged(self) -> Node:
        return self if self.sides_by_key is None else merged(*self.sides_by_key) or self

    def describe(self) -> str:
        parts = [self.kind.value, " AND ".join(self.equalities_text) or "TRUE", *self._ttl_texts]
        return f"RegularJoin({'; '.join(parts)})"

    @property
    def _ttl_texts(self) -> list[str]:
        if not any(self.ttl_ms):
            return []
        left, right = (readable(ms) if ms else "for ever" for ms in self.ttl_ms)
        return [f"rows of the left side live {left}, of the right side {right}"]

    kernel_text = "that keeps the rows of both sides"

    state_title = ("regular join", "join")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield from self.join_facts()
        for side, ms in zip(("left", "right"), self.ttl_ms, strict=True):
            yield f"time to live of the {side} side", readable(ms) if ms else "for ever"

    def state_descriptions(self) -> Iterator[StateDescription]:
        for side, ms in zip(("left", "right"), self.ttl_ms, strict=True):
            yield StateDescription(f"the rows of the {side} side", expiry_text(ms, "they came"))


# --- window join: rows of both sides in the same windows ------------------------------------------------------


@dataclass(frozen=True)
class WindowJoin(Join):
    """Joins rows of the same window: both sides have event-time windows, whose bounds are among the equal keys.

    ``ends``: the fields of both sides with the end of the window. Results, also rows without a partner, are emitted
    when the watermark closes the window; rows of a closed window are late. Fields of a side that may be padded with
    NULL are no time attributes.
    """

    ends: tuple[str, str] = ("", "")

    @cached_property
    def schema(self) -> Schema:
        return tuple([without_time(field) if field.nullable else field for field in super().schema])

    def pruned(self, required: FieldNames) -> Node:
        return self.pruned_below(required | self.read | {*self.ends})

    is_batch_invariant = True

    awaited_domains = frozenset({TimeDomain.EVENT})

    def as_top_n(self, conditions: Conditions, push: PushFilters) -> Node | None:
        if self.kind is not JoinKind.INNER:
            return None
        equal = tuple((e.left, e.right, e.null_safe) for e in self.equal)
        return JoinedWindows((self.left, self.right), equal, self.schema).as_top_n(conditions, push)

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        """The window of the side that is never padded with NULL."""
        pads_left, pads_right = self.kind.padded
        if not pads_right:
            return self.left.window_info
        return None if pads_left else self.right.window_info

    def describe(self) -> str:
        return f"WindowJoin({self.kind.value}; {' AND '.join(self.equalities_text)})"

    kernel_text = "that keeps the rows of both sides until their windows close"

    state_title = ("window join", "join")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield from self.join_facts()
        for side, below, end in zip(("left", "right"), self.inputs, self.ends, strict=True):
            yield f"end of the windows of the {side} side", below.column_provenance[end]

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription("the rows of both sides", "the watermark passes their window")
