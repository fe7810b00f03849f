"""The nodes that every plan is made of; ``planner/operators/`` has all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from sqlglot import exp

from sqlstream.planner.bad_rows import FAIL, OnError, columns_to_read
from sqlstream.planner.catalog import RowKind, Table, TimeDomain
from sqlstream.planner.expressions import columns_of, folded, is_boolean, is_repeatable, sql, substituted
from sqlstream.planner.fields import (
    Field,
    FieldNames,
    Item,
    Provenance,
    Schema,
    is_qualified_by_tables,
    qualified,
    traced,
)
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Conditions, Node, PushFilters, Unary, cached_per_node
from sqlstream.planner.properties import ArrivalOrder, Keys, Kinds, ShownNames, WindowInfo
from sqlstream.types import TIMESTAMP


@dataclass(frozen=True)
class Scan(Node):
    """Reads the physical and metadata ``columns`` of a table, filtered by the ``predicates`` that the optimizer has
    moved here.

    ``on_error`` says what happens to bad rows of the table. Predicates do not apply to those.
    """

    table: Table
    columns: tuple[str, ...]
    predicates: tuple[exp.Expression, ...] = ()
    on_error: OnError = FAIL

    @cached_property
    def schema(self) -> Schema:
        by_name = {c.name: c for c in self.table.columns}
        columns = (by_name[name] for name in self.columns)
        return tuple(Field(c.name, c.type, c.nullable) for c in columns)

    @property
    def producer_name(self) -> str:
        return f'table "{self.table.name}"'

    def describe(self) -> str:
        where = f" where {' and '.join(map(sql, self.predicates))}" if self.predicates else ""
        return f"Scan({self.table.name}: {', '.join(self.columns)}{where}{_bad_rows(self.on_error)})"

    @property
    def column_provenance(self) -> Provenance:
        if is_qualified_by_tables():
            return {f.name: qualified(self.table.name, f.name) for f in self.schema}
        return {f.name: f.name for f in self.schema}

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        return self.table.changelog

    @property
    def calls_functions(self) -> bool:
        return bool(self.predicates)

    @property
    def table_read(self) -> tuple[Table, tuple[str, ...]] | None:
        return self.table, columns_to_read(self.table, self.columns, self.on_error)

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        key = frozenset(self.table.primary_key)
        return frozenset({key}) if key and key <= set(self.columns) else frozenset()

    @property
    @cached_per_node
    def bounded(self) -> bool:
        return self.table.bounded

    is_batch_invariant = True

    def with_constants_folded(self) -> Node:
        return replace(self, predicates=tuple(map(folded, self.predicates)))

    def pruned(self, required: FieldNames) -> Node:
        # Predicates are evaluated over the columns that are read.
        needed = required.union(*(columns_of(p) for p in self.predicates))
        kept = tuple(c for c in self.columns if c in needed)
        return replace(self, columns=kept or self.columns[:1])

    def passes_filter(self, read: set[str]) -> bool:
        return True

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        return replace(self, predicates=(*self.predicates, *conditions))


@dataclass(frozen=True)
class AssignTime(Unary):
    """Makes ``column`` the time attribute of ``domain``, with the watermark ``max(column) - delay_ms`` (in
    milliseconds).

    In event time the column is one of the input. In processing and ingestion time this node adds it, with the time of
    the micro-batch or the time at the source, and ``delay_ms`` is 0. ``table`` names the table whose control rows (end
    of input, ticks) are added to the rows here. ``follows`` is another input field whose maximum is the watermark; it
    is not emitted. ``sub_millisecond``: the times may be finer than milliseconds, unlike those of ``TIMESTAMP(3)``.
    """

    column: str
    delay_ms: int
    domain: TimeDomain
    table: str
    follows: str | None = None
    sub_millisecond: bool = field(default=False, kw_only=True)

    @property
    @cached_per_node
    def has_sub_millisecond_times(self) -> bool:
        return self.sub_millisecond or self.input.has_sub_millisecond_times

    @cached_property
    def schema(self) -> Schema:
        marked = Field(self.column, TIMESTAMP, False, self.domain)
        if self.domain is TimeDomain.EVENT:
            return tuple(
                Field(f.name, f.type, False, self.domain) if f.name == self.column else f
                for f in self.input.schema
                if f.name != self.follows
            )
        return (*self.input.schema, marked)

    def append_only_variant(self) -> Node | None:
        below = self.input.append_only_variant()
        return None if below is None else self.with_inputs((below,))

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def describe(self) -> str:
        if self.domain is TimeDomain.EVENT:
            delay = f" - {readable(self.delay_ms)}" if self.delay_ms else ""
            return f"AssignTime({self.column}, watermark {self.follows or self.column}{delay})"
        return f"AssignTime({self.column}, {self.domain.value})"

    @property
    @cached_per_node
    def watermark_delay_ms(self) -> int | None:
        below = self.input.watermark_delay_ms
        if self.domain is TimeDomain.PROCESSING:
            return below
        return self.delay_ms if below is None else max(below, self.delay_ms)

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.input.unique_keys

    is_batch_invariant = True

    def pruned(self, required: FieldNames) -> Node:
        if self.domain is TimeDomain.EVENT:
            needed = {self.column} if self.follows is None else {self.column, self.follows}
            return replace(self, input=self.input.pruned(required | needed))
        if self.column not in required:
            return self.input.pruned(required)
        return replace(self, input=self.input.pruned(required - {self.column}))

    def passes_filter(self, read: set[str]) -> bool:
        """True for conditions that do not read a processing time.

        Always False for event and ingestion time: rows that the filter would drop advance the watermark too.
        """
        return self.domain is TimeDomain.PROCESSING and self.column not in read


_HIDE_ORDER = frozenset({"sort_array", "array_sort", "size", "array_size", "cardinality"})
"""Functions whose results are the same for lists of the same values in another order."""


@dataclass(frozen=True)
class Project(Unary):
    """Computes the ``items`` for each row."""

    items: tuple[Item, ...]

    @cached_property
    def schema(self) -> Schema:
        return tuple(item.field for item in self.items)

    def append_only_variant(self) -> Node | None:
        below = self.input.append_only_variant()
        return None if below is None else self.with_inputs((below,))

    def shown_below(self, shown: ShownNames) -> ShownNames:
        below: dict[str, str | None] = {}
        for item in self.items:
            for column, order_is_hidden in _columns_read(item.expression):
                name = None if order_is_hidden else shown.get(item.name, item.name)
                below[column] = below.get(column) or name
        return below

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """The upsert keys of the input, with every name under which the projection emits their columns. A column that
        is cast to a wider type or to text still identifies the row.
        """
        names: dict[str, list[str]] = {}
        types = {f.name: f.type.name for f in self.input.schema}
        for item in self.items:
            value = item.expression
            if isinstance(value, exp.Cast) and isinstance(value.this, exp.Column):
                value = value.this if _widens(types[value.this.name], item.type.name) else value
            if isinstance(value, exp.Column):
                names.setdefault(value.name, []).append(item.name)
        keys = (sorted(key) for key in self.input.upsert_keys if key <= names.keys())
        return frozenset(frozenset(chosen) for key in keys for chosen in product(*(names[name] for name in key)))

    def describe(self) -> str:
        return f"Project({', '.join(item.text for item in self.items)})"

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        return {item.name: traced(item.expression, below) for item in self.items}

    compute_text = "projection"

    calls_functions = True

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        below = self.input.window_info
        if below is None:
            return None
        renamed: dict[str, str] = {}
        for item in self.items:
            if isinstance(item.expression, exp.Column):
                renamed.setdefault(item.expression.name, item.name)
        start, end, time = (renamed.get(c) if c else None for c in below.columns)
        if start is None and end is None and time is None:
            return None
        keys = tuple(renamed.get(k, "") for k in below.keys) if below.keys is not None else None
        return WindowInfo(below.window, start, end, time, below.domain, None if keys is None or "" in keys else keys)

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        renamed = {i.expression.name: i.name for i in self.items if isinstance(i.expression, exp.Column)}
        keys = self.input.unique_keys
        return frozenset(frozenset(renamed[f] for f in key) for key in keys if key <= set(renamed))

    is_batch_invariant = True

    def with_constants_folded(self) -> Node:
        return replace(self, items=tuple(item.with_constants_folded() for item in self.items))

    def pruned(self, required: FieldNames) -> Node:
        # At least one column remains, because rows are counted by it.
        items = tuple(i for i in self.items if i.name in required) or self.items[:1]
        needed = frozenset().union(*(columns_of(i.expression) for i in items))
        return replace(self, items=items, input=self.input.pruned(needed))

    def passes_filter(self, read: set[str]) -> bool:
        values = {i.name: i.expression for i in self.items}
        return all(is_repeatable(values[name]) for name in read)

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        values = {i.name: i.expression for i in self.items}
        return replace(self, input=push(self.input, [substituted(c, values) for c in conditions]))

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        read = (i.expression for i in self.items if i.name in needed)
        return frozenset(e.name for e in read if isinstance(e, exp.Column))

    def without_unused_time(self, needed: FieldNames) -> Node:
        """The projection over an input from which unused watermarks were removed: a column stays a time attribute, and
        NOT NULL, only if the input's field still is.
        """
        below = {f.name: f for f in self.input.schema}

        def marked(item: Item) -> Item:
            if not isinstance(item.expression, exp.Column) or item.time is None:
                return item
            field = below[item.expression.name]
            return replace(item, time=field.time, nullable=field.nullable)

        return replace(self, items=tuple(marked(i) for i in self.items))

    def distinct_rows_closed(self, time: str, after_ms: int) -> Node:
        read = next((item.expression for item in self.items if item.name == time), None)
        if not isinstance(read, exp.Column):
            return self
        return replace(self, input=self.input.distinct_rows_closed(read.name, after_ms))


@dataclass(frozen=True)
class Filter(Unary):
    """Emits the rows for which the ``condition`` is true."""

    condition: exp.Expression

    @property
    def clause(self) -> str:
        return "WHERE or HAVING"

    def append_only_variant(self) -> Node | None:
        below = self.input.append_only_variant()
        return None if below is None else self.with_inputs((below,))

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """True if the filter or a node above needs -U rows. The filter needs none if its condition reads only fields of
        an upsert key, which no update changes. Otherwise an updated row may no longer meet the condition, and only its
        -U passes the filter.
        """
        return above or not self.input.is_in_upsert_key(columns_of(self.condition))

    def describe(self) -> str:
        return f"Filter({sql(self.condition)})"

    compute_text = "filter"

    calls_functions = True

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.input.unique_keys

    is_batch_invariant = True

    def with_constants_folded(self) -> Node:
        condition = folded(self.condition)
        return self.input if is_boolean(condition, True) else replace(self, condition=condition)

    def pruned(self, required: FieldNames) -> Node:
        return replace(self, input=self.input.pruned(required | columns_of(self.condition)))

    def passes_filter(self, read: set[str]) -> bool:
        return True

    def distinct_rows_closed(self, time: str, after_ms: int) -> Node:
        return replace(self, input=self.input.distinct_rows_closed(time, after_ms))


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL; fields by position. The branches are projected to the same names and types."""

    branches: tuple[Node, ...]

    @property
    def clause(self) -> str:
        return "UNION ALL"

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    @cached_property
    def schema(self) -> Schema:
        return self.branches[0].schema

    def describe(self) -> str:
        return f"Union({', '.join(f.name for f in self.schema)})"

    @property
    def column_provenance(self) -> Provenance:
        branches = [[branch.column_provenance[f.name] for f in branch.schema] for branch in self.branches]
        together = (" or ".join(dict.fromkeys(texts)) for texts in zip(*branches, strict=True))
        return dict(zip((f.name for f in self.schema), together, strict=True))

    @property
    def compute_text(self) -> str:
        return f"union of {len(self.branches)} streams; the slowest watermark counts"

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        first = self.branches[0].window_info
        return first if all(b.window_info == first for b in self.branches) else None

    arrival_order = ArrivalOrder.MIXED

    is_batch_invariant = True
    takes_branches = True

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, branches=inputs)

    def pruned(self, required: FieldNames) -> Node:
        names = [f.name for f in self.schema if f.name in required] or [self.schema[0].name]
        return replace(self, branches=tuple(_exactly(b.pruned(frozenset(names)), names) for b in self.branches))

    def passes_filter(self, read: set[str]) -> bool:
        return True

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        branches = tuple(push(b, [c.copy() for c in conditions]) for b in self.branches)
        return replace(self, branches=branches)

    def distinct_rows_closed(self, time: str, after_ms: int) -> Node:
        at = [field.name for field in self.schema].index(time)
        branches = (branch.distinct_rows_closed(branch.schema[at].name, after_ms) for branch in self.branches)
        return self.with_inputs(tuple(branches))


@dataclass(frozen=True)
class Correlate(Unary):
    """Joins each row with the rows that a table function, UNNEST or LATERAL VIEW generator returns for it; ``outer``
    also emits rows for which there are none.

    ``function`` is a call over the input's fields, or sqlglot's ``Unnest`` of one expression; if it has an ``offset``
    (WITH ORDINALITY), the last output is the position of the element, counted from 1. ``outputs`` are the added fields.
    """

    function: exp.Expression
    outputs: Schema
    outer: bool = False

    @cached_property
    def schema(self) -> Schema:
        return (*self.input.schema, *self.outputs)

    def append_only_variant(self) -> Node | None:
        below = self.input.append_only_variant()
        return None if below is None else self.with_inputs((below,))

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """True, because the table function may return other rows, and another number of them, for the updated row than
        for the previous one.
        """
        return True

    def describe(self) -> str:
        outputs = ", ".join(f.name for f in self.outputs)
        return f"Correlate({sql(self.function)} AS {outputs}{', outer' if self.outer else ''})"

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        call = traced(self.function, below)
        return {**below, **{f.name: f"{call}.{i}" for i, f in enumerate(self.outputs)}}

    @property
    def compute_text(self) -> str:
        name = "explode or inline" if isinstance(self.function, exp.Unnest) else "generator"
        return f"{name}{', outer' if self.outer else ''}"

    calls_functions = True

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    is_batch_invariant = True

    def with_constants_folded(self) -> Node:
        return replace(self, function=folded(self.function))

    def pruned(self, required: FieldNames) -> Node:
        # The outputs belong together: a generator makes all or none of them.
        outputs = {f.name for f in self.outputs}
        return replace(self, input=self.input.pruned((required - outputs) | columns_of(self.function)))

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all of the input."""
        return not read & {f.name for f in self.outputs}


# --- roots ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output(Unary):
    """The root of a query: ``names`` are the user's names of the input's fields, in order; they may repeat.

    ``functions`` says what happens to rows for which a scalar function raises an exception.
    """

    names: tuple[str, ...]
    functions: OnError = FAIL

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """True, because the callers of a query apply changes to whole rows, not to keys."""
        return True

    def shown_below(self, shown: ShownNames) -> ShownNames:
        return dict(zip((f.name for f in self.schema), self.names, strict=False))

    def describe(self) -> str:
        return f"Output({', '.join(self.names)})"

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.input.unique_keys

    is_batch_invariant = True


@dataclass(frozen=True)
class Insert(Unary):
    """The root of INSERT INTO. Its input has one field for each physical column of ``table``, in the order of the
    columns and cast to their types.

    ``functions`` says what happens to rows for which a scalar function raises an exception. ``takes`` are the kinds of
    rows that the connector accepts; if -U is not among them, the PRIMARY KEY identifies the row that a +U replaces.
    """

    table: Table
    functions: OnError = FAIL
    takes: frozenset[RowKind] = frozenset(RowKind)

    def accepted_kinds(self, port: int = 0) -> Kinds:
        """The kinds of rows that the connector accepts, and also -U for a sink that upserts: a -U that no +U of its key
        follows becomes a delete.
        """
        return self.takes | {RowKind.UPDATE_BEFORE} if RowKind.UPDATE_AFTER in self.takes else self.takes

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        return RowKind.UPDATE_BEFORE in self.takes or not self.upserts_by_primary_key

    @property
    def upserts_by_primary_key(self) -> bool:
        """True where each change of the input concerns the row with the same PRIMARY KEY in the table."""
        columns = (c.name for c in self.table.physical_columns)
        fields = {column: f.name for column, f in zip(columns, self.input.schema, strict=True)}
        key = frozenset(fields[name] for name in self.table.primary_key)
        return bool(key) and key in self.input.upsert_keys

    def describe(self) -> str:
        return f"Insert({self.table.name}: {', '.join(f.name for f in self.schema)})"

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.input.unique_keys

    is_batch_invariant = True


@dataclass(frozen=True)
class StatementSet(Node):
    """The root of EXECUTE STATEMENT SET: inserts that run as one query, whose micro-batch is one epoch of all tables.

    Several inserts may write to one table. The schema is empty, because each table has columns of its own.
    """

    inserts: tuple[Insert, ...]

    takes_branches = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.inserts

    @cached_property
    def schema(self) -> Schema:
        return ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of the inserts, each once, in the order in which the statement names them first."""
        return tuple({insert.table.name: insert.table for insert in self.inserts}.values())

    def describe(self) -> str:
        return f"StatementSet({', '.join(table.name for table in self.tables)})"

    @property
    @cached_per_node
    def arrival_order(self) -> ArrivalOrder:
        """The order in which rows arrive that holds for all of the inserts: the weakest of their orders."""
        orders = {insert.arrival_order for insert in self.inserts}
        if ArrivalOrder.ANSWERS in orders:
            return ArrivalOrder.ANSWERS
        shared = len(self.tables) < len(self.inserts)
        return ArrivalOrder.MIXED if shared or len(orders) > 1 else orders.pop()

    is_batch_invariant = True

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, inserts=tuple(insert for insert in inputs if isinstance(insert, Insert)))

    def pruned(self, required: FieldNames) -> Node:
        return self.with_inputs(tuple(insert.pruned(insert.field_names) for insert in self.inserts))


def _columns_read(expression: exp.Expression) -> Iterator[tuple[str, bool]]:
    """The columns of an expression, each with whether it is inside a call to which the order of a list does not
    matter."""
    waiting: list[tuple[exp.Expr, bool]] = [(expression, False)]
    while waiting:
        node, hidden = waiting.pop()
        if isinstance(node, exp.Column):
            yield node.name, hidden
        else:
            hidden = hidden or spark_name(node) in _HIDE_ORDER
            waiting.extend((child, hidden) for child in node.iter_expressions(reverse=True))


def _exactly(branch: Node, names: list[str]) -> Node:
    """Branches of a union must agree, so what a filter still carries is projected away."""
    if [f.name for f in branch.schema] == names:
        return branch
    fields = {f.name: f for f in branch.schema}
    chosen = (fields[n] for n in names)
    return Project(branch, tuple(field.as_item for field in chosen))


def _bad_rows(on_error: OnError) -> str:
    if on_error.table is not None:
        return f"; bad rows to {on_error.table.name}"
    return "; bad rows skipped" if on_error.tolerates else ""


_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def _widens(source: str, target: str) -> bool:
    return source in _WHOLE and target in (*_WHOLE[_WHOLE.index(source) :], "STRING")


# --- projections ----------------------------------------------------------------------------------------------


def below_projections(node: Node, name: str) -> tuple[Node, str] | None:
    """Follows a field down through projections. Returns a pair: the first node that is not a projection, and the
    field's name there. None if a projection computes the field.
    """
    while isinstance(node, Project):
        expression = next(item.expression for item in node.items if item.name == name)
        if not isinstance(expression, exp.Column):
            return None
        node, name = node.input, expression.name
    return node, name


def extended(node: Node, items: Iterable[Item]) -> Project:
    """Returns a projection of ``node`` with all its fields and the additional ``items``."""
    return Project(node, (*(field.as_item for field in node.schema), *items))


# --- tables ---------------------------------------------------------------------------------------------------


def dead_letter_tables(plan: Node) -> tuple[Table, ...]:
    """The tables that receive bad rows, each once."""
    tables = [node.on_error.table for node in plan.walk() if isinstance(node, Scan)]
    tables += [node.functions.table for node in plan.walk() if isinstance(node, Output | Insert)]
    return tuple({table.name: table for table in tables if table is not None}.values())
