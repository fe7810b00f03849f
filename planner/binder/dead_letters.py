"""``'on-error'``: the table that gets the dead letters of a source or of functions."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import BindError, Span
from sqlstream.grammar.spans import span_of
from sqlstream.planner.bad_rows import DEAD_LETTER_COLUMNS, OnError, action_of, unfit_columns
from sqlstream.planner.binder.context import Context
from sqlstream.planner.catalog import Catalog, Table
from sqlstream.planner.suggestions import did_you_mean

NO_TABLE = "SS240"
UNFIT_TABLE = "SS241"
OWN_TABLE = "SS242"


def on_error_of(table: Table, at: exp.Expr, context: Context) -> OnError:
    """What happens to the bad rows of a table that is read. BindError SS240, SS241, SS242."""
    action, name = action_of(table)
    if name is None:
        return OnError(action)
    letters = dead_letter_table(name, f'table "{table.name}"', context.catalog, span_of(at))
    if letters.name == table.name:
        message = f'table "{table.name}" cannot get its own bad rows'
        raise BindError(OWN_TABLE, message, span_of(at), hint="Create a table of its own for them.")
    return OnError(action, letters)


def dead_letter_table(name: str, owner: str, catalog: Catalog, span: Span | None = None) -> Table:
    """The table for the bad rows of ``owner``. BindError SS240 where there is none, SS241 where it cannot take them."""
    relation = catalog.relation(name)
    if not isinstance(relation, Table):
        what = "is a view" if relation is not None else "does not exist"
        suggestion = did_you_mean(name, catalog.relation_names())
        hint = " ".join(filter(None, (suggestion, f"CREATE TABLE {name} may have the columns {_columns()}.")))
        raise BindError(NO_TABLE, f'table "{name}" for the bad rows of {owner} {what}', span, hint=hint)
    unfit = next(unfit_columns(relation), None)
    if unfit is not None:
        message = f'table "{relation.name}" cannot take dead letters: {unfit}'
        raise BindError(UNFIT_TABLE, message, span, hint=f"All columns may be NULL; they may be {_columns()}.")
    return relation


def _columns() -> str:
    return ", ".join(f"{name} {kinds[0]}" for name, (kinds, _) in DEAD_LETTER_COLUMNS.items())
