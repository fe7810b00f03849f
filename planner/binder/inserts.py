"""INSERT INTO: columns of the query to columns of the table, by position, with the casts that cannot surprise."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar.nodes import Insert as InsertStatement
from sqlstream.planner.binder.context import Relation, bind_error
from sqlstream.planner.binder.respelling import cut_to
from sqlstream.planner.binder.settings import EmitSettings
from sqlstream.planner.binder.unions import cast
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.fields import Field, Item
from sqlstream.planner.naming import field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter, Insert, Project
from sqlstream.planner.rewriting import conjunction, node_of
from sqlstream.planner.suggestions import counted, did_you_mean
from sqlstream.types import DataType

_TIMES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"})


def insert_into(
    table: Table, names: tuple[str, ...], relation: Relation, statement: InsertStatement, settings: EmitSettings
) -> Insert:
    """The plan that writes ``relation`` into ``table``; columns that are not named get NULL. SS216."""
    targets = _targets(table, names, statement)
    _check_arity(table, targets, relation, statement)
    sources = {c.name: f for c, f in zip(targets, relation.fields, strict=True)}
    problems = [e for c in targets if (e := _mismatch(c, sources[c.name], statement)) is not None]
    problems += [e for c in table.physical_columns if (e := _missing(c, sources, statement)) is not None]
    if problems:
        raise SqlStreamError.of(d for e in problems for d in e.diagnostics)
    items = tuple(_item(c, sources.get(c.name), settings.lengths) for c in table.physical_columns)
    node: Node = Project(relation.node, items)
    required = [c.name for c in table.physical_columns if not c.nullable or c.name in table.primary_key]
    if settings.drops_nulls and required:
        node = Filter(node, conjunction([_present(name) for name in required]))
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
    """Spark's ANSI store assignment: numbers to numbers (checked when run), times to times, anything to STRING."""
    if value == column or value.is_unknown or value.name == "VOID" or column.name == "STRING":
        return True
    if value.is_numeric and column.is_numeric:
        return True
    if value.name in _TIMES and column.name in _TIMES:
        return True
    return value.name == column.name and value.name in ("ARRAY", "MAP", "STRUCT", "INTERVAL")


def _present(name: str) -> exp.Expression:
    return exp.Not(this=exp.Is(this=field_of(name), expression=exp.Null()))


def _with_length(value: exp.Expression, column: Column, lengths: str) -> exp.Expression:
    """The value as long as the type of its column says: cut and filled, or an error where it is longer."""
    if column.declared is None or lengths == "IGNORE":
        return value
    kind = exp.DataType.build(column.declared, dialect="sqlstream")
    if lengths == "TRIM_PAD":
        return node_of(cut_to(value, kind))
    measure = "OCTET_LENGTH" if column.type.name == "BINARY" else "CHAR_LENGTH"
    too_long = exp.GT(
        this=exp.Anonymous(this=measure, expressions=[value.copy()]), expression=kind.expressions[0].this.copy()
    )
    text = f'SS403: column "{column.name}" takes {column.declared} and got a longer value'
    raised = exp.Anonymous(this="RAISE_ERROR", expressions=[exp.Literal.string(text)])
    return exp.Case(ifs=[exp.If(this=too_long, true=raised)], default=value)


def _item(column: Column, field: Field | None, lengths: str) -> Item:
    if field is None:
        return Item(column.name, cast(exp.Null(), column.type), column.type, True)
    value: exp.Expression = field_of(field.name)
    value = value if field.type == column.type else cast(value, column.type)
    value = _with_length(value, column, lengths)
    return Item(column.name, value, column.type, field.nullable, field.time)
