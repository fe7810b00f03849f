"""Process functions: Python classes of users over the rows of tables, row by row or by key with state and timers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlstream.planner.catalog import APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.changes import taken_by, takes_changes, why_inserts_only
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.explain.window_text import sql
from sqlstream.planner.keeping import Kept, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import names_of
from sqlstream.planner.nodes import Field, Item, Node, Schema
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.planning import Above, stateless_step
from sqlstream.planner.physical.state_facts import function_with_state, keys_fact, state_facts, title_of
from sqlstream.planner.physical.steps import Compute, Step
from sqlstream.planner.physical.text import before_exchange, computed, kernel
from sqlstream.planner.properties import (
    ArrivalOrder,
    acts_by_clock,
    arrival_order,
    awaited_by,
    keeps_state,
    uses_processing_time,
)
from sqlstream.planner.rewriting import over
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.remove_unused_time import needed_below
from sqlstream.types import DataType


@dataclass(frozen=True)
class ProcessInput:
    """A table argument: its rows have the ``fields`` of the table, called ``names``, cast to ``types`` where given.

    ``time`` is the field with the event time of rows, where the call has one; ``passed`` are the fields that come out
    with each row that the function makes.
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
        """The fields of the table that the function is given."""
        time = [self.time] if self.time is not None else []
        return frozenset({*self.fields, *self.partition_by, *self.passed, *time})


@dataclass(frozen=True)
class ProcessTable(Node):
    """A process function over tables, row by row (without ``keys``) or by key, with state and timers.

    ``tables`` and ``arguments`` belong together; the keys of all tables have the types of ``keys``. ``constants`` are
    the other arguments, cast; ``descriptors`` are parameters with names of columns. ``passed`` are what the only
    table's passed fields are called, which then stand in place of the keys. ``in_order``: rows by event time.
    ``clock``: the function needs processing time. ``domain`` is that of the times of rows. Schema: keys or passed,
    results, rowtime.
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


@over.register
def _(node: ProcessTable, inputs: tuple[Node, ...]) -> Node:
    return replace(node, tables=inputs)


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: ProcessTable) -> bool:
    return bool(node.keys)


@awaited_by.register
def _(node: ProcessTable) -> frozenset[TimeDomain]:
    return frozenset({node.domain}) if node.keys and node.timed else frozenset()


@uses_processing_time.register
def _(node: ProcessTable) -> bool:
    return node.clock


@acts_by_clock.register
def _(node: ProcessTable) -> bool:
    return node.domain is TimeDomain.PROCESSING


@arrival_order.register
def _(node: ProcessTable) -> ArrivalOrder:
    return ArrivalOrder.MIXED if node.keys else arrival_order(node.tables[0])


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: ProcessTable, required: Names) -> Node:
    # What the function reads of its rows, nobody knows.
    tables = (pruned(table, argument.given) for table, argument in zip(node.tables, node.arguments, strict=True))
    return replace(node, tables=tuple(tables))


@needed_below.register
def _(node: ProcessTable, needed: Names) -> Names:
    return frozenset(a.time for a in node.arguments if a.time is not None)


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: ProcessTable) -> str:
    parts = [_table_argument(a, node.in_order) for a in node.arguments]
    parts += [f"{c.name} => {sql(c.expression)}" for c in node.constants]
    parts += [f"{name} => DESCRIPTOR({', '.join(columns)})" for name, columns in node.descriptors]
    return f"ProcessTable({node.function}; {'; '.join([*parts, f'uid {node.uid}'])})"


def _table_argument(argument: ProcessInput, in_order: bool) -> str:
    keys = f" partition by {', '.join(argument.partition_by)}" if argument.partition_by else ""
    on = "in order of" if in_order else "on"
    order = f" {on} {argument.time}" if argument.time or in_order else ""
    return f"{argument.parameter}({', '.join(argument.fields)}){keys}{order}"


# --- what runs ------------------------------------------------------------------------------------------------


@stateless_step.register
def _(node: ProcessTable, above: Above) -> Step:
    above.require_calls()
    return Compute(node, above.below(node), arrow=True)


@keys_of.register
def _(node: ProcessTable) -> tuple[str, ...]:
    return tuple(key.name for key in node.keys)


@only_columnar.register
def _(node: ProcessTable) -> str | None:
    return "a process function with PARTITION BY"


@computed.register
def _(node: ProcessTable) -> str:
    return "mapInArrow that calls the function row by row"


@before_exchange.register
def _(node: ProcessTable) -> str | None:
    return f"union of {len(node.tables)} tables" if len(node.tables) > 1 else None


@kernel.register
def _(node: ProcessTable) -> str:
    order = ", rows kept until the watermark passes them" if node.in_order else ""
    return f"that calls the function row by row{order}"


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: ProcessTable) -> Meanings:
    meanings = {f.name: f"{node.uid}.{f.name}" for f in node.schema}
    below = names_of(node.tables[0])
    first = node.arguments[0]
    given = zip(node.passed or node.keys, first.passed if node.passed else first.partition_by, strict=False)
    return meanings | {field.name: below[name] for field, name in given}


@title_of.register
def _(node: ProcessTable) -> tuple[str, str]:
    return "process function", f'process function "{node.function}"'


@function_with_state.register
def _(node: ProcessTable) -> str | None:
    return node.function


@state_facts.register
def _(node: ProcessTable) -> Iterator[tuple[str, str]]:
    yield "uid", node.uid
    yield "function", node.function
    for table, argument in zip(node.tables, node.arguments, strict=True):
        names = names_of(table)
        yield f'keys of "{argument.parameter}"', keys_fact(table, argument.partition_by, names)
        yield f'event time of "{argument.parameter}"', names.get(argument.time or "", "none")
        if node.in_order:
            read = (*argument.fields, *argument.passed)
            types = {f.name: f.type for f in table.schema}
            yield f'columns of "{argument.parameter}"', ", ".join(f"{names[n]} {types[n]}" for n in read)
    yield "order of rows", "by event time" if node.in_order else "as they come"


# --- changes --------------------------------------------------------------------------------------------------


@takes_changes.register
def _(node: ProcessTable, port: int = 0) -> frozenset[RowKind]:
    return APPEND_ONLY


@why_inserts_only.register
def _(node: ProcessTable) -> str:
    return "the function is not told the kinds of its rows"


@taken_by.register
def _(node: ProcessTable) -> str:
    return f'process function "{node.function}"'


@kept.register
def _(node: ProcessTable) -> Iterator[Kept]:
    if node.keys:
        yield Kept(f"what {node.function} declares, by key", f"{node.function} forgets it")
    if node.keys and node.in_order:
        yield Kept("rows that wait for their turn", "the watermark passes them")
