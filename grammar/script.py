"""Scripts: split at semicolons, parse statement by statement, report with places in the whole text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Diagnostic, ParseError, Span, SqlStreamError
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.failures import UNCLOSED, UNEXPECTED, SyntaxFailure, failure, unexpected
from sqlstream.grammar.nodes import Statement
from sqlstream.grammar.parser import SqlStreamParser


def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a script; spans point into ``text``.

    :raises ParseError: with one diagnostic per wrong statement and the text attached.
    """
    statements, errors = parse_script_recovering(text)
    if errors:
        raise SqlStreamError.of(d for e in errors for d in e.diagnostics).with_source(text)
    return statements


def parse_script_recovering(text: str) -> tuple[tuple[Statement, ...], tuple[SqlStreamError, ...]]:
    """The statements that parse, and one error for each that does not."""
    statements: list[Statement] = []
    errors: list[SqlStreamError] = []
    try:
        pieces = list(split(tokenize(text)))
    except SqlStreamError as error:
        return (), (error.with_source(text),)
    for tokens in pieces:
        try:
            statements.append(_parse(text, tokens, "statement"))
        except SqlStreamError as error:
            errors.append(error.with_source(text))
    return tuple(statements), tuple(errors)


def parse_query(text: str) -> exp.Expression:
    """One query without a statement around it.

    :raises ParseError: where the text is not exactly one query.
    """
    try:
        query: exp.Expression = _parse(text, _without_trailing_semicolon(tokenize(text)), "QUERY")
        return query
    except SqlStreamError as error:
        raise error.with_source(text) from None


def tokenize(text: str) -> list[Token]:
    """sqlglot's tokens of the whole text."""
    try:
        return _dialect().tokenize(text)
    except TokenError as error:
        raise _token_error(text, error) from None


def split(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement, without semicolons; those inside EXECUTE STATEMENT SET … END stay."""
    statement: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            statement.append(token)
        elif _inside_statement_set(statement):
            statement.append(token)
        elif statement:
            yield statement
            statement = []
    if statement:
        yield statement


def _inside_statement_set(tokens: list[Token]) -> bool:
    texts = [t.text.upper() for t in tokens]
    if "STATEMENT" not in texts[:8] or texts[-1] == "END":
        return False
    start = texts.index("STATEMENT")
    return start > 0 and texts[start - 1] == "EXECUTE" and texts[start + 1 : start + 3] == ["SET", "BEGIN"]


def _without_trailing_semicolon(tokens: list[Token]) -> list[Token]:
    return tokens[:-1] if tokens and tokens[-1].token_type == TokenType.SEMICOLON else tokens


def _parse(text: str, tokens: list[Token], what: str) -> Any:
    parser = _parser(text, tokens)
    try:
        found = parser.syntax("statement") if what == "statement" else parser.sql_terminal(what)
        if parser._index < len(tokens):
            raise unexpected(tokens[parser._index], None, [])
        return found
    except SqlglotParseError as error:
        raise _located(tokens, error, parser) from None


def _parser(text: str, tokens: list[Token]) -> SqlStreamParser:
    parser = SqlStreamParser(dialect=_dialect())
    parser.reset()
    parser.sql = text
    parser._tokens = tokens
    parser._tokens_size = len(tokens)
    parser._index = -1
    parser._advance()
    return parser


@cache
def _dialect() -> SqlStream:
    return SqlStream()


def _located(tokens: list[Token], error: SqlglotParseError, parser: SqlStreamParser) -> ParseError:
    """The error at the parenthesis that was never closed, if there is one; otherwise where parsing stopped."""
    opened = _unclosed(tokens)
    if opened is not None:
        span = Span(opened.start, opened.end + 1)
        return ParseError(UNCLOSED, f'"{opened.text}" is never closed', span)
    if isinstance(error, SyntaxFailure):
        return ParseError(error.diagnostic.code, error.diagnostic.message, diagnostics=[error.diagnostic])
    raise AssertionError(str(error)) from error


def _unclosed(tokens: list[Token]) -> Token | None:
    stack: list[Token] = []
    for token in tokens:
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            stack.append(token)
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            if not stack:
                return None
            stack.pop()
    return stack[-1] if stack else None


def _token_error(text: str, error: TokenError) -> ParseError:
    diagnostic = failure(str(error).splitlines()[0], Span(0, len(text)), UNEXPECTED).diagnostic
    return ParseError(diagnostic.code, diagnostic.message, diagnostics=[diagnostic]).with_source(text)  # type: ignore[return-value]


_ = Diagnostic
