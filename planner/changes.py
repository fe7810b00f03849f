"""Changes of rows: which kinds of rows operators take, by which key their results change, and who reads -U.

``properties.changelog_mode`` says which kinds a node emits. The binder refuses inputs whose kinds an operator does not
take, the physical plan drops -U where nobody above reads it, EXPLAIN CHANGELOG_MODE shows both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from itertools import product
from typing import TypeVar

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, Table
from sqlstream.planner.nodes import (
    AssignTime,
    Correlate,
    Filter,
    Insert,
    Node,
    Output,
    Project,
    Scan,
    Unary,
)
from sqlstream.planner.properties import changelog_mode, changelog_text, keeps_state, unique_keys
from sqlstream.planner.remembering import remembered
from sqlstream.planner.rewriting import columns_of, with_inputs

Kinds = frozenset[RowKind]
NodeT = TypeVar("NodeT", bound=Node)
Keys = frozenset[frozenset[str]]

# --- what operators take --------------------------------------------------------------------------------------


@singledispatch
def takes_changes(node: Node, port: int = 0) -> Kinds:
    """The kinds of rows that a node takes at an input, counted from 0.

    Nodes without state pass all kinds on as they are. Those with state take inserts only, unless they say otherwise.
    """
    return APPEND_ONLY if keeps_state(node) else ALL_KINDS


@takes_changes.register
def _(node: Insert, port: int = 0) -> Kinds:
    """A sink that upserts deletes by -U, where that is no part of a pair for its key."""
    return node.takes | {RowKind.UPDATE_BEFORE} if RowKind.UPDATE_AFTER in node.takes else node.takes


@singledispatch
def why_inserts_only(node: Node) -> str | None:
    """Why a node takes inserted rows only, as the end of a sentence; None where there is no more to say."""
    return None


@singledispatch
def taken_by(node: Node) -> str:
    """What messages call a node that takes changes or does not."""
    return type(node).__name__


def not_taken(node: Node) -> Iterator[tuple[int, Kinds]]:
    """The inputs of a node, as ports, that have kinds of rows which it does not take."""
    for port, below in enumerate(node.inputs):
        kinds = changelog_mode(below) - takes_changes(node, port)
        if kinds:
            yield port, kinds


def maker_of(node: Node, kinds: Kinds) -> Node:
    """The operator or table, at or below ``node``, that makes rows of these kinds, of which ``node`` has some."""
    for below in node.inputs:
        if changelog_mode(below) & kinds:
            return maker_of(below, kinds)
    return node


@singledispatch
def made_by(node: Node) -> str:
    """What messages call the maker of changes."""
    return type(node).__name__


@made_by.register
def _(node: Scan) -> str:
    return f'table "{node.table.name}"'


@singledispatch
def instead_of(node: Node) -> str | None:
    """What to write so that the maker of changes emits inserted rows only; None where nothing does."""
    return None


@singledispatch
def with_inserts(node: Node) -> Node | None:
    """The same rows, in the end, as inserts only: those that others could still take the place of wait until they are
    final. None where that is not known."""
    return None


@with_inserts.register(Project)
@with_inserts.register(Filter)
@with_inserts.register(AssignTime)
@with_inserts.register(Correlate)
def _(node: Unary) -> Node | None:
    below = with_inserts(node.input)
    return None if below is None else with_inputs(node, (below,))


@singledispatch
def prefers_inserts(node: Node) -> bool:
    """True where a node that takes changes does as well with each row once it is final, and keeps less then."""
    return False


def with_final_rows(node: NodeT) -> NodeT:
    """The node, over inputs that emit each row once it is final, where it wants inserts only and they can."""
    inputs = list(node.inputs)
    changing = (port for port, below in enumerate(inputs) if changelog_mode(below) != APPEND_ONLY)
    for port in changing if prefers_inserts(node) else [port for port, _ in not_taken(node)]:
        final = with_inserts(inputs[port])
        if final is not None and changelog_mode(final) <= takes_changes(node, port):
            inputs[port] = final
    final_node = with_inputs(node, tuple(inputs))
    assert isinstance(final_node, type(node))
    return final_node


# --- the keys by which results change -------------------------------------------------------------------------


@remembered
@singledispatch
def upsert_keys(node: Node) -> Keys:
    """Sets of fields that tell which row a change is about: changes of equal values follow each other, and the last
    one counts."""
    return unique_keys(node)


@upsert_keys.register(Filter)
@upsert_keys.register(AssignTime)
@upsert_keys.register(Output)
@upsert_keys.register(Insert)
def _(node: Unary) -> Keys:
    return upsert_keys(node.input)


@upsert_keys.register
def _(node: Project) -> Keys:
    """A column may have several names above; casts of whole numbers to wider ones, or to texts, are as good."""
    names: dict[str, list[str]] = {}
    types = {f.name: f.type.name for f in node.input.schema}
    for item in node.items:
        value = item.expression
        if isinstance(value, exp.Cast) and isinstance(value.this, exp.Column):
            value = value.this if _widens(types[value.this.name], item.type.name) else value
        if isinstance(value, exp.Column):
            names.setdefault(value.name, []).append(item.name)
    keys = (sorted(key) for key in upsert_keys(node.input) if key <= names.keys())
    return frozenset(frozenset(chosen) for key in keys for chosen in product(*(names[name] for name in key)))


_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def _widens(source: str, target: str) -> bool:
    return source in _WHOLE and target in (*_WHOLE[_WHOLE.index(source) :], "STRING")


# --- who reads -U ---------------------------------------------------------------------------------------------


@singledispatch
def reads_before(node: Node, above: bool, port: int = 0) -> bool:
    """True where a node, or one above it (``above``), needs -U of its input, and all of the row in -D.

    Nodes without state need what those above need; those with state need it, unless they say otherwise.
    """
    return above or keeps_state(node)


@reads_before.register
def _(node: Output, above: bool, port: int = 0) -> bool:
    """Callers apply the changes to rows, not to keys."""
    return True


@reads_before.register
def _(node: Insert, above: bool, port: int = 0) -> bool:
    return RowKind.UPDATE_BEFORE in node.takes or not upserts_by_key(node)


@reads_before.register
def _(node: Filter, above: bool, port: int = 0) -> bool:
    """Where a row is updated out of the filter, -U is all that comes of it; but for keys, which stay."""
    return above or not _by_key(node.input, columns_of(node.condition))


@reads_before.register
def _(node: Correlate, above: bool, port: int = 0) -> bool:
    """As many rows, or for the same keys, come of an updated row as of the one before only by chance."""
    return True


@singledispatch
def where_unread(node: Node) -> Node:
    """What does for a node where nobody above needs -U and all of the row in -D; mostly itself."""
    return node


def upserts_by_key(node: Insert) -> bool:
    """True where each change of the input is about the row with the PRIMARY KEY of the table."""
    columns = (c.name for c in node.table.physical_columns)
    fields = {column: f.name for column, f in zip(columns, node.input.schema, strict=True)}
    key = frozenset(fields[name] for name in node.table.primary_key)
    return bool(key) and key in upsert_keys(node.input)


def _by_key(node: Node, read: set[str]) -> bool:
    return any(read <= key for key in upsert_keys(node))


def drops_before(node: Node, above: bool) -> bool:
    """True where -U is dropped right above a node that makes it; ``above``: somebody above needs it."""
    if above or RowKind.UPDATE_BEFORE not in changelog_mode(node):
        return False
    if isinstance(node, Scan):
        return _by_key(node, set().union(*map(columns_of, node.predicates)))
    return keeps_state(node)


@singledispatch
def changes_kinds(node: Node) -> bool:
    """True for nodes without state that do not pass the kinds of rows on as they are."""
    return False


@dataclass(frozen=True)
class Changes:
    """A node and those below it, each with the ``kinds`` of its rows as they go up. ``drops``: -U is dropped here."""

    node: Node
    kinds: Kinds
    drops: bool
    inputs: tuple[Changes, ...] = ()

    def walk(self) -> Iterator[Changes]:
        """This one and all below it, in the order of ``Node.walk``."""
        waiting = [self]
        while waiting:
            changes = waiting.pop()
            yield changes
            waiting.extend(reversed(changes.inputs))

    @property
    def text(self) -> str:
        """``append``, ``upsert by k: I,UA,D``, ``retract: I,UB,UA,D``."""
        if self.kinds == APPEND_ONLY:
            return "append"
        kinds = changelog_text(self.kinds)
        if RowKind.UPDATE_BEFORE in self.kinds or RowKind.UPDATE_AFTER not in self.kinds:
            return f"retract: {kinds}"
        keys = sorted(upsert_keys(self.node), key=lambda key: (len(key), sorted(key)))
        keys_text = f" by {', '.join(sorted(keys[0]))}" if keys else ""
        return f"upsert{keys_text}: {kinds}"


def changes_of(node: Node, above: bool = False) -> Changes:
    """The nodes of a plan with what their rows are, as the physical plan runs them."""
    inputs = tuple(changes_of(below, reads_before(node, above, port)) for port, below in enumerate(node.inputs))
    drops = drops_before(node, above)
    own = not inputs or keeps_state(node) or changes_kinds(node)
    kinds = changelog_mode(node) if own else frozenset().union(*(below.kinds for below in inputs))
    return Changes(node, kinds - {RowKind.UPDATE_BEFORE} if drops else kinds, drops, inputs)


def changes_told(changes: Changes) -> Iterator[str]:
    """What happens to changes at a node, in a few words."""
    if changes.drops:
        yield "-U dropped"
    node = changes.node
    if isinstance(node, Insert) and changes.kinds != APPEND_ONLY:
        by_key = RowKind.UPDATE_BEFORE not in node.takes
        key = ", ".join(node.table.primary_key)
        yield f"sink upserts by {key}" if by_key and key else f"sink takes {changelog_text(node.takes)}"


# --- tables ---------------------------------------------------------------------------------------------------


def is_upsert(table: Table) -> bool:
    """True where changes of a table, as its options say, come without -U: they need its PRIMARY KEY."""
    return RowKind.UPDATE_AFTER in table.changelog and RowKind.UPDATE_BEFORE not in table.changelog
