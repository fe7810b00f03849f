"""Syntax nodes: statements and streaming clauses as frozen data.

Expressions and queries inside them are sqlglot trees, treated as immutable. A node compares by content; spans do
not take part. Clauses hang on sqlglot's trees as follows (see ``grammar.carrier``):

* ``StreamClauses`` of a SELECT: ``clauses_of(select)``
* ``TableFunction`` (TUMBLE, …, process functions) as a table factor: ``table_function_of(table)``
* ``AlignBarriers``, ``LookupAsync``, ``WatermarkDelay``, ``TableHint`` of a table: ``table_clauses_of(table)``
* ``MatchRecognize`` of a SELECT: ``match_recognize_of(select)``; its alias is the ``alias`` of the carrier
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sqlglot import exp

from sqlstream.errors import Span

# Names keep the spelling of the user; lookups ignore case.


@dataclass(frozen=True)
class Node:
    """``span`` points into the text of the script.

    The hash depends on the class, too: sqlglot takes trees, which hold nodes, for equal where their hashes are.
    """

    span: Span = field(default=Span(0, 0), compare=False, repr=False, kw_only=True)

    def __init_subclass__(cls) -> None:
        cls.__hash__ = Node._hash  # type: ignore[assignment]  # dataclass leaves alone what stands in the class

    def _hash(self) -> int:
        return hash((type(self), *(value for name, value in vars(self).items() if name != "span")))


# --- measures -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowCount(Node):
    """``n ROWS``."""

    count: int


@dataclass(frozen=True)
class Duration(Node):
    """A time interval: any expression of interval type, most often an ``INTERVAL`` literal."""

    expression: exp.Expression


Measure = RowCount | Duration


# --- table functions ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Descriptor(Node):
    """``DESCRIPTOR(ts, …)``."""

    columns: tuple[exp.Identifier, ...]


@dataclass(frozen=True)
class TableArgument(Node):
    """``TABLE t [PARTITION BY k, …] [ORDER BY ts, …]``; ``source`` is an ``exp.Table`` or ``exp.Subquery``."""

    source: exp.Expression
    partition_by: tuple[exp.Expression, ...] = ()
    order_by: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True)
class Argument(Node):
    """One argument of a table function; ``name`` is None where it is positional."""

    name: str | None
    value: exp.Expression | Descriptor | TableArgument | RowCount


@dataclass(frozen=True)
class TableFunction(Node):
    """``name(args)`` in FROM with at least one TABLE argument; ``wrapped``: inside ``TABLE( )``."""

    name: str
    arguments: tuple[Argument, ...]
    wrapped: bool = False


# --- windows as clauses ---------------------------------------------------------------------------------------


class WindowKind(Enum):
    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


@dataclass(frozen=True)
class GroupWindow(Node):
    """``TUMBLE(ts, size [, offset])`` and so on among the keys of GROUP BY.

    ``measures`` are the arguments after the time column in the order written: TUMBLE size [offset],
    HOP slide size [offset], CUMULATE step size [offset], SESSION gap.
    """

    kind: WindowKind
    time: exp.Expression
    measures: tuple[Measure, ...]


@dataclass(frozen=True)
class CountWindow(Node):
    """``COUNT WINDOW (size [SLIDE slide] [FULL ONLY])``."""

    size: Measure
    slide: Measure | None = None
    full_only: bool = False


@dataclass(frozen=True)
class GlobalWindow(Node):
    """``GLOBAL WINDOW``."""


@dataclass(frozen=True)
class UserCall(Node):
    """``f(args)`` naming a Python class: assigner, trigger or evictor."""

    name: str
    arguments: tuple[exp.Expression, ...]


@dataclass(frozen=True)
class UserWindow(Node):
    """``WINDOW USING f(args)``."""

    call: UserCall


WindowClause = GroupWindow | CountWindow | GlobalWindow | UserWindow


# --- triggers -------------------------------------------------------------------------------------------------


class Domain(Enum):
    EVENT = "EVENT TIME"
    PROCESSING = "PROCESSING TIME"


class Accumulation(Enum):
    ACCUMULATING = "ACCUMULATING"
    DISCARDING = "DISCARDING"
    RETRACTING = "RETRACTING"


@dataclass(frozen=True)
class EveryRows(Node):
    """``EVERY n ROWS``."""

    count: int


@dataclass(frozen=True)
class EveryInterval(Node):
    """``EVERY interval [EVENT TIME | PROCESSING TIME]``."""

    interval: exp.Expression
    domain: Domain | None = None


@dataclass(frozen=True)
class When(Node):
    """``WHEN (condition)``."""

    condition: exp.Expression


Pulse = EveryRows | EveryInterval | When  # what EARLY and LATE take


@dataclass(frozen=True)
class AfterWatermark(Node):
    """``AFTER WATERMARK [EARLY early] [LATE late]``."""

    early: Pulse | None = None
    late: Pulse | None = None


@dataclass(frozen=True)
class AfterProcessingTime(Node):
    """``AFTER PROCESSING TIME``."""


@dataclass(frozen=True)
class DeltaTrigger(Node):
    """``[ABSOLUTE] DELTA (number) > threshold``."""

    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False


@dataclass(frozen=True)
class AfterSilence(Node):
    """``AFTER interval OF SILENCE``."""

    interval: exp.Expression


@dataclass(frozen=True)
class OnBarrier(Node):
    """``ON BARRIER``."""


@dataclass(frozen=True)
class Never(Node):
    """``NEVER``."""


@dataclass(frozen=True)
class UserTrigger(Node):
    """``USING f(args)``."""

    call: UserCall


@dataclass(frozen=True)
class Purging(Node):
    """``PURGING (expr)``."""

    inner: TriggerExpr


class Combinator(Enum):
    OR = "OR"
    AND = "AND"
    THEN = "THEN"


@dataclass(frozen=True)
class Combined(Node):
    """``left OR|AND|THEN right``; AND binds tighter than OR, THEN weakest; parentheses group."""

    combinator: Combinator
    left: TriggerExpr
    right: TriggerExpr


TriggerExpr = (
    EveryRows | EveryInterval | When | AfterWatermark | AfterProcessingTime | DeltaTrigger | AfterSilence | OnBarrier
    | Never | UserTrigger | Purging | Combined
)  # fmt: skip


@dataclass(frozen=True)
class Trigger(Node):
    """``TRIGGER expr [accumulation]``."""

    expression: TriggerExpr
    accumulation: Accumulation | None = None


# --- evictors, late data, emit --------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeepLast(Node):
    """``KEEP LAST n ROWS | interval``."""

    measure: Measure


@dataclass(frozen=True)
class DeltaEvictor(Node):
    """``[ABSOLUTE] DELTA (number) >= threshold``."""

    value: exp.Expression
    threshold: exp.Expression
    absolute: bool = False


@dataclass(frozen=True)
class UserEvictor(Node):
    """``USING f(args)``."""

    call: UserCall


@dataclass(frozen=True)
class Evict(Node):
    """``EVICT [BEFORE | AFTER] …``; BEFORE is the default."""

    evictor: KeepLast | DeltaEvictor | UserEvictor
    after: bool = False


class LateAction(Enum):
    DROP = "DROP"
    TO = "TO"
    FAIL = "FAIL"


@dataclass(frozen=True)
class LateData(Node):
    """``LATE DATA [ALLOW interval] [DROP | TO table | FAIL]``."""

    allow: exp.Expression | None = None
    action: LateAction | None = None
    table: exp.Table | None = None


class EmitKind(Enum):
    ON_WINDOW_CLOSE = "ON WINDOW CLOSE"
    CHANGES = "CHANGES"
    EVERY = "EVERY"


@dataclass(frozen=True)
class Emit(Node):
    """``EMIT …``; ``interval`` is the delay of ON_WINDOW_CLOSE (AFTER WATERMARK WITH DELAY) or the period of EVERY."""

    kind: EmitKind
    interval: exp.Expression | None = None


@dataclass(frozen=True)
class StreamClauses(Node):
    """The streaming clauses of one SELECT, each optional. ``window`` stands among or behind the keys of GROUP BY."""

    window: WindowClause | None = None
    trigger: Trigger | None = None
    evict: Evict | None = None
    late_data: LateData | None = None
    emit: Emit | None = None


# --- clauses of a table ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WatermarkDelay(Node):
    """``FROM t WATERMARK ts DELAY OF interval`` (Spark's spelling)."""

    column: exp.Identifier
    delay: exp.Expression


@dataclass(frozen=True)
class AlignBarriers(Node):
    """``ALIGN BARRIERS (CHANNEL c OF n, MARKER cond, ID expr, …)``."""

    channel: exp.Expression
    channels: int
    marker: exp.Expression
    id: exp.Expression
    cancel_when: exp.Expression | None = None
    end_when: exp.Expression | None = None
    at_least_once: bool = False
    timeout: exp.Expression | None = None


class LookupOrder(Enum):
    ORDERED = "ORDERED"
    UNORDERED = "UNORDERED"
    KEY_ORDERED = "KEY ORDERED"


@dataclass(frozen=True)
class Retry(Node):
    """``RETRY [ON MISS|ERROR] n TIMES (FIXED DELAY i | EXPONENTIAL FROM i [TO i])``; ``on`` is None for both."""

    on: str | None
    times: int
    delay: exp.Expression
    exponential: bool = False
    limit: exp.Expression | None = None


@dataclass(frozen=True)
class Cache(Node):
    """``CACHE n ROWS [TTL i] [NEGATIVE TTL i]``."""

    rows: int
    ttl: exp.Expression | None = None
    negative_ttl: exp.Expression | None = None


@dataclass(frozen=True)
class LookupAsync(Node):
    """``LOOKUP ASYNC (option, …)``; None where an option is not given."""

    order: LookupOrder | None = None
    capacity: int | None = None
    timeout: exp.Expression | None = None
    on_timeout: str | None = None  # FAIL, NULL, DEFER
    on_error: str | None = None  # FAIL, NULL, TO
    error_table: exp.Table | None = None
    retry: tuple[Retry, ...] = ()
    cache: Cache | None = None
    batch: int | None = None
    batch_within: exp.Expression | None = None


@dataclass(frozen=True)
class TableHint(Node):
    """``/*+ OPTIONS('k' = 'v') */`` behind a table's name: ``hint`` holds calls or, where unreadable, a string."""

    hint: exp.Hint


@dataclass(frozen=True)
class TableClauses(Node):
    """What stands behind a table and its alias."""

    watermark: WatermarkDelay | None = None
    barriers: AlignBarriers | None = None
    lookup: LookupAsync | None = None
    hint: TableHint | None = None


# --- MATCH_RECOGNIZE -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PatternVariable(Node):
    """``A``."""

    name: str


@dataclass(frozen=True)
class PatternSequence(Node):
    """``A B C``."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class PatternAlternation(Node):
    """``A | B``."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class PatternRepetition(Node):
    """``A*``, ``A+``, ``A?``, ``A{2,3}``, with ``?`` behind when reluctant; ``most`` None: without bound."""

    pattern: Pattern
    least: int
    most: int | None
    reluctant: bool = False


Pattern = PatternVariable | PatternSequence | PatternAlternation | PatternRepetition


@dataclass(frozen=True)
class Measured(Node):
    """``[FINAL | RUNNING] expression AS name`` of MEASURES."""

    expression: exp.Expression
    name: str
    mode: str | None = None


@dataclass(frozen=True)
class PatternDefinition(Node):
    """``name AS condition`` of DEFINE."""

    name: str
    condition: exp.Expression


@dataclass(frozen=True)
class MatchRecognize(Node):
    """``MATCH_RECOGNIZE (…)`` behind the last table of FROM; ``rows`` and ``skip`` are the words as written."""

    pattern: Pattern
    definitions: tuple[PatternDefinition, ...]
    measures: tuple[Measured, ...] = ()
    partition_by: tuple[exp.Expression, ...] = ()
    order_by: tuple[exp.Expression, ...] = ()
    rows: str | None = None
    skip: str | None = None
    within: exp.Expression | None = None


# --- statements -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name(Node):
    """A name, dotted or not, as written: ``parts`` without quotes."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Option(Node):
    """``'key' = 'value'``."""

    key: str
    value: str


@dataclass(frozen=True)
class PhysicalColumn(Node):
    """``name TYPE [NOT NULL] [COMMENT 'c']``."""

    name: str
    type: exp.DataType
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True)
class MetadataColumn(Node):
    """``name TYPE METADATA [FROM 'key'] [VIRTUAL]``."""

    name: str
    type: exp.DataType
    key: str | None = None
    virtual: bool = False
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True)
class ComputedColumn(Node):
    """``name AS expression``; PROCTIME() and INGESTION_TIME() are calls in the expression."""

    name: str
    expression: exp.Expression
    comment: str | None = None


@dataclass(frozen=True)
class NamedColumn(Node):
    """``name`` alone: a column of the query of CREATE TABLE … AS, in the place that it is to have."""

    name: str


Column = PhysicalColumn | MetadataColumn | ComputedColumn | NamedColumn


@dataclass(frozen=True)
class WatermarkDef(Node):
    """``WATERMARK FOR column AS expression``."""

    column: str
    expression: exp.Expression


@dataclass(frozen=True)
class PrimaryKey(Node):
    """``[CONSTRAINT name] PRIMARY KEY (column, …) NOT ENFORCED``."""

    columns: tuple[str, ...]


TableElement = Column | WatermarkDef | PrimaryKey


@dataclass(frozen=True)
class Distribution(Node):
    """``DISTRIBUTED [BY [HASH|RANGE] (columns)] [INTO n BUCKETS]``."""

    columns: tuple[str, ...] = ()
    kind: str | None = None
    buckets: int | None = None


@dataclass(frozen=True)
class LikeOption(Node):
    """``INCLUDING|EXCLUDING|OVERWRITING feature``, both as words."""

    action: str
    feature: str


@dataclass(frozen=True)
class LikeTable(Node):
    """``LIKE source [(option …)]`` of CREATE TABLE."""

    source: Name
    options: tuple[LikeOption, ...] = ()


@dataclass(frozen=True)
class CreateTable(Node):
    """``CREATE [OR REPLACE] [TEMPORARY] TABLE …``; ``query`` for CREATE TABLE … AS. ``must_exist``: REPLACE TABLE."""

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


@dataclass(frozen=True)
class CreateMaterializedView(Node):
    """``CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] [COMMENT 'c'] [PARTITIONED BY (…)]
    [WITH (…)] AS query``, also ``CREATE [OR ALTER] MATERIALIZED TABLE … [FRESHNESS = interval] [REFRESH_MODE = mode]``
    of Flink and ``CREATE [OR REFRESH] STREAMING TABLE`` of Spark. ``kind`` is which of them, ``columns`` are names or
    have types."""

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


@dataclass(frozen=True)
class FunctionParameter(Node):
    """``name type [DEFAULT expression] [COMMENT 'text']``."""

    name: str
    type: exp.DataType
    default: exp.Expression | None = None
    comment: str | None = None


@dataclass(frozen=True)
class FunctionDefinition(Node):
    """What a function is that is written in the statement: ``(x INT) RETURNS INT [traits] RETURN x + 1``, or a text of
    Python in place of RETURN. ``columns`` are those of RETURNS TABLE, None where that is not there."""

    parameters: tuple[FunctionParameter, ...]
    returns: exp.DataType | None = None
    body: exp.Expression | None = None
    deterministic: bool = True
    comment: str | None = None
    columns: tuple[FunctionParameter, ...] | None = None


@dataclass(frozen=True)
class CreateFunction(Node):
    """``CREATE [OR REPLACE] [TEMPORARY] FUNCTION [IF NOT EXISTS] name AS 'package.module:name' LANGUAGE PYTHON``, or
    with a definition, whose text of Python is ``target``."""

    name: Name
    target: str
    language: str = "PYTHON"
    if_not_exists: bool = False
    temporary: bool = False
    replace: bool = False
    definition: FunctionDefinition | None = None
    jars: tuple[str, ...] = ()
    system: bool = False


@dataclass(frozen=True)
class CreateCatalog(Node):
    """``CREATE CATALOG [IF NOT EXISTS] name [COMMENT 'c'] [WITH (…)]``."""

    name: Name
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class CreateDatabase(Node):
    """``CREATE DATABASE|SCHEMA [IF NOT EXISTS] name [COMMENT 'c'] [WITH (…)]``."""

    name: Name
    options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class Drop(Node):
    """``DROP [TEMPORARY [SYSTEM]] TABLE|VIEW|FUNCTION [IF EXISTS] name``, also of a CATALOG or DATABASE, which may
    have CASCADE, of a MATERIALIZED VIEW, MATERIALIZED TABLE or STREAMING TABLE, and of a MODEL, of which there are
    none."""

    kind: str
    name: Name
    if_exists: bool = False
    temporary: bool = False
    system: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class PartitionValue(Node):
    """``column [= value]`` of PARTITION."""

    column: str
    value: exp.Expression | None = None


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


@dataclass(frozen=True)
class Truncate(Node):
    """``TRUNCATE TABLE name``."""

    name: Name


# --- ALTER ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RenameTo(Node):
    """``RENAME TO name``."""

    name: Name


@dataclass(frozen=True)
class RenameColumn(Node):
    """``RENAME column TO name``."""

    column: str
    name: str


@dataclass(frozen=True)
class SetOptions(Node):
    """``SET ('key' = 'value', …)``."""

    options: tuple[Option, ...]


@dataclass(frozen=True)
class ResetOptions(Node):
    """``RESET ('key', …)``."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class SetComment(Node):
    """``COMMENT 'text'`` of ALTER CATALOG."""

    comment: str


@dataclass(frozen=True)
class PlacedElement(Node):
    """A column, watermark or key of ALTER TABLE … ADD and MODIFY: ``first``, behind a column, or where it falls."""

    element: TableElement
    first: bool = False
    after: str | None = None


@dataclass(frozen=True)
class AddElements(Node):
    """``ADD element`` or ``ADD (element, …)``."""

    elements: tuple[PlacedElement, ...]


@dataclass(frozen=True)
class ModifyElements(Node):
    """``MODIFY element`` or ``MODIFY (element, …)``."""

    elements: tuple[PlacedElement, ...]


@dataclass(frozen=True)
class RetypeColumn(Node):
    """``ALTER COLUMN column TYPE type``."""

    column: str
    type: exp.DataType


@dataclass(frozen=True)
class DropColumns(Node):
    """``DROP column`` or ``DROP (column, …)``."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class DropElement(Node):
    """``DROP PRIMARY KEY|WATERMARK|DISTRIBUTION|CONSTRAINT [name]``."""

    kind: str
    name: str | None = None


@dataclass(frozen=True)
class ChangeDistribution(Node):
    """``ADD|MODIFY DISTRIBUTION [BY [HASH|RANGE] (columns)] [INTO n BUCKETS]``."""

    distribution: Distribution
    adds: bool


@dataclass(frozen=True)
class Partition(Node):
    """``PARTITION (p = value, …) [WITH ('k' = 'v', …)]``; options are parsed to be refused with a hint."""

    values: tuple[PartitionValue, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class ChangePartitions(Node):
    """``ADD [IF NOT EXISTS] PARTITION (…) …`` and ``DROP [IF EXISTS] PARTITION (…), …``."""

    partitions: tuple[Partition, ...]
    adds: bool
    if_needed: bool = False


TableChange = (
    RenameTo | RenameColumn | SetOptions | ResetOptions | AddElements | ModifyElements | RetypeColumn | DropColumns
    | DropElement | ChangePartitions | ChangeDistribution
)  # fmt: skip


@dataclass(frozen=True)
class AlterTable(Node):
    """``ALTER TABLE [IF EXISTS] name change``."""

    name: Name
    change: TableChange
    if_exists: bool = False


@dataclass(frozen=True)
class AlterView(Node):
    """``ALTER VIEW [IF EXISTS] name RENAME TO name`` or ``… AS query``: one of the two is given."""

    name: Name
    rename: RenameTo | None = None
    query: exp.Expression | None = None
    if_exists: bool = False


@dataclass(frozen=True)
class AlterMaterializedView(Node):
    """``ALTER MATERIALIZED VIEW|MATERIALIZED TABLE|STREAMING TABLE name SUSPEND|RESUME|REFRESH`` or ``… AS query``:
    ``action`` or ``query`` is given."""

    kind: str
    name: Name
    action: str | None = None
    query: exp.Expression | None = None


@dataclass(frozen=True)
class AlterFunction(Node):
    """``ALTER [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name AS 'package.module:name' [LANGUAGE PYTHON]``."""

    name: Name
    target: str
    language: str = "PYTHON"
    if_exists: bool = False
    temporary: bool = False
    system: bool = False
    jars: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlterDatabase(Node):
    """``ALTER DATABASE name SET (…)``."""

    name: Name
    change: SetOptions


@dataclass(frozen=True)
class AlterCatalog(Node):
    """``ALTER CATALOG name SET (…) | RESET (…) | COMMENT 'text'``."""

    name: Name
    change: SetOptions | ResetOptions | SetComment


# --- queries and what looks -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StatementSet(Node):
    """``EXECUTE STATEMENT SET BEGIN insert; … END``."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True)
class UnitRows(Node):
    """``MOCK name [(column type, …)] AS (query)``; EXPECTED, which has no name, the same way."""

    query: exp.Expression
    columns: tuple[PhysicalColumn, ...] = ()
    name: Name | None = None


@dataclass(frozen=True)
class UnitTest(Node):
    """``EXECUTE UNIT TEST name FOR view [AT TIME at] [MOCK …, …] EXPECTED …``."""

    name: Name
    view: Name
    expected: UnitRows
    mocks: tuple[UnitRows, ...] = ()
    at: exp.Expression | None = None


@dataclass(frozen=True)
class Query(Node):
    """A query on its own."""

    query: exp.Expression


@dataclass(frozen=True)
class CompilePlan(Node):
    """``COMPILE PLAN 'path' [IF NOT EXISTS] FOR statement``; ``execute``: COMPILE AND EXECUTE PLAN."""

    path: str
    statement: Insert | StatementSet
    if_not_exists: bool = False
    execute: bool = False


@dataclass(frozen=True)
class ExecutePlan(Node):
    """``EXECUTE PLAN 'path'``."""

    path: str


@dataclass(frozen=True)
class Explain(Node):
    """``EXPLAIN [FORMAT TEXT|JSON|MERMAID] [stage, …] statement``; ``stage`` defaults to OPTIMIZED, ``more`` are those
    behind the first."""

    statement: Query | Insert | StatementSet | CreateTable | CreateMaterializedView | ExecutePlan
    format: str = "TEXT"
    stage: str = "OPTIMIZED"
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class NameFilter(Node):
    """``[NOT] LIKE 'pattern'`` of SHOW, with ``%`` for any text and ``_`` for a character; ILIKE in any case."""

    pattern: str
    negated: bool = False
    any_case: bool = False


@dataclass(frozen=True)
class Show(Node):
    """``SHOW what``; ``what``: TABLES, VIEWS, [USER] FUNCTIONS, CONNECTORS, CATALOGS, DATABASES, JOBS, CHECKPOINTS,
    COLUMNS, PARTITIONS, CURRENT CATALOG|DATABASE, [FULL] MODULES, JARS, PROCEDURES, MODELS, MATERIALIZED VIEWS,
    MATERIALIZED TABLES, STREAMING TABLES, CREATE TABLE|VIEW|CATALOG|MATERIALIZED VIEW and the like. ``name`` is what it
    shows, of TABLES and the like the database, of DATABASES the catalog;
    ``partition`` stands behind PARTITIONS."""

    what: str
    name: Name | None = None
    names: NameFilter | None = None
    partition: tuple[PartitionValue, ...] = ()


@dataclass(frozen=True)
class Describe(Node):
    """``DESCRIBE [EXTENDED] name`` (``kind`` TABLE), the same of a JOB, CATALOG, DATABASE or FUNCTION."""

    kind: str
    name: Name
    extended: bool = False


@dataclass(frozen=True)
class DescribeQuery(Node):
    """``DESCRIBE [QUERY] query``."""

    query: exp.Expression


@dataclass(frozen=True)
class StopJob(Node):
    """``STOP JOB j [WITH SAVEPOINT ['path']] [WITH DRAIN]``."""

    job: Name
    savepoint: bool = False
    path: str | None = None
    drain: bool = False


@dataclass(frozen=True)
class CheckpointJob(Node):
    """``CHECKPOINT JOB j``."""

    job: Name


@dataclass(frozen=True)
class SavepointJob(Node):
    """``SAVEPOINT JOB j ['path']``."""

    job: Name
    path: str | None = None


@dataclass(frozen=True)
class Set(Node):
    """``SET 'key' = 'value'``; both None for a bare ``SET``, which lists the settings."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Reset(Node):
    """``RESET ['key']``."""

    key: str | None = None


@dataclass(frozen=True)
class Use(Node):
    """``USE CATALOG name``, ``USE [DATABASE] name``; of a MODULE it is refused with a hint."""

    kind: str
    name: Name


Statement = (
    CreateTable | CreateView | CreateMaterializedView | CreateFunction | CreateCatalog | CreateDatabase | Drop
    | AlterTable | AlterView | AlterMaterializedView | AlterFunction | AlterDatabase | AlterCatalog | Truncate | Insert
    | StatementSet | UnitTest | Query | Explain
    | Show | Describe | DescribeQuery | StopJob | CheckpointJob | SavepointJob | Set | Reset | Use | CompilePlan
    | ExecutePlan
)  # fmt: skip
