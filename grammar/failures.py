"""Syntax errors with place, expectation and hint; raised inside sqlglot's parser as its own ``ParseError``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.tokens import Token

from sqlstream.errors import Diagnostic, Span
from sqlstream.grammar.language import END, readable

UNEXPECTED, UNCLOSED, UNKNOWN_STATEMENT, ORDER, LITERAL = "SS101", "SS102", "SS103", "SS104", "SS105"
_SHOWN = 8


class SyntaxFailure(SqlglotParseError):
    """A ``Diagnostic`` on its way through sqlglot, whose backtracking catches only its own errors."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def failure(message: str, span: Span, code: str = UNEXPECTED, hint: str | None = None) -> SyntaxFailure:
    return SyntaxFailure(Diagnostic(code, message, span, hint=hint))


def token_span(token: Token) -> Span:
    return Span(token.start, token.end + 1)


def unexpected(token: Token | None, previous: Token | None, terminals: Iterable[str]) -> SyntaxFailure:
    """``token`` (None: the end of the statement) is none of ``terminals``."""
    hint = expectation(terminals)
    if token is not None:
        return failure(f'unexpected "{token.text}"', token_span(token), hint=hint)
    end = previous.end + 1 if previous else 0
    return failure("unexpected end of the statement", Span(max(0, end - 1), end), hint=hint)


def expectation(terminals: Iterable[str]) -> str | None:
    """``Expected "A", "B" or a name.``"""
    words = list(dict.fromkeys(readable(t) for t in terminals if t != END))
    if not words:
        return None
    if len(words) > _SHOWN:
        return f"Expected {', '.join(words[:_SHOWN])} or another of {len(words)} possibilities."
    return f"Expected {', '.join(words[:-1])} or {words[-1]}." if len(words) > 1 else f"Expected {words[0]}."


_REQUIRED = re.compile(r"Required keyword: '\w+' missing for")
_EXPECTING = re.compile(r"Expect(?:ing|ed):? (.+)")


def missing(message: str, token: Token | None, previous: Token | None) -> SyntaxFailure:
    """A complaint of sqlglot's at ``token``, in our words."""
    if _REQUIRED.match(message):
        return unexpected(token, previous, ["CONDITION"])
    found = unexpected(token, previous, [])
    wanted = _EXPECTING.match(message)
    hint = f"Expected {_quoted(wanted[1])}." if wanted else f"{message.rstrip('.')}."
    return SyntaxFailure(replace(found.diagnostic, hint=hint))


def _quoted(wanted: str) -> str:
    return f'"{wanted}"' if len(wanted) == 1 else wanted
