"""INSERT, queries, EXPLAIN, plans, SHOW, DESCRIBE, settings and statements about jobs."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream.grammar.nodes.definitions import (
    CreateMaterializedView,
    CreateTable,
    PartitionValue,
    PhysicalColumn,
    partition_text,
)
from sqlstream.grammar.nodes.node import (
    Name,
    Node,
    Sql,
    clause,
    flag,
    indented,
    joined,
    name_list,
    separated,
)
from sqlstream.grammar.nodes.tables import TableHint
from sqlstream.grammar.quoting import quote_string


@dataclass(frozen=True)
class Insert(Node):
    """``INSERT INTO|OVERWRITE target [/*+ OPTIONS(…) */] [PARTITION (…)] [(columns)] query [ON CONFLICT DO …]``.

    ``conflict``: ERROR, NOTHING or DEDUPLICATE.
    """

    target: Name
    query: exp.Expression
    columns: tuple[str, ...] = ()
    hint: TableHint | None = None
    overwrite: bool = False
    partition: tuple[PartitionValue, ...] = ()
    conflict: str | None = None

    def text(self, sql: Sql) -> str:
        return joined(self._head(sql), sql(self.query), self._on_conflict)

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        lines = [self._head(sql), pretty_sql(self.query), self._on_conflict]
        return "\n".join(line for line in lines if line is not None)

    def _head(self, sql: Sql) -> str:
        mode = "INSERT OVERWRITE" if self.overwrite else "INSERT INTO"
        hint = self.hint.text(sql) if self.hint is not None else None
        return joined(mode, self.target.text(sql), hint, partition_text(self.partition, sql), name_list(self.columns))

    @property
    def _on_conflict(self) -> str | None:
        return f"ON CONFLICT DO {self.conflict}" if self.conflict is not None else None


@dataclass(frozen=True)
class Truncate(Node):
    """``TRUNCATE TABLE name``."""

    name: Name

    def text(self, sql: Sql) -> str:
        return f"TRUNCATE TABLE {self.name.text(sql)}"


@dataclass(frozen=True)
class StatementSet(Node):
    """``EXECUTE STATEMENT SET BEGIN insert; … END``."""

    inserts: tuple[Insert, ...]

    def text(self, sql: Sql) -> str:
        inserts = " ".join(f"{i.text(sql)};" for i in self.inserts)
        return f"EXECUTE STATEMENT SET BEGIN {inserts} END"

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        inserts = "\n".join(indented(f"{i.pretty(sql, pretty_sql)};") for i in self.inserts)
        return f"EXECUTE STATEMENT SET BEGIN\n{inserts}\nEND"


@dataclass(frozen=True)
class UnitRows(Node):
    """The rows of one table in EXECUTE UNIT TEST: of an input, ``MOCK name [(column type, …)] AS (query)``, or of the
    expected result, ``EXPECTED [(column type, …)] AS (query)``, whose ``name`` is None.
    """

    query: exp.Expression
    columns: tuple[PhysicalColumn, ...] = ()
    name: Name | None = None

    def text(self, sql: Sql) -> str:
        return f"{self._head(sql)} AS ({sql(self.query)})"

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        return f"{self._head(sql)} AS (\n{indented(pretty_sql(self.query))}\n)"

    def _head(self, sql: Sql) -> str:
        columns = f"({', '.join(c.text(sql) for c in self.columns)})" if self.columns else None
        return joined("EXPECTED" if self.name is None else joined("MOCK", self.name.text(sql)), columns)


@dataclass(frozen=True)
class UnitTest(Node):
    """``EXECUTE UNIT TEST name FOR view [AT TIME at] [MOCK …, …] EXPECTED …``."""

    name: Name
    view: Name
    expected: UnitRows
    mocks: tuple[UnitRows, ...] = ()
    at: exp.Expression | None = None

    def text(self, sql: Sql) -> str:
        mocks = ", ".join(mock.text(sql) for mock in self.mocks)
        return joined(self._head(sql), mocks or None, self.expected.text(sql))

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        mocks = separated([mock.pretty(sql, pretty_sql) for mock in self.mocks])
        return "\n".join([self._head(sql), *mocks, self.expected.pretty(sql, pretty_sql)])

    def _head(self, sql: Sql) -> str:
        name, view = self.name.text(sql), self.view.text(sql)
        return joined("EXECUTE UNIT TEST", name, "FOR", view, clause("AT TIME", self.at, sql))


@dataclass(frozen=True)
class Query(Node):
    """A query as a statement."""

    query: exp.Expression

    def text(self, sql: Sql) -> str:
        return sql(self.query)

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        return pretty_sql(self.query)


@dataclass(frozen=True)
class CompilePlan(Node):
    """``COMPILE PLAN 'path' [IF NOT EXISTS] FOR statement``; with ``execute`` it is ``COMPILE AND EXECUTE PLAN``, which
    also runs the statement.
    """

    path: str
    statement: Insert | StatementSet
    if_not_exists: bool = False
    execute: bool = False

    def text(self, sql: Sql) -> str:
        words = "COMPILE AND EXECUTE PLAN" if self.execute else "COMPILE PLAN"
        exists = flag("IF NOT EXISTS", self.if_not_exists)
        return joined(words, quote_string(self.path), exists, "FOR", self.statement.text(sql))

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        head = self.text(sql).partition(" FOR ")[0]
        return f"{head} FOR\n{self.statement.pretty(sql, pretty_sql)}"


@dataclass(frozen=True)
class ExecutePlan(Node):
    """``EXECUTE PLAN 'path'``."""

    path: str

    def text(self, sql: Sql) -> str:
        return f"EXECUTE PLAN {quote_string(self.path)}"


@dataclass(frozen=True)
class Explain(Node):
    """``EXPLAIN [FORMAT TEXT|JSON|MERMAID] [stage, …] statement``. ``stage`` is the first stage, OPTIMIZED by default;
    ``more`` are the further ones.
    """

    statement: Query | Insert | StatementSet | CreateTable | CreateMaterializedView | ExecutePlan
    format: str = "TEXT"
    stage: str = "OPTIMIZED"
    more: tuple[str, ...] = ()

    def text(self, sql: Sql) -> str:
        if isinstance(self.statement, ExecutePlan):
            return f"EXPLAIN PLAN FOR {quote_string(self.statement.path)}"
        stages = ", ".join((self.stage, *self.more))
        return f"EXPLAIN FORMAT {self.format} {stages} {self.statement.text(sql)}"

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        if isinstance(self.statement, ExecutePlan):
            return self.text(sql)
        stages = ", ".join((self.stage, *self.more))
        return f"EXPLAIN FORMAT {self.format} {stages}\n{self.statement.pretty(sql, pretty_sql)}"


@dataclass(frozen=True)
class NameFilter(Node):
    """``[NOT] LIKE 'pattern'`` of SHOW, with ``%`` for any text and ``_`` for a character. With ``any_case`` it is
    ILIKE, which ignores case.
    """

    pattern: str
    negated: bool = False
    any_case: bool = False

    def text(self, sql: Sql) -> str:
        like = "ILIKE" if self.any_case else "LIKE"
        return joined(flag("NOT", self.negated), like, quote_string(self.pattern))


_PREPOSITIONS = {"CHECKPOINTS": "FOR JOB", "COLUMNS": "FROM", "PARTITIONS": None}


@dataclass(frozen=True)
class Show(Node):
    """``SHOW what [FROM name] [LIKE …]``.

    ``what`` is the words as they are written: TABLES, VIEWS, [USER] FUNCTIONS, CONNECTORS, CATALOGS, DATABASES, JOBS,
    CHECKPOINTS, COLUMNS, PARTITIONS, CURRENT CATALOG|DATABASE, [FULL] MODULES, JARS, PROCEDURES, MODELS,
    MATERIALIZED VIEWS, MATERIALIZED TABLES, STREAMING TABLES, or CREATE with a kind. ``name`` is the object that is
    shown, for TABLES and the like the database, for DATABASES the catalog; ``partition`` follows PARTITIONS.
    """

    what: str
    name: Name | None = None
    names: NameFilter | None = None
    partition: tuple[PartitionValue, ...] = ()

    def text(self, sql: Sql) -> str:
        filtered = self.names.text(sql) if self.names is not None else None
        if self.name is None:
            return joined("SHOW", self.what, filtered)
        created = self.what.startswith("CREATE ")
        preposition = None if created else _PREPOSITIONS.get(self.what, "FROM")
        partition = partition_text(self.partition, sql)
        return joined("SHOW", self.what, preposition, self.name.text(sql), partition, filtered)


@dataclass(frozen=True)
class Describe(Node):
    """``DESCRIBE [kind] [EXTENDED] name``. ``kind`` is JOB, CATALOG, DATABASE or FUNCTION; TABLE if none is written."""

    kind: str
    name: Name
    extended: bool = False

    def text(self, sql: Sql) -> str:
        kind = None if self.kind == "TABLE" else self.kind
        return joined("DESCRIBE", kind, flag("EXTENDED", self.extended), self.name.text(sql))


@dataclass(frozen=True)
class DescribeQuery(Node):
    """``DESCRIBE [QUERY] query``."""

    query: exp.Expression

    def text(self, sql: Sql) -> str:
        return f"DESCRIBE QUERY {sql(self.query)}"

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        return f"DESCRIBE QUERY\n{pretty_sql(self.query)}"


@dataclass(frozen=True)
class StopJob(Node):
    """``STOP JOB j [WITH SAVEPOINT ['path']] [WITH DRAIN]``."""

    job: Name
    savepoint: bool = False
    path: str | None = None
    drain: bool = False

    def text(self, sql: Sql) -> str:
        savepoint = joined("WITH SAVEPOINT", quote_string(self.path) if self.path is not None else None)
        job = self.job.text(sql)
        return joined("STOP JOB", job, savepoint if self.savepoint else None, flag("WITH DRAIN", self.drain))


@dataclass(frozen=True)
class CheckpointJob(Node):
    """``CHECKPOINT JOB j``."""

    job: Name

    def text(self, sql: Sql) -> str:
        return f"CHECKPOINT JOB {self.job.text(sql)}"


@dataclass(frozen=True)
class SavepointJob(Node):
    """``SAVEPOINT JOB j ['path']``."""

    job: Name
    path: str | None = None

    def text(self, sql: Sql) -> str:
        path = quote_string(self.path) if self.path is not None else None
        return joined("SAVEPOINT JOB", self.job.text(sql), path)


@dataclass(frozen=True)
class Set(Node):
    """``SET 'key' = 'value'``. A bare ``SET``, which lists the settings, has None for both."""

    key: str | None = None
    value: str | None = None

    def text(self, sql: Sql) -> str:
        return f"SET {quote_string(self.key)} = {quote_string(self.value or '')}" if self.key is not None else "SET"


@dataclass(frozen=True)
class Reset(Node):
    """``RESET 'key'``, which restores the default of a setting, or ``RESET`` for all settings (``key`` is None)."""

    key: str | None = None

    def text(self, sql: Sql) -> str:
        return joined("RESET", quote_string(self.key) if self.key is not None else None)


@dataclass(frozen=True)
class Use(Node):
    """``USE CATALOG name`` or ``USE [DATABASE] name``. ``USE MODULE`` is parsed as well, so that it can be refused with
    a hint.
    """

    kind: str
    name: Name

    def text(self, sql: Sql) -> str:
        return f"USE {self.kind} {self.name.text(sql)}"
