"""MATCH_RECOGNIZE: stretches of rows in order of time that match a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.expressions import columns_of, sql
from sqlstream.planner.fields import Field, FieldNames, Provenance, Schema, keys_fact, traced
from sqlstream.planner.intervals import readable
from sqlstream.planner.kernel_expressions import Defined, MatchOperand, Reads
from sqlstream.planner.node import Node, Unary
from sqlstream.planner.operators.over import Sorted, sorted_text
from sqlstream.planner.properties import Kinds, StateDescription, WaitsFor
from sqlstream.udfs.match.automaton import Automaton, Skip


@dataclass(frozen=True)
class MatchRecognize(Unary):
    """Finds the matches of ``pattern`` (MATCH_RECOGNIZE) among rows with equal ``keys``, in the order of ``time`` and
    ``ties``.

    Emits one row per match, with the keys and the ``measures``; with ``all_rows`` each row of the match, with the
    measures. ``definitions`` are the conditions of DEFINE, and ``operands`` the values that they read. In event time
    rows older than the watermark are late, and dropped. ``within_ms`` is the longest time between the first and the
    last row of a match, None without a limit.
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
        """The fields of the input that are emitted. They are not time attributes, because rows are emitted only when
        their match is decided.
        """
        own = self.input.schema if self.all_rows else self._key_fields
        return tuple(replace(field, time=None) for field in own)

    @property
    def holds(self) -> bool:
        """True if the watermark of operators above must wait until complete matches are decided.

        A longer match may replace a complete one. Meanwhile the watermark may pass the match's last row, whose time an
        operator above needs.
        """
        tells_time = any(measure.item.time is TimeDomain.EVENT for measure in self.measures)
        return tells_time and not self.automaton.has_one_length

    @property
    def _key_fields(self) -> tuple[Field, ...]:
        fields = {field.name: field for field in self.input.schema}
        return tuple(fields[name] for name in self.keys)

    @property
    def read(self) -> frozenset[str]:
        """The input fields that the order, keys, conditions and measures read."""
        operands = (*self.operands, *self.measures)
        values = [o.item.expression for o in operands] + [o.absent for o in operands if o.absent is not None]
        read = frozenset[str]().union(*map(columns_of, values))
        return read | {*self.keys, self.time, *(tie.name for tie in self.ties)}

    # --- properties -------------------------------------------------------------------------------------------

    keeps_state = True

    @property
    def is_batch_invariant(self) -> bool:
        return self.domain is TimeDomain.EVENT and not self.holds

    @property
    def awaited_domains(self) -> frozenset[TimeDomain]:
        return frozenset({self.domain}) if self.domain is TimeDomain.EVENT else frozenset()

    @property
    def uses_processing_time(self) -> bool:
        """True in processing time, where WITHIN and the end of the input decide open matches."""
        return self.domain is TimeDomain.PROCESSING

    unique_keys = frozenset()

    # --- changes ----------------------------------------------------------------------------------------------

    changelog_mode = APPEND_ONLY

    def accepted_kinds(self, port: int = 0) -> Kinds:
        return APPEND_ONLY

    prefers_inserts = True

    why_inserts_only = "a row that has been matched stays in its match"

    consumer_name = "MATCH_RECOGNIZE"

    # --- rules ------------------------------------------------------------------------------------------------

    def pruned(self, required: FieldNames) -> Node:
        kept = replace(self, measures=tuple(m for m in self.measures if m.name in required))
        of_rows = required & {field.name for field in self.passed} if self.all_rows else frozenset[str]()
        return replace(kept, input=self.input.pruned(of_rows | kept.read))

    def passes_filter(self, read: set[str]) -> bool:
        """True if a filter above may be moved below: ``read``, the fields of its condition, are all keys.

        A filter on other fields would remove rows between the rows of a match.
        """
        return bool(read) and read <= set(self.keys)

    def watermark_fields_needed(self, needed: FieldNames) -> FieldNames:
        return frozenset({self.time})

    def without_unused_time(self, needed: FieldNames) -> Node:
        kept = (m if m.name in needed else replace(m, item=replace(m.item, time=None)) for m in self.measures)
        return replace(self, measures=tuple(kept))

    # --- texts ------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        keys = [f"keys {', '.join(self.keys)}"] if self.keys else []
        order = f"order {', '.join([self.time, *map(sorted_text, self.ties)])}"
        within = f" within {readable(self.within_ms)}" if self.within_ms is not None else ""
        pattern = f"pattern {self.pattern}{within}"
        measures = [f"{_text(m)} AS {m.name}" for m in self.measures]
        rows = ["all rows"] if self.all_rows else []
        parts = [*keys, order, pattern, *_definitions(self.definitions, self.operands), f"skip {self.skip}"]
        return f"MatchRecognize({'; '.join([*parts, *rows, *measures])})"

    # --- what runs --------------------------------------------------------------------------------------------

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        return self.keys

    def watermark_field(self, port: int = 0) -> str | None:
        return self.time if self.domain is TimeDomain.EVENT else None

    @property
    def waits_for(self) -> WaitsFor | None:
        return WaitsFor.MATCHES if self.holds else None

    columnar_only_clause = "MATCH_RECOGNIZE"

    @property
    def kernel_text(self) -> str:
        return f"of rows in order of time, an automaton of {len(self.automaton.variables)} places for all keys at once"

    # --- state ------------------------------------------------------------------------------------------------

    @property
    def column_provenance(self) -> Provenance:
        below = self.input.column_provenance
        own = {field.name: below[field.name] for field in self.passed}
        return {**own, **{m.name: f"{traced(m.item.expression, below)} of a match" for m in self.measures}}

    state_title = ("MATCH_RECOGNIZE", "MATCH_RECOGNIZE")

    def state_facts(self) -> Iterator[tuple[str, str]]:
        names = self.input.column_provenance

        def of_input(operands: Sequence[MatchOperand]) -> list[MatchOperand]:
            items = (replace(o.item, expression=exp.Var(this=traced(o.item.expression, names))) for o in operands)
            return [replace(o, item=item) for o, item in zip(operands, items, strict=True)]

        yield "keys", keys_fact(self.input.schema, self.keys, names)
        yield "time", names[self.time]
        yield "kind of time", self.domain.value
        yield (
            "order of rows of one time",
            ", ".join(sorted_text(replace(t, name=names[t.name])) for t in self.ties) or "as they come",
        )
        yield "pattern", self.pattern
        yield "conditions", ", ".join(_definitions(self.definitions, of_input(self.operands)))
        yield "measures", ", ".join(map(_text, of_input(self.measures)))
        yield "rows", ", ".join(names[f.name] for f in self.passed) if self.all_rows else "one per match"
        yield "after a match", str(self.skip)
        yield "within", readable(self.within_ms) if self.within_ms is not None else "any time"

    def state_descriptions(self) -> Iterator[StateDescription]:
        if self.domain is TimeDomain.EVENT:
            yield StateDescription("rows that wait for their turn", "the watermark passes them")
        bound = f"a match is {readable(self.within_ms)} long" if self.within_ms is not None else None
        yield StateDescription("open matches of each key", bound)


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
