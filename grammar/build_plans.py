"""Trees of lark to statements about plans: statement sets, EXPLAIN, and plans in files."""

from __future__ import annotations

from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from sqlstream.grammar import nodes as n
from sqlstream.grammar.build_alter import AlterBuilder
from sqlstream.grammar.build_clauses import span_of_meta, text_of, words_of

_SYNONYMS = {"PLAN_ADVICE": "ADVICE"}


@v_args(meta=True, inline=True)
class PlanBuilder(AlterBuilder):
    def execute_query(self, meta: Meta, query: Token) -> n.Query:
        return n.Query(query.value, span=span_of_meta(meta))

    def execute_insert(self, meta: Meta, insert: n.Insert) -> n.Insert:
        return insert

    def statement_set(self, meta: Meta, *inserts: n.Insert) -> n.StatementSet:
        return n.StatementSet(inserts, span=span_of_meta(meta))

    def explain(self, meta: Meta, format_: str | None, stages: tuple[str, ...] | None, statement: Any) -> n.Explain:
        first, *more = stages or ("OPTIMIZED",)
        return n.Explain(statement, format_ or "TEXT", first, tuple(more), span=span_of_meta(meta))

    def explain_plan(self, meta: Meta, statement: Any) -> n.Explain:
        return n.Explain(statement, span=span_of_meta(meta))

    def explain_compiled(self, meta: Meta, path: Token) -> n.Explain:
        span = span_of_meta(meta)
        return n.Explain(n.ExecutePlan(text_of(path), span=span), span=span)

    def explain_stages(self, meta: Meta, *stages: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stages))

    def explain_stage(self, meta: Meta, *words: Token) -> str:
        word = words_of(words)
        return _SYNONYMS.get(word, word)

    def compile_plan(self, meta: Meta, path: Token, exists: Any, statement: Any) -> n.CompilePlan:
        return n.CompilePlan(text_of(path), statement, bool(exists), span=span_of_meta(meta))

    def execute_plan(self, meta: Meta, path: Token) -> n.ExecutePlan:
        return n.ExecutePlan(text_of(path), span=span_of_meta(meta))

    def compile_and_execute(self, meta: Meta, path: Token, statement: Any) -> n.CompilePlan:
        return n.CompilePlan(text_of(path), statement, execute=True, span=span_of_meta(meta))
