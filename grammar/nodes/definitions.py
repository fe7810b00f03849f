"""CREATE and DROP: tables, views, materialized views, functions, catalogs and databases."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream.grammar.nodes.node import (
    Name,
    Node,
    Option,
    Sql,
    block,
    clause,
    flag,
    joined,
    name_list,
    separated,
    string_clause,
)
from sqlstream.grammar.quoting import quote_name, quote_string


@dataclass(frozen=True)
class PartitionValue(Node):
    """``column [= value]``: one column in the clause PARTITION of a statement."""

    column: str
    value: exp.Expression | None = None

    def text(self, sql: Sql) -> str:
        return quote_name(self.column) + (f" = {sql(self.value)}" if self.value is not None else "")


def partition_text(values: tuple[PartitionValue, ...], sql: Sql) -> str | None:
    """The text ``PARTITION (column [= value], …)``; None if there are no values."""
    return f"PARTITION ({', '.join(v.text(sql) for v in values)})" if values else None


def _partitioned_by(columns: tuple[str, ...]) -> str | None:
    return f"PARTITIONED BY {name_list(columns)}" if columns else None


def with_options(options: tuple[Option, ...], sql: Sql) -> str | None:
    """The text ``WITH ('key' = 'value', …)``; None if there are no options."""
    return f"WITH ({option_list(options, sql)})" if options else None


def _with_block(options: tuple[Option, ...], sql: Sql) -> str | None:
    return f"WITH {block(separated([o.text(sql) for o in options]))}" if options else None


def option_list(options: tuple[Option, ...], sql: Sql) -> str:
    """The text ``'key' = 'value', …``."""
    return ", ".join(o.text(sql) for o in options)


def temporary_words(temporary: bool, system: bool) -> str | None:
    """The keywords ``TEMPORARY`` or ``TEMPORARY SYSTEM`` of a statement; None if it has neither."""
    return "TEMPORARY SYSTEM" if system else flag("TEMPORARY", temporary)


def _create_head(kind: str, node: CreateTable | CreateView | CreateFunction, sql: Sql) -> str:
    """``CREATE [OR REPLACE] [TEMPORARY [SYSTEM]] kind [IF NOT EXISTS] name``."""
    replace, exists = flag("OR REPLACE", node.replace), flag("IF NOT EXISTS", node.if_not_exists)
    temporary = temporary_words(node.temporary, isinstance(node, CreateFunction) and node.system)
    return joined("CREATE", replace, temporary, kind, exists, node.name.text(sql))


@dataclass(frozen=True)
class PhysicalColumn(Node):
    """``name TYPE [NOT NULL] [COMMENT 'c']``."""

    name: str
    type: exp.DataType
    nullable: bool = True
    comment: str | None = None

    def text(self, sql: Sql) -> str:
        not_null = flag("NOT NULL", not self.nullable)
        return joined(quote_name(self.name), sql(self.type), not_null, string_clause("COMMENT", self.comment))


@dataclass(frozen=True)
class MetadataColumn(Node):
    """``name TYPE METADATA [FROM 'key'] [VIRTUAL]``."""

    name: str
    type: exp.DataType
    key: str | None = None
    virtual: bool = False
    nullable: bool = True
    comment: str | None = None

    def text(self, sql: Sql) -> str:
        not_null, virtual = flag("NOT NULL", not self.nullable), flag("VIRTUAL", self.virtual)
        typed = joined(quote_name(self.name), sql(self.type), not_null, "METADATA")
        return joined(typed, string_clause("FROM", self.key), virtual, string_clause("COMMENT", self.comment))


@dataclass(frozen=True)
class ComputedColumn(Node):
    """``name AS expression``; PROCTIME() and INGESTION_TIME() are calls in the expression."""

    name: str
    expression: exp.Expression
    comment: str | None = None

    def text(self, sql: Sql) -> str:
        return joined(quote_name(self.name), "AS", sql(self.expression), string_clause("COMMENT", self.comment))


@dataclass(frozen=True)
class NamedColumn(Node):
    """A column in CREATE TABLE … AS that is only named: it is a column of the query, and takes this position in the
    table.
    """

    name: str

    def text(self, sql: Sql) -> str:
        return quote_name(self.name)


Column = PhysicalColumn | MetadataColumn | ComputedColumn | NamedColumn


@dataclass(frozen=True)
class WatermarkDef(Node):
    """``WATERMARK FOR column AS expression``."""

    column: str
    expression: exp.Expression

    def text(self, sql: Sql) -> str:
        return f"WATERMARK FOR {quote_name(self.column)} AS {sql(self.expression)}"


@dataclass(frozen=True)
class PrimaryKey(Node):
    """``[CONSTRAINT name] PRIMARY KEY (column, …) NOT ENFORCED``."""

    columns: tuple[str, ...]

    def text(self, sql: Sql) -> str:
        return f"PRIMARY KEY {name_list(self.columns)} NOT ENFORCED"


TableElement = Column | WatermarkDef | PrimaryKey


@dataclass(frozen=True)
class Distribution(Node):
    """``DISTRIBUTED [BY [HASH|RANGE] (columns)] [INTO n BUCKETS]``."""

    columns: tuple[str, ...] = ()
    kind: str | None = None
    buckets: int | None = None

    def text_after(self, word: str) -> str:
        """The text of the clause, such as ``DISTRIBUTED BY HASH (a) INTO 4 BUCKETS``. ``word`` is its first word:
        DISTRIBUTED in CREATE TABLE, DISTRIBUTION in ALTER TABLE.
        """
        columns = joined("BY", self.kind, name_list(self.columns)) if self.columns else None
        return joined(word, columns, f"INTO {self.buckets} BUCKETS" if self.buckets is not None else None)


@dataclass(frozen=True)
class LikeOption(Node):
    """``INCLUDING|EXCLUDING|OVERWRITING feature`` in LIKE of CREATE TABLE: ``action`` is one of the first words,
    ``feature`` such as OPTIONS or ALL.
    """

    action: str
    feature: str


@dataclass(frozen=True)
class LikeTable(Node):
    """``LIKE source [(option …)]`` of CREATE TABLE."""

    source: Name
    options: tuple[LikeOption, ...] = ()

    def text(self, sql: Sql) -> str:
        options = " ".join(f"{o.action} {o.feature}" for o in self.options)
        return joined("LIKE", self.source.text(sql), f"({options})" if options else None)


@dataclass(frozen=True)
class CreateTable(Node):
    """``CREATE [OR REPLACE] [TEMPORARY] TABLE …``. ``query``: the query of CREATE TABLE … AS. ``must_exist``: the
    statement is REPLACE TABLE, for a table that exists.
    """

    name: Name
    columns: tuple[Column, ...]
    watermark: WatermarkDef | None
    primary_key: tuple[str, ...]
    options: tuple[Option, ...]
    query: exp.Expression | None = None
    if_not_exists: bool = False
    temporary: bool = False
    comment: str | None = None
    replace: bool = False
    must_exist: bool = False
    partitioned_by: tuple[str, ...] = ()
    like: LikeTable | None = None
    distribution: Distribution | None = None

    def text(self, sql: Sql) -> str:
        elements = self._elements(sql)
        return joined(
            self._head(sql),
            f"({', '.join(elements)})" if elements else None,
            *self._properties(),
            with_options(self.options, sql),
            self.like.text(sql) if self.like is not None else None,
            f"AS {sql(self.query)}" if self.query is not None else None,
        )

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        elements = self._elements(sql)
        clauses = joined(
            self._head(sql),
            block(separated(elements)) if elements else None,
            *self._properties(),
            _with_block(self.options, sql),
            self.like.text(sql) if self.like is not None else None,
        )
        return clauses if self.query is None else f"{clauses} AS\n{pretty_sql(self.query)}"

    def _head(self, sql: Sql) -> str:
        """``CREATE … TABLE [IF NOT EXISTS] name``."""
        if self.must_exist:
            return joined("REPLACE TABLE", flag("IF NOT EXISTS", self.if_not_exists), self.name.text(sql))
        return _create_head("TABLE", self, sql)

    def _elements(self, sql: Sql) -> list[str]:
        """Columns, watermark and key, each as the text between the commas."""
        columns = [c.text(sql) for c in self.columns]
        watermark = [self.watermark.text(sql)] if self.watermark else []
        key = [PrimaryKey(self.primary_key).text(sql)] if self.primary_key else []
        return columns + watermark + key

    def _properties(self) -> tuple[str | None, ...]:
        """COMMENT, DISTRIBUTED and PARTITIONED BY, as far as they are given."""
        distributed = self.distribution.text_after("DISTRIBUTED") if self.distribution is not None else None
        return string_clause("COMMENT", self.comment), distributed, _partitioned_by(self.partitioned_by)


@dataclass(frozen=True)
class CreateView(Node):
    """``CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] name [(columns)] [COMMENT 'c'] AS query``."""

    name: Name
    query: exp.Expression
    columns: tuple[str, ...] = ()
    if_not_exists: bool = False
    temporary: bool = False
    replace: bool = False
    comment: str | None = None

    def text(self, sql: Sql) -> str:
        return f"{self._head(sql)} AS {sql(self.query)}"

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        return f"{self._head(sql)} AS\n{pretty_sql(self.query)}"

    def _head(self, sql: Sql) -> str:
        return joined(_create_head("VIEW", self, sql), name_list(self.columns), string_clause("COMMENT", self.comment))


@dataclass(frozen=True)
class CreateMaterializedView(Node):
    """``CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] [COMMENT 'c'] [PARTITIONED BY (…)] [WITH
    (…)] AS query``, and the same statement as ``CREATE [OR ALTER] MATERIALIZED TABLE … [FRESHNESS = interval]
    [REFRESH_MODE = mode]`` of Flink or ``CREATE [OR REFRESH] STREAMING TABLE`` of Spark. ``kind`` says which of the
    three was written. ``columns`` have types or are names alone.
    """

    kind: str
    name: Name
    query: exp.Expression
    columns: tuple[PhysicalColumn | NamedColumn, ...] = ()
    primary_key: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    comment: str | None = None
    if_not_exists: bool = False
    replace: bool = False
    freshness: exp.Interval | None = None
    refresh_mode: str | None = None
    partitioned_by: tuple[str, ...] = ()

    def text(self, sql: Sql) -> str:
        elements = self._elements(sql)
        return joined(
            self._head(sql),
            f"({', '.join(elements)})" if elements else None,
            string_clause("COMMENT", self.comment),
            _partitioned_by(self.partitioned_by),
            with_options(self.options, sql),
            self._freshness(sql),
            f"AS {sql(self.query)}",
        )

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        elements = self._elements(sql)
        clauses = joined(
            self._head(sql),
            block(separated(elements)) if elements else None,
            string_clause("COMMENT", self.comment),
            _partitioned_by(self.partitioned_by),
            _with_block(self.options, sql),
            self._freshness(sql),
        )
        return f"{clauses} AS\n{pretty_sql(self.query)}"

    def _head(self, sql: Sql) -> str:
        replace, exists = flag(_REPLACING[self.kind], self.replace), flag("IF NOT EXISTS", self.if_not_exists)
        return joined("CREATE", replace, self.kind, exists, self.name.text(sql))

    def _elements(self, sql: Sql) -> list[str]:
        """Columns and key, each as the text between the commas."""
        key = [PrimaryKey(self.primary_key).text(sql)] if self.primary_key else []
        return [*(column.text(sql) for column in self.columns), *key]

    def _freshness(self, sql: Sql) -> str:
        """``FRESHNESS = …`` and ``REFRESH_MODE = …``, as far as they are given."""
        interval = f"FRESHNESS = {sql(self.freshness)}" if self.freshness is not None else None
        return joined(interval, f"REFRESH_MODE = {self.refresh_mode}" if self.refresh_mode is not None else None)


_REPLACING = {"MATERIALIZED VIEW": "OR REPLACE", "MATERIALIZED TABLE": "OR ALTER", "STREAMING TABLE": "OR REFRESH"}


@dataclass(frozen=True)
class FunctionParameter(Node):
    """``name type [DEFAULT expression] [COMMENT 'text']``."""

    name: str
    type: exp.DataType
    default: exp.Expression | None = None
    comment: str | None = None

    def text(self, sql: Sql) -> str:
        default = clause("DEFAULT", self.default, sql)
        return joined(quote_name(self.name), sql(self.type), default, string_clause("COMMENT", self.comment))


@dataclass(frozen=True)
class FunctionDefinition(Node):
    """The definition of a function inside CREATE FUNCTION: ``(x INT) RETURNS INT [traits] RETURN x + 1``; for Python,
    AS and the code in place of RETURN.

    ``columns`` are those of RETURNS TABLE, None without it.
    """

    parameters: tuple[FunctionParameter, ...]
    returns: exp.DataType | None = None
    body: exp.Expression | None = None
    deterministic: bool = True
    comment: str | None = None
    columns: tuple[FunctionParameter, ...] | None = None


@dataclass(frozen=True)
class CreateFunction(Node):
    """``CREATE [OR REPLACE] [TEMPORARY] FUNCTION [IF NOT EXISTS] name AS 'package.module:name' LANGUAGE PYTHON``, or
    with the definition itself: parameters, RETURNS, and RETURN with an expression or AS with Python code.

    ``target`` is ``'package.module:name'`` or, with a definition in Python, its code.
    """

    name: Name
    target: str
    language: str = "PYTHON"
    if_not_exists: bool = False
    temporary: bool = False
    replace: bool = False
    definition: FunctionDefinition | None = None
    jars: tuple[str, ...] = ()
    system: bool = False

    def text(self, sql: Sql) -> str:
        head = _create_head("FUNCTION", self, sql)
        if self.definition is None:
            return joined(head, module_text(self.target, self.language, self.jars))
        defined = self.definition
        head = f"{head} ({', '.join(p.text(sql) for p in defined.parameters)})"
        returns = clause("RETURNS", defined.returns, sql)
        if defined.columns is not None:
            columns = ", ".join(c.text(sql) for c in defined.columns)
            returns = joined("RETURNS TABLE", f"({columns})" if columns else None)
        traits = joined(flag("NOT DETERMINISTIC", not defined.deterministic), string_clause("COMMENT", defined.comment))
        language = f"LANGUAGE {quote_name(self.language)}"
        if defined.body is not None:
            return joined(head, returns, language, traits, "RETURN", sql(defined.body))
        python = f"$${self.target}$$" if "$$" not in self.target else quote_string(self.target)
        return joined(head, returns, language, traits, "AS", python)


def module_text(target: str, language: str, jars: tuple[str, ...]) -> str:
    """The text ``AS 'module:name' LANGUAGE language [USING JAR 'path', …]`` of CREATE and ALTER FUNCTION. ``target`` is
    ``module:name``; ``jars`` are the paths. A path without a colon was written without LANGUAGE, where it is a class of
    Java.
    """
    using = f"USING {', '.join(f'JAR {quote_string(jar)}' for jar in jars)}" if jars else None
    said = None if language == "PYTHON" and ":" not in target else f"LANGUAGE {quote_name(language)}"
    return joined(string_clause("AS", target), said, using)


@dataclass(frozen=True)
class CreateCatalog(Node):
    """``CREATE CATALOG [IF NOT EXISTS] name [COMMENT 'c'] [WITH (…)]``."""

    name: Name
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    comment: str | None = None

    def text(self, sql: Sql) -> str:
        return _create_container("CATALOG", self, sql)


@dataclass(frozen=True)
class CreateDatabase(Node):
    """``CREATE DATABASE|SCHEMA [IF NOT EXISTS] name [COMMENT 'c'] [WITH (…)]``."""

    name: Name
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    comment: str | None = None

    def text(self, sql: Sql) -> str:
        return _create_container("DATABASE", self, sql)


def _create_container(kind: str, node: CreateCatalog | CreateDatabase, sql: Sql) -> str:
    exists, comment = flag("IF NOT EXISTS", node.if_not_exists), string_clause("COMMENT", node.comment)
    return joined("CREATE", kind, exists, node.name.text(sql), comment, with_options(node.options, sql))


@dataclass(frozen=True)
class Drop(Node):
    """``DROP [TEMPORARY [SYSTEM]] kind [IF EXISTS] name [CASCADE]``. ``kind`` is TABLE, VIEW, FUNCTION, CATALOG,
    DATABASE, MATERIALIZED VIEW, MATERIALIZED TABLE, STREAMING TABLE or MODEL. CASCADE is for catalogs and databases.
    MODEL is parsed, but no models exist.
    """

    kind: str
    name: Name
    if_exists: bool = False
    temporary: bool = False
    system: bool = False
    cascade: bool = False

    def text(self, sql: Sql) -> str:
        exists, temporary = flag("IF EXISTS", self.if_exists), temporary_words(self.temporary, self.system)
        return joined("DROP", temporary, self.kind, exists, self.name.text(sql), flag("CASCADE", self.cascade))
