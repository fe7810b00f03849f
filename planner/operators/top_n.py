"""Top-N: of the rows with equal keys those with the best numbers in any order; in windows, when these close."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.changes import instead_of, made_by, taken_by, takes_changes, upsert_keys, with_inserts
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.keeping import Kept, after, kept
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import names_of
from sqlstream.planner.naming import field_of
from sqlstream.planner.nodes import Field, Filter, Insert, Item, Node, Output, Project, Schema, Unary
from sqlstream.planner.operators.over import Over, OverCall, Sorted, sorted_text
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.readers import FieldsRead, fields_read
from sqlstream.planner.physical.state_facts import keys_fact, rows_fact, state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import (
    WindowInfo,
    awaited_by,
    changelog_mode,
    is_joint,
    keeps_state,
    unique_keys,
    uses_processing_time,
    window_of,
)
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import passes
from sqlstream.planner.rules.remove_unused_time import needed_below
from sqlstream.types import DataType

ROW_NUMBER = "row_number"
INT = DataType("INT")


@dataclass(frozen=True)
class Closing:
    """When the window of a row has all its rows: ``after_ms`` after the time in ``field``."""

    field: str
    after_ms: int


@dataclass(frozen=True)
class TopN(Unary):
    """The rows whose ``function``, one of ``over.NUMBERS``, is from ``first`` to ``last`` among those of equal ``keys``
    in the ``order``; of equal rows the first one that came goes first.

    What rows change comes out at once; where the keys tell a window of event time, which ``closes``, its rows come out
    once, when the watermark has passed it, and rows that come later are dropped. ``number`` names the field with the
    number of a row, None where nobody reads it. ``newest_first``: of equal rows the last one goes first.
    ``ttl_ms``: a key is forgotten so long after its rows last changed; 0: never.
    Schema: that of the input, then the number.
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
        """The fields of the input that keys, order and windows read."""
        closes = {self.closes.field} if self.closes is not None else set()
        return frozenset({*self.keys, *(key.name for key in self.order), *closes})

    @property
    def is_single(self) -> bool:
        """True where a key has one row at most."""
        return self.function == ROW_NUMBER and self.first == self.last


@dataclass(frozen=True)
class Wanted:
    """The rows of LIMIT, behind those that OFFSET skips."""

    rows: int
    skipped: int

    @property
    def last(self) -> int:
        return self.skipped + self.rows


def rows_wanted(plan: Node) -> Wanted | None:
    """What a query gives at most that has LIMIT and no order, after which nothing more can come out of it; None for
    all others."""
    match plan:
        case Output() | Insert() | Project():
            return rows_wanted(plan.input)
        case TopN(keys=(), order=()) if changelog_mode(plan) == APPEND_ONLY:
            return Wanted(plan.last - plan.first + 1, plan.first - 1)
    return None


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: TopN) -> bool:
    return True


@is_joint.register
def _(node: TopN) -> bool:
    return node.closes is not None


@awaited_by.register
def _(node: TopN) -> frozenset[TimeDomain]:
    return frozenset({TimeDomain.EVENT}) if node.closes is not None else frozenset()


@uses_processing_time.register
def _(node: TopN) -> bool:
    return node.ttl_ms > 0


@unique_keys.register
def _(node: TopN) -> frozenset[frozenset[str]]:
    return unique_keys(node.input) | _slots(node)


def _slots(node: TopN) -> frozenset[frozenset[str]]:
    """The fields that tell which place a row has."""
    if node.is_single:
        return frozenset({frozenset(node.keys)}) if node.keys else frozenset()
    if node.function != ROW_NUMBER or node.number is None:
        return frozenset()
    return frozenset({frozenset({*node.keys, node.number})})


@window_of.register
def _(node: TopN) -> WindowInfo | None:
    return window_of(node.input)


# --- changes --------------------------------------------------------------------------------------------------


@changelog_mode.register
def _(node: TopN) -> frozenset[RowKind]:
    appends = changelog_mode(node.input) == APPEND_ONLY
    if node.closes is not None or (appends and not node.order):
        return APPEND_ONLY
    if not node.is_single and node.number is None:
        return frozenset({RowKind.INSERT, RowKind.DELETE})
    return ALL_KINDS - {RowKind.DELETE} if appends and node.function == ROW_NUMBER else ALL_KINDS


@takes_changes.register
def _(node: TopN, port: int = 0) -> frozenset[RowKind]:
    """A row that is retracted would not have the time at which it came."""
    fields = {f.name: f for f in node.input.schema}
    by_arrival = any(fields[key.name].time is TimeDomain.PROCESSING for key in node.order)
    return APPEND_ONLY if node.closes is not None or by_arrival else ALL_KINDS


@upsert_keys.register
def _(node: TopN) -> frozenset[frozenset[str]]:
    """Where rows take the place of others, changes are about places; else about rows of their keys."""
    slots = _slots(node)
    if slots or node.is_single:
        return slots
    return frozenset(key | set(node.keys) for key in unique_keys(node.input))


@taken_by.register
def _(node: TopN) -> str:
    return "Top-N in the order of processing time" if node.closes is None else "Top-N of windows"


@made_by.register
def _(node: TopN) -> str:
    return "Top-N"


@instead_of.register
def _(node: TopN) -> str:
    return "rank the rows of windows (PARTITION BY window_start, window_end), or number rows in the order of event time"


@with_inserts.register
def _(node: TopN) -> Node | None:
    """Numbers in the order of event time are final when the watermark has passed: OVER emits such rows once."""
    fields = {f.name: f for f in node.input.schema}
    if not node.order or node.order[0].descending or fields[node.order[0].name].time is not TimeDomain.EVENT:
        return None
    if changelog_mode(node.input) != APPEND_ONLY or node.number is None:
        return None
    return _filtered_over(node, node.number)


def _filtered_over(node: TopN, number: str) -> Node:
    time, *ties = node.order
    item = Item(number, exp.Anonymous(this=node.function, expressions=[]), INT, False)
    numbered = Over(node.input, node.keys, time.name, (OverCall(item, None),), TimeDomain.EVENT, tuple(ties))
    return Filter(numbered, between(number, node.first, node.last))


def between(number: str, first: int, last: int) -> exp.Expression:
    """The condition on a field of numbers."""
    column, low, high = field_of(number), exp.Literal.number(first), exp.Literal.number(last)
    if first == last:
        return exp.EQ(this=column, expression=low)
    below = exp.LTE(this=column, expression=high)
    return below if first == 1 else exp.And(this=exp.GTE(this=column.copy(), expression=low), expression=below)


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: TopN, required: Names) -> Node:
    number = node.number if node.number in required else None
    below = (required - ({node.number} if node.number is not None else set())) | node.read
    return replace(node, number=number, input=pruned(node.input, frozenset(below)))


@passes.register
def _(node: TopN, read: set[str]) -> bool:
    """UNSAFE but on keys: a filtered row still has a place before others."""
    return bool(read) and read <= set(node.keys)


@needed_below.register
def _(node: TopN, needed: Names) -> Names:
    return needed | ({node.closes.field} if node.closes is not None else set())


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: TopN) -> str:
    parts = [f"keys {', '.join(node.keys)}"] if node.keys else []
    parts += [f"order {', '.join(map(sorted_text, node.order))}"] if node.order else []
    bounds = str(node.first) if node.first == node.last else f"{node.first} to {node.last}"
    parts.append(f"{node.function.upper()} {bounds}{f' AS {node.number}' if node.number is not None else ''}")
    parts += ["when windows close"] if node.closes is not None else []
    parts += ["last of equal ones"] if node.newest_first else []
    parts += [f"forgets keys after {readable(node.ttl_ms)}"] if node.ttl_ms else []
    return f"TopN({'; '.join(parts)})"


@kernel.register
def _(node: TopN) -> str:
    if node.closes is not None:
        return "of the rows of open windows"
    return "of the best rows of each key" if changelog_mode(node.input) == APPEND_ONLY else "of all rows of each key"


# --- what runs ------------------------------------------------------------------------------------------------


@keys_of.register
def _(node: TopN) -> tuple[str, ...]:
    return node.keys


@fields_read.register
def _(node: TopN, port: int = 0) -> FieldsRead | None:
    """The end of a window is computed."""
    return None if node.closes is not None else FieldsRead(tuple(f.name for f in node.input.schema), node.keys)


@only_columnar.register
def _(node: TopN) -> str | None:
    return "Top-N"


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: TopN) -> Meanings:
    below = names_of(node.input)
    return below if node.number is None else {**below, node.number: f"{node.function.upper()} OVER"}


@title_of.register
def _(node: TopN) -> tuple[str, str]:
    return "Top-N", "Top-N"


@state_facts.register
def _(node: TopN) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)
    yield "keys", keys_fact(node.input, node.keys, names)
    order = (sorted_text(replace(key, name=names[key.name])) for key in node.order)
    yield "order", ", ".join(order) or "as rows come"
    yield "function", node.function.upper()
    yield "numbers", f"{node.first} to {node.last}"
    yield "rows come out", "when windows close" if node.closes is not None else "at once"
    yield "number of a row", "shown" if node.number is not None else "not shown"
    yield "rows kept", "all of a key" if changelog_mode(node.input) != APPEND_ONLY else "the best of a key"
    yield "columns", rows_fact(node.input)
    yield "forgets", "keys after a time" if node.ttl_ms else "nothing"


@kept.register
def _(node: TopN) -> Iterator[Kept]:
    if node.closes is not None:
        yield Kept("the first rows of each window", "the watermark passes the window")
    elif changelog_mode(node.input) != APPEND_ONLY:
        yield Kept("all rows of each key", after(node.ttl_ms, "the rows of the key last changed"))
    elif not node.keys:
        yield Kept("the first rows", f"there are {node.last:,}")
    else:
        yield Kept("the first rows of each key", after(node.ttl_ms, "the rows of the key last changed"))
