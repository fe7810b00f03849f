"""Trees of lark to statements."""

from __future__ import annotations

import re
from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from sqlstream.grammar import nodes as n
from sqlstream.grammar.build_clauses import interval_of, span_of_meta, text_of, words_of
from sqlstream.grammar.build_definitions import AlterBuilder
from sqlstream.grammar.failures import failure

# --- statement sets, EXPLAIN, and plans in files ----------------------------------------------------------------


_SYNONYMS = {"PLAN_ADVICE": "ADVICE"}


@v_args(meta=True, inline=True)
class PlanBuilder(AlterBuilder):
    """Makes syntax nodes of EXPLAIN, COMPILE PLAN, EXECUTE PLAN and EXECUTE STATEMENT SET from lark's parse tree."""

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


@v_args(meta=True, inline=True)
class StatementBuilder(PlanBuilder):
    """Builds every statement and clause of the grammar from lark's parse trees; it combines the other builders."""

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

    def create_materialized(
        self, meta: Meta, words: tuple[str, bool], exists: Any, name: n.Name, elements: Any, comment: Any,
        partitioned_by: Any, options: Any, freshness: Token | None, mode: Token | None, query: Token,
    ) -> n.CreateMaterializedView:  # fmt: skip
        kind, replaces = words
        columns, watermark, key = elements or ((), None, ())
        other = watermark or next((c for c in columns if not isinstance(c, n.PhysicalColumn | n.NamedColumn)), None)
        if other is not None:
            message = f"a {kind.lower()} has the columns of its query, and a PRIMARY KEY"
            raise failure(message, other.span, hint="Compute it in the query.")
        interval = interval_of(freshness) if freshness is not None else None
        return n.CreateMaterializedView(
            kind, name, query.value, columns, key, options or (), comment, bool(exists), replaces, interval,
            mode and text_of(mode).upper(), partitioned_by or (), span=span_of_meta(meta),
        )  # fmt: skip

    def materialized_view(self, meta: Meta, replace: Any) -> tuple[str, bool]:
        return "MATERIALIZED VIEW", bool(replace)

    def materialized_table(self, meta: Meta, replace: Any) -> tuple[str, bool]:
        return "MATERIALIZED TABLE", bool(replace)

    def streaming_table(self, meta: Meta, replace: Any) -> tuple[str, bool]:
        return "STREAMING TABLE", bool(replace)

    def freshness(self, meta: Meta, interval: Token) -> Token:
        return interval

    def refresh_mode(self, meta: Meta, mode: Token) -> Token:
        return mode

    def alter_materialized(self, meta: Meta, kind: str, name: n.Name, change: Any) -> n.AlterMaterializedView:
        action = change if isinstance(change, str) and not isinstance(change, Token) else None
        query = change.value if isinstance(change, Token) else None
        return n.AlterMaterializedView(kind, name, action, query, span=span_of_meta(meta))

    def create_function(
        self, meta: Meta, replace: Any, temporary: Any, exists: Any, name: n.Name, target: Token,
        language: Token | None, jars: Any,
    ) -> n.CreateFunction:  # fmt: skip
        spelled = text_of(language).upper() if language else "PYTHON"
        flags = bool(exists), bool(temporary), bool(replace)
        return n.CreateFunction(
            name,
            _target(target, language),
            spelled,
            *flags,
            jars=jars or (),
            system=temporary == _SYSTEM,
            span=span_of_meta(meta),
        )

    def alter_function(
        self, meta: Meta, temporary: Any, exists: Any, name: n.Name, target: Token, language: Token | None, jars: Any
    ) -> n.AlterFunction:
        system = temporary == _SYSTEM
        spelled = text_of(language).upper() if language else "PYTHON"
        return n.AlterFunction(
            name, _target(target, language), spelled, bool(exists), bool(temporary), system, jars or (),
            span=span_of_meta(meta),
        )  # fmt: skip

    def create_sql_function(self, meta: Meta, *parts: Any) -> n.CreateFunction:
        return _function(meta, "SQL", *parts)

    def create_function_in_place(self, meta: Meta, *parts: Any) -> n.CreateFunction:
        return _function(meta, "PYTHON", *parts)

    def create_table_function(self, meta: Meta, *parts: Any) -> n.CreateFunction:
        return _function(meta, "SQL", *parts)

    def using_jar(self, meta: Meta, *jars: Token) -> tuple[str, ...]:
        return tuple(text_of(jar) for jar in jars)

    def parameters(self, meta: Meta, *parameters: n.FunctionParameter | None) -> tuple[n.FunctionParameter, ...]:
        return tuple(parameter for parameter in parameters if parameter is not None)

    def parameter(
        self, meta: Meta, name: Token, kind: Token, default: Token | None, comment: str | None
    ) -> n.FunctionParameter:
        value = default.value if default is not None else None
        return n.FunctionParameter(text_of(name), kind.value, value, comment, span=span_of_meta(meta))

    def returns(self, meta: Meta, kind: Token) -> Any:
        return kind.value

    def returns_table(self, meta: Meta, columns: Any) -> tuple[n.FunctionParameter, ...]:
        return columns or ()

    def function_language(self, meta: Meta, language: Token) -> tuple[str, str]:
        return "language", text_of(language).upper()

    def deterministic(self, meta: Meta) -> tuple[str, bool]:
        return "deterministic", True

    def not_deterministic(self, meta: Meta) -> tuple[str, bool]:
        return "deterministic", False

    def contains_sql(self, meta: Meta) -> tuple[str, bool]:
        return "sql", True

    def reads_data(self, meta: Meta) -> tuple[str, bool]:
        return "sql", True

    def function_comment(self, meta: Meta, comment: Token) -> tuple[str, str]:
        return "comment", text_of(comment)

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
        self, meta: Meta, mode: str, target: n.Name, hint: Token | None, partition: Any, columns: Any, query: Token,
        conflict: str | None,
    ) -> n.Insert:  # fmt: skip
        given, overwrite, span = None if hint is None else hint.value, mode == "OVERWRITE", span_of_meta(meta)
        return n.Insert(target, query.value, columns or (), given, overwrite, partition or (), conflict, span=span)

    def on_conflict(self, meta: Meta, action: str) -> str:
        return action

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

    def partition(self, meta: Meta, *values: n.PartitionValue) -> tuple[n.PartitionValue, ...]:
        return values

    def partition_value(self, meta: Meta, column: Token, value: Token | None) -> n.PartitionValue:
        return n.PartitionValue(text_of(column), value.value if value else None, span=span_of_meta(meta))

    def show(self, meta: Meta, what: str, database: n.Name | None, names: n.NameFilter | None) -> n.Show:
        shown = "DATABASES" if what == "SCHEMAS" else what
        if database is not None and shown in ("CATALOGS", "CONNECTORS", "MODULES", "FULL MODULES", "JARS"):
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

    def describe_function(self, meta: Meta, extended: Any, name: n.Name) -> n.Describe:
        return n.Describe("FUNCTION", name, bool(extended), span=span_of_meta(meta))

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

    object_kind = explain_format = show_list = like_kind = use_kind = created_kind = insert_mode = _word
    materialized_kind = materialized_action = _word
    drop_behaviour = distribution_kind = conflict_action = like_action = like_feature = _word

    def _flag(self, meta: Meta) -> bool:
        return True

    temporary = temporary_scope = if_not_exists = if_exists = or_replace = or_alter = or_refresh = with_drain = _flag
    negated = extended = _flag

    def temporary_system(self, meta: Meta) -> str:
        return _SYSTEM


_SYSTEM = "SYSTEM"
_DOTTED = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)\.([^\W\d]\w*)")


def _target(target: Token, language: Token | None) -> str:
    """``package.module:name``. An explicit LANGUAGE PYTHON allows Flink's ``package.module.name``, too.

    Without a LANGUAGE, Flink reads such a path as a class of Java, and the catalog refuses it.
    """
    text = text_of(target)
    if language is None or text_of(language).upper() != "PYTHON":
        return text
    dotted = _DOTTED.fullmatch(text)
    return f"{dotted[1]}:{dotted[2]}" if dotted else text


def _function(
    meta: Meta, language: str, replace: Any, temporary: Any, exists: Any, name: n.Name, parameters: Any, returns: Any,
    *rest: Any,
) -> n.CreateFunction:  # fmt: skip
    """``rest`` are the traits, and the body at last."""
    *characteristics, body = rest
    traits: dict[str, Any] = dict(characteristics)
    is_text = body.type == "STRING"
    table = isinstance(returns, tuple)
    definition = n.FunctionDefinition(
        parameters,
        None if table else returns,
        None if is_text else body.value,
        traits.get("deterministic", True),
        traits.get("comment"),
        returns if table else None,
        span=span_of_meta(meta),
    )
    flags = bool(exists), bool(temporary), bool(replace)
    system = temporary == _SYSTEM
    spelled = traits.get("language", language)
    return n.CreateFunction(
        name, text_of(body) if is_text else "", spelled, *flags, definition, system=system, span=span_of_meta(meta)
    )
