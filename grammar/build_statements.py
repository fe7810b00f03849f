"""Trees of lark to statements."""

from __future__ import annotations

from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from sqlstream.grammar import nodes as n
from sqlstream.grammar.build_alter import AlterBuilder
from sqlstream.grammar.build_clauses import span_of_meta, text_of, words_of
from sqlstream.grammar.failures import failure


@v_args(meta=True, inline=True)
class StatementBuilder(AlterBuilder):
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
        span, system = span_of_meta(meta), temporary == _SYSTEM
        return n.CreateFunction(name, text_of(target), spelled, bool(exists), bool(temporary), system, span=span)

    def create_catalog(self, meta: Meta, exists: Any, name: n.Name, comment: Any, options: Any) -> n.CreateCatalog:
        return n.CreateCatalog(name, options or (), bool(exists), comment, span=span_of_meta(meta))

    def create_database(self, meta: Meta, exists: Any, name: n.Name, comment: Any, options: Any) -> n.CreateDatabase:
        return n.CreateDatabase(name, options or (), bool(exists), comment, span=span_of_meta(meta))

    def drop(self, meta: Meta, temporary: Any, kind: str, exists: Any, name: n.Name) -> n.Drop:
        system = temporary == _SYSTEM
        return n.Drop(kind, name, bool(exists), bool(temporary), system, span=span_of_meta(meta))

    def drop_container(self, meta: Meta, kind: str, exists: Any, name: n.Name, behaviour: str | None) -> n.Drop:
        return n.Drop(kind, name, bool(exists), cascade=behaviour == "CASCADE", span=span_of_meta(meta))

    def container_kind(self, meta: Meta, word: Token) -> str:
        return "DATABASE" if word.value == "SCHEMA" else str(word.value)

    def insert(
        self, meta: Meta, mode: str, target: n.Name, partition: Any, columns: Any, query: Token
    ) -> n.Insert:  # fmt: skip
        overwrite = mode == "OVERWRITE"
        return n.Insert(target, query.value, columns or (), overwrite, partition or (), span=span_of_meta(meta))

    def partition(self, meta: Meta, *values: n.PartitionValue) -> tuple[n.PartitionValue, ...]:
        return values

    def partition_value(self, meta: Meta, column: Token, value: Token | None) -> n.PartitionValue:
        return n.PartitionValue(text_of(column), value.value if value else None, span=span_of_meta(meta))

    def statement_set(self, meta: Meta, *inserts: n.Insert) -> n.StatementSet:
        return n.StatementSet(inserts, span=span_of_meta(meta))

    def explain(self, meta: Meta, format_: str | None, stage: str | None, statement: Any) -> n.Explain:
        return n.Explain(statement, format_ or "TEXT", stage or "OPTIMIZED", span=span_of_meta(meta))

    def explain_plan(self, meta: Meta, statement: Any) -> n.Explain:
        return n.Explain(statement, span=span_of_meta(meta))

    def show(self, meta: Meta, what: str, database: n.Name | None, names: n.NameFilter | None) -> n.Show:
        shown = "DATABASES" if what == "SCHEMAS" else what
        if database is not None and shown in ("CATALOGS", "CONNECTORS"):
            raise failure(f"SHOW {shown} takes no database", database.span, hint="Leave it out.")
        return n.Show(shown, database, names, span=span_of_meta(meta))

    def in_database(self, meta: Meta, name: n.Name) -> n.Name:
        return name

    def show_columns(self, meta: Meta, name: n.Name, names: n.NameFilter | None) -> n.Show:
        return n.Show("COLUMNS", name, names, span=span_of_meta(meta))

    def show_partitions(self, meta: Meta, name: n.Name, partition: Any) -> n.Show:
        return n.Show("PARTITIONS", name, partition=partition or (), span=span_of_meta(meta))

    def show_current(self, meta: Meta, kind: str) -> n.Show:
        return n.Show(f"CURRENT {kind}", span=span_of_meta(meta))

    def show_jobs(self, meta: Meta) -> n.Show:
        return n.Show("JOBS", span=span_of_meta(meta))

    def name_filter(self, meta: Meta, negated: Any, kind: str, pattern: Token) -> n.NameFilter:
        return n.NameFilter(text_of(pattern), bool(negated), kind == "ILIKE", span=span_of_meta(meta))

    def show_checkpoints(self, meta: Meta, job: n.Name | None) -> n.Show:
        return n.Show("CHECKPOINTS", job, span=span_of_meta(meta))

    def show_create(self, meta: Meta, kind: str, name: n.Name) -> n.Show:
        return n.Show(f"CREATE {kind}", name, span=span_of_meta(meta))

    def describe(self, meta: Meta, extended: Any, name: n.Name) -> n.Describe:
        return n.Describe("TABLE", name, bool(extended), span=span_of_meta(meta))

    def describe_container(self, meta: Meta, kind: str, extended: Any, name: n.Name) -> n.Describe:
        return n.Describe(kind, name, bool(extended), span=span_of_meta(meta))

    def describe_query(self, meta: Meta, query: Token) -> n.DescribeQuery:
        return n.DescribeQuery(query.value, span=span_of_meta(meta))

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
        plain = {None: "DATABASE", "SCHEMA": "DATABASE", "MODULES": "MODULE"}
        return n.Use(plain.get(kind, kind or "DATABASE"), name, span=span_of_meta(meta))

    # parts

    def column_list(self, meta: Meta, *columns: Token) -> tuple[str, ...]:
        return tuple(text_of(c) for c in columns)

    def _word(self, meta: Meta, *words: Token) -> str:
        return words_of(words)

    object_kind = explain_format = explain_stage = show_list = like_kind = use_kind = created_kind = insert_mode = _word
    drop_behaviour = like_action = like_feature = _word

    def _flag(self, meta: Meta) -> bool:
        return True

    temporary = if_not_exists = if_exists = or_replace = with_drain = negated = extended = _flag

    def temporary_system(self, meta: Meta) -> str:
        return _SYSTEM


_SYSTEM = "SYSTEM"
