"""What joins of two streams have in common: their sides, what must be equal, and the kinds of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY
from sqlstream.planner.changes import made_by, taken_by, upsert_keys
from sqlstream.planner.explain.window_text import sql
from sqlstream.planner.join_conditions import PairCondition, pair_condition
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import meaning, names_of
from sqlstream.planner.nodes import Field, Node, Schema
from sqlstream.planner.physical.kernels import keys_of, ports_of, sees_arrival
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.readers import FieldsRead, fields_read
from sqlstream.planner.physical.state_facts import rows_fact
from sqlstream.planner.properties import ArrivalOrder, arrival_order, changelog_mode, keeps_state, unique_keys
from sqlstream.planner.rewriting import columns_of, over
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import Conditions, filtered, into, passes
from sqlstream.udfs.joins import JoinKind


@dataclass(frozen=True)
class Equality:
    """Expressions of one type, over the fields of the left and of the right side. ``null_safe``: NULL equals NULL."""

    left: exp.Expression
    right: exp.Expression
    null_safe: bool = False


@dataclass(frozen=True)
class Join(Node):
    """Rows of ``left`` beside those of ``right`` that match: all of ``equal`` are, and ``condition`` is true.

    No field of one side has the name of one of the other. ``condition``: over the fields of both, for kinds that tell
    rows without a partner; what else inner joins ask for is a filter above. Schema: the fields of the left side, then,
    but for SEMI and ANTI, of the right; those of a side that may be missing are nullable.
    """

    left: Node
    right: Node
    kind: JoinKind
    equal: tuple[Equality, ...]
    condition: exp.Expression | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.left, self.right

    @cached_property
    def decided(self) -> PairCondition | None:
        """How kernels decide ``condition``."""
        if self.condition is None:
            return None
        return pair_condition(self.condition, self.left.schema, self.right.schema)

    @cached_property
    def schema(self) -> Schema:
        left, right = self.kind.padded
        if not self.kind.pairs:
            return self.left.schema
        return (*_fields(self.left, nullable=right), *_fields(self.right, nullable=left))

    @property
    def read(self) -> frozenset[str]:
        """The fields of both sides that decide about matches."""
        values = [side for equality in self.equal for side in (equality.left, equality.right)]
        return frozenset().union(*map(columns_of, values if self.condition is None else [*values, self.condition]))


def _fields(side: Node, *, nullable: bool) -> Schema:
    return tuple([f if f.nullable else replace(f, nullable=True) for f in side.schema]) if nullable else side.schema


def timeless(field: Field) -> Field:
    """The field as no time attribute."""
    return field if field.time is None else replace(field, time=None)


def names_in(node: Node) -> frozenset[str]:
    return frozenset([field.name for field in node.schema])


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: Join) -> bool:
    return True


@arrival_order.register
def _(node: Join) -> ArrivalOrder:
    return ArrivalOrder.MIXED


@unique_keys.register
def _(node: Join) -> frozenset[frozenset[str]]:
    """Those of one side where the other has at most one partner for each of its rows; else pairs of both."""
    left, right = unique_keys(node.left), unique_keys(node.right)
    if not node.kind.pairs:
        return left
    one_left, one_right = (_is_unique(keys, node, side) for side, keys in enumerate((left, right)))
    pads_left, pads_right = node.kind.padded
    unique: set[frozenset[str]] = {left_key | right_key for left_key in left for right_key in right}
    if pads_left and pads_right:  # or rows of both sides without a partner may be NULL in all of the key
        present = {field.name for side in node.inputs for field in side.schema if not field.nullable}
        unique = {key for key in unique if key & present}
    if one_right and not pads_right:
        unique |= left
    if one_left and not pads_left:
        unique |= right
    return frozenset(unique)


def _is_unique(keys: frozenset[frozenset[str]], node: Join, side: int) -> bool:
    """Do the equalities find at most one row of a side?"""
    equal = [(equality.left, equality.right)[side] for equality in node.equal]
    names = {value.name for value in equal if isinstance(value, exp.Column)}
    return any(key <= names for key in keys)


@upsert_keys.register
def _(node: Join) -> frozenset[frozenset[str]]:
    """UNSAFE where the join key of a row changes: what its old and its new key group emit comes in no order."""
    return frozenset(key for key in unique_keys(node) if all(stays_together(node, key, side) for side in (0, 1)))


def stays_together(node: Join, key: frozenset[str], side: int) -> bool:
    """Do rows of a side that have equal values of ``key`` meet in one key group?"""
    below = node.inputs[side]
    if changelog_mode(below) == APPEND_ONLY or not key & names_in(below):
        return True
    equal = [(equality.left, equality.right)[side] for equality in node.equal]
    return all(isinstance(value, exp.Column) and value.name in key for value in equal)


@taken_by.register
@made_by.register
def _(node: Join) -> str:
    return f"the {node.kind.value} JOIN"


# --- rules ----------------------------------------------------------------------------------------------------


@over.register
def _(node: Join, inputs: tuple[Node, ...]) -> Node:
    left, right = inputs
    return replace(node, left=left, right=right)


@pruned.register
def _(node: Join, required: Names) -> Node:
    return pruned_below(node, required | node.read)


def pruned_below(node: Join, needed: Names) -> Node:
    """The join over inputs with no more than the fields that are needed of them, one at least."""
    left, right = (pruned(side, needed & names_in(side)) for side in node.inputs)
    return replace(node, left=left, right=right)


@passes.register
def _(node: Join, read: set[str]) -> bool:
    """UNSAFE for a side that may be missing, whose fields are NULL above only; where both can be, for either."""
    return _side_of(node, read) is not None


def _side_of(node: Join, read: set[str]) -> int | None:
    """The only side that is read, whose rows come out with a partner or not at all otherwise."""
    pads_left, pads_right = node.kind.padded
    if read and read <= names_in(node.left) and not pads_right:
        return 0
    return 1 if read and node.kind.pairs and read <= names_in(node.right) and not pads_left else None


@into.register
def _(node: Join, conditions: Conditions) -> Node:
    sides = [_side_of(node, columns_of(condition)) for condition in conditions]
    left, right = (
        filtered(side, own) if (own := [c for c, s in zip(conditions, sides, strict=True) if s == number]) else side
        for number, side in enumerate(node.inputs)
    )
    return replace(node, left=left, right=right)


# --- what runs ------------------------------------------------------------------------------------------------


@ports_of.register
def _(node: Join) -> int:
    return 2


@fields_read.register
def _(node: Join, port: int = 0) -> FieldsRead | None:
    return fields_of_side(node, port)


def fields_of_side(node: Join, port: int, time: str | None = None) -> FieldsRead | None:
    """What the exchange of a side reads, with its ``time`` if the join looks at that."""
    equal = [(equality.left, equality.right)[port] for equality in node.equal]
    operands = [operand for _, operand in node.decided.columns[port]] if node.decided is not None else []
    if not all(isinstance(value, exp.Column) for value in (*equal, *operands)):
        return None
    keys = tuple(value.name for value in equal)
    return FieldsRead(tuple(dict.fromkeys([*keys, *(f.name for f in node.inputs[port].schema)])), keys, time)


@sees_arrival.register
def _(node: Join) -> bool:
    """Of rows that are only added the pairs are the same in any order."""
    return any(changelog_mode(side) != APPEND_ONLY for side in node.inputs)


@keys_of.register
def _(node: Join) -> tuple[str, ...]:
    return tuple(sql(equality.left) for equality in node.equal)


@only_columnar.register
def _(node: Join) -> str | None:
    return "a join of streams"


# --- texts and state ------------------------------------------------------------------------------------------


@names_of.register
def _(node: Join) -> Meanings:
    return {**names_of(node.left), **names_of(node.right)}


def equalities_text(node: Join) -> list[str]:
    """What must be equal, and the rest of the condition, each as SQL."""
    equal = [f"{sql(e.left)} {_operator(e)} {sql(e.right)}" for e in node.equal]
    if node.condition is None:
        return equal
    rest = sql(node.condition)
    return [*equal, f"({rest})" if equal and isinstance(node.condition, exp.Or) else rest]


def _operator(equality: Equality) -> str:
    return "<=>" if equality.null_safe else "="


def join_facts(node: Join) -> Iterator[tuple[str, str]]:
    """What the state of every join depends on."""
    left, right = names_of(node.left), names_of(node.right)
    yield "kind", node.kind.value
    equal = (f"{meaning(e.left, left)} {_operator(e)} {meaning(e.right, right)}" for e in node.equal)
    yield "equal", ", ".join(equal) or "nothing"
    if node.condition is not None:
        of_left, of_right = (
            {name: f"{side}.{text}" for name, text in names.items()}
            for side, names in (("left", left), ("right", right))
        )
        yield "condition", meaning(node.condition, {**of_left, **of_right})
    yield "columns of the left side", rows_fact(node.left)
    yield "columns of the right side", rows_fact(node.right)
