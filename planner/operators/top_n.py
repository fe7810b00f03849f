"""Top-N: of the rows with equal keys those with the best numbers in any order; in windows, when these close."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.fields import Field, FieldNames, Item, Provenance, Schema, field_of, keys_fact
from sqlstream.planner.intervals import readable
from sqlstream.planner.node import Node, Unary, cached_per_node
from sqlstream.planner.nodes import AssignTime, Filter, Insert, Output, Project, Scan
from sqlstream.planner.operators.over import Closing, Over, OverCall, Sorted, sorted_text
from sqlstream.planner.properties import FieldsRead, Keys, Kinds, StateDescription, WindowInfo, expiry_text
from sqlstream.types import DataType

ROW_NUMBER = "row_number"
INT = DataType("INT")


@dataclass(frozen=True)
class TopN(Unary):
    """Emits the rows whose number is from ``first`` to ``last`` among the rows with equal ``keys``. ``function`` says
    how they are numbered: ROW_NUMBER, RANK or DENSE_RANK.

    They are numbered in the ``order``; equal rows by arrival, with ``newest_first`` the newest first. Changes of the
    result are emitted at once. If the keys contain an event-time window, its rows are emitted once, when the watermark
    closes it as ``closes`` says, and later rows are dropped. ``number`` names the field with the number of a row; None
    if it is not read. ``ttl_ms``: the state of a key expires this many milliseconds of processing time after its last
    change; 0: never. Schema: that of the input, then the number.
    """

    keys: tuple[str, ...]
    order: tuple[Sorted, ...]
    function: str
    first: int
    last: int
    number: str | None = None
    closes: Closing | None = None
    newest_first: bool = False
    ttl_ms: int = 0

    @cached_property
    def schema(self) -> Schema:
        number = (Field(self.number, INT, False),) if self.number is not None else ()
        return (*self.input.schema, *number)

    @property
    def read(self) -> frozenset[str]:
        """The input fields that keys, order and windows read."""
        closes = {self.closes.field} if self.closes is not None else set()
        return frozenset({*self.keys, *(key.name for key in self.order), *closes})

    @property
    def is_single(self) -> bool:
        """True where a key has at most one result row."""
        return self.function == ROW_NUMBER and self.first == self.last

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    def is_batch_invariant(self) -> bool:
        return self.closes is not None

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        return frozenset({TimeDomain.EVENT}) if self.closes is not None else frozenset()

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl_ms > 0

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        return self.input.unique_keys | self._slots

    @property
    def _slots(self) -> Keys:
        """The fields that identify the place of a row."""
        if self.is_single:
            return frozenset({frozenset(self.keys)}) if self.keys else frozenset()
        if self.function != ROW_NUMBER or self.number is None:
            return frozenset()
        return frozenset({frozenset({*self.keys, self.number})})

    @property
    @cached_per_node
    def window_info(self) -> WindowInfo | None:
        return self.input.window_info

    # --- changes ----------------------------------------------------------------------------------------------

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        appends = self.input.changelog_mode == APPEND_ONLY
        if self.closes is not None or (appends and not self.order):
            return APPEND_ONLY
        if not self.is_single and self.number is None:
            return frozenset({RowKind.INSERT, RowKind.DELETE})
        return ALL_KINDS - {RowKind.DELETE} if appends and self.function == ROW_NUMBER else ALL_KINDS

    def accepted_kinds(self, port: int = 0) -> Kinds:
        """All kinds of rows. Insertions only within windows, and if ORDER BY has a processing time, because a
        retraction does not say when its row arrived.
        """
        fields = {f.name: f for f in self.input.schema}
        by_arrival = any(fields[key.name].time is TimeDomain.PROCESSING for key in self.order)
        return APPEND_ONLY if self.closes is not None or by_arrival else ALL_KINDS

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """How the rows of changes are identified. With ROW_NUMBER as a column: by the keys and that number, because the
        next row with the number replaces the previous one. For one row per key: by the keys. Otherwise by each unique
        key of the input together with the keys.
        """
        slots = self._slots
        if slots or self.is_single:
            return slots
        return frozenset(key | set(self.keys) for key in self.input.unique_keys)

    @property
    def consumer_name(self) -> str:
        return "Top-N in the order of processing time" if self.closes is None else "Top-N of windows"

    producer_name = "Top-N"

    append_only_hint = (
        "rank the rows of windows (PARTITION BY window_start, window_end), or number rows in the order of event time"
    )

    def append_only_variant(self) -> Node | None:
        """An OVER in event time that emits each row once, when the watermark has passed its time and its number is
        final.
        """
        fields = {f.name: f for f in self.input.schema}
        if not self.order or self.order[0].descending or fields[self.order[0].name].time is not TimeDomain.EVENT:
            return None
        if self.input.changelog_mode != APPEND_ONLY or self.number is None:
            return None
        return self._filtered_over(self.number)

    def _filtered_over(self, number: str) -> Node:
        time, *ties = self.order
        item = Item(number, exp.Anonymous(this=self.function, expressions=[]), INT, False)
        numbered = Over(self.input, self.keys, time.name, (OverCall(item, None),), TimeDomain.EVENT, tuple(ties))
        return Filter(numbered, number_between(number, self.first, self.last))

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        number = self.number if self.number in required else None
        below = (required - ({self.number} if self.number is not None else set())) | self.read
        return replace(self, number=number, input=self.input.pruned(frozenset(below)))

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all keys.

        A filter on other fields would change the numbers of the remaining rows.
        """
        return bool(read) and read <= set(self.keys)

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return needed | ({self.closes.field} if self.closes is not None else set())

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        parts = [f"keys {', '.join(self.keys)}"] if self.keys else []
        parts += [f"order {', '.join(map(sorted_text, self.order))}"] if self.order else []
        bounds = str(self.first) if self.first == self.last else f"{self.first} to {self.last}"
        parts.append(f"{self.function.upper()} {bounds}{f' AS {self.number}' if self.number is not None else ''}")
        parts += ["when windows close"] if self.closes is not None else []
        parts += ["last of equal ones"] if self.newest_first else []
        parts += [f"forgets keys after {readable(self.ttl_ms)}"] if self.ttl_ms else []
        return f"TopN({'; '.join(parts)})"

    @property
    def kernel_text(self) -> str:
        if self.closes is not None:
            return "of the rows of open windows"
        return "of the best rows of each key" if self.input.changelog_mode == APPEND_ONLY else "of all rows of each key"

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.keys

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        """All fields of the input, which the exchange can read from files itself. None within windows, because Spark
        must compute the time at which a window closes.
        """
        return None if self.closes is not None else FieldsRead(tuple(f.name for f in self.input.schema), self.keys)

    columnar_only_clause = "Top-N"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        return below if self.number is None else {**below, self.number: f"{self.function.upper()} OVER"}

    state_title = ("Top-N", "Top-N")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance
        yield "keys", keys_fact(self.input.schema, self.keys, names)
        order = (sorted_text(replace(key, name=names[key.name])) for key in self.order)
        yield "order", ", ".join(order) or "as rows come"
        yield "function", self.function.upper()
        yield "numbers", f"{self.first} to {self.last}"
        yield "rows come out", "when windows close" if self.closes is not None else "at once"
        yield "number of a row", "shown" if self.number is not None else "not shown"
        yield "rows kept", "all of a key" if self.input.changelog_mode != APPEND_ONLY else "the best of a key"
        yield "columns", self.input.rows_fact
        yield "forgets", "keys after a time" if self.ttl_ms else "nothing"

    def state_descriptions(self) -> Iterator[StateDescription]:
        if self.closes is not None:
            yield StateDescription("the first rows of each window", "the watermark passes the window")
        elif self.input.changelog_mode != APPEND_ONLY:
            yield StateDescription("all rows of each key", expiry_text(self.ttl_ms, "the rows of the key last changed"))
        elif not self.keys:
            yield StateDescription("the first rows", f"there are {self.last:,}")
        else:
            yield StateDescription(
                "the first rows of each key", expiry_text(self.ttl_ms, "the rows of the key last changed")
            )


@dataclass(frozen=True)
class Limit:
    """LIMIT and OFFSET: ``rows`` rows after the first ``skipped`` ones."""

    rows: int
    skipped: int

    @property
    def last(self) -> int:
        """The position of the last row of the result in the input, counted from 1."""
        return self.skipped + self.rows


def limit_of(plan: Node) -> Limit | None:
    """The limit of a query that has LIMIT and no ORDER BY, so that the query can end when it is reached. None for other
    plans.
    """
    match plan:
        case Output() | Insert() | Project():
            return limit_of(plan.input)
        case TopN(keys=(), order=()) if plan.changelog_mode == APPEND_ONLY or plan.last < plan.first:
            return Limit(plan.last - plan.first + 1, plan.first - 1)
    return None


def first_rows(plan: Output) -> int | None:
    """How many rows of its table a query with LIMIT needs, whichever they are; None for one that chooses among them."""
    wanted, below = limit_of(plan), plan.input
    while isinstance(below, Project | AssignTime | TopN):
        below = below.input
    return wanted.last if wanted is not None and isinstance(below, Scan) and not below.predicates else None


def number_between(number: str, first: int, last: int) -> exp.Expression:
    """The condition ``first <= number <= last``, where ``number`` is the name of a field."""
    column, low, high = field_of(number), exp.Literal.number(first), exp.Literal.number(last)
    if first == last:
        return exp.EQ(this=column, expression=low)
    below = exp.LTE(this=column, expression=high)
    return below if first == 1 else exp.And(this=exp.GTE(this=column.copy(), expression=low), expression=below)
