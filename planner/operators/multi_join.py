"""Multi-way join: inner joins of several streams on the same keys, as one operator that stores each input once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind
from sqlstream.planner.expressions import columns_of, sql
from sqlstream.planner.fields import FieldNames, Schema, traced
from sqlstream.planner.node import Node, cached_per_node
from sqlstream.planner.operators.joined_sides import JoinedSides, SideKeys, column_names
from sqlstream.planner.properties import Keys, Kinds, StateDescription
from sqlstream.udfs.joins import JoinKind


@dataclass(frozen=True)
class MultiJoin(JoinedSides):
    """Emits the combinations of a row of each of the ``sides`` whose ``keys`` are equal; NULL equals nothing.

    ``keys``: for each side as many expressions over its fields, of the same types for all sides. Schema: the fields of
    all sides, in their order; none is a time attribute.
    """

    sides: tuple[Node, ...]
    keys: tuple[SideKeys, ...]

    kind = JoinKind.INNER
    pair_condition = None  # no other condition than equal keys

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sides

    @cached_property
    def schema(self) -> Schema:
        fields = (field for side in self.sides for field in side.schema)
        return tuple(field if field.time is None else replace(field, time=None) for field in fields)

    # --- properties -------------------------------------------------------------------------------------------

    @property
    def null_safe(self) -> tuple[bool, ...]:
        return (False,) * len(self.keys[0])

    def keys_of_side(self, port: int) -> SideKeys:
        return self.keys[port]

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        """Each key of a side combined with each key of all others. Sides that have at most one row of each join key
        need not count, except for one where that holds for all of them.
        """
        many = [side for port, side in enumerate(self.sides) if not self.finds_one_row(port)]
        unique = _combined(self.sides) | _combined(many)
        return unique if many else unique.union(*(side.unique_keys for side in self.sides))

    @property
    @cached_per_node
    def upsert_keys(self) -> Keys:
        """The unique keys that contain all fields of the join key of one side, so that changes stay in order."""
        return frozenset(key for key in self.unique_keys if any(names <= key for names in self._names))

    @property
    def _names(self) -> list[frozenset[str]]:
        """For each side the fields that its keys read."""
        return [frozenset().union(*map(columns_of, keys)) for keys in self.keys]

    @property
    @cached_per_node
    def changelog_mode(self) -> Kinds:
        appends = all(side.changelog_mode == APPEND_ONLY for side in self.sides)
        return APPEND_ONLY if appends else frozenset({RowKind.INSERT, RowKind.DELETE})

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return ALL_KINDS

    @property
    def consumer_name(self) -> str:
        return "the INNER JOIN"

    # --- rules ------------------------------------------------------------------------------------------------

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, sides=inputs)

    def pruned(self, required: FieldNames) -> Node:
        needed = required.union(*self._names)
        return replace(self, sides=tuple(side.pruned(needed & side.field_names) for side in self.sides))

    @property
    def sides_by_key(self) -> tuple[tuple[Node, ...], tuple[SideKeys, ...]]:
        return self.sides, self.keys

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return frozenset()

    # --- texts and state --------------------------------------------------------------------------------------

    def describe(self) -> str:
        equal = (" = ".join(map(sql, of_key)) for of_key in zip(*self.keys, strict=True))
        return f"MultiJoin(INNER; {' AND '.join(equal)})"

    kernel_text = "that keeps the rows of all sides, each once"

    state_title = ("multi-way join", "join")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        for number, (side, keys) in enumerate(zip(self.sides, self.keys, strict=True), 1):
            provenance = side.column_provenance
            yield f"keys of input {number}", ", ".join(traced(key, provenance) for key in keys)
            yield f"columns of input {number}", side.rows_fact

    def state_descriptions(self) -> Iterator[StateDescription]:
        for number in range(1, len(self.sides) + 1):
            yield StateDescription(f"the rows of input {number}", None)


def _combined(sides: Sequence[Node]) -> Keys:
    """Each key of a side with each key of all others; none for no sides."""
    if not sides:
        return frozenset()
    start: Keys = frozenset({frozenset()})
    return reduce(lambda keys, side: frozenset(k | own for k in keys for own in side.unique_keys), sides, start)


# --- which joins become one -----------------------------------------------------------------------------------


def merged(inputs: tuple[Node, ...], keys: tuple[SideKeys, ...]) -> MultiJoin | None:
    """One join in place of an inner join of ``inputs`` on ``keys`` and those below it that compare the same keys; None
    where there are none.
    """
    flat = [_flat(side, own) for side, own in zip(inputs, keys, strict=True)]
    sides = tuple(side for below, _ in flat for side in below)
    if len(sides) == len(inputs):
        return None
    return MultiJoin(sides, tuple(own for _, of_sides in flat for own in of_sides))


def _flat(side: Node, keys: SideKeys) -> tuple[tuple[Node, ...], tuple[SideKeys, ...]]:
    """The sides of a join below that compares the fields ``keys``, in the order of these; else the side itself."""
    below, names = side.sides_by_key, column_names(keys)
    if below is not None and names is not None:
        sides, own = below
        place_of = {v.name: place for of_side in own for place, v in enumerate(of_side) if isinstance(v, exp.Column)}
        places = [place_of.get(name, -1) for name in names]
        if sorted(places) == list(range(len(own[0]))):
            return sides, tuple(tuple(of_side[place] for place in places) for of_side in own)
    return (side,), (keys,)
