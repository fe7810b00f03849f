"""What every SELECT with groups has in common: its keys below, its results and HAVING above."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.binder.aggregate_calls import Groups
from sqlstream.planner.binder.context import Context, Relation
from sqlstream.planner.binder.expressions import ClauseContext, bind, bind_condition, types_of
from sqlstream.planner.binder.grouping import Key, aliased
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.select_list import Selected
from sqlstream.planner.binder.window_properties import GroupNames
from sqlstream.planner.fields import Item
from sqlstream.planner.naming import Names, field_name
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Project, extended
from sqlstream.planner.type_inference import Types


def with_keys(grouping_keys: tuple[Key, ...], scope: Scope) -> tuple[Scope, dict[exp.Expression, str]]:
    """Grouping expressions that are no fields yet become fields of a projection."""
    keys: dict[exp.Expression, str] = {}
    unique = Names(f.name for f in scope.node.schema)
    computed: list[Item] = []
    types = Types(scope.node.schema)
    for key in grouping_keys:
        if isinstance(key.bound, exp.Column):
            keys[key.bound] = key.bound.name
        else:
            name = unique.unique(key.wish)
            computed.append(Item(name, key.bound, types.of(key.bound), types.nullable(key.bound)))
            keys[key.bound] = name
    return (scope.over(extended(scope.node, computed)) if computed else scope), keys


def result_of(
    column: Selected, scope: Scope, context: Context, clause: ClauseContext, groups: Groups
) -> exp.Expression:
    bound = column.bound if column.bound is not None else bind(column.expression, scope, context, clause)
    return groups.rewrite(bound, column.aliases[0] if column.aliases else None)


def having_of(
    select: exp.Select, scope: Scope, context: Context, special: GroupNames, groups: Groups
) -> exp.Expression | None:
    """The condition of HAVING, in which names of the select list go before those of FROM."""
    having = select.args.get("having")
    if having is None:
        return None
    inner = ClauseContext("HAVING", True, special.column, special.call)

    def names(column: exp.Column) -> exp.Expr | None:
        expression = None if column.table else aliased(column.name, select.expressions)
        return bind(expression, scope, context, inner) if expression is not None else special.column(column)

    bound = bind_condition(having.this, scope, context, ClauseContext("HAVING", True, names, special.call))
    return groups.rewrite(bound)


def projected(
    node: Node, selected: list[Selected], results: list[exp.Expression], scope: Scope, context: Context
) -> Relation:
    types = types_of(scope.over(node), context)
    names, items = Names(), []
    for column, result in zip(selected, results, strict=True):
        field = types.fields.get(result.name) if isinstance(result, exp.Column) else None
        name = names.unique(field_name(column.name, column.expression))
        time = field.time if field else None
        items.append(Item(name, result, types.of(result), types.nullable(result), time))
    return Relation(Project(node, tuple(items)), tuple(c.name for c in selected))
