"""Lookups: for each row the rows that a source outside has for its key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, Function, RowKind, Table, TimeDomain
from sqlstream.planner.expressions import columns_of, conjunction, conjuncts, folded, is_boolean, sql
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
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Conditions, Node, PushFilters, Unary, cached_per_node
from sqlstream.planner.properties import (
    Accepts,
    ArrivalOrder,
    Keys,
    Kinds,
    ShownNames,
    StateDescription,
    Topic,
    WaitsFor,
    WindowInfo,
    expiry_text,
)
from sqlstream.planner.rules.push_filters import Columns, comparisons
from sqlstream.udfs.lookup.options import DEFAULT_LOOKUP, Cache, LookupOptions, OnError, OnTimeout, Order, Retry
from sqlstream.udfs.lookup.source import Comparison

LOOKUP_ERROR = "__lookup_error"


@dataclass(frozen=True)
class FailedRows:
    """The target of rows whose lookup failed (ON ERROR TO): a table, and an expression for each of its physical
    columns.

    ``values`` are these expressions, in the order of the columns and cast to their types. They read the input of the
    lookup and LOOKUP_ERROR, a STRING with the cause.
    """

    table: Table
    values: tuple[exp.Expression, ...]


@dataclass(frozen=True)
class Lookup(Unary):
    """Joins each row with the rows that an external source has for its key; ``outer`` also emits rows for which it has
    none.

    ``source`` is a table with a lookup connector, or a user's asynchronous function. ``keys`` are the values sent in a
    request: an expression over the input for each requested column of the table, with that column's name and type (or
    for each parameter of the function). A row with a NULL among them has no match. ``read`` are the columns that the
    source returns (or members of the function's row). ``outputs`` are the fields that the join adds: expressions over
    ``read``, NULL without a match. ``filters`` are comparisons of columns with constants, which the source evaluates;
    ``condition``, over input and outputs, is the rest of ON. ``ttl_ms``: how many milliseconds the returned rows are
    stored if input rows may be retracted; 0: for ever.
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

    # --- properties -------------------------------------------------------------------------------------------

    @property
    def remembers_answers(self) -> bool:
        """True if input rows may be retracted. The rows that the source returned are then stored, so that a retraction
        retracts the same results.
        """
        return self.input.changelog_mode != APPEND_ONLY

    @property
    def row_identity(self) -> tuple[str, ...]:
        """The fields that identify a row that is retracted: all except processing times, which differ at the
        retraction.
        """
        return tuple(field.name for field in self.input.schema if field.time is not TimeDomain.PROCESSING)

    @property
    def answer_key(self) -> tuple[str, ...]:
        """The fields by which the stored answer of a row is found again when the row is retracted or updated: the
        shortest upsert key of the input, or ``row_identity`` if there is none.
        """
        keys = sorted(self.input.upsert_keys, key=lambda key: (len(key), sorted(key)))
        return tuple(sorted(keys[0])) if keys else self.row_identity

    @property
    def keeps_state(self) -> bool:
        return self.options.defers or self.remembers_answers

    @property
    def is_batch_invariant(self) -> bool:
        return not self.keeps_state

    @property
    def uses_processing_time(self) -> bool:
        """True if stored answers expire (``ttl_ms``), which is measured in processing time."""
        return self.ttl_ms > 0

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        """The unique keys of the input, if the lookup's keys contain the source's whole primary key, so that a row has
        one match at most. Empty otherwise.
        """
        key = self.source.primary_key if isinstance(self.source, Table) else ()
        is_by_key = bool(key) and set(key) <= {k.name for k in self.keys}
        return self.input.unique_keys if is_by_key else frozenset()

    @property
    @cached_per_node
    def arrival_order(self) -> ArrivalOrder:
        """The order in which rows leave: that of the input if the lookup's options keep it, else the order in which the
        source answers. Mixed if input rows may be retracted, because each key group then emits its own rows.
        """
        if self.remembers_answers:
            return ArrivalOrder.MIXED
        return self.input.arrival_order if self.options.order is Order.ORDERED else ArrivalOrder.ANSWERS

    @property
    def table_read(self) -> tuple[Table, tuple[str, ...]] | None:
        names = (*(key.name for key in self.keys), *(field.name for field in self.read))
        return (self.source, names) if isinstance(self.source, Table) else None

    @property
    def side_table(self) -> Table | None:
        return self.failed.table if self.failed is not None else None

    @property
    def side_rows(self) -> str:
        return "failed lookups"

    def remarks(self, shown: ShownNames) -> Iterator[tuple[Topic, str]]:
        if not self.options.asynchronous:
            text = f'"{self.source.name}" is asked for one row after the other: LOOKUP ASYNC asks for many at once.'
            yield Topic.ONE_AT_A_TIME, text

    # --- rules ------------------------------------------------------------------------------------------------

    def with_constants_folded(self) -> Node:
        condition = folded(self.condition) if self.condition is not None else None
        rest = None if condition is not None and is_boolean(condition, True) else condition
        keys, outputs = (
            tuple(item.with_constants_folded() for item in self.keys),
            tuple(item.with_constants_folded() for item in self.outputs),
        )
        return replace(self, keys=keys, outputs=outputs, condition=rest)

    def pruned(self, required: FieldNames) -> Node:
        wanted = required | columns_of(self.condition) if self.condition is not None else required
        # At least one output remains, because rows are counted by it; a key is known without reading more.
        outputs = tuple(o for o in self.outputs if o.name in wanted) or (self._cheapest_output,)
        read = frozenset().union(*(columns_of(o.expression) for o in outputs))
        asked = frozenset().union(*(columns_of(k.expression) for k in self.keys))
        failed = frozenset().union(*(columns_of(v) for v in self.failed.values)) if self.failed else frozenset()
        below = ((wanted - {o.name for o in self.outputs}) | asked | failed) - {LOOKUP_ERROR}
        rebuilt = replace(self, outputs=outputs, read=tuple(f for f in self.read if f.name in read))
        return replace(rebuilt, input=self.input.pruned(below))

    @property
    def _cheapest_output(self) -> Item:
        keys = {k.name for k in self.keys}
        return next((o for o in self.outputs if columns_of(o.expression) <= keys), self.outputs[0])

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved to the lookup; ``read`` are the fields of its condition. With ``outer``
        they must not be fields that the lookup adds.

        Without ``outer`` a condition on added fields becomes part of ON.
        """
        return not self.outer or not read & {o.name for o in self.outputs}

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        """Returns the lookup with these conditions: those on the input filter rows before the lookup, the others become
        part of ON.
        """
        added = {o.name for o in self.outputs}
        below = [c for c in conditions if not columns_of(c) & added]
        rest = [c for c in conditions if columns_of(c) & added]
        given = conjuncts(self.condition) if self.condition is not None else []
        together = conjunction([*given, *rest]) if given or rest else None
        return replace(self, input=push(self.input, below) if below else self.input, condition=together)

    def with_lookup_filters(self, accepts: Accepts) -> Node:
        if self.condition is None or not isinstance(self.source, Table):
            return self
        table, columns = self.source, self._columns_by_output
        filters, kept = list(self.filters), list[exp.Expression]()
        for condition in conjuncts(self.condition):
            pushed = comparisons(condition, columns)
            if pushed and all(accepts(table, c) for c in pushed):
                filters += [c for c in pushed if c not in filters]
            else:
                kept.append(condition)
        return replace(self, filters=tuple(filters), condition=conjunction(kept) if kept else None)

    @property
    def _columns_by_output(self) -> Columns:
        types = {f.name: f.type for f in self.read}
        columns = ((o.name, o.expression.name) for o in self.outputs if isinstance(o.expression, exp.Column))
        return {output: (column, types[column]) for output, column in columns}

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        if is_qualified_by_tables():
            columns = {f.name: qualified(self.source.name, f.name) for f in self.read}
            added = {o.name: traced(o.expression, columns) for o in self.outputs}
        else:
            added = {o.name: f"{self.source.name}.{sql(o.expression)}" for o in self.outputs}
        return {**self.input.column_provenance, **added}

    @property
    def state_title(self) -> tuple[str, str]:
        title = "lookup over changes" if self.remembers_answers else "lookup that defers rows"
        return title, f'lookup in "{self.source.name}"'

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "table", self.source.name
        yield "keys", ", ".join(f"{k.name} = {traced(k.expression, names)} {k.type}" for k in self.keys)
        yield "columns that are read", ", ".join(f"{f.name} {f.type}" for f in self.read)
        yield "order", self.options.order.name
        yield "columns", self.input.rows_fact
        if self.remembers_answers:
            yield "rows", f"told apart by {', '.join(names[name] for name in self.row_identity)}"
            yield "key", ", ".join(names[name] for name in self.answer_key)
            yield "forgets", "answers after a time" if self.ttl_ms else "nothing"
            yield "defers", "rows without an answer" if self.options.defers else "nothing"

    # --- changes ----------------------------------------------------------------------------------------------

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        """Inserts only, or inserts and deletes if input rows may be retracted. An update of an input row retracts the
        rows of its old answer with -D and inserts those of the new one, which may be others.
        """
        return frozenset({RowKind.INSERT, RowKind.DELETE}) if self.remembers_answers else APPEND_ONLY

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """The unique keys. If input rows may be retracted, only those that contain ``answer_key``: rows with equal
        values of such a key are in one key group, so their changes stay in order.
        """
        keys = self.unique_keys
        return frozenset(key for key in keys if key >= set(self.answer_key)) if self.remembers_answers else keys

    @property
    def consumer_name(self) -> str:
        return f'a lookup in "{self.source.name}"'

    @property
    def producer_name(self) -> str:
        return self.consumer_name

    def state_descriptions(self) -> Iterator[StateDescription]:
        if self.options.defers:
            yield StateDescription("rows whose lookup was deferred", "they are answered")
        if self.remembers_answers:
            yield StateDescription(
                "the answers of rows that may be retracted", expiry_text(self.ttl_ms, "the row came")
            )

    @property
    def asked_together(self) -> tuple[Lookup, ...]:
        """This lookup and those directly below it whose requests can be sent at the same time, because none needs the
        result of another; the lowest first. A stateful lookup is alone.
        """
        group, read = [self], self._key_fields
        while not self.keeps_state and isinstance(below := group[-1].input, Lookup) and not below.keeps_state:
            if not read.isdisjoint(output.name for output in below.outputs):
                break
            group.append(below)
            read |= below._key_fields
        return tuple(reversed(group))

    @property
    def _key_fields(self) -> set[str]:
        return set().union(*(columns_of(key.expression) for key in self.keys))

    @property
    def compute_text(self) -> str:
        group = self.asked_together
        together = f"{len(group)} lookups asked together: " if len(group) > 1 else ""
        return f"{together}{group[0]._request_text}, {self._answers_text(group)}"

    def _answers_text(self, group: tuple[Lookup, ...]) -> str:
        aside = any(lookup.failed is not None for lookup in group)
        return f"explode of the answers{', failed rows aside' if aside else ''}"

    @property
    def _request_text(self) -> str:
        options = self.options
        how = f"up to {options.capacity} at the same time per task" if options.asynchronous else "one after the other"
        return f"keys, mapInArrow that asks for them {how}"

    # --- those with state -------------------------------------------------------------------------------------

    queries_external_source = True

    @property
    def waits_for(self) -> WaitsFor | None:
        return WaitsFor.ANSWERS if self.options.defers else None

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        """If input rows may be retracted, ``answer_key``. Otherwise the keys of the lookup; empty if all rows must stay
        in order.
        """
        if self.remembers_answers:
            return self.answer_key
        return () if self.options.order is Order.ORDERED else tuple(key.name for key in self.keys)

    @property
    def depends_on_arrival_order(self) -> bool:
        return self.options.order is Order.ORDERED or self.remembers_answers

    @property
    def columnar_only_clause(self) -> str | None:
        return "ON TIMEOUT DEFER" if self.options.defers else "a lookup for rows that are retracted"

    @property
    def before_exchange_text(self) -> str | None:
        return self._request_text

    @property
    def kernel_text(self) -> str:
        waits = "keeps rows until they are answered" if self.options.defers else ""
        keeps = "remembers the answers of rows that may be retracted" if self.remembers_answers else ""
        return f"that {' and '.join(filter(None, (waits, keeps)))}"

    @property
    def after_kernel_text(self) -> str | None:
        return self._answers_text((self,))

    def describe(self) -> str:
        return f"Lookup({'; '.join(self._parts)})"

    @property
    def _parts(self) -> list[str]:
        """``c on id = who``, pushed filters, outputs, the rest of ON, and the options."""
        kind = "" if isinstance(self.source, Table) else "function "
        keys = ", ".join(f"{k.name} = {sql(k.expression)}" for k in self.keys)
        parts = [f"{kind}{self.source.name} on {keys}"]
        if self.filters:
            parts.append(f"where {' and '.join(map(comparison_text, self.filters))}")
        parts.append(", ".join(output.text for output in self.outputs))
        if self.condition is not None:
            parts.append(f"if {sql(self.condition)}")
        if self.outer:
            parts.append("outer")
        if self.ttl_ms:
            parts.append(f"forgets answers after {readable(self.ttl_ms)}")
        return [*parts, *options_text(self.options, self.failed.table.name if self.failed else "")]


def lookup_nodes(plan: Node) -> Iterator[Lookup]:
    """The lookups of a plan, in depth-first order from the root."""
    return (node for node in plan.walk() if isinstance(node, Lookup))


def failed_marker(table: Table, number: int) -> str:
    """The value of the hidden column LATE_TABLE in rows for which the lookup with this number failed, which directs
    them to ``table``.
    """
    return f"lookup/{number}/{table.name}"


# --- options in words ------------------------------------------------------------------------------------------
# Options of tables are never shown: they may hold secrets.


def comparison_text(comparison: Comparison) -> str:
    """The comparison as SQL: ``age > 3``, ``name IN ('a', 'b')``, ``name IS NULL``."""
    if comparison.value is None:
        return f"{comparison.column} {comparison.operator}"
    if isinstance(comparison.value, tuple):
        return f"{comparison.column} {comparison.operator} ({', '.join(map(_value, comparison.value))})"
    return f"{comparison.column} {comparison.operator} {_value(comparison.value)}"


def _value(value: object) -> str:
    return f"'{value}'" if not isinstance(value, (bool, int, float)) else str(value)


def options_text(options: LookupOptions, failed: str = "") -> list[str]:
    """The options of a lookup for EXPLAIN: order, capacity and timeout, and others that are set; ``failed``: the table
    of ON ERROR TO.
    """
    if options.asynchronous:
        texts = [f"{options.order.value.lower()}, capacity {options.capacity}"]
    else:
        texts = ["one at a time"]
    texts.append(f"timeout {readable(options.timeout_ms)}{_then(options.on_timeout)}")
    if options.on_error is not OnError.FAIL:
        texts.append(f"on error {options.on_error.value} {failed}".rstrip())
    texts += [_retry(r) for r in options.retries]
    if options.cache is not None:
        texts.append(_cache(options.cache))
    if options.batch > 1:
        within = f" within {readable(options.batch_within_ms)}" if options.batch_within_ms else ""
        texts.append(f"batch {options.batch}{within}")
    return texts


def _then(action: OnTimeout) -> str:
    return "" if action is OnTimeout.FAIL else f" then {action.value}"


def _retry(retry: Retry) -> str:
    on = {(True, False): " on miss", (False, True): " on error"}.get((retry.on_miss, retry.on_error), "")
    if not retry.exponential:
        return f"retry{on} {retry.times} times after {readable(retry.delay_ms)}"
    limit = f" to {readable(retry.limit_ms)}" if retry.limit_ms is not None else ""
    return f"retry{on} {retry.times} times after {readable(retry.delay_ms)}, doubled{limit}"


def _cache(cache: Cache) -> str:
    ttl = f" for {readable(cache.ttl_ms)}" if cache.ttl_ms is not None else ""
    negative = f", misses for {readable(cache.negative_ttl_ms)}" if cache.negative_ttl_ms is not None else ""
    return f"cache {cache.rows} rows{ttl}{negative}"
