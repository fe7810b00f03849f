"""Scripts: split at semicolons, parse statement by statement, report with places in the whole text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar.depth import TooDeep, run_with_room
from sqlstream.grammar.diagnosis import diagnose, token_error, unbalanced
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.failures import leftover, too_deep
from sqlstream.grammar.nodes import Statement
from sqlstream.grammar.parser import SqlStreamParser
from sqlstream.grammar.setting_words import quoted_settings

T = TypeVar("T")


def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a script; spans point into ``text``.

    :raises ParseError: with one diagnostic per wrong statement and the text attached.
    """
    statements, errors = parse_script_recovering(text)
    if errors:
        raise SqlStreamError.of(d for e in errors for d in e.diagnostics).with_source(text)
    return statements


def parse_script_recovering(text: str) -> tuple[tuple[Statement, ...], tuple[SqlStreamError, ...]]:
    """The statements that parse, and one error for each that does not, both in the order of the text."""
    written = tuple(parse_each(text))
    statements = (one.statement for one in written if one.statement is not None)
    return tuple(statements), tuple(one.error for one in written if one.error is not None)


@dataclass(frozen=True)
class Written:
    """What stands in a script up to a semicolon: a statement, or the error of one that does not parse."""

    span: Span
    statement: Statement | None = None
    error: SqlStreamError | None = None


def parse_each(text: str) -> Iterator[Written]:
    """The statements of a script one by one; a script that is no sequence of words is one error."""
    try:
        pieces = list(split(tokenize(text)))
    except SqlStreamError as error:
        yield Written(Span(0, len(text)), error=error)
        return
    for tokens in pieces:
        span = Span(tokens[0].start, tokens[-1].end + 1)
        try:
            yield Written(span, parse_tokens(text, tokens, lambda parser: parser.syntax("statement")))
        except SqlStreamError as error:
            yield Written(span, error=error)


def parse_query(text: str) -> exp.Expression:
    """One query without a statement around it, with or without a semicolon behind it.

    :raises ParseError: where the text is not exactly one query.
    """
    tokens = tokenize(text)
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    query: exp.Expression = parse_tokens(text, tokens, lambda parser: parser.sql_terminal("QUERY"))
    return query


def tokenize(text: str) -> list[Token]:
    """sqlglot's tokens of the whole text.

    :raises ParseError: where a string, a quoted name or a comment is not closed.
    """
    try:
        return _dialect().tokenize(text)
    except TokenError as error:
        raise token_error(text, error).with_source(text) from None


def split(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement, without semicolons; those inside EXECUTE STATEMENT SET … END stay."""
    statement: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON or _inside_statement_set(statement):
            statement.append(token)
        elif statement:
            statement[-1].comments.extend(token.comments)
            yield statement
            statement = []
    if statement:
        yield statement


def _inside_statement_set(tokens: list[Token]) -> bool:
    """END right behind a semicolon ends a statement set; one elsewhere is that of a CASE."""
    words = [t.text.upper() for t in tokens[:12]]
    opened = any(words[i : i + 2] == ["STATEMENT", "SET"] for i in range(len(words)))
    ended = len(words) > 1 and tokens[-1].text.upper() == "END" and tokens[-2].token_type == TokenType.SEMICOLON
    return opened and words[:1] != ["SELECT"] and not ended


def parse_tokens(text: str, tokens: list[Token], read: Callable[[SqlStreamParser], T]) -> T:
    """What ``read`` makes of exactly these tokens of ``text``.

    :raises SqlStreamError: the mistake, with the text attached.
    """
    tokens = quoted_settings(text, tokens)
    try:
        parser, parsed = run_with_room(lambda: _read(text, tokens, read))
        if parser._index < len(tokens):
            stopped, terminals = parser.expected
            raise leftover(tokens, parser._index, terminals if stopped == parser._index else ())
    except SqlglotParseError as error:
        raise diagnose(tokens, error).with_source(text) from None
    except TooDeep:
        raise diagnose(tokens, too_deep(tokens)).with_source(text) from None
    alone = unbalanced(tokens)  # sqlglot forgives a missing parenthesis behind some functions
    if alone is not None:
        raise SqlStreamError.of([alone]).with_source(text)
    return parsed


def _read(text: str, tokens: list[Token], read: Callable[[SqlStreamParser], T]) -> tuple[SqlStreamParser, T]:
    parser = parser_at(text, tokens)
    return parser, read(parser)


def parser_at(text: str, tokens: list[Token]) -> SqlStreamParser:
    """A parser that stands at the first of the tokens, whose places point into ``text``."""
    parser = SqlStreamParser(dialect=_dialect())
    parser.stand_at(text, tokens)
    return parser


@cache
def _dialect() -> SqlStream:
    return SqlStream()
