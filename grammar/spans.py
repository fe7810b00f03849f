"""Where in the script an expression stands, and how a text was quoted there.

The parser marks operands, queries and types with their whole range; sqlglot marks identifiers and function names.
Anything else is the union of its children.
"""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.nodes import Node

_WHOLE = "span"
_DOUBLE_QUOTED = "double_quoted"


def mark(expression: exp.Expr, start: int, end: int) -> None:
    """Records the characters ``start`` to ``end`` (exclusive) as the span of an expression and of everything in it."""
    expression.meta[_WHOLE] = (start, end)


def mark_as(expression: exp.Expr, written: exp.Expr) -> None:
    """Gives an expression the span of ``written``, which it replaces."""
    span = span_of(written)
    if span is not None:
        mark(expression, span.start, span.end)


def mark_double_quoted(text: exp.Expr) -> None:
    """Record that a string was written as ``"…"``, which other systems read as the name of a column."""
    text.meta[_DOUBLE_QUOTED] = True


def is_double_quoted(text: exp.Expr) -> bool:
    """True for a string that was written as ``"…"``."""
    return bool(text.meta.get(_DOUBLE_QUOTED))


def is_marked(expression: exp.Expr) -> bool:
    """True if a span was recorded for the expression itself (see ``mark``). False if only its operands have one."""
    return _WHOLE in expression.meta or "start" in expression.meta


def span_of(expression: exp.Expr) -> Span | None:
    """The range of the expression in the script it was parsed from; None where no part of it was parsed."""
    whole = expression.meta.get(_WHOLE)
    if whole is not None:
        return Span(*whole)
    carried = expression.args.get("this")
    if isinstance(carried, Node):
        return carried.span
    own = name_span_of(expression)
    spans = [s for s in map(span_of, expression.iter_expressions()) if s is not None]
    return _union([own, *spans] if own is not None else spans)


def name_span_of(expression: exp.Expr) -> Span | None:
    """The span of a name in the script: of a function without its arguments, or of an identifier."""
    meta = expression.meta
    return Span(meta["start"], meta["end"] + 1) if "start" in meta and "end" in meta else None


def _union(spans: list[Span]) -> Span | None:
    if not spans:
        return None
    first, *others = spans
    for other in others:
        first = first.to(other)
    return first
