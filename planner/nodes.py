"""Plan nodes: frozen, each with its inputs and a schema.

Every field name is unique within a node's schema, so expressions name fields unqualified: an ``exp.Column`` in a
plan expression is quoted and means the field of the input with exactly that name. Times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.bad_rows import FAIL, OnError
from sqlstream.planner.catalog import RowKind, Table, TimeDomain
from sqlstream.types import TIMESTAMP, DataType
from dataclasses import replace
from functools import singledispatch
from itertools import product
from sqlstream.planner.bad_rows import columns_to_read
from sqlstream.planner.catalog import ALL_KINDS
from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.changes import Keys
from sqlstream.planner.changes import Kinds
from sqlstream.planner.changes import _by_key
from sqlstream.planner.changes import _widens
from sqlstream.planner.changes import upserts_by_key
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.advice import Remark
from sqlstream.planner.explain.describe import _bad_rows
from sqlstream.planner.explain.window_text import sql
from sqlstream.planner.keeping import Kept
from sqlstream.planner.meanings import Names
from sqlstream.planner.meanings import _in_order
from sqlstream.planner.meanings import meaning
from sqlstream.planner.meanings import names_tables
from sqlstream.planner.physical.chaining import Link
from sqlstream.planner.physical.clocks import WaitsFor
from sqlstream.planner.physical.readers import FieldsRead
from sqlstream.planner.physical.state_facts import _text
from sqlstream.planner.physical.state_facts import fields_fact
from sqlstream.planner.properties import ArrivalOrder
from sqlstream.planner.properties import WindowInfo
from sqlstream.planner.remembering import remembered
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.rewriting import is_repeatable
from sqlstream.planner.rewriting import substituted
from sqlstream.planner.rules.fold_constants import folded
from sqlstream.planner.rules.fold_constants import folded_item
from sqlstream.planner.rules.fold_constants import is_boolean
from sqlstream.planner.rules.prune_columns import Names
from sqlstream.planner.rules.prune_columns import _exactly
from sqlstream.planner.rules.push_filters import Conditions
from sqlstream.planner.rules.push_filters import _beside
from sqlstream.planner.rules.push_filters import filtered
from sqlstream.planner.rules.push_lookup_filters import Accepts
from sqlstream.planner.rules.remove_unused_time import Names
import dataclasses


@dataclass(frozen=True)
class Field:
    """``time`` marks a time attribute: a column that windows may be built on."""

    name: str
    type: DataType
    nullable: bool = True
    time: TimeDomain | None = None


Schema = tuple[Field, ...]


@dataclass(frozen=True)
class Item:
    """A named expression over the fields of the input."""

    name: str
    expression: exp.Expression
    type: DataType
    nullable: bool = True
    time: TimeDomain | None = None

    @property
    def field(self) -> Field:
        return Field(self.name, self.type, self.nullable, self.time)

    @property
    def text(self) -> str:
        """``v + 1 AS w``."""
        text = sql(self.expression)
        return text if text == self.name else f"{text} AS {self.name}"


@dataclass(frozen=True)
class Node:
    """Base of all plan nodes."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    def walk(self) -> Iterator[Node]:
        """This node and all below it, top down."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.inputs))

    # --- what operators take ----------------------------------------------------------------------------------

    def accepted_kinds(self, port: int = 0) -> Kinds:
        """The kinds of rows that a node takes at an input, counted from 0.

    Nodes without state pass all kinds on as they are. Those with state take inserts only, unless they say otherwise.
    """
        return APPEND_ONLY if self.keeps_state else ALL_KINDS

    @property
    def why_inserts_only(self) -> str | None:
        """Why a node takes inserted rows only, as the end of a sentence; None where there is no more to say."""
        return None

    @property
    def consumer_name(self) -> str:
        """What messages call a node that takes changes or does not."""
        return type(self).__name__

    @property
    def producer_name(self) -> str:
        """What messages call the maker of changes."""
        return type(self).__name__

    @property
    def append_only_hint(self) -> str | None:
        """What to write so that the maker of changes emits inserted rows only; None where nothing does."""
        return None

    def append_only_variant(self) -> Node | None:
        """The same rows, in the end, as inserts only: those that others could still take the place of wait until they are
    final. None where that is not known."""
        return None

    @property
    def prefers_inserts(self) -> bool:
        """True where a node that takes changes does as well with each row once it is final, and keeps less then."""
        return False

    # --- the keys by which results change ---------------------------------------------------------------------

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """Sets of fields that tell which row a change is about: changes of equal values follow each other, and the last
    one counts."""
        return self.unique_keys

    # --- who reads -U -----------------------------------------------------------------------------------------

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """True where a node, or one above it (``above``), needs -U of its input, and all of the row in -D.

    Nodes without state need what those above need; those with state need it, unless they say otherwise.
    """
        return above or self.keeps_state

    def without_update_before(self) -> Node:
        """What does for a node where nobody above needs -U and all of the row in -D; mostly itself."""
        return self

    @property
    def changes_row_kinds(self) -> bool:
        """True for nodes without state that do not pass the kinds of rows on as they are."""
        return False

    def remarks(self) -> Iterator[Remark]:
        """Sentences about a node."""
        return iter(())

    def describe(self) -> str:
        """``Filter(v > 3)``."""
        raise TypeError(f"no description for {type(self).__name__}")

    @property
    def field_names(self) -> frozenset[str]:
        return frozenset([field.name for field in self.schema])

    def state_descriptions(self) -> Iterator[Kept]:
        """The state of a node. Nodes with state that say nothing keep it for ever."""
        if self.keeps_state:
            yield Kept("its state", None)

    @property
    def column_provenance(self) -> Names:
        """The meaning of each field of a node's schema."""
        return {f.name: f.name for f in self.schema} | {n: t for child in self.inputs for n, t in names_of(child).items()}

    def chain_link(self, rows_wait: bool) -> Link | str:
        """``link_of`` an operator above others with state."""
        return "only windows with aggregates run in the call of another operator"

    @property
    def waits_for(self) -> WaitsFor | None:
        """Why rows in the state of ``node`` may wait, other than for time; None if they wait for time only, or do not
    wait."""
        return None

    def watermark_field(self, port: int = 0) -> str | None:
        """The time of rows whose newest value the exchange of an operator's input may tell as their watermark; None: it
    may not."""
        return None

    @property
    @cached_per_node
    def watermark_held_back_ms(self) -> int:
        """How far the rows of a node may be behind the watermark of the query, in milliseconds, and still be on time:
    operators above see a watermark that is held back by as much."""
        return max((child.watermark_held_back_ms for child in self.inputs), default=0)

    @property
    def needs_columnar(self) -> bool:
        """True for nodes without state that Catalyst does not compute, such as windows on the clock of a time zone."""
        return False

    @property
    def port_count(self) -> int:
        """The ports of an operator's kernel: its inputs, where each has an exchange of its own."""
        return 1

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        """The keys by which the exchange of an operator distributes rows; empty: all rows go to one key group."""
        return ()

    @property
    def queries_external_source(self) -> bool:
        """True where an operator with state asks a source outside of the plan, so that its requests are counted."""
        return False

    @property
    def depends_on_arrival_order(self) -> bool:
        """True where the results of an operator with state show in which order rows arrived; sources then tell it."""
        return True

    @property
    def columnar_only_clause(self) -> str | None:
        """The clause of an operator with state that needs the columnar gear; None where Spark's own operators do."""
        return type(self).__name__.upper()

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        """The fields that an operator reads from an input unchanged; None if it computes something of them."""
        return None

    @property
    def state_title(self) -> tuple[str, str]:
        """The kind of an operator, and what messages call it."""
        return type(self).__name__, type(self).__name__

    @property
    def stateful_user_function(self) -> str | None:
        """The function of the user that declares what the operator keeps; None where it is none of a user."""
        return None

    @property
    def shapes_state_above(self) -> bool:
        """True for nodes without state whose facts that of operators above depends on, which read their windows."""
        return False

    def reads_windows(self, above: bool) -> bool:
        """True where the node, or one ``above`` that the node leaves this to, reads the windows of its input."""
        return above

    def state_facts(self) -> Iterator[tuple[str, str]]:
        """The facts on which the state of an operator depends, as names with texts; by default all that describes the
    operator."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, Node) and not (isinstance(value, tuple) and value and isinstance(value[0], Node)):
                yield field.name.replace("_", " "), _text(value)

    @property
    def rows_fact(self) -> str:
        """The rows that state holds whole, by position."""
        return fields_fact(self.schema, self.column_provenance)

    @property
    def before_exchange_text(self) -> str | None:
        """The step before the exchange of an operator with state, in words; None where there is none."""
        return None

    @property
    def after_kernel_text(self) -> str | None:
        """The step behind the kernel of an operator, in words; None where there is none."""
        return None

    # --- kernels ----------------------------------------------------------------------------------------------

    @property
    def kernel_text(self) -> str:
        """The kernel of an operator, in the words that follow "kernel"."""
        raise TypeError(f"no description of the kernel of {type(self).__name__}")

    # --- without kernels --------------------------------------------------------------------------------------

    @property
    def compute_text(self) -> str:
        """A step without state, in words."""
        raise TypeError(f"no description for {type(self).__name__}")

    @property
    def native_state_text(self) -> str:
        """An operator with state of Spark's own, in words."""
        raise TypeError(f"Spark has no operator for {type(self).__name__}")

    # --- changelog mode ---------------------------------------------------------------------------------------

    @property
    @cached_per_node
    def changelog_mode(self) -> frozenset[RowKind]:
        """The kinds of rows that a node emits. Stateless nodes and closed windows pass on or emit inserts."""
        inputs = [child.changelog_mode for child in self.inputs]
        return frozenset().union(*inputs) if inputs else APPEND_ONLY

    @property
    def side_table(self) -> Table | None:
        """The table that gets rows of the node beside its result, dead letters apart."""
        return None

    @property
    def table_read(self) -> tuple[Table, tuple[str, ...]] | None:
        """The table that the node reads or asks, with the columns that it needs of it."""
        return None

    # --- time -------------------------------------------------------------------------------------------------

    @property
    def time_attributes(self) -> tuple[Field, ...]:
        """The fields that windows may be built on."""
        return tuple(f for f in self.schema if f.time is not None)

    @property
    @cached_per_node
    def watermark_delay_ms(self) -> int | None:
        """The largest delay of the event-time watermarks below, None where there is none."""
        delays = [d for d in (child.watermark_delay_ms for child in self.inputs) if d is not None]
        return max(delays, default=None)

    # --- state and clocks -------------------------------------------------------------------------------------

    @property
    def keeps_state(self) -> bool:
        """True for operators whose rows meet others: windows that fire, joins, lookups that defer, …"""
        return False

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        """The domain whose watermark the node itself waits for; windows that count rows wait for none."""
        return frozenset()

    @property
    def uses_processing_time(self) -> bool:
        """True where the node may act by the clock of processing time, or waits for an end of the input that only this
    clock may tell."""
        return False

    @property
    def emits_ahead_of_clock(self) -> bool:
        """True where what the node emits by processing time is emitted before operators above see that time."""
        return False

    @property
    @cached_per_node
    def operator_count(self) -> int:
        """How many nodes the plan has, those that stand in several places counted in each."""
        return 1 + sum(child.operator_count for child in self.inputs)

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        """The innermost window whose columns the rows of ``node`` carry."""
        return None

    @property
    def why_rows_stored(self) -> str | None:
        """Why the state of windows holds rows; None where it holds accumulators, or nothing."""
        return None

    @property
    def fires_on_barriers(self) -> bool:
        """True for windows that may fire when a barrier was aligned."""
        return False

    # --- keys -------------------------------------------------------------------------------------------------

    @property
    @cached_per_node
    def unique_keys(self) -> frozenset[frozenset[str]]:
        """Sets of fields whose values no two current rows share; the upsert keys of the output."""
        return frozenset()

    # --- boundedness and order --------------------------------------------------------------------------------

    @property
    @cached_per_node
    def bounded(self) -> bool:
        """True where all sources end by themselves."""
        return all(child.bounded for child in self.inputs)

    @property
    @cached_per_node
    def arrival_order(self) -> ArrivalOrder:
        return self.inputs[0].arrival_order if self.inputs else ArrivalOrder.SOURCE

    @property
    def is_batch_invariant(self) -> bool:
        """True where one micro-batch or several come to the same rows: the node emits at once what rows give whatever else
    comes, or else only what a watermark has passed. Triggers, changelogs and processing time tell the batches apart."""
        return False

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """The node over other inputs; itself where they are the same."""
        if all(new is old for new, old in zip(inputs, self.inputs, strict=True)):  # equality compares whole plans
            return self
        return self.replace_inputs(inputs)

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """The node over other inputs, which need not differ."""
        raise TypeError(f"{type(self).__name__} has no inputs")

    def with_constants_folded(self) -> Node:
        """The node with the constant parts of its expressions computed."""
        return self

    def with_windows_fused(self) -> Node:
        """An aggregate that assigns the windows of a table function below it; other nodes as they are."""
        return self

    @property
    def field_names(self) -> Names:
        """The names of all fields of a node."""
        return frozenset(f.name for f in self.schema)

    def pruned(self, required: Names) -> Node:
        """``node`` with at least the ``required`` fields. Roots need all fields of their input."""
        assert isinstance(self, Unary), f"no pruning for {type(self).__name__}"
        return replace(self, input=self.input.pruned(self.input.field_names))

    def passes_filter(self, read: set[str]) -> bool:
        """May a condition that reads these fields be evaluated below ``node``?"""
        return False

    def with_pushed_filters(self, conditions: Conditions) -> Node:
        """``node`` with the conditions below it, each of which passes it."""
        assert isinstance(self, Unary), f"no condition passes {type(self).__name__}"
        return replace(self, input=filtered(self.input, conditions))

    def with_lookup_filters(self, accepts: Accepts) -> Node:
        """A lookup with what its source accepts; other nodes as they are."""
        return self

    def without_unused_time(self, needed: Names) -> Node:
        """The node, whose inputs are rebuilt already, without time attributes among its fields that nobody needs or that
    are none any more."""
        return self

    def watermark_fields_needed(self, needed: Names) -> Names:
        """The fields of the inputs of ``node`` whose watermark it or a node above needs, which needs ``needed``."""
        return needed


@dataclass(frozen=True)
class Scan(Node):
    """Physical and metadata columns of a table, pruned to ``columns``, filtered by the pushed ``predicates``.

    ``on_error`` says what happens to its bad rows, which no predicate sees.
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
    def column_provenance(self) -> Names:
        table = f"{self.table.name}." if names_tables() else ""
        return {f.name: f"{table}{f.name}" for f in self.schema}

    @property
    @cached_per_node
    def changelog_mode(self) -> frozenset[RowKind]:
        return self.table.changelog

    @property
    def table_read(self) -> tuple[Table, tuple[str, ...]] | None:
        return self.table, columns_to_read(self.table, self.columns, self.on_error)

    @property
    @cached_per_node
    def unique_keys(self) -> frozenset[frozenset[str]]:
        key = frozenset(self.table.primary_key)
        return frozenset({key}) if key and key <= set(self.columns) else frozenset()

    @property
    @cached_per_node
    def bounded(self) -> bool:
        return self.table.bounded

    is_batch_invariant = True

    def with_constants_folded(self) -> Node:
        return replace(self, predicates=tuple(map(folded, self.predicates)))

    def pruned(self, required: Names) -> Node:
        # Predicates are evaluated over the columns that are read.
        needed = required.union(*(columns_of(p) for p in self.predicates))
        kept = tuple(c for c in self.columns if c in needed)
        return replace(self, columns=kept or self.columns[:1])

    def passes_filter(self, read: set[str]) -> bool:
        return True

    def with_pushed_filters(self, conditions: Conditions) -> Node:
        return replace(self, predicates=(*self.predicates, *conditions))


@dataclass(frozen=True)
class Unary(Node):
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class AssignTime(Unary):
    """Makes ``column`` the time attribute of ``domain`` and its watermark ``max(column) - delay_ms``.

    For PROCESSING and INGESTION the column is added to the schema (the clock at the batch, at the source) and
    ``delay_ms`` is 0. ``table`` names the table whose control rows (end of input, ticks) unite with the rows here.
    ``follows`` is a field of the input whose greatest value is the watermark instead; it ends here.
    """

    column: str
    delay_ms: int
    domain: TimeDomain
    table: str
    follows: str | None = None

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
    def unique_keys(self) -> frozenset[frozenset[str]]:
        return self.input.unique_keys

    is_batch_invariant = True

    def pruned(self, required: Names) -> Node:
        if self.domain is TimeDomain.EVENT:
            needed = {self.column} if self.follows is None else {self.column, self.follows}
            return replace(self, input=self.input.pruned(required | needed))
        if self.column not in required:
            return self.input.pruned(required)
        return replace(self, input=self.input.pruned(required - {self.column}))

    def passes_filter(self, read: set[str]) -> bool:
        """UNSAFE for event and ingestion time: the watermark follows all rows, so a filtered row still advances it."""
        return self.domain is TimeDomain.PROCESSING and self.column not in read


@dataclass(frozen=True)
class Project(Unary):
    items: tuple[Item, ...]

    @cached_property
    def schema(self) -> Schema:
        return tuple(item.field for item in self.items)

    def append_only_variant(self) -> Node | None:
        below = self.input.append_only_variant()
        return None if below is None else self.with_inputs((below,))

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """A column may have several names above; casts of whole numbers to wider ones, or to texts, are as good."""
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
    def column_provenance(self) -> Names:
        below = self.input.column_provenance
        return {item.name: meaning(item.expression, below) for item in self.items}

    compute_text = "projection"

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
    def unique_keys(self) -> frozenset[frozenset[str]]:
        renamed = {i.expression.name: i.name for i in self.items if isinstance(i.expression, exp.Column)}
        keys = self.input.unique_keys
        return frozenset(frozenset(renamed[f] for f in key) for key in keys if key <= set(renamed))

    is_batch_invariant = True

    def with_constants_folded(self) -> Node:
        return replace(self, items=tuple(map(folded_item, self.items)))

    def pruned(self, required: Names) -> Node:
        # Rows are counted by what is left, so one column stays.
        items = tuple(i for i in self.items if i.name in required) or self.items[:1]
        needed = frozenset().union(*(columns_of(i.expression) for i in items))
        return replace(self, items=items, input=self.input.pruned(needed))

    def passes_filter(self, read: set[str]) -> bool:
        values = {i.name: i.expression for i in self.items}
        return all(is_repeatable(values[name]) for name in read)

    def with_pushed_filters(self, conditions: Conditions) -> Node:
        values = {i.name: i.expression for i in self.items}
        return replace(self, input=filtered(self.input, [substituted(c, values) for c in conditions]))

    def watermark_fields_needed(self, needed: Names) -> Names:
        read = (i.expression for i in self.items if i.name in needed)
        return frozenset(e.name for e in read if isinstance(e, exp.Column))

    def without_unused_time(self, needed: Names) -> Node:
        """Columns are time attributes, and not null, only as far as those below still are."""
        below = {f.name: f for f in self.input.schema}

        def marked(item: Item) -> Item:
            if not isinstance(item.expression, exp.Column) or item.time is None:
                return item
            field = below[item.expression.name]
            return replace(item, time=field.time, nullable=field.nullable)

        return replace(self, items=tuple(marked(i) for i in self.items))


@dataclass(frozen=True)
class Filter(Unary):
    condition: exp.Expression

    def append_only_variant(self) -> Node | None:
        below = self.input.append_only_variant()
        return None if below is None else self.with_inputs((below,))

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """Where a row is updated out of the filter, -U is all that comes of it; but for keys, which stay."""
        return above or not _by_key(self.input, columns_of(self.condition))

    def describe(self) -> str:
        return f"Filter({sql(self.condition)})"

    compute_text = "filter"

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    @property
    @cached_per_node
    def unique_keys(self) -> frozenset[frozenset[str]]:
        return self.input.unique_keys

    is_batch_invariant = True

    def with_constants_folded(self) -> Node:
        condition = folded(self.condition)
        return self.input if is_boolean(condition, True) else replace(self, condition=condition)

    def pruned(self, required: Names) -> Node:
        return replace(self, input=self.input.pruned(required | columns_of(self.condition)))

    def passes_filter(self, read: set[str]) -> bool:
        return True

    def with_pushed_filters(self, conditions: Conditions) -> Node:
        return _beside(self, conditions)


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL; fields by position. The branches are projected to the same names and types."""

    branches: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    @cached_property
    def schema(self) -> Schema:
        return self.branches[0].schema

    def describe(self) -> str:
        return f"Union({', '.join(f.name for f in self.schema)})"

    @property
    def column_provenance(self) -> Names:
        branches = [tuple(_in_order(branch)) for branch in self.branches]
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

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, branches=inputs)

    def pruned(self, required: Names) -> Node:
        names = [f.name for f in self.schema if f.name in required] or [self.schema[0].name]
        return replace(self, branches=tuple(_exactly(b.pruned(frozenset(names)), names) for b in self.branches))

    def passes_filter(self, read: set[str]) -> bool:
        return True

    def with_pushed_filters(self, conditions: Conditions) -> Node:
        branches = tuple(filtered(b, [c.copy() for c in conditions]) for b in self.branches)
        return replace(self, branches=branches)


@dataclass(frozen=True)
class Correlate(Unary):
    """For each row the rows of a table function, UNNEST or LATERAL VIEW generator; ``outer`` keeps rows without any.

    ``function`` is a call over the input's fields, or an ``exp.Unnest`` of one expression, whose ``offset`` asks for
    the position, counted from 1, as the last output; ``outputs`` are the fields it adds.
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
        """As many rows, or for the same keys, come of an updated row as of the one before only by chance."""
        return True

    def describe(self) -> str:
        outputs = ", ".join(f.name for f in self.outputs)
        return f"Correlate({sql(self.function)} AS {outputs}{', outer' if self.outer else ''})"

    @property
    def column_provenance(self) -> Names:
        below = self.input.column_provenance
        call = meaning(self.function, below)
        return {**below, **{f.name: f"{call}.{i}" for i, f in enumerate(self.outputs)}}

    @property
    def compute_text(self) -> str:
        name = "explode or inline" if isinstance(self.function, exp.Unnest) else "generator"
        return f"{name}{', outer' if self.outer else ''}"

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    is_batch_invariant = True

    def with_constants_folded(self) -> Node:
        return replace(self, function=folded(self.function))

    def pruned(self, required: Names) -> Node:
        # The outputs belong together: a generator makes all or none of them.
        outputs = {f.name for f in self.outputs}
        return replace(self, input=self.input.pruned((required - outputs) | columns_of(self.function)))

    def passes_filter(self, read: set[str]) -> bool:
        """UNSAFE with outer on the new fields; on the others a condition drops the same rows before as after."""
        return not read & {f.name for f in self.outputs}


# --- roots ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output(Unary):
    """The root of a query: ``names`` are what the user sees, duplicates allowed, one per field of the input.

    ``functions`` says what happens to rows for which a scalar function raises an exception.
    """

    names: tuple[str, ...]
    functions: OnError = FAIL

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """Callers apply the changes to rows, not to keys."""
        return True

    def describe(self) -> str:
        return f"Output({', '.join(self.names)})"

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    @property
    @cached_per_node
    def unique_keys(self) -> frozenset[frozenset[str]]:
        return self.input.unique_keys

    is_batch_invariant = True


@dataclass(frozen=True)
class Insert(Unary):
    """The root of INSERT INTO: the input has exactly the physical columns of ``table``, in order and cast.

    ``functions`` as in Output. ``takes``: the kinds of rows that the connector wants; without -U it knows rows by the
    PRIMARY KEY.
    """

    table: Table
    functions: OnError = FAIL
    takes: frozenset[RowKind] = frozenset(RowKind)

    def accepted_kinds(self, port: int = 0) -> Kinds:
        """A sink that upserts deletes by -U, where that is no part of a pair for its key."""
        return self.takes | {RowKind.UPDATE_BEFORE} if RowKind.UPDATE_AFTER in self.takes else self.takes

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        return self.input.upsert_keys

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        return RowKind.UPDATE_BEFORE in self.takes or not upserts_by_key(self)

    def describe(self) -> str:
        return f"Insert({self.table.name}: {', '.join(f.name for f in self.schema)})"

    @property
    @cached_per_node
    def unique_keys(self) -> frozenset[frozenset[str]]:
        return self.input.unique_keys

    is_batch_invariant = True


@dataclass(frozen=True)
class StatementSet(Node):
    """The root of EXECUTE STATEMENT SET: inserts that run as one query, whose micro-batch is one epoch of all tables.

    Several inserts may write to one table. Its schema is empty: rows go to tables, each with columns of its own.
    """

    inserts: tuple[Insert, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.inserts

    @cached_property
    def schema(self) -> Schema:
        return ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of the inserts, each once, in the order in which they are named first."""
        return tuple({insert.table.name: insert.table for insert in self.inserts}.values())

    def describe(self) -> str:
        return f"StatementSet({', '.join(table.name for table in self.tables)})"

    @property
    @cached_per_node
    def arrival_order(self) -> ArrivalOrder:
        """Of each table; where they differ, that of which least is known."""
        orders = {insert.arrival_order for insert in self.inserts}
        if ArrivalOrder.ANSWERS in orders:
            return ArrivalOrder.ANSWERS
        shared = len(self.tables) < len(self.inserts)
        return ArrivalOrder.MIXED if shared or len(orders) > 1 else orders.pop()

    is_batch_invariant = True

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, inserts=tuple(insert for insert in inputs if isinstance(insert, Insert)))

    def pruned(self, required: Names) -> Node:
        return self.with_inputs(tuple(insert.pruned(insert.field_names) for insert in self.inserts))
