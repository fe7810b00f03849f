"""Which conditions of a query hold for every row that it takes of a table: the source may check them, too."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.catalog import Table
from sqlstream.planner.expressions import as_expression, conjuncts, has_subquery, is_repeatable
from sqlstream.planner.fields import field_of

_PRESERVED = ("", "LEFT")


def conditions_of(table: Table, name: str, query: exp.Expr) -> list[exp.Expression]:
    """Conjuncts of WHERE over columns of the table alone, which Spark calls ``name``, where the query names it once.

    UNSAFE behind an outer join that fills the table's columns with NULL: WHERE sees these.
    """
    named = [own_conditions for own_conditions in query.find_all(exp.Table) if own_conditions.name == name]
    select = named[0].find_ancestor(exp.Select) if len(named) == 1 else None
    where = select.args.get("where") if select is not None else None
    if select is None or where is None or not _is_kept(named[0], select):
        return []
    columns = {c.name.casefold(): c.name for c in table.physical_columns}
    alone = not (select.args.get("joins") or select.args.get("laterals"))
    alias = named[0].alias_or_name.casefold()
    own_conditions = (_over(conjunct, alias, columns, alone) for conjunct in conjuncts(where.this))
    return [condition for condition in own_conditions if condition is not None]


def _is_kept(table: exp.Table, select: exp.Select) -> bool:
    joins = select.args.get("joins") or []
    sides = [(join.args.get("side") or "").upper() for join in joins]
    if table.parent is select.args.get("from_"):
        return all(side in _PRESERVED for side in sides) and not table.args.get("joins")
    return table.parent in joins and not any(sides) and not table.args.get("joins")


def _over(condition: exp.Expression, alias: str, columns: dict[str, str], alone: bool) -> exp.Expression | None:
    """The condition over the table's fields; None where it is about anything else."""
    if has_subquery(condition) or not is_repeatable(condition):
        return None
    copy = condition.copy()
    for column in list(copy.find_all(exp.Column)):
        own = column.table.casefold() == alias or (alone and not column.table)
        if not own or len(column.parts) > 2 or column.name.casefold() not in columns:
            return None
        field = field_of(columns[column.name.casefold()])
        if column is copy:
            return as_expression(field)
        column.replace(field)
    return as_expression(copy)
