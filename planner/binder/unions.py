"""UNION, INTERSECT and EXCEPT: columns by position, widened to common types."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream.functions.coercion import common_type, incompatible
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.catalog import TimeDomain
from sqlstream.planner.fields import Field, Item, Schema
from sqlstream.planner.naming import Names, field_name, field_of
from sqlstream.planner.nodes import Project, Union
from sqlstream.planner.operators.set_operation import SetOperation
from sqlstream.types import DataType
from sqlstream.udfs.changes import SetKind

Branch = tuple[Relation, exp.Expr]


def union_all(branches: Sequence[Branch], operator: str, context: Context) -> Relation:
    """All branches projected to the names of the first and to common types. SS219. ``operator``: UNION or UNION ALL."""
    return Relation(Union(_alike(branches, operator, context)), branches[0][0].names)


def compared(left: Branch, right: Branch, kind: SetKind, context: Context) -> Relation:
    """INTERSECT or EXCEPT of two branches, projected as those of a union."""
    left_rows, right_rows = _alike((left, right), kind.value, context)
    return Relation(SetOperation(left_rows, right_rows, kind, context.settings.state_ttl_ms), left[0].names)


def _alike(branches: Sequence[Branch], operator: str, context: Context) -> tuple[Project, ...]:
    first = branches[0][0]
    for relation, at in branches[1:]:
        if len(relation.names) != len(first.names):
            message = f"{operator} needs equally many columns: {len(first.names)} and {len(relation.names)}"
            raise bind_error("SS219", message, at)
    rows = list(zip(*(relation.fields for relation, _ in branches), strict=True))
    for name, fields in zip(first.names, rows, strict=True):
        _check(name, fields, branches, operator, context)
    names = Names()
    wishes = (names.unique(field_name(n, field_of(n))) for n in first.names)
    wanted = tuple(_united(name, row) for name, row in zip(wishes, rows, strict=True))
    return tuple(_projected(relation, wanted) for relation, _ in branches)


def _check(name: str, fields: Sequence[Field], branches: Sequence[Branch], operator: str, context: Context) -> None:
    for field, (_, at) in zip(fields[1:], branches[1:], strict=True):
        if incompatible(fields[0].type, field.type):
            message = f'column "{name}" of {operator} is {fields[0].type} and {field.type}'
            context.wrong("SS219", message, at, f"Convert one of them, as in CAST({name} AS STRING).")


def _united(name: str, fields: Sequence[Field]) -> Field:
    domains: set[TimeDomain | None] = {f.time for f in fields}
    time = fields[0].time if len(domains) == 1 else None
    return Field(name, common_type(f.type for f in fields), any(f.nullable for f in fields), time)


def _projected(relation: Relation, wanted: Schema) -> Project:
    return Project(relation.node, tuple(_item(f, w) for f, w in zip(relation.fields, wanted, strict=True)))


def _item(field: Field, wanted: Field) -> Item:
    expression = field_of(field.name)
    value: exp.Expression = (
        expression if field.type == wanted.type or wanted.type.is_unknown else cast(expression, wanted.type)
    )
    return Item(wanted.name, value, wanted.type, wanted.nullable, wanted.time)


def cast(value: exp.Expression, kind: DataType) -> exp.Expression:
    return exp.Cast(this=value, to=kind.to_sqlglot())
