"""Hints: ``t /*+ OPTIONS('k' = 'v') */`` gives a table other options, and those of SELECT say how to join.

What a hint of SELECT asks for is Spark's to do, in a query over finished data. A stream keeps the rows of both sides
whatever they say, so they change nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.nodes import Option, TableClauses, TableHint
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.catalog import Catalog, Table
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.suggestions import did_you_mean

NO_DYNAMIC_OPTIONS = "SS374"
NO_SUCH_TABLE = "SS375"
WRONG_OPTION = "SS376"

OF_JOINS = {
    "BROADCAST": "BROADCAST", "BROADCASTJOIN": "BROADCAST", "MAPJOIN": "BROADCAST", "SHUFFLE_HASH": "SHUFFLE_HASH",
    "MERGE": "MERGE", "MERGEJOIN": "MERGE", "SHUFFLE_MERGE": "MERGE", "SHUFFLE_REPLICATE_NL": "SHUFFLE_REPLICATE_NL",
    "NEST_LOOP": "SHUFFLE_REPLICATE_NL", "MULTI_JOIN": None,
}  # fmt: skip
"""Flink's and Spark's hints on joins, and how Spark calls them; None where it has none like it."""
OF_PARTITIONS = frozenset({"COALESCE", "REPARTITION", "REPARTITION_BY_RANGE", "REBALANCE"})
"""Spark's hints on the partitions of a result."""

_FORM = "Write t /*+ OPTIONS('key' = 'value') */."


def options_of(hint: TableHint) -> tuple[Option, ...]:
    """The options of a table's hint; of several for one key the last one counts. SS324, SS376."""
    given: dict[str, Option] = {}
    for call in hint.hint.expressions:
        if not isinstance(call, exp.Anonymous) or call.name.upper() != "OPTIONS":
            raise unsupported.refusal("hint", span_of(call) or hint.span)
        for pair in call.expressions:
            if not isinstance(pair, exp.EQ) or not all(side.is_string for side in (pair.left, pair.right)):
                raise bind_error(WRONG_OPTION, "an OPTIONS hint has options 'key' = 'value'", pair, _FORM)
            given[pair.left.name] = Option(pair.left.name, pair.right.name, span=span_of(pair) or hint.span)
    return tuple(given.values())


def optioned(table: Table, hint: TableHint | None, catalog: Catalog, enabled: bool) -> Table:
    """The table with the options of its hint in place of its own. SS374 where the setting forbids that."""
    if hint is None:
        return table
    options = options_of(hint)
    if options and not enabled:
        message = f'table "{table.name}" has an OPTIONS hint, and "table.dynamic-table-options.enabled" is "false"'
        raise bind_error(NO_DYNAMIC_OPTIONS, message, hint.span, "Write the options into WITH of its CREATE TABLE.")
    return catalog.with_options(table, options, hint.span)


def without_table(clauses: TableClauses) -> Span | None:
    """Where a hint stands that no table of the catalog takes."""
    return clauses.hint.span if clauses.hint is not None else None


def is_taken(call: exp.Expr) -> bool:
    """Whether a hint of SELECT is one on joins or partitions."""
    return name_of(call) in OF_JOINS or name_of(call) in OF_PARTITIONS


def name_of(call: exp.Expr) -> str:
    return (call.name if isinstance(call, exp.Anonymous | exp.Var) else spark_name(call) or "").upper()


def check_tables(call: exp.Expr, tables: list[str], context: Context) -> None:
    """SS375 for a table that a hint on joins names and FROM has not."""
    if name_of(call) not in OF_JOINS:
        return
    names = [name.casefold() for name in tables]
    for named in call.expressions if isinstance(call, exp.Anonymous) else ():
        if named.name.casefold() not in names:
            hint = did_you_mean(named.name, tables, "tables of FROM") or "Write the alias that the table has in FROM."
            message = f'the hint {name_of(call)} names "{named.name}", which is no table of FROM'
            context.wrong(NO_SUCH_TABLE, message, named, hint)


def for_spark(hint: exp.Hint) -> exp.Hint | None:
    """The hints on joins and partitions in Spark's words; None where none is left."""
    kept = list(_of_spark(hint))
    return exp.Hint(expressions=kept) if kept else None


def _of_spark(hint: exp.Hint) -> Iterator[exp.Expr]:
    for call in hint.expressions:
        spark = OF_JOINS.get(name_of(call), name_of(call))
        if spark is not None:
            arguments = call.expressions if isinstance(call, exp.Anonymous) else list(call.iter_expressions())
            yield exp.Anonymous(this=spark, expressions=[argument.copy() for argument in arguments])


def without_effect(query: exp.Expr) -> list[str]:
    """The hints that a stream takes and does nothing with."""
    return list(dict.fromkeys(name_of(c) for h in query.find_all(exp.Hint) for c in h.expressions if is_taken(c)))
