"""Nothing is ignored: every part of a query's syntax that its binder does not name is refused here."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.spans import span_of
from sqlstream.planner.binder.context import Context

# Where a part has a refusal of its own; the rest is "syntax".
_FEATURES: dict[str, str] = {
    "windows": "over here",
    "hint": "hint",
    "hints": "hint",
    "pivots": "pivot",
    "sample": "sample",
    "system_time": "temporal join",
    "version": "temporal join",
    "when": "temporal join",
    "recursive": "recursive",
}
_NAMES = {"with_": "WITH", "from_": "FROM", "for_": "FOR", "global_": "GLOBAL"}


def refuse_rest(node: exp.Expr, consumed: Iterable[str], context: Context) -> None:
    """Refuse each argument of ``node`` that is set and not ``consumed``."""
    bound = set(consumed)
    for key, value in node.args.items():
        if key in bound or value is None or value is False or value == []:
            continue
        feature = _FEATURES.get(key, "syntax")
        name = _NAMES.get(key, key.replace("_", " ").upper())
        detail = f"It is {name} of {type(node).__name__.upper()}." if feature == "syntax" else None
        context.refuse(feature, _at(value) or span_of(node), detail)


def _at(value: object) -> Span | None:
    first = value[0] if isinstance(value, list) and value else value
    return span_of(first) if isinstance(first, exp.Expr) else None
