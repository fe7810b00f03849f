"""ASOF join of updating rows: each row of the left side with the nearest row of its key, by any value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, RowKind
from sqlstream.planner.durations import readable
from sqlstream.planner.expressions import columns_of, sql
from sqlstream.planner.fields import FieldNames, Schema, traced
from sqlstream.planner.node import Conditions, Node, PushFilters, cached_per_node
from sqlstream.planner.operators.join import Join, without_time
from sqlstream.planner.properties import FieldsRead, Keys, Kinds, StateDescription, expiry_text
from sqlstream.udfs.expressions.tree import Comparison


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
        return tuple(map(without_time, super().schema))

    @property
    def values(self) -> tuple[exp.Expression, exp.Expression]:
        """The values of both sides that are compared."""
        return self.left_value, self.right_value

    @property
    def above(self) -> bool:
        """True where the partner has the least right value that is not below the left one."""
        return self.comparison in (Comparison.LESS, Comparison.LESS_OR_EQUAL)

    @property
    def strict(self) -> bool:
        """True where equal values do not match."""
        return self.comparison in (Comparison.LESS, Comparison.GREATER)

    @property
    def match_text(self) -> str:
        """The comparison as SQL."""
        return f"{sql(self.left_value)} {self.comparison.value} {sql(self.right_value)}"

    # --- properties and changes -------------------------------------------------------------------------------

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.left.unique_keys

    changelog_mode = frozenset({RowKind.INSERT, RowKind.DELETE})

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS

    append_only_hint = (
        "compare the columns of a WATERMARK of both sides with >= or >, so that a row comes out when the watermark "
        "reaches it"
    )

    @property
    def uses_processing_time(self) -> bool:
        """Keys must be forgotten."""
        return self.ttl_ms > 0

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        read = frozenset().union(*map(columns_of, self.values))
        return self.pruned_below(required | self.read | read | {*self.first_by})

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return frozenset()

    def passes_filter(self, read: set[str]) -> bool:
        """UNSAFE for the right side: without its partner a left row has the next one."""
        return bool(read) and read <= self.left.field_names

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        assert all(columns_of(condition) <= self.left.field_names for condition in conditions)
        return replace(self, left=push(self.left, conditions))

    # --- what runs --------------------------------------------------------------------------------------------

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        """The value that is compared is computed."""
        return None

    depends_on_arrival_order = True

    # --- texts and state --------------------------------------------------------------------------------------

    def describe(self) -> str:
        first = [f"of equal ones the first by {', '.join(self.first_by)}"] if self.first_by else []
        parts = [self.kind.value, " AND ".join(self.equalities_text) or "TRUE", f"nearest {self.match_text}", *first]
        parts += [f"forgets keys after {readable(self.ttl_ms)}"] if self.ttl_ms else []
        return f"AsofJoin({'; '.join(parts)})"

    kernel_text = "that keeps the rows of both sides, and compares the nearest ones before and after each change"

    state_title = ("ASOF join", "join")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield from self.join_facts()
        left, right = self.left.column_provenance, self.right.column_provenance
        yield "nearest", f"{traced(self.left_value, left)} {self.comparison.value} {traced(self.right_value, right)}"
        yield "of equal values", f"the first one by {', '.join(right[name] for name in self.first_by) or 'arrival'}"
        yield "forgets", "keys after a time" if self.ttl_ms else "nothing"

    def state_descriptions(self) -> Iterator[StateDescription]:
        yield StateDescription("the rows of both sides", expiry_text(self.ttl_ms, "the last row of their key came"))
