"""Flink's hint /*+ LOOKUP('table' = 'c', …) */ of a SELECT, and which lookup each one speaks of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream.errors import BindError
from sqlstream.grammar.nodes import LookupAsync
from sqlstream.grammar.trees import table_clauses_of
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.binder.hints import check_tables, is_taken
from sqlstream.planner.binder.lookup_hint_options import Options, hinted, pairs_of
from sqlstream.planner.binder.lookup_options import Chosen, bind_options
from sqlstream.planner.binder.scope import Scope
from sqlstream.planner.binder.state_ttl import is_state_ttl
from sqlstream.udfs.lookup.options import Order

_NO_TABLE = "Write the alias that the table has in FROM."


@dataclass
class LookupHints:
    """The hints of one SELECT by their table; ``used`` are those that found it."""

    hints: dict[str, exp.Expr] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def options(self, right: exp.Expr, scope: Scope, context: Context, asynchronous: bool = False) -> Chosen:
        """What clause or hint say of the lookup of ``right``; without either it is ``asynchronous`` or not."""
        clause, hint = table_clauses_of(right).lookup, self._take(right)
        if clause is not None and hint is not None:
            message = f'LOOKUP ASYNC and a LOOKUP hint both say how "{right.alias_or_name}" is looked up'
            context.wrong("SS257", message, hint, "Keep one of the two.")
        if clause is not None:
            return bind_options(clause, scope, context)
        if hint is not None:
            return Chosen(hinted(Options(pairs_of(hint, context), hint, context)))
        if asynchronous:
            return Chosen(context.settings.lookup)
        return Chosen(replace(context.settings.lookup, asynchronous=False, order=Order.ORDERED))

    def _take(self, right: exp.Expr) -> exp.Expr | None:
        names = [right.alias_or_name, right.name]
        hinted = next((n.casefold() for n in names if n.casefold() in self.hints), None)
        if hinted is None:
            return None
        self.used.add(hinted)
        return self.hints[hinted]

    def finish(self, context: Context) -> None:
        """SS257 for each hint whose table nobody looked up."""
        for name, hint in self.hints.items():
            if name not in self.used:
                message = f'the LOOKUP hint names "{name}", which is no lookup join of this SELECT'
                context.wrong("SS257", message, hint, _NO_TABLE)


def misplaced_lookup(clause: LookupAsync, what: str) -> BindError:
    """SS253 where LOOKUP ASYNC stands behind what is not looked up, but needs ``what``."""
    hint = "Write JOIN c FOR SYSTEM_TIME AS OF o.pt LOOKUP ASYNC (…) ON c.id = o.id, or LATERAL TABLE(f(o.x))."
    return bind_error("SS253", f"LOOKUP ASYNC needs {what}", clause.span, hint)


def refuse_lookup_clause(source: exp.Expr, context: Context, what: str) -> None:
    clause = table_clauses_of(source).lookup
    if clause is not None:
        context.report(misplaced_lookup(clause, what))


def tables_of(select: exp.Select) -> list[str]:
    """The names that the tables of FROM have, joined ones too."""
    source = select.args.get("from_")
    first = [source.this] if source is not None else []
    joins = [join for owner in (*first, select) for join in owner.args.get("joins") or ()]
    return [table.alias_or_name for table in (*first, *(join.this for join in joins))]


def lookup_hints(select: exp.Select, context: Context) -> LookupHints:
    """The LOOKUP hints of a SELECT; STATE_TTL and those on joins and partitions have other
    readers, and others are refused."""
    hints = LookupHints()
    hint = select.args.get("hint")
    if hint is not None and not isinstance(hint, exp.Hint):
        context.refuse("hint", hint)
    for call in hint.expressions if isinstance(hint, exp.Hint) else ():
        if is_state_ttl(call):
            continue
        if is_taken(call):
            check_tables(call, tables_of(select), context)
            continue
        if not isinstance(call, exp.Anonymous) or call.name.upper() != "LOOKUP":
            context.refuse("hint", call)
            continue
        pair = pairs_of(call, context).get("table")
        table = pair.right.name.casefold() if pair is not None else None
        if table is None:
            context.wrong("SS256", "a LOOKUP hint needs the option 'table'", call, _NO_TABLE)
        elif table in hints.hints:
            context.wrong("SS257", f'"{table}" has two LOOKUP hints', call, "Keep one of them.")
        else:
            hints.hints[table] = call
    return hints
