"""Syntax errors with place, expectation and hint; raised inside sqlglot's parser as its own ``ParseError``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import replace

from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Diagnostic, Span
from sqlstream.grammar.depth import NESTING, TOO_DEEP, USE_VIEWS
from sqlstream.grammar.language import END, keywords, openings, readable

# --- what to write for lengths of time that are no intervals: ``5 minutes``, ``'5 minutes'`` ---------------------


EXAMPLE = "INTERVAL '5' SECOND"

_UNITS = ("MILLISECOND", "MICROSECOND", "NANOSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
_SPELLED = {unit: unit for unit in _UNITS} | {
    "MS": "MILLISECOND", "US": "MICROSECOND", "NS": "NANOSECOND", "S": "SECOND", "SEC": "SECOND", "M": "MINUTE",
    "MIN": "MINUTE", "H": "HOUR", "HR": "HOUR", "D": "DAY", "W": "WEEK",
}  # fmt: skip
_LENGTH = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def unit_of(word: str) -> str | None:
    """The unit of time that a word means: ``minutes`` and ``min`` are MINUTE; None for other words."""
    spellings = (word.upper(), word.upper().removesuffix("S"))
    return next((_SPELLED[spelling] for spelling in spellings if spelling in _SPELLED), None)


def interval_text(number: str, unit: str) -> str:
    """``INTERVAL '5' MINUTE``."""
    return f"INTERVAL '{number}' {unit}"


def interval_meant(text: str) -> str | None:
    """The interval that a text such as ``5 minutes`` means."""
    match = _LENGTH.fullmatch(text)
    unit = unit_of(match[2]) if match else None
    return interval_text(match[1], unit) if match and unit else None


UNEXPECTED, UNCLOSED, UNKNOWN_STATEMENT, ORDER, LITERAL = "SS101", "SS102", "SS103", "SS104", "SS105"
FOREIGN_STATEMENT = "SS106"
_SHOWN = 8


class SyntaxFailure(SqlglotParseError):
    """A ``Diagnostic`` on its way through sqlglot, whose backtracking catches only its own errors."""

    def __init__(self, diagnostic: Diagnostic, terminals: Iterable[str] = ()) -> None:
        super().__init__(diagnostic.message, [{}])  # sqlglot adds to the first of its errors
        self.diagnostic = diagnostic
        self.terminals = tuple(terminals)


def failure(message: str, span: Span, code: str = UNEXPECTED, hint: str | None = None) -> SyntaxFailure:
    """An error of syntax to raise inside sqlglot's parser."""
    return SyntaxFailure(Diagnostic(code, message, span, hint=hint))


def token_span(token: Token) -> Span:
    """The place of a token in the text."""
    return Span(token.start, token.end + 1)


def unexpected(token: Token | None, previous: Token | None, terminals: Iterable[str]) -> SyntaxFailure:
    """``token`` (None: the end of the statement) is none of ``terminals``."""
    wanted = tuple(terminals)
    hint = expectation(wanted)
    if meant := bare_interval(previous, token):
        return meant
    if token is not None:
        hint = _REFUSED.get(_first_word(token), hint)
        return failure(f'unexpected "{token.text}"', token_span(token), hint=hint)
    end = previous.end + 1 if previous else 0
    span = Span(max(0, end - 1), end)
    return SyntaxFailure(Diagnostic(UNEXPECTED, "unexpected end of the statement", span, hint=hint), wanted)


def too_deep(tokens: list[Token]) -> SyntaxFailure:
    """More levels of parentheses than the stack holds."""
    return failure(TOO_DEEP, token_span(tokens[0]), NESTING, USE_VIEWS)


_REFUSED = dict.fromkeys("@$", "Parameters are written ? or :name.")
_CLAUSE_WORDS = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "UNION", "SELECT", "VALUES")


def leftover(tokens: list[Token], index: int, terminals: Iterable[str] = ()) -> SyntaxFailure:
    """The token at ``index`` continues nothing; ``terminals`` would have.

    The word before it may be a misspelt keyword, or have opened a clause.
    """
    token = tokens[index]
    if meant := bare_interval(tokens[index - 1] if index else None, token):
        return meant
    word, before = token.text.upper(), tokens[index - 1].text.upper() if index else ""
    specific = _REFUSED.get(_first_word(token)) or expectation(terminals) or _begun(before)
    hint = specific or misspelt(before) or misspelt(word)
    return failure(f'unexpected "{token.text}"', token_span(token), hint=hint)


def bare_interval(number: Token | None, unit: Token | None) -> SyntaxFailure | None:
    """``5 minutes``, which lacks INTERVAL and quotes; None where the tokens are something else."""
    if number is None or unit is None or number.token_type != TokenType.NUMBER:
        return None
    meant = unit_of(unit.text)
    if meant is None:
        return None
    hint = f"Write {interval_text(number.text, meant)}."
    return failure(f'"{number.text} {unit.text}" is not an interval', Span(number.start, unit.end + 1), LITERAL, hint)


def _first_word(token: Token) -> str:
    return token.text.upper().partition(" ")[0]


def _begun(word: str) -> str | None:
    terminal = keywords().get(word, "")
    for start in ("stream_clause", "table_clause"):
        if terminal in openings(start):
            return expectation(openings(start)[terminal], f"Expected behind {word}")
    return None


def misspelt(word: str) -> str | None:
    """The clause that the upper-case word may have been meant to open."""
    close = difflib.get_close_matches(word, _CLAUSE_WORDS, 1, 0.7)
    return f"Did you mean {close[0]} instead of {word}?" if close and close[0] != word else None


def expectation(terminals: Iterable[str], lead: str = "Expected") -> str | None:
    """``Expected "A", "B" or a name.``"""
    words = sorted({readable(t) for t in terminals if t != END}, key=_keywords_first)
    if not words:
        return None
    if len(words) > _SHOWN:
        return f"{lead} {', '.join(words[:_SHOWN])} or one of {len(words) - _SHOWN} more."
    return f"{lead} {', '.join(words[:-1])} or {words[-1]}." if len(words) > 1 else f"{lead} {words[0]}."


def _keywords_first(word: str) -> tuple[int, str]:
    """Keywords, then names and the like, then punctuation."""
    return (0 if word[1:2].isalpha() and word[0] == '"' else 1 if word[0] != '"' else 2), word


_REQUIRED = re.compile(r"Required keyword: '\w+' missing for")
_EXPECTING = re.compile(r"Expect(?:ing|ed):? (.+)")


def missing(message: str, token: Token | None, previous: Token | None) -> SyntaxFailure:
    """A complaint of sqlglot's at ``token``, in our words."""
    if _REQUIRED.match(message):
        return unexpected(token, previous, ["CONDITION"])
    failure = unexpected(token, previous, [])
    wanted = _EXPECTING.match(message)
    if wanted and wanted[1].startswith("table name"):
        return unexpected(token, previous, ["TABLE_NAME"])
    hint = f"Expected {_quoted(wanted[1])}." if wanted else f"{message.rstrip('.')}."
    return SyntaxFailure(replace(failure.diagnostic, hint=hint), failure.terminals)


def _quoted(wanted: str) -> str:
    return f'"{wanted}"' if len(wanted) == 1 else wanted
