"""Rows that stand in the query: VALUES, and SELECT without FROM, over a source of one row."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream.functions.coercion import common_type, incompatible
from sqlstream.planner.binder.completeness import refuse_rest
from sqlstream.planner.binder.context import Context, Relation, bind_error
from sqlstream.planner.binder.expressions import ClauseContext, bind, types_of
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.unions import cast
from sqlstream.planner.catalog import Column, Table
from sqlstream.planner.fields import Field
from sqlstream.planner.nodes import Correlate, Project, Scan
from sqlstream.planner.type_inference import Types
from sqlstream.types import BIGINT

WRONG_TYPES = "SS651"
WRONG_WIDTH = "SS653"

ONE_ROW = Table(
    "one row",
    (Column("row", BIGINT, nullable=False),),
    "datagen",
    (("number-of-rows", "1"), ("fields.row.kind", "sequence"), ("fields.row.start", "1"), ("fields.row.end", "1")),
    bounded=True,
)
"""What a query without a table reads."""


def one_row() -> Scope:
    """A row of which nothing has a name."""
    return Scope(Scan(ONE_ROW, ("row",)), ())


def bind_values(values: exp.Values, context: Context) -> Relation:
    """The rows in their order, with columns ``col1``, … of common types. SS651 for types that have none, SS653
    for rows of other lengths."""
    refuse_rest(values, ("expressions", "alias"), context)
    scope = one_row()
    rows = [_row(row, scope, context) for row in values.expressions]
    if len({len(row) for row in rows}) > 1:
        at = next(e for e, row in zip(values.expressions, rows, strict=True) if len(row) != len(rows[0]))
        hint = "Write as many values in each row."
        raise bind_error(WRONG_WIDTH, "rows of VALUES have different numbers of values", at, hint)
    context.stop_if_wrong()
    columns = list(zip(*rows, strict=True))
    outputs = tuple(_field(i, column, scope, context) for i, column in enumerate(columns, 1))
    types = types_of(scope, context)
    structs = [exp.Anonymous(this="NAMED_STRUCT", expressions=_members(row, outputs, types)) for row in rows]
    call = exp.Inline(this=exp.Array(expressions=structs))
    node = Correlate(scope.node, call, outputs)
    shown = Project(node, tuple(field_.as_item for field_ in outputs))
    return Relation(shown, tuple(field.name for field in outputs))


def _row(row: exp.Expr, scope: Scope, context: Context) -> list[exp.Expression]:
    values = row.expressions if isinstance(row, exp.Tuple) else [row]
    return [bind(value, scope, context, ClauseContext("VALUES")) for value in values]


def _field(position: int, column: Sequence[exp.Expression], scope: Scope, context: Context) -> Field:
    types = types_of(scope, context)
    kinds = [types.of(value) for value in column]
    name = f"col{position}"
    for value, kind in zip(column, kinds, strict=True):
        if incompatible(kinds[0], kind):
            message = f'column "{name}" of VALUES is {kinds[0]} and {kind}'
            raise bind_error(WRONG_TYPES, message, value, "Convert one of them, as in CAST(1 AS STRING).")
    return Field(name, common_type(kinds), any(types.nullable(value) for value in column))


def _members(row: Sequence[exp.Expression], outputs: Sequence[Field], types: Types) -> list[exp.Expression]:
    members: list[exp.Expression] = []
    for value, output in zip(row, outputs, strict=True):
        fits = types.of(value) == output.type or output.type.is_unknown
        members += [exp.Literal.string(output.name), value if fits else cast(value, output.type)]
    return members
