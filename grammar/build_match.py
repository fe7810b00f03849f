"""Trees of lark to MATCH_RECOGNIZE."""

from __future__ import annotations

from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from sqlstream.grammar import nodes as n
from sqlstream.grammar.build_clauses import interval_of, span_of_meta, text_of, whole, words_of
from sqlstream.grammar.build_create_table import CreateTableBuilder

_Bounds = tuple[int, int | None]


@v_args(meta=True, inline=True)
class MatchBuilder(CreateTableBuilder):
    def match_recognize(
        self, meta: Meta, partition: Any, order: Any, measures: Any, rows: Any, skip: Any, pattern: n.Pattern,
        within: Any, definitions: tuple[n.PatternDefinition, ...],
    ) -> n.MatchRecognize:  # fmt: skip
        return n.MatchRecognize(
            pattern, definitions, measures or (), partition or (), order or (), rows, skip, within,
            span=span_of_meta(meta),
        )  # fmt: skip

    def measures(self, meta: Meta, *items: n.Measured) -> tuple[n.Measured, ...]:
        return items

    def measure_item(self, meta: Meta, mode: str | None, expression: Token, name: Token) -> n.Measured:
        return n.Measured(expression.value, text_of(name), mode, span=span_of_meta(meta))

    def rows_per_match(self, meta: Meta, *words: Token) -> str:
        return words_of(words)

    measure_mode = rows_per_match

    def after_match(self, meta: Meta, skip: str) -> str:
        return skip

    def skip(self, meta: Meta, *words: Token) -> str:
        return " ".join(text_of(w) for w in words)

    def within(self, meta: Meta, interval: Token) -> Any:
        return interval_of(interval)

    def definitions(self, meta: Meta, *items: n.PatternDefinition) -> tuple[n.PatternDefinition, ...]:
        return items

    def definition(self, meta: Meta, name: Token, condition: Token) -> n.PatternDefinition:
        return n.PatternDefinition(text_of(name), condition.value, span=span_of_meta(meta))

    # the pattern

    def variable(self, meta: Meta, name: Token) -> n.Pattern:
        return n.PatternVariable(text_of(name), span=span_of_meta(meta))

    def in_sequence(self, meta: Meta, *parts: n.Pattern) -> n.Pattern:
        return n.PatternSequence(parts, span=span_of_meta(meta))

    def alternation(self, meta: Meta, *parts: n.Pattern) -> n.Pattern:
        return n.PatternAlternation(parts, span=span_of_meta(meta))

    def repeated(self, meta: Meta, pattern: n.Pattern, bounds: _Bounds, reluctant: Any) -> n.Pattern:
        return n.PatternRepetition(pattern, *bounds, bool(reluctant), span=span_of_meta(meta))

    def zero_or_more(self, meta: Meta) -> _Bounds:
        return 0, None

    def one_or_more(self, meta: Meta) -> _Bounds:
        return 1, None

    def zero_or_one(self, meta: Meta) -> _Bounds:
        return 0, 1

    def exactly(self, meta: Meta, count: Token) -> _Bounds:
        return whole(count), whole(count)

    def between(self, meta: Meta, least: Token | None, most: Token | None) -> _Bounds:
        return whole(least) if least else 0, whole(most, 1) if most else None

    def reluctant(self, meta: Meta) -> bool:
        return True
