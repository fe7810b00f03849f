"""Hints: OPTIONS of a table; BROADCAST and its like, STATE_TTL and LOOKUP of a SELECT.

Hints on joins and partitions are Spark's to follow in a query over finished data. A stream keeps the rows of both sides
of a join whatever they say, so they change nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlglot import exp

from sqlstream.errors import BindError, Span, shortened
from sqlstream.grammar.nodes import LookupAsync, Option, TableClauses, TableHint
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import table_clauses_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.context import Context, bind_error
from sqlstream.planner.catalog import Catalog, Table
from sqlstream.planner.functions.calls import spark_name
from sqlstream.planner.intervals import NotAnInterval, text_ms
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.udfs.lookup.options import LookupOptions, Order, Retry

NO_DYNAMIC_OPTIONS = "SS374"
NO_SUCH_TABLE = "SS375"
WRONG_OPTION = "SS376"

JOIN_HINTS = {
    "BROADCAST": "BROADCAST", "BROADCASTJOIN": "BROADCAST", "MAPJOIN": "BROADCAST", "SHUFFLE_HASH": "SHUFFLE_HASH",
    "MERGE": "MERGE", "MERGEJOIN": "MERGE", "SHUFFLE_MERGE": "MERGE", "SHUFFLE_REPLICATE_NL": "SHUFFLE_REPLICATE_NL",
    "NEST_LOOP": "SHUFFLE_REPLICATE_NL", "MULTI_JOIN": None,
}  # fmt: skip
"""Flink's and Spark's hints on joins, with Spark's name; None where Spark has no such hint."""
PARTITION_HINTS = frozenset({"COALESCE", "REPARTITION", "REPARTITION_BY_RANGE", "REBALANCE"})
"""Spark's hints on the partitions of a result."""

_OPTIONS_FORM = "Write t /*+ OPTIONS('key' = 'value') */."


def options_of(hint: TableHint) -> tuple[Option, ...]:
    """Returns the options that OPTIONS hints set for a table; if a key is set several times, the last value counts.
    BindError SS324 or SS376 for a malformed hint.
    """
    given: dict[str, Option] = {}
    for call in hint.hint.expressions:
        if not isinstance(call, exp.Anonymous) or call.name.upper() != "OPTIONS":
            raise unsupported.refusal("hint", span_of(call) or hint.span)
        for pair in call.expressions:
            if not isinstance(pair, exp.EQ) or not all(side.is_string for side in (pair.left, pair.right)):
                raise bind_error(WRONG_OPTION, "an OPTIONS hint has options 'key' = 'value'", pair, _OPTIONS_FORM)
            given[pair.left.name] = Option(pair.left.name, pair.right.name, span=span_of(pair) or hint.span)
    return tuple(given.values())


def with_hinted_options(table: Table, hint: TableHint | None, catalog: Catalog, enabled: bool) -> Table:
    """Returns the table with the options of its OPTIONS hint in place of its own. BindError SS374 if the session's
    setting forbids such hints (``enabled`` is False).
    """
    if hint is None:
        return table
    options = options_of(hint)
    if options and not enabled:
        message = f'table "{table.name}" has an OPTIONS hint, and "table.dynamic-table-options.enabled" is "false"'
        raise bind_error(NO_DYNAMIC_OPTIONS, message, hint.span, "Write the options into WITH of its CREATE TABLE.")
    return catalog.with_options(table, options, hint.span)


def without_table(clauses: TableClauses) -> Span | None:
    """The span of an OPTIONS hint at a source of FROM that is not a table of the catalog, for the error that refuses it
    there. None if there is no hint.
    """
    return clauses.hint.span if clauses.hint is not None else None


def is_join_or_partition_hint(call: exp.Expr) -> bool:
    """Whether a hint of SELECT is one on joins or partitions."""
    return hint_name(call) in JOIN_HINTS or hint_name(call) in PARTITION_HINTS


def hint_name(call: exp.Expr) -> str:
    """The upper-case name of a hint."""
    return (call.name if isinstance(call, exp.Anonymous | exp.Var) else spark_name(call) or "").upper()


def check_hinted_tables(call: exp.Expr, tables: list[str], context: Context) -> None:
    """Report SS375 for a table that a hint on joins names and FROM does not have."""
    if hint_name(call) not in JOIN_HINTS:
        return
    names = [name.casefold() for name in tables]
    for named in call.expressions if isinstance(call, exp.Anonymous) else ():
        if named.name.casefold() not in names:
            hint = did_you_mean(named.name, tables, "tables of FROM") or "Write the alias that the table has in FROM."
            message = f'the hint {hint_name(call)} names "{named.name}", which is no table of FROM'
            context.wrong(NO_SUCH_TABLE, message, named, hint)


def for_spark(hint: exp.Hint) -> exp.Hint | None:
    """The hints on joins and partitions under Spark's names; None where Spark has no such hint."""
    hints: list[exp.Expr] = []
    for call in hint.expressions:
        spark = JOIN_HINTS.get(hint_name(call), hint_name(call))
        if spark is not None:
            arguments = call.expressions if isinstance(call, exp.Anonymous) else list(call.iter_expressions())
            hints.append(exp.Anonymous(this=spark, expressions=[argument.copy() for argument in arguments]))
    return exp.Hint(expressions=hints) if hints else None


def without_effect(query: exp.Expr) -> list[str]:
    """The names of the hints in a query that have no effect on a stream."""
    return list(
        dict.fromkeys(
            hint_name(c) for h in query.find_all(exp.Hint) for c in h.expressions if is_join_or_partition_hint(c)
        )
    )


# --- STATE_TTL: how long state that does not end by itself keeps a table's rows -------------------------------

STATE_TTL = "STATE_TTL"
WRONG_HINT = "SS287"
NO_EFFECT = "SS288"

_STATE_TTL_FORM = "Write /*+ STATE_TTL('t' = '1d') */ with the alias that the table has in FROM; '0' is never."


@dataclass
class StateTtls:
    """The times to live of rows in state for one SELECT: those of its STATE_TTL hints by table, and the session's
    default. ``used`` collects the tables for which some operator has asked.
    """

    default_ms: int
    given: dict[str, tuple[int, exp.Expr]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def of(self, table: str) -> int:
        """The time to live, in milliseconds after their last change, of rows of a table in FROM; 0 for no limit."""
        name = table.casefold()
        self.used.add(name)
        return self.given[name][0] if name in self.given else self.default_ms

    def finish(self, tables: Iterable[str], context: Context) -> None:
        """Report the hints that no state needs (SS288) or that name no table of FROM (SS287)."""
        names = list(tables)
        for name, (_, pair) in self.given.items():
            if name in self.used:
                continue
            if name in map(str.casefold, names):
                message = f'STATE_TTL of "{name}" has no effect: nothing here keeps rows of it without an end'
                hint = "Remove it: windows, OVER and lookups forget rows by themselves."
                context.wrong(NO_EFFECT, message, pair, hint)
            else:
                hint = did_you_mean(name, names, "tables of FROM") or _STATE_TTL_FORM
                context.wrong(WRONG_HINT, f'STATE_TTL names "{name}", which is no table of FROM', pair, hint)


def state_ttls(select: exp.Expr, context: Context) -> StateTtls:
    """Reads the STATE_TTL hints of a SELECT. If several name the same table, the last one counts."""
    ttls = StateTtls(context.settings.state_ttl_ms)
    hint = select.args.get("hint")
    for call in hint.expressions if isinstance(hint, exp.Hint) else ():
        if is_state_ttl(call):
            for pair in call.expressions:
                _add_state_ttl(pair, ttls, context)
    return ttls


def ttl_ms_of(tables: Sequence[str], context: Context) -> int:
    """The time to live, in milliseconds, of stored rows that were made of these tables. A hint names one table, so for
    joined rows it is the session's default.
    """
    return context.ttl_of(tables[0]) if len(tables) == 1 else context.settings.state_ttl_ms


def with_time_to_live(node: Lookup, tables: Sequence[str], context: Context) -> Lookup:
    """Gives a lookup the time to live of ``tables`` for the rows that it stores; unchanged if it stores none."""
    return replace(node, ttl_ms=ttl_ms_of(tables, context)) if node.remembers_answers else node


def is_state_ttl(call: exp.Expr) -> bool:
    """Whether a hint is STATE_TTL."""
    return isinstance(call, exp.Anonymous) and call.name.upper() == STATE_TTL


def _add_state_ttl(pair: exp.Expr, ttls: StateTtls, context: Context) -> None:
    if not isinstance(pair, exp.EQ) or not all(e.is_string for e in (pair.left, pair.right)):
        context.wrong(WRONG_HINT, "a STATE_TTL hint has tables with durations", pair, _STATE_TTL_FORM)
        return
    text = pair.right.name.strip()
    try:
        # As in Flink, a number without a unit counts milliseconds.
        ttl_ms = text_ms(f"{text} ms" if text.isascii() and text.isdigit() else text)
    except NotAnInterval:
        ttl_ms = -1
    if ttl_ms < 0:
        context.wrong(WRONG_HINT, f"'{shortened(text)}' is no duration for STATE_TTL", pair, _STATE_TTL_FORM)
        return
    ttls.given[pair.left.name.casefold()] = (ttl_ms, pair)


# --- LOOKUP: which lookup join each hint names ----------------------------------------------------------------

_NO_TABLE = "Write the alias that the table has in FROM."


@dataclass
class LookupHints:
    """The LOOKUP hints of one SELECT, by lower-case table name. ``used`` collects the tables whose hint a lookup join
    has read.
    """

    hints: dict[str, exp.Expr] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def take(self, right: exp.Expr) -> exp.Expr | None:
        """Returns the LOOKUP hint that names the table ``right`` by its alias or its name, and marks it as used. None
        without such a hint.
        """
        names = [right.alias_or_name, right.name]
        hinted = next((n.casefold() for n in names if n.casefold() in self.hints), None)
        if hinted is None:
            return None
        self.used.add(hinted)
        return self.hints[hinted]

    def finish(self, context: Context) -> None:
        """Report SS257 for each hint whose table no lookup join reads."""
        for name, hint in self.hints.items():
            if name not in self.used:
                message = f'the LOOKUP hint names "{name}", which is no lookup join of this SELECT'
                context.wrong("SS257", message, hint, _NO_TABLE)


def misplaced_lookup(clause: LookupAsync, what: str) -> BindError:
    """Returns the error SS253 for LOOKUP ASYNC after a source that is not looked up. ``what`` completes the message
    "LOOKUP ASYNC needs …".
    """
    hint = "Write JOIN c FOR SYSTEM_TIME AS OF o.pt LOOKUP ASYNC (…) ON c.id = o.id, or LATERAL TABLE(f(o.x))."
    return bind_error("SS253", f"LOOKUP ASYNC needs {what}", clause.span, hint)


def refuse_lookup_clause(source: exp.Expr, context: Context, what: str) -> None:
    """Report SS253 if the source has LOOKUP ASYNC."""
    clause = table_clauses_of(source).lookup
    if clause is not None:
        context.report(misplaced_lookup(clause, what))


def tables_of(select: exp.Select) -> list[str]:
    """The names of all tables in FROM, joined ones included."""
    source = select.args.get("from_")
    first = [source.this] if source is not None else []
    joins = [join for owner in (*first, select) for join in owner.args.get("joins") or ()]
    return [table.alias_or_name for table in (*first, *(join.this for join in joins))]


def lookup_hints(select: exp.Select, context: Context) -> LookupHints:
    """Collects the LOOKUP hints of a SELECT. Also reports hints with unknown names, and join hints that name tables
    missing in FROM.
    """
    hints = LookupHints()
    hint = select.args.get("hint")
    if hint is not None and not isinstance(hint, exp.Hint):
        context.refuse("hint", hint)
    for call in hint.expressions if isinstance(hint, exp.Hint) else ():
        if is_state_ttl(call):
            continue
        if is_join_or_partition_hint(call):
            check_hinted_tables(call, tables_of(select), context)
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


# --- LOOKUP: its options, with Flink's names and defaults -----------------------------------------------------

_T = TypeVar("_T")
_BOOLEAN = {"true": True, "false": False}
_ORDERS = {"ordered": Order.ORDERED, "allow_unordered": Order.UNORDERED}
_RETRY_OPTIONS = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")


def pairs_of(hint: exp.Expr, context: Context) -> dict[str, exp.EQ]:
    """Returns the options ``'key' = 'value'`` of a LOOKUP hint, as a dictionary by key. Reports SS256 for anything
    else.
    """
    pairs: dict[str, exp.EQ] = {}
    for pair in hint.expressions:
        if isinstance(pair, exp.EQ) and all(e.is_string for e in (pair.left, pair.right)):
            pairs[pair.left.name.casefold()] = pair
        else:
            context.wrong("SS256", "a LOOKUP hint has options 'key' = 'value'", pair, "Put both in single quotes.")
    return pairs


@dataclass
class HintOptions:
    """Reads the options of a LOOKUP hint one by one. ``known`` collects every key that was read, so that an error about
    an unknown key can list the valid ones.
    """

    pairs: dict[str, exp.EQ]
    at: exp.Expr
    context: Context
    known: list[str] = field(default_factory=lambda: ["table"])

    def read(self, key: str, default: _T, convert: Callable[[str], _T | None], wanted: str) -> _T:
        """Returns the value of the option ``key`` as ``convert`` makes it, or ``default`` where the hint lacks the
        option. Where ``convert`` returns None, SS256 is reported, which says that the value must be ``wanted``.
        """
        self.known.append(key)
        pair = self.pairs.get(key)
        if pair is None:
            return default
        value = convert(pair.right.name.strip())
        if value is None:
            self.wrong(f"option '{key}' of the LOOKUP hint must be {wanted}, not '{shortened(pair.right.name)}'", key)
        return default if value is None else value

    def wrong(self, message: str, key: str | None = None, hint: str | None = None) -> None:
        """Reports SS256 with this message at the option ``key`` of the hint, or at the whole hint if ``key`` is
        None.
        """
        at = self.pairs.get(key or "", self.at)
        self.context.wrong("SS256", message, span_of(at) or span_of(self.at), hint)


def hinted_options(options: HintOptions) -> LookupOptions:
    """The lookup options of a hint; the session's defaults for those that it does not set. As in Flink, the lookup is
    asynchronous unless the hint says otherwise.
    """
    default = options.context.settings.lookup
    asynchronous = _word(options, "async", _BOOLEAN, True)
    order = _word(options, "output-mode", _ORDERS, default.order)
    lookup_options = replace(
        default,
        asynchronous=asynchronous,
        order=order if asynchronous else Order.ORDERED,
        capacity=_whole(options, "capacity", default.capacity),
        timeout_ms=_duration(options, "timeout", default.timeout_ms),
        retries=_retries(options),
    )
    _word(options, "shuffle", _BOOLEAN, False)  # the tasks of a worker share one cache: equal keys need not meet
    for key in options.pairs:
        if key not in options.known:
            hint = did_you_mean(key, options.known, "options")
            options.wrong(f"the LOOKUP hint has no option '{key}'", key, hint)
    return lookup_options


def _retries(options: HintOptions) -> tuple[Retry, ...]:
    """All four options or none; 'max-attempts' counts the attempts after the first."""
    _word(options, "retry-predicate", {"lookup_miss": True}, True)
    _word(options, "retry-strategy", {"fixed_delay": True}, True)
    delay = _duration(options, "fixed-delay", 0)
    times = _whole(options, "max-attempts", 1)
    given = [key for key in _RETRY_OPTIONS if key in options.pairs]
    if not given:
        return ()
    missing = [f"'{key}'" for key in _RETRY_OPTIONS if key not in given]
    if missing:
        options.wrong(f"the LOOKUP hint retries and lacks {', '.join(missing)}", None, _RETRY_HINT)
    return (Retry(times, delay, on_miss=True, on_error=False),)


_RETRY_HINT = (
    "Write 'retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' = '10s', "
    "'max-attempts' = '3'."
)


def _word(options: HintOptions, key: str, words: dict[str, _T], default: _T) -> _T:
    return options.read(key, default, lambda text: words.get(text.lower()), " or ".join(f"'{w}'" for w in words))


_MOST_DIGITS = 9


def _whole(options: HintOptions, key: str, default: int) -> int:
    def convert(text: str) -> int | None:
        plain = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        return int(text) if plain and int(text) > 0 else None

    return options.read(key, default, convert, "a positive whole number")


def _duration(options: HintOptions, key: str, default: int) -> int:
    def convert(text: str) -> int | None:
        # As in Flink, a number without a unit counts milliseconds.
        try:
            duration_ms = text_ms(f"{text} ms" if text.isascii() and text.isdigit() else text)
        except NotAnInterval:
            return None
        return duration_ms if duration_ms > 0 else None

    return options.read(key, default, convert, "a positive duration such as '10s'")
