"""STATE_TTL hints: how long operators whose state does not end by itself remember rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream.errors import shortened
from sqlstream.planner.binder.context import Context
from sqlstream.planner.intervals import NotAnInterval, text_ms
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.planner.suggestions import did_you_mean

NAME = "STATE_TTL"
WRONG_HINT = "SS287"
NO_EFFECT = "SS288"

_FORM = "Write /*+ STATE_TTL('t' = '1d') */ with the alias that the table has in FROM; '0' is never."


@dataclass
class StateTtls:
    """The hints of one SELECT by table, and what holds for others; ``used``: the tables that state has asked for."""

    default_ms: int
    given: dict[str, tuple[int, exp.Expr]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def of(self, table: str) -> int:
        """How many milliseconds after their last change rows of a table in FROM are forgotten; 0: never."""
        name = table.casefold()
        self.used.add(name)
        return self.given[name][0] if name in self.given else self.default_ms

    def finish(self, tables: Iterable[str], context: Context) -> None:
        """Reports hints that nobody has asked for; ``tables`` are those of FROM."""
        names = list(tables)
        for name, (_, pair) in self.given.items():
            if name in self.used:
                continue
            if name in map(str.casefold, names):
                message = f'STATE_TTL of "{name}" has no effect: nothing here keeps rows of it without an end'
                hint = "Remove it: windows, OVER and lookups forget rows by themselves."
                context.wrong(NO_EFFECT, message, pair, hint)
            else:
                hint = did_you_mean(name, names, "tables of FROM") or _FORM
                context.wrong(WRONG_HINT, f'STATE_TTL names "{name}", which is no table of FROM', pair, hint)


def state_ttls(select: exp.Expr, context: Context) -> StateTtls:
    """Those of a SELECT; of several for one table the last one counts."""
    ttls = StateTtls(context.settings.state_ttl_ms)
    hint = select.args.get("hint")
    for call in hint.expressions if isinstance(hint, exp.Hint) else ():
        if is_state_ttl(call):
            for pair in call.expressions:
                _add(pair, ttls, context)
    return ttls


def ttl_ms_of(tables: Sequence[str], context: Context) -> int:
    """How long rows of what FROM makes of these tables are kept. Hints name single tables, not what joins make."""
    return context.ttl_of(tables[0]) if len(tables) == 1 else context.settings.state_ttl_ms


def with_time_to_live(node: Lookup, tables: Sequence[str], context: Context) -> Lookup:
    """A lookup that remembers rows of these tables does so for as long as they say."""
    return replace(node, ttl_ms=ttl_ms_of(tables, context)) if node.remembers_answers else node


def is_state_ttl(call: exp.Expr) -> bool:
    return isinstance(call, exp.Anonymous) and call.name.upper() == NAME


def _add(pair: exp.Expr, ttls: StateTtls, context: Context) -> None:
    if not isinstance(pair, exp.EQ) or not all(e.is_string for e in (pair.left, pair.right)):
        context.wrong(WRONG_HINT, "a STATE_TTL hint has tables with durations", pair, _FORM)
        return
    text = pair.right.name.strip()
    try:
        # As in Flink, a number without a unit counts milliseconds.
        ttl_ms = text_ms(f"{text} ms" if text.isascii() and text.isdigit() else text)
    except NotAnInterval:
        ttl_ms = -1
    if ttl_ms < 0:
        context.wrong(WRONG_HINT, f"'{shortened(text)}' is no duration for STATE_TTL", pair, _FORM)
        return
    ttls.given[pair.left.name.casefold()] = (ttl_ms, pair)
