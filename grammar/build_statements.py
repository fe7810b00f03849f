"""Trees of lark to statements."""

from __future__ import annotations

from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from sqlstream.grammar import nodes as n
from sqlstream.grammar.build_clauses import span_of_meta, text_of, words_of
from sqlstream.grammar.build_match import MatchBuilder


@v_args(meta=True, inline=True)
class StatementBuilder(MatchBuilder):
    """Builds every node of the grammar."""

    def query(self, meta: Meta, query: Token) -> n.Query:
        return n.Query(query.value, span=span_of_meta(meta))

    def create_view(
        self, meta: Meta, replace: Any, temporary: Any, exists: Any, name: n.Name, columns: Any, comment: Any,
        query: Token,
    ) -> n.CreateView:  # fmt: skip
        span = span_of_meta(meta)
        return n.CreateView(
            name, query.value, columns or (), bool(exists), bool(temporary), bool(replace), comment, span=span
        )

    def create_function(
        self, meta: Meta, temporary: Any, exists: Any, name: n.Name, target: Token, language: Token | None
    ) -> n.CreateFunction:
        spelled = text_of(language).upper() if language else "PYTHON"
        span = span_of_meta(meta)
        return n.CreateFunction(name, text_of(target), spelled, bool(exists), bool(temporary), span=span)

    def drop(self, meta: Meta, temporary: Any, kind: str, exists: Any, name: n.Name) -> n.Drop:
        return n.Drop(kind, name, bool(exists), bool(temporary), span=span_of_meta(meta))

    def insert(self, meta: Meta, target: n.Name, columns: Any, query: Token) -> n.Insert:
        return n.Insert(target, query.value, columns or (), span=span_of_meta(meta))

    def statement_set(self, meta: Meta, *inserts: n.Insert) -> n.StatementSet:
        return n.StatementSet(inserts, span=span_of_meta(meta))

    def unit_test(
        self, meta: Meta, name: n.Name, view: n.Name, at: Token | None, mocks: Any, expected: n.UnitRows
    ) -> n.UnitTest:
        return n.UnitTest(
            name, view, expected, mocks or (), at.value if at is not None else None, span=span_of_meta(meta)
        )

    def unit_mocks(self, meta: Meta, *mocks: Any) -> tuple[n.UnitRows, ...]:
        return tuple(mock for mock in mocks if mock is not None)

    def unit_mock(self, meta: Meta, name: n.Name, columns: Any, query: Token) -> n.UnitRows:
        return n.UnitRows(query.value, columns or (), name, span=span_of_meta(meta))

    def unit_expected(self, meta: Meta, columns: Any, query: Token) -> n.UnitRows:
        return n.UnitRows(query.value, columns or (), span=span_of_meta(meta))

    def unit_columns(self, meta: Meta, *columns: n.PhysicalColumn) -> tuple[n.PhysicalColumn, ...]:
        return columns

    def unit_column(self, meta: Meta, name: Token, type_: Token) -> n.PhysicalColumn:
        return n.PhysicalColumn(text_of(name), type_.value, span=span_of_meta(meta))

    def explain(self, meta: Meta, format_: str | None, stage: str | None, statement: Any) -> n.Explain:
        return n.Explain(statement, format_ or "TEXT", stage or "OPTIMIZED", span=span_of_meta(meta))

    def explain_plan(self, meta: Meta, statement: Any) -> n.Explain:
        return n.Explain(statement, span=span_of_meta(meta))

    def show(self, meta: Meta, what: str, names: n.NameFilter | None) -> n.Show:
        return n.Show(what, names=names, span=span_of_meta(meta))

    def show_jobs(self, meta: Meta) -> n.Show:
        return n.Show("JOBS", span=span_of_meta(meta))

    def name_filter(self, meta: Meta, negated: Any, kind: str, pattern: Token) -> n.NameFilter:
        return n.NameFilter(text_of(pattern), bool(negated), kind == "ILIKE", span=span_of_meta(meta))

    def show_checkpoints(self, meta: Meta, job: n.Name | None) -> n.Show:
        return n.Show("CHECKPOINTS", job, span=span_of_meta(meta))

    def show_create(self, meta: Meta, name: n.Name) -> n.Show:
        return n.Show("CREATE TABLE", name, span=span_of_meta(meta))

    def describe(self, meta: Meta, name: n.Name) -> n.Describe:
        return n.Describe("TABLE", name, span=span_of_meta(meta))

    def describe_job(self, meta: Meta, job: n.Name) -> n.Describe:
        return n.Describe("JOB", job, span=span_of_meta(meta))

    def stop_job(self, meta: Meta, job: n.Name, savepoint: tuple[Token | None] | None, drain: Any) -> n.StopJob:
        path = savepoint[0] if savepoint else None
        return n.StopJob(job, bool(savepoint), path and text_of(path), bool(drain), span=span_of_meta(meta))

    def with_savepoint(self, meta: Meta, path: Token | None) -> tuple[Token | None]:
        return (path,)

    def checkpoint_job(self, meta: Meta, job: n.Name) -> n.CheckpointJob:
        return n.CheckpointJob(job, span=span_of_meta(meta))

    def savepoint_job(self, meta: Meta, job: n.Name, path: Token | None) -> n.SavepointJob:
        return n.SavepointJob(job, path and text_of(path), span=span_of_meta(meta))

    def job(self, meta: Meta, *parts: Token) -> n.Name:
        return self.name(meta, *parts)

    def set_option(self, meta: Meta, key: Token | None, value: Token | None) -> n.Set:
        return n.Set(key and text_of(key), value and text_of(value), span=span_of_meta(meta))

    def reset_option(self, meta: Meta, key: Token | None) -> n.Reset:
        return n.Reset(key and text_of(key), span=span_of_meta(meta))

    def use(self, meta: Meta, kind: str | None, name: n.Name) -> n.Use:
        return n.Use("MODULE" if kind == "MODULES" else kind or "DATABASE", name, span=span_of_meta(meta))

    # parts

    def column_list(self, meta: Meta, *columns: Token) -> tuple[str, ...]:
        return tuple(text_of(c) for c in columns)

    def _word(self, meta: Meta, *words: Token) -> str:
        return words_of(words)

    object_kind = explain_format = explain_stage = show_list = like_kind = use_kind = _word

    def _flag(self, meta: Meta) -> bool:
        return True

    temporary = if_not_exists = if_exists = or_replace = with_drain = negated = _flag
