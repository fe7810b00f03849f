"""INSERT INTO: columns of the query go to columns of the table by position, with casts that cannot surprise.

Side outputs, such as late rows and failed lookups, go to columns of their table by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar.nodes import Insert as InsertStatement
from sqlstream.grammar.nodes import PartitionValue
from sqlstream.grammar.spans import mark_as
from sqlstream.planner.binder.context import BinderSettings, Context, Relation, bind_error
from sqlstream.planner.binder.respelling import cut_to
from sqlstream.planner.catalog import Catalog, Column, Table, View
from sqlstream.planner.expressions import as_expression, conjunction
from sqlstream.planner.fields import Field, Item, field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, Insert, Project
from sqlstream.planner.suggestions import counted, did_you_mean
from sqlstream.planner.type_inference import cast
from sqlstream.types import DataType

_TIMES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"})


def table_to_write(name: str, at: exp.Expr | Span, catalog: Catalog) -> Table:
    """The table into which INSERT or a side output writes. BindError SS202 if there is none of that name, or if nothing
    can be written to it.
    """
    match catalog.relation(name):
        case Table() as table:
            return table.target
        case View():
            raise bind_error("SS202", f'"{name}" is a view, which takes no rows', at)
    hint = did_you_mean(name, catalog.relation_names(), "tables") or "Create it with CREATE TABLE."
    raise bind_error("SS202", f'table "{name}" does not exist', at, hint)


def insert_into(
    table: Table, names: tuple[str, ...], relation: Relation, statement: InsertStatement, settings: BinderSettings
) -> Insert:
    """Plans writing the rows of ``relation`` into ``table``. ``names`` are the columns that INSERT names; all others
    get NULL. BindError SS205, SS206, SS216 for columns that do not fit.
    """
    targets = _targets(table, names, statement)
    _check_arity(table, targets, relation, statement)
    sources = {c.name: f for c, f in zip(targets, relation.fields, strict=True)}
    problems = [e for c in targets if (e := _mismatch(c, sources[c.name], statement)) is not None]
    problems += [e for c in table.physical_columns if (e := _missing(c, sources, statement)) is not None]
    if problems:
        raise SqlStreamError.of(d for e in problems for d in e.diagnostics)
    items = tuple(_insert_item(c, sources.get(c.name), settings.lengths) for c in table.physical_columns)
    node: Node = Project(relation.node, items)
    required = [c.name for c in table.physical_columns if not c.nullable or c.name in table.primary_key]
    if settings.drops_nulls and required:
        present = [exp.Not(this=exp.Is(this=field_of(name), expression=exp.Null())) for name in required]
        node = Filter(node, conjunction([*present]))
    return Insert(node, table)


def _targets(table: Table, names: tuple[str, ...], statement: InsertStatement) -> list[Column]:
    if not names:
        return list(table.physical_columns)
    by_name = {c.name.casefold(): c for c in table.columns}
    targets: list[Column] = []
    for name in names:
        column = by_name.get(name.casefold())
        if column is None:
            hint = did_you_mean(name, [c.name for c in table.physical_columns], "columns")
            raise bind_error("SS216", f'table "{table.name}" has no column "{name}"', statement.target.span, hint)
        if not column.physical:
            what = "computed" if column.metadata_key is None else "metadata of the connector"
            raise bind_error("SS216", f'column "{column.name}" is {what} and takes no values', statement.target.span)
        if column in targets:
            raise bind_error("SS205", f'column "{column.name}" is named twice', statement.target.span)
        targets.append(column)
    return targets


def _check_arity(table: Table, targets: list[Column], relation: Relation, statement: InsertStatement) -> None:
    if len(targets) == len(relation.names):
        return
    message = f'"{table.name}" takes {counted(len(targets), "column")}, but the query has {len(relation.names)}'
    wanted = ", ".join(f"{c.name} {c.type}" for c in targets)
    raise bind_error("SS216", message, statement.query, f"The columns are ({wanted}).")


def _mismatch(column: Column, field: Field, statement: InsertStatement) -> SqlStreamError | None:
    if storable(field.type, column.type):
        return None
    message = f'column "{column.name}" of type {column.type} cannot store values of type {field.type}'
    return bind_error("SS206", message, statement.query, f"Convert it, as in CAST({field.name} AS {column.type}).")


def _missing(column: Column, sources: dict[str, Field], statement: InsertStatement) -> SqlStreamError | None:
    if column.name in sources or column.nullable:
        return None
    return bind_error("SS216", f'column "{column.name}" is NOT NULL and gets no value', statement.target.span)


def storable(value: DataType, column: DataType) -> bool:
    """Whether a column can store values of a type, by Spark's ANSI store assignment.

    Numbers are stored in numbers, times in times, anything in STRING. Spark checks the range of numbers at run time.
    """
    if value == column or value.is_unknown or value.name == "VOID" or column.name == "STRING":
        return True
    if value.is_numeric and column.is_numeric:
        return True
    if value.name in _TIMES and column.name in _TIMES:
        return True
    return value.name == column.name and value.name in ("ARRAY", "MAP", "STRUCT", "INTERVAL")


def _with_length(value: exp.Expression, column: Column, lengths: str) -> exp.Expression:
    """The value with the length of its column's type: cut and padded, or an error (SS403) where it is longer."""
    if column.declared is None or lengths == "IGNORE":
        return value
    kind = exp.DataType.build(column.declared, dialect="sqlstream")
    if lengths == "TRIM_PAD":
        return as_expression(cut_to(value, kind))
    measure = "OCTET_LENGTH" if column.type.name == "BINARY" else "CHAR_LENGTH"
    too_long = exp.GT(
        this=exp.Anonymous(this=measure, expressions=[value.copy()]), expression=kind.expressions[0].this.copy()
    )
    text = f'SS403: column "{column.name}" takes {column.declared} and got a longer value'
    raised = exp.Anonymous(this="RAISE_ERROR", expressions=[exp.Literal.string(text)])
    return exp.Case(ifs=[exp.If(this=too_long, true=raised)], default=value)


def _insert_item(column: Column, field: Field | None, lengths: str) -> Item:
    if field is None:
        return Item(column.name, cast(exp.Null(), column.type), column.type, True)
    value: exp.Expression = field_of(field.name)
    value = value if field.type == column.type else cast(value, column.type)
    value = _with_length(value, column, lengths)
    return Item(column.name, value, column.type, field.nullable, field.time)


# --- PARTITION (p = value) ------------------------------------------------------------------------------------

NO_PARTITIONS = "SS295"
PARTITIONS_OPTION = "partition-by"


def partitions_of(table: Table) -> list[str]:
    """The partition columns of the table."""
    names = (table.option(PARTITIONS_OPTION) or "").split(",")
    return [name.strip() for name in names if name.strip()]


def without_partition(statement: InsertStatement, catalog: Catalog) -> InsertStatement:
    """Rewrites INSERT with PARTITION: its values become columns of the query. BindError SS295 for a column that is not
    a partition column.
    """
    table = catalog.relation(str(statement.target))
    if not statement.partition or not isinstance(table, Table):
        return replace(statement, partition=()) if statement.partition else statement
    fixed = [value for value in statement.partition if value.value is not None]
    for value in statement.partition:
        _require_partition(value, table)
    names = {value.column.casefold() for value in fixed}
    given = statement.columns or tuple(c.name for c in table.physical_columns)
    columns = tuple(name for name in given if name.casefold() not in names)
    query = _with_partition_values(statement.query, fixed) if fixed else statement.query
    return replace(statement, query=query, columns=(*columns, *(value.column for value in fixed)), partition=())


def _require_partition(value: PartitionValue, table: Table) -> None:
    names = partitions_of(table)
    if value.column.casefold() not in {name.casefold() for name in names}:
        message = f'"{value.column}" is no partition column of table "{table.name}"'
        hint = f"They are {', '.join(names)}." if names else "CREATE TABLE … PARTITIONED BY (…) declares some."
        raise bind_error(NO_PARTITIONS, message, value.span, hint)


def _with_partition_values(query: exp.Expression, fixed: list[PartitionValue]) -> exp.Expression:
    """The query with the values as its last columns."""
    if isinstance(query, exp.Select):
        copy = query.copy()
        for value in fixed:
            copy.append("expressions", _aliased_value(value))
    else:
        inner = exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier("q")))
        copy = exp.Select(expressions=[exp.Star(), *map(_aliased_value, fixed)], from_=exp.From(this=inner))
    mark_as(copy, query)
    return copy


def _aliased_value(value: PartitionValue) -> exp.Alias:
    assert value.value is not None
    return exp.Alias(this=value.value.copy(), alias=exp.to_identifier(value.column, quoted=True))


# --- side outputs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SideRowFields:
    """Describes the rows of a side output for messages and name lookup: an adjective ("late"), a text that says where
    the columns come from, and the fields by name.
    """

    adjective: str
    origin: str
    fields: Mapping[str, Field]


def side_table(table: exp.Table, context: Context) -> Table:
    """The table that the clause TO names. BindError SS202 for an unknown name."""
    return table_to_write(".".join(p.name for p in table.parts), table, context.catalog)


def side_values(table: Table, rows: SideRowFields, span: Span, context: Context) -> tuple[exp.Expression, ...]:
    """Returns the expressions that fill the physical columns of ``table``, the target of a side output, in their order
    and cast to their types. BindError SS206, SS216 for columns that do not fit.
    """
    return tuple(_side_value(c, table, rows, span, context) for c in table.physical_columns)


def _side_value(column: Column, table: Table, rows: SideRowFields, span: Span, context: Context) -> exp.Expression:
    field = rows.fields.get(column.name.casefold())
    if field is None:
        message = f'{rows.adjective} rows have no column "{column.name}", which table "{table.name}" has'
        context.wrong("SS216", message, span, f"They have {', '.join(rows.fields)}: {rows.origin}.")
        return exp.Null()
    if not storable(field.type, column.type):
        message = (
            f'column "{column.name}" of type {column.type} cannot store {rows.adjective} values of type {field.type}'
        )
        context.wrong("SS206", message, span, f'Declare it as {field.type} in table "{table.name}".')
    value: exp.Expression = field_of(field.name)
    return value if field.type == column.type else cast(value, column.type)
