"""Multi-way join: inner joins of several streams on the same keys, as one operator that stores each input once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from sqlglot import exp

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind
from sqlstream.planner.expressions import columns_of, sql
from sqlstream.planner.fields import FieldNames, Provenance, Schema, traced
from sqlstream.planner.node import Node, cached_per_node
from sqlstream.planner.properties import ArrivalOrder, FieldsRead, Keys, Kinds, StateDescription
from sqlstream.udfs.joins import JoinKind

SideKeys = tuple[exp.Expression, ...]
"""The expressions over the fields of a side that a join compares."""


@dataclass(frozen=True)
class MultiJoin(Node):
    """Emits the combinations of a row of each of the ``sides`` whose ``keys`` are equal; NULL equals nothing.

    ``keys``: for each side as many expressions over its fields, of the same types for all sides. The fields of all
    sides have different names. Schema: the fields of all sides, in their order; none is a time attribute.
    """

    sides: tuple[Node, ...]
    keys: tuple[SideKeys, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sides

    @cached_property
    def schema(self) -> Schema:
        fields = (field for side in self.sides for field in side.schema)
        return tuple(field if field.time is None else replace(field, time=None) for field in fields)

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    @cached_per_node
    def arrival_order(self) -> ArrivalOrder:
        return ArrivalOrder.MIXED

    @property
    @cached_per_node
    def unique_keys(self) -> Keys:
        """Each key of a side combined with each key of all others. Sides that have at most one row of each join key
        need not count, except for one where that holds for all of them.
        """
        many = [side for side, keys in zip(self.sides, self.keys, strict=True) if not _is_unique(side, keys)]
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

    @property
    def producer_name(self) -> str:
        return self.consumer_name

    # --- rules ------------------------------------------------------------------------------------------------

    def replace_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, sides=inputs)

    def pruned(self, required: FieldNames) -> Node:
        needed = required.union(*self._names)
        return replace(self, sides=tuple(side.pruned(needed & side.field_names) for side in self.sides))

    kind = JoinKind.INNER
    pair_condition = None

    @property
    def null_safe(self) -> tuple[bool, ...]:
        """For each key whether NULL equals NULL."""
        return (False,) * len(self.keys[0])

    def keys_of_side(self, port: int) -> SideKeys:
        """What is compared of a side."""
        return self.keys[port]

    @property
    def sides_by_key(self) -> tuple[tuple[Node, ...], tuple[SideKeys, ...]]:
        return self.sides, self.keys

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return frozenset()

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def port_count(self) -> int:
        return len(self.sides)

    def fields_read(self, port: int = 0) -> FieldsRead | None:
        keys, names = self.keys[port], (field.name for field in self.sides[port].schema)
        if not all(isinstance(value, exp.Column) for value in keys):
            return None
        own = tuple(value.name for value in keys)
        return FieldsRead(tuple(dict.fromkeys([*own, *names])), own, None)

    @property
    def depends_on_arrival_order(self) -> bool:
        """True where a side has changes; inserted rows give the same combinations in any order."""
        return self.changelog_mode != APPEND_ONLY

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return tuple(map(sql, self.keys[0]))

    @property
    def columnar_only_clause(self) -> str | None:
        return "a join of streams"

    # --- texts and state --------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        return {name: text for side in self.sides for name, text in side.column_provenance.items()}

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


def _is_unique(side: Node, keys: SideKeys) -> bool:
    """True where at most one row of the side has the same values of its ``keys``."""
    names = {value.name for value in keys if isinstance(value, exp.Column)}
    return any(key <= names for key in side.unique_keys)


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
    return (
        MultiJoin(sides, tuple(own for _, all_keys in flat for own in all_keys)) if len(sides) > len(inputs) else None
    )


def _flat(side: Node, keys: SideKeys) -> tuple[tuple[Node, ...], tuple[SideKeys, ...]]:
    """The sides of a join below that compares the fields ``keys``, in the order of these; else the side itself."""
    below = side.sides_by_key
    if below is not None:
        sides, own = below
        place_of = {
            value.name: i for of_side in own for i, value in enumerate(of_side) if isinstance(value, exp.Column)
        }
        places = [place_of.get(value.name) if isinstance(value, exp.Column) else None for value in keys]
        if sorted(place for place in places if place is not None) == list(range(len(own[0]))) and None not in places:
            return sides, tuple(tuple(of_side[place] for place in places if place is not None) for of_side in own)
    return (side,), (keys,)
