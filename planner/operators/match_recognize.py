"""MATCH_RECOGNIZE: stretches of rows in order of time that match a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.changes import prefers_inserts, taken_by, takes_changes, why_inserts_only
from sqlstream.planner.durations import readable
from sqlstream.planner.explain.describe import describe
from sqlstream.planner.explain.window_text import sql
from sqlstream.planner.keeping import Kept, kept
from sqlstream.planner.match_operands import Defined, MatchOperand, Reads
from sqlstream.planner.meanings import Names as Meanings
from sqlstream.planner.meanings import meaning, names_of
from sqlstream.planner.nodes import Field, Node, Schema, Unary
from sqlstream.planner.operators.over import Sorted, sorted_text
from sqlstream.planner.physical.clocks import WaitsFor, told_time, waiting_for
from sqlstream.planner.physical.kernels import keys_of
from sqlstream.planner.physical.native import only_columnar
from sqlstream.planner.physical.state_facts import keys_fact, state_facts, title_of
from sqlstream.planner.physical.text import kernel
from sqlstream.planner.properties import (
    awaited_by,
    changelog_mode,
    is_joint,
    keeps_state,
    unique_keys,
    uses_processing_time,
)
from sqlstream.planner.rewriting import columns_of
from sqlstream.planner.rules.prune_columns import Names, pruned
from sqlstream.planner.rules.push_filters import passes
from sqlstream.planner.rules.remove_unused_time import needed_below, without_unused
from sqlstream.udfs.match.automaton import Automaton, Skip


@dataclass(frozen=True)
class MatchRecognize(Unary):
    """For each match of the ``pattern`` among the rows with equal ``keys`` in order of ``time`` and ``ties``: the keys
    and the ``measures``. With ``all_rows`` a row for each row of the match: the input's fields and the measures.

    ``operands`` are those of ``definitions``. In event time rows behind the watermark are late, and dropped.
    ``within_ms``: how much later than the first row of a match the last one may be.
    """

    keys: tuple[str, ...]
    time: str
    pattern: str
    automaton: Automaton
    definitions: tuple[Defined, ...]
    operands: tuple[MatchOperand, ...]
    measures: tuple[MatchOperand, ...]
    skip: Skip
    domain: TimeDomain = TimeDomain.EVENT
    ties: tuple[Sorted, ...] = ()
    within_ms: int | None = None
    all_rows: bool = False

    @cached_property
    def schema(self) -> Schema:
        return (*self.passed, *(measure.item.field for measure in self.measures))

    @cached_property
    def passed(self) -> Schema:
        """The fields of the input that come out. Their times are no time attributes any more: the rows come out when
        the match is decided."""
        own = self.input.schema if self.all_rows else self._key_fields
        return tuple(replace(field, time=None) for field in own)

    @property
    def holds(self) -> bool:
        """True where matches that have found an end hold the watermark until they are decided: an operator above needs
        the time of their last row, and matches may be decided later than by that."""
        tells_time = any(measure.item.time is TimeDomain.EVENT for measure in self.measures)
        return tells_time and not self.automaton.has_one_length

    @property
    def _key_fields(self) -> tuple[Field, ...]:
        fields = {field.name: field for field in self.input.schema}
        return tuple(fields[name] for name in self.keys)

    @property
    def read(self) -> frozenset[str]:
        """The fields of the input that order, keys, conditions and measures read."""
        operands = (*self.operands, *self.measures)
        values = [o.item.expression for o in operands] + [o.absent for o in operands if o.absent is not None]
        read = frozenset[str]().union(*map(columns_of, values))
        return read | {*self.keys, self.time, *(tie.name for tie in self.ties)}


# --- properties -----------------------------------------------------------------------------------------------


@keeps_state.register
def _(node: MatchRecognize) -> bool:
    return True


@is_joint.register
def _(node: MatchRecognize) -> bool:
    return node.domain is TimeDomain.EVENT and not node.holds


@awaited_by.register
def _(node: MatchRecognize) -> frozenset[TimeDomain]:
    return frozenset({node.domain}) if node.domain is TimeDomain.EVENT else frozenset()


@uses_processing_time.register
def _(node: MatchRecognize) -> bool:
    """WITHIN, and the end of the input, decide open matches."""
    return node.domain is TimeDomain.PROCESSING


@unique_keys.register
def _(node: MatchRecognize) -> frozenset[frozenset[str]]:
    return frozenset()


# --- changes --------------------------------------------------------------------------------------------------


@changelog_mode.register
def _(node: MatchRecognize) -> frozenset[RowKind]:
    return APPEND_ONLY


@takes_changes.register
def _(node: MatchRecognize, port: int = 0) -> frozenset[RowKind]:
    return APPEND_ONLY


@prefers_inserts.register
def _(node: MatchRecognize) -> bool:
    return True


@why_inserts_only.register
def _(node: MatchRecognize) -> str | None:
    return "a row that has been matched stays in its match"


@taken_by.register
def _(node: MatchRecognize) -> str:
    return "MATCH_RECOGNIZE"


# --- rules ----------------------------------------------------------------------------------------------------


@pruned.register
def _(node: MatchRecognize, required: Names) -> Node:
    kept = replace(node, measures=tuple(m for m in node.measures if m.name in required))
    of_rows = required & {field.name for field in node.passed} if node.all_rows else frozenset[str]()
    return replace(kept, input=pruned(node.input, of_rows | kept.read))


@passes.register
def _(node: MatchRecognize, read: set[str]) -> bool:
    """UNSAFE but on keys: a filtered row still stands between those of others."""
    return bool(read) and read <= set(node.keys)


@needed_below.register
def _(node: MatchRecognize, needed: Names) -> Names:
    return frozenset({node.time})


@without_unused.register
def _(node: MatchRecognize, needed: Names) -> Node:
    kept = (m if m.name in needed else replace(m, item=replace(m.item, time=None)) for m in node.measures)
    return replace(node, measures=tuple(kept))


# --- texts ----------------------------------------------------------------------------------------------------


@describe.register
def _(node: MatchRecognize) -> str:
    keys = [f"keys {', '.join(node.keys)}"] if node.keys else []
    order = f"order {', '.join([node.time, *map(sorted_text, node.ties)])}"
    within = f" within {readable(node.within_ms)}" if node.within_ms is not None else ""
    pattern = f"pattern {node.pattern}{within}"
    measures = [f"{_text(m)} AS {m.name}" for m in node.measures]
    rows = ["all rows"] if node.all_rows else []
    parts = [*keys, order, pattern, *_definitions(node.definitions, node.operands), f"skip {node.skip}"]
    return f"MatchRecognize({'; '.join([*parts, *rows, *measures])})"


def _definitions(definitions: Sequence[Defined], operands: Sequence[MatchOperand]) -> Iterator[str]:
    texts = {operand.name: exp.Var(this=_text(operand, fits=True)) for operand in operands}

    def replaced(node: exp.Expr) -> exp.Expr:
        return texts[node.name] if isinstance(node, exp.Column) and node.name in texts else node

    for defined in definitions:
        yield f"{defined.variable} AS {sql(defined.condition.copy().transform(replaced))}"


def _text(operand: MatchOperand, *, fits: bool = False) -> str:
    """``fits``: as an operand of an operator."""
    text = _value_text(operand)
    if operand.reads is not Reads.ROW:
        return text
    if not operand.current:
        text = f"{'LAST' if operand.last else 'FIRST'}({text}{f', {operand.offset}' if operand.offset else ''})"
    elif fits and operand.item.expression.find(exp.Binary) is not None:
        text = f"({text})"
    if operand.shift:
        text = f"{'PREV' if operand.shift < 0 else 'NEXT'}({text}, {abs(operand.shift)})"
    return text


def _value_text(operand: MatchOperand) -> str:
    """With the variable before the columns."""
    expression = operand.item.expression.copy()
    if operand.variable is not None:
        for column in expression.find_all(exp.Column):
            column.set("table", exp.to_identifier(operand.variable, quoted=True))
        if not list(expression.find_all(exp.Column)) and operand.reads is Reads.ROWS:
            return f"{sql(expression)} of {operand.variable}"
    return sql(expression)


# --- what runs ------------------------------------------------------------------------------------------------


@keys_of.register
def _(node: MatchRecognize) -> tuple[str, ...]:
    return node.keys


@told_time.register
def _(node: MatchRecognize, port: int = 0) -> str | None:
    return node.time if node.domain is TimeDomain.EVENT else None


@waiting_for.register
def _(node: MatchRecognize) -> WaitsFor | None:
    return WaitsFor.MATCHES if node.holds else None


@only_columnar.register
def _(node: MatchRecognize) -> str | None:
    return "MATCH_RECOGNIZE"


@kernel.register
def _(node: MatchRecognize) -> str:
    return f"of rows in order of time, an automaton of {len(node.automaton.variables)} places for all keys at once"


# --- state ----------------------------------------------------------------------------------------------------


@names_of.register
def _(node: MatchRecognize) -> Meanings:
    below = names_of(node.input)
    own = {field.name: below[field.name] for field in node.passed}
    return {**own, **{m.name: f"{meaning(m.item.expression, below)} of a match" for m in node.measures}}


@title_of.register
def _(node: MatchRecognize) -> tuple[str, str]:
    return "MATCH_RECOGNIZE", "MATCH_RECOGNIZE"


@state_facts.register
def _(node: MatchRecognize) -> Iterator[tuple[str, str]]:
    names = names_of(node.input)

    def of_input(operands: Sequence[MatchOperand]) -> list[MatchOperand]:
        items = (replace(o.item, expression=exp.Var(this=meaning(o.item.expression, names))) for o in operands)
        return [replace(o, item=item) for o, item in zip(operands, items, strict=True)]

    yield "keys", keys_fact(node.input, node.keys, names)
    yield "time", names[node.time]
    yield "kind of time", node.domain.value
    yield (
        "order of rows of one time",
        ", ".join(sorted_text(replace(t, name=names[t.name])) for t in node.ties) or "as they come",
    )
    yield "pattern", node.pattern
    yield "conditions", ", ".join(_definitions(node.definitions, of_input(node.operands)))
    yield "measures", ", ".join(map(_text, of_input(node.measures)))
    yield "rows", ", ".join(names[f.name] for f in node.passed) if node.all_rows else "one per match"
    yield "after a match", str(node.skip)
    yield "within", readable(node.within_ms) if node.within_ms is not None else "any time"


@kept.register
def _(node: MatchRecognize) -> Iterator[Kept]:
    if node.domain is TimeDomain.EVENT:
        yield Kept("rows that wait for their turn", "the watermark passes them")
    bound = f"a match is {readable(node.within_ms)} long" if node.within_ms is not None else None
    yield Kept("open matches of each key", bound)
