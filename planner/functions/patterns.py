"""Patterns of LIKE and of regular expressions: which argument of a call they are, and mistakes in constant ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from sqlstream.errors import Diagnostic
from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.grammar.nodes import Statement
from sqlstream.grammar.quoting import quote_string
from sqlstream.grammar.spans import span_of
from sqlstream.grammar.trees import walk
from sqlstream.planner.functions.calls import spark_name

WARNING = "SS236"

_REGEX_FUNCTIONS = frozenset(name for name, function in FUNCTIONS.items() if function.regex)

# Escapes that are characters in a text of Spark's and something else in a regular expression.
_MISTAKEN = {
    "\b": ("\\b", "a backspace", "the edge of a word"),
    "\x1a": ("\\Z", "the character 26", "the end of input"),
}


def warnings_of(statement: Statement) -> Iterator[Diagnostic]:
    """Warnings about constant patterns that are valid but probably mistakes."""
    for expression in walk(statement):
        pattern = _regex(expression)
        for text in pattern.find_all(exp.Literal) if pattern is not None else ():
            yield from _mistaken(text)


def _regex(expression: exp.Expr) -> exp.Expr | None:
    """The regular expression of a call or of RLIKE."""
    match expression:
        case exp.RegexpLike():
            regex: exp.Expr = expression.expression
            return regex
        case exp.Anonymous(expressions=[_, pattern, *_]) if spark_name(expression) in _REGEX_FUNCTIONS:
            return pattern if isinstance(pattern, exp.Expr) else None
    return None


def _mistaken(text: exp.Literal) -> Iterator[Diagnostic]:
    meant = text.name
    for character, (escape, _, _) in _MISTAKEN.items():
        meant = meant.replace(character, escape)
    for character, (escape, meaning, wanted) in _MISTAKEN.items():
        if character in text.name:
            message = f'the pattern holds {meaning}, which is what "{escape}" means in a text'
            hint = f"Write {quote_pattern(meant)} for {wanted}."
            yield Diagnostic(WARNING, message, span_of(text), hint=hint, warning=True)


# --- LIKE -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MisusedEscape:
    """A mistake in a constant pattern of LIKE: an escape character at its end, or before a character that needs no
    escape. ``behind`` is that character, empty at the end. ``better`` is the corrected pattern, as an SQL literal.
    """

    pattern: exp.Literal
    behind: str
    better: str


def misused_escape(like: exp.Expr) -> MisusedEscape | None:
    """The first pattern of LIKE in an expression with a misused escape character, which Spark refuses only when the
    query runs; None if all are right.
    """
    escape = _escape(like)
    if escape is None:
        return None

    def doubled(escaped: re.Match[str]) -> str:
        return escaped[0] if escaped[1] in ("%", "_", escape) else f"{escape}{escaped[0]}"

    for pattern in _like_patterns(like):
        pairs = re.compile(re.escape(escape) + "(.?)", re.DOTALL)
        for match in pairs.finditer(pattern.name):
            if doubled(match) != match[0]:
                return MisusedEscape(pattern, match[1], quote_pattern(pairs.sub(doubled, pattern.name)))
    return None


def quote_pattern(text: str) -> str:
    """The text as an SQL literal, without doubling backslashes where possible."""
    plain = "'" not in text and text.isprintable()
    return f"r'{text}'" if plain and "\\" in text else quote_string(text)


def _escape(like: exp.Expr) -> str | None:
    """The escape character; None where it is not a constant."""
    match like:
        case exp.Anonymous(expressions=[_, _, written, *_]):
            pass
        case _ if isinstance(like.parent, exp.Escape):
            written = like.parent.expression
        case _:
            return "\\"
    return written.name if isinstance(written, exp.Literal) and len(written.name) == 1 else None


def _like_patterns(like: exp.Expr) -> Iterator[exp.Literal]:
    """The constant patterns of LIKE, LIKE ANY and the functions of these names."""
    match like:
        case exp.Like() | exp.ILike():
            pattern = like.expression
        case exp.Anonymous(expressions=[_, pattern, *_]) if spark_name(like) in ("like", "ilike"):
            pass
        case _:
            return
    if isinstance(pattern, exp.Any | exp.All):
        argument = pattern.this
        yield from (e for e in (argument.expressions or [argument.unnest()]) if isinstance(e, exp.Literal))
    elif isinstance(pattern, exp.Literal):
        yield pattern
