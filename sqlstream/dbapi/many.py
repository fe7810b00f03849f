"""``executemany``: one INSERT of many rows where the statement is one of a single row, because each is a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from sqlglot.tokens import Token, TokenType

from sqlstream.arguments import Arguments, with_arguments
from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar.script import tokenize

_ROWS_AT_ONCE = 1000
"""So many rows are parsed and planned in about a second."""


def statements_for(operation: str, rows: Iterable[Arguments]) -> Iterator[tuple[str, Arguments | None, int]]:
    """Statements with their parameters that do ``operation`` for all rows, and of how many rows each is."""
    values = _row_of_values(operation)
    if values is None:
        yield from ((operation, row, 1) for row in rows)
        return
    head, group, tail = operation[: values.start], operation[values.start : values.end], operation[values.end :]
    incoming = iter(rows)
    while chunk := list(islice(incoming, _ROWS_AT_ONCE)):
        yield head + ", ".join(_filled(operation, group, row) for row in chunk) + tail, None, len(chunk)


def _filled(operation: str, group: str, row: Arguments) -> str:
    try:
        return with_arguments(group, row)
    except SqlStreamError:
        with_arguments(operation, row)  # the same mistake, with its place in the whole statement
        raise


def _row_of_values(operation: str) -> Span | None:
    """Where ``(?, …)`` stands in ``INSERT … VALUES (?, …)``, if the text is that and has all its parameters there."""
    try:
        tokens = tokenize(operation)
    except SqlStreamError:
        return None  # it is told when the statement is executed
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens or tokens[0].token_type != TokenType.INSERT:
        return None
    starts = [i for i, token in enumerate(tokens) if token.token_type == TokenType.VALUES]
    if len(starts) != 1 or any(_is_parameter(token) for token in tokens[: starts[0]]):
        return None
    group = tokens[starts[0] + 1 :]
    return Span(group[0].start, group[-1].end + 1) if _is_one_group(group) else None


def _is_parameter(token: Token) -> bool:
    return token.token_type in (TokenType.PLACEHOLDER, TokenType.COLON)


def _is_one_group(tokens: Sequence[Token]) -> bool:
    """Whether the first parenthesis is closed by the last token."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if token.token_type == TokenType.SEMICOLON or (depth == 0 and index < len(tokens) - 1):
            return False
    return bool(tokens) and depth == 0
