"""Names in the query of a view, written out, so that they mean the same wherever the view is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from sqlstream.grammar.nodes import Name, TableArgument
from sqlstream.grammar.trees import table_function_of

if TYPE_CHECKING:
    from sqlstream.catalog import Catalog


def qualified(query: exp.Expression, catalog: Catalog) -> exp.Expression:
    """A copy of the query in which tables are named with catalog and database, but for those of WITH."""
    copy = query.copy()
    own = {cte.alias.casefold() for cte in copy.find_all(exp.CTE)}
    for table in copy.find_all(exp.Table):
        _qualify(table, own, catalog)
    return copy


def _qualify(table: exp.Table, own: set[str], catalog: Catalog) -> None:
    function = table_function_of(table)
    if function is not None:
        for argument in function.arguments:
            source = argument.value.source if isinstance(argument.value, TableArgument) else None
            for inner in source.find_all(exp.Table) if source is not None else ():
                _qualify(inner, own, catalog)
        return
    if not isinstance(table.this, exp.Identifier) or (not table.db and table.name.casefold() in own):
        return
    catalog_name, database, _ = catalog.path(Name(tuple(part.name for part in table.parts)))
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("db", exp.to_identifier(database, quoted=True))
    table.set("catalog", exp.to_identifier(catalog_name, quoted=True))
