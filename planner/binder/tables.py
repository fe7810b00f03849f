"""CREATE TABLE to a table of the catalog, a table to the plan that reads it, and the table for its bad rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from sqlstream.errors import BindError, Span
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.grammar.nodes import Column as ColumnDef
from sqlstream.grammar.nodes import (
    ComputedColumn,
    CreateTable,
    MetadataColumn,
    NamedColumn,
    Option,
    PhysicalColumn,
    WatermarkDef,
)
from sqlstream.grammar.spans import span_of
from sqlstream.planner.bad_rows import DEAD_LETTER_COLUMNS, FAIL, OnError, action_of, unfit_columns
from sqlstream.planner.binder.changelogs import CHANGELOG_OPTION, changelog_of
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, types_of
from sqlstream.planner.binder.respelling import SIZED
from sqlstream.planner.binder.scope import scope_of
from sqlstream.planner.catalog import APPEND_ONLY, Catalog, Column, RowKind, Table, TimeDomain, Watermark
from sqlstream.planner.expressions import is_repeatable, substituted
from sqlstream.planner.fields import Item, field_of
from sqlstream.planner.intervals import interval_ms
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Project, Scan
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.types import TIMESTAMP, DataType, from_sqlglot

# --- CREATE TABLE ---------------------------------------------------------------------------------------------

_MARKERS = {"PROCTIME": TimeDomain.PROCESSING, "INGESTION_TIME": TimeDomain.INGESTION}


@on_deep_stack
def bind_table(create: CreateTable, catalog: Catalog) -> Table:
    """Binds CREATE TABLE and returns the table. The mistakes of all columns are reported at once, as BindError SS205,
    SS214, SS215, SS218.
    """
    context = Context(catalog)
    options = dict(_pairs(create.options, context))
    columns = _columns(create, context)
    watermark = _watermark(create.watermark, columns, context) if create.watermark else None
    if watermark is not None:
        columns = tuple(replace(c, time=TimeDomain.EVENT) if c.name == watermark.column else c for c in columns)
    _check_primary_key(create, columns, context)
    key = tuple(c.name for name in create.primary_key if (c := _find(name, columns)) is not None)
    columns = tuple(replace(c, nullable=False) if c.name in key else c for c in columns)
    changelog = _changelog(create.options, options.get("connector", ""), context)
    connector = options.pop("connector", "")
    if not connector:
        hint = "Add WITH ('connector' = '…'); SHOW CONNECTORS lists what there is."
        context.wrong("SS218", f'table "{create.name}" has no connector', create.name.span, hint)
    context.stop_if_wrong()
    name, given = str(create.name), tuple(options.items())
    return Table(name, columns, connector, given, watermark, key, changelog, comment=create.comment)


def _pairs(options: Iterable[Option], context: Context) -> Iterable[tuple[str, str]]:
    seen: set[str] = set()
    for option in options:
        if option.key in seen:
            context.wrong("SS205", f"option '{option.key}' is given twice", option.span)
        seen.add(option.key)
        yield option.key, option.value


def _columns(create: CreateTable, context: Context) -> tuple[Column, ...]:
    _check_duplicates(create.columns, context)
    kept = [c for c in create.columns if not isinstance(c, NamedColumn)]
    assert len(kept) == len(create.columns), "names alone are columns of a query"
    stored = tuple(_stored(c) for c in kept if not isinstance(c, ComputedColumn))
    relation = _relation(create, stored)
    return tuple(_computed(c, relation, context) if isinstance(c, ComputedColumn) else _stored(c) for c in kept)


def _check_duplicates(columns: Iterable[ColumnDef], context: Context) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.casefold() in seen:
            context.wrong("SS205", f'column "{column.name}" is declared twice', column.span)
        if column.name.startswith("__"):
            hint = "Names that begin with two underscores belong to the engine."
            context.wrong("SS205", f'column "{column.name}" has a reserved name', column.span, hint)
        seen.add(column.name.casefold())


def _stored(column: PhysicalColumn | MetadataColumn) -> Column:
    kind = from_sqlglot(column.type)
    if kind.defect is not None:
        hint = "Types are Spark's: BIGINT, DECIMAL(10, 2), STRING, TIMESTAMP, ARRAY<INT>, STRUCT<a: INT>, …"
        message = f'type {column.type.sql("spark")} of column "{column.name}" {kind.defect}'
        raise bind_error("SS206", message, column.span, hint)
    precision = _precision(column.type) if kind.is_timestamp else None
    if isinstance(column, MetadataColumn):
        key = column.key or column.name
        metadata = Column(column.name, kind, metadata_key=key, comment=column.comment, virtual=column.virtual)
        return replace(metadata, precision=precision)
    sized = column.type.this in SIZED and column.type.expressions
    declared = column.type.sql("sqlstream") if sized else None
    return Column(column.name, kind, column.nullable, comment=column.comment, declared=declared, precision=precision)


def _precision(kind: exp.DataType) -> int | None:
    """The p of ``TIMESTAMP(p)``; None without it."""
    return next((int(digits.name) for digits in kind.expressions), None)


def _relation(create: CreateTable, stored: tuple[Column, ...]) -> Relation:
    unique = {c.name.casefold(): c for c in reversed(stored)}
    table = Table(str(create.name), tuple(reversed(unique.values())), "")
    names = tuple(c.name for c in table.columns)
    return Relation(Scan(table, names), names)


def _computed(column: ComputedColumn, relation: Relation, context: Context) -> Column:
    domain = _marker(column.expression)
    if domain is not None:
        return Column(column.name, TIMESTAMP, False, column.expression, None, domain, column.comment)
    scope = scope_of(relation, None)
    bound = bind(column.expression, scope, context, ClauseContext("a computed column"))
    types = types_of(scope, context)
    return Column(column.name, types.of(bound), types.nullable(bound), bound, comment=column.comment)


def _marker(expression: exp.Expr) -> TimeDomain | None:
    """The time domain of a column that is PROCTIME() or INGESTION_TIME()."""
    if isinstance(expression, exp.Anonymous) and not expression.expressions:
        return _MARKERS.get(expression.name.upper())
    return None


def _watermark(definition: WatermarkDef, columns: tuple[Column, ...], context: Context) -> Watermark | None:
    column = _find(definition.column, columns)
    if column is None:
        names = [c.name for c in columns]
        hint = did_you_mean(definition.column, names, "columns")
        context.wrong("SS201", f'column "{definition.column}" of WATERMARK does not exist', definition.span, hint)
        return None
    if column.time is not None:
        message = f'column "{column.name}" is {column.time.value} already and takes no WATERMARK'
        context.wrong("SS214", message, definition.span, "Remove the WATERMARK; windows may be built on the column.")
        return None
    if not (column.type.is_timestamp or column.type.is_unknown):
        message = f'column "{column.name}" of WATERMARK is of type {column.type}, not TIMESTAMP'
        context.wrong("SS214", message, definition.span, conversion_hint(column.name, column.type))
        return None
    delay = _delay_ms(definition, column)
    if delay is not None:
        return Watermark(column.name, delay)
    expression = _strategy(definition, column, columns, context)
    return None if expression is None else Watermark(column.name, 0, expression)


def _strategy(
    definition: WatermarkDef, column: Column, columns: tuple[Column, ...], context: Context
) -> exp.Expression | None:
    """The bound expression whose greatest value is the watermark. SS206 where it is no TIMESTAMP, SS214 where it may
    differ between two evaluations for one row."""
    plain = Table("", tuple(replace(c, expression=None, metadata_key=None) for c in columns if c.time is None), "")
    names = tuple(c.name for c in plain.columns)
    scope = scope_of(Relation(Scan(plain, names), names), None)
    bound = bind(definition.expression, scope, context, ClauseContext("WATERMARK"))
    kind = types_of(scope, context).of(bound)
    hint = f"Write WATERMARK FOR {column.name} AS {column.name} - INTERVAL '5' SECOND."
    if not (kind.is_timestamp or kind.is_unknown):
        context.wrong("SS206", f"WATERMARK needs an expression of type TIMESTAMP, not {kind}", definition.span, hint)
        return None
    if not is_repeatable(bound):
        message = "WATERMARK must be the same whenever it is computed for a row"
        detail = "It calls a function of yours, or one whose result depends on more than the row."
        context.report(bind_error("SS214", message, definition.span, hint, detail))
        return None
    return bound


def _delay_ms(definition: WatermarkDef, column: Column) -> int | None:
    """0 for ``ts``, the interval for ``ts - INTERVAL …``; None for any other expression."""
    node = definition.expression
    while isinstance(node, exp.Paren):
        node = node.this
    if _is_column(node, column.name):
        return 0
    if asks_source(node):
        hint = f"Write WATERMARK FOR {column.name} AS {column.name} - INTERVAL '5' SECOND."
        raise bind_error("SS214", "SOURCE_WATERMARK() asks the source, which has no watermark of its own", node, hint)
    if not (isinstance(node, exp.Sub) and _is_column(node.left, column.name)) or node.right.find(exp.Column):
        return None
    return delay_ms(node.right)


def asks_source(expression: exp.Expr) -> bool:
    """True for SOURCE_WATERMARK(). Only who knows the connectors can say what it is."""
    call = expression.unnest()
    return isinstance(call, exp.Anonymous) and call.name.upper() == "SOURCE_WATERMARK" and not call.expressions


def delay_ms(expression: exp.Expr) -> int:
    """The delay of a watermark in milliseconds. SS212 if it is no constant interval, SS214 if it is negative."""
    delay = interval_ms(expression, "the delay of WATERMARK", span_of(expression))
    if delay < 0:
        raise bind_error("SS214", "the delay of WATERMARK must not be negative", expression)
    return delay


def conversion_hint(name: str, kind: DataType) -> str:
    """The text of a hint: how to convert a column of type ``kind`` to a TIMESTAMP."""
    value = f"TIMESTAMP_MILLIS({name})" if kind.is_numeric else f"CAST({name} AS TIMESTAMP)"
    return f"Add a column such as event_time AS {value} to CREATE TABLE, and a WATERMARK for it."


def _is_column(node: exp.Expr, name: str) -> bool:
    return isinstance(node, exp.Column) and not node.table and node.name.casefold() == name.casefold()


def _check_primary_key(create: CreateTable, columns: tuple[Column, ...], context: Context) -> None:
    for name in create.primary_key:
        column = _find(name, columns)
        if column is None:
            hint = did_you_mean(name, [c.name for c in columns], "columns")
            context.wrong("SS215", f'column "{name}" of PRIMARY KEY does not exist', create.span, hint)
        elif not column.physical:
            context.wrong("SS215", f'column "{name}" of PRIMARY KEY is not a physical column', create.span)
    keys = [n.casefold() for n in create.primary_key]
    if len(set(keys)) < len(keys):
        context.wrong("SS215", "PRIMARY KEY names a column twice", create.span)


def _find(name: str, columns: tuple[Column, ...]) -> Column | None:
    return next((c for c in columns if c.name.casefold() == name.casefold()), None)


def _changelog(options: Iterable[Option], connector: str, context: Context) -> frozenset[RowKind]:
    by_key = {o.key: o for o in options}
    option, format_option = by_key.get(CHANGELOG_OPTION), by_key.get("format")
    return changelog_of(option, connector, format_option.value if format_option else None, context) or APPEND_ONLY


# --- reading a table ------------------------------------------------------------------------------------------


def read_table(table: Table, on_error: OnError = FAIL) -> Relation:
    """Plans reading all columns of a table in declared order, computed and time columns included. ``on_error`` says
    what happens to its bad rows.
    """
    stored = tuple(c.name for c in table.columns if c.expression is None)
    node: Node = Scan(table, stored, on_error=on_error)
    for column in table.columns:
        if column.time in (TimeDomain.INGESTION, TimeDomain.PROCESSING):
            finer = column.time is TimeDomain.INGESTION
            node = AssignTime(node, column.name, 0, column.time, table.name, sub_millisecond=finer)
    names = tuple(c.name for c in table.columns)
    watermark = table.watermark
    follows = _watermark_item(watermark.expression, table) if watermark and watermark.expression else ()
    if tuple(f.name for f in node.schema) != names or follows:
        node = Project(node, (*(_item(c) for c in table.columns), *follows))
    if watermark is not None:
        name = follows[0].name if follows else None
        finer = not in_whole_milliseconds(watermark.column, table)
        delay, event = watermark.delay_ms, TimeDomain.EVENT
        node = AssignTime(node, watermark.column, delay, event, table.name, name, sub_millisecond=finer)
    return Relation(node, names)


_MILLISECONDS = 3
"""The precision of whole milliseconds."""


def in_whole_milliseconds(name: str, table: Table) -> bool:
    """True if the type or the computation of a time column guarantees whole milliseconds, as ``TIMESTAMP(3)`` does."""
    column = _find(name, table.columns)
    while column is not None and isinstance(column.expression, exp.Column):
        column = _find(column.expression.name, table.columns)
    if column is None:
        return False
    precision = column.precision
    match column.expression:
        case exp.Cast(to=exp.DataType() as kind):
            precision = _precision(kind)
        case exp.Anonymous() as call if call.name.upper() == "TIMESTAMP_MILLIS":
            return True
    return precision is not None and precision <= _MILLISECONDS


_WATERMARK_FIELD = "__watermark"


def _watermark_item(expression: exp.Expression, table: Table) -> tuple[Item]:
    """The hidden field with the expression of the watermark, in which computed columns are replaced by their own."""
    computed = {c.name: c.expression for c in table.columns if c.expression is not None}
    return (Item(_WATERMARK_FIELD, substituted(expression, computed), TIMESTAMP, True),)


def _item(column: Column) -> Item:
    marked = column.time if column.time is not TimeDomain.EVENT else None
    expression = field_of(column.name) if column.expression is None or marked else column.expression
    return Item(column.name, expression, column.type, column.nullable, marked)


# --- 'on-error': the table for bad rows -----------------------------------------------------------------------

NO_TABLE = "SS240"
UNFIT_TABLE = "SS241"
OWN_TABLE = "SS242"


def on_error_of(table: Table, at: exp.Expr, context: Context) -> OnError:
    """What happens to the bad rows of a source table, from its options. BindError SS240, SS241, SS242 for a table of
    dead letters that does not exist or fit, and for other mistakes in the options.
    """
    action, name = action_of(table)
    if name is None:
        return OnError(action)
    letters = dead_letter_table(name, f'table "{table.name}"', context.catalog, span_of(at))
    if letters.name == table.name:
        message = f'table "{table.name}" cannot get its own bad rows'
        raise BindError(OWN_TABLE, message, span_of(at), hint="Create a table of its own for them.")
    return OnError(action, letters)


def dead_letter_table(name: str, owner: str, catalog: Catalog, span: Span | None = None) -> Table:
    """The table with this name, which receives the bad rows of ``owner`` (a name for messages). BindError SS240 if it
    does not exist, SS241 if its columns do not fit.
    """
    relation = catalog.relation(name)
    if not isinstance(relation, Table):
        what = "is a view" if relation is not None else "does not exist"
        suggestion = did_you_mean(name, catalog.relation_names())
        hint = " ".join(
            filter(None, (suggestion, f"CREATE TABLE {name} may have the columns {_dead_letter_columns()}."))
        )
        raise BindError(NO_TABLE, f'table "{name}" for the bad rows of {owner} {what}', span, hint=hint)
    unfit = next(unfit_columns(relation), None)
    if unfit is not None:
        message = f'table "{relation.name}" cannot take dead letters: {unfit}'
        raise BindError(
            UNFIT_TABLE, message, span, hint=f"All columns may be NULL; they may be {_dead_letter_columns()}."
        )
    return relation


def _dead_letter_columns() -> str:
    return ", ".join(f"{name} {kinds[0]}" for name, (kinds, _) in DEAD_LETTER_COLUMNS.items())
