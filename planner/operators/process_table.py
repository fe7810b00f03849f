"""Process functions: Python classes of users over the rows of tables, row by row or by key with state and timers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.expressions import sql
from sqlstream.planner.fields import Field, FieldNames, Item, Provenance, Schema, keys_fact
from sqlstream.planner.node import Node, cached_per_node
from sqlstream.planner.properties import ArrivalOrder, Kinds, StateDescription
from sqlstream.types import DataType


@dataclass(frozen=True)
class ProcessInput:
    """A table argument of a process function: what the function gets of each input row.

    It gets the ``fields`` of the table, renamed to ``names`` and, if ``types`` are given, cast to them. ``time`` is the
    field with the event time of rows, None without one. ``passed`` are the fields of an input row that are emitted with
    each row that the function returns for it.
    """

    parameter: str
    fields: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[DataType, ...] = ()
    partition_by: tuple[str, ...] = ()
    time: str | None = None
    passed: tuple[str, ...] = ()

    @property
    def given(self) -> frozenset[str]:
        """The fields of the table that are passed to the function."""
        time = [self.time] if self.time is not None else []
        return frozenset({*self.fields, *self.partition_by, *self.passed, *time})


@dataclass(frozen=True)
class ProcessTable(Node):
    """A call of a process function (Flink's process table function) over tables, with state and timers per value of
    ``keys``, or row by row without keys.

    ``tables`` are the inputs, and ``arguments`` says for each of them what the function gets of it. ``keys`` are the
    PARTITION BY columns; those of all tables have the same types. ``constants`` are the scalar arguments, cast to the
    types of their parameters. ``descriptors`` are the DESCRIPTOR arguments, as pairs of a parameter and column names.
    ``passed``: with a single table, the fields of it that are emitted with each result, in place of the keys.
    ``in_order``: rows are processed in order of event time. ``clock``: the function reads processing time. ``domain``:
    the time domain of the rows' times. Schema: keys or passed, results, rowtime.
    """

    tables: tuple[Node, ...]
    arguments: tuple[ProcessInput, ...]
    function: str
    uid: str
    results: Schema
    keys: Schema = ()
    passed: Schema = ()
    constants: tuple[Item, ...] = ()
    descriptors: tuple[tuple[str, tuple[str, ...]], ...] = ()
    rowtime: Field | None = None
    in_order: bool = False
    clock: bool = False
    domain: TimeDomain = TimeDomain.EVENT

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.tables

    @property
    def timed(self) -> bool:
        """True where the rows have event times."""
        return self.arguments[0].time is not None

    @cached_property
    def schema(self) -> Schema:
        rowtime = (self.rowtime,) if self.rowtime is not None else ()
        return (*(self.passed or self.keys), *self.results, *rowtime)

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, tables=inputs)

    # --- properties -------------------------------------------------------------------------------------------

    @property
    def keeps_state(self) -> bool:
        return bool(self.keys)

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        return frozenset({self.domain}) if self.keys and self.timed else frozenset()

    @property
    def uses_processing_time(self) -> bool:
        return self.clock

    @property
    def operator_held_back_ms(self) -> int:
        """By how many milliseconds this operator's watermark is earlier than that of the query: as much as at its
        input, and one more if times are finer than milliseconds. Functions see whole milliseconds, so rows of a
        millisecond may arrive until the watermark has reached the next one.
        """
        finer = self.timed and self.domain is not TimeDomain.PROCESSING and self.has_sub_millisecond_times
        return super().operator_held_back_ms + (1 if finer else 0)

    @property
    def emits_ahead_of_clock(self) -> bool:
        return self.domain is TimeDomain.PROCESSING

    @property
    @cached_per_node
    def arrival_order(self) -> ArrivalOrder:
        return ArrivalOrder.MIXED if self.keys else self.tables[0].arrival_order

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        # It is unknown which fields the function reads.
        tables = (table.pruned(argument.given) for table, argument in zip(self.tables, self.arguments, strict=True))
        return replace(self, tables=tuple(tables))

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return frozenset(a.time for a in self.arguments if a.time is not None)

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        parts = [_table_argument(a, self.in_order) for a in self.arguments]
        parts += [f"{c.name} => {sql(c.expression)}" for c in self.constants]
        parts += [f"{name} => DESCRIPTOR({', '.join(columns)})" for name, columns in self.descriptors]
        return f"ProcessTable({self.function}; {'; '.join([*parts, f'uid {self.uid}'])})"

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return tuple(key.name for key in self.keys)

    columnar_only_clause = "a process function with PARTITION BY"

    calls_functions = True

    runs_in_arrow = True

    compute_text = "mapInArrow that calls the function row by row"

    @property
    def before_exchange_text(self) -> str | None:
        return f"union of {len(self.tables)} tables" if len(self.tables) > 1 else None

    @property
    def kernel_text(self) -> str:
        order = ", rows kept until the watermark passes them" if self.in_order else ""
        return f"that calls the function row by row{order}"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        provenance = {f.name: f"{self.uid}.{f.name}" for f in self.schema}
        below = self.tables[0].column_provenance
        first = self.arguments[0]
        given = zip(self.passed or self.keys, first.passed if self.passed else first.partition_by, strict=False)
        return provenance | {field.name: below[name] for field, name in given}

    @property
    def state_title(self) -> tuple[str, str]:
        return "process function", f'process function "{self.function}"'

    @property
    def stateful_user_function(self) -> str | None:
        return self.function

    def state_facts(self) -> Iterator[tuple[str, str]]:
        yield "uid", self.uid
        yield "function", self.function
        for table, argument in zip(self.tables, self.arguments, strict=True):
            names = table.column_provenance
            yield f'keys of "{argument.parameter}"', keys_fact(table.schema, argument.partition_by, names)
            yield f'event time of "{argument.parameter}"', names.get(argument.time or "", "none")
            if self.in_order:
                read = (*argument.fields, *argument.passed)
                types = {f.name: f.type for f in table.schema}
                yield f'columns of "{argument.parameter}"', ", ".join(f"{names[n]} {types[n]}" for n in read)
        yield "order of rows", "by event time" if self.in_order else "as they come"

    # --- changes ----------------------------------------------------------------------------------------------

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return APPEND_ONLY

    why_inserts_only = "the function is not told the kinds of its rows"

    @property
    def consumer_name(self) -> str:
        return f'process function "{self.function}"'

    def state_descriptions(self) -> Iterator[StateDescription]:
        if self.keys:
            yield StateDescription(f"what {self.function} declares, by key", f"{self.function} forgets it")
        if self.keys and self.in_order:
            yield StateDescription("rows that wait for their turn", "the watermark passes them")


def _table_argument(argument: ProcessInput, in_order: bool) -> str:
    keys = f" partition by {', '.join(argument.partition_by)}" if argument.partition_by else ""
    on = "in order of" if in_order else "on"
    order = f" {on} {argument.time}" if argument.time or in_order else ""
    return f"{argument.parameter}({', '.join(argument.fields)}){keys}{order}"


# --- what runs ------------------------------------------------------------------------------------------------
