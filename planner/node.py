"""The base of all plan nodes: what each answers to the binder, rules, physical plan, EXPLAIN and checkpoints.

A node is a frozen dataclass with inputs and a schema. The defaults here are right, or safe, for nodes that do not
override them. ``planner/nodes.py`` has the nodes that every plan is made of, ``planner/operators/`` all others.
Times are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, wraps
from typing import Any, TypeVar, cast

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, Table, TimeDomain
from sqlstream.planner.fields import Field, FieldNames, Item, Provenance, Schema, fields_fact
from sqlstream.planner.properties import (
    Accepts,
    ArrivalOrder,
    FieldsRead,
    Keys,
    Kinds,
    Remark,
    ShownNames,
    StateDescription,
    WaitsFor,
    WindowInfo,
)

Answer = TypeVar("Answer", bound=Callable[..., Any])


def cached_per_node(answer: Answer) -> Answer:
    """Decorates a function of one frozen node: its result is computed once and kept in the node's ``__dict__``.

    Up to Python 3.11 ``functools.cached_property`` holds a lock per class. Properties of nodes compute each other in
    any order, so two threads that plan queries could wait for each other's locks for ever.
    """
    key = f"_{answer.__qualname__}"

    @wraps(answer)
    def cached(node: Any) -> Any:
        answers = vars(node)
        if key not in answers:
            answers[key] = answer(node)
        return answers[key]

    return cast("Answer", cached)


Conditions = list[exp.Expression]


@dataclass(frozen=True)
class Node:
    """Base of all plan nodes."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose rows this one reads."""
        return ()

    @property
    def schema(self) -> Schema:
        """The fields of the node's rows; names are unique."""
        raise NotImplementedError

    @property
    def field_names(self) -> FieldNames:
        """The names of all fields of the schema."""
        return frozenset([field.name for field in self.schema])

    def walk(self) -> Iterator[Node]:
        """This node and all below it (its inputs, their inputs, …), from the root."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.inputs))

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """A copy of the node over other inputs; the node itself if ``inputs`` are the objects that it has already."""
        if all(new is old for new, old in zip(inputs, self.inputs, strict=True)):  # equality compares whole plans
            return self
        return self.replace_inputs(inputs)

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """A copy of the node over these inputs."""
        raise TypeError(f"{type(self).__name__} has no inputs")

    @property
    @cached_per_node
    def operator_count(self) -> int:
        """The number of nodes of the plan; a node that is used in several places counts in each."""
        return 1 + sum(child.operator_count for child in self.inputs)

    # --- rows: keys, order, windows, time ---------------------------------------------------------------------

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        """Sets of field names. For each set, no two rows of the current result have the same values in all its
        fields.
        """
        return frozenset()

    @property
    @cached_per_node
    def bounded(self) -> bool:
        """True if all sources below end by themselves."""
        return all(child.bounded for child in self.inputs)

    @property
    @cached_per_node
    def arrival_order(self) -> ArrivalOrder:
        """In which order the rows leave the node; by default as those of the first input."""
        return self.inputs[0].arrival_order if self.inputs else ArrivalOrder.SOURCE

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        """Describes the innermost window whose columns the rows have; None without one."""
        return None

    @property
    def time_attributes(self) -> tuple[Field, ...]:
        """The fields by which windows may be assigned, and whose watermark operators may wait for."""
        return tuple(f for f in self.schema if f.time is not None)

    @property
    @cached_per_node
    def watermark_delay_ms(self) -> int | None:
        """The largest delay, in milliseconds, of the event-time watermarks of the tables that the node reads; None if
        there is none.
        """
        delays = [d for d in (child.watermark_delay_ms for child in self.inputs) if d is not None]
        return max(delays, default=None)

    @property
    def column_provenance(self) -> Provenance:
        """A mapping from the name of each field of the schema to SQL text over table columns, from which it is
        computed. By default the fields are those of the input.
        """
        below = {name: text for child in self.inputs for name, text in child.column_provenance.items()}
        return {f.name: f.name for f in self.schema} | below

    @property
    def table_read(self) -> tuple[Table, tuple[str, ...]] | None:
        """A pair for a node that reads or looks up a table: the table, and the names of the columns that it reads. None
        for other nodes.
        """
        return None

    @property
    def side_table(self) -> Table | None:
        """The table that receives the node's side output, such as late rows; dead letters are not counted here."""
        return None

    @property
    def side_rows(self) -> str:
        """What the rows of the side output are called."""
        return "late rows"

    # --- changelog --------------------------------------------------------------------------------------------

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        """The kinds of rows (+I, -U, +U, -D) that the node emits; by default those of its inputs."""
        inputs = [child.changelog_mode for child in self.inputs]
        return frozenset().union(*inputs) if inputs else APPEND_ONLY

    @property
    def changes_row_kinds(self) -> bool:
        """True for stateless nodes that change the kinds of rows, such as TO_CHANGELOG."""
        return False

    def accepted_kinds(self, port: int = 0) -> Kinds:
        """The kinds of rows that the node accepts at an input, counted from 0.

        By default nodes without state accept all kinds, and those with state inserts only.
        """
        return APPEND_ONLY if self.keeps_state else ALL_KINDS

    @property
    def why_inserts_only(self) -> str | None:
        """Why the node accepts only insertions, as the end of a sentence in a message; None if no reason can be
        given.
        """
        return None

    @property
    def consumer_name(self) -> str:
        """The name of the node in messages about the kinds of rows that it accepts."""
        return type(self).__name__

    @property
    def producer_name(self) -> str:
        """The name of the node in messages about updates or deletes that it emits."""
        return type(self).__name__

    @property
    def append_only_hint(self) -> str | None:
        """What the user can change so that the node emits inserts only; None where no change would do."""
        return None

    def append_only_variant(self) -> Node | None:
        """A node with the same final rows that emits each row once, when it is final; None where none is known."""
        return None

    @property
    def prefers_inserts(self) -> bool:
        """True if the node accepts changes, but would give the same result from final rows, with less state."""
        return False

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """Sets of field names. Each set identifies the row that an update or delete is about.

        Changes with equal values of such a key leave the node in their order, and the last one is the current row.
        """
        return self.unique_keys

    def is_in_upsert_key(self, names: set[str]) -> bool:
        """True if one upsert key contains all the fields ``names``, so that an update never changes their values."""
        return any(names <= key for key in self.upsert_keys)

    def reads_update_before(self, above: bool, port: int = 0) -> bool:
        """True if the node needs -U rows, and complete rows in -D, at the input ``port``. ``above``: operators above
        need them.

        By default stateless nodes need what those above need, and stateful ones need both.
        """
        return above or self.keeps_state

    def without_update_before(self) -> Node:
        """The node to use where no operator above needs -U or complete rows in -D; by default the node itself."""
        return self

    # --- state and clocks -------------------------------------------------------------------------------------

    @property
    def keeps_state(self) -> bool:
        """True for stateful operators, which a kernel runs: windows that fire, joins, lookups that defer rows and
        others.
        """
        return False

    def state_descriptions(self) -> Iterator[StateDescription]:
        """What the operator stores, and what limits its size; by default its state grows without limit."""
        if self.keeps_state:
            yield StateDescription("its state", None)

    @property
    def state_title(self) -> tuple[str, str]:
        """A pair: the kind of the operator in a checkpoint's fingerprint, and its name in messages."""
        return type(self).__name__, type(self).__name__

    def state_facts(self) -> Iterator[tuple[str, str]]:
        """Everything on which the operator's stored state depends, as texts by name.

        A checkpoint stores these facts, and a changed query must have the same ones to go on from it. Expressions are
        traced down to columns of tables, so a renamed field, one more column or a filter changes nothing here. By
        default all fields of the node are facts.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, Node) and not (isinstance(value, tuple) and value and isinstance(value[0], Node)):
                yield field.name.replace("_", " "), _fact_text(value)

    @property
    def rows_fact(self) -> str:
        """For operators above that store whole rows of this node: the provenance and types of the columns, by position,
        as a text that the checkpoint keeps and a changed query must share (see ``state_facts``).
        """
        return fields_fact(self.schema, self.column_provenance)

    @property
    def shapes_state_above(self) -> bool:
        """True for stateless nodes that assign windows which operators above store, so that their state depends on this
        node.
        """
        return False

    def reads_windows(self, above: bool) -> bool:
        """True if this node, or a node above (``above``), reads the window columns of the input."""
        return above

    @property
    def stateful_user_function(self) -> str | None:
        """The name of the user's function that declares the operator's state; None if no function does."""
        return None

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        """The time domains (event or processing time) whose watermark the node waits for before it emits."""
        return frozenset()

    @property
    def uses_processing_time(self) -> bool:
        """True if the processing-time clock makes the node act, or if only that clock can report the end of the input
        to it.
        """
        return False

    @property
    def emits_ahead_of_clock(self) -> bool:
        """True if rows that the node emits when the clock reaches a time must arrive at operators above before their
        clock reaches it.
        """
        return False

    @property
    def takes_branches(self) -> bool:
        """True for a node with several inputs that can take some of them from the rows of one operator, which runs
        once: each row goes to all inputs that filter and project it.
        """
        return False

    @property
    def is_batch_invariant(self) -> bool:
        """True if the result does not depend on how the input is divided into micro-batches.

        Such a node emits at once what does not depend on other rows, or only what a watermark has passed. Results of
        triggers, changelogs and processing time depend on the micro-batches.
        """
        return False

    @property
    def why_rows_stored(self) -> str | None:
        """Why the state of windows stores rows; None if it stores accumulators, or nothing."""
        return None

    @property
    def fires_on_barriers(self) -> bool:
        """True for windows that may fire when a barrier of ALIGN BARRIERS has arrived on all channels."""
        return False

    @property
    def waits_for(self) -> WaitsFor | None:
        """For which event, other than time, stored rows may wait: for instance the answer of a lookup. None if they
        wait for time only, or if none are stored.
        """
        return None

    # --- rules ------------------------------------------------------------------------------------------------

    def with_constants_folded(self) -> Node:
        """The node with the constant parts of its expressions computed."""
        return self

    def pruned(self, required: FieldNames) -> Node:
        """The node with only the ``required`` fields, and those that it cannot leave out. Its inputs are pruned to the
        fields that it needs.
        """
        raise AssertionError(f"no pruning for {type(self).__name__}")

    @property
    def removed_if_unread(self) -> bool:
        """True for operators that only add fields: where none of these is required, ``pruned`` removes the operator."""
        return False

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above this node may be moved below it; ``read`` are the fields that its condition reads."""
        return False

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        """Returns the node with filters moved below it. All ``conditions`` satisfy ``passes_filter``; ``push`` filters
        an input by conditions.
        """
        raise AssertionError(f"no condition passes {type(self).__name__}")

    def with_lookup_filters(self, accepts: Accepts) -> Node:
        """For a lookup: the node in which those conditions of ON that ``accepts`` allows are evaluated by the source.
        Other nodes are unchanged.
        """
        return self

    @property
    def aggregate_items(self) -> tuple[Item, ...]:
        """The aggregate calls that the kernel of the node computes over rows of its input."""
        return ()

    def as_top_n(self, conditions: Conditions, push: PushFilters) -> Node | None:
        """For a join of windows with their own maximum or minimum: a Top-N that computes the windows once and gives the
        rows of the join that meet all ``conditions``; ``push`` filters a node by conditions. None for other nodes.
        """
        return None

    @property
    def sides_by_key(self) -> tuple[tuple[Node, ...], tuple[tuple[exp.Expression, ...], ...]] | None:
        """For an inner join that keeps all rows of its inputs and has no other condition than equal keys: a pair of its
        inputs, and for each of them its keys. None for other nodes.
        """
        return None

    def with_joins_merged(self) -> Node:
        """For an inner join over another one on the same keys: one join of all their inputs. Other nodes are
        unchanged.
        """
        return self

    def with_windows_fused(self) -> Node:
        """For an aggregate over a window table function: one node that also assigns the windows. Other nodes are
        unchanged.
        """
        return self

    def with_distinct_rows_closed(self) -> Node:
        """For an aggregate in event-time windows over distinct rows: the node over an input whose state expires when
        the windows close. Other nodes are unchanged.
        """
        return self

    def distinct_rows_closed(self, time: str, after_ms: int) -> Node:
        """For a node that makes rows distinct: the node with state that expires ``after_ms`` milliseconds after the
        event time ``time`` of a row. Other nodes are unchanged.

        Do not call it on nodes below operators that store or join rows, because their results would change.
        """
        return self

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        """The fields of the inputs whose watermark must be computed, for this node or one above. ``needed`` are the
        fields of this node whose watermark nodes above wait for.
        """
        return needed

    def without_unused_time(self, needed: FieldNames) -> Node:
        """The node adapted to inputs from which unused watermarks were removed: a field stays a time attribute only if
        it is in ``needed`` and the input still has a watermark for it.
        """
        return self

    # --- the physical plan ------------------------------------------------------------------------------------

    @property
    def needs_columnar(self) -> bool:
        """True for stateless nodes that Spark SQL cannot compute, such as windows by the wall clock of a time zone."""
        return False

    @property
    def columnar_only_clause(self) -> str | None:
        """The clause of the node that Spark's own operators cannot run, for messages; None if they can run it."""
        return type(self).__name__.upper()

    @property
    def clause(self) -> str:
        """What of a statement the node is, for messages that refuse it."""
        return self.columnar_only_clause or type(self).__name__.upper()

    @property
    def updates_in_real_time(self) -> bool:
        """True where Spark's own operator updates the results of the stateful node with each row, by their keys."""
        return False

    @property
    def calls_functions(self) -> bool:
        """True for nodes without state that may call functions which fail for single rows."""
        return False

    @property
    def runs_in_arrow(self) -> bool:
        """True for nodes without state that run as Python over Arrow batches (``mapInArrow``)."""
        return self.needs_columnar

    @property
    def asked_together(self) -> tuple[Node, ...]:
        """For a stateless lookup, all lookups whose requests are sent at the same time as its own, the one nearest to
        the source first. Empty for other nodes.
        """
        return ()

    @property
    def port_count(self) -> int:
        """How many inputs the operator's kernel has; there is one exchange for each."""
        return 1

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        """The keys by which the operator's exchange distributes rows; empty: all rows go to one key group."""
        return ()

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        """The fields that the operator reads of an input if it reads them unchanged, so that its exchange can read them
        from files itself. None if it reads computed expressions, which Spark must compute.
        """
        return None

    @property
    def depends_on_arrival_order(self) -> bool:
        """True where results depend on the order in which rows arrived; sources then number their rows."""
        return True

    @property
    def queries_external_source(self) -> bool:
        """True for stateful lookups, which request rows of an external source. The physical plan numbers lookups."""
        return False

    def chain_link(self, rows_wait: bool) -> Link | str:
        """How this stateful operator is chained to the one upstream: a ``Link``, or a text that says why it needs an
        exchange instead.

        ``rows_wait``: some operator of the query may store rows that wait.
        """
        return "only windows with aggregates run in the call of another operator"

    def watermark_field(self, port: int = 0) -> str | None:
        """The time field whose maximum the exchange of an input may report as watermark; None where it may not."""
        return None

    @property
    @cached_per_node
    def has_sub_millisecond_times(self) -> bool:
        """True where event times of the rows may lie between two milliseconds, the unit of Spark's watermark."""
        return any(child.has_sub_millisecond_times for child in self.inputs)

    @property
    def operator_held_back_ms(self) -> int:
        """By how many milliseconds the watermark of this operator is earlier than that of the query."""
        return max((child.watermark_held_back_ms for child in self.inputs), default=0)

    @property
    @cached_per_node
    def watermark_held_back_ms(self) -> int:
        """How many milliseconds older than the query's watermark an emitted row may be without being late.

        The watermark of operators above is earlier by as much.
        """
        return self.operator_held_back_ms

    # --- EXPLAIN ----------------------------------------------------------------------------------------------

    def describe(self) -> str:
        """The node in one line, without its inputs: ``Filter(v > 3)``."""
        raise TypeError(f"no description for {type(self).__name__}")

    def remarks(self, shown: ShownNames) -> Iterator[Remark]:
        """Remarks about the node for EXPLAIN ADVICE, as sentences. ``shown``: what the user calls its fields."""
        return iter(())

    def shown_below(self, shown: ShownNames) -> ShownNames:
        """What the user calls the fields of the node's inputs, given what its own fields are called."""
        return shown

    @property
    def before_exchange_text(self) -> str | None:
        """For EXPLAIN PHYSICAL: what a stateful operator does before its exchange, such as pre-aggregation, in a few
        words; None for nothing.
        """
        return None

    @property
    def kernel_text(self) -> str:
        """For EXPLAIN PHYSICAL: a few words that describe the kernel of a stateful operator, to follow the word
        "kernel".
        """
        raise TypeError(f"no description of the kernel of {type(self).__name__}")

    @property
    def after_kernel_text(self) -> str | None:
        """For EXPLAIN PHYSICAL: what a stateful operator does after its kernel, such as a projection, in a few words;
        None for nothing.
        """
        return None

    @property
    def compute_text(self) -> str:
        """For EXPLAIN PHYSICAL: a few words that describe what a stateless node computes."""
        raise TypeError(f"no description for {type(self).__name__}")

    @property
    def native_state_text(self) -> str:
        """For EXPLAIN PHYSICAL: the operator of Spark that executes a stateful node on the native engine, in a few
        words.
        """
        raise TypeError(f"Spark has no operator for {type(self).__name__}")


LocalRule = Callable[[Node], Node]
PushFilters = Callable[[Node, Conditions], Node]
"""Filters a node by conditions, each as deep as it may go."""


@dataclass(frozen=True)
class Link:
    """How an operator is chained to the stateful operator upstream (``below``). ``fields`` are pairs: a field that it
    reads of its own input, and the name of that field in ``below``.
    """

    below: Node
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Unary(Node):
    """Base of nodes with one input, whose fields are by default those of the input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])

    def pruned(self, required: FieldNames) -> Node:
        """The node over an input with only the fields that the node needs. It keeps all its own fields, as the root of
        a plan must.
        """
        return replace(self, input=self.input.pruned(self.input.field_names))

    def with_pushed_filters(self, conditions: Conditions, push: PushFilters) -> Node:
        return replace(self, input=push(self.input, conditions))


def bottom_up(node: Node, rule: LocalRule) -> Node:
    """The plan with ``rule`` applied to every node, inputs first."""
    return rule(node.with_inputs(tuple(bottom_up(child, rule) for child in node.inputs)))


def _fact_text(value: object) -> str:
    if isinstance(value, exp.Expression):
        return value.sql(dialect="spark")
    if isinstance(value, tuple):
        return f"[{', '.join(map(_fact_text, value))}]"
    if is_dataclass(value):
        return f"({', '.join(_fact_text(getattr(value, f.name)) for f in fields(value))})"
    return str(value)
